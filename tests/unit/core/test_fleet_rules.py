"""What taking a post causes, what follows a move, whether an owner may act; and how the refused end."""

import math

import pytest

from orchestrator.base.errors import Corrupt
from orchestrator.core import decisions, fleet_rules, state, supervision
from orchestrator.core.fleet_rules import MAX_LATE, LateEnd, PostedCall, late_end, may_act, moved, take
from orchestrator.core.invariants import RESTORED_GAP, AuditedLog, AuditedRecord, agent_faults
from tests.support.pure_team import Desk, essence, refold

FLEET = {"project": "shop", "agent": "a1", "home": "a", "host": "a", "fence": 1, "on_host_lost": "move", "cwd": "."}


@pytest.fixture
def desk():
    made = Desk()
    spec = {
        "name": "a", "role": "r", "engine": "shell", "run_id": "run-1", "cwd": "/p", "env_names": [], "fleet": FLEET,
        "ref": 1, "policies": {"restart": "on-failure", "max_restarts": 1, "on_lost": "requeue", "max_attempts": 2},
    }  # fmt: skip
    made.write([supervision.starting("a1", at=made.at(), req="c:0", spec=spec)])
    return made


def post(number, kind="task", task_id="t1", **body):
    return PostedCall(number, kind, task_id, f"c:{number}", "b", body)


def taken(desk, call, *, stored=None, refused=""):
    """Take the post; the record that it caused, if any."""
    written = desk.write(take(desk.agent, call, stored=stored, at=desk.at(), refused=refused))
    return written[0] if written else None


def facts(record, *keys):
    return {key: record[key] for key in keys if key in record}


# -- taking ---------------------------------------------------------------------------------------------------------


def test_a_task_is_recorded_with_its_number_and_whose_post_it_is(desk):
    record = taken(desk, post(2, payload=7, timeout_s=5.0, title="seven"))
    wanted = {"type": "task", "task_id": "t1", "payload": 7, "position": 1, "timeout_s": 5.0, "title": "seven",
              "ref": 2, "by_host": "b", "req": "c:2"}  # fmt: skip
    assert facts(record, *wanted, "refused", "duplicate") == wanted
    assert desk.agent.ref == 2
    assert facts(taken(desk, post(3, task_id="t2")), "position", "timeout_s", "title") == {"position": 2}


def test_a_task_without_an_id_gets_that_of_its_call(desk):
    assert taken(desk, post(2, task_id=None))["task_id"] == decisions.task_id_from("c:2")


@pytest.mark.parametrize("number", [1, 2])
def test_a_post_that_was_taken_causes_nothing(desk, number):
    taken(desk, post(2))
    assert taken(desk, post(number, task_id="t2")) is None


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (post(3, "cancel", "t1"), {"task_id": "t1"}),
        (post(3, "restart", None), {}),
        (post(3, "restart", None, fresh=True), {"fresh": True}),
        (post(3, "restart", None, force=True), {}),
        (post(3, "stop", None), {}),
        (post(3, "stop", None, force=True), {"force": True}),
        (post(3, "stop", None, fresh=True), {}),
    ],
)
def test_what_is_no_task_is_recorded_as_it_was_posted(desk, call, wanted):
    taken(desk, post(2))
    record = taken(desk, call)
    assert facts(record, "task_id", "force", "fresh") == wanted
    assert facts(record, "type", "ref", "by_host", "req") == {
        "type": call.kind, "ref": 3, "by_host": "b", "req": "c:3",
    }  # fmt: skip


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize(("payload", "words"), [(7, ""), (8, "posted again with another payload")])
def test_a_task_that_is_known_is_a_duplicate_and_replaces_nothing(desk, ended, payload, words):
    taken(desk, post(2, payload=7))
    if ended:
        desk.ready()
        desk.wait()
        desk.emit("result", "t1")
    record = taken(desk, post(3, payload=payload), stored=7, refused="not from there")
    assert facts(record, "duplicate", "refused") == {"duplicate": True}
    assert record.get("title", "") == words
    assert desk.agent.ref == 3
    assert len(desk.agent.unfinished) == (not ended)
    assert essence(refold(desk)) == essence(desk.agent)


def test_a_task_that_this_host_does_not_take_ends_in_error_and_the_next_is_handed_out(desk):
    record = taken(desk, post(2), refused="not from b")
    assert record["refused"] == {"code": "refused_by_host", "message": "not from b"}
    end = desk.logs["outbox"][-1]
    assert facts(end, "type", "task_id", "payload") == {
        "type": "error",
        "task_id": "t1",
        "payload": record["refused"],
    }
    taken(desk, post(3, task_id="t2"))
    desk.ready()
    assert desk.wait()["task_id"] == "t2"
    assert not desk.agent.refusals
    assert essence(refold(desk)) == essence(desk.agent)


