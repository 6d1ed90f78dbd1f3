"""The pure core: every edge of the tables, the verbs, and what a restart sees."""

import itertools

import pytest

from orchestrator.base.errors import BadRequest, Conflict, Corrupt, NotReady
from orchestrator.base.final_states import TERMINAL
from orchestrator.core import agent_status as derived
from orchestrator.core import blocked, decisions, record_types, state, supervision, turn_end
from orchestrator.core.screens import ScreenFinding
from tests.support.pure_team import BUDGET, Desk, essence, refold


@pytest.fixture
def desk():
    desk = Desk()
    desk.start()
    desk.ready()
    return desk


def in_state(wanted):
    """A desk whose head task t1 is in the wanted state, with t2 queued behind it."""
    desk = Desk()
    desk.start()
    desk.ready()
    desk.enqueue("t1", 1)
    desk.enqueue("t2", 2)
    if wanted in ("delivered", "running"):
        desk.wait()
    if wanted == "running":
        desk.emit("ack")
    if wanted in TERMINAL:
        desk.wait()
        desk.emit(wanted)
    return desk


def raw(desk, kind, **fields):
    return {
        "v": 1,
        "seq": len(desk.logs["outbox"]) + 1,
        "at": desk.at(),
        "type": kind,
        "epoch": 1,
        "by": "agent",
        **fields,
    }


TASK_STATES = ("queued", "delivered", "running", *sorted(TERMINAL))


@pytest.mark.parametrize(("before", "kind"), list(itertools.product(TASK_STATES, sorted(state.TASK_RECORDS))))
def test_a_task_record_moves_along_its_edge_or_is_refused_unchanged(before, kind):
    desk = in_state(before)
    after = state.TASK_EDGES.get((before, kind))
    record = raw(desk, kind, task_id="t1", attempt=2)
    if after is None:
        seen = essence(desk.agent)
        with pytest.raises(Corrupt):
            state.apply(desk.agent, "outbox", record)
        assert essence(desk.agent) == seen
        return
    state.apply(desk.agent, "outbox", record)
    if after in TERMINAL:
        assert desk.agent.finished["t1"].outcome == after
        assert desk.agent.lease is None
    else:
        assert desk.agent.unfinished["t1"].state == after


LIVES = ("new", "starting", "ready", "exited", "failed", "stopped", "deleted")


def living(life):
    desk = Desk()
    if life != "new":
        desk.start()
    if life in ("ready", "stopped", "deleted"):
        desk.ready()
    if life in ("exited", "failed"):
        desk.write(supervision.exited(desk.agent, at=desk.at(), how="exit", reason="x", code=1))
    if life == "failed":
        desk.after_exit("its window is gone")
    if life in ("stopped", "deleted"):
        desk.write(supervision.stopped(desk.agent, at=desk.at(), rungs=[]))
    if life == "deleted":
        desk.write(supervision.deleted(desk.agent, at=desk.at()))
    assert desk.agent.life == life
    return desk


LIFE_RECORDS = sorted({kind for _, kind in state.LIFE_EDGES})


@pytest.mark.parametrize(("before", "kind"), list(itertools.product(LIVES, LIFE_RECORDS)))
def test_a_life_record_moves_along_its_edge_or_is_refused_unchanged(before, kind):
    desk = living(before)
    after = state.LIFE_EDGES.get((before, kind))
    epoch = desk.agent.epoch + (1 if kind in ("restarted", "starting") else 0)
    said = {"item": "0123abcd", "decision": "approve"} if kind == "answered" else {"reason": "x"}
    if kind == "late":
        asked = {"type": "task", "task_id": "t1", "seq": 1, "position": 1, "epoch": epoch, "at": "x"}
        state.apply(desk.agent, "inbox", asked)
        said |= {"task_id": "t1", "former_fence": 1}
    record = raw(desk, kind, **said) | {"epoch": epoch}
    if after is None:
        seen = essence(desk.agent)
        with pytest.raises(Corrupt):
            state.apply(desk.agent, "outbox", record)
        assert essence(desk.agent) == seen
    else:
        state.apply(desk.agent, "outbox", record)
        assert desk.agent.life == after


def test_every_outbox_type_is_in_exactly_one_table():
    life = {kind for _, kind in state.LIFE_EDGES}
    assert life | state.TASK_RECORDS == record_types.OUTBOX_TYPES
    assert not life & state.TASK_RECORDS


