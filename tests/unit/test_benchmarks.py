"""What `python -m benchmarks` makes of its measurements: marks, exit codes, turns of two trees, nothing left behind."""

import doctest
import importlib
import os
from pathlib import Path

import pytest

from benchmarks import __main__ as bench
from benchmarks import cycles, figures, growth, profile, trees
from benchmarks.figures import MISSED, Figure
from benchmarks.project import private_env
from benchmarks.trees import ROOT, GroupRun, Tree
from tests.support.stage import until

SLOW, FAST = Figure("ms", "a call", "ms", at_most=5), Figure("rate", "calls", "/s", at_least=400)


@pytest.mark.parametrize("module", [figures, growth])
def test_the_examples_are_true(module):
    told = doctest.testmod(module)
    assert told.attempted > 0
    assert told.failed == 0


@pytest.mark.parametrize("name", bench.GROUPS)
def test_a_group_has_rounds_and_figures_of_different_keys(name):
    module = importlib.import_module(f"benchmarks.{name}")
    keys = [figure.key for figure in module.FIGURES]
    assert len(set(keys)) == len(keys) > 0
    assert callable(module.rounds)


@pytest.mark.parametrize(
    ("figure", "values", "missed"),
    [
        (SLOW, [4.0, 5.0, 90.0], False),
        (SLOW, [4.0, 5.1, 5.2], True),
        (FAST, [1.0, 400.0, 401.0], False),
        (FAST, [399.0], True),
        (FAST, [], True),
        (Figure("x", "only shown"), [], False),
    ],
)
def test_the_median_is_held_against_the_bound(figure, values, missed):
    assert figure.missed(values) is missed
    assert (MISSED in figures.columns(figure, values, None)) is missed


def test_two_trees_are_compared_round_by_round():
    assert figures.columns(SLOW, [2.0, 4.0], [4.0, 16.0]) == [
        "a call", "10.0 (4.00..16.0) ms", "3.00 (2.00..4.00) ms", "0.38 (0.25..0.50)", "<= 5 ms", "",
    ]  # fmt: skip
    assert figures.columns(SLOW, [2.0], []) == ["a call", "not comparable", "2.00 ms", "", "<= 5 ms", ""]


class PretendedRun:
    """In place of a process: gives what it is told and notes who was asked when."""

    asked: list[str] = []  # noqa: RUF012  (one list of all)
    interrupted = False
    closed: list[bool] = []  # noqa: RUF012

    def __init__(self, tree, group, place):
        self.name = tree.root.name
        (place / "left").mkdir(exist_ok=True)
        self.failed = ""

    def measure(self):
        if self.interrupted:
            raise KeyboardInterrupt
        self.asked.append(self.name)
        if self.name == "broken":
            self.failed = "TypeError: another interface"
            return {}
        return {"help": 300.0, "version": 10.0, "status": 10.0, "daemon_status": 10.0}

    def close(self, *, at_once=False):
        self.closed.append(at_once)


@pytest.fixture
def pretended(monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "GroupRun", PretendedRun)
    monkeypatch.setenv("BENCH_DIR", str(tmp_path))
    monkeypatch.setattr(PretendedRun, "asked", [])
    monkeypatch.setattr(PretendedRun, "closed", [])
    return tmp_path


def checkout(root: Path) -> Path:
    (root / "orchestrator").mkdir(parents=True)
    for name in ("__init__", "__main__"):
        (root / "orchestrator" / f"{name}.py").touch()
    return root


def rows(text, what):
    return [line for line in text.splitlines() if line.strip().startswith(what)]


def test_a_missed_figure_is_marked_and_only_strict_makes_it_an_error(pretended, capsys):
    assert bench.main(["commands"]) == 0
    out = capsys.readouterr().out
    assert MISSED in rows(out, "orchestrator --help")[0]
    assert MISSED not in rows(out, "orchestrator --version")[0]
    assert bench.main(["commands", "--strict"]) == 1
    assert list(pretended.glob("orchestrator-bench-*")) == []


def test_a_group_that_fails_is_an_error_and_the_others_go_on(pretended, monkeypatch, capsys):
    monkeypatch.setattr(bench, "ROOT", checkout(pretended / "broken"))
    assert bench.main(["tmux", "recovery"]) == 1
    assert capsys.readouterr().out.count("TypeError: another interface") == 2


