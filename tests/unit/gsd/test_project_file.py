"""PROJECT.md, REQUIREMENTS.md and the words of requirements."""

import pytest

from orchestrator.gsd.planning import project_file, requirement_words

PROJECT = """# My App

## What This Is

It does things.

## Current Status
**Core Value:** Speed

## Requirements
### Validated
- ✓ Login — v1.0
### Active
- [ ] Search
- [ ] Filter
### Out of Scope
- Mobile — later

## Key Decisions
| Decision | Rationale | Outcome |
|----------|-----------|---------|
| Use A \\| B | Because | ✓ Good |

---
*Last updated: 2026-01-01 after x*
"""


def test_project():
    found, odd = project_file.project(PROJECT, "P")
    assert (found.name, found.what, found.core_value) == ("My App", "It does things.", "Speed")
    assert (found.validated, found.active) == (("✓ Login — v1.0",), ("Search", "Filter"))
    assert found.out_of_scope == ("Mobile — later",)
    assert [(one.decision, one.outcome) for one in found.decisions] == [("Use A | B", "✓ Good")]
    assert (found.updated, odd) == ("2026-01-01 after x", ())
    assert list(found.sections) == ["What This Is", "Current Status", "Requirements", "Key Decisions"]


def test_vision_is_what_where_there_is_no_what():
    assert project_file.project("# A\n## Vision\nbe good\n", "P")[0].what == "be good"
    assert project_file.project("", "P")[0].what == ""


REQUIREMENTS = """# Requirements
## v1.2 Requirements
### Server (SRV)
- [x] **SRV-01**: done
- [ ] **SRV-02**: open,
  on two lines
- [ ] **SRV-03:** colon inside
- [x] **SRV-04**: only the box says so
- [ ] **SRV-05**: only the table says so
- [ ] **SRV-06**: blocked
- [ ] **SRV-10**: not SRV-1
- [ ] a line without an id
## Future Requirements
### Later
- **FUT-01**: no box
- [ ] **FUT-02**: a box, and still put off
## Out of Scope
- **OUT-01**: never
| Feature | Reason |
|---|---|
| OUT-02 | no |
## Traceability
| Requirement | Phase | Status |
|---|---|---|
| SRV-01 | Phase 7 | Complete |
| SRV-02 | Phase 7, Phase 8 | In Progress |
| SRV-04 | Phase 02.1 | Pending |
| SRV-05 | 8 | ✓ Done |
| SRV-06 | Phase 8 | Blocked |
| GONE-01 | Phase 9 | Pending |
"""


def test_requirements():
    found, odd = project_file.requirements(REQUIREMENTS, "R")
    by = {one.id: one for one in found}
    assert {name: one.status for name, one in by.items()} == {
        "SRV-01": "completed", "SRV-02": "in_progress", "SRV-03": "pending", "SRV-04": "completed",
        "SRV-05": "completed", "SRV-06": "blocked", "SRV-10": "pending", "FUT-01": "deferred", "FUT-02": "deferred",
        "GONE-01": "pending",
    }  # fmt: skip
    assert by["SRV-02"].text == "open, on two lines"
    assert by["SRV-02"].phases == ("7", "8")
    assert (by["SRV-04"].phases, by["SRV-04"].category, by["SRV-04"].section) == (
        ("2.1",),
        "Server (SRV)",
        "v1.2 Requirements",
    )
    assert by["SRV-03"].text == "colon inside"
    assert "checkbox is ticked (line 8)" in by["SRV-04"].conflict
    assert "'✓ Done' (line 28)" in by["SRV-05"].conflict
    assert {(one.line, one.kind) for one in odd} == {(8, "conflict"), (9, "conflict"), (30, "odd")}


def test_a_table_of_requirements_and_doubled_ids():
    text = "## v1\n| ID | Requirement | Status |\n|---|---|---|\n| A-1 | first | Complete |\n| A-2 | next | |\n- [ ] **A-1**: again\n"
    found, odd = project_file.requirements(text, "R")
    assert [(one.id, one.text, one.status) for one in found] == [
        ("A-1", "again", "pending"),
        ("A-2", "next", "deferred"),
    ]
    assert odd[0].kind == "conflict"