def test_tasks_are_handed_out_in_the_order_they_came(desk):
    for n in range(10):
        assert desk.enqueue(f"t{n}")["position"] == n + 1
    for n in range(10):
        assert desk.wait()["task_id"] == f"t{n}"
        desk.emit("result")
    assert desk.agent.outcomes == {"result": 10, "error": 0, "canceled": 0}
    assert [r["task_id"] for r in desk.logs["outbox"] if r["type"] == "result"] == [f"t{n}" for n in range(10)]


def test_position_counts_unfinished_tasks_only(desk):
    desk.enqueue("t1")
    desk.wait()
    desk.emit("result")
    assert desk.enqueue("t2")["position"] == 1
    assert desk.enqueue("t3")["position"] == 2


def test_the_same_task_again_is_a_duplicate_with_the_first_answer(desk):
    desk.enqueue("t1", {"a": 1})
    again = desk.enqueue("t1", {"a": 1}, req="c:other")
    assert again == {"position": 1, "task_id": "t1", "state": "queued", "duplicate": True}
    assert desk.types("inbox") == ["task"]


def test_a_resent_enqueue_is_answered_as_the_first_time(desk):
    first = desk.enqueue("t1", {"a": 1}, req="c:7")
    assert desk.enqueue("t1", {"a": 1}, req="c:7") == first


def test_another_title_makes_no_other_task(desk):
    desk.enqueue("t1", {"n": 1}, title="first words")
    again = desk.enqueue("t1", {"n": 1}, req="c:again", title="other words")
    assert again == {"position": 1, "task_id": "t1", "state": "queued", "duplicate": True}
    assert desk.agent.unfinished["t1"].title == "first words"
    assert "title" not in desk.logs["outbox"][-1]


def test_delivery_requeue_and_end_repeat_the_title(desk):
    desk.enqueue("t1", title="make check")
    desk.enqueue("t2")
    desk.wait()
    desk.emit("ack")
    desk.exit()
    desk.ready()
    desk.wait()
    desk.emit("error", "t1", {"message": "exit 2"})
    desk.wait()
    desk.emit("result", "t2", "fine")
    titles = [(r["type"], r.get("title")) for r in desk.logs["outbox"] if r.get("task_id")]
    assert titles == [
        ("delivered", "make check"),
        ("ack", None),
        ("requeued", "make check"),
        ("delivered", "make check"),
        ("error", "make check"),
        ("delivered", None),
        ("result", None),
    ]


def test_the_last_end_is_kept_with_its_reason(desk):
    assert desk.agent.last_end is None
    desk.enqueue("t1", title="make check")
    desk.wait()
    desk.emit("error", "t1", {"code": "exit_status", "message": "exit 2"})
    record = desk.logs["outbox"][-1]
    assert desk.agent.last_end == state.LastEnd("t1", "make check", "error", "exit 2", record["at"], record["seq"])
    desk.enqueue("t2")
    desk.wait()
    desk.emit("result", "t2", {"summary": "fine"})
    assert desk.agent.last_end is not None
    assert desk.agent.last_end[:4] == ("t2", "", "result", "")


def test_a_status_began_with_the_record_that_shows_it(desk):
    agent = desk.agent
    ready_at = agent.ready_at
    assert derived.since(agent, "idle") == derived.since(agent, "unknown") == ready_at
    desk.enqueue("t1")
    desk.wait()
    assert derived.since(agent, "busy") == agent.lease.lent
    desk.emit("result", "t1")
    assert derived.since(agent, "idle") == agent.last_end.at
    desk.write(turn_end.parked(agent, at=desk.at()))
    parked_at = desk.logs["outbox"][-1]["at"]
    assert derived.since(agent, "parked") == parked_at
    assert derived.since(agent, "idle") == agent.last_end.at
    desk.write(supervision.exited(agent, at=desk.at(), how="exit", reason="x", code=1))
    assert derived.since(agent, "exited") == desk.logs["outbox"][-1]["at"]
    assert derived.since(state.Agent("new"), "starting") is None


