"""Which phase is under way, what comes next, and who says something else."""

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.gsd.planning import phases
from orchestrator.gsd.planning.phase_answers import phase_of
from orchestrator.gsd.planning.tree import PlanningStore
from tests.support.gsd_trees import unpack, write

DONE = {"01-a/01-01-PLAN.md": "", "01-a/01-01-SUMMARY.md": ""}


def tree(root, *, state="", roadmap="", files=()):
    named = {f".planning/phases/{name}": "" for name in files}
    top = {".planning/STATE.md": state, ".planning/ROADMAP.md": roadmap}
    write(root, {**named, **{name: text for name, text in top.items() if text}, ".planning/x": ""})
    return PlanningStore(root).read()


def told(planning):
    found = phases.truth(planning)
    return (
        found.current.number if found.current else None,
        found.following.number if found.following else None,
        found.by,
    )


LIST = "- [x] **Phase 1: A**\n- [ ] **Phase 2: B**\n- [ ] **Phase 3: C**\n- [ ] **Phase 4: D**\n"


@pytest.mark.parametrize(
    ("state", "roadmap", "files", "expected"),
    [
        # STATE.md's phase, if it exists and is incomplete
        ("Phase: 3 of 4\n", LIST, (*DONE, "02-b/02-01-PLAN.md"), ("3", "4", "STATE.md")),
        # else the disk: complete, unknown, none
        ("Phase: 1 of 4\n", LIST, (*DONE, "02-b/02-01-PLAN.md"), ("2", "3", "disk")),
        ("Phase: 9 of 4\n", LIST, (*DONE, "02-b/02-01-PLAN.md"), ("2", "3", "disk")),
        ("", "", (*DONE, "02-b/02-01-PLAN.md", "03-c/03-CONTEXT.md"), ("2", "3", "disk")),
        # nothing planned yet
        ("", LIST, tuple(DONE), (None, "2", "")),
        # between milestones
        ("Phase: v1 Milestone Complete\n", LIST.replace("[ ]", "[x]"), tuple(DONE), (None, None, "")),
        ("", "", tuple(DONE), (None, None, "")),
        # what is put off is neither
        (
            "",
            LIST + "| Phase | Plans | Status |\n|-|-|-|\n| 2. B | 0/1 | Deferred |\n",
            ("02-b/02-01-PLAN.md",),
            (None, "3", ""),
        ),
        # a roadmap's tick wins over the disk
        ("", LIST.replace("[ ] **Phase 2", "[x] **Phase 2"), ("02-b/02-01-PLAN.md",), (None, "3", "")),
        # inserted phases by number
        ("", "", ("02-b/02-01-PLAN.md", "02.1-x/02.1-RESEARCH.md", "10-y/10-CONTEXT.md"), ("2", "2.1", "disk")),
    ],
)
def test_the_truth(tmp_path, state, roadmap, files, expected):
    assert told(tree(tmp_path, state=state, roadmap=roadmap, files=files)) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gsd-v1.9.1", ("5", None, "STATE.md")), ("mlx-manager", (None, None, "")), ("pike-lsp", (None, None, "")),
        ("to-tui", ("15", None, "STATE.md")),
    ],
)  # fmt: skip
def test_the_truth_of_real_trees(name, expected, tmp_path):
    assert told(PlanningStore(unpack(name, tmp_path)).read()) == expected


def test_disagreements_have_their_places(tmp_path):
    found = tree(
        tmp_path,
        state="# S\nPhase: 1 of 7 (A)\nPlan: 5 of 5\nStatus: In progress\n",
        roadmap="- [x] **Phase 1: A**\n- [x] **Phase 2: B**\n- [ ] **Phase 3: C**\n",
        files=(*DONE, "02-b/02-01-PLAN.md", "03-c/03-01-PLAN.md", "03-c/03-01-SUMMARY.md", "08-h/x"),
    )
    said = [
        (one.phase, [(at.file.removeprefix(".planning/"), at.line) for at in one.said])
        for one in phases.truth(found).disagreements
    ]
    assert said == [
        ("1", [("STATE.md", 2), ("ROADMAP.md", 1), ("phases/01-a", 0)]),
        ("", [("STATE.md", 2), (".planning", 0)]),
        ("1", [("STATE.md", 3), ("phases/01-a", 0)]),
        ("2", [("ROADMAP.md", 2), ("phases/02-b", 0)]),
        ("3", [("ROADMAP.md", 3), ("phases/03-c", 0)]),
        ("8", [("phases/08-h", 0), ("ROADMAP.md", 0)]),
    ]


