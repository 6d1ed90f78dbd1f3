"""Files of a phase: what they are by their names, and what PLAN, SUMMARY, VERIFICATION and UAT say."""

import pytest

from orchestrator.gsd.planning import phase_files, summary_file, verification_file
from orchestrator.gsd.planning.phase_files import Place, place


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("PROJECT.md", ("project", "", "", "")),
        ("config.json", ("config", "", "", "")),
        ("phases/01-a/01-02-PLAN.md", ("plan", "", "phases/01-a", "01-02")),
        ("phases/02.1-x/02.1-01-SUMMARY.md", ("summary", "", "phases/02.1-x", "02.1-01")),
        ("phases/12A-x/12A-03-PLAN.md", ("plan", "", "phases/12A-x", "12A-03")),
        ("phases/CK-01-name/CK-01-02-PLAN.md", ("plan", "", "phases/CK-01-name", "01-02")),
        ("phases/01-a/01-02-some-words-PLAN.md", ("plan", "", "phases/01-a", "01-02")),
        ("phases/01-a/PLAN.md", ("plan", "", "phases/01-a", "")),
        ("phases/01-a/SUMMARY.md", ("summary", "", "phases/01-a", "")),
        ("phases/01-a/01-PLAN.md", ("plan", "", "phases/01-a", "")),
        ("phases/01-a/02-PLAN.md", ("plan", "", "phases/01-a", "01-02")),
        ("phases/01-a/plans/PLAN-01-words.md", ("plan", "", "phases/01-a", "01-01")),
        ("phases/01-a/plans/SUMMARY-01-other.md", ("summary", "", "phases/01-a", "01-01")),
        ("quick/005-x/005-PLAN.md", ("plan", "", "quick/005-x", "005")),
        ("quick/260301-k2x-y/260301-k2x-SUMMARY.md", ("summary", "", "quick/260301-k2x-y", "260301-k2x")),
        ("quick/7-x/SUMMARY.md", ("summary", "", "quick/7-x", "")),
        ("phases/01-a/01-foundation-VERIFICATION.md", ("verification", "", "phases/01-a", "")),
        ("phases/01-a/01-UAT.md", ("uat", "", "phases/01-a", "")),
        ("phases/01-a/CONTEXT.md", ("context", "", "phases/01-a", "")),
        ("phases/03-x**---y/03-RESEARCH.md", ("research", "", "phases/03-x**---y", "")),
        ("milestones/v1.1-ROADMAP.md", ("roadmap", "milestones/v1.1", "", "")),
        ("milestones/v1.1-REQUIREMENTS.md", ("requirements", "milestones/v1.1", "", "")),
        ("milestones/v1-n/ROADMAP.md", ("roadmap", "milestones/v1-n", "", "")),
        (
            "milestones/v1-n/phases/01-a/01-01-PLAN.md",
            ("plan", "milestones/v1-n", "milestones/v1-n/phases/01-a", "01-01"),
        ),
        (
            "milestones/v1.0-phases/01-a/01-01-PLAN.md",
            ("plan", "milestones/v1.0", "milestones/v1.0-phases/01-a", "01-01"),
        ),
    ],
)
def test_places(path, found):
    assert place(path) == Place(*found)


@pytest.mark.parametrize(
    "path",
    [
        "phases/01-a/CLAUDE.md", "phases/01-a/01-01-OUTLINE.md", "phases/01-a/01-01-PLAN.pre-bounce.md",
        "phases/CLAUDE.md", "phases/notes/01-01-PLAN.md", "quick/7-x/deep/SUMMARY.md", "quick/SUMMARY.md", "quick/7-x/notes.md", "research/SUMMARY.md",
        "phases/01-a/x/y/01-01-PLAN.md", "phases/01-a/x/PLAN.md", "milestones/PROJECT.md", "milestones/x.md",
        "v1.1-MILESTONE-AUDIT.md", "intel/summary.md", "phases/01-a/01-01-OUTLINE-OUTLINE.md", "phases", "",
    ],
)  # fmt: skip
def test_what_is_left_out(path):
    assert place(path) is None