def test_the_same_id_with_another_payload_is_a_conflict(desk):
    desk.enqueue("t1", {"a": 1})
    with pytest.raises(Conflict) as caught:
        decisions.enqueue(
            desk.agent, task_id="t1", payload={"a": 2}, stored={"a": 1}, limits=desk.limits, req="c:9", at=desk.at()
        )
    assert caught.value.code == "task_exists"


def test_a_full_queue_refuses_and_says_wait(desk):
    desk.limits = decisions.QueueLimits(max_unfinished_tasks=2)
    desk.enqueue("t1")
    desk.enqueue("t2")
    with pytest.raises(NotReady) as caught:
        desk.enqueue("t3")
    assert caught.value.code == "queue_full"


@pytest.mark.parametrize("bad", ["", "a/b", "..", "a\0b", "🦊", "x" * 129, "-x", " x"])
def test_a_task_id_that_could_be_anything_else_is_refused(desk, bad):
    with pytest.raises(BadRequest) as caught:
        desk.enqueue(bad)
    assert caught.value.code == "bad_id"
    assert desk.types("inbox") == []


def test_a_task_is_not_handed_out_before_it_is_durable(desk):
    desk.enqueue("t1")
    assert desk.wait(visible=0) is None
    assert desk.wait(visible=1)["task_id"] == "t1"


def test_before_its_ack_the_same_task_is_handed_out_again_as_it_was(desk):
    desk.enqueue("t1", 5)
    desk.enqueue("t2", 6)
    first = desk.wait()
    assert desk.wait(handed_out=1) == first
    assert desk.types().count("delivered") == 1


def test_after_its_ack_it_is_redelivered_only_after_a_moment_and_three_times(desk):
    desk.enqueue("t1")
    desk.wait()
    desk.emit("ack")
    assert desk.wait(waited_s=0.5) is None
    for _ in range(3):
        assert desk.wait(waited_s=2.0)["redelivered"] is True
    assert desk.wait(waited_s=2.0) is None
    assert desk.agent.blocked.reason == "no terminal event"
    assert desk.wait(waited_s=3.0) is None
    assert desk.types().count("blocked") == 1
    desk.emit("result")
    assert desk.agent.blocked is None
    assert desk.types()[-2:] == ["result", "unblocked"]


def test_a_canceled_queued_task_never_reaches_the_agent(desk):
    desk.enqueue("t1")
    desk.enqueue("t2")
    assert desk.cancel("t1") == {"ok": True, "state": "cancel_requested"}
    assert desk.types()[-2:] == ["cancel_requested", "canceled"]
    assert desk.wait()["task_id"] == "t2"
    assert desk.logs["outbox"][-2]["by"] == "orchestrator"


def test_a_running_task_is_canceled_by_its_agent_at_the_next_call(desk):
    desk.enqueue("t1")
    desk.wait()
    desk.emit("ack")
    desk.cancel("t1")
    assert desk.agent.lease.cancel_requested
    assert desk.emit("progress")["cancel_requested"] is True
    assert desk.wait() == {"kind": "cancel", "task_id": "t1"}
    desk.emit("canceled")
    assert desk.types().count("canceled") == 1
    assert desk.agent.lease is None


def test_an_agent_that_ignores_a_cancel_is_told_a_few_times_and_then_blocked(desk):
    desk.enqueue("t1")
    desk.wait()
    desk.emit("ack")
    desk.cancel("t1")
    assert desk.wait(handed_out=0)["kind"] == "cancel"
    assert desk.wait(handed_out=1) is None
    assert desk.wait(handed_out=1, waited_s=2.0)["kind"] == "cancel"
    assert desk.wait(handed_out=4, waited_s=2.0) is None
    assert desk.agent.blocked


def test_a_cancel_of_a_finished_task_tells_its_outcome(desk):
    desk.enqueue("t1")
    desk.wait()
    desk.emit("error")
    with pytest.raises(Conflict) as caught:
        desk.cancel("t1")
    assert caught.value.facts["outcome"] == "error"


def test_a_resent_cancel_that_ended_the_task_is_answered_as_the_first_time(desk):
    desk.enqueue("t1")
    first = desk.cancel("t1", req="c:8")
    assert desk.cancel("t1", req="c:8") == first