def test_requirements_without_end_are_cut():
    text = "## v1\n" + "".join(f"- [ ] **A-{at}**: x\n" for at in range(project_file.REQUIREMENTS_MAX + 9))
    found, odd = project_file.requirements(text, "R")
    assert len(found) == project_file.REQUIREMENTS_MAX
    assert "more than 5000" in odd[0].what


def test_requirements_without_any_box_are_not_put_off():
    (found,), _ = project_file.requirements("## v1 Requirements\n- **A-1**: text\n", "R")
    assert found.status == "pending"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Complete", "completed"), ("✓ Complete (04-03)", "completed"), ("DONE", "completed"), ("2026-01-17", "completed"),
        ("Pending", "pending"), ("Not started", "pending"), ("Planned (05-01)", "pending"), ("Not complete", "pending"),
        ("Incomplete", "pending"), ("In Progress", "in_progress"), ("Partially done", "in_progress"),
        ("Blocked", "blocked"), ("Deferred", "deferred"), ("2/3", "in_progress"), ("3/3", "completed"), ("0/3", "pending"),
        ("-", None), ("", None), ("whatever", None), ("Abandoned", "deferred"), ("Unverified", None),
        ("✗ NOT SATISFIED", "pending"), ("❌ Not started", "pending"), ("To be completed", "pending"),
        ("⚠️ Incomplete", "pending"), ("Not done; not yet verified", "pending"), ("Done (not released)", "completed"),
        ("Unblocked", None), ("Mostly done", "in_progress"),
    ],
)  # fmt: skip
def test_states_as_people_write_them(text, status):
    assert requirement_words.status_of(text) == status


def test_ids_of_a_list():
    ids = requirement_words.listed_ids
    assert ids("[A-01, A-02]") == ("A-01", "A-02")
    assert ids("INT-01 (Embedded Server), INT-02 (SSE/WS A-9), ARCH-03 (X)") == ("INT-01", "INT-02", "ARCH-03")
    assert ids("SRV-01 to SRV-03, B-1") == ("SRV-01", "SRV-02", "SRV-03", "B-1")
    assert ids("TBD") == ids("None") == ids("A-1 to A-9999999")[1:] == ()
    assert len(ids("A-1 to A-9999")) < 3


def test_ids_match_whole_words_alone():
    found = requirement_words.words("REQ-10, (REQ-2). PRE-REQ-3 and `req-4`:")
    assert {"REQ-10", "REQ-2", "REQ-4"} <= found
    assert not {"REQ-1", "REQ-3"} & found
    assert requirement_words.words("x_REQ-5 9-REQ-6 REQ-7-, REQ-8_") == {"REQ-7", "REQ-8"}


def test_a_row_of_traceability_may_name_several_requirements_and_phases():
    boxes = "".join(f"- [ ] **A-{at}**: x\n" for at in range(1, 6))
    table = "| Requirement | Phase | Status |\n|---|---|---|\n"
    rows = (
        "| A-1, A-2 | Phase 1 and 2 | Complete |\n| A-3: its text | Phase 3 | Pending |\n| **A-4 to A-5** | 4 | |\n"
    )
    found, odd = project_file.requirements(f"{boxes}{table}{rows}| To-do | Phase 5 | x |\n", "R")
    assert [(one.id, one.status, one.phases) for one in found] == [
        ("A-1", "completed", ("1", "2")), ("A-2", "completed", ("1", "2")), ("A-3", "pending", ("3",)),
        ("A-4", "pending", ("4",)), ("A-5", "pending", ("4",)),
    ]  # fmt: skip
    assert [one.kind for one in odd] == ["conflict", "conflict"]


@pytest.mark.parametrize("name", ["`A-1`:", "**`A-1`**:", "[A-1]", "**[A-1]**:", "~~**A-1**~~:", "A-1:", "**A-1:**"])
def test_an_id_may_be_marked_up(name):
    found, odd = project_file.requirements(f"- [x] {name} text\n", "R")
    assert [(one.id, one.text, one.status) for one in found] == [("A-1", "text", "completed")]
    assert not odd
