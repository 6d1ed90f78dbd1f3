"""What the records of a run show over time, also where records are missing."""

import os

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.faces.timeline import lane_of, timeline, timeline_of, without_payload
from orchestrator.journal.log_lines import encode
from orchestrator.team.roster.run_records import AgentRecords, RunRecords
from tests.support.run_files import RunFiles, at


@pytest.fixture
def files(tmp_path):
    return RunFiles(tmp_path)


def lane(files, name="c1"):
    files.save()
    return next(lane for lane in timeline_of(files.paths.root, files.run_id).agents if lane.agent_id == name)


def gaps(files):
    return [
        (gap.log.rpartition("/")[2], gap.first_seq, gap.last_seq)
        for gap in timeline_of(files.paths.root, "run-1").gaps
    ]


def damage(path, line, data=b"\0\0damaged"):
    lines = path.read_bytes().split(b"\n")
    lines[line - 1] = data
    path.write_bytes(b"\n".join(lines))


def test_an_attempt_lasts_from_its_delivery_to_its_end_and_a_lost_one_says_why(files):
    agent = files.agent("c1")
    agent.task("t1", 10, {"task": "Run the tests"})
    agent.out("requeued", 20, task_id="t1", attempt=2, reason="its program exited by itself")
    agent.out("delivered", 30, task_id="t1", attempt=2)
    agent.out("delivered", 35, task_id="t1", attempt=2, redelivered=True)
    agent.end("t1", 40, "error", {"message": "token=hunter2hunter2 refused"}, attempt=2)
    agent.task("t2", 50, title="Review")
    first, second, running = lane(files).bars
    assert (first.title, first.begin, first.end, first.outcome, first.attempt) == (
        "Run the tests", at(11), at(20), "requeued", 1,
    )  # fmt: skip
    assert first.why == "its program exited by itself"
    assert (second.begin, second.end, second.outcome, second.attempt) == (at(30), at(40), "error", 2)
    assert "hunter2" not in second.why
    assert (running.title, running.begin, running.end, running.outcome) == ("Review", at(51), None, "")


def test_a_task_that_never_was_delivered_has_no_begin(files):
    agent = files.agent("c1")
    files.add(agent.inbox, "task", 5, task_id="t1", payload="Never", position=1)
    agent.out("canceled", 6, task_id="t1", attempt=1)
    (bar,) = lane(files).bars
    assert (bar.title, bar.begin, bar.end, bar.outcome) == ("Never", None, at(6), "canceled")


def test_a_wait_for_a_human_lasts_until_it_is_lifted_and_says_who_answered(files):
    agent = files.agent("c1")
    agent.out("blocked", 10, kind="permission", reason="Bash: make")
    who = {"face": "top", "user": "ann", "acts_as": "human"}
    agent.out("answered", 14, item="3f2a91bc", kind="permission", decision="approve", who=who)
    agent.out("unblocked", 15, kind="permission", reason="it goes on")
    agent.out("blocked", 20, kind="rate_limit", reason="usage limit", until="5pm")
    agent.out("unblocked", 30, kind="rate_limit", reason="gone")
    agent.out("blocked", 40, kind="login", reason="log in")
    agent.out("exited", 45, reason="exit code 1", how="exit", code=1)
    agent.out("stalled", 50, reason="no event")
    permission, limit, login, stalled = lane(files).waits
    assert (limit.kind, limit.end, limit.text, limit.reason) == ("rate_limit", at(30), "usage limit", "gone")
    assert (permission.begin, permission.end, permission.kind) == (at(10), at(15), "permission")
    assert (permission.answer, permission.by) == ("approve", "human, ann, top")
    assert (login.end, login.answer) == (at(45), "")
    assert (stalled.kind, stalled.end) == ("stalled", None)