def test_a_second_terminal_event_is_a_duplicate_and_not_stored(desk):
    desk.enqueue("t1")
    desk.wait()
    desk.emit("result", "t1")
    count = len(desk.logs["outbox"])
    answer = desk.emit("error", "t1")
    assert answer["ok"]
    assert answer["duplicate"]
    assert len(desk.logs["outbox"]) == count


def test_a_resent_event_is_answered_from_its_record(desk):
    desk.enqueue("t1")
    desk.wait()
    desk.emit("progress", payload=1, req="c:5")
    seq = len(desk.logs["outbox"])
    assert desk.emit("progress", payload=1, req="c:5") == {"ok": True, "seq": seq, "cancel_requested": False}
    assert len(desk.logs["outbox"]) == seq


@pytest.mark.parametrize("kind", sorted(TERMINAL))
def test_a_terminal_event_of_the_queued_head_is_legal_for_its_delivery_was_lost(desk, kind):
    desk.enqueue("t1")
    desk.enqueue("t2")
    assert desk.emit(kind, "t1")["ok"]
    assert [(r["type"], r.get("assumed")) for r in desk.logs["outbox"][-2:]] == [("delivered", True), (kind, None)]
    with pytest.raises(BadRequest):
        desk.emit("ack", "t2")


def test_a_daemon_killed_between_the_hand_out_and_the_end_takes_the_same_report_again(desk):
    desk.enqueue("t1")
    decision = decisions.emit(desk.agent, kind="result", task_id="t1", payload=1, done=None, req="e:1", at=desk.at())
    assert [draft.type for draft in decision.drafts] == ["delivered", "result"]
    desk.write(decision.drafts[:1])
    assert desk.emit("result", "t1", payload=1, req="e:1")["ok"]
    assert desk.types()[-2:] == ["delivered", "result"]
    assert desk.agent.finished["t1"].outcome == "result"


def test_an_event_for_another_task_names_the_lease(desk):
    desk.enqueue("t1")
    desk.enqueue("t2")
    desk.wait()
    with pytest.raises(BadRequest) as caught:
        desk.emit("result", "t2")
    assert caught.value.code == "not_your_task"
    assert caught.value.facts["lease"] == "t1"


def test_done_belongs_to_terminal_events_only(desk):
    desk.enqueue("t1")
    desk.wait()
    with pytest.raises(BadRequest) as caught:
        decisions.emit(desk.agent, kind="progress", task_id=None, payload=None, done=True, req="x", at=desk.at())
    assert caught.value.code == "bad_event"


def test_an_event_without_a_lease_is_refused(desk):
    with pytest.raises(BadRequest) as caught:
        desk.emit("result")
    assert caught.value.code == "no_lease"


def test_ready_is_stored_once_per_epoch(desk):
    desk.ready()
    desk.emit("ready")
    desk.exit()
    desk.emit("ready")
    desk.emit("ready")
    assert [r["epoch"] for r in desk.logs["outbox"] if r["type"] == "ready"] == [1, 2]


def test_a_lost_agents_task_goes_back_to_the_head_and_then_ends_in_error(desk):
    desk.enqueue("t1", "p")
    desk.enqueue("t2")
    desk.wait()
    desk.emit("ack")
    desk.exit()
    assert desk.agent.life == "starting"
    assert desk.agent.epoch == 2
    desk.ready()
    command = desk.wait()
    assert (command["task_id"], command["attempt"], command["payload"]) == ("t1", 2, "p")
    desk.exit()
    assert desk.agent.finished["t1"].outcome == "error"
    assert desk.agent.life == "failed"
    assert "t2" in desk.agent.unfinished


def test_on_lost_fail_ends_the_lease_in_error_at_once():
    desk = Desk()
    desk.start(on_lost="fail")
    desk.ready()
    desk.enqueue("t1")
    desk.wait()
    desk.exit()
    assert desk.agent.finished["t1"].outcome == "error"


def test_a_lost_task_that_was_canceled_is_not_run_again(desk):
    desk.enqueue("t1")
    desk.wait()
    desk.cancel("t1")
    desk.exit()
    assert desk.agent.finished["t1"].outcome == "canceled"


@pytest.mark.parametrize(
    ("policy", "code", "life"),
    [
        ("on-failure", 1, "starting"),
        ("on-failure", None, "starting"),
        ("on-failure", 0, "failed"),
        ("never", 1, "failed"),
        ("always", 0, "starting"),
    ],
)
def test_restart_follows_the_policy(policy, code, life):
    desk = Desk()
    desk.start(restart=policy)
    desk.ready()
    desk.exit(code=code)
    assert desk.agent.life == life


