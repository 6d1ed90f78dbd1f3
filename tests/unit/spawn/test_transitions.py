"""The steps of a stored run: each compares before it sets, says what happened, and heeds the fence."""

import sqlite3
from decimal import Decimal

import pytest
from hypothesis import settings as examples
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from orchestrator.base.errors import BadRequest
from orchestrator.spawn import ddl, queries
from orchestrator.spawn import transitions as steps
from orchestrator.spawn.run_data import NODE_ENDED, RUN_ENDED, NodeEnd, RunOutcome, RunPlan, RunSettings
from tests.support.spawns import AT, DIAMOND, LATER, THEM, US, attempt_of, begun, claim, file, node, row, settle

WAITING = "waiting for key"
SKIPPED = NodeEnd("skipped", "upstream failed", "m", "warning")
CANCELED = NodeEnd("canceled", "stop", "canceled", "warning")
COMPLETED = RunOutcome("completed", "")


def fresh():
    con = sqlite3.connect(":memory:", isolation_level=None)
    con.row_factory = sqlite3.Row
    con.execute("PRAGMA foreign_keys = ON")
    ddl.create(con)
    return con


@pytest.fixture
def con():
    made = fresh()
    yield made
    made.close()


def everything(con):
    """All that is stored, to see that nothing has changed."""
    return [tuple(one) for table in (*ddl.ORIGINAL, "attempts") for one in con.execute(f"SELECT * FROM {table}")]


def said(con, run_id="r1"):
    return [event.message for event in queries.events(con, run_id)]


def stored(con, node_id):
    return next(one for one in queries.nodes(con, "r1") if one.node.id == node_id)


# -- a run's way ------------------------------------------------------------------------------------------------


def test_a_run_goes_from_the_queue_to_its_end_and_each_step_is_an_event(con):
    begun(con)
    for node_id in ("a", "b", "merged"):
        assert claim(con, node_id)
        assert settle(con, node_id, artifact=file(node_id))
    outcome = RunOutcome("completed", "sum", dissent="diss", merged=file("merged", "merged"))
    end = (con, "r1", 1, outcome, LATER)
    assert steps.finish(*end)
    run = queries.run(con, "r1")
    assert (run.status, run.owner, run.active, run.finished_at) == ("completed", None, False, LATER)
    assert (run.summary, run.dissent, run.plan_source) == ("sum", "diss", "local")
    assert [event.seq for event in queries.events(con, "r1")] == list(range(1, 12))
    assert said(con)[:4] == ["run created", "run started", "so", "planned 3 nodes (local)"]
    assert queries.last_event(con, "r1").message == "completed: sum"
    before = everything(con)
    assert not steps.finish(*end)
    assert everything(con) == before


def test_what_was_asked_and_its_frozen_settings_are_read_as_they_were_given(con):
    held = RunSettings(max_usd=Decimal("0.1"), allow=("a/*",), node_timeout_s=1.5)
    given = row(req="q", settings=held, context="c", engines=("claude",), count=4)
    made = steps.create(con, given, LATER)
    assert made == queries.run(con, "r1") == queries.by_req(con, "q")
    assert (made.number, made.settings, made.request, made.created_at) == (1, held, given.request, LATER)


def test_a_request_sent_again_gets_the_run_of_the_first(con):
    first = steps.create(con, row("r1", req="q"), AT)
    assert steps.create(con, row("r2", req="q"), LATER) == first
    assert [steps.create(con, row(name), AT).number for name in ("r3", "r4")] == [2, 3]
    assert [one.id for one in queries.runs(con)] == ["r4", "r3", "r1"]
    assert [one.id for one in queries.unfinished(con)] == ["r1", "r3", "r4"]


def test_a_plan_is_laid_once_and_read_as_it_was_made(con):
    nodes = (
        node("a", tier="cheap", reason="é", system="you"),
        node("b", "a", wave=1, kind="evaluate", model="engine:claude"),
    )
    begun(con, plan=RunPlan(nodes, "smart-spawn-api"))
    before = everything(con)
    assert not steps.store_plan(con, "r1", 1, DIAMOND, file("plan", "plan"), AT)
    assert everything(con) == before
    assert tuple(one.node for one in queries.nodes(con, "r1")) == nodes
    assert queries.artifact(con, "r1", "plan") == file("plan", "plan")


# -- the queue ---------------------------------------------------------------------------------------------------


