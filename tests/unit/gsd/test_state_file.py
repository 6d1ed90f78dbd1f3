"""STATE.md, both generations, and what people write into its lines."""

import pytest

from orchestrator.gsd.planning import state_file

FIRST = """# Project State
## Project Reference
**Core value:** Speed
**Current focus:** Phase 3
## Current Position
Phase: 3 of 7 (Name (with brackets))
Plan: 2 of 4 in current phase
Status: In progress
Last activity: 2026-01-01 — did
Progress: [███░] 40%
## Accumulated Context
### Decisions
- 02-01: Use X
- [Phase 1]: Use Y
**Phase 2 (Base):**
- **D001**: Z
### Pending Todos
None yet.
### Blockers/Concerns
- real one
- ~~gone~~ - FIXED
## Session Continuity
Stopped at: Completed 03-01-PLAN.md
Next action: go on
"""


def test_the_first_generation():
    found, odd = state_file.state(FIRST, "S")
    assert (found.generation, found.phase, found.phase_total, found.phase_name) == (1, "3", 7, "Name (with brackets)")
    assert (found.plan, found.plan_total, found.state, found.percent, found.between) == (2, 4, "executing", 40, False)
    assert (found.line, found.plan_line, found.core_value) == (6, 7, "Speed")
    assert [(one.decision, one.phase) for one in found.decisions] == [
        ("Use X", "02-01"),
        ("Use Y", "1"),
        ("**D001**: Z", "2"),
    ]
    assert (found.todos, found.blockers) == ((), ("real one",))
    assert (found.stopped_at, found.next_action, odd) == ("Completed 03-01-PLAN.md", "go on", ())


def test_the_second_generation():
    text = """---
gsd_state_version: 1.0
milestone: v2.0
status: verifying
active_phase: "04.5"
next_action: verify it
next_phases: ["5"]
progress:
  total_phases: 9
  percent: 250
---
## Current Position
Phase: 4 (Old)
"""
    found, odd = state_file.state(text, "S")
    assert (found.generation, found.phase, found.state, found.milestone) == (2, "4.5", "verifying", "v2.0")
    assert (found.phase_total, found.percent, found.next_action) == (9, 100, "verify it")
    assert found.front["next_phases"] == ["5"]
    assert [(one.line, one.kind) for one in odd] == [(13, "conflict")]


@pytest.mark.parametrize(
    ("line", "phase", "name", "total", "between"),
    [
        ("Phase: 5 (Renderer Integration)", "5", "Renderer Integration", None, False),
        ("**Phase:** 02.1 of 8", "2.1", "", 8, False),
        ("Phase: PIVOT — all new", "", "", None, False),
        ("Phase: v3.0 Milestone Complete", "", "", None, True),
        ("Phase: 6 of 6 (Check) - NOT STARTED", "6", "Check", 6, False),
        ("Phase: 15-20 done", "", "", None, False),
        ("Phase: 10-metadata-database", "10", "metadata", None, False),
        ("Current Phase: 3", "3", "", None, False),
        ("Phase: ", "", "", None, False),
        ("Phase: 99999999999999999999", "", "", None, False),
    ],
)
def test_lines_of_a_phase(line, phase, name, total, between):
    found, _ = state_file.state(f"## Current Position\n{line}\n", "S")
    assert (found.phase, found.phase_name, found.phase_total, found.between) == (phase, name, total, between)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("In progress", "executing"), ("Ready to plan next milestone", "planning"), ("Paused", "paused"),
        ("Ready to execute", "executing"), ("Phase complete — ready for verification", "verifying"),
        ("Milestone complete", "completed"), ("Discussing", "discussing"), ("", "unknown"), ("??", "unknown"),
        ("Not complete", "unknown"), ("Abandoned", "unknown"), ("Incomplete", "unknown"),
    ],
)  # fmt: skip
def test_states(text, state):
    assert state_file.state_of(text) == state


def test_plans_and_a_table_of_decisions():
    found, _ = state_file.state(
        "Phase: 1\nPlan: 3 of 3 complete\n### Decisions\n| Decision | Phase | Rationale |\n|--|--|--|\n| A | 01-01 | why |\n",
        "S",
    )
    assert (found.plan, found.plan_total) == (3, 3)
    assert [(one.decision, one.phase, one.rationale) for one in found.decisions] == [("A", "01-01", "why")]
    assert state_file.state("Plan: TBD", "S")[0].plan is None
