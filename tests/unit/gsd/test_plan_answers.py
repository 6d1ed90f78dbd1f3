"""The answers and pages made of planning alone, over real trees and made-up ones."""

import json
import os
from types import SimpleNamespace

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.model import Intel, Trouble
from orchestrator.gsd.planning import pages as planning_pages
from orchestrator.gsd.planning import plan_answers
from orchestrator.gsd.planning.tree import PlanningStore
from tests.support.gsd_trees import TREES, unpack, write

NO_GRAPH = SimpleNamespace(nodes={}, edges=0, dangling=0)


def snapshot(root, intel=None):
    return Snapshot(root, PlanningStore(root).read(), NO_GRAPH, intel or Intel(), lambda _: None, lambda _: [])


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    return {name: snapshot(unpack(name, tmp_path_factory.mktemp("trees"))) for name in TREES}


def test_phase_status_of_a_phase_under_way(real):
    found = plan_answers.phase_status(real["to-tui"])
    assert (found["current_phase"], found["phase_name"], found["status"]) == ("15", "Migration", "partial")
    assert [(one["id"], one["status"], one["tasks"]) for one in found["plans"]] == [
        ("15-01", "complete", 3), ("15-02", "complete", 3), ("15-03", "in_progress", 4),
    ]  # fmt: skip
    assert (found["verification_status"], found["next_phase"], found["decided_by"]) == (None, None, "STATE.md")
    assert found["blockers"][0].startswith("**Plugin release blocked:**")
    assert found["progress"] == {
        "phases": 10, "phases_complete": 9, "plans": 27, "plans_complete": 26, "percent": 96, "stated_percent": 96,
    }  # fmt: skip
    assert found["disagreements"][0]["said"][0] == {
        "file": ".planning/ROADMAP.md",
        "line": 209,
        "says": "Not started",
    }


def test_phase_status_between_milestones(real):
    found = plan_answers.phase_status(real["pike-lsp"])
    assert (found["current_phase"], found["phase_name"], found["plans"]) == (None, None, [])
    assert (found["status"], found["milestone"], found["next_phase"]) == ("between_milestones", "v3.0", None)


def test_planning_that_may_not_be_read_is_no_project_without_phases(tmp_path):
    write(tmp_path / "real", {".planning/STATE.md": "Phase: 1 of 2 (A)\n"})
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / ".planning").symlink_to("../real/.planning")
    with pytest.raises(BadRequest, match="leads out of the project") as error:
        plan_answers.phase_status(snapshot(tmp_path / "linked"))
    assert error.value.code == "no_gsd_project"
    told = ".planning does not count: it is a link that leads out of the project"
    assert told in planning_pages.vision(snapshot(tmp_path / "linked"))
    assert told in planning_pages.current_phase_page(snapshot(tmp_path / "linked"))


def test_a_roadmap_that_was_not_read_is_told_with_the_phase(tmp_path):
    root = write(
        tmp_path / "p", {".planning/phases/01-a/01-01-PLAN.md": "x", ".planning/ROADMAP.md": "x" * (2 << 20)}
    )
    assert "notes" not in plan_answers.phase_status(snapshot(root))
    write(root, {".planning/ROADMAP.md": "x" * ((2 << 20) + 1)})
    (note,) = plan_answers.phase_status(snapshot(root))["notes"]
    assert (
        note == ".planning/ROADMAP.md does not count: it has 2097153 bytes; above 2097152 nothing of a file is read"
    )


def test_phase_status_of_a_named_phase(real):
    found = plan_answers.phase_status(real["mlx-manager"], phase="Phase 03")
    assert (found["phase"], found["current_phase"], found["archived"]) == ("3", None, True)
    assert (found["verification_status"], found["verification"]["score"]) == ("passed", "6/6 must-haves verified")
    assert found["uat"]["tests"] == {"issue": 2, "pass": 14}
    assert [gap.partition(" —")[0] for gap in found["uat"]["gaps"]] == [
        "Registration form should have password confirmation field"
    ]
    assert len(found["uat"]["fixed_gaps"]) == 2
    # Its roadmap names none; the traceability table of its milestone does.
    assert found["requirements"] == [f"AUTH-0{number}" for number in range(1, 7)]
    listed = plan_answers.phase_status(real["mlx-manager"], phase="16")["plans"]
    assert [(one["id"], one["status"], one["file"]) for one in listed] == [
        ("16-01", "complete", None),
        ("16-02", "complete", None),
    ]
    with pytest.raises(BadRequest) as error:
        plan_answers.phase_status(real["mlx-manager"], phase="../17")
    assert (error.value.code, len(error.value.facts["near"])) == ("unknown_phase", 5)


