"""gsd_similar_past_work, gsd_codebase_patterns, gsd_phase_relevant_files: what they rank, and that they quote what is there."""

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.gsd.graph.kinds import is_critical, is_test
from orchestrator.gsd.graph.protocol import Affected, Located
from orchestrator.gsd.model import Decision, Intel, MustHaves, Phase, Plan, Planning, ProjectFile, Summary
from orchestrator.gsd.ranked import patterns
from orchestrator.gsd.ranked.kept import Kept
from orchestrator.gsd.ranked.past import NO_PLANNING, similar_past_work
from orchestrator.gsd.ranked.patterns import codebase_patterns
from orchestrator.gsd.ranked.relevant import phase_relevant_files
from tests.support.gsd_code import EXPRESS, FASTAPI, Node, PlainGraph, snapshot, write


class Counted(PlainGraph):
    """A plain graph that counts what is affected, too."""

    def affected(self, node_id, max_depth, limit):
        found = self.reach(node_id, max_depth)
        paths = [one.node.path for one in found]
        near = [one for one in found if one.depth == 1]
        return Affected(
            len(near), len(found) - len(near), tuple(near),
            critical_count=sum(map(is_critical, paths)), tests_count=sum(map(is_test, paths)),
        )  # fmt: skip


def phase(number, goal, *, created=(), patterns=(), decisions=(), body=None, files=(), **more):
    summary = Summary(
        file=f"{number}-SUMMARY.md", plan_id=f"{number}-01", created=created, patterns=patterns, decisions=decisions,
        body=body or {},
    )  # fmt: skip
    plan = Plan(id=f"{number}-01", file=f"{number}-PLAN.md", phase=number, files_modified=files, summary=summary)
    return Phase(number=number, name=f"Phase {number}", goal=goal, plans=(plan,), ladder="complete", **more)


PAST = Planning(
    project=ProjectFile("PROJECT.md", decisions=(Decision("Webhooks without retries", "", "⚠️ Revisit", "2"),)),
    phases=(phase("4", "Theme the settings page"), Phase(number="5", name="Refunds", goal="Refund payments through Stripe")),
    past=(
        phase(
            "2", "Take payments with Stripe", created=("src/pay.ts",), patterns=("Idempotency keys on every charge",),
            decisions=("Checkout sessions, no card forms",), milestone="v1.0", files=("src/checkout.ts",),
            body={"Deviations from Plan": "**1. [Rule 1 - Bug] Webhook signature was missing**\n- **Found during:** Task 2\n- **Fix:** raw body", "Issues Encountered": "None."},
        ),
        phase("3", "Send invoices by email", patterns=("Idempotency keys on every charge",)),
    ),
)  # fmt: skip


def test_past_work_is_ranked_by_goal_and_summary_and_says_what_was_learned(tmp_path):
    found = similar_past_work(snapshot(tmp_path, PAST), current_goal="Add Stripe payment for subscriptions")
    first = found["similar_phases"][0]
    assert first["phase"] == "2"
    assert first["milestone"] == "v1.0"
    assert first["approach"] == ["Checkout sessions, no card forms", "Idempotency keys on every charge"]
    assert first["lessons"] == ["Webhook signature was missing", "Webhooks without retries: ⚠️ Revisit"]
    assert first["files_created"] == ["src/pay.ts"]
    assert first["plans"] == ["2-01"]
    assert first["matched"] == ["stripe", "payment"]
    assert first["score"] == 1.0
    assert {one["phase"]: one["status"] for one in found["similar_phases"]}["5"] == "no_directory"
    assert "summaries" not in first


def test_summaries_come_when_asked_for(tmp_path):
    found = similar_past_work(snapshot(tmp_path, PAST), current_goal="stripe", include_summaries=True)
    assert "Webhook signature" in found["similar_phases"][0]["summaries"][0]["text"]


@pytest.mark.parametrize(
    "goal", ['stripe" OR NEAR(', "goal: stripe*", "NOT stripe AND", "^stripe - {x}", "ſtripe \ud800 stripe\0"]
)
def test_operators_of_the_ranker_are_words(tmp_path, goal):
    assert similar_past_work(snapshot(tmp_path, PAST), current_goal=goal)["similar_phases"][0]["phase"] == "2"