@pytest.mark.parametrize("life", ["stopping", "failed", "stopped", "deleted"])
def test_a_task_for_an_agent_that_is_ending_is_canceled(desk, life):
    if life == "failed":
        desk.write(supervision.failed(desk.agent, at=desk.at(), reason="x", code="launch_failed"))
    else:
        taken(desk, post(2, "stop", None))
    if life in ("stopped", "deleted"):
        desk.write(supervision.stopped(desk.agent, at=desk.at(), rungs=[]))
    record = taken(desk, post(3))
    assert record["refused"]["code"] == "agent_ended"
    assert desk.agent.ended("t1").outcome == "canceled"


def test_the_cancel_of_a_task_that_the_agent_never_got_says_so_and_changes_nothing(desk):
    desk.ready()
    put(desk, post(2, task_id="t1"), post(5, "cancel", "t1"))
    assert facts(taken(desk, post(6, "cancel", "lost")), "unknown") == {"unknown": True}
    assert facts(taken(desk, post(7, "cancel", "t1")), "unknown") == {}
    assert desk.agent.ended("t1").outcome == "canceled"
    assert desk.agent.ended("lost") is None


def test_a_refused_task_behind_others_ends_before_them_and_is_never_handed_out(desk):
    desk.ready()
    taken(desk, post(2, task_id="t1"))
    taken(desk, post(3, task_id="t2"), refused="no")
    taken(desk, post(4, task_id="t3"))
    assert (desk.agent.ended("t2").outcome, desk.agent.ended("t1")) == ("error", None)
    assert desk.wait()["task_id"] == "t1"


# -- settling only what is durable ----------------------------------------------------------------------------------


def put(desk, *calls, refused=""):
    """Take posts, and settle nothing."""
    for call in calls:
        for draft in take(desk.agent, call, stored=None, at=desk.at(), refused=refused):
            desk._put(draft)


@pytest.mark.parametrize(("visible", "ends"), [(0, []), (1, ["t1"]), (2, ["t1", "t2"]), (math.inf, ["t1", "t2"])])
def test_a_refused_task_ends_once_its_record_is_durable(desk, visible, ends):
    put(desk, post(2), post(3, task_id="t2"), refused="no")
    assert [draft.fields["task_id"] for draft in supervision.settle(desk.agent, desk.at(), visible)] == ends


@pytest.mark.parametrize(("visible", "kinds"), [(0, []), (1, ["cancel_requested"])])
def test_a_canceled_task_is_settled_once_its_record_is_durable(desk, visible, kinds):
    put(desk, post(2), post(3, "cancel", "t1"))
    assert [draft.type for draft in supervision.settle(desk.agent, desk.at(), visible)] == kinds


@pytest.mark.parametrize(("visible", "ends"), [(0, []), (1, ["t1"]), (2, ["t1", "t2"])])
def test_the_tasks_of_a_stopped_agent_end_once_their_records_are_durable(desk, visible, ends):
    put(desk, post(2), post(3, task_id="t2"))
    for draft in supervision.stopped(desk.agent, at=desk.at(), rungs=[]):
        desk._put(draft)
    assert [draft.fields["task_id"] for draft in supervision.settle(desk.agent, desk.at(), visible)] == ends


# -- moves ----------------------------------------------------------------------------------------------------------


def move(desk, fence=2):
    """Record the move as the new owner does; the types of the records that it wrote."""
    before = len(desk.logs["outbox"])
    while True:
        drafts = moved(desk.agent, at=desk.at(), fence=fence, host="c", lost_host="a", placed={"cwd": "/q"})
        if not drafts:
            return desk.types()[before:]
        desk.write(drafts)


def in_life(desk, life):
    """Bring the agent there."""
    if life in ("ready", "busy", "exited"):
        desk.ready()
    if life == "busy":
        desk.wait()
    if life == "exited":
        desk.write(supervision.exited(desk.agent, at=desk.at(), how="exit", reason="x", code=1))
    if life == "failed":
        desk.write(supervision.failed(desk.agent, at=desk.at(), reason="x", code="launch_failed"))
    if life == "stopped":
        desk.write(supervision.stopped(desk.agent, at=desk.at(), rungs=[]))


