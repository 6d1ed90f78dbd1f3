"""Decides which records a request on queue and delivery causes. Without I/O.

Every function takes the folded `Agent` and plain values, and returns the drafts to write together with the answer, or
raises. It never changes the state: the daemon writes the drafts and folds them with `state.apply`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from orchestrator.base.errors import BadRequest, Conflict, NotReady
from orchestrator.base.final_states import TERMINAL
from orchestrator.core.record_drafts import happened, inbox_draft, titled
from orchestrator.core.record_types import Draft
from orchestrator.core.state import ENDED_LIVES, Agent, Task

TASK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
EVENT_TYPES = ("ack", "progress", "result", "error", "canceled", "ready", "heartbeat")


@dataclass(frozen=True)
class QueueLimits:
    """The configured limits that a decision needs; times in seconds."""

    max_unfinished_tasks: int = 1000
    redeliver_after_s: float = 2.0
    max_redeliveries: int = 3


@dataclass(frozen=True)
class Decision:
    """What to write, and what to answer once it is durable."""

    drafts: list[Draft] = field(default_factory=list)
    answer: dict[str, Any] = field(default_factory=dict)


def task_id_from(req: str) -> str:
    """The id of a task whose caller gave none: the same for a re-sent call, another for every other call."""
    return "t-" + hashlib.sha256(req.encode()).hexdigest()[:12]


def check_task_id(task_id: str) -> str:
    """The id if a task may have it; BadRequest ``bad_id`` otherwise."""
    if not TASK_ID.fullmatch(task_id):
        raise BadRequest("bad_id", f"task_id {task_id!r} must match {TASK_ID.pattern}")
    return task_id


# -- the master's side ------------------------------------------------------------------------------------------


def enqueue(
    agent: Agent,
    *,
    task_id: str,
    payload: Any,
    stored: Any,
    limits: QueueLimits,
    req: str,
    at: str,
    timeout_s: float | None = None,
    title: str = "",
) -> Decision:
    """Add a task. The answer has its position; 1 is the head of the unfinished tasks (R-Q3).

    ``stored`` is the payload that is already stored under this id (ignored if the id is new): the same payload is a
    duplicate and answered as the first time, another raises Conflict. ``timeout_s`` limits each attempt from its
    delivery; None: no limit. ``title`` is for people; another title makes no other task.
    """
    check_task_id(task_id)
    known = agent.unfinished.get(task_id) or agent.ended(task_id)
    if known is not None:
        must_be_same(task_id, stored, payload)
        state = known.state if isinstance(known, Task) else known.outcome
        answer = {"position": known.position, "task_id": task_id, "state": state}
        call = agent.calls.get(req)
        if call is None or call.task_id != task_id:
            answer["duplicate"] = True
        return Decision(answer=answer)
    must_live(agent)
    if len(agent.unfinished) >= limits.max_unfinished_tasks:
        raise queue_full(agent.agent_id, len(agent.unfinished))
    position = len(agent.unfinished) + 1
    more: dict[str, Any] = {} if timeout_s is None else {"timeout_s": timeout_s}
    if title:
        more["title"] = title
    draft = inbox_draft(agent, "task", at, req, task_id=task_id, payload=payload, position=position, **more)
    return Decision([draft], {"position": position, "task_id": task_id, "state": "queued"})


def must_be_same(task_id: str, stored: Any, payload: Any) -> None:
    """Raise Conflict ``task_exists`` if the payload differs from the one that is stored under the task's id."""
    if stored != payload:
        raise Conflict("task_exists", f"task {task_id!r} exists with another payload")


def queue_full(agent_id: str, unfinished: int) -> NotReady:
    """The error for a task beyond the limit of unfinished ones."""
    return NotReady("queue_full", f"{agent_id} has {unfinished} unfinished tasks")


def unknown_task(agent_id: str, task_id: str) -> BadRequest:
    """The error for a task that the agent never got."""
    return BadRequest("unknown_task", f"{agent_id} has no task {task_id!r}")


def task_finished(task_id: str, outcome: str) -> Conflict:
    """The error for a cancel that comes after the task's end."""
    return Conflict("task_finished", f"task {task_id!r} has ended: {outcome}", outcome=outcome)


def agent_ended(agent_id: str, how: str) -> Conflict:
    """The error for work that an agent cannot get any more; ``how`` is a predicate as that of `ending`."""
    return Conflict("agent_ended", f"agent {agent_id} {how}")