@pytest.mark.parametrize("plans", [None, Planning(), PAST])
def test_no_past_work_is_an_empty_list(tmp_path, plans):
    found = similar_past_work(snapshot(tmp_path, plans), current_goal="quantum entanglement")
    assert found["similar_phases"] == []
    assert found["recommendation"]


def test_another_planning_is_another_index(tmp_path):
    goal = "Rotate keys"
    assert similar_past_work(snapshot(tmp_path, PAST), current_goal=goal)["similar_phases"][0]["phase"] in {"2", "3"}
    other = Planning(phases=(phase("9", "Rotate keys"),))
    assert [
        p["phase"] for p in similar_past_work(snapshot(tmp_path, other), current_goal=goal)["similar_phases"]
    ] == ["9"]


def names(found):
    return {one["name"]: one for one in found["patterns"]}


def test_patterns_are_families_of_names_files_and_constructs_with_real_lines(tmp_path):
    root = write(tmp_path, FASTAPI)
    found = names(codebase_patterns(snapshot(root), query="repository"))
    assert found["*Repository"]["frequency"] == 2
    assert found["*Repository"]["example"] == {"file": "app/store.py", "line": 1, "code": "class TodoRepository:"}
    fixtures = names(codebase_patterns(snapshot(root), query="test fixtures"))
    assert fixtures["@pytest.fixture"]["example"]["line"] == 3
    more = {"src/z.ts": "// throw new Ghost\nexport class CardError extends Error {}\nthrow new CardError()\n"}
    errors = names(codebase_patterns(snapshot(write(tmp_path / "b", EXPRESS | more)), query="error handling"))
    assert errors["throw new …Error"]["frequency"] == 2
    assert errors["throw new …Error"]["example"] == {
        "file": "src/services/mail.ts",
        "line": 10,
        "code": "throw new MailError('mail was not sent');",
    }
    assert errors["*Error"]["frequency"] == 2


def test_patterns_of_planning_and_conventions_are_told_with_their_source(tmp_path):
    root = write(
        tmp_path,
        {
            **EXPRESS,
            ".planning/codebase/TESTING.md": "# Testing\n\n## Idempotency tests\n\nEvery charge is sent twice.\n",
        },
    )
    intel = Intel(
        conventions={
            "naming": {"exports": {"dominant": "camelCase", "count": 9, "percentage": 90}},
            "error_handling": {"pattern": "anyhow"},
        }
    )
    found = codebase_patterns(snapshot(root, PAST, intel=intel), query="idempotency keys")
    assert found["patterns"][0]["name"] == "Idempotency keys on every charge"
    assert found["patterns"][0]["frequency"] == 2
    page = names(found)["Idempotency tests"]
    assert page["source"] == ".planning/codebase/TESTING.md"
    assert page["example"] == {"file": ".planning/codebase/TESTING.md", "line": 3, "code": "## Idempotency tests"}
    naming = codebase_patterns(snapshot(root, intel=intel), query="naming conventions", include_examples=False)
    assert "camelCase for exports, 90 %" in names(naming)
    assert all("example" not in one for one in naming["patterns"])
    assert "error_handling: pattern" in names(codebase_patterns(snapshot(root, intel=intel), query="error handling"))


def test_nothing_repeated_is_no_pattern(tmp_path):
    found = codebase_patterns(snapshot(write(tmp_path, EXPRESS)), query="websocket")
    assert found["patterns"] == []
    assert "choose one" in found["recommendation"]


def many():
    nodes = [
        Node("src-pay", "src/pay.ts", "Takes payments"),
        *(Node(f"n{i}", f"src/services/s{i}.ts") for i in range(12)),
    ]
    return Counted(
        [*nodes, Node("t", "tests/pay.test.ts")], [*((f"n{i}", "src-pay") for i in range(12)), ("t", "n0")]
    )


def test_relevant_files_are_ranked_with_what_changing_them_touches(tmp_path):
    write(tmp_path, {"src/pay.ts": "export const pay = 1\n"})
    found = phase_relevant_files(snapshot(tmp_path, PAST, many()), phase_goal="Refund payments through Stripe")
    first = found["relevant_files"][0]
    assert first["path"] == "src/pay.ts"
    assert first["blast_radius"] == {"direct": 12, "total": 13, "critical": 12, "tests": 1}
    assert "backward compatible" in first["recommendation"]
    assert "phase 2 changed it" in first["why"]
    assert first["purpose"] == "Takes payments"
    assert found["phase"] == "5"
    assert found["keywords"] == ["refund", "payments", "stripe"]
    assert found["similar_phases"][0]["phase"] == "2"
    assert "src/checkout.ts" in [one["path"] for one in found["relevant_files"]]