@pytest.mark.parametrize(
    ("life", "tasks", "written"),
    [
        ("starting", 1, ["exited", "restarted"]),
        ("ready", 0, ["exited", "restarted"]),
        ("ready", 1, ["delivered", "exited", "requeued", "restarted"]),
        ("busy", 2, ["exited", "requeued", "restarted"]),
        ("exited", 1, ["restarted"]),
        ("failed", 1, []),
        ("stopped", 0, []),
    ],
)
def test_what_a_new_owner_records(desk, life, tasks, written):
    for number in range(tasks):
        taken(desk, post(2 + number, task_id=f"t{number}"))
    in_life(desk, life)
    assert move(desk) == written
    moves = "restarted" in written
    assert (desk.agent.fence, desk.agent.host) == ((2, "c") if moves else (1, "a"))
    assert (desk.agent.epoch, desk.agent.spec["cwd"]) == ((2, "/q") if moves else (1, "/p"))
    assert desk.agent.restarts == []
    assert move(desk) == []
    assert essence(refold(desk)) == essence(desk.agent)


def test_the_delivery_that_is_assumed_says_so_and_its_task_is_the_next_attempt(desk):
    taken(desk, post(2))
    desk.ready()
    move(desk)
    delivered = next(record for record in desk.logs["outbox"] if record["type"] == "delivered")
    assert (delivered["assumed"], delivered["attempt"]) == (True, 1)
    exited = next(record for record in desk.logs["outbox"] if record["type"] == "exited")
    assert exited["how"] == "host_lost"
    desk.ready()
    assert desk.wait()["attempt"] == 2


def test_no_delivery_of_a_refused_head_is_assumed(desk):
    desk.ready()
    put(desk, post(2), refused="no")
    assert [draft.type for draft in moved(desk.agent, at="x", fence=2, host="c", lost_host="a", placed={})] == [
        "exited"
    ]


def test_an_agent_that_is_to_stop_is_not_launched_again(desk):
    desk.ready()
    taken(desk, post(2, "stop", None))
    assert move(desk) == ["exited"]


@pytest.mark.parametrize("fence", [0, 1])
def test_a_fence_that_is_not_higher_moves_nothing(desk, fence):
    assert move(desk, fence) == []


# -- late ends ------------------------------------------------------------------------------------------------------


def late(desk, task_id="t1", kind="result", fence=1, own=2, visible=99, host="a", **more):
    """Record the late end; what was written."""
    end = LateEnd(fence, host, task_id, kind, **more)
    return desk.write(late_end(desk.agent, end, fence=own, visible_inbox=visible, at=desk.at()))


@pytest.fixture
def moved_desk(desk):
    """An agent that moved while it ran t1; t1 waits for its second attempt, and t2 behind it."""
    taken(desk, post(2, title="one"))
    in_life(desk, "busy")
    taken(desk, post(3, task_id="t2"))
    move(desk)
    return desk


def test_a_late_end_is_recorded_and_changes_no_status_and_no_outcome(moved_desk):
    before = essence(moved_desk.agent)
    (record,) = late(moved_desk, payload={"n": 1})
    said = {"type": "late", "task_id": "t1", "title": "one", "kind": "result", "former_fence": 1, "host": "a",
            "payload": {"n": 1}, "by": "orchestrator"}  # fmt: skip
    assert facts(record, *said) == said
    assert essence(moved_desk.agent) == before
    assert moved_desk.agent.unfinished["t1"].late == facts(record, "kind", "reason", "payload")
    moved_desk.ready()
    assert moved_desk.wait()["attempt"] == 2
    moved_desk.emit("error", payload="no")
    assert moved_desk.agent.ended("t1").outcome == "error"
    assert essence(refold(moved_desk)) == essence(moved_desk.agent)
    assert refold(moved_desk).late == moved_desk.agent.late == {"t1": [1]}


def test_a_late_end_of_an_ended_task_is_recorded_behind_its_end(moved_desk):
    moved_desk.ready()
    moved_desk.wait()
    moved_desk.emit("result")
    (record,) = late(moved_desk, kind="error", left_out="its payload is too large")
    assert record["kind"] == "error" and "payload" not in record
    assert record["reason"].endswith("; its payload is too large")
    assert moved_desk.agent.outcomes == {"result": 1, "error": 0, "canceled": 0}


@pytest.mark.parametrize(
    "said",
    [
        {"task_id": "t9"},
        {"task_id": ""},
        {"fence": 2, "host": "c"},
        {"fence": 3},
        {"host": "b"},
        {"host": "c"},
        {"fence": 2, "own": 9},
        {"fence": 0},
        {"fence": -1},
        {"kind": "ack"},
        {"kind": "late"},
        {"task_id": "t2", "visible": 1},
    ],
)
def test_a_late_end_that_cannot_be_one_is_not_recorded(moved_desk, said):
    assert late(moved_desk, **said) == []


@pytest.mark.parametrize(("life", "records"), [("failed", 1), ("stopped", 1), ("deleted", 0)])
def test_nothing_follows_the_record_of_the_deletion(desk, life, records):
    taken(desk, post(2))
    in_life(desk, "stopped" if life == "deleted" else life)
    if life == "deleted":
        desk.write(supervision.deleted(desk.agent, at=desk.at()))
    assert len(late(desk)) == records