def test_what_comes_next_and_the_task_under_way(tmp_path):
    root = write(tmp_path, {
        ".planning/ROADMAP.md": "### Phase 1: A\n### Phase 2: B\n**Depends on**: Phase 1\n",
        ".planning/STATE.md": "Phase: 1 of 2\nStatus: In progress\nStopped at: 01-01 Task 2 of 2\n",
        ".planning/phases/01-a/01-01-PLAN.md": "<task>\n<name>x</name>\n</task>\n<task>\n<name>y</name>\n</task>\n",
    })  # fmt: skip
    found = plan_answers.phase_status(snapshot(root))
    assert (found["plans"][0]["current_task"], found["plans"][0]["task_names"]) == (2, ["x", "y"])
    assert found["next_phase"] == {
        "number": "2",
        "name": "B",
        "dependencies": ["1"],
        "status": "no_directory",
        "goal": "",
    }


REQUIREMENTS = """## v1 Requirements
- [x] **A-1**: first
- [ ] **A-10**: tenth
- [x] **A-2**: nothing to show
- [ ] **A-3**: in two
- [ ] **A-4**: nowhere
- [ ] **A-5**: gone phase
## Future Requirements
- **F-1**: later
## Traceability
| Requirement | Phase | Status |
|---|---|---|
| A-1 | Phase 1 | Complete |
| A-2 | Phase 2 | Complete |
| A-5 | Phase 9 | Pending |
"""
ROADMAP = "### Phase 1: A\n**Requirements**: A-1, A-3, X-9\n### Phase 2: B\n**Requirements**: A-10, A-3\n"
PLAN = """---
requirements: [A-1, Z-1]
must_haves:
  truths: ["It works (A-1)", "Other"]
---
<objective>
For A-1.
</objective>
<task>
<name>Do A-1</name>
</task>
"""
VERIFICATION = "| # | Truth | Status | Evidence |\n|-|-|-|-|\n| 1 | It works (A-1) | ✓ VERIFIED | x |\n\n| Requirement | Status |\n|-|-|\n| A-1: first | SATISFIED |\n| A-10 | BLOCKED |\n"


@pytest.fixture
def made(tmp_path):
    base = ".planning/phases"
    return snapshot(write(tmp_path, {
        ".planning/REQUIREMENTS.md": REQUIREMENTS, ".planning/ROADMAP.md": ROADMAP,
        f"{base}/01-a/01-01-PLAN.md": PLAN, f"{base}/01-a/01-01-SUMMARY.md": "---\nrequirements-completed: [A-1]\n---\n",
        f"{base}/01-a/01-02-PLAN.md": "", f"{base}/01-a/01-VERIFICATION.md": VERIFICATION, f"{base}/02-b/02-01-PLAN.md": "",
    }))  # fmt: skip


def test_requirement_status(made):
    found = plan_answers.requirement_status(made, requirement_id=" a-1 ")
    assert (found["requirement"], found["status"], found["category"], found["conflict"]) == (
        "A-1",
        "completed",
        "",
        None,
    )
    assert [(one["phase"], one["plan"], one["task"], one["by"]) for one in found["traced_to"]] == [
        ("1", "01-01", None, "requirements"), ("1", "01-01", None, "summary"), ("1", "01-01", "Do A-1", "task"),
        ("1", "01-01", None, "must_haves"), ("1", "01-01", None, "objective"),
    ]  # fmt: skip
    assert found["verification"]["status"] == "SATISFIED"
    assert [(one["truth"], one["status"], one["line"]) for one in found["verification"]["must_haves"]] == [
        ("It works (A-1)", "✓ VERIFIED", 3), ("Other", None, 0),
    ]  # fmt: skip
    assert (found["file"], found["line"]) == (".planning/REQUIREMENTS.md", 2)
    tenth = plan_answers.requirement_status(made, requirement_id="A-10")
    assert [(one["phase"], one["plan"], one["by"]) for one in tenth["traced_to"]] == [("2", None, "ROADMAP.md")]
    assert (tenth["verification"]["status"], tenth["phases"]) == ("BLOCKED", ["2"])


@pytest.mark.parametrize("worst", ["✗ NOT SATISFIED", "✗ FAILED", "UNSATISFIED", "NEEDS HUMAN"])
def test_the_worst_of_two_rows_of_coverage_is_told(tmp_path, worst):
    files = {".planning/REQUIREMENTS.md": "- [ ] **A-1**: first\n"}
    for phase, status in ((1, "✓ SATISFIED"), (2, worst)):
        table = f"| Requirement | Status | Evidence |\n|---|---|---|\n| A-1 | {status} | x |\n"
        files[f".planning/phases/0{phase}-x/0{phase}-VERIFICATION.md"] = table
    found = plan_answers.requirement_status(snapshot(write(tmp_path, files)), requirement_id="A-1")
    assert found["verification"]["status"] == worst


