"""Whole histories of an agent: what each request answers, what it writes, and what the records then mean.

`tests/fixtures/core/histories.json` holds them word by word, for they are what the logs of users hold and what models
read. ``python -m tests.unit.core.test_histories`` writes it anew; read the difference before you commit it.
"""

import dataclasses
import json
from collections import deque
from pathlib import Path

import pytest

from orchestrator.base.errors import OrchestratorError
from orchestrator.core import decisions, state, supervision
from orchestrator.core.record_drafts import happened
from orchestrator.core.supervision import EndingStep
from tests.support.pure_team import BUDGET, Desk

GOLDEN = Path(__file__).resolve().parents[2] / "fixtures" / "core" / "histories.json"


def say(kind, /, **fields):
    """The orchestrator records something about the agent."""
    return lambda desk: desk.write([happened(desk.agent, kind, desk.at(), by="orchestrator", **fields)])


def ready(session=None, req=None, wakes=False):
    return lambda desk: desk.write(decisions.ready(desk.agent, at=desk.at(), req=req, session=session, wakes=wakes))


def born(policies=None):
    spec = {"name": "a", "role": "r", "engine": "shell", "run_id": "run-1", "cwd": "/p", "env_names": []}
    whole = {**spec, "policies": policies or {}}
    return lambda desk: desk.write([supervision.starting("a1", at=desk.at(), req="c:0", spec=whole)])


def add(task_id, payload=None, *, stored=None, req=None, timeout_s=None, room=1000):
    def step(desk):
        made = decisions.enqueue(
            desk.agent, task_id=task_id, payload=payload, stored=stored, limits=decisions.QueueLimits(room),
            req=req or f"c:{task_id}", at=desk.at(), timeout_s=timeout_s,
        )  # fmt: skip
        desk.write(made.drafts)
        return made.answer

    return step


def cancel(task_id, req="c:x"):
    return lambda desk: desk.cancel(task_id, req)


def wait(waited_s=0.0, handed_out=0, visible=None):
    def step(desk):
        offer = decisions.next_command(
            desk.agent, visible_inbox=len(desk.logs["inbox"]) if visible is None else visible,
            waited_s=waited_s, handed_out=handed_out, limits=desk.limits, at=desk.at(), req="c:w",
        )  # fmt: skip
        desk.write(list(offer.drafts))
        return {"command": offer.command, "look_again_s": offer.look_again_s}

    return step


def emit(kind, task_id=None, payload=None, req=None, done=None, session=None):
    def step(desk):
        made = decisions.emit(
            desk.agent, kind=kind, task_id=task_id, payload=payload, done=done, req=req or f"e:{kind}", at=desk.at(),
            **({} if session is None else {"session": session}),
        )  # fmt: skip
        desk.write(made.drafts)
        return made.answer

    return step


def exits(how="exit", reason="exit code 1", code=1, **fields):
    return lambda desk: desk.write(
        supervision.exited(desk.agent, at=desk.at(), how=how, reason=reason, code=code, **fields)
    )


def follows(nowhere="", session=None, cause="", since=BUDGET.window_began):
    def step(desk):
        budget = supervision.RestartBudget(since, 1.0)
        pause = supervision.pause_s(desk.agent, budget)
        desk.write(
            supervision.after_exit(
                desk.agent, at=desk.at(), budget=budget, nowhere=nowhere, session=session, cause=cause
            )
        )
        return pause

    return step


def fails(**fields):
    return lambda desk: desk.write(supervision.failed(desk.agent, at=desk.at(), **fields))


def restart(fresh=False, req="c:r"):
    return lambda desk: desk.write(supervision.restart(desk.agent, fresh=fresh, req=req, at=desk.at()))


def stop(force=False, req="c:s", reason=""):
    return lambda desk: desk.write(decisions.stop(desk.agent, force=force, req=req, at=desk.at(), reason=reason))


def stopped(*rungs):
    return lambda desk: desk.write(supervision.stopped(desk.agent, at=desk.at(), rungs=rungs))


def deleted(desk):
    return desk.write(supervision.deleted(desk.agent, at=desk.at()))


def late(ran_s, asked_s=None):
    return lambda desk: desk.write(
        supervision.overtime(desk.agent, at=desk.at(), ran_s=ran_s, asked_s=asked_s, grace_s=5.0)
    )


def stalled(desk):
    return desk.write(supervision.stalled(desk.agent, at=desk.at(), reason="silent for 300 s"))