def test_an_agent_that_failed_waits_until_it_is_restarted_or_ends(files):
    agent = files.agent("c1")
    agent.out("blocked", 5, reason="no terminal event")
    agent.out("exited", 10, reason="exit code 1", how="exit", code=1)
    agent.out("failed", 11, reason="max_restarts reached")
    agent.out("restarted", 20, reason="asked for", epoch=2)
    agent.out("failed", 30, reason="not ready in time", epoch=2)
    agent.out("stopped", 40, how="gone already", epoch=2)
    assert [(wait.kind, wait.begin, wait.end, wait.text) for wait in lane(files).waits] == [
        ("blocked", at(5), at(10), "no terminal event"),
        ("failed", at(11), at(20), "max_restarts reached"),
        ("failed", at(30), at(40), "not ready in time"),
    ]


def test_another_question_of_the_same_kind_is_another_wait(files):
    agent = files.agent("c1")
    agent.out("blocked", 10, kind="permission", reason="Bash: make")
    agent.out("blocked", 12, kind="permission", reason="Bash: make install")
    first, second = lane(files).waits
    assert (first.end, second.begin, second.end) == (at(12), at(12), None)


def test_an_answer_of_a_rule_is_a_wait_of_no_length_and_a_dismissed_error_is_none(files):
    agent = files.agent("c1")
    rule = {"face": "rule", "acts_as": "rule"}
    agent.out("answered", 10, item="a", kind="permission", decision="approve", who=rule, asked="Bash: ls")
    agent.out("answered", 11, item="b", kind="error", decision="dismiss", who=rule)
    (wait,) = lane(files).waits
    assert (wait.begin, wait.end, wait.text, wait.by) == (at(10), at(10), "Bash: ls", "rule")


def test_each_launch_says_when_it_was_ready_and_how_it_ended(files):
    agent = files.agent("c1")
    agent.out("exited", 20, reason="exit code 1", how="exit", code=1)
    agent.out("restarted", 25, reason="it exited", epoch=2)
    agent.out("ready", 26, epoch=2)
    agent.out("stopped", 40, how="stopped by itself", epoch=2)
    agent.out("deleted", 41, epoch=2)
    seen = lane(files)
    assert [(life.epoch, life.begin, life.ready, life.end, life.how) for life in seen.lives] == [
        (1, at(0), at(1), at(20), "exited"),
        (2, at(25), at(26), at(40), "stopped"),
    ]
    assert seen.deleted == at(41)


def test_the_run_has_the_agents_whose_first_record_names_it_in_the_order_of_their_creation(files):
    files.agent("zoe", 1)
    files.agent("ann", 2)
    files.agent("other", 0, run_id="run-2")
    files.save()
    timeline = timeline_of(files.paths.root, "run-1")
    assert [lane.agent_id for lane in timeline.agents] == ["zoe", "ann"]
    assert (timeline.begin, timeline.end, timeline.gaps) == (at(0), None, [])


def test_what_no_file_knows_is_no_run(files):
    files.save()
    for wrong, code in (("run-2", "unknown_run"), ("../run-1", "bad_id")):
        with pytest.raises(BadRequest) as refused:
            timeline_of(files.paths.root, wrong)
        assert refused.value.code == code


# -- missing records ------------------------------------------------------------------------------------------------


def test_a_damaged_line_is_a_gap_and_its_attempt_ends_where_nobody_knows(files):
    agent = files.agent("c1")
    agent.task("t1", 10, "one")
    agent.end("t1", 20)
    agent.task("t2", 30, "two")
    files.save()
    damage(agent.outbox, 4)
    damage(agent.inbox, 1)
    assert gaps(files) == [("inbox.jsonl", 1, 1), ("outbox.jsonl", 4, 4)]
    first, second = timeline_of(files.paths.root, "run-1").agents[0].bars
    assert (first.outcome, first.end) == ("unknown", at(31))
    assert (second.title, second.outcome) == ("two", "")


