"""What follows the end of a model turn: wake the agent, end the turn, or park the agent until there is work. Pure.

A wake carries no work and changes no task: it only makes the model call `wait_for_command`, so a wake that is lost or
sent twice does no harm.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from orchestrator.core.record_drafts import happened
from orchestrator.core.record_types import Draft
from orchestrator.core.state import Agent

MAX_WAKES = 3
"""Wakes in a row that a CLI may leave unanswered by any call: a model that will not call must not spin for ever."""

HookWord = Literal["wake", "park", "release"]

Cause = Literal["", "stop", "cancel", "task", "lease", "start"]
"""Why an agent must call: nothing, one of the three commands, a task it holds, or its first call."""

BECAUSE: dict[Cause, str] = {
    "stop": "it must stop",
    "cancel": "its task was canceled",
    "task": "a task waits",
    "lease": "it still holds a task",
    "start": "it has made no call yet",
}


class TurnEndVerdict(NamedTuple):
    """The answer to a turn-end hook; ``cause`` is the reason if it is not `park`."""

    word: HookWord
    cause: Cause = ""


def due(agent: Agent, *, visible_inbox: int, told_stop: bool = False, known_cancel: str | None = None) -> Cause:
    """Why the agent must call now; "" if it need not. The same state always gives the same answer.

    ``visible_inbox``: the last inbox seq that is durable. ``told_stop``: this launch was given the stop already.
    ``known_cancel``: the task whose cancel the agent knew when it parked. An agent that has ignored its task up to
    the limit of redeliveries is woken only for a cancel or a stop.
    """
    if agent.life not in ("starting", "ready"):
        return ""
    if agent.stop_asked:
        return "stop" if agent.stop_asked <= visible_inbox and not told_stop else ""
    lease = agent.lease
    if lease is not None:
        if lease.cancel_requested and lease.task_id != known_cancel:
            return "cancel"
        return "" if "" in agent.blocks else "lease"
    if agent.life == "starting":
        return "start"
    head = agent.head()
    return "task" if head is not None and head.seq <= visible_inbox and not head.cancel_asked else ""


def turn_end(cause: Cause, agent: Agent, unheeded: int) -> TurnEndVerdict:
    """The answer to a turn-end hook. ``unheeded``: wakes in a row that no call of this launch has followed."""
    if agent.life not in ("starting", "ready") or (agent.stop_asked and not cause):
        return TurnEndVerdict("release")
    if not cause:
        return TurnEndVerdict("park")
    return TurnEndVerdict("release" if unheeded >= MAX_WAKES else "wake", cause)


def may_park(agent: Agent, *, visible_inbox: int, empty_waits: int, park_after: int) -> bool:
    """Whether an empty wait is answered with the request to end the turn. ``park_after`` 0: never."""
    rests = agent.life == "ready" and agent.lease is None and not due(agent, visible_inbox=visible_inbox)
    return bool(park_after) and empty_waits >= park_after and rests and not agent.stop_asked


def parked(agent: Agent, *, at: str) -> list[Draft]:
    """The record that the agent is parked; empty if it is recorded already."""
    return [] if agent.parked or agent.life != "ready" else [_happened(agent, "parked", at, "")]


def woken(agent: Agent, *, at: str, reason: str) -> list[Draft]:
    """The record that the agent is no longer parked, for whatever reason; empty if it was not."""
    return [_happened(agent, "woken", at, reason)] if agent.parked and agent.life == "ready" else []


def _happened(agent: Agent, record: str, at: str, reason: str) -> Draft:
    fields: dict[str, Any] = {"reason": reason} if reason else {}
    return happened(agent, record, at, by="orchestrator", **fields)
