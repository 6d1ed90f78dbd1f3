"""Decides what a host takes from other hosts: `[fleet.accept]` against a post or a recorded agent. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from orchestrator.config.fleet_values import ANY, FleetAcceptance
from orchestrator.fleet.database_functions import PostKind

APPROVALS = ("ask", "edits", "all")
"""From the least to the most that an agent may do without asking."""
ENDING: tuple[PostKind, ...] = ("cancel", "stop")


def refused(accept: FleetAcceptance, own_host: str, by_host: str, kind: PostKind, spec: Mapping[str, Any]) -> str:
    """Why this host does not take a post, in a sentence; "" if it takes it.

    ``spec`` is the body of a `create`, for the other kinds what was recorded of the agent. Posts of this host itself
    are taken, except for a command that it does not define. `cancel` and `stop` are taken from everybody, also from a
    host that is not accepted any more: they end work and start nothing.
    """
    if kind in ENDING:
        return ""
    return (by_host != own_host and _not_accepted(accept, by_host, spec)) or _undefined_command(accept, spec)


def accepts(accept: FleetAcceptance, own_host: str, by_host: str) -> bool:
    """Whether this host takes anything from that host that could start or drive a program."""
    return by_host == own_host or _named(by_host, accept.hosts)


def _not_accepted(accept: FleetAcceptance, by_host: str, spec: Mapping[str, Any]) -> str:
    engine, role, approval = spec.get("engine"), spec.get("role"), spec.get("approval") or APPROVALS[0]
    if not _named(by_host, accept.hosts):
        return f"this host takes nothing from host {by_host!r}"
    if not _named(engine, accept.engines):
        return f"this host takes no engine {engine!r} from other hosts"
    if not _named(role, accept.roles):
        return f"this host takes no role {role!r} from other hosts"
    if approval not in APPROVALS or APPROVALS.index(approval) > APPROVALS.index(accept.approval):
        return f"this host takes at most approval {accept.approval!r} from other hosts, not {approval!r}"
    return ""


def _named(name: Any, accepted: Collection[str]) -> bool:
    """Whether a name is accepted; what is no name never is: what it would become here is not known."""
    return isinstance(name, str) and name != "" and (ANY in accepted or name in accepted)


def _undefined_command(accept: FleetAcceptance, spec: Mapping[str, Any]) -> str:
    """The engine `command` runs only what this host defines, never its default command line."""
    if spec.get("engine") != "command":
        return ""
    membership = spec.get("fleet")
    recorded = membership.get("command_name") if isinstance(membership, Mapping) else None
    names = [name for name in (spec.get("command_name"), recorded) if name]
    if not names:
        return "the engine command needs the name of a command that this host defines"
    unknown = [name for name in names if not isinstance(name, str) or name not in accept.commands]
    return f"this host defines no command {unknown[0]!r}" if unknown else ""