def recovered(desk):
    return desk.write(supervision.recovered(desk.agent, at=desk.at(), reason="it called"))


def called(epoch):
    return lambda desk: decisions.check_epoch(desk.agent, epoch)


def lives(desk):
    return decisions.must_live(desk.agent)


def damaged(log, kind, /, **fields):
    """A record that no decision writes: only its refusal is kept."""
    return lambda desk: state.apply(
        desk.agent, log, {"v": 1, "seq": 99, "at": desk.at(), "type": kind, "epoch": 1, **fields}
    )


WORKING = [born({"restart": "on-failure", "max_restarts": 2, "on_lost": "requeue", "max_attempts": 2}), ready()]
HISTORIES = {
    "a task from its request to its result": [
        born(), ready("s1", "c:ready", wakes=True), add("t1", {"n": 1}, timeout_s=60.0), wait(), wait(), emit("heartbeat"),
        emit("ack", "t1"), emit("ack", "t1", req="e:ack2"), emit("progress", payload="half", req="e:p1"),
        emit("progress", "t1", req="e:p2"), emit("result", "t1", {"ok": True}, done=True), emit("result", "t1", {"ok": True}),
        emit("result", "t1", {"ok": False}, req="e:again"), add("t1", {"n": 1}, stored={"n": 1}),
        add("t1", {"n": 1}, stored={"n": 1}, req="c:other"),
    ],
    "the first call of an agent is its ready": [born(), emit("ready", session="s2"), emit("ready", req="e:r2")],
    "an event of a starting agent makes it ready": [born(), add("t1"), emit("heartbeat", session="s3"), emit("heartbeat")],
    "tasks are refused for a reason": [
        *WORKING, add("-"), add("t1", 1), add("t1", 2, stored=1), add("t2", room=1), add("t1", 1, stored=1, req="c:2"),
        wait(), add("t1", 1, stored=1, req="c:3"),
    ],
    "events are refused for a reason": [
        *WORKING, emit("finished"), emit("progress", done=True), emit("progress"), emit("result", "t1"), add("t1"), add("t2"),
        emit("progress", "t1"), emit("result", "t2"), wait(), emit("progress", "t2"), emit("ack", "t1"), emit("error", "t1"),
        emit("progress", "t1"),
    ],
    "an end whose hand-out was lost is recorded with it": [*WORKING, add("t1"), emit("error", "t1", "no", req="e:1")],
    "a cancel of a queued task": [
        *WORKING, add("t1"), add("t2"), cancel("t2"), cancel("t2"), cancel("t2", "c:y"), cancel("t9"), wait(),
        emit("result", "t1"), cancel("t1", "c:z"),
    ],
    "a cancel of a running task": [
        *WORKING, add("t1"), wait(), emit("ack"), cancel("t1"), cancel("t1"), emit("progress"), wait(), wait(handed_out=1),
        wait(1.5, handed_out=1), wait(2.0, handed_out=3), wait(2.5, handed_out=4), wait(2.5, handed_out=5), emit("canceled", "t1"), emit("heartbeat"),
    ],
    "a task that is delivered again": [
        *WORKING, add("t1", "p"), wait(visible=0), wait(visible=1), wait(handed_out=3), wait(0.5, handed_out=4), wait(2.0, handed_out=4),
        emit("ack"), wait(0.5), wait(1.5), wait(2.0), wait(3.0), wait(3.0), wait(3.0), wait(4.0), emit("result", "t1"),
    ],
    "an agent that is lost twice": [
        *WORKING, add("t1"), add("t2"), wait(), emit("ack"), wait(3.0), exits(pid=7, signal=9, last_lines=["bye"]), exits(),
        follows(), ready(), wait(), exits(reason="exit code 2", code=2), follows(), ready(), wait(), exits(), follows(),
        fails(reason="again", code="exited"), follows(), restart(), follows(), ready(),
    ],
    "an agent that is lost, by default policies": [
        born({}), ready(), add("t1"), wait(), exits(how="signal", code=None, signal=9), follows(), ready(), wait(), exits(), follows(),
        ready(), exits(), follows(), ready(), exits(), follows(), called(4), called(1),
    ],
    "a task is not run again": [
        born({"on_lost": "fail", "restart": "never", "max_restarts": 0}), ready(), add("t1"), wait(), exits(), follows(),
    ],
    "a canceled task of a lost agent": [*WORKING, add("t1"), wait(), cancel("t1"), exits(), follows("its window is gone")],
    "an agent that ends by itself": [*WORKING, exits(code=0, reason="exit code 0"), follows()],
    "always means also after exit code 0": [born({"restart": "always"}), ready(), exits(code=0), follows(), called(1)],
    "launches outside the window do not count": [
        born({"max_restarts": 1, "restart_window_s": 60}), ready(), exits(), follows(), ready(), exits(),
        follows(since="2027-01-01T00:00:00.000Z"), ready(), exits(), follows(),
    ],
    "a CLI that never gets ready": [
        born(), exits(code=127, reason="exit code 127", last_lines=["not found"]), follows(cause="it is not installed"), called(1),
        wait(), lives,
    ],
    "a CLI that never gets ready, cause unknown": [born(), exits(), follows()],
    "an agent without a pane": [born(), fails(reason="no pane", code="no_space", cause="small window"), restart(), follows("no window")],
    "a session that does not come back": [
        *WORKING, exits(), follows(session="s1"), exits(), follows(session="s1"), ready(), exits(), follows(), ready(), exits(), follows(),
    ],
    "a restart that was asked for": [
        *WORKING, exits(), follows(), ready(), restart(), restart(), exits(how="restart", code=0), follows(session="s1"),
        ready("s4"), restart(fresh=True, req="c:r2"), exits(how="restart"), follows(session="s4"), ready(),
        restart(req="c:r3"), exits(how="restart"), follows("its window is gone"),
    ],
    "a task out of time": [
        *WORKING, add("t1", timeout_s=60), wait(), late(59.0), late(60.0), late(61.0), late(61.0, 4.0), wait(), late(65.0, 5.0),
        exits(how="timed_out", code=None), follows(), ready(),
    ],
    "a task out of time whose agent is lost": [*WORKING, add("t1", timeout_s=1.5), wait(), late(2.0), exits(), follows()],
    "causes that block": [
        *WORKING, add("t1"), wait(), say("blocked", kind="rate_limit", reason="limit", until="2026-01-01T01:00:00.000Z"),
        say("blocked", kind="dialog", reason="asks"), say("blocked", kind="rate_limit", reason="limit again"), stalled,
        say("unblocked", kind="dialog", reason="gone"), say("blocked", reason="no terminal event", task_id="t1"), wait(9, 9),
        emit("result", "t1"), exits(), follows(),
    ],
    "parked, woken, and parked in the next launch": [
        *WORKING, say("parked"), say("woken", reason="a task"), say("parked"), exits(), follows(), ready(), say("parked"),
    ],
    "stalled and recovered": [*WORKING, stalled, recovered, add("t1"), wait(), stalled, stalled, recovered, recovered, stalled, exits()],
    "an agent that is deleted": [
        *WORKING, add("t1"), add("t2"), wait(), emit("ack"), stop(reason="the master ended"), stop(req="c:s2"), wait(), lives,
        restart(), add("t3"), stopped(EndingStep("stop", 1.23456), EndingStep("quit", 0.5)), lives, restart(), called(1), stopped(), deleted, deleted,
        stop(force=True), emit("heartbeat"), wait(),
    ],
    "an agent that is ended by force": [
        *WORKING, stop(req=None), stop(force=True), stop(force=True, req="c:s3"), stop(), stopped(EndingStep("SIGKILL", 0.0)), restart(), deleted,
        restart(), lives,
    ],
    "an agent whose CLI was gone already": [*WORKING, exits(), stop(), follows(), stopped(), deleted],
    "what is unknown cannot be canceled": [*WORKING, cancel("t9", "c:n")],
    "policies that differ from the defaults": [
        born({"max_attempts": 3, "max_restarts": 5, "on_lost": "requeue"}), ready(), add("t1"), wait(), exits(), follows(), ready(), wait(),
        exits(), follows(), ready(), wait(), exits(), follows(),
    ],
    "a terminal event of a canceled lease, and what each answer says of the cancel": [
        *WORKING, add("t1"), add("t2"), wait(), cancel("t1"), emit("ack"), emit("ack", req="e:2"), emit("heartbeat"),
        emit("result", "t1", "done anyway"), emit("result", "t1", req="e:3"), wait(),
    ],
    "a duplicate makes a starting agent ready": [
        *WORKING, add("t1"), wait(), emit("result", "t1"), exits(), follows(), emit("result", "t1", req="e:late"),
    ],
    "a damaged task is kept in its place": [
        *WORKING, damaged("inbox", "task", task_id="t1", position=1, lost=True), add("t2"), wait(),
    ],
    "conditions without a reason": [*WORKING, say("blocked"), say("stalled"), say("unblocked"), say("recovered"), say("woken")],
    "a pane that a human closes": [
        born({"on_pane_closed": "cancel"}), ready(), add("t1"), add("t2"), wait(), exits(how="pane_closed", code=129), follows(),
        ready(), wait(), emit("result", "t2"), exits(how="pane_closed", code=0), follows(), add("t3"), follows(session="s1"), ready(),
        exits(how="pane_closed"), follows("its window is gone"),
    ],
    "a pane that a human closes, and its task goes on": [
        born({"on_pane_closed": "requeue", "on_lost": "fail"}), ready(), add("t1"), wait(), exits(how="pane_closed"), follows(), exits(how="pane_closed"),
        follows(), ready(), wait(), exits(how="pane_closed"), follows(),
    ],
    "records that cannot be": [
        *WORKING, add("t1"), damaged("inbox", "task", task_id="t1", position=1), damaged("outbox", "ack", task_id="t1"),
        damaged("outbox", "result", task_id="t7"), damaged("outbox", "starting"), damaged("outbox", "deleted"),
        damaged("outbox", "ready", epoch=0), damaged("outbox", "blocked", epoch=2), add("t2"),
        damaged("outbox", "delivered", task_id="t2", attempt=1), wait(), emit("result", "t1"),
        damaged("outbox", "ack", task_id="t1"), damaged("inbox", "task", task_id="t1", position=1),
    ],
}  # fmt: skip


