"""Decides which records follow launch, exit, restart, failure and end of an agent's CLI. Without I/O.

As in `decisions`, every function takes the folded `Agent` and plain values and returns the drafts to write.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from orchestrator.base.errors import Conflict
from orchestrator.core.decisions import ending
from orchestrator.core.record_drafts import ended, happened, inbox_draft, titled
from orchestrator.core.record_types import Draft
from orchestrator.core.state import Agent, Task

REFUSED_BY_HOST = "refused_by_host"
"""Code of a refusal (`state.Task.refused`) that ends its task in `error`; any other ends it in `canceled`."""


def unsettled(agent: Agent) -> bool:
    """Whether `settle` may return records; a cheap check that is made after every write."""
    return (
        bool(agent.cancels or agent.refusals)
        or agent.life in ("exited", "failed", "stopped")
        or bool(agent.stop_asked)
    )


def settle(agent: Agent, at: str, visible_inbox: float = math.inf) -> list[Draft]:
    """The records that follow from those in the logs, and that a crash may have cut off.

    Called after every write and at start until it returns nothing. It settles five things: a cancel that was asked
    for; a task that was refused when it was taken from the fleet; the running task of an agent that is to stop, which
    is canceled so that the agent learns of the stop at its next cancel check; the lease of a lost agent; the
    unfinished tasks of a stopped agent. A task that was not handed out is settled once its own record is durable
    (``visible_inbox``): a power cut must not leave the end of a task that nobody has asked for.
    """
    lease = agent.lease
    if agent.stop_asked and agent.life == "ready" and lease is not None and not lease.cancel_asked:
        return [inbox_draft(agent, "cancel", at, None, task_id=lease.task_id)]
    drafts: list[Draft] = []
    for task in (agent.unfinished[task_id] for task_id in sorted(agent.cancels)):
        if task.seq > visible_inbox:
            continue
        if not task.cancel_requested:
            drafts.append(happened(agent, "cancel_requested", at, by="orchestrator", task_id=task.task_id))
        elif task.state == "queued":
            drafts.append(ended(agent, task, "canceled", at, {"reason": "canceled before it was delivered"}))
    for task in (agent.unfinished[task_id] for task_id in agent.refusals if task_id not in agent.cancels):
        if task.seq > visible_inbox:
            continue
        kind = "error" if task.refused["code"] == REFUSED_BY_HOST else "canceled"
        drafts.append(ended(agent, task, kind, at, dict(task.refused)))
    if drafts:
        return drafts
    if agent.life == "stopped":
        return [
            ended(agent, task, "canceled", at, {"reason": "the agent was deleted"})
            for task in agent.unfinished.values()
            if task.seq <= visible_inbox
        ]
    if agent.life in ("exited", "failed") and agent.lease is not None:
        return [_lost(agent, agent.lease, at)]
    return []


def _lost(agent: Agent, task: Task, at: str) -> Draft:
    policies = agent.policies
    why = str((agent.exited or agent.failure or {}).get("reason", "the agent was lost"))
    by_hand = _pane_closed(agent)
    if task.overtime:
        late = {"code": "timed_out", "message": f"not done within {task.timeout_s:g} s; then {why}"}
        return ended(agent, task, "error", at, {**late, "attempt": task.attempt}, timed_out=True)
    if task.cancel_requested:
        return ended(agent, task, "canceled", at, {"reason": f"cancel was requested, then {why}"})
    if by_hand == "cancel":
        return ended(agent, task, "canceled", at, {"canceled_by": "human", "reason": why})
    again = (by_hand or policies.get("on_lost", "requeue")) == "requeue"
    if again and task.attempt < int(policies.get("max_attempts", 2)):
        return happened(
            agent,
            "requeued",
            at,
            by="orchestrator",
            **titled(task),
            attempt=task.attempt + 1,
            reason=why,
        )
    lost = {"code": "agent_lost", "message": why, "attempt": task.attempt}
    return ended(agent, task, "error", at, lost)


def exited(
    agent: Agent,
    *,
    at: str,
    how: str,
    reason: str,
    code: int | None = None,
    signal: int | None = None,
    pid: int | None = None,
    last_lines: Sequence[str] = (),
) -> list[Draft]:
    """The CLI's process has ended: one `exited` per epoch; ``how`` is a key of `EXITS`."""
    if agent.life not in ("starting", "ready"):
        return []
    process: dict[str, Any] = {"pid": pid} if pid is not None else {}
    return [
        happened(
            agent,
            "exited",
            at,
            by="orchestrator",
            reason=reason,
            how=how,
            code=code,
            signal=signal,
            last_lines=list(last_lines),
            **process,
        )
    ]