@pytest.mark.parametrize("text", ["5", "Phase 5", "phase 05"])
def test_a_phases_number_stands_for_its_goal(tmp_path, text):
    assert (
        phase_relevant_files(snapshot(tmp_path, PAST, many()), phase_goal=text)["phase_goal"]
        == "Refund payments through Stripe"
    )


def test_a_phase_is_not_its_own_past(tmp_path):
    found = phase_relevant_files(snapshot(tmp_path, PAST, many()), phase_goal="2")
    assert "2" not in {one["phase"] for one in found["similar_phases"]}
    assert "phase 2 changed it" not in found["relevant_files"][0]["why"]


def test_what_is_kept_of_an_object_is_not_given_for_another():
    kept = Kept(lambda of: of.goal)
    old, new = Phase(number="1", goal="old"), Phase(number="1", goal="new")
    assert kept(old) == "old"
    kept._values[id(new)] = kept._values[id(old)]  # as after the one has gone and the other took its place in memory
    assert kept(new) == "new"


def test_a_directory_called_planning_is_a_projects_own(tmp_path):
    plans = Planning(
        past=(phase("1", "Plan routes", created=("planning/route.py", "./.planning/x.md", "`.planning/y.md`")),)
    )
    found = similar_past_work(snapshot(tmp_path, plans), current_goal="plan a route")["similar_phases"][0]
    assert (found["files_created"], found["files_created_total"]) == (["planning/route.py"], 1)


@pytest.mark.parametrize("head", ["#####", "**1.", "**[Rule 1]", "- ", "| "])
def test_a_line_of_spaces_in_a_summary_is_read_in_no_time(tmp_path, head):
    """Tried in every way, the expression for a title would take days."""
    body = {"Issues": f"x\n{head}{' ' * 19_000}*x\n{head} Lock was lost {' ' * 900}\n"}
    plans = Planning(past=(phase("1", "Take locks", body=body),))
    found = similar_past_work(snapshot(tmp_path, plans), current_goal="take a lock")["similar_phases"][0]
    assert "Lock was lost" in found["lessons"][-1] or found["lessons"] == ["x"]


def test_of_very_many_patterns_the_best_are_compared_and_none_is_lost(tmp_path, monkeypatch):
    """Each with each, a summary of 300 KB would take minutes."""
    monkeypatch.setattr(patterns, "_COMPARED", 4)
    monkeypatch.setattr(patterns, "_TOLD", 1)
    plans = Planning(
        past=(phase("1", "x", patterns=("Auth tokens rotate",)), phase("2", "y", patterns=("auth token rotates",))),
        phases=(phase("3", "z", patterns=tuple(f"Auth thing {'x' * n}" for n in range(20))),),
    )
    found = codebase_patterns(snapshot(tmp_path, plans), query="auth tokens")
    assert found["total"] == 21
    assert (found["patterns"][0]["name"], found["patterns"][0]["frequency"]) == ("Auth tokens rotate", 2)


def test_of_a_file_with_very_many_conventions_the_first_are_looked_at(tmp_path, monkeypatch):
    """200,000 of them took half a minute."""
    monkeypatch.setattr(patterns, "_CONVENTIONS", 3)
    naming = {f"k{n}": {"dominant": "camelCase", "count": n} for n in range(9)}
    intel = Intel(conventions={"naming": naming, "other": {"naming": "x"}})
    found = codebase_patterns(snapshot(tmp_path, None, None, intel), query="naming")
    assert [one["name"] for one in found["patterns"]] == [f"camelCase for k{n}" for n in (2, 1, 0)]


def test_what_is_left_out_when_not_asked_for(tmp_path):
    found = phase_relevant_files(
        snapshot(tmp_path, PAST, many()), phase_goal="payments", include_purposes=False, include_blast_radius=False
    )
    assert {one["purpose"] for one in found["relevant_files"]} == {""}
    assert {one["blast_radius"] for one in found["relevant_files"]} == {None}


def test_without_a_graph_the_names_of_files_count(tmp_path):
    found = phase_relevant_files(snapshot(write(tmp_path, EXPRESS)), phase_goal="Send password mails")
    assert found["relevant_files"][0]["path"] == "src/services/mail.ts"