def test_an_unknown_requirement_names_those_near(made):
    with pytest.raises(BadRequest) as error:
        plan_answers.requirement_status(made, requirement_id="A-11\0\ud800")
    assert (error.value.code, error.value.facts["near"][0]) == ("unknown_requirement", "A-1")


def test_a_requirement_that_only_a_roadmap_names_is_said_so(real):
    with pytest.raises(BadRequest) as error:
        plan_answers.requirement_status(real["mlx-manager"], requirement_id="int-01")
    assert error.value.code == "unknown_requirement" and error.value.facts["phases"] == ["13"]
    assert "phase 13 (.planning/ROADMAP.md:203)" in error.value.message


def test_requirements_that_were_not_read_are_not_denied_without_saying_so(tmp_path):
    names = {name: f".planning/{name}.md" for name in ("REQUIREMENTS", "ROADMAP")}
    text = {names["ROADMAP"]: "### Phase 1: A\n**Requirements**: A-1\n", names["REQUIREMENTS"]: "- [ ] **A-1**: a\n"}
    root = write(tmp_path / "p", text)
    assert "notes" not in plan_answers.untraceable_requirements(snapshot(root))
    write(root, {names["REQUIREMENTS"]: "x" * ((2 << 20) + 1)})
    (note,) = plan_answers.untraceable_requirements(snapshot(root))["notes"]
    assert note.startswith(".planning/REQUIREMENTS.md does not count: it has 2097153 bytes")
    for name in ("A-1", "A-2"):
        with pytest.raises(BadRequest, match="does not count: it has") as error:
            plan_answers.requirement_status(snapshot(root), requirement_id=name)
        assert error.value.code == "unknown_requirement"


def test_requirements_of_real_trees(real):
    found = plan_answers.requirement_status(real["pike-lsp"], requirement_id="VER-02")
    assert (found["status"], found["archived"], found["verification"]["status"]) == ("pending", True, "PENDING - CI")
    planned = plan_answers.requirement_status(real["gsd-v1.9.1"], requirement_id="INTEL-08")
    assert [(one["plan"], one["by"]) for one in planned["traced_to"]] == [
        ("05-01", "traceability"),
        ("05-02", "traceability"),
    ]
    assert planned["status"] == "pending"
    assert plan_answers.requirement_status(real["mlx-manager"], requirement_id="AUTH-01")["phases"] == ["3"]
    assert plan_answers.requirement_status(real["to-tui"], requirement_id="DB-01")["status"] == "deferred"


def test_what_a_verifier_has_to_look_at_comes_from_the_plans_where_nothing_was_verified(real):
    found = plan_answers.requirement_status(real["to-tui"], requirement_id="MIGR-02")["verification"]
    assert (found["status"], found["coverage"]) == (None, [])
    told = [(one["plan"], one["truth"], one["line"]) for one in found["must_haves"]]
    assert ("15-02", "Built-in Jira generator code no longer exists in binary", 19) in told
    assert {plan for plan, _, _ in told} == {"15-01", "15-02", "15-03"} and all(line for _, _, line in told)
    listed = plan_answers.requirement_status(real["to-tui"], requirement_id="PLUG-03")["verification"]
    assert (listed["status"], listed["coverage"][0]["line"]) == ("✓ SATISFIED", 56)  # a list, no table


def test_a_plan_of_the_traceability_table_counts_beside_one_that_names_the_requirement(tmp_path):
    base = ".planning/phases/01-a"
    found = snapshot(write(tmp_path, {
        ".planning/ROADMAP.md": "### Phase 1: A\n**Requirements**: A-1\n",
        ".planning/REQUIREMENTS.md": "## v1 Requirements\n- [ ] **A-1**: x\n## Traceability\n| Requirement | Phase | Status |\n|-|-|-|\n| A-1 | Phase 1 | Planned (01-01, 01-02) |\n",
        f"{base}/01-01-PLAN.md": PLAN, f"{base}/01-02-PLAN.md": "", f"{base}/01-03-PLAN.md": "",
    }))  # fmt: skip
    traced = plan_answers.requirement_status(found, requirement_id="A-1")["traced_to"]
    assert {(one["plan"], one["by"]) for one in traced} >= {("01-01", "objective"), ("01-02", "traceability")}
    assert [one["by"] for one in traced].count("traceability") == 1
    assert [one["plan"] for one in plan_answers.untraceable_requirements(found)["plans"]] == ["01-03"]


