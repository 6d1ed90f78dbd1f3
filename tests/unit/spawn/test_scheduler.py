"""What a run does next: every history of every mode, played by a world that answers, fails, stops and dies at will."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.spawn import scheduler
from orchestrator.spawn.modes.mode_names import MODES
from orchestrator.spawn.modes.mode_table import mode_of
from orchestrator.spawn.run_data import NODE_ENDED, Node, NodeRow
from orchestrator.spawn.scheduler import RunEnd, Scheduler, lane
from tests.support.scanning_scheduler import RunView, decide


def task(node_id, needs=(), **more):
    return Node(
        node_id,
        more.pop("kind", "task"),
        more.pop("wave", 0),
        tuple(needs),
        f"do {node_id}",
        more.pop("model", "m"),
        **more,
    )


def merge(needs):
    return task("merged", needs, kind="merge")


SINGLE = [task("only")]
COLLECTIVE = [task("a"), task("b"), task("c"), merge("abc")]
CASCADE = [task("cheap", tier="cheap"), task("premium", ["cheap"], tier="premium"), merge(["cheap", "premium"])]
EVALUATED = [
    CASCADE[0],
    task("evaluate", ["cheap"], kind="evaluate"),
    task("premium", ["cheap", "evaluate"], tier="premium"),
    CASCADE[2],
]
PLAN = [task("a"), task("b", "a"), task("c", "b"), merge("abc")]
SWARM = [task("a"), task("b"), task("c", "a"), task("d", "ab"), task("e", "cd"), merge("abcde")]


class Run:
    """A run that is played: `step` does what is decided, `settle` ends a node that runs.

    Each decision is compared with that of a scan of all nodes.
    """

    def __init__(self, mode, nodes, places=4):
        self.mode, self.places = mode, places
        self.passed, self.stop, self.joined = None, "", False
        self.started = []
        self.due = frozenset()
        self.begin_again([NodeRow(one, "queued") for one in nodes])

    def begin_again(self, rows=None):
        """As a daemon that takes the run over from another."""
        self.scheduler = Scheduler(self.mode, self.places, self.rows.values() if rows is None else rows)

    @property
    def rows(self):
        return self.scheduler.rows

    def decide(self):
        """What is decided, with nothing of it done."""
        self.due &= {one for one, row in self.rows.items() if row.status == "retry_pending"}
        scan = self.scan()
        decision = self.scheduler.next_steps(due=self.due, passed=self.passed, stop=self.stop, joined=self.joined)
        assert (decision.uncalled, decision.start) == (scan.uncalled, scan.start)
        assert (decision.end is None) == (scan.end is None)
        assert decision == replace(self.scan(), uncalled=decision.uncalled)
        assert self.scheduler.running == len(self.running())
        return decision

    def scan(self):
        rows = tuple(self.rows.values())
        return decide(RunView(self.mode, rows, self.places, self.due, self.passed, self.stop, self.joined))

    def step(self):
        before = dict(self.rows)
        decision = self.decide()
        for node in decision.uncalled:
            assert before[node.node_id].status in {"queued", "retry_pending"}
            assert self.rows[node.node_id] == replace(
                before[node.node_id], status=node.status, error=node.why, retry_at=None
            )
        for node_id in decision.start:
            assert self.rows[node_id].status in {"queued", "retry_pending"}
            self.settle(node_id, "running")
            self.started.append(node_id)
        return decision

    def settle(self, node_id, status="completed", error=None):
        retry_at = "2026-01-01T00:00:00.000Z" if status == "retry_pending" else None
        self.scheduler.take(replace(self.rows[node_id], status=status, error=error, retry_at=retry_at))
        if node_id == "cheap" and status not in {"running", "completed"}:
            self.passed = False

    def running(self):
        return [one for one, row in self.rows.items() if row.status == "running"]

    def of(self, status):
        return [one for one, row in self.rows.items() if row.status == status]

    def play(self, **outcomes):
        """To the end, the named nodes ending as told, with an error of their own."""
        while (decision := self.step()).end is None:
            assert self.running(), self.rows
            for one in self.running():
                status = outcomes.get(one, "completed")
                self.settle(one, status, f"{one} broke" if status == "failed" else None)
        return decision.end


def test_single_ends_with_its_only_answer():
    end = Run("single", SINGLE).play()
    assert (end.status, end.from_nodes) == ("completed", ("only",))


def test_single_fails_with_its_nodes_own_error():
    end = Run("single", SINGLE).play(only="failed")
    assert (end.status, end.error, end.from_nodes) == ("failed", "only: only broke", ())


def test_collective_starts_all_peers_at_once_as_far_as_there_are_places():
    assert Run("collective", COLLECTIVE).decide().start == ("a", "b", "c")
    assert Run("collective", COLLECTIVE, places=2).decide().start == ("a", "b")


def test_collective_merges_what_there_is_and_spares_the_merge_of_one_answer():
    run = Run("collective", COLLECTIVE)
    end = run.play(a="failed")
    assert end.status == "completed"
    assert run.started[-1] == "merged"
    assert "without a" in end.summary
    run = Run("collective", COLLECTIVE)
    end = run.play(a="failed", b="failed")
    assert (end.status, end.from_nodes, run.rows["merged"].status) == ("completed", ("c",), "skipped")
    assert Run("collective", COLLECTIVE).play(a="failed", b="failed", c="failed").status == "failed"


def test_a_failed_merge_fails_the_run_and_keeps_the_answers():
    end = Run("collective", COLLECTIVE).play(merged="failed")
    assert (end.status, end.from_nodes, end.error) == ("failed", ("a", "b", "c"), "merged: merged broke")


def test_money_for_the_merge_is_kept_while_it_still_needs_a_call():
    run = Run("collective", COLLECTIVE)
    assert run.scheduler.merge_to_call(joined=False) == COLLECTIVE[-1]
    assert run.scheduler.merge_to_call(joined=True) is None
    run.settle("merged", "running")
    assert run.scheduler.merge_to_call(joined=False) is None
    assert Run("single", SINGLE).scheduler.merge_to_call(joined=False) is None


ENDS = {
    "all answered": ("collective", COLLECTIVE, "", {}, RunEnd("completed", "3 of 3 nodes answered")),
    "one failed": (
        "collective", COLLECTIVE, "", {"b": "failed"}, RunEnd("completed", "2 of 3 nodes answered; without b"),
    ),
    "none answered": (
        "collective", COLLECTIVE, "", {"a": "failed", "b": "failed", "c": "failed"},
        RunEnd("failed", "0 of 3 nodes answered", "a: a broke"),
    ),
    "the merge failed": (
        "collective", COLLECTIVE, "", {"merged": "failed"},
        RunEnd("failed", "partial: the merge failed; 3 of 3 nodes answered", "merged: merged broke", ("a", "b", "c")),
    ),
    "a part of a plan failed": (
        "plan", PLAN, "", {"b": "failed"}, RunEnd("failed", "partial: 1 of 3 nodes answered", "b: b broke", ("a",)),
    ),
    "canceled": ("collective", COLLECTIVE, "canceled", {}, RunEnd("canceled", "canceled; 0 of 3 nodes answered")),
    "out of time": (
        "collective", COLLECTIVE, "timeout", {},
        RunEnd("failed", "partial: the run's time is over; 0 of 3 nodes answered", "the run's time is over"),
    ),
    "out of money": ("collective", COLLECTIVE, "budget", {}, RunEnd("failed", "0 of 3 nodes answered", "budget")),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_the_end_of_a_run_says_how_many_answered_and_why_it_failed(name):
    mode, nodes, stop, outcomes, end = ENDS[name]
    run = Run(mode, nodes)
    run.stop = stop
    assert run.play(**outcomes) == end


def test_a_node_that_never_began_ends_for_the_reason_of_the_stop():
    run = Run("collective", COLLECTIVE)
    run.stop = "timeout"
    assert [(node.node_id, node.status, node.why) for node in run.step().uncalled] == [
        (one, "canceled", "timeout") for one in ("a", "b", "c", "merged")
    ]


def test_a_canceled_part_spares_the_merge_of_a_plan():
    run = Run("plan", PLAN)
    run.settle("a")
    run.settle("b", "canceled")
    run.settle("c", "canceled")
    decision = run.step()
    [node] = decision.uncalled
    assert (node.node_id, node.status, node.why) == ("merged", "failed", "upstream failed: b, c")
    assert decision.end.error == "merged: upstream failed: b, c"


def test_several_agents_keep_their_lanes_apart():
    nodes = [task("a", model="agent:x"), task("b", model="agent:y"), task("c", model="agent:x"), task("d")]
    run = Run("swarm", nodes)
    assert run.step().start == ("a", "b", "d")


def test_cascade_waits_for_the_gate_and_spares_the_premium_model_when_it_passes():
    run = Run("cascade", CASCADE)
    run.step()
    run.settle("cheap")
    run.passed = True
    end = run.step().end
    assert (end.status, end.from_nodes, run.started) == ("completed", ("cheap",), ["cheap"])


def test_cascade_asks_the_premium_model_when_the_gate_does_not_pass():
    run = Run("cascade", CASCADE)
    run.step()
    run.settle("cheap")
    run.passed = False
    assert run.step().start == ("premium",)
    run.settle("premium")
    assert run.step().start == ("merged",)


def test_cascade_takes_the_premium_answer_when_the_cheap_model_fails_and_the_other_way_round():
    run = Run("cascade", CASCADE)
    end = run.play(cheap="failed")
    assert (end.status, end.from_nodes, run.started) == ("completed", ("premium",), ["cheap", "premium"])
    run = Run("cascade", CASCADE)
    run.passed = False
    end = run.play(premium="failed")
    assert (end.status, end.from_nodes) == ("completed", ("cheap",))
    assert "did not pass" in end.summary


def test_the_evaluator_is_asked_only_about_an_answer_that_passed_the_rules():
    run = Run("cascade", EVALUATED)
    run.step()
    run.settle("cheap")
    assert run.step().start == ("evaluate",)
    run.settle("evaluate")
    run.passed = True
    assert run.step().end.status == "completed"
    run = Run("cascade", EVALUATED)
    run.step()
    run.settle("cheap")
    run.passed = False
    assert run.step().start == ("premium",)
    assert run.rows["evaluate"].status == "skipped"


def test_plan_goes_one_by_one_and_a_failure_fails_all_that_is_behind_it():
    run = Run("plan", PLAN)
    assert run.decide().start == ("a",)
    end = run.play(b="failed")
    assert (end.status, end.error, end.from_nodes) == ("failed", "b: b broke", ("a",))
    assert run.rows["c"].error == "upstream failed: b"
    assert run.rows["merged"].status == "failed"
    assert run.started == ["a", "b"]


def test_swarm_goes_on_with_the_branches_that_a_failure_does_not_touch():
    run = Run("swarm", SWARM)
    end = run.play(b="failed")
    assert (end.status, end.from_nodes) == ("failed", ("a", "c"))
    assert run.rows["d"].error.startswith("upstream failed")
    assert "c" in run.started


def test_a_stop_for_money_skips_the_rest_and_merges_what_there_is():
    run = Run("plan", PLAN)
    run.step()
    run.settle("a")
    run.step()
    run.settle("b")
    run.stop = "budget"
    assert run.step().start == ("merged",)
    assert run.rows["c"].status == "skipped"
    run.settle("merged")
    end = run.step().end
    assert (end.status, end.summary.split(";")[0]) == ("completed", "partial: budget")


def test_a_stop_for_money_that_cannot_pay_the_merge_puts_the_answers_side_by_side():
    run = Run("plan", PLAN)
    run.step()
    run.settle("a")
    run.step()
    run.settle("b")
    run.stop, run.joined = "budget", True
    end = run.step().end
    assert (end.status, end.from_nodes) == ("completed", ("a", "b"))
    run = Run("plan", PLAN)
    run.stop = "budget"
    end = run.step().end
    assert (end.status, end.error) == ("failed", "budget")


@pytest.mark.parametrize(("stop", "status"), [("canceled", "canceled"), ("timeout", "failed")])
def test_a_stopped_run_ends_once_nothing_of_it_is_in_flight(stop, status):
    run = Run("collective", COLLECTIVE, places=2)
    run.step()
    run.stop = stop
    assert run.step().end is None
    run.settle("a")
    run.settle("b", "canceled")
    end = run.step().end
    assert (end.status, end.from_nodes) == (status, ("a",))
    assert run.rows["merged"].status == "canceled"


def test_nothing_starts_while_more_nodes_run_than_there_are_places():
    run = Run("collective", COLLECTIVE, places=1)
    run.settle("a", "running")
    run.settle("b", "running")
    assert run.step().start == ()
    run.settle("a")
    assert run.step().start == ()
    run.settle("b")
    assert run.step().start == ("c",)


def test_a_pause_holds_a_node_back_until_it_is_over_and_takes_no_place():
    run = Run("collective", COLLECTIVE, places=1)
    run.step()
    run.settle("a", "retry_pending")
    assert run.step().start == ("b",)
    run.settle("b")
    run.due = frozenset({"a"})
    assert run.step().start == ("a",)


def test_an_agent_is_given_one_node_at_a_time():
    nodes = [task("a", model="agent:x"), task("b", model="agent:x"), task("c", model="agent:y"), merge("abc")]
    run = Run("collective", nodes)
    assert run.step().start == ("a", "c")
    run.settle("a")
    assert run.step().start == ("b",)


@st.composite
def dags(draw):
    """A plan of some mode, each node behind those it needs."""
    mode = draw(st.sampled_from(MODES))
    if mode == "single":
        return mode, SINGLE
    if mode == "cascade":
        return mode, draw(st.sampled_from([CASCADE, EVALUATED]))
    ids = [f"n{at}" for at in range(draw(st.integers(2, 7)))]
    nodes = []
    for at, one in enumerate(ids):
        needs = ()
        if mode == "plan":
            needs = ids[at - 1 : at] if at else ()
        elif mode == "swarm":
            needs = draw(st.lists(st.sampled_from(ids[:at]), unique=True)) if at else ()
        elif mode == "debate":
            needs = ids[: at // 2 * 2][-2:]
        nodes.append(task(one, needs, model=draw(st.sampled_from(["m", "agent:x"]))))
    return mode, [*nodes, merge(ids)]


@given(plan=dags(), data=st.data())
def test_every_history_ends_with_every_node_ended_and_nothing_begun_before_what_it_needs(plan, data):
    mode, nodes = plan
    run = Run(mode, nodes, places=data.draw(st.integers(1, 4)))
    tries = {}
    for _ in range(200):
        decision = run.step()
        if decision.end is not None:
            break
        for one in decision.start:
            node = run.rows[one].node
            assert all(run.rows[need].status in NODE_ENDED for need in node.needs)
            if mode in {"plan", "swarm"} and node.kind == "task":
                assert all(run.rows[need].status == "completed" for need in node.needs)
        assert len(run.running()) <= run.places
        agents = [lane(run.rows[one].node) for one in run.running() if lane(run.rows[one].node)]
        assert len(agents) == len(set(agents))
        if run.running():
            one = data.draw(st.sampled_from(run.running()))
            # a retry, or a daemon that dies and is followed by another: the node is queued again
            ways = ["completed", "failed"] + ["retry_pending", "queued"] * (tries.get(one, 0) < 2)
            way = data.draw(st.sampled_from(ways)) if run.stop in {"", "budget"} else "canceled"
            tries[one] = tries.get(one, 0) + 1
            run.settle(one, way, f"{one} broke" if way == "failed" else None)
            if one == "cheap" and way == "completed" and "evaluate" not in run.rows:
                run.passed = data.draw(st.booleans())
            if one == "evaluate" and way not in {"queued", "retry_pending"}:
                run.passed = data.draw(st.booleans())
        else:
            run.due = frozenset(run.of("retry_pending"))
            assert run.due, run.rows
        if not run.stop:
            run.stop = data.draw(st.sampled_from(["", "", "", "", "budget", "timeout", "canceled"]))
            run.joined = run.stop == "budget" and data.draw(st.booleans())
    else:
        pytest.fail("no end")
    end = decision.end
    assert not [one for one, row in run.rows.items() if row.status not in NODE_ENDED]
    assert all(run.rows[one].status == "completed" for one in end.from_nodes)
    answered = [one for one, row in run.rows.items() if row.status == "completed" and row.node.kind == "task"]
    failed = [one for one, row in run.rows.items() if row.status == "failed" and row.node.kind == "task"]
    if end.status == "completed":
        assert answered
        assert run.stop in {"", "budget"}
        assert not (mode in {"plan", "swarm"} and failed)
        assert end.from_nodes or run.rows["merged"].status == "completed"
    if end.status == "failed":
        assert end.error
    assert run.decide().end == end
    assert not run.decide().start


@st.composite
def strange_dags(draw):
    """A plan of no mode's form: the scheduler decides for any."""
    ids = [f"n{at}" for at in range(draw(st.integers(1, 20)))]
    nodes = []
    for at, one in enumerate(ids):
        needs = draw(st.lists(st.sampled_from(ids[:at]), unique=True, max_size=4)) if at else ()
        kind = "evaluate" if needs and draw(st.integers(0, 9)) == 0 else "task"
        tier = draw(st.sampled_from(["", "", "", "cheap", "premium"]))
        nodes.append(
            task(one, needs, kind=kind, tier=tier, model=draw(st.sampled_from(["m", "m", "agent:x", "agent:y"])))
        )
    return [*nodes, merge(ids)] if draw(st.booleans()) else nodes