def plain(value):
    """A value of the state as JSON has it."""
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.name != "archive"}
    if isinstance(value, tuple | list | deque):
        return [plain(one) for one in value]
    if isinstance(value, set):
        return sorted(value)
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value


def shown(agent):
    """The state without what repeats: the tasks in `order`, and the `starting` record."""
    return {**plain(agent), "order": [task.task_id for task in agent.order], "spec": list(agent.spec)}


def difference(after, before):
    """Of a dictionary the keys that are new, gone (null) or other; anything else whole."""
    if not isinstance(after, dict) or not isinstance(before, dict):
        return after
    return {key: after.get(key) for key in [*before, *after] if after.get(key) != before.get(key)}


def told(steps):
    """For each step: its answer or error, the records it wrote, and the fields of the state that it changed."""
    desk, before, lines = Desk(), shown(Desk().agent), []
    for step in steps:
        seen = {log: len(records) for log, records in desk.logs.items()}
        line = {}
        try:
            answer = step(desk)
            if not (isinstance(answer, list) and answer and isinstance(answer[0], dict)):  # else the records below
                line["answer"] = answer
        except OrchestratorError as error:
            line["error"] = [error.code, error.message, error.facts]
        for log, records in desk.logs.items():
            line[log] = [{k: v for k, v in one.items() if k not in ("v", "crc")} for one in records[seen[log] :]]
        desk.agent.head()  # drops what has ended from the order
        after = shown(desk.agent)
        line["state"] = {key: difference(value, before[key]) for key, value in after.items() if value != before[key]}
        line["must_end"] = supervision.must_end(desk.agent)
        line["unsettled"] = supervision.unsettled(desk.agent)
        before = after
        text = json.dumps({key: value for key, value in line.items() if value})
        lines.append(json.loads(text.replace("2026-01-01T00:00:00.", "...")))
    return lines


@pytest.mark.parametrize("name", HISTORIES)
def test_each_step_answers_writes_and_means_what_it_did(name):
    assert told(HISTORIES[name]) == json.loads(GOLDEN.read_text("utf-8"))[name]


def test_no_history_is_kept_that_is_not_played():
    assert list(json.loads(GOLDEN.read_text("utf-8"))) == list(HISTORIES)


if __name__ == "__main__":
    whole = {name: told(steps) for name, steps in HISTORIES.items()}
    text = ",\n".join(
        f"{json.dumps(name)}: [\n" + ",\n".join("  " + json.dumps(line, ensure_ascii=False) for line in lines) + "\n]"
        for name, lines in whole.items()
    )
    GOLDEN.write_text("{\n" + text + "\n}\n", "utf-8")