def test_of_each_former_owner_one_late_end_of_a_task_is_recorded_and_of_an_agent_so_many(moved_desk):
    assert len(late(moved_desk)) == 1
    assert late(moved_desk, kind="error") == []
    for number in range(4, MAX_LATE + 50):
        taken(moved_desk, post(number, task_id=f"t{number}"))
        late(moved_desk, task_id=f"t{number}", visible=number)
    assert moved_desk.types().count("late") == MAX_LATE


def test_a_log_with_a_late_end_of_a_task_that_was_never_asked_for_is_damaged(moved_desk):
    (record,) = late(moved_desk)
    with pytest.raises(Corrupt):
        state.apply(moved_desk.agent, "outbox", {**record, "seq": 99, "task_id": "t9"})
    assert list(moved_desk.agent.late) == ["t1"]


@pytest.mark.parametrize("ended", [False, True])
def test_a_late_end_breaks_no_invariant(moved_desk, ended):
    if ended:
        moved_desk.ready()
        moved_desk.wait()
        moved_desk.emit("result")
    late(moved_desk)
    assert faults(moved_desk) == []
    moved_desk.logs["outbox"][-1]["task_id"] = "t9"
    assert faults(moved_desk) == ["not_asked"]


def faults(desk):
    """The kinds of the broken invariants of its logs."""
    logs = [
        AuditedLog(
            name,
            [
                AuditedRecord(
                    name, n, n, r["type"], r["epoch"], by=r.get("by", ""), task_id=r.get("task_id"),
                    attempt=r.get("attempt"), ref=r.get("ref", 0), moved=r.get("fence") is not None,
                )
                for n, r in enumerate(desk.logs[name], 1)
            ],
        )
        for name in ("inbox", "outbox")
    ]  # fmt: skip
    return [fault.kind for fault in agent_faults("a1", *logs)]


# -- who may act ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moves", "fenced", "age_s", "word"),
    [
        (True, False, 0.0, "act"),
        (True, False, 9.99, "act"),
        (True, False, 10.0, "suspend"),
        (True, False, math.inf, "suspend"),
        (False, False, math.inf, "act"),
        (False, True, 0.0, "fenced"),
        (True, True, math.inf, "fenced"),
    ],
)
def test_whether_an_owner_may_act(moves, fenced, age_s, word):
    assert may_act(moves=moves, fenced=fenced, renewal_age_s=age_s) == word


# -- the numbers of posts, as verify sees them ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refs", "wrong"),
    [
        ([2, 3, 4], []),
        ([0, 2, 0, 3], []),
        ([3], [3]),
        ([2, 4], [4]),
        ([2, 2], [2]),
        ([2, 1, 3], [1]),
        ([2, 2 + RESTORED_GAP + 1, 2 + RESTORED_GAP + 2], []),
        ([2, 2 + RESTORED_GAP], [2 + RESTORED_GAP]),
    ],
)
def test_posts_are_taken_in_the_order_of_their_numbers(refs, wrong):
    starting = AuditedRecord("out", 1, 1, "starting", epoch=1, ref=1)
    inbox = [AuditedRecord("in", n, n, "restart", epoch=1, ref=ref) for n, ref in enumerate(refs, 1)]
    faults = agent_faults("a1", AuditedLog("in", inbox), AuditedLog("out", [starting]))
    assert [refs[fault.line - 1] for fault in faults if fault.kind == "post_order"] == wrong


@pytest.mark.parametrize(("second", "faults"), [(3, ["call_twice"]), (4 + RESTORED_GAP, [])])
def test_a_restored_database_may_accept_a_call_anew_that_was_taken_before(second, faults):
    starting = AuditedRecord("out", 1, 1, "starting", epoch=1, ref=1)
    inbox = [
        AuditedRecord("in", n, n, "restart", epoch=1, ref=ref, req="m:1") for n, ref in enumerate((2, second), 1)
    ]
    found = agent_faults("a1", AuditedLog("in", inbox), AuditedLog("out", [starting]))
    assert [fault.kind for fault in found] == faults


@pytest.mark.parametrize(
    ("host", "life", "stop_asked", "held"),
    [
        ("here", "ready", 0, False),
        ("lost", "ready", 0, True),
        ("lost", "ready", 3, True),
        ("lost", "starting", 0, True),
        ("lost", "exited", 0, True),
        ("lost", "exited", 3, False),
        ("lost", "failed", 0, False),
        ("lost", "stopped", 3, False),
    ],
)
def test_a_launch_of_another_host_is_not_supervised_here(host, life, stop_asked, held):
    agent = state.Agent("w")
    agent.host, agent.life, agent.stop_asked = host, life, stop_asked
    assert fleet_rules.launched_elsewhere(agent, "here") is held