def test_the_phases_own_plan_names_files_that_are_not_there_yet(tmp_path):
    plan = Plan(
        id="7-01", file="p", phase="7", files_modified=("src/new.ts", "../x", "/etc/x"), must_haves=MustHaves()
    )
    plans = Planning(phases=(Phase(number="7", goal="Write something new", plans=(plan,)),))
    found = phase_relevant_files(snapshot(tmp_path, plans), phase_goal="7")
    assert [(one["path"], one["exists"]) for one in found["relevant_files"]] == [("src/new.ts", False)]


class ByItsEnd(Counted):
    """A plain graph that knows files by the end of their path too, in any case, as the real one does."""

    def locate(self, text):
        found = [node for node in self.nodes.values() if f"/{node.path}".lower().endswith(f"/{text}".lower())]
        return Located(found[0] if found else None)


def named(tmp_path, *files):
    plan = Plan(id="7-01", file="p", phase="7", files_modified=files, must_haves=MustHaves())
    plans = Planning(phases=(Phase(number="7", goal="Write something new", plans=(plan,)),))
    graph = ByItsEnd([Node("l", "src/lib/login.ts"), Node("t", "src/app.ts")], [("t", "l")])
    found = phase_relevant_files(snapshot(tmp_path, plans, graph), phase_goal="7")["relevant_files"]
    return {one["path"]: (one["exists"], one["score"], one["why"], one["blast_radius"] is not None) for one in found}


def test_a_file_that_a_plan_names_in_several_ways_is_one_file_and_counts_once(tmp_path):
    write(tmp_path, {"src/lib/login.ts": ""})
    assert named(tmp_path, "lib/login.ts", "./src/lib/login.ts", "SRC/lib/login.ts") == {
        "src/lib/login.ts": (True, 40, ["plan 7-01 as lib/login.ts"], True)
    }


def test_a_file_that_is_there_is_not_taken_for_one_whose_path_only_ends_so(tmp_path):
    write(tmp_path, {"src/lib/login.ts": "", "lib/login.ts": ""})
    assert named(tmp_path, "lib/login.ts") == {"lib/login.ts": (True, 40, ["plan 7-01"], False)}


def test_a_name_with_a_space_is_whole_where_there_is_such_a_file_and_else_ends_before_the_remark(tmp_path):
    write(tmp_path, {"docs/my file.md": ""})
    assert list(named(tmp_path, "docs/my file.md", "docs/other.md (new)")) == ["docs/my file.md", "docs/other.md"]


def test_an_unknown_phase_is_refused(tmp_path):
    with pytest.raises(BadRequest) as caught:
        phase_relevant_files(snapshot(tmp_path, PAST), phase_goal="Phase 99")
    assert caught.value.code == "unknown_phase"


def test_words_that_name_nothing_find_no_file(tmp_path):
    graph = Counted([Node("d", "src/delete.ts"), Node("u", "src/users.ts")], [])
    found = phase_relevant_files(snapshot(tmp_path, None, graph), phase_goal="Let admins export users")
    assert [one["path"] for one in found["relevant_files"]] == ["src/users.ts"]
    assert "let" not in found["keywords"]


def test_no_file_is_called_safe_and_absence_and_dependents_are_both_told(tmp_path):
    few = Counted([Node(f"n{i}", f"src/users{i}.ts") for i in range(40)], [("n1", "n0"), ("t", "n0")])
    few = Counted([*few.nodes.values(), Node("t", "tests/api.test.ts")], [("n1", "n0"), ("t", "n0")])
    told = {
        one["path"]: one
        for one in phase_relevant_files(snapshot(tmp_path, None, few), phase_goal="users")["relevant_files"]
    }
    alone = told["src/users2.ts"]["recommendation"]
    assert "does not mean that nothing depends on it" in alone
    assert "Not there (yet)" in alone
    assert "safe" not in alone
    assert "Not there (yet)" in told["src/users0.ts"]["recommendation"]
    assert "Dependents: 2" in told["src/users0.ts"]["recommendation"]
    assert told["src/users0.ts"]["blast_radius"] == {"direct": 2, "total": 2, "critical": 1, "tests": 1}


