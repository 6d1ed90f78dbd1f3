"""The rights of a connection: master, reader, agent, or none. Pure.

What the kernel says of its process decides; what the hello says can only take rights away. Each tool call proves by
itself which agent it speaks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from orchestrator.base.errors import BadRequest
from orchestrator.trust.origin import ProcessOrigin

Rights = Literal["master", "reader", "agent", "refused"]
"""``master``: may change everything; ``reader``: may only read; ``agent``: has an agent's own tools."""


class Admission(NamedTuple):
    """The rights of a connection; ``why`` is the error that explains a restriction, None without one."""

    rights: Rights
    why: BadRequest | None = None


@dataclass(frozen=True)
class Arrival:
    """What is known of a connection when its rights are decided.

    ``claimed`` is the agent it says it is, ``agent_tools`` whether it asks for an agent's tools, ``named`` the agents
    whose processes its hello names, ``names_member`` whether it names a squad member's. ``socket_of`` are the agents
    whose own socket it came by; None: it came by the project's.
    """

    project: str
    origin: ProcessOrigin
    claimed: str | None = None
    agent_tools: bool = False
    named: frozenset[str] = frozenset()
    names_member: bool = False
    socket_of: frozenset[str] | None = None


def admission(arrival: Arrival) -> Admission:
    """The rights of this connection.

    An agent's claim counts unless the process comes from another agent; everybody else must come from outside to
    change anything, and gets nothing from inside, nor on an agent's own socket.
    """
    origin, claimed, socket_of = arrival.origin, arrival.claimed, arrival.socket_of
    others = origin.other_than((arrival.project, claimed)) if claimed is not None else origin.agents
    named = arrival.named - {claimed}
    if claimed is not None and (others or named):
        whom = min({*named, *(agent_id for _, agent_id in others)})
        return _refused("not_an_agent", f"this process runs in agent {whom}, not in {claimed}")
    if origin.kind == "member" or arrival.names_member:
        next_step = "finish your own task and return its result"
        return Admission("refused", BadRequest("not_for_agents", "this process runs in a squad member", next_step))
    if claimed is not None and (socket_of is None or claimed in socket_of):
        return Admission("agent")
    if arrival.agent_tools:
        return _refused("not_an_agent", "this relay was started with --agent outside of an agent")
    if others or named:
        return _refused("not_for_agents", "this process runs in an agent's pane")
    if socket_of is not None:
        whom = ", ".join(sorted(socket_of)) or "(deleted)"
        return _refused("not_an_agent", f"this socket serves agent {whom} only")
    if origin.kind == "outside":
        return Admission("master")
    return Admission("reader", origin_unknown())


def origin_unknown() -> BadRequest:
    """Why a process of unknown origin may not change anything."""
    return BadRequest("origin_unknown", "this process may come from an agent, so it can only read")


def _refused(code: str, message: str) -> Admission:
    return Admission("refused", BadRequest(code, message))