def test_the_trees_have_their_rounds_in_turn_and_begin_in_turn(pretended):
    other = checkout(pretended / "other")
    assert bench.main(["commands", "--rounds", "3", "--against", str(other)]) == 0
    this = ROOT.name
    assert PretendedRun.asked == [this, "other", "other", this, this, "other"]


def test_what_the_other_tree_cannot_do_is_not_comparable_and_no_error(pretended, capsys):
    other = checkout(pretended / "broken")
    assert bench.main(["commands", "--against", str(other)]) == 0
    assert "not comparable" in rows(capsys.readouterr().out, "orchestrator --help")[0]


def test_ctrl_c_ends_both_runs_at_once_and_leaves_nothing(pretended, monkeypatch):
    monkeypatch.setattr(PretendedRun, "interrupted", True)
    assert bench.main(["commands", "--against", str(checkout(pretended / "other"))]) == 130
    assert PretendedRun.closed == [True, True]
    assert list(pretended.glob("orchestrator-bench-*")) == []


@pytest.mark.parametrize("arguments", [["nothing"], ["--rounds", "0"], ["--against", "/nowhere"]])
def test_a_wrong_argument_is_refused(arguments, capsys):
    with pytest.raises(SystemExit) as refused:
        bench.main(arguments)
    assert refused.value.code == 2


def test_a_checkout_with_another_python_is_not_compared(pretended, capsys):
    other = checkout(pretended / "other")
    python = other / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho 3.11.2 of somebody else\n")
    python.chmod(0o755)
    with pytest.raises(SystemExit):
        bench.main(["commands", "--against", str(other)])
    assert "different Pythons" in capsys.readouterr().err


def test_what_is_started_writes_and_reads_bytecode(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert "PYTHONDONTWRITEBYTECODE" not in private_env(tmp_path)
    assert "PYTHONDONTWRITEBYTECODE" not in Tree(ROOT).env


def test_a_tree_without_an_interpreter_of_its_own_gets_this_one_and_its_package(tmp_path):
    tree = Tree(checkout(tmp_path / "other"))
    assert tree.env["PYTHONPATH"].split(os.pathsep)[0] == str(tree.root)
    run = GroupRun(tree, "cycles", tmp_path)
    assert run.measure() == {}
    run.close()
    assert run.failed.startswith("ModuleNotFoundError: No module named 'orchestrator.")


@pytest.mark.tmux
def test_a_round_is_measured_in_a_process_of_its_own(tmp_path):
    run = GroupRun(Tree(ROOT), "tmux", tmp_path)
    try:
        assert run.measure()["list_processes"] == 1
    finally:
        run.close()
    assert run.failed == ""


def test_a_process_of_the_run_that_is_left_is_ended(tmp_path):
    import subprocess

    left = subprocess.Popen(["sleep", "600"], env={**os.environ, "BENCH_DIR": str(tmp_path)})
    until(lambda: f"BENCH_DIR={tmp_path}".encode() in Path(f"/proc/{left.pid}/environ").read_bytes())
    trees.end_left_processes(tmp_path)
    assert left.wait(30) < 0


def test_the_raw_loop_does_the_counted_work(tmp_path):
    work, done = cycles.Work(), cycles.Work()
    work.sizes, work.syncs = [300] * 130, [None] * 70
    with done.counted():
        assert cycles.raw(tmp_path, 2, 15, work) > 0
    assert (len(done.sizes), len(done.syncs)) == (130, 70)
    assert set(done.sizes) == {300}


@pytest.mark.parametrize(
    ("innermost_first", "group"),
    [
        (["/v/lib/json/encoder.py", "/v/site-packages/mcp/server/x.py", "/t/orchestrator/daemon/a.py"], "sdk"),
        (["/v/lib/asyncio/events.py", "/v/lib/asyncio/base_events.py"], "loop"),
        (["/v/lib/selectors.py", "/v/lib/asyncio/base_events.py"], "threads"),
        (["/t/orchestrator/.venv/lib/site-packages/structlog/x.py", "/t/orchestrator/team/roster/a.py"], "team"),
        (["/v/lib/site-packages/orchestrator/base/clock.py"], "other"),
        (["/v/lib/runpy.py"], "unknown"),
    ],
)
def test_a_sample_belongs_to_the_innermost_package_that_is_known(innermost_first, group):
    assert profile.group_of(innermost_first) == group