def test_a_plan_with_this_objective_names_its_files(tmp_path):
    plan = Plan(
        id="8-02",
        file="p",
        phase="8",
        files_modified=("src/mail.ts",),
        objective="Send password mails to users.\n\nPurpose: x",
    )
    plans = Planning(phases=(Phase(number="8", goal="Account recovery", plans=(plan,)),))
    found = phase_relevant_files(snapshot(tmp_path, plans), phase_goal="Send mails with a password to users")
    assert [(one["path"], one["why"]) for one in found["relevant_files"]] == [("src/mail.ts", ["plan 8-02"])]


def test_quick_tasks_and_phases_without_summaries_are_found_and_said_to_be_so(tmp_path):
    quick = Phase(number="quick/005-rotate", name="Rotate database keys", plans=())
    plans = Planning(
        phases=(
            Phase(number="7", goal="Theme the page"),
            Phase(number="8", name="Send mails"),
            Phase(number="9", goal="Export of keys"),
        ),
        quick=(quick,),
    )
    found = similar_past_work(snapshot(tmp_path, plans), current_goal="Rotating databases")
    assert [one["phase"] for one in found["similar_phases"]] == ["quick/005-rotate"]
    assert found["similar_phases"][0]["matched"] == ["rotating", "databases"]
    assert "quick task 005-rotate" in found["recommendation"]
    assert "not done" in found["recommendation"]
    one_word = similar_past_work(snapshot(tmp_path, plans), current_goal="Nightly keys of remote ledgers")
    assert one_word["similar_phases"] == [], "one word of four is no likeness"


def test_without_planning_no_past_is_known_rather_than_none(tmp_path):
    found = similar_past_work(snapshot(tmp_path, None), current_goal="keys")
    assert found == {"similar_phases": [], "recommendation": NO_PLANNING}


def test_lessons_teach(tmp_path):
    body = {
        "Deviations from Plan": "Two:\n- None\n- Commit: abc\n- Local test suite executed successfully\n- CI workflow YAML validated\n- Mind the lock:\n  - it is held twice\n  - it times out\n",
        "Lessons": "**Technical Details:**\n\n### Notes\n",
        "Problems": "None - plan executed exactly as written. All tasks completed:\n- Phase summary created\n",
        "Issues Encountered": "| Issue | Cause |\n|---|---|\n| Hangs | no timeout |\n",
    }
    one = phase(
        "2", "Rotate keys", body=body, created=(".planning/x.md", "src/a.py"), patterns=("Pattern 1: Write twice",)
    )
    first = similar_past_work(snapshot(tmp_path, Planning(phases=(one,))), current_goal="rotate keys")[
        "similar_phases"
    ][0]
    assert first["lessons"] == ["Mind the lock: it is held twice; it times out", "Hangs — no timeout"]
    assert first["files_created"] == ["src/a.py"]
    assert first["approach"] == ["Write twice"]


def test_near_patterns_merge_conventions_give_their_text_and_generic_words_come_after(tmp_path):
    plans = Planning(
        phases=(
            phase("1", "a", patterns=("Pattern 1: Idempotency keys on every charge",)),
            phase("2", "b", patterns=("Idempotency keys on every charge call",)),
        )
    )
    found = codebase_patterns(snapshot(tmp_path, plans), query="idempotency keys")
    assert [(one["name"], one["frequency"]) for one in found["patterns"]] == [("Idempotency keys on every charge", 2)]
    intel = Intel(
        conventions={
            "error_handling": {"pattern": "anyhow with context"},
            "suffixes": {"x.py": {"purpose": "test files", "count": 90}},
            "directories": {
                "tests": {"purpose": "Test files", "files": 99},
                "routers": {"purpose": "FastAPI routers", "files": 4},
            },
        }
    )
    told = codebase_patterns(snapshot(tmp_path, None, intel=intel), query="error handling")["recommendation"]
    assert "anyhow with context" in told
    rows = [
        one["name"]
        for one in codebase_patterns(snapshot(tmp_path, None, intel=intel), query="testing fastapi routers")[
            "patterns"
        ]
    ]
    assert rows[0] == "routers/: FastAPI routers"
    assert "tests/: Test files" in rows


def test_an_example_is_no_future_import(tmp_path):
    head = "from __future__ import annotations\n"
    root = write(tmp_path, {f"app/{n}_router.py": f"{head}ROUTES = {n!r}\n" for n in ("a", "b")})
    every = codebase_patterns(snapshot(root), query="router")["patterns"]
    assert every
    assert all("__future__" not in one["example"]["code"] for one in every)