def test_an_agent_without_a_pane_is_not_relaunched(desk):
    desk.exit(relaunch=False)
    assert desk.agent.life == "failed"


def test_calls_of_an_older_life_are_refused(desk):
    desk.exit()
    with pytest.raises(Conflict) as caught:
        decisions.check_epoch(desk.agent, 1)
    assert caught.value.code == "replaced"
    decisions.check_epoch(desk.agent, 2)


def test_stop_goes_before_cancel_and_cancel_before_task(desk):
    desk.enqueue("t1")
    desk.wait()
    desk.emit("ack")
    desk.enqueue("t2")
    desk.write(decisions.stop(desk.agent, force=False, req="c:s", at=desk.at()))
    assert desk.wait() == {"kind": "stop"}
    assert desk.agent.lease.cancel_requested


def test_a_stopped_agents_tasks_end_in_canceled(desk):
    for n in range(3):
        desk.enqueue(f"t{n}")
    desk.wait()
    desk.write(decisions.stop(desk.agent, force=False, req="c:s", at=desk.at()))
    desk.write(supervision.stopped(desk.agent, at=desk.at(), rungs=[]))
    desk.write(supervision.deleted(desk.agent, at=desk.at()))
    assert desk.agent.outcomes["canceled"] == 3
    assert desk.types()[-1] == "deleted"
    with pytest.raises(Conflict):
        desk.enqueue("t9")


def test_fifo_broken_on_disk_is_corrupt(desk):
    desk.enqueue("t1")
    desk.enqueue("t2")
    with pytest.raises(Corrupt):
        state.apply(desk.agent, "outbox", raw(desk, "delivered", task_id="t2", attempt=1))


def test_status_never_shows_unknown_as_idle(desk):
    agent = desk.agent
    assert derived.status(agent, derived.Presence(waiting=True, process="alive"))[0] == "idle"
    assert derived.status(agent, derived.Presence(quiet_s=1.0, process="alive"))[0] == "idle"
    assert derived.status(agent, derived.Presence(quiet_s=60.0, process="alive"))[0] == "unknown"
    assert derived.status(agent, derived.Presence(process="alive"))[0] == "unknown"
    assert derived.status(agent, derived.Presence(waiting=True, process="gone"))[0] == "exited"
    desk.enqueue("t1")
    desk.wait()
    assert derived.status(agent, derived.Presence(waiting=True, process="alive"))[0] == "busy"


def test_a_crash_between_cancel_and_its_consequences_is_settled_on_restart(desk):
    desk.enqueue("t1")
    desk.cancel("t1")
    for cut in (1, 2):
        shorter = Desk()
        shorter.logs["inbox"] = desk.logs["inbox"]
        shorter.logs["outbox"] = desk.logs["outbox"][:-cut]
        agent = refold(shorter)
        found = []
        while more := supervision.settle(agent, shorter.at()):
            for draft in more:
                found.append(draft.type)
                state.apply(agent, draft.log, {"v": 1, "seq": 99, **draft.fields})
        assert found == ["cancel_requested", "canceled"][-cut:]


def test_the_fold_of_whole_logs_equals_the_live_state(desk):
    desk.enqueue("t1")
    desk.enqueue("t2")
    desk.wait()
    desk.emit("ack")
    desk.cancel("t2")
    desk.exit()
    desk.ready()
    desk.wait()
    assert essence(refold(desk)) == essence(desk.agent)


# -- what blocks an agent, and how its lives follow each other ------------------------------------------------------


def found(kind="permission", reason="asks to run rm", until=None):
    return ScreenFinding(kind, reason, until)


def see(desk, finding):
    return desk.write(blocked.explained(desk.agent, finding, at=desk.at()))


def test_each_cause_is_lifted_by_itself_and_the_newest_is_shown(desk):
    desk.write(blocked.block(desk.agent, "deaf", "does not call", at=desk.at()))
    see(desk, found())
    assert desk.agent.blocked.kind == "permission"
    see(desk, None)
    assert desk.agent.blocked.reason == "does not call"
    desk.write(blocked.called(desk.agent, at=desk.at()))
    assert desk.agent.blocked is None
    assert [r.get("kind") for r in desk.logs["outbox"] if r["type"] == "unblocked"] == ["permission", "deaf"]


