"""ROADMAP.md and MILESTONES.md in the forms their users write."""

from orchestrator.gsd.planning import phase_numbers, roadmap

FULL = """# Roadmap: X
## Milestones
- ✅ **v1.0 First** — Phases 1-2 (shipped 2026-01-02) — [archive](m.md)
- **v2.0 Second** — Phases 3-5 (in progress)
## Phases
- [x] **Phase 3: Base** - The ground
- [ ] **Phase 3.1: Fix (INSERTED)** - Urgent
- [ ] **Phase 10:** Later (1/3 plans) — at the end
## Phase Details
### Phase 3: Base
**Goal**: Lay it
**Depends on**: Nothing (first phase)
**Requirements**: [A-01, A-02]
**Success Criteria** (what must be TRUE):
  1. One
  2. Two
**Plans**: 2 plans

Plans:
- [x] 03-01-PLAN.md — first
- [ ] 03-02: second
- [ ] TBD
### Phase 03.1: Fix (INSERTED)
**Goal:** Mend
**Depends on:** Phase 3 (because of 7), Phase 12A
**Requirements:**
- B-01: inline
- B-02: inline too

**Status:** In progress
## Progress
| Phase | Milestone | Plans Complete | Status | Completed |
|---|---|---|---|---|
| 3. Base | v2.0 | 1/2 | Not started | - |
| 4. Table only | v2.0 | 0/1 | Deferred | - |
<details>
<summary>v1.0 First (Phases 1-2) — SHIPPED 2026-01-02</summary>

- [x] **Phase 1: Old** - gone
</details>
"""


def test_a_full_roadmap():
    found = roadmap.roadmap(FULL, "R")
    assert [one.number for one in found.phases] == ["1", "3", "3.1", "4", "10"]
    old, base, fix, table, late = found.phases
    assert (base.name, base.goal, base.depends_on, base.requirements) == ("Base", "Lay it", (), ("A-01", "A-02"))
    assert base.criteria == ("One", "Two")
    assert [(one.id, one.text, one.done) for one in base.listed] == [
        ("03-01", "first", True),
        ("03-02", "second", False),
    ]
    assert (base.box, base.milestone, base.line, base.stated_line) == (True, "v2.0", 10, 34)
    assert (fix.name, fix.goal, fix.depends_on, fix.box) == ("Fix", "Mend", ("3", "12A"), False)
    assert fix.requirements == ("B-01", "B-02")
    assert (table.name, table.stated, table.box) == ("Table only", "Deferred", False)
    assert (late.name, late.goal, late.box) == ("Later", "at the end", False)
    assert (old.archived, old.milestone, old.box) == (True, "v1.0", True)
    assert not any(one.archived for one in found.phases[1:])
    assert [(one.version, one.name, one.phases, one.shipped, one.done) for one in found.milestones[:2]] == [
        ("v1.0", "First", "1-2", "2026-01-02", True), ("v2.0", "Second", "3-5", "", False),
    ]  # fmt: skip
    assert [one.line for one in found.troubles if one.kind == "conflict"] == [6, 6]
    assert [one.id for one in found.requirements] == ["B-01", "B-02"]


def test_a_table_alone():
    text = "| Phase | Name | Goal | Requirements | Plans | Status |\n|--|--|--|--|--|--|\n| 4 | Mark | Do | M-01, M-02 | 4 | ✓ Complete |\n| 5 | Next | Go | N-1 | 0 | |"
    first, second = roadmap.roadmap(text, "R").phases
    assert (first.number, first.name, first.goal, first.requirements, first.box) == (
        "4",
        "Mark",
        "Do",
        ("M-01", "M-02"),
        True,
    )
    assert second.box is None


def test_what_is_folded_away_as_shipped_is_archived():
    text = (
        "<details>\n<summary>v1.0 Old — SHIPPED 2026-01-01</summary>\n\n### Phase 1: A\n</details>\n### Phase 2: B\n"
    )
    found = roadmap.roadmap(text, "R").phases
    assert [(one.number, one.milestone, one.archived) for one in found] == [("1", "v1.0", True), ("2", "", False)]


def test_free_forms_degrade():
    text = "## Phase 5: Integration — all of it\ntext\n## Phase 1-4: Base\n## Phase Overview\n### Phase 6 — Dash\n### Phase 7: Done ✓\n#### Phase 12a: Letter\n"
    found = roadmap.roadmap(text, "R").phases
    assert [(one.number, one.name, one.box) for one in found] == [
        ("5", "Integration — all of it", None), ("6", "Dash", None), ("7", "Done", True), ("12A", "Letter", None),
    ]  # fmt: skip


def test_conflicts_inside_a_roadmap():
    text = "- [x] **Phase 1: A** - x\n### Phase 1: A\nPlans:\n- [ ] 01-01-PLAN.md — p\n### Phase 1: Again\n"
    found = roadmap.roadmap(text, "R")
    assert [(one.line, one.kind) for one in found.troubles] == [(5, "conflict"), (1, "conflict")]
    assert "01-01 are not ticked" in found.troubles[1].what


def test_a_roadmap_without_end_is_cut():
    text = "".join(f"### Phase {at}: x\n- **v{at}** Phases 1-{at}\n" for at in range(1, 1300))
    found = roadmap.roadmap(text, "R")
    assert (len(found.phases), len(found.milestones)) == (roadmap.PHASES_MAX, roadmap.MILESTONES_MAX)
    assert "more than 1000 phases" in found.troubles[0].what


def test_milestones():
    text = "## v3.0 Fast (Shipped: 2026-01-23)\n**Phases completed:** 10-17 (25 plans)\n---\n## v2 Old (Shipped: 2026-01-21)\n## Notes\n"
    found, odd = roadmap.milestones(text, "M")
    assert [(one.version, one.name, one.shipped, one.phases) for one in found] == [
        ("v3.0", "Fast", "2026-01-23", "10-17"), ("v2", "Old", "2026-01-21", ""),
    ]  # fmt: skip
    assert odd == ()
    assert roadmap.spans("10-17", "12.1")
    assert not roadmap.spans("10-17", "9")
    assert not roadmap.spans("10-17", "18")
    assert roadmap.spans("1", "1")


def test_numbers():
    assert phase_numbers.number_of("Phase 02.1") == phase_numbers.number_of("2.1-name") == "2.1"
    assert phase_numbers.number_of("CK-01-name") == "1"
    assert phase_numbers.number_of("12a") == "12A"
    assert phase_numbers.number_of("..") == phase_numbers.number_of("1-4") == phase_numbers.number_of("name") == ""
    numbers = ["10", "2", "2.10", "2.9", "2A", "1", "2.9.1"]
    assert sorted(numbers, key=phase_numbers.order) == ["1", "2", "2.9", "2.9.1", "2.10", "2A", "10"]
    key = phase_numbers.plan_key
    assert key("02-01") == key("2-1-PLAN.md") == key("01", "2") == key("CK-02-01") == ("2", "1")
    assert key("02.1-01") == ("2.1", "1")
    assert key("nothing") == ("", "")


def test_a_version_in_a_heading_inside_a_phase_is_not_that_of_the_next():
    text = "## v1.0 Base\n### Phase 1: A\n#### Pydantic v2 notes\n### Phase 2: B\n## v1.1 Next\n### Phase 3: C\n"
    found = roadmap.roadmap(text, "R")
    assert [(one.number, one.milestone) for one in found.phases] == [("1", "v1.0"), ("2", "v1.0"), ("3", "v1.1")]