PLAN = """---
phase: 02-x
plan: 01
type: tdd
wave: 2
depends_on: ["01-01", 02]
files_modified: [src/a.ts, src/b.ts]
autonomous: false  # checkpoint
gap_closure: true
requirements: [A-01]
must_haves:
  truths:
    - "Users can log in"
    - Unquoted: with a colon
  artifacts:
    - path: src/a.ts
      provides: "Login"
      min_lines: 30
      exports: ["GET", "POST"]
      contains: ["model A", "model B"]
    - src/b.ts - bare
  key_links:
    - {from: src/a.ts, to: /api/x, via: fetch, pattern: "fetch.*x"}
---
<objective>
Build A-01.

Purpose: x
</objective>
<tasks>
<task type="auto">
  <name>Task 1: Do</name>
  <files>src/a.ts, `src/b.ts`</files>
  <action>
  Act
  </action>
  <verify>test</verify>
  <done>it works</done>
</task>
<task type="checkpoint:human-verify" gate="blocking">
  <what-built>A page</what-built>
</task>
<task type="auto"><name>Task 3</name>
</tasks>
"""


def test_a_plan():
    found, odd = phase_files.plan(PLAN, "f", Place("plan", "", "phases/02-x", "02-01"))
    assert (found.id, found.phase, found.number, found.type, found.wave) == ("02-01", "2", "01", "tdd", 2)
    assert (found.depends_on, found.files_modified) == (("01-01", "02"), ("src/a.ts", "src/b.ts"))
    assert (found.autonomous, found.gap_closure, found.requirements) == (False, True, ("A-01",))
    assert found.must_haves.truths == ("Users can log in", "Unquoted: with a colon")
    first, second = found.must_haves.artifacts
    assert (first.path, first.provides, first.min_lines, first.exports) == ("src/a.ts", "Login", 30, ("GET", "POST"))
    assert (first.contains, first.also) == ("model A", ("model B",))
    assert (second.path, second.provides) == ("src/b.ts", "bare")
    (link,) = found.must_haves.key_links
    assert (link.source, link.target, link.via, link.pattern) == ("src/a.ts", "/api/x", "fetch", "fetch.*x")
    assert found.objective.startswith("Build A-01.")
    assert [(one.name, one.type, one.line) for one in found.tasks] == [
        ("Task 1: Do", "auto", 31), ("A page", "checkpoint:human-verify", 40), ("Task 3", "auto", 43),
    ]  # fmt: skip
    assert (found.tasks[0].files, found.tasks[0].action, found.tasks[0].done) == (
        ("src/a.ts", "src/b.ts"),
        "Act",
        "it works",
    )
    assert odd == ()


def test_tasks_that_share_a_line_are_counted_each():
    text = '---\nplan: 01\n---\n<tasks><task type="tdd"><name>A</name></task><task><name>B</name></task>\n<task>\n'
    text += "<name>C</name>\n</task><task><name>D</name></task></tasks>\n"
    found, _ = phase_files.plan(text, "f", Place("plan", "", "phases/02-x", "02-01"))
    assert [(one.name, one.type, one.line) for one in found.tasks] == [
        ("A", "tdd", 4), ("B", "auto", 4), ("C", "auto", 5), ("D", "auto", 7),
    ]  # fmt: skip


def test_plans_without_a_name_or_a_head():
    bare = Place("plan", "", "phases/03-x", "")
    assert phase_files.plan("---\nplan: 02\n---\n", "f", bare)[0].id == "03-02"
    assert phase_files.plan("---\nplan: 03-04\n---\n", "f", bare)[0].id == "03-04"
    found, odd = phase_files.plan("# Plan\n## Goal\nDo it\n### Task 1: First\nact\n", "f", bare)
    assert (found.id, found.objective.partition("\n")[0], [one.name for one in found.tasks]) == (
        "03-01",
        "Do it",
        ["First"],
    )
    assert [one.line for one in odd] == [1]


def summary(text):
    return summary_file.summary(text, "f", Place("summary", "", "phases/02-x", "02-01"))