def test_no_more_runs_begin_than_have_a_place_and_the_queue_is_kept(con):
    for name in ("r1", "r2", "r3", "r4"):
        steps.create(con, row(name, settings=RunSettings(max_parallel_runs=2)), AT)
    assert [steps.begin(con, name, 1, AT) for name in ("r4", "r3", "r2", "r1")] == [False, False, True, True]
    assert steps.finish(con, "r1", 1, RunOutcome("failed", "", "x"), AT)
    assert [steps.begin(con, name, 1, AT) for name in ("r4", "r3")] == [False, True]


def test_runs_that_wait_for_a_key_or_an_owner_are_stepped_over(con):
    for name in ("r1", "r2", "r3"):
        steps.create(con, row(name, settings=RunSettings(max_parallel_runs=1)), AT)
    assert not steps.begin(con, "r3", 1, AT)
    assert steps.wait_for_daemon(con, "r1", 1, WAITING, AT)
    assert steps.release(con, "r2", 1, AT)
    assert steps.begin(con, "r3", 1, AT)
    assert steps.end_wait(con, "r1", 1, AT)
    assert not steps.begin(con, "r1", 1, AT)
    assert steps.wait_for_daemon(con, "r3", 1, WAITING, AT)
    assert steps.begin(con, "r1", 1, AT)
    assert steps.begin(con, "r1", 1, AT)
    assert said(con).count("run started") == 1


def test_waiting_for_a_key_is_said_once_and_gives_the_place_back(con):
    begun(con)
    assert steps.wait_for_daemon(con, "r1", 1, WAITING, AT)
    assert steps.wait_for_daemon(con, "r1", 1, WAITING, LATER)
    assert said(con).count(WAITING) == 1
    run = queries.run(con, "r1")
    assert (run.active, run.waiting, run.status) == (False, True, "running")
    assert steps.release(con, "r1", 1, AT)
    token = steps.take_over(con, "r1", 2, THEM, AT)
    assert steps.wait_for_daemon(con, "r1", token, WAITING, LATER)
    assert said(con).count(WAITING) == 1
    assert steps.end_wait(con, "r1", token, LATER)
    assert steps.begin(con, "r1", token, LATER)
    assert said(con)[-2:] == ["no longer waiting", "run resumed"]


# -- the fence --------------------------------------------------------------------------------------------------

FENCED = {
    "release": lambda con, token: steps.release(con, "r1", token, AT),
    "take": lambda con, token: steps.take_over(con, "r1", token, THEM, AT),
    "begin": lambda con, token: steps.begin(con, "r1", token, AT),
    "wait": lambda con, token: steps.wait_for_daemon(con, "r1", token, WAITING, AT),
    "ready": lambda con, token: steps.end_wait(con, "r1", token, AT),
    "lay": lambda con, token: steps.store_plan(con, "r1", token, DIAMOND, file("plan", "plan"), AT),
    "claim": lambda con, token: claim(con, "b", token=token),
    "settle": lambda con, token: settle(con, "a", token=token),
    "lose": lambda con, token: steps.lose_attempt(con, "r1", token, attempt_of("a"), True, "lost", AT),
    "turn": lambda con, token: steps.end_nodes(con, "r1", token, {"b": SKIPPED}, {"queued"}, AT),
    "finish": lambda con, token: steps.finish(con, "r1", token, RunOutcome("failed", "", "e"), AT),
    "note": lambda con, token: steps.note(con, "r1", token, "info", "m", AT),
}  # fmt: skip


@pytest.mark.parametrize("name", FENCED)
@pytest.mark.parametrize("token", [0, 1, 3])
def test_whoever_lost_the_run_changes_nothing(con, name, token):
    begun(con)
    claim(con, "a")
    steps.release(con, "r1", 1, AT)
    before = everything(con)
    assert not FENCED[name](con, token)
    assert everything(con) == before


@pytest.mark.parametrize("name", FENCED)
def test_nothing_happens_to_a_run_that_has_ended_or_never_was(con, name):
    assert not FENCED[name](con, 1)
    begun(con, plan=RunPlan((), "local"))
    assert steps.finish(con, "r1", 1, COMPLETED, AT)
    before = everything(con)
    assert not FENCED[name](con, 1)
    assert everything(con) == before


def test_of_two_that_take_a_run_one_gets_it(con):
    begun(con)
    assert steps.release(con, "r1", 1, AT)
    assert (steps.take_over(con, "r1", 2, THEM, AT), steps.take_over(con, "r1", 2, US, AT)) == (3, None)
    run = queries.run(con, "r1")
    assert (run.owner, run.token, run.active) == (THEM, 3, False)