def test_a_call_does_not_lift_a_process_that_stands_still(desk):
    desk.write(blocked.block(desk.agent, blocked.STOPPED, "its process 7 was stopped", at=desk.at()))
    see(desk, found())
    desk.write(blocked.called(desk.agent, at=desk.at()))
    assert list(desk.agent.blocks) == [blocked.STOPPED]
    assert not blocked.called(desk.agent, at=desk.at())
    desk.write(blocked.unblock(desk.agent, {blocked.STOPPED}, at=desk.at(), reason="it was continued"))
    assert not desk.agent.blocks


def test_a_cause_that_stands_is_not_told_twice(desk):
    assert desk.write(blocked.block(desk.agent, "deaf", "x", at=desk.at()))
    assert not desk.write(blocked.block(desk.agent, "deaf", "y", at=desk.at()))
    assert see(desk, found())
    assert not see(desk, found())


@pytest.mark.parametrize(("kind", "again"), [("permission", 1), ("trust", 1), ("rate_limit", 0), ("api_error", 0)])
def test_other_words_of_the_same_cause_are_told_unless_they_count_down(desk, kind, again):
    see(desk, found(kind, "in 8 s"))
    assert len(see(desk, found(kind, "in 6 s"))) == again


@pytest.mark.parametrize("kind", ["rate_limit", "api_error"])
def test_a_vague_finding_keeps_what_is_recorded_of_a_limit_or_an_error(desk, kind):
    vague = ScreenFinding("api_error", "the API fails", None, vague=True)
    assert [record["kind"] for record in see(desk, vague)] == ["api_error"]
    see(desk, None)
    see(desk, found(kind, "exact"))
    assert not see(desk, vague)
    assert (desk.agent.blocked.kind, desk.agent.blocked.reason) == (kind, "exact")


def test_a_reason_is_recorded_once_masked_and_on_one_line(desk):
    (record,) = see(desk, found(reason="asks to run: TOKEN=abcdefgh1234 make\n\u202eall"))
    assert record["reason"] == "asks to run: TOKEN=… make ⏎ \\u202eall"
    assert not see(desk, found(reason="asks to run: TOKEN=abcdefgh1234 make\n\u202eall"))


def test_no_call_and_no_screen_lifts_what_only_the_terminal_event_does(desk):
    desk.enqueue("t1")
    desk.wait()
    desk.emit("ack")
    for _ in range(4):
        desk.wait(waited_s=2.0)
    see(desk, found())
    see(desk, None)
    desk.write(blocked.called(desk.agent, at=desk.at()))
    assert desk.agent.blocked.kind == ""
    see(desk, found())
    desk.emit("result")
    assert desk.agent.blocked.kind == "permission"


def test_a_screen_does_not_keep_the_delivery_rule_from_speaking(desk):
    see(desk, found())
    desk.enqueue("t1")
    desk.wait()
    desk.emit("ack")
    for _ in range(4):
        desk.wait(waited_s=2.0)
    assert "" in desk.agent.blocks


def test_a_life_that_ends_is_blocked_by_nothing(desk):
    see(desk, found())
    desk.exit(code=1)
    assert (desk.agent.life, desk.agent.blocks) == ("starting", {})
    assert essence(refold(desk)) == essence(desk.agent)


def test_an_agent_that_lives_no_more_is_not_blocked():
    for life in ("exited", "failed", "stopped", "deleted"):
        desk = living(life)
        assert blocked.explained(desk.agent, found(), at=desk.at()) == []
        assert blocked.block(desk.agent, "deaf", "x", at=desk.at()) == []


@pytest.mark.parametrize("life", ["starting", "ready"])
def test_a_block_is_a_status_with_its_reason(life):
    desk = living(life)
    see(desk, found("login", "nobody is logged in"))
    assert derived.status(desk.agent, derived.Presence(process="alive")) == ("blocked", "nobody is logged in")