def test_disagreements_of_real_trees(tmp_path):
    def disagreements(name):
        return phases.truth(PlanningStore(unpack(name, tmp_path)).read()).disagreements

    def said(name):
        return [one.what for one in disagreements(name)]

    assert said("gsd-v1.9.1") == ["the roadmap's checkboxes and the summaries of phase 5 differ for 05-01"]
    assert said("mlx-manager") == [
        "STATE.md says that phase 15 is under way, but it is complete",
        "STATE.md counts 20 plans in phase 15, there are 16",
    ]
    complete = disagreements("mlx-manager")[0].said[1]  # by its row in the table, not by its heading
    assert (complete.file, complete.line, complete.says) == (".planning/ROADMAP.md", 324, "complete (Complete)")
    assert said("pike-lsp") == []
    assert said("to-tui") == [
        "the roadmap says 'Not started' of phase 15, but some of its plans are done",
        "the roadmap's checkboxes and the summaries of phase 15 differ for 15-01, 15-02",
    ]


def test_a_state_that_names_no_phase_is_no_disagreement(tmp_path):
    found = tree(tmp_path, state="Phase: PIVOT — new\n", roadmap=LIST, files=(*DONE, "02-b/02-01-PLAN.md"))
    assert told(found) == ("2", "3", "disk")
    assert phases.truth(found).disagreements == ()


def test_between_milestones_with_a_phase_left_over(tmp_path):
    found = tree(tmp_path, state="Phase: Milestone v1 complete\n", roadmap=LIST, files=("02-b/02-01-PLAN.md",))
    assert told(found) == ("2", "3", "disk")
    assert "phase 2 is not" in phases.truth(found).disagreements[0].what


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2", "2"), ("02", "2"), ("Phase 2", "2"), ("phase 02", "2"), ("2.1", "2.1"), ("02.1", "2.1"), ("2.1-fix", "2.1"),
        ("02-b", "2"), (".planning/phases/02-b/", "2"), ("fix it", "2.1"), (" 2 ", "2"), ("v9 2", None), ("7", None),
        ("", None), ("../..", None), ("..", None), ("\0", None), ("9" * 5000, None), ("\ud800", None),
    ],
)  # fmt: skip
def test_finding_a_phase(tmp_path, text, number):
    found = tree(tmp_path, files=("02-b/x", "02.1-fix-it/x"))
    one = phases.find(found, text)
    assert (one.number if one else None) == number
    assert phases.near(found, text)


@pytest.mark.parametrize(
    ("text", "near"),
    [("99", "3 4 5 6 7"), ("0", "1 2 3 4 5"), ("4.5", "3 4 5 6 7"), ("ing", "7"), ("zz", "1 2 3 4 5")],
)
def test_the_phases_around_a_number_are_near_it(tmp_path, text, near):
    names = ("a", "b", "c", "d", "e", "f", "ring")
    found = tree(tmp_path, files=[f"{n:02}-{name}/x" for n, name in enumerate(names, 1)])
    assert [one.partition(" ")[0] for one in phases.near(found, text)] == near.split()
    with pytest.raises(BadRequest, match="the project has phases 1 to 7; near are"):
        phase_of(found, text)


def test_finding_an_archived_phase(tmp_path):
    tui = PlanningStore(unpack("to-tui", tmp_path)).read()
    assert phases.find(tui, "v1.0 phase 2").name == "Scrolling & Mouse Support"
    assert phases.find(tui, "v2.0 phase 2") is None
    pike = PlanningStore(unpack("pike-lsp", tmp_path)).read()
    assert phases.find(pike, "3").milestone == "v1"
    assert phases.near(pike, "Parser") == ["2 Parser Module"]


def test_a_plan_that_is_neither_ticked_nor_there_is_no_disagreement(tmp_path):
    roadmap = "### Phase 1: A\nPlans:\n- [x] 01-01: a\n- [ ] 01-02: b\n- [ ] 01-03: c\n"
    planning = tree(tmp_path, roadmap=roadmap, files=(*DONE, "01-a/01-02-PLAN.md"))
    assert phases.truth(planning).disagreements == ()