def _pane_closed(agent: Agent) -> str:
    """The policy for the running task if the pane of the last launch was closed by hand; "" if it was not.

    Agents that were created before the policy existed follow ``on_lost``.
    """
    closed = (agent.exited or {}).get("how") == "pane_closed"
    return str(agent.policies.get("on_pane_closed", "")) if closed else ""


def closed_by_hand(agent: Agent) -> bool:
    """Whether the last launch ended because a human closed its pane, which is no crash and uses up no budget.

    A launch that was not ready counts as a crash, so that no CLI is launched without end.
    """
    return agent.life == "exited" and agent.ready_epoch == agent.epoch and bool(_pane_closed(agent))


def rests(agent: Agent) -> bool:
    """Whether the agent has no pane because a human closed it, and gets the next one only with its next task."""
    asked = agent.restart_due or agent.stop_asked or agent.policies.get("restart") == "never"
    return closed_by_hand(agent) and not agent.unfinished and not asked


def never_ready(agent: Agent) -> bool:
    """Whether the CLI of the first launch exited before it was ready: the next launch would end the same way."""
    return agent.life == "exited" and agent.ready_epoch == 0 and agent.epoch == 1


def must_end(agent: Agent) -> str:
    """Why the current launch must be ended now so that another can begin: a key of `EXITS`; "" if it need not."""
    if agent.life not in ("starting", "ready") or agent.stop_asked:
        return ""
    if agent.restart_due:
        return "restart"
    return "timed_out" if agent.overrun == agent.epoch else ""


class RestartBudget(NamedTuple):
    """What the restart policy allows now. Launches before ``window_began`` (RFC 3339) do not count."""

    window_began: str
    backoff_s: float


BACKOFF_MAX_S = 60.0


def spent(agent: Agent, window_began: str) -> int:
    """How many relaunches by policy count against the budget: those since ``window_began``.

    Times are compared as text, which `at` allows. A relaunch with a time in the future, from a clock that was set
    back later, counts too.
    """
    return sum(1 for at in agent.restarts if at >= window_began)


def pause_s(agent: Agent, budget: RestartBudget) -> float:
    """Seconds from an exit to the next launch: 0 the first time, then doubling up to a minute."""
    before = spent(agent, budget.window_began)
    if agent.restart_due or not before or closed_by_hand(agent):
        return 0.0
    return min(BACKOFF_MAX_S, budget.backoff_s * 2.0 ** min(before - 1, 30))


def after_exit(
    agent: Agent,
    *,
    at: str,
    budget: RestartBudget,
    nowhere: str = "",
    session: str | None = None,
    cause: str = "",
) -> list[Draft]:
    """`restarted` or `failed`, by policy and by what was tried already according to the outbox; empty if it `rests`.

    ``nowhere`` is the reason why no pane can be launched into; "" if one can. ``session`` is the CLI's newest
    session, if its engine can resume one. ``cause`` is the likely cause of an exit before the first `ready`.
    """
    if agent.life not in ("exited", "failed") or agent.stop_asked:
        return []
    if agent.restart_due:
        return _asked_for(agent, at, nowhere, session)
    if agent.life == "failed":
        return []
    policies, end = agent.policies, agent.exited or {}
    restart, limit = policies.get("restart", "on-failure"), int(policies.get("max_restarts", 3))
    closed = closed_by_hand(agent)
    by_itself = end.get("how") not in ("timed_out", "restart") and not closed
    wanted = restart == "always" or (restart == "on-failure" and not (by_itself and end.get("code") == 0))
    why = str(end.get("reason", "exited"))
    if never_ready(agent):
        lines = end.get("last_lines", [])
        reason = f"{cause}; {why} before it was ready" if cause else f"{why} before it was ready"
        return failed(agent, at=at, reason=reason, code="launch_failed", cause=cause, last_lines=lines)
    was_ready = agent.ready_epoch == agent.epoch
    # A session with which the CLI did not reach its first call is not resumed twice, and its launch does not count.
    spare = 1 if agent.resume and not was_ready else 0
    before = spent(agent, budget.window_began)
    if not nowhere and rests(agent):
        return []
    if wanted and not nowhere and (closed or before < limit + spare):
        fields: dict[str, Any] = {"resume": session} if session and was_ready else {}
        if closed:
            fields["pane_closed"] = True
        return [happened(agent, "restarted", at, by="orchestrator", epoch=agent.epoch + 1, reason=why, **fields)]
    if nowhere:
        why += f"; {nowhere}, so there is nothing to launch it into"
    elif wanted and limit and not closed:
        window = float(policies.get("restart_window_s", 600.0))
        why += f"; relaunched {before} of {limit} times within {window:g} s already"
    else:
        why += f"; restart = {restart!r}"
    return [happened(agent, "failed", at, by="orchestrator", reason=why, code="exited")]