# -- attempts ---------------------------------------------------------------------------------------------------

STATES = ("queued", "running", "retry_pending", *sorted(NODE_ENDED))


@pytest.mark.parametrize("state", STATES)
def test_a_node_is_claimed_from_the_states_before_running_alone(con, state):
    begun(con)
    con.execute("UPDATE nodes SET status = ? WHERE id = 'r1:a'", (state,))
    fits = state in {"queued", "retry_pending"}
    before = everything(con)
    assert claim(con, "a") is fits
    assert (everything(con) == before) is not fits


def test_a_node_is_claimed_once_with_the_next_number_and_only_in_its_place(con):
    begun(con)
    assert not claim(con, "a", 2)
    assert claim(con, "a")
    before = everything(con)
    assert not claim(con, "a")
    assert not claim(con, "a", 2)
    assert everything(con) == before
    steps.wait_for_daemon(con, "r1", 1, WAITING, AT)
    assert not claim(con, "b")
    steps.begin(con, "r1", 1, AT)
    assert steps.cancel(con, "r1", AT) == "canceling"
    assert not claim(con, "b")


@pytest.mark.parametrize("first", ["done", "failed", "lost", "canceled"])
def test_an_attempt_ends_once(con, first):
    begun(con)
    claim(con, "a")
    if first == "lost":
        assert steps.lose_attempt(con, "r1", 1, attempt_of("a"), False, "gone", AT)
    else:
        assert settle(con, "a", state=first)
    before = everything(con)
    assert not settle(con, "a", cost=Decimal(7))
    assert not steps.lose_attempt(con, "r1", 1, attempt_of("a"), True, "gone", AT)
    assert everything(con) == before


def test_a_node_sums_what_all_its_attempts_have_used(con):
    begun(con)
    claim(con, "a")
    pending = {"node_status": "retry_pending", "error": "429", "retry_at": LATER}
    settle(con, "a", state="failed", cost=Decimal("0.1"), **pending)
    one = stored(con, "a")
    assert (one.status, one.retry_count, one.retry_at, one.error, one.finished_at) == (
        "retry_pending", 1, LATER, "429", None,
    )  # fmt: skip
    claim(con, "a", 2)
    steps.lose_attempt(con, "r1", 1, attempt_of("a", 2), True, "cut off", AT)
    one = stored(con, "a")
    assert (one.status, one.reruns, one.attempt) == ("queued", 1, 2)
    claim(con, "a", 3)
    settle(con, "a", 3, cost=Decimal("0.2"))
    one = stored(con, "a")
    assert (one.status, one.answered_by, one.error) == ("completed", "real", None)
    assert [(at.state, at.spent) for at in queries.attempts(con, "r1")] == [
        ("failed", Decimal("0.1")), ("lost", Decimal("0.5")), ("done", Decimal("0.2")),
    ]  # fmt: skip
    found = con.execute("SELECT tokens_prompt, tokens_completion, cost_usd FROM nodes WHERE id = 'r1:a'").fetchone()
    assert tuple(found) == (6, 8, 0.8)


def test_money_is_stored_to_the_last_digit(con):
    begun(con)
    price = "0.1234567890123456789012345"
    claim(con, "a", reserved=price)
    settle(con, "a", cost=Decimal(price))
    (one,) = queries.attempts(con, "r1")
    assert one.reserved == one.cost == one.spent == Decimal(price)


def test_a_caller_without_a_price_costs_nothing_and_an_unknown_end_all_that_was_reserved(con):
    begun(con)
    claim(con, "a")
    settle(con, "a", cost=None, cost_source="none")
    claim(con, "b")
    settle(con, "b", state="failed", cost=None, cost_source="reserved", node_status="failed")
    assert [one.spent for one in queries.attempts(con, "r1")] == [0, Decimal("0.5")]


def test_a_node_ended_by_something_else_stays_so_but_its_attempt_is_paid(con):
    begun(con)
    claim(con, "a")
    assert steps.end_nodes(con, "r1", 1, dict.fromkeys(["a", "b"], CANCELED), {"running"}, AT) == 1
    assert settle(con, "a")
    assert stored(con, "a").status == "canceled"
    assert queries.attempts(con, "r1")[0].spent == Decimal("0.1")