@pytest.mark.parametrize(
    ("turn", "status"),
    [
        ("parked", "parked"),
        ("rested", "idle"),
        ("human", "unknown"),
        ("ended", "unknown"),
        ("working", "unknown"),
        ("unknown", "unknown"),
    ],
)
def test_the_turn_of_its_cli_explains_an_agent_that_is_silent(desk, turn, status):
    silent = derived.Presence(quiet_s=99.0, process="alive", turn=turn)
    assert derived.status(desk.agent, silent)[0] == status
    assert derived.status(desk.agent, silent._replace(waiting=True))[0] == "idle"
    assert derived.status(desk.agent, silent._replace(process="unknown"))[0] == (
        "parked" if status == "parked" else "unknown"
    )
    desk.enqueue("t1")
    desk.wait()
    assert derived.status(desk.agent, silent)[0] == "busy"


def test_a_cli_that_ends_before_its_first_ready_is_not_launched_again():
    desk = Desk()
    desk.start(max_restarts=3, restart="always")
    desk.write(
        supervision.exited(
            desk.agent, at=desk.at(), how="exit", reason="exited with 1", code=1, last_lines=["Log in!"]
        )
    )
    assert supervision.never_ready(desk.agent)
    (record,) = desk.write(
        supervision.after_exit(desk.agent, at=desk.at(), budget=BUDGET, cause="it is not logged in")
    )
    assert record["type"] == "failed"
    assert record["code"] == "launch_failed"
    assert record["reason"] == "it is not logged in; exited with 1 before it was ready"
    assert record["last_lines"] == ["Log in!"]


def lives(desk, *ends):
    """Let lives of the agent end; each is ("ready"|"never", session at its end)."""
    for how, session in ends:
        if how == "ready":
            desk.write(decisions.ready(desk.agent, at=desk.at(), req=None, session=session))
        at = desk.at()
        desk.write(supervision.exited(desk.agent, at=at, how="exit", reason="x", code=1))
        desk.after_exit(session=session)
    return [record.get("resume") for record in desk.logs["outbox"] if record["type"] == "restarted"]


def test_a_session_that_did_not_get_its_cli_to_ready_is_given_up_and_costs_no_restart():
    desk = Desk()
    desk.start(max_restarts=1)
    assert lives(desk, ("ready", "s1"), ("never", "s1")) == ["s1", None]
    assert desk.agent.life == "starting"
    assert lives(desk, ("never", None)) == ["s1", None]
    assert desk.agent.life == "failed"


def test_without_a_session_the_budget_is_the_budget():
    desk = Desk()
    desk.start(max_restarts=1)
    assert lives(desk, ("ready", None), ("never", None)) == [None]
    assert desk.agent.life == "failed"


def test_the_newest_session_is_gone_on_with():
    desk = Desk()
    desk.start(max_restarts=2)
    assert lives(desk, ("ready", "s1"), ("ready", "s2")) == ["s1", "s2"]
    assert desk.agent.session == "s2"


def test_a_task_without_an_id_gets_one_from_its_call():
    """The same after every upgrade: a call that is sent again may meet a newer daemon."""
    assert decisions.task_id_from("c:1") == "t-" + "7c9d30055291"
    assert decisions.task_id_from("c:2") != decisions.task_id_from("c:1")


def test_calls_are_forgotten_in_thousands_and_the_newest_last():
    agent = state.Agent("a1")
    for seq in range(1, 2 * state.REMEMBERED_CALLS + 2):
        record = {"v": 1, "seq": seq, "at": "x", "type": "lost", "epoch": 1, "req": f"c:{seq}"}
        assert len(agent.calls) == seq - 1
        state.apply(agent, "inbox", record)
    assert list(agent.calls) == [f"c:{seq}" for seq in range(state.REMEMBERED_CALLS + 2, seq + 1)]
    assert agent.calls[f"c:{seq}"] == state.Answered("lost", None, seq)


def test_an_archive_is_asked_for_what_has_left_memory(desk):
    kept = {"old": state.Finished(1, 1, "result", 9)}
    desk.agent.archive = kept.get
    assert desk.enqueue("old")["state"] == "result"
    with pytest.raises(Conflict) as caught:
        desk.cancel("old")
    assert caught.value.facts == {"outcome": "result"}
    desk.enqueue("new")
    desk.wait()
    desk.emit("error", "new")
    assert desk.agent.ended("new").outcome == "error"  # what is in memory counts first
    assert desk.agent.ended("never") is None