def _asked_for(agent: Agent, at: str, nowhere: str, session: str | None) -> list[Draft]:
    request_seq = agent.restart_asked
    if nowhere:
        reason = f"its restart was asked for, and {nowhere}"
        return failed(agent, at=at, reason=reason, code="exited")
    fields: dict[str, Any] = {"resume": session} if session and not agent.restart_fresh else {}
    return [
        happened(
            agent,
            "restarted",
            at,
            by="orchestrator",
            epoch=agent.epoch + 1,
            reason="a restart was asked for",
            asked=request_seq,
            **fields,
        )
    ]


def restart(agent: Agent, *, fresh: bool, req: str, at: str) -> list[Draft]:
    """Request a new launch of the agent; a re-sent call adds nothing. Conflict ``agent_ended`` if it is ending."""
    if agent.calls.get(req) is not None:
        return []
    if agent.stop_asked or agent.life in ("stopped", "deleted"):
        raise Conflict("agent_ended", f"agent {agent.agent_id} {ending(agent)}")
    fields = {"fresh": True} if fresh else {}
    return [inbox_draft(agent, "restart", at, req, **fields)]


def stalled(agent: Agent, *, at: str, reason: str) -> list[Draft]:
    """Record once that the agent holds a task and shows no activity; empty while something else explains it."""
    if agent.life != "ready" or agent.lease is None or agent.stalled is not None or agent.blocks:
        return []
    return [happened(agent, "stalled", at, by="orchestrator", reason=reason, task_id=agent.lease.task_id)]


def recovered(agent: Agent, *, at: str, reason: str) -> list[Draft]:
    """Record that a stalled agent is active again; empty if it was not stalled."""
    if agent.life != "ready" or agent.stalled is None:
        return []
    return [happened(agent, "recovered", at, by="orchestrator", reason=reason)]


def overtime(agent: Agent, *, at: str, ran_s: float, asked_s: float | None, grace_s: float) -> list[Draft]:
    """The records for a task with a time limit: none, then a soft cancel, then its end in `error`.

    ``ran_s``: seconds since this attempt was delivered. ``asked_s``: seconds since the agent could know of its
    cancel; None before. After the error the launch that held the task must end (`must_end`): a later result is not
    stored.
    """
    lease = agent.lease
    if lease is None or lease.timeout_s is None or ran_s < lease.timeout_s or agent.life != "ready":
        return []
    if not lease.cancel_asked:
        return [inbox_draft(agent, "cancel", at, None, task_id=lease.task_id, reason="timed_out")]
    if asked_s is None or asked_s < grace_s:
        return []
    payload = {
        "code": "timed_out",
        "message": f"not done within {lease.timeout_s:g} s, nor stopped {grace_s:g} s after it was asked to",
        "attempt": lease.attempt,
    }
    return [ended(agent, lease, "error", at, payload, timed_out=True)]


def failed(
    agent: Agent, *, at: str, reason: str, code: str, cause: str = "", last_lines: Sequence[str] = ()
) -> list[Draft]:
    """The agent could not be launched, or was not ready in time; ``cause`` is the likely cause, if one is known."""
    if agent.life not in ("starting", "exited"):
        return []
    details: dict[str, Any] = {"cause": cause} if cause else {}
    if last_lines:
        details["last_lines"] = list(last_lines)
    return [happened(agent, "failed", at, by="orchestrator", reason=reason, code=code, **details)]


class EndingStep(NamedTuple):
    """One step of the sequence that ends a CLI, and how many seconds it was given."""

    rung: str  # stop | quit | SIGTERM | SIGKILL
    seconds: float


ENDED_BY = {"stop": "stopped by itself", "quit": "quit by its own command"}


def stopped(agent: Agent, *, at: str, rungs: Sequence[EndingStep]) -> list[Draft]:
    """The process ended on request; `settle` then ends the unfinished tasks in `canceled`, and `deleted` follows.

    ``rungs`` were tried in this order, and the last one worked; empty: the process had ended already.
    """
    if agent.life in ("stopped", "deleted"):
        return []
    how = ENDED_BY.get(rungs[-1].rung, rungs[-1].rung) if rungs else "gone already"
    tried = [{"rung": step.rung, "seconds": round(step.seconds, 3)} for step in rungs]
    return [happened(agent, "stopped", at, by="orchestrator", how=how, rungs=tried)]


def deleted(agent: Agent, *, at: str) -> list[Draft]:
    """The last record of an agent."""
    if agent.life != "stopped":
        return []
    return [happened(agent, "deleted", at, by="orchestrator")]


def starting(agent_id: str, *, at: str, req: str, spec: dict[str, Any]) -> Draft:
    """The intent of agent_create: everything that a later launch of the agent needs, and the call that made it."""
    return happened(Agent(agent_id), "starting", at, by="orchestrator", req=req, epoch=1, **spec)
