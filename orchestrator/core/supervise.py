"""Which records the life of an agent's CLI deserves: launch, exit, restart, failure, end. Without I/O.

Like `decide`: every verb takes the folded `Agent` and plain values and returns the drafts to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.core.drafts import asked, ended, happened
from orchestrator.core.events import Draft
from orchestrator.core.state import Agent, Task


def unsettled(agent: Agent) -> bool:
    """Whether `settle` may have something to say: the cheap question asked after every write."""
    return bool(agent.cancels) or agent.life in ("exited", "failed", "stopped") or bool(agent.stop_asked)


def settle(agent: Agent, at: str) -> list[Draft]:
    """The records that follow from what the logs already say, and that a crash may have cut off.

    Called after every write and at start until it returns nothing. Derived: the answer to a cancel, the cancel of
    what an agent asked to stop is at, so that it learns at its next checkpoint and not only when done, the lease
    of a lost agent, the unfinished tasks of a stopped one.
    """
    lease = agent.lease
    if agent.stop_asked and agent.life == "ready" and lease is not None and not lease.cancel_asked:
        return [asked(agent, "cancel", at, None, task_id=lease.task_id)]
    drafts: list[Draft] = []
    for task_id in sorted(agent.cancels):
        task = agent.unfinished[task_id]
        if not task.cancel_requested:
            drafts.append(happened(agent, "cancel_requested", at, by="orchestrator", task_id=task_id))
        elif task.state == "queued":
            drafts.append(ended(agent, task, "canceled", at, {"reason": "canceled before it was delivered"}))
    if drafts:
        return drafts
    if agent.life == "stopped":
        return [
            ended(agent, task, "canceled", at, {"reason": "the agent was deleted"})
            for task in agent.unfinished.values()
        ]
    if agent.life in ("exited", "failed") and agent.lease is not None:
        return [_lost(agent, agent.lease, at)]
    return []


def _lost(agent: Agent, task: Task, at: str) -> Draft:
    policies = agent.policies
    why = str((agent.exited or agent.failure or {}).get("reason", "the agent was lost"))
    if task.cancel_requested:
        return ended(agent, task, "canceled", at, {"reason": f"cancel was requested, then {why}"})
    if policies.get("on_lost", "requeue") == "requeue" and task.attempt < int(policies.get("max_attempts", 2)):
        return happened(
            agent,
            "requeued",
            at,
            by="orchestrator",
            task_id=task.task_id,
            attempt=task.attempt + 1,
            reason=why,
        )
    lost = {"code": "agent_lost", "message": why, "attempt": task.attempt}
    return ended(agent, task, "error", at, lost)


def exited(
    agent: Agent, *, at: str, reason: str, code: int | None, signal: int | None, last_lines: list[str]
) -> list[Draft]:
    """The CLI's process is gone: one `exited` per epoch, or `stopped` when it was asked to."""
    if agent.life not in ("starting", "ready"):
        return []
    return [
        happened(
            agent,
            "exited",
            at,
            by="orchestrator",
            reason=reason,
            code=code,
            signal=signal,
            last_lines=last_lines,
        )
    ]


def never_ready(agent: Agent) -> bool:
    """Whether its CLI exited before the agent ever was ready: what stopped it would stop the next one too."""
    return agent.life == "exited" and agent.ready_epoch == 0 and agent.epoch == 1


def after_exit(
    agent: Agent, *, at: str, may_relaunch: bool, session: str | None = None, cause: str = ""
) -> list[Draft]:
    """`restarted` or `failed`, by policy and by what the outbox says was tried already (design §6).

    ``may_relaunch`` is False when there is nothing to launch into: the pane or the tmux server is gone.
    ``session`` is the CLI's newest, when its engine can go on with one. ``cause`` is the likely one of an exit
    before the first `ready`.
    """
    if agent.life != "exited" or agent.stop_asked:
        return []
    policies, end = agent.policies, agent.exited or {}
    restart, limit = policies.get("restart", "on-failure"), int(policies.get("max_restarts", 1))
    wanted = restart == "always" or (restart == "on-failure" and end.get("code") != 0)
    why = str(end.get("reason", "exited"))
    if never_ready(agent):
        lines = end.get("last_lines", [])
        reason = f"{cause}; {why} before it was ready" if cause else f"{why} before it was ready"
        return failed(agent, at=at, reason=reason, code="launch_failed", cause=cause, last_lines=lines)
    was_ready = agent.ready_epoch == agent.epoch
    # A session that did not get the CLI to its first call is not tried twice, and what it cost is not counted.
    spare = 1 if agent.resume and not was_ready else 0
    if wanted and may_relaunch and len(agent.restarts) < limit + spare:
        told: dict[str, Any] = {"resume": session} if session and was_ready else {}
        return [happened(agent, "restarted", at, by="orchestrator", epoch=agent.epoch + 1, reason=why, **told)]
    if not may_relaunch:
        why += ", so there is nothing to launch it into"
    elif wanted and limit:
        why += f"; relaunched {len(agent.restarts)} of {limit} times already"
    else:
        why += f"; restart = {restart!r}"
    return [happened(agent, "failed", at, by="orchestrator", reason=why, code="exited")]


def failed(
    agent: Agent, *, at: str, reason: str, code: str, cause: str = "", last_lines: Sequence[str] = ()
) -> list[Draft]:
    """The agent could not be launched, or did not get ready; ``cause`` is the likely one, where there is one."""
    if agent.life not in ("starting", "exited"):
        return []
    told: dict[str, Any] = {"cause": cause} if cause else {}
    if last_lines:
        told["last_lines"] = list(last_lines)
    return [happened(agent, "failed", at, by="orchestrator", reason=reason, code=code, **told)]


def stopped(agent: Agent, *, at: str, how: str) -> list[Draft]:
    """The process ended on request; the unfinished tasks end in `canceled` by `settle`, then `deleted` follows."""
    if agent.life in ("stopped", "deleted"):
        return []
    return [happened(agent, "stopped", at, by="orchestrator", how=how)]


def deleted(agent: Agent, *, at: str) -> list[Draft]:
    """The last record of an agent."""
    if agent.life != "stopped":
        return []
    return [happened(agent, "deleted", at, by="orchestrator")]


def starting(agent_id: str, *, at: str, req: str, spec: dict[str, Any]) -> Draft:
    """The intent of agent_create: everything a later life of the agent needs, and the call that asked for it."""
    return happened(Agent(agent_id), "starting", at, by="orchestrator", req=req, epoch=1, **spec)