def test_only_nodes_in_the_named_states_are_turned_with_an_event_each(con):
    begun(con)
    claim(con, "a")
    count = len(said(con))
    assert steps.end_nodes(con, "r1", 1, dict.fromkeys(["a", "b", "merged"], SKIPPED), {"queued"}, AT) == 2
    assert [one.status for one in queries.nodes(con, "r1")] == ["running", "skipped", "skipped"]
    assert len(said(con)) == count + 2
    assert stored(con, "b").error == "upstream failed"


def test_a_run_does_not_end_before_its_nodes_and_attempts(con):
    begun(con)
    end = (con, "r1", 1, COMPLETED, AT)
    assert not steps.finish(*end)
    claim(con, "a")
    steps.end_nodes(con, "r1", 1, dict.fromkeys(["a", "b", "merged"], CANCELED), {"queued", "running"}, AT)
    assert not steps.finish(*end)
    settle(con, "a", state="canceled")
    assert steps.finish(*end)


# -- cancel -----------------------------------------------------------------------------------------------------


def test_canceling_tells_an_owner_and_ends_what_nobody_executes(con):
    begun(con)
    claim(con, "a")
    assert steps.cancel(con, "r1", AT) == "canceling"
    assert steps.cancel(con, "r1", LATER) == "canceling"
    assert said(con).count("cancel requested") == 1
    steps.release(con, "r1", 1, AT)
    assert steps.cancel(con, "r1", LATER) == "canceled"
    run = queries.run(con, "r1")
    assert (run.status, run.owner, run.finished_at, run.cancel_requested) == ("canceled", None, LATER, True)
    assert {one.status for one in queries.nodes(con, "r1")} == {"canceled"}
    assert [(one.state, one.spent) for one in queries.attempts(con, "r1")] == [("lost", Decimal("0.5"))]
    before = everything(con)
    assert steps.cancel(con, "r1", LATER) == "finished"
    assert everything(con) == before
    with pytest.raises(BadRequest) as found:
        steps.cancel(con, "none", AT)
    assert found.value.code == "unknown_spawn_run"


def test_a_run_in_the_queue_is_canceled_at_once(con):
    steps.create(con, row(), AT)
    assert steps.cancel(con, "r1", AT) == "canceled"
    assert not steps.begin(con, "r1", 1, AT)


# -- events -----------------------------------------------------------------------------------------------------


def test_events_are_read_from_a_number_on_or_from_the_end(con):
    steps.create(con, row(), AT)
    for at in range(2, 11):
        assert steps.note(con, "r1", 1, "warning", f"m{at}", AT)

    def seqs(*args, **more):
        return [event.seq for event in queries.events(con, "r1", *args, **more)]

    assert seqs() == list(range(1, 11))
    assert seqs(7) == [8, 9, 10]
    assert seqs(7, limit=2) == [8, 9]
    assert seqs(tail=2) == [9, 10]
    assert seqs(9, tail=5) == [10]
    assert seqs(tail=0) == []


def test_an_artifact_is_found_by_either_form_of_its_nodes_id_and_the_last_one_counts(con):
    begun(con)
    claim(con, "a")
    settle(con, "a", artifact=file("a"))
    assert queries.artifact(con, "r1", "a") == queries.artifact(con, "r1", "r1:a") == file("a")
    assert queries.artifact(con, "r1", "b") is None
    assert [one.node_id for one in queries.artifacts(con, "r1")] == ["plan", "a"]


# -- all of it, in any order ------------------------------------------------------------------------------------

NODES = ("a", "b", "merged")
OLD = st.sampled_from([False, False, False, True])