@given(mode=st.sampled_from(MODES), nodes=strange_dags(), data=st.data())
def test_what_changed_nodes_alone_decide_is_what_a_scan_of_all_nodes_decides(mode, nodes, data):
    run = Run(mode, nodes, places=data.draw(st.integers(1, 5)))
    while run.step().end is None and len(run.started) < 60 and data.draw(st.integers(0, 30)):
        for one in data.draw(st.lists(st.sampled_from(run.running()), unique=True)) if run.running() else ():
            ways = ["completed"] * 4 + ["failed", "canceled", "retry_pending", "queued"]
            run.settle(one, data.draw(st.sampled_from(ways)), data.draw(st.sampled_from([None, f"{one} broke"])))
        paused = run.of("retry_pending")
        run.due |= set(paused if not run.running() else data.draw(st.sets(st.sampled_from(paused))) if paused else ())
        if data.draw(st.integers(0, 4)) == 0:
            run.passed = data.draw(st.sampled_from([None, True, False]))
        if data.draw(st.integers(0, 9)) == 0:
            run.stop = data.draw(
                st.sampled_from({"": ["budget", "timeout"], "budget": ["canceled"]}.get(run.stop, [run.stop]))
            )
        if data.draw(st.integers(0, 9)) == 0:
            run.joined = True
        if data.draw(st.integers(0, 9)) == 0:
            run.begin_again()


def test_a_run_of_many_nodes_costs_one_look_at_each_and_not_one_at_all_of_them_with_each_end(monkeypatch):
    looks = []
    swarm = mode_of("swarm")
    counted = replace(swarm, no_call=lambda node, *facts: looks.append(node.id) or swarm.no_call(node, *facts))
    monkeypatch.setattr(scheduler, "mode_of", lambda _mode: counted)
    ids = [f"n{at}" for at in range(500)]
    alone = Scheduler("swarm", 4, [NodeRow(one, "queued") for one in [*map(task, ids), merge(ids)]])
    while (steps := alone.next_steps()).end is None:
        for one in steps.start:
            alone.take(replace(alone.rows[one], status="running"))
            alone.take(replace(alone.rows[one], status="completed"))
    assert sorted(looks) == sorted(ids)