def test_an_end_that_the_outbox_has_lost_is_taken_from_the_broadcast(files):
    agent = files.agent("c1")
    agent.task("t1", 10, "one")
    agent.end("t1", 20, "error", {"message": "no"})
    files.broadcast(agent, 4)
    files.save()
    damage(agent.outbox, 4)
    timeline = timeline_of(files.paths.root, "run-1")
    (bar,) = timeline.agents[0].bars
    assert (bar.end, bar.outcome, bar.why) == (at(20), "error", "no")
    assert gaps(files) == [("outbox.jsonl", 4, None)]


def test_a_log_that_ends_before_what_the_broadcast_knows_declares_it(files):
    agent = files.agent("c1")
    agent.task("t1", 10, "one")
    agent.end("t1", 20)
    files.broadcast(agent, 4)
    files.save()
    agent.outbox.write_bytes(b"".join(line + b"\n" for line in agent.outbox.read_bytes().split(b"\n")[:3]))
    timeline = timeline_of(files.paths.root, "run-1")
    assert [(gap.first_seq, gap.last_seq) for gap in timeline.gaps] == [(4, 4)]
    assert timeline.agents[0].bars[0].outcome == "result"


def test_lines_that_were_cut_out_and_lines_that_doctor_has_replaced_are_gaps(files):
    agent = files.agent("c1")
    agent.task("t1", 10, "one")
    agent.out("lost", 15, quarantined="outbox.jsonl.quarantine-1")
    agent.end("t1", 20)
    files.save()
    assert gaps(files) == [("outbox.jsonl", 4, 4)]
    lines = agent.outbox.read_bytes().splitlines(keepends=True)
    agent.outbox.write_bytes(b"".join([lines[0], *lines[2:]]))
    assert gaps(files) == [("outbox.jsonl", 2, 2), ("outbox.jsonl", 4, 4)]


def test_an_agent_whose_data_gc_has_removed_keeps_its_row_and_its_ends(files):
    agent = files.agent("c1")
    agent.task("t1", 10, "one", title="One")
    agent.end("t1", 20, title="One")
    files.broadcast(agent, 4)
    files.save()
    agent.outbox.unlink()
    agent.inbox.unlink()
    note = files.paths.collected(agent.outbox.parent)
    note.write_text(
        '{"run_id": "run-1", "name": "Cee", "engine": "codex", "created_at": null, "collected_at": "then",'
        f' "deleted_at": "{at(50)}"}}'
    )
    timeline = timeline_of(files.paths.root, "run-1")
    (seen,) = timeline.agents
    assert (seen.name, seen.engine, seen.deleted) == ("Cee", "codex", at(50))
    assert [(bar.title, bar.begin, bar.outcome) for bar in seen.bars] == [("One", None, "result")]
    assert [(gap.first_seq, gap.last_seq) for gap in timeline.gaps] == [(1, None)]


@pytest.mark.parametrize("content", [None, "{"])
def test_a_run_without_its_file_is_shown_from_its_agents_and_ends_with_the_last(files, content):
    agents = [files.agent("c1", 3), files.agent("c2", 4)]

    def seen():
        files.save()
        file = files.paths.run_json("run-1")
        file.unlink()
        if content is not None:
            file.write_text(content)
        timeline = timeline_of(files.paths.root, "run-1")
        assert gaps(files) == [("run.json", 1, None)]
        return timeline.begin, timeline.end

    assert seen() == (at(3), None)
    for place, agent in enumerate(agents, 1):
        agent.out("stopped", 10 * place)
        agent.out("deleted", 10 * place + 1)
        assert seen() == (at(3), at(21) if place == 2 else None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"at": 5}, {"at": "yesterday"}, {"at": "2026-11-02T09:00:00.000"}, {"epoch": "1"}, {"task_id": 7},
        {"task_id": None}, {"attempt": "first"}, {"attempt": None}, {"at": None},
    ],
)  # fmt: skip
def test_a_record_without_the_keys_of_its_type_is_a_gap(files, wrong):
    """A log of another machine may hold anything that has a checksum."""
    agent = files.agent("c1")
    agent.task("t1", 10, "one")
    agent.end("t1", 20)
    files.logs[agent.outbox][-1].update(wrong)
    files.save()
    assert gaps(files) == [("outbox.jsonl", 4, 4)]


