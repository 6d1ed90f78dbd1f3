"""What must not be seen by other users of the machine: a task passes it to its command in a file, not in `ps`."""

import json
import os
import signal
import stat
from pathlib import Path

import psutil
import pytest

from tests.integration.test_worker import LIMIT_S, NEVER_S, Bench, opened
from tests.support.stage import until

SECRET = "hunter2-" + "9f" * 8
# Reads its secret from the task file, says so, and stays until it may go.
READS = (
    "import json, os, pathlib, time\n"
    "given = json.loads(pathlib.Path(os.environ['ORCHESTRATOR_TASK_FILE']).read_text())['input']['token']\n"
    "pathlib.Path('read').write_text(given)\n"
    "while not pathlib.Path('go').exists():\n"
    "    time.sleep(0.02)\n"
)
HOLDS = "echo up > up; until [ -e go ]; do sleep 0.02; done"


@pytest.fixture
def bench(tmp_path):
    with opened(tmp_path) as bench:
        yield bench


def command_lines() -> list[bytes]:
    """What `ps` shows to every user: the command line of every process there is."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                found.append((place / "cmdline").read_bytes())
            except OSError:
                continue
    return found


def shown(text: str = SECRET) -> bool:
    return any(text.encode() in line for line in command_lines())


def task_files(bench: Bench) -> list[Path]:
    return sorted((bench.root / ".agents/agents/lint/engine").glob("task-*"))


def at_work(bench: Bench, payload: dict) -> tuple:
    """A worker whose command has come as far as it does alone; and the command's task files."""
    process = bench.start([bench.task("t-1", payload)])
    mark = bench.root / ("read" if "input" in payload else "up")
    bench.until(lambda: mark.exists() and mark.read_text(), "the command never started")
    return process, task_files(bench)


def let_go(bench: Bench, process) -> dict:
    (bench.root / "go").touch()
    assert process.wait(LIMIT_S) == 0, bench.pane.read_text(errors="replace")
    return bench.events()[-1]


def test_an_input_reaches_its_command_and_no_command_line(bench):
    (bench.root / "job.py").write_text(READS)
    payload = {"command": "python3 job.py", "input": {"token": SECRET}}
    process, files = at_work(bench, payload)
    assert (bench.root / "read").read_text() == SECRET
    assert not shown()
    assert [json.loads(file.read_text()) for file in files] == [payload]
    assert let_go(bench, process)["type"] == "result"
    bench.until(lambda: not task_files(bench), "task files are left")


def test_a_private_command_is_run_and_stands_in_no_command_line(bench):
    process, _ = at_work(bench, {"command": f": {SECRET}; {HOLDS}", "private": True})
    assert not shown()
    assert let_go(bench, process)["type"] == "result"
    bench.until(lambda: not task_files(bench), "task files are left")


def test_any_other_command_stands_in_ps_so_the_tests_above_can_fail(bench):
    process, _ = at_work(bench, {"command": f": {SECRET}; {HOLDS}"})
    assert shown()
    let_go(bench, process)


def test_the_variables_of_a_task_stand_in_no_command_line(bench):
    process, _ = at_work(
        bench, {"command": f'[ "$T" = {SECRET[:7]}"${{T#hunter2}}" ] && {HOLDS}', "env": {"T": SECRET}}
    )
    assert not shown()
    let_go(bench, process)