def cancel(agent: Agent, *, task_id: str, req: str, at: str) -> Decision:
    """Request that a task stops (R-C1); nothing is killed. Conflict with the outcome if the task has ended."""
    task = agent.unfinished.get(task_id)
    if task is None:
        call = agent.calls.get(req)
        if call is not None and call.type == "cancel":  # re-sent: it was canceled at once by the first sending
            return Decision(answer={"ok": True, "state": "cancel_requested"})
        ended = agent.ended(task_id)
        if ended is None:
            raise unknown_task(agent.agent_id, task_id)
        raise task_finished(task_id, ended.outcome)
    answer = {"ok": True, "state": "cancel_requested"}
    if task.cancel_asked:
        return Decision(answer=answer)
    return Decision([inbox_draft(agent, "cancel", at, req, task_id=task_id)], answer)


def stop(agent: Agent, *, force: bool, req: str | None, at: str, reason: str = "") -> list[Draft]:
    """Request that the agent ends; a repeated call writes nothing, unless it adds ``force``.

    ``reason`` is recorded if no caller made the request.
    """
    if agent.life == "deleted" or (agent.stop_asked and (agent.stop_force or not force)):
        return []
    fields: dict[str, Any] = {"force": True} if force else {}
    if reason:
        fields["reason"] = reason
    return [inbox_draft(agent, "stop", at, req, **fields)]


def must_live(agent: Agent) -> None:
    """Raise Conflict ``agent_ended`` if the agent is ending or has ended: it gets no more work."""
    if agent.stop_asked or agent.life in ENDED_LIVES:
        raise agent_ended(agent.agent_id, ending(agent))


def ending(agent: Agent) -> str:
    """How far the end of an agent has come, as a predicate: `was deleted`, `is stopping`, `is failed`."""
    return ending_of(agent.life, stopping=bool(agent.stop_asked))


def ending_of(life: str, *, stopping: bool) -> str:
    """As `ending`, of an agent of which only these two facts are known."""
    if life == "deleted":
        return "was deleted"
    return "is stopping" if stopping else f"is {life}"


# -- the agent's side -------------------------------------------------------------------------------------------


def check_epoch(agent: Agent, epoch: int) -> None:
    """Refuse a call of an earlier launch."""
    if epoch != agent.epoch or agent.life == "exited":
        raise Conflict("replaced", f"this is launch {epoch} of {agent.agent_id}; launch {agent.epoch} has taken over")
    if agent.life in ENDED_LIVES:
        raise Conflict("agent_ended", f"agent {agent.agent_id} is {agent.life}")


def ready(agent: Agent, *, at: str, req: str | None, session: str | None = None, wakes: bool = False) -> list[Draft]:
    """The `ready` record of this epoch, if there is none yet; with the CLI's session id if it is known.

    ``wakes``: the CLI's hook or plugin has called, so a later daemon knows that the agent can be woken.
    """
    if agent.life != "starting":
        return []
    fields: dict[str, Any] = {"session": session} if session is not None else {}
    if wakes:
        fields["wakes"] = True
    return [happened(agent, "ready", at, by="agent", req=req, **fields)]


class CommandOffer(NamedTuple):
    """What a waiting agent gets now: a command, or the time to wait before looking again."""

    command: dict[str, Any] | None = None
    drafts: tuple[Draft, ...] = ()
    look_again_s: float | None = None  # None: only when something changes


def next_command(
    agent: Agent, *, visible_inbox: int, waited_s: float, handed_out: int, limits: QueueLimits, at: str, req: str
) -> CommandOffer:
    """The command that answers a wait, in the order stop, cancel, task.

    ``visible_inbox``: the last inbox seq that is durable; nothing later may be delivered. ``waited_s``: how long this
    call has waited. ``handed_out``: how often this launch got the cancel or the un-acknowledged task of its lease.
    """
    if agent.stop_asked and agent.stop_asked <= visible_inbox:
        return CommandOffer({"kind": "stop"})
    lease = agent.lease
    if lease is None:
        return _fresh(agent, visible_inbox, at, req)
    # CLIs send emit_event and wait_for_command of one turn in parallel: wait a moment for the terminal event.
    patience = limits.redeliver_after_s - waited_s
    if lease.cancel_requested:
        if handed_out and patience > 0:
            return CommandOffer(look_again_s=patience)
        if handed_out <= limits.max_redeliveries:
            return CommandOffer({"kind": "cancel", "task_id": lease.task_id})
        return _hold(agent, at)
    if lease.state == "delivered":
        if handed_out > limits.max_redeliveries and patience > 0:
            return CommandOffer(look_again_s=patience)
        return CommandOffer(_task_command(lease))
    if patience > 0:
        return CommandOffer(look_again_s=patience)
    if lease.redeliveries >= limits.max_redeliveries:
        return _hold(agent, at)
    again = _delivered(agent, lease, at, req, redelivered=True)
    return CommandOffer({**_task_command(lease), "redelivered": True}, (again,))


