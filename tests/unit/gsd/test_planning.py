"""The store: what of a tree is opened and kept; whole trees, real ones and broken ones."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.gsd.planning import tree as module
from orchestrator.gsd.planning.phase_files import place
from orchestrator.gsd.planning.tree import PlanningStore, parsed
from tests.support.gsd_trees import TREES, unpack, write

BASIC = {
    ".planning/ROADMAP.md": "### Phase 1: A\n### Phase 2: B\n",
    ".planning/phases/01-a/01-01-PLAN.md": "---\nplan: 01\n---\n",
    ".planning/phases/01-a/01-01-SUMMARY.md": "---\nplan: 01\n---\n",
    ".planning/phases/02-b/CLAUDE.md": "x",
}


class Later:
    """A clock so far ahead that every stamp is settled."""

    def now(self):
        return datetime.now(UTC) + timedelta(hours=1)


@pytest.fixture
def tree(tmp_path):
    return write(tmp_path / "p", BASIC)


def counts(planning):
    return (
        len(planning.phases), sum(len(one.plans) for one in planning.phases),
        sum(len(one.summaries) for one in planning.phases), len(planning.past),
        sum(len(one.plans) for one in planning.past), len(planning.requirements), len(planning.past_requirements),
        planning.files,
    )  # fmt: skip


# Counted in the trees with ls and grep, not by this code.
REAL = {
    "gsd-v1.9.1": (5, 6, 6, 0, 0, 10, 0, 15),
    "mlx-manager": (10, 0, 0, 6, 14, 42, 29, 48),
    "pike-lsp": (0, 0, 0, 14, 25, 0, 63, 72),
    "to-tui": (10, 27, 26, 5, 15, 51, 20, 148),
}


@pytest.mark.parametrize("name", TREES)
def test_real_trees(name, tmp_path):
    store = PlanningStore(unpack(name, tmp_path))
    found = store.read()
    assert counts(found) == REAL[name]
    assert store.read() is found
    assert all(one.must_haves.truths and one.tasks for phase in (*found.phases, *found.past) for one in phase.plans)
    assert not [one for one in found.troubles if one.kind == "unreadable"]


def test_facts_of_real_trees(tmp_path):
    pike = PlanningStore(unpack("pike-lsp", tmp_path)).read()
    assert [(one.milestone, one.number) for one in pike.past][:7] == [
        *(("v1", str(n)) for n in range(1, 7)),
        ("v3.0", "10"),
    ]
    third = pike.past[2]
    assert "**" in third.directory
    assert (third.ladder, len(third.plans), third.verification.status) == ("complete", 4, "passed")
    assert [(one.version, one.shipped) for one in pike.milestones] == [
        ("v1", "2026-01-20"), ("v2", "2026-01-21"), ("v3.0", "2026-01-23"),
    ]  # fmt: skip
    assert any("more than one directory" in one.what for one in pike.troubles)
    tui = PlanningStore(unpack("to-tui", tmp_path)).read()
    assert [one.ladder for one in tui.phases] == ["complete"] * 9 + ["partial"]
    assert tui.past[0].name == "Clipboard Support"
    assert [one.id for one in tui.requirements if one.status == "pending"] == ["MIGR-01", "MIGR-02", "MIGR-03"]
    mlx = PlanningStore(unpack("mlx-manager", tmp_path)).read()
    assert [one.id for one in mlx.requirements if one.conflict] == ["PROD-01", "PROD-02", "PROD-03", "PROD-04"]
    assert mlx.config["mode"] == "yolo"


def test_quick_tasks_are_no_phases_of_the_project(tmp_path):
    found = PlanningStore(unpack("to-tui", tmp_path)).read()
    assert len(found.quick) == 11 and all(one.ladder == "complete" for one in found.quick)
    last = found.quick[-1]
    assert (last.number, last.name) == (
        "quick/7-add-logs-link-to-copy-logfile-path-to-cl", "add logs link to copy logfile path to cl",
    )  # fmt: skip
    assert last.goal.startswith("Add a keybinding that copies the log file path")
    assert [one.file for one in last.summaries] == [f".planning/{last.number}/7-SUMMARY.md"]
    assert not any(one.directory.startswith(".planning/quick") for one in (*found.phases, *found.past))
    root = write(tmp_path / "p", {".planning/quick/260301-k2x-fix-it/260301-k2x-PLAN.md": "---\nplan: 1\n---\n"})
    assert [(one.name, one.ladder, one.goal) for one in PlanningStore(root).read().quick] == [
        ("fix it", "planned", "")
    ]


def test_no_planning_and_an_empty_one(tmp_path):
    assert PlanningStore(tmp_path).read() is None
    (tmp_path / ".planning").mkdir()
    found = PlanningStore(tmp_path).read()
    assert (found.phases, found.state, found.project, found.troubles, found.files) == ((), None, None, (), 0)


def test_phases_of_directories_alone(tmp_path):
    files = {f".planning/phases/{name}": "x" for name in (
        "CK-03-third/PLAN.md", "01-a/plans/PLAN-01-x.md", "01-a/plans/SUMMARY-01-y.md", "02.1-b/02.1-CONTEXT.md",
        "02-c/RESEARCH.md", "notes/x.md", "04-d/CLAUDE.md",
    )}  # fmt: skip
    found = PlanningStore(write(tmp_path, files)).read()
    assert [(one.number, one.name, one.ladder) for one in found.phases] == [
        ("1", "a", "complete"), ("2", "c", "researched"), ("2.1", "b", "discussed"), ("3", "third", "planned"),
        ("4", "d", "empty"),
    ]  # fmt: skip


def test_a_change_is_seen_and_nothing_else_read(tree, monkeypatch):
    store = PlanningStore(tree, Later())
    first = store.read()
    assert [one.ladder for one in first.phases] == ["complete", "empty"]
    monkeypatch.setattr(module, "_content", lambda _: pytest.fail("a settled file was read again"))
    assert store.read() is first
    monkeypatch.undo()
    (tree / ".planning/phases/01-a/01-01-SUMMARY.md").unlink()
    second = store.read()
    assert [one.ladder for one in second.phases] == ["planned", "empty"]
    (tree / ".planning/phases/03-c").mkdir()
    assert [one.number for one in store.read().phases] == ["1", "2", "3"]


def test_a_change_of_the_same_size_and_date_is_seen(tree):
    file = tree / ".planning/ROADMAP.md"
    store = PlanningStore(tree)
    before = file.stat()
    assert store.read().phases[0].name == "A"
    file.write_text(file.read_text().replace(": A", ": C"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert store.read().phases[0].name == "C"


def test_a_change_within_one_tick_of_the_file_systems_clock_is_seen(tree, monkeypatch):
    now = int(datetime.now(UTC).timestamp() * 1e9)
    monkeypatch.setattr(module, "_stamp", lambda found: (1, now, now, found.st_size))
    store = PlanningStore(tree)
    first = store.read()
    assert store.read() is first
    write(tree, {".planning/ROADMAP.md": BASIC[".planning/ROADMAP.md"].replace(": A", ": C")})
    assert store.read().phases[0].name == "C"


def test_of_two_directories_of_a_phase_that_with_files_counts(tmp_path):
    root = write(tmp_path, {".planning/phases/01-a/CLAUDE.md": "", ".planning/phases/01-b/01-01-PLAN.md": ""})
    found = PlanningStore(root).read()
    assert [(one.directory, len(one.plans)) for one in found.phases] == [(".planning/phases/01-b", 1)]
    assert [one.kind for one in found.troubles if "more than one directory" in one.what] == ["conflict"]


def test_the_youngest_archive_claims_a_directory(tmp_path):
    head = "# Milestone v0\n### Phase 1: X\n"
    root = write(tmp_path, {
        ".planning/milestones/v1-ROADMAP.md": head, ".planning/milestones/v2-ROADMAP.md": head,
        ".planning/phases/01-a/01-01-PLAN.md": "",
    })  # fmt: skip
    found = PlanningStore(root).read()
    assert [(one.milestone, len(one.plans)) for one in found.past] == [("v1", 0), ("v2", 1)]


def test_a_file_that_vanishes_is_as_if_it_had_not_been_there(tree, monkeypatch):
    real = module._content

    def gone(path):
        if path.endswith("SUMMARY.md"):
            Path(path).unlink()
        return real(path)

    monkeypatch.setattr(module, "_content", gone)
    found = PlanningStore(tree).read()
    assert (found.phases[0].ladder, found.troubles) == ("planned", ())


def test_a_file_that_changes_while_it_is_read_is_read_again(tree, monkeypatch):
    real, times = os.read, []

    def growing(descriptor, size):
        chunk = real(descriptor, size)
        if chunk.startswith(b"### Phase 1") and len(times) < 2:
            times.append(1)
            with (tree / ".planning/ROADMAP.md").open("a") as file:
                file.write(f"### Phase {7 + len(times)}: N\n")
        return chunk

    monkeypatch.setattr(module.os, "read", growing)
    assert [one.number for one in PlanningStore(tree).read().phases] == ["1", "2", "8", "9"]


def test_only_regular_files_inside_the_project_are_opened(tree, tmp_path):
    base = tree / ".planning"
    os.mkfifo(base / "STATE.md")
    outside = write(tmp_path / "outside", {"PROJECT.md": "# Secret\n", "03-x/03-01-PLAN.md": ""})
    (base / "PROJECT.md").symlink_to(outside / "PROJECT.md")
    (base / "phases/03-x").symlink_to(outside / "03-x")
    (base / "phases/04-loop").symlink_to("../phases")
    (base / "REQUIREMENTS.md").symlink_to("REQUIREMENTS.md")
    (base / "phases/01-a/01-CONTEXT.md").symlink_to("01-01-PLAN.md")
    (base / "MILESTONES.md").write_bytes(b"x" * (module.FILE_MAX + 1))
    (base / "config.json").mkdir()
    found = PlanningStore(tree).read()
    assert (found.project, found.state, found.requirements) == (None, None, ())
    assert {one.file.removeprefix(".planning/"): one.what.partition(";")[0] for one in found.troubles} == {
        "STATE.md": "it is no regular file", "PROJECT.md": "a link leads out of the project, or in a circle",
        "REQUIREMENTS.md": "it cannot be opened: Too many levels of symbolic links",
        "phases/03-x": "a link leads out of the project, or in a circle",
        "MILESTONES.md": f"it has {module.FILE_MAX + 1} bytes",
    }  # fmt: skip
    assert found.phases[0].context.endswith("01-CONTEXT.md")
    assert "Secret" not in repr(found)


def test_what_may_not_be_opened_is_told_and_costs_itself_alone(tree, monkeypatch):
    real = os.open

    def refusing(path, *rest, **more):
        if str(path).endswith("ROADMAP.md"):
            raise PermissionError(13, "Permission denied")
        return real(path, *rest, **more)

    write(tree, {".planning/config.json": '{"mode": "yolo"}'})
    monkeypatch.setattr(module.os, "open", refusing)
    store = PlanningStore(tree)
    found = store.read()
    assert [(one.file, one.kind) for one in found.troubles] == [(".planning/ROADMAP.md", "unreadable")]
    assert (found.phases[0].ladder, found.config["mode"]) == ("complete", "yolo")
    assert store.read() is found
    monkeypatch.undo()
    assert store.read().troubles == ()


def test_a_planning_that_is_a_link_out_of_the_project(tree, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / ".planning").symlink_to(tree / ".planning")
    found = PlanningStore(other).read()
    assert (found.phases, found.files, [one.file for one in found.troubles]) == ((), 0, [".planning"])


def test_names_bytes_and_json_that_are_not_what_they_should_be(tmp_path):
    root = write(tmp_path, {
        ".planning/STATE.md": b"\xef\xbb\xbfPhase: 1\r\nStatus: \xff\xfe bad\r\n",
        ".planning/PROJECT.md": b"# A\x00B\n", ".planning/config.json": '{"mode":\n oops}',
        ".planning/ROADMAP.md": "### Phase 1: \u202eRTL\n",
    })  # fmt: skip
    (root / ".planning/phases" / os.fsdecode(b"0\xff-x")).mkdir(parents=True)
    found = PlanningStore(root).read()
    assert (found.state.phase, found.project.name, found.phases[0].name) == ("1", "AB", "\u202eRTL")
    assert [(one.file[10:], one.line, one.kind) for one in found.troubles] == [
        ("PROJECT.md", 1, "odd"), ("STATE.md", 2, "odd"), ("config.json", 2, "unreadable"), ("phases", 0, "unreadable"),
    ]  # fmt: skip
    repr(found).encode()


def test_too_many_files_are_told(tree, monkeypatch):
    monkeypatch.setattr(module, "FILES_MAX", 2)
    found = PlanningStore(tree).read()
    assert found.files == 2
    assert "more than 2 files" in found.troubles[0].what


def test_one_archive_in_three_places(tmp_path):
    root = write(tmp_path, {
        ".planning/ROADMAP.md": "- **v1.0 Old** — Phases 1-2 (shipped 2026-01-01)\n### Phase 3: New\n",
        ".planning/milestones/v1.0-ROADMAP.md": "# Milestone v1.0\n### Phase 1: One\n**Completed**: 2026-01-01\n### Phase 2: Two\n",
        ".planning/milestones/v1.0-phases/01-one/01-01-PLAN.md": "", ".planning/phases/02-two/02-01-PLAN.md": "",
        ".planning/phases/03-new/03-CONTEXT.md": "",
    })  # fmt: skip
    found = PlanningStore(root).read()
    assert [(one.number, one.ladder) for one in found.phases] == [("3", "discussed")]
    assert [(one.milestone, one.number, one.box, one.directory[10:]) for one in found.past] == [
        ("v1.0", "1", True, "milestones/v1.0-phases/01-one"), ("v1.0", "2", None, "phases/02-two"),
    ]  # fmt: skip
    assert [(one.version, one.shipped) for one in found.milestones] == [("v1.0", "2026-01-01")]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    out = []
    for name in ("gsd-v1.9.1", "pike-lsp"):
        base = unpack(name, tmp_path_factory.mktemp(name)) / ".planning"
        for path in sorted(base.rglob("*")):
            where = path.is_file() and place(str(path.relative_to(base)))
            if where:
                out.append((where, path.read_bytes()))
    return out


GARBAGE = st.sampled_from([
    b"", b"\xff", b"\0", b"---\n", b"\n- ", b"|", b"<task>", b"# Phase 1: ", b"**", b"`" * 3, b"&a *a", b"[" * 50, b": ", b"\r",
    "\u202e✓\u2028".encode(), b"9" * 5000, b"- [x] **A-1**: ", b"| Requirement | Phase | Status |\n|-|-|-|\n| A-1 | 1 | x |\n",
])  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_mutation_raises(texts, data):
    where, content = data.draw(st.sampled_from(texts))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        till = data.draw(st.integers(at, min(len(content), at + 200)))
        content = content[:at] + data.draw(GARBAGE) + content[till:]
    found = parsed(content[: data.draw(st.integers(0, len(content)))], "f", where)
    assert len(repr(found)) < 40 * len(content) + 20_000
    repr(found).encode()


def test_an_archive_in_two_places_is_one(tmp_path):
    base = ".planning/milestones"
    plan = "---\nplan: 01\n---\n"
    write(tmp_path, {
        f"{base}/v1.0-ROADMAP.md": "# Milestone v1.0\n### Phase 1: One\n**Goal**: g\n",
        f"{base}/v1.0-REQUIREMENTS.md": "- [x] **A-1**: first\n", f"{base}/v1.0-first/phases/01-one/01-01-PLAN.md": plan,
        f"{base}/v1.0-other/phases/01-two/01-01-PLAN.md": plan, f"{base}/\u00b2/phases/01-odd/01-01-PLAN.md": plan,
    })  # fmt: skip
    found = PlanningStore(tmp_path).read()
    told = [(one.milestone, one.name, one.goal, len(one.plans)) for one in found.past]
    assert told == [("\u00b2", "odd", "", 1), ("v1.0", "two", "", 1), ("v1.0", "One", "g", 1)]
    assert [one.id for one in found.past_requirements] == ["A-1"]


def test_a_summary_is_of_one_plan_alone_that_beside_it_first(tmp_path):
    quick, phases = ".planning/quick/260301-k2x-a/260301-k2x", ".planning/phases"
    write(tmp_path, dict.fromkeys((
        f"{quick}-01-PLAN.md", f"{quick}-02-PLAN.md", f"{quick}-01-SUMMARY.md",
        f"{phases}/01-a/01-01-PLAN.md", f"{phases}/01-b/01-01-PLAN.md", f"{phases}/01-b/01-01-SUMMARY.md",
    ), ""))  # fmt: skip
    found = PlanningStore(tmp_path).read()
    (task,), (phase,) = found.quick, found.phases
    assert [bool(one.summary) for one in task.plans] == [True, False]
    assert {one.file: bool(one.summary) for one in phase.plans} == {
        f"{phases}/01-a/01-01-PLAN.md": False,
        f"{phases}/01-b/01-01-PLAN.md": True,
    }
    assert (task.complete, phase.complete) == (False, False)


def test_files_that_could_not_be_read_are_not_counted_as_read(tree):
    before = PlanningStore(tree).read().files
    write(
        tree,
        {".planning/PROJECT.md": "x" * (module.FILE_MAX + 1), ".planning/config.json": "{", ".planning/STATE.md": ""},
    )
    found = PlanningStore(tree).read()
    assert (found.files, len(found.troubles)) == (before + 1, 2)