def test_task_files_are_readable_by_their_user_alone(bench):
    before = os.umask(0)
    try:
        process, files = at_work(bench, {"command": HOLDS, "private": True})
    finally:
        os.umask(before)
    assert [file.suffix for file in files] == [".json", ".sh"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(files[0].parent.stat().st_mode) == 0o700
    let_go(bench, process)


def test_every_end_of_a_task_removes_its_files(bench):
    bench.limits["CANCEL_LADDER"] = [(signal.SIGINT, LIMIT_S)]
    kept = "ls .agents/agents/lint/engine | grep -c task-; "
    done = bench.finish(
        [
            bench.task("well", {"command": kept, "private": True}),
            bench.task("badly", {"command": kept + "exit 3"}),
            bench.task("late", {"command": kept + "exec sleep 99", "timeout_s": 5}),
            bench.task("canceled", {"command": kept + "exec sleep 99"}),
        ],
        cancel_on={"canceled": "progress"},
    )
    assert [e["type"] for e in done] == ["result", "error", "error", "canceled"]
    assert [e["payload"]["last_lines"][:1] for e in done] == [["2"], ["1"], ["1"], ["1"]]
    bench.until(lambda: not task_files(bench), "task files are left")


def test_kill_9_of_the_worker_removes_the_files_with_the_command(bench):
    process, files = at_work(bench, {"command": HOLDS, "private": True})
    assert len(files) == 2
    process.kill()
    bench.nothing_left()
    bench.until(lambda: not task_files(bench), "task files are left")


def test_the_name_of_the_project_is_no_pattern(tmp_path):
    root = tmp_path / "a *\n; [b]"
    root.mkdir()
    (tmp_path / "a task-1").write_text("not ours")
    with opened(root) as bench:
        process, files = at_work(bench, {"command": HOLDS, "private": True})
        assert len(files) == 2
        process.kill()
        bench.nothing_left()
        bench.until(lambda: not task_files(bench), "task files are left")
    assert (tmp_path / "a task-1").exists()


def test_kill_9_of_the_worker_and_its_guard_leaves_the_files_to_the_next_life(bench):
    process, files = at_work(bench, {"command": HOLDS, "private": True})
    children = psutil.Process(process.pid).children
    guard = bench.until(
        lambda: next((p for p in children() if "while read -r next" in " ".join(p.cmdline())), None), "no guard"
    )
    guard.kill()
    process.kill()
    process.wait()
    assert task_files(bench) == files
    (bench.root / "kept").write_text("not ours")
    (files[0].parent / "task-link.json").symlink_to(bench.root / "kept")
    assert bench.finish([]) == []
    bench.until(lambda: not task_files(bench), "task files are left")
    assert (bench.root / "kept").read_text() == "not ours"
    bench.nothing_left()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_worker_removes_the_files(bench, number):
    process, _ = at_work(bench, {"command": HOLDS, "private": True})
    process.send_signal(number)
    assert process.wait(LIMIT_S) == 128 + number
    bench.until(lambda: not task_files(bench), "task files are left")


def test_the_file_of_another_task_is_never_named(bench, monkeypatch):
    """A worker that was started below a task of another agent has that task's variable in its environment."""
    monkeypatch.setenv("ORCHESTRATOR_TASK_FILE", "/of/another/task")
    says = 'echo "${ORCHESTRATOR_TASK_FILE:-none}"'
    one, two = bench.finish(
        [
            bench.task("one", {"command": says}),
            bench.task("two", {"command": says, "env": {"ORCHESTRATOR_TASK_FILE": "/of/another/task"}}),
        ]
    )
    assert one["payload"]["last_lines"][0].startswith(str(bench.root))
    assert two["payload"]["code"] == "bad_payload"


def test_where_the_file_cannot_be_written_only_a_task_that_needs_it_is_refused(bench, monkeypatch):
    monkeypatch.setenv("ORCHESTRATOR_TASK_FILE", "/of/another/task")
    (bench.root / ".agents/agents/lint").mkdir(parents=True)
    (bench.root / ".agents/agents/lint/engine").write_text("a file where a directory should be")
    done = bench.finish(
        [
            bench.task("plain", {"command": 'echo "${ORCHESTRATOR_TASK_FILE:-none}"'}),
            bench.task("private", {"command": "touch ran", "private": True}),
            bench.task("input", {"command": "touch ran", "input": 1}),
        ]
    )
    assert [(e["type"], e["payload"].get("code")) for e in done] == [
        ("result", None), ("error", "start_failed"), ("error", "start_failed"),
    ]  # fmt: skip
    assert done[0]["payload"]["last_lines"] == ["none"]
    assert not (bench.root / "ran").exists()


def test_a_private_command_behaves_as_any_other(bench):
    bench.limits["REPORT_EVERY_S"] = NEVER_S
    long = "x" * 140_000
    done = bench.finish(
        [
            bench.task("status", {"command": "echo no; exit 7", "private": True}),
            bench.task("killed", {"command": "kill -KILL $$", "private": True}),
            bench.task("stdin", {"command": "cat; echo $?", "private": True}),
            bench.task("lines", {"command": "echo one\nif true; then\n echo two; fi", "private": True}),
            bench.task("long", {"command": f": {long}; echo done", "private": True}),
            bench.task("text", {"command": "echo \ud800", "private": True}),
            bench.task("no", {"command": "true", "private": "yes"}),
        ]
    )
    assert [(e["task_id"], e["payload"].get("code"), e["payload"].get("last_lines")) for e in done] == [
        ("status", "exit_status", ["no"]),
        ("killed", "signal", []),
        ("stdin", None, ["0"]),
        ("lines", None, ["one", "two"]),
        ("long", None, ["done"]),  # a command line would be too short for it
        ("text", "start_failed", None),
        ("no", "bad_payload", None),
    ]
    assert done[0]["payload"]["exit_code"] == 7
    bench.until(lambda: not task_files(bench), "task files are left")


def test_nothing_of_the_product_shows_a_private_task_while_it_runs(stage):
    """From the master's call to the pane: relay, daemon, tmux, worker and command."""
    master = stage.begun()
    master.tool("agent_create", {"name": "unit", "role": "r", "engine": "shell"})
    command = f"printf %s {SECRET} > up; until [ -e go ]; do sleep 0.02; done"
    payload = {"command": command, "private": True, "input": [SECRET]}
    master.tool("task_enqueue", {"agent_id": "unit", "task": {"task_id": "t-1", "payload": payload}})
    until(lambda: (stage.root / "up").exists() and (stage.root / "up").read_text() == SECRET)
    assert not shown()
    (stage.root / "go").touch()
    until(lambda: master.tool("agent_get", {"agent_id": "unit"})["meta"]["finished"]["result"] == 1)
    assert list((stage.root / ".agents/agents/unit/engine").glob("task-*")) == []