def _fresh(agent: Agent, visible_inbox: int, at: str, req: str) -> CommandOffer:
    head = agent.head()
    if head is None or head.seq > visible_inbox or head.cancel_asked or head.refused or agent.life != "ready":
        return CommandOffer()
    return CommandOffer(_task_command(head), (_delivered(agent, head, at, req),))


def _hold(agent: Agent, at: str) -> CommandOffer:
    if "" in agent.blocks or agent.life != "ready" or agent.lease is None:
        return CommandOffer()
    draft = happened(agent, "blocked", at, by="orchestrator", reason="no terminal event", task_id=agent.lease.task_id)
    return CommandOffer(drafts=(draft,))


def _task_command(task: Task) -> dict[str, Any]:
    return {"kind": "task", "task_id": task.task_id, "payload": task.payload, "attempt": task.attempt}


def assumed_delivery(agent: Agent, *, at: str) -> Draft:
    """The delivery of the head that its owner may have made without a record that is left."""
    head = agent.head()
    assert head is not None
    return _delivered(agent, head, at, None, assumed=True)


def _delivered(
    agent: Agent, task: Task, at: str, req: str | None, *, redelivered: bool = False, assumed: bool = False
) -> Draft:
    extra = {"redelivered": True} if redelivered else {"assumed": True} if assumed else {}
    return happened(
        agent,
        "delivered",
        at,
        by="orchestrator",
        req=req,
        **titled(task),
        attempt=task.attempt,
        **extra,
    )


def emit(
    agent: Agent,
    *,
    kind: str,
    task_id: str | None,
    payload: Any,
    done: bool | None,
    req: str,
    at: str,
    session: str | None = None,
) -> Decision:
    """Record an event of the agent. The answer always has ``cancel_requested``: it is a cancel check (R-C2).

    A terminal type implies ``done``. A second terminal event is a duplicate and not stored (R-Q2).
    """
    if kind not in EVENT_TYPES:
        raise BadRequest("bad_event", f"event type {kind!r} is not one of {', '.join(EVENT_TYPES)}")
    if done and kind not in TERMINAL:
        raise BadRequest("bad_event", f"done: true belongs to {', '.join(sorted(TERMINAL))}, not to {kind}")
    call = agent.calls.get(req)
    if call is not None and call.type == kind:
        return _with_cancel_flag(agent, {"ok": True, "seq": call.seq})
    first = ready(agent, at=at, req=req if kind == "ready" else None, session=session)
    if kind in ("ready", "heartbeat"):
        return _with_cancel_flag(agent, {"ok": True}, first)
    lease = agent.lease
    task = _task_meant(agent, kind, task_id)
    if task is None or (kind == "ack" and task.state == "running"):
        return _with_cancel_flag(agent, {"ok": True, "duplicate": True}, first)
    fields: dict[str, Any] = {"task_id": task.task_id} if kind not in TERMINAL else {**titled(task)}
    if payload is not None:
        fields["payload"] = payload
    if kind in TERMINAL:
        fields["attempt"] = task.attempt
    drafts = list(first)
    if task is not lease:
        # The log lacks the delivery, because it was not synced before a power cut or the agent was faster than the
        # disk. It is recorded with the end, so that no log has an end without a delivery.
        drafts.append(_delivered(agent, task, at, req, assumed=True))
    drafts.append(happened(agent, kind, at, by="agent", req=req, **fields))
    if kind in TERMINAL and "" in agent.blocks:
        drafts.append(happened(agent, "unblocked", at, by="orchestrator", reason="terminal event arrived"))
    canceled = bool(lease and lease.cancel_requested and kind not in TERMINAL)
    return Decision(drafts, {"ok": True, "cancel_requested": canceled})


def _task_meant(agent: Agent, kind: str, task_id: str | None) -> Task | None:
    """The task that an event is about; None if that task has ended already (a duplicate)."""
    lease = agent.lease
    if task_id is None:
        if lease is None:
            raise BadRequest("no_lease", f"{agent.agent_id} holds no task; a {kind} event needs one")
        return lease
    if lease is not None and lease.task_id == task_id:
        return lease
    if agent.ended(task_id) is not None:
        return None
    head = agent.head()
    if lease is None and kind in TERMINAL and head is not None and head.task_id == task_id:
        return head
    holds = f"holds {lease.task_id!r}" if lease else "holds no task"
    raise BadRequest("not_your_task", f"{agent.agent_id} {holds}, not {task_id!r}", lease=lease and lease.task_id)


def _with_cancel_flag(agent: Agent, answer: dict[str, Any], drafts: list[Draft] | None = None) -> Decision:
    lease = agent.lease
    return Decision(drafts or [], {**answer, "cancel_requested": bool(lease and lease.cancel_requested)})