def test_a_plan_whose_file_is_gone_counts_by_its_summary_and_by_the_roadmap(real, tmp_path):
    found = plan_answers.phase_status(real["gsd-v1.9.1"], phase="4")
    assert (found["plans"][-1]["id"], found["plans"][-1]["file"]) == ("04-05", None)
    assert found["plans"][-1]["summary"].endswith("/04-05-SUMMARY.md")
    assert [found["progress"][key] for key in ("plans", "plans_complete", "percent")] == [7, 6, 86]
    root = write(tmp_path, {
        ".planning/ROADMAP.md": "### Phase 1: A\nPlans:\n- [ ] 01-01: a\n- [x] 01-02: b\n- [ ] 01-03: c\n- [ ] 01-04: d\n",
        ".planning/phases/01-a/01-01-PLAN.md": "---\nplan: 01\n---\n",
        ".planning/phases/01-a/01-03-SUMMARY.md": "---\nplan: 03\n---\n",
    })  # fmt: skip
    told = plan_answers.phase_status(snapshot(root))
    assert [(one["id"], one["status"]) for one in told["plans"]] == [
        ("01-01", "in_progress"), ("01-02", "complete"), ("01-03", "complete"), ("01-04", "pending"),
    ]  # fmt: skip
    assert [told["progress"][key] for key in ("plans", "plans_complete")] == [4, 2]


def test_pending_requirements(real, made):
    assert [one["id"] for one in plan_answers.pending_requirements(made)] == ["A-10", "A-3", "A-4", "A-5"]
    ids = {name: [one["id"] for one in plan_answers.pending_requirements(one)] for name, one in real.items()}
    assert ids == {
        "gsd-v1.9.1": ["INTEL-08", "INTEL-09", "INTEL-10"],
        "mlx-manager": ["PROD-01", "PROD-02", "PROD-03", "PROD-04"],
        "pike-lsp": [], "to-tui": ["MIGR-01", "MIGR-02", "MIGR-03"],
    }  # fmt: skip


def test_untraceable_requirements(made):
    found = plan_answers.untraceable_requirements(made)
    assert [(one["id"], one["reason"]) for one in found["untraceable"]] == [
        ("A-4", "no phase has it"), ("A-5", "phase 9 is not of this milestone"),
    ]  # fmt: skip
    assert [(one["id"], one["phase"], one["line"]) for one in found["unknown"]] == [("X-9", "1", 2), ("Z-1", "1", 0)]
    assert [(one["id"], one["phases"]) for one in found["ambiguous"]] == [("A-3", ["1", "2"])]
    assert [one["id"] for one in found["unproven"]] == ["A-2"]
    assert [one["plan"] for one in found["plans"]] == ["01-02", "02-01"]
    assert found["counts"]["requirements"] == 6
    assert found["counts"]["deferred"] == 1


def test_check_lists_what_cannot_be_true(tmp_path):
    base = ".planning/phases"
    root = write(tmp_path, {
        f"{base}/01-a/01-01-PLAN.md": "---\ndepends_on: ['02', 01-09]\nfiles_modified: [../../etc/x, src/a/../b]\n---\n",
        f"{base}/01-a/01-02-PLAN.md": f"---\ndepends_on: [01-01]\nfiles_modified: [{tmp_path}/src/a]\n---\n",
        f"{base}/01-a/1-2-PLAN.md": "---\nplan: 02\n---\n",
        f"{base}/01-a/01-03-PLAN.md": "---\ndepends_on: [01-02, Phase 2]\nmust_haves:\n  artifacts:\n  - path: /../x\n---\n",
        f"{base}/02-b/02-07-SUMMARY.md": "---\nplan: 07\n---\n",
    })  # fmt: skip
    found = plan_answers.check(snapshot(root, Intel(troubles=(Trouble("zz", 3, "bad", "unreadable"),))))
    assert [(one["file"].removeprefix(f"{base}/"), one["what"].partition(",")[0]) for one in found["troubles"]] == [
        ("01-a/01-01-PLAN.md", "it depends on '01-09'"),
        ("01-a/01-01-PLAN.md", "plan 01-01 depends on itself"),
        ("01-a/01-01-PLAN.md", "the path '../../etc/x' leads out of the project"),
        ("01-a/01-02-PLAN.md", "plan 01-02 depends on itself"),
        ("01-a/01-03-PLAN.md", "the path '/../x' leads out of the project"),
        ("01-a/1-2-PLAN.md", "plan 1-2 is there twice"),
        ("02-b/02-07-SUMMARY.md", "there is no plan 02-07 for this summary"),
        ("zz", "bad"),
    ]
    assert (found["ok"], found["files_read"]) == (False, 5)
    assert found["counts"]["plans"] == 4