def test_odd_values_of_other_keys_do_no_harm(files):
    agent = files.agent("c1", name=["a"], engine={"x": 1}, role=None)
    odd = [None, 7, [], {"a": {}}, "\x1b[31m\u202e", "x" * 5000]
    for value in odd:
        agent.out("blocked", 10, kind=value, reason=value)
        agent.out("answered", 11, item=value, kind="permission", decision=value, who=value, asked=value)
        agent.out("unblocked", 12, kind=value, reason=value)
        agent.task("t1", 13, value)
        agent.end("t1", 14, "error", value, title=value)
        agent.out("exited", 15, reason=value, how=value)
    seen = lane(files)
    texts = [bar.title + bar.why for bar in seen.bars] + [wait.text + wait.answer + wait.by for wait in seen.waits]
    assert all(text.isprintable() and len(text) < 500 for text in [*texts, seen.name, seen.engine])


@pytest.mark.parametrize("kind", ["pipe", "link", "directory", "unreadable bytes"])
def test_something_else_in_the_place_of_a_log_is_a_gap(files, tmp_path, kind):
    agent = files.agent("c1")
    files.save()
    content = agent.outbox.read_bytes()
    agent.outbox.unlink()
    if kind == "pipe":
        os.mkfifo(agent.outbox)
    elif kind == "link":
        (tmp_path / "elsewhere").write_bytes(content)
        agent.outbox.symlink_to(tmp_path / "elsewhere")
    elif kind == "directory":
        agent.outbox.mkdir()
    else:
        agent.outbox.write_bytes(os.urandom(1000) + b"\n")
    files.paths.meta("c1").write_text('{"run_id": "run-1", "name": "Cee"}')
    timeline = timeline_of(files.paths.root, "run-1")
    assert [lane.name for lane in timeline.agents] == ["Cee"]
    assert kind == "pipe" or timeline.gaps


def test_records_of_a_newer_version_are_a_gap(files):
    agent = files.agent("c1")
    agent.task("t1", 10, "one")
    files.save()
    with agent.outbox.open("ab") as log:
        log.write(encode({"at": at(15), "type": "levitated", "epoch": 1}, 4)[1])
        log.write(encode({"at": at(20), "type": "result", "epoch": 1, "by": "agent", "task_id": "t1"}, 5)[1])
    assert gaps(files) == [("outbox.jsonl", 4, 4)]
    assert timeline_of(files.paths.root, "run-1").agents[0].bars[0].outcome == "result"


def test_a_lane_of_no_records_is_empty():
    seen = lane_of(AgentRecords("c1"))
    assert (seen.name, seen.bars, seen.waits, seen.lives) == ("c1", [], [], [])


def folded(*records):
    """The lane of these records: ``(type, second, keys)``."""
    return lane_of(
        AgentRecords("c1", outbox=[{"type": kind, "at": at(when), **keys} for kind, when, keys in records])
    )


def waits_of(*records):
    return [(wait.kind, wait.end, wait.answer, wait.reason) for wait in folded(*records).waits]


BLOCKED = ("blocked", 10, {"kind": "dialog", "reason": "shows a dialog"})


def test_the_screen_and_the_hook_may_name_the_question_that_is_answered_differently():
    answer = {"kind": "permission", "decision": "approve"}
    asked = ("blocked", 11, {"kind": "permission", "reason": "Bash: make"})
    assert waits_of(BLOCKED, ("answered", 12, answer)) == [("dialog", None, "approve", "")]
    assert [wait[2] for wait in waits_of(BLOCKED, asked, ("answered", 12, answer))] == ["", "approve"]
    assert [wait[2] for wait in waits_of(asked, BLOCKED, ("answered", 12, {**answer, "kind": "question"}))] == [
        "", "approve",
    ]  # fmt: skip
    assert waits_of(BLOCKED, ("answered", 12, {"kind": "error", "decision": "dismiss"})) == [("dialog", None, "", "")]


