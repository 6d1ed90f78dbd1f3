"""The command that leads a person to an agent's pane, on this host or on another one. Pure."""

from __future__ import annotations

import shlex


def attach_command(agent_id: str, host: str = "") -> str:
    """The command to type here; ``host`` is the other host that runs the agent, "" for this one."""
    if not host:
        return f"orchestrator attach {shlex.quote(agent_id)}"
    there = agent_id.removesuffix("@fleet")  # the suffix tells it from an agent of this host only
    return f"orchestrator host attach {shlex.quote(host)} {shlex.quote(there)}"