def test_a_summary():
    found, odd = summary(
        "---\nsubsystem: auth\ntags: [a, b]\nrequires:\n  - phase: 01-x\n    provides: [y, z]\n  - w\nprovides: [p]\n"
        "affects: [03]\ntech-stack:\n  added: [jose]\n  patterns: [pp]\nkey-files:\n  created: [n.ts]\n  modified: [o.ts]\n"
        'key-decisions:\n  - "D1: x"\n  - D2: y\npatterns-established: [q]\nrequirements-completed: [A-01]\n'
        "duration: 4min\ncompleted: 2026-01-01\n---\n# Phase 2 Summary\n\n**One line**\n\n## Accomplishments\n- a\n"
    )
    assert (found.plan_id, found.title, found.one_liner, found.subsystem) == (
        "02-01",
        "Phase 2 Summary",
        "One line",
        "auth",
    )
    assert (found.tags, found.requires, found.provides) == (("a", "b"), ("01-x: y, z", "w"), ("p",))
    assert (found.tech_added, found.created, found.modified) == (("jose",), ("n.ts",), ("o.ts",))
    assert (found.decisions, found.patterns, found.requirements) == (("D1: x", "D2: y"), ("q",), ("A-01",))
    assert (found.duration, found.completed, dict(found.body), odd) == (
        "4min",
        "2026-01-01",
        {"Accomplishments": "- a"},
        (),
    )


def test_the_other_heads_of_a_summary():
    found, _ = summary(
        "---\ndependency_graph:\n  requires:\n    - phase: 01\n      provides: [x]\n  provides: [p]\ntech_stack:\n  added: [t]\n"
        "files-created: [c]\nfiles-modified: [m]\nmetrics:\n  duration: 3 min\n  completed: d\none_liner: short\n"
        "decisions:\n  - id: a\n    choice: Use A\n    rationale: fast\n---\n# T\n**One-liner:** long\n"
    )
    assert (found.requires, found.provides, found.tech_added) == (("01: x",), ("p",), ("t",))
    assert (found.created, found.modified, found.duration, found.completed) == (("c",), ("m",), "3 min", "d")
    assert (found.one_liner, found.decisions) == ("short", ("Use A — fast",))


def test_a_summary_without_a_head():
    found, odd = summary(
        "# Done\n\n**One-liner:** did it\n\n## Files Modified\n**Created:**\n- `src/n.ts` - new\n**Modified:**\n- src/o.ts: x\n"
        "## Requirements Satisfied\n- A-01: text\n## Decisions Made\nNone - followed plan\n"
    )
    assert (found.one_liner, found.created, found.modified) == ("did it", ("src/n.ts",), ("src/o.ts",))
    assert (found.requirements, found.decisions) == (("A-01",), ())
    assert len(odd) == 1


VERIFICATION = """---
verified: 2026-01-01T00:00:00Z
status: gaps_found
score: 1/2 must-haves verified
gaps:
  - truth: "Second"
    status: failed
    reason: "no file"
human_verification:
  - test: "Look"
    expected: x
---
| # | Truth | Status | Evidence |
|---|---|---|---|
| 1 | First | ✓ VERIFIED | a.ts:1 |
| 2 | Second | ✗ FAILED | |
| Artifact | Expected | Status | Details |
|---|---|---|---|

| Artifact | Path | Status | Details |
|---|---|---|---|
| A | `src/a.ts` | STUB | 3 lines |

| From | To | Via | Status | Details |
|---|---|---|---|---|
| a | b | c | WIRED | d |

| Requirement | Status | Blocking Issue |
|---|---|---|
| A-01: text | SATISFIED | - |
"""