def test_a_wait_ends_with_what_ended_it():
    stalled = ("stalled", 10, {"reason": "no event"})
    assert waits_of(stalled, ("recovered", 12, {"reason": "it reports again"})) == [
        ("stalled", at(12), "", "it reports again")
    ]
    assert waits_of(BLOCKED, BLOCKED)[0][3] == "something else followed"
    ends = [
        ("restarted", {"epoch": 2}, "its CLI was launched again"), ("exited", {}, "its CLI has ended"),
        ("stopped", {}, "its CLI has stopped"),
    ]  # fmt: skip
    for kind, keys, reason in ends:
        assert waits_of(BLOCKED, (kind, 12, keys))[0] == ("dialog", at(12), "", reason), kind


@pytest.mark.parametrize(
    ("keys", "why"), [({"reason": "exit 1", "how": "exit"}, "exit 1"), ({"how": "gone already"}, "gone already"), ({}, "")]
)  # fmt: skip
def test_a_launch_says_why_it_ended_once(keys, why):
    (life,) = folded(("starting", 0, {"epoch": 1}), ("exited", 5, keys), ("stopped", 9, {"how": "later"})).lives
    assert (life.end, life.how, life.why) == (at(5), "exited", why)
    assert folded(("exited", 5, keys)).lives == []


@pytest.mark.parametrize(
    ("kind", "keys", "attempt", "why"),
    [
        ("requeued", {"attempt": 3, "reason": "exit 1"}, 2, "exit 1"), ("requeued", {"attempt": 2}, 1, ""),
        ("error", {"attempt": 3, "why": "exit 2"}, 3, "exit 2"), ("error", {}, 1, ""),
        ("error", {"payload": {"message": "no"}}, 1, "no"), ("canceled", {"timed_out": True}, 1, "out of time"),
        ("result", {"why": "odd", "payload": {"message": "done"}}, 1, ""),
    ],
)  # fmt: skip
def test_an_end_without_a_delivery_is_an_attempt_without_a_begin(kind, keys, attempt, why):
    (bar,) = folded((kind, 5, {"task_id": "t1", **keys})).bars
    assert (bar.title, bar.begin, bar.end, bar.outcome, bar.attempt, bar.why) == (
        "t1", None, at(5), kind, attempt, why,
    )  # fmt: skip


def test_a_run_without_times_of_its_own_begins_with_its_first_record():
    first = {"type": "starting", "at": at(3), "epoch": 1}
    agents = [AgentRecords(name, outbox=[{**first, "at": at(when)}]) for name, when in (("a", 5), ("b", 3))]
    seen = timeline(RunRecords("run-1", {"ended_at": at(9)}, agents, []))
    assert (seen.run_id, seen.begin, seen.end) == ("run-1", at(3), at(9))
    assert timeline(RunRecords("run-1", {}, [], [])).begin == ""


def test_a_record_is_kept_without_its_payload_but_with_its_title_and_reason():
    task = {"type": "task", "task_id": "t1", "payload": {"task": "Run the tests"}}
    assert without_payload("c1", task) == {"type": "task", "task_id": "t1", "title": "Run the tests"}
    assert without_payload("c1", {**task, "title": "Own"})["title"] == "Own"
    assert without_payload("c1", {"type": "error", "payload": {"message": "no"}}) == {"type": "error", "why": "no"}
    assert without_payload("c1", {"type": "result", "payload": {"message": "no"}}) == {"type": "result"}
    assert without_payload("c1", {"type": "ack", "payload": 1}) == {"type": "ack"}
    assert without_payload("c1", {"type": "ready"}) == {"type": "ready"}