def test_check_of_real_trees(real):
    found = {name: plan_answers.check(one) for name, one in real.items()}
    assert {name: len(one["troubles"]) for name, one in found.items()} == {
        "gsd-v1.9.1": 2, "mlx-manager": 7, "pike-lsp": 14, "to-tui": 6,
    }  # fmt: skip
    assert found["pike-lsp"]["counts"]["past_plans"] == 25
    json.dumps(found)


def test_without_planning(tmp_path):
    one = snapshot(tmp_path)
    for ask in (plan_answers.phase_status, plan_answers.untraceable_requirements):
        with pytest.raises(BadRequest) as error:
            ask(one)
        assert error.value.code == "no_gsd_project"
    assert plan_answers.check(one)["ok"]
    assert plan_answers.pending_requirements(one) == []
    for page in (plan_answers.vision, plan_answers.decisions, plan_answers.current_phase_page):
        assert page(one)


def test_vision_says_what_is_missing(real, tmp_path):
    page = plan_answers.vision(real["to-tui"])
    assert "## What This Is\n\nA terminal-based todo list" in page
    assert "## Core Value\n\nFast, keyboard-driven" in page
    without = plan_answers.vision(real["gsd-v1.9.1"])
    assert "no .planning/PROJECT.md" in without
    assert "Claude understands your codebase" in without
    empty = plan_answers.vision(snapshot(write(tmp_path, {".planning/PROJECT.md": "# X\n"})))
    assert "neither a section What This Is nor a section Vision" in empty
    assert "names no core value" in empty


def test_pages(real):
    tui = real["to-tui"]
    assert plan_answers.current_phase_page(tui) == plan_answers.phase_page(tui, "15", "")
    assert "- [ ] 15-03 (in progress)" in plan_answers.phase_page(tui, "current", "")
    assert plan_answers.phase_page(tui, "current", "plan") == plan_answers.phase_page(tui, "15", "plan/3")
    assert plan_answers.phase_page(tui, "15", "plans").count("\n---\nphase: 15-migration\nplan:") == 2
    assert plan_answers.phase_page(tui, "15", "summary").count("# Phase 15 Plan 0") == 2
    assert "It has no verification yet" in plan_answers.phase_page(tui, "15", "verification")
    assert "between milestones" in plan_answers.phase_page(real["pike-lsp"], "current", "plans")
    assert "| Use `y` key for copy" in plan_answers.decisions(tui)


@pytest.mark.parametrize("what", ["plan/99", "plan/../../../etc/passwd", "../../x", "nope", "context/x", "plan/\0"])
def test_other_pages_there_are_not(real, what):
    with pytest.raises(BadRequest) as error:
        plan_answers.phase_page(real["to-tui"], "15", what)
    assert error.value.code == "unknown_resource"


def test_a_page_is_bounded_and_stays_inside(tmp_path):
    root = write(tmp_path / "p", {".planning/phases/01-a/01-CONTEXT.md": "€\n" * 200_000})
    one = snapshot(root)
    page = plan_answers.phase_page(one, "1", "context")
    assert len(page.encode()) <= planning_pages.PAGE_MAX
    assert page.endswith("[cut: the page is longer than 256 KiB]\n")
    file = root / ".planning/phases/01-a/01-CONTEXT.md"
    file.unlink()
    assert "cannot be read" in plan_answers.phase_page(one, "1", "context")
    (tmp_path / "secret").write_text("secret")
    file.symlink_to(tmp_path / "secret")
    assert "leads out of the project" in plan_answers.phase_page(one, "1", "context")


def test_a_link_put_there_between_two_looks_is_not_followed(tmp_path, monkeypatch):
    root = write(tmp_path / "p", {".planning/phases/01-a/01-CONTEXT.md": "own", "../secret": "hidden"})
    file, one, real = root / ".planning/phases/01-a/01-CONTEXT.md", snapshot(root), os.path.realpath

    def swapped(path):
        found = real(path)
        if path == file and not file.is_symlink():
            file.unlink()
            file.symlink_to(tmp_path / "secret")
        return found

    monkeypatch.setattr(os.path, "realpath", swapped)
    assert "cannot be read" in plan_answers.phase_page(one, "1", "context")