def test_a_verification():
    found, odd = verification_file.verification(VERIFICATION, "f")
    assert (found.status, found.score, found.gaps, found.human) == (
        "gaps_found", "1/2 must-haves verified", ("Second — no file",), ("Look",),
    )  # fmt: skip
    assert [(one.what, one.status, one.evidence, one.line) for one in found.truths[:2]] == [
        ("First", "✓ VERIFIED", "a.ts:1", 15), ("Second", "✗ FAILED", "", 16),
    ]  # fmt: skip
    assert [(one.what, one.status, one.evidence) for one in found.artifacts] == [("src/a.ts", "STUB", "3 lines")]
    assert [(one.what, one.status, one.evidence) for one in found.key_links] == [("a → b (c)", "WIRED", "d")]
    assert [(one.what, one.status, one.evidence) for one in found.requirements] == [("A-01: text", "SATISFIED", "")]
    assert odd == ()
    assert verification_file.verification("**Status:** Human Needed\n", "f")[0].status == "human_needed"
    assert verification_file.verification("---\nstatus: odd one\n---\n", "f")[0].status == "odd one"


def test_the_coverage_of_requirements_may_be_a_list():
    text = (
        "### Requirements Coverage\n\nMapped:\n- A-01: Parsing ✓ SATISFIED  \n- **A-02**: Writing — ✗ BLOCKED (no disk)\n"
        "- A-03: nothing is said\n- all verified\n- A-04: NOT SATISFIED\n"
    )
    found = verification_file.verification(text, "f")[0].requirements
    assert [(one.what, one.status, one.evidence, one.line) for one in found] == [
        ("A-01: Parsing", "✓ SATISFIED", "", 4), ("A-02: Writing", "✗ BLOCKED", "no disk", 5),
        ("A-04", "NOT SATISFIED", "", 8),
    ]  # fmt: skip


def test_the_lines_of_truths():
    head = (
        '---\nmust_haves:\n  truths:\n    - "Quoted: yes"\n    - Plain\n    - >-\n      Folded\n      over two\n---\n'
    )
    found = phase_files.plan(head, "f", phase_files.Place("plan", "", "phases/01-a", "01-01"))[0].must_haves
    assert list(zip(found.truths, found.lines, strict=True)) == [
        ("Quoted: yes", 4),
        ("Plain", 5),
        ("Folded over two", 0),
    ]


def test_a_uat():
    text = (
        "---\nstatus: diagnosed\n---\n## Tests\n### 1. Log in\nexpected: e\nresult: pass\n### 2. Log out\nexpected: e2\n"
        'result: issue\nreported: "does not"\n### 3. Later\nexpected: e3\nresult: [pending]\n## Gaps\n- truth: "T"\n'
        '  status: failed\n  reason: "R"\n'
    )
    found, odd = verification_file.uat(text, "f")
    assert [(one.what, one.status, one.evidence, one.line) for one in found.tests] == [
        ("Log in", "pass", "e", 5), ("Log out", "issue", "does not", 8), ("Later", "pending", "e3", 12),
    ]  # fmt: skip
    assert (found.status, found.gaps, odd) == ("diagnosed", ("T — R",), ())
    assert verification_file.uat("## Gaps\n[none - all resolved]\n", "f")[0].gaps == ()


@pytest.mark.parametrize("status", ["fixed", "resolved", "Closed (a0471c1)", "passed"])
def test_a_gap_that_was_mended_is_no_open_one(status):
    text = f"## Gaps\n- truth: T\n  status: failed\n- truth: U\n  status: {status}\n- V\n"
    found, _ = verification_file.uat(text, "f")
    assert (found.gaps, found.fixed) == (("T", "V"), ("U",))


def test_the_line_of_a_truth_is_counted_as_all_lines_are():
    text = "---\nnote: a\u2028b\x0cc\nmust_haves:\n  truths:\n    - It works\n---\n"
    found, _ = phase_files.plan(text, "P", place("phases/01-a/01-01-PLAN.md"))
    assert (found.must_haves.truths, found.must_haves.lines) == (("It works",), (5,))


def test_a_requirement_that_failed_is_a_row_of_coverage_too():
    text = "## Requirements Coverage\n- A-1: it ✗ FAILED\n- A-2: finds what failed ✓ SATISFIED (none failed)\n"
    found, _ = verification_file.verification(text, "V")
    assert [(one.what, one.status) for one in found.requirements] == [
        ("A-1: it", "✗ FAILED"),
        ("A-2: finds what failed", "✓ SATISFIED"),
    ]