class Lives(RuleBasedStateMachine):
    """Any steps in any order, of the owner and of ones who have lost the run: what is stored stays sound."""

    @initialize()
    def begin(self):
        self.con = fresh()
        begun(self.con)
        self.token, self.seen, self.ends = 1, 0, {}

    def teardown(self):
        if hasattr(self, "con"):
            self.con.close()

    def tokens(self, old):
        return self.token - 1 if old else self.token

    def last(self, node_id):
        return next(one.attempt for one in queries.nodes(self.con, "r1") if one.node.id == node_id)

    @rule(node_id=st.sampled_from(NODES), old=OLD, off=st.sampled_from([1, 1, 1, 0, 2]))
    def claim(self, node_id, old, off):
        attempt = self.last(node_id) + off
        assert not (claim(self.con, node_id, attempt, token=self.tokens(old)) and old)

    @rule(
        node_id=st.sampled_from(NODES), old=OLD, off=st.sampled_from([0, 0, -1]),
        state=st.sampled_from(["done", "failed", "canceled"]),
        then=st.sampled_from(["completed", "failed", "retry_pending", "canceled"]),
        cost=st.none() | st.decimals(0, 1, places=6),
    )  # fmt: skip
    def settle(self, node_id, old, off, state, then, cost):
        attempt = self.last(node_id) + off
        source = "usage" if cost is not None else "reserved"
        more = {"node_status": then, "cost": cost, "cost_source": source}
        if settle(self.con, node_id, attempt, state, token=self.tokens(old), **more):
            assert not old
            assert (node_id, attempt) not in self.ends
            self.ends[node_id, attempt] = cost if cost is not None else Decimal("0.5")

    @rule(node_id=st.sampled_from(NODES), old=OLD, off=st.sampled_from([0, 0, -1]), again=st.booleans())
    def lose(self, node_id, old, off, again):
        attempt = self.last(node_id) + off
        if steps.lose_attempt(self.con, "r1", self.tokens(old), attempt_of(node_id, attempt), again, "lost", AT):
            assert not old
            assert (node_id, attempt) not in self.ends
            self.ends[node_id, attempt] = Decimal("0.5")

    @rule(old=OLD, to=st.sampled_from(["skipped", "failed", "canceled"]))
    def turn(self, old, to):
        waiting = {"queued", "retry_pending"}
        end = NodeEnd(to, "e", "m", "info")
        turned = steps.end_nodes(self.con, "r1", self.tokens(old), dict.fromkeys(["b", "merged"], end), waiting, AT)
        assert not (turned and old)

    @rule(old=OLD)
    def change_owner(self, old):
        if steps.release(self.con, "r1", self.tokens(old), AT):
            assert not old
            self.token = steps.take_over(self.con, "r1", self.token + 1, THEM, AT)
            assert steps.begin(self.con, "r1", self.token, AT)

    @rule()
    @precondition(lambda self: len(self.ends) > 2)
    def cancel(self):
        left = [one for one in queries.attempts(self.con, "r1") if one.state == "running"]
        if steps.cancel(self.con, "r1", AT) == "canceled":
            self.ends |= {(one.node_id, one.attempt): one.reserved for one in left}

    @rule(old=OLD)
    def wait(self, old):
        assert not (steps.wait_for_daemon(self.con, "r1", self.tokens(old), WAITING, AT) and old)

    @rule(old=OLD)
    def go_on(self, old):
        assert not (steps.begin(self.con, "r1", self.tokens(old), AT) and old)

    @rule(old=OLD, status=st.sampled_from(sorted(RUN_ENDED)))
    def finish(self, old, status):
        assert not (steps.finish(self.con, "r1", self.tokens(old), RunOutcome(status, ""), AT) and old)

    @invariant()
    def the_events_are_dense_and_none_is_lost(self):
        seqs = [event.seq for event in queries.events(self.con, "r1", limit=10_000)]
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(seqs) >= self.seen
        self.seen = len(seqs)

    @invariant()
    def money_counts_once(self):
        attempts = queries.attempts(self.con, "r1")
        for one in attempts:
            assert one.spent == self.ends.get((one.node_id, one.attempt), Decimal("0.5"))
        sums = dict.fromkeys(NODES, Decimal(0))
        for one in attempts:
            sums[one.node_id] += one.spent if one.state != "running" else 0
        for one in self.con.execute("SELECT id, cost_usd, tokens_prompt FROM nodes"):
            name = one["id"].removeprefix("r1:")
            assert one["cost_usd"] == float(sums[name])

    @invariant()
    def what_runs_has_one_attempt_and_what_ended_has_none(self):
        run = queries.run(self.con, "r1")
        open_attempts = [one for one in queries.attempts(self.con, "r1") if one.state == "running"]
        assert len({one.node_id for one in open_attempts}) == len(open_attempts)
        running = {one.node.id for one in queries.nodes(self.con, "r1") if one.status == "running"}
        assert {one.node_id for one in open_attempts} == running
        if run.status in RUN_ENDED:
            assert {one.status for one in queries.nodes(self.con, "r1")} <= NODE_ENDED
            assert run.owner is None
            assert not open_attempts


Lives.TestCase.settings = examples(max_examples=40, stateful_step_count=25)
test_whatever_comes_in_whatever_order_the_rows_stay_sound = Lives.TestCase
