"""The read-only toolsets that a role adds to an agent's own two tools, and the check that only this agent calls them.

Like `agent_tools`, this file never imports code that creates or kills agents (a test enforces it). The daemon passes
in only tools that read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from orchestrator.protocol.tool_calls import Call, Client, Tool
from orchestrator.team.roster import delivery
from orchestrator.team.roster.roster import Roster

Offered = Mapping[str, Callable[[Client], Mapping[str, Tool]]]
"""Name of a toolset -> its tools for one connection."""


def tools(roster: Roster, client: Client, offered: Offered) -> dict[str, Tool]:
    """The tools of the toolsets named in the `starting` record of the connection's agent.

    Each call checks the agent's identity, as its own tools do; a listing does not, because it discloses nothing.
    """
    entry = roster.agents.get(client.agent_id or "")
    named = entry.state.spec.get("toolsets") or () if entry is not None else ()
    granted: dict[str, Tool] = {}
    for name, tools_for in offered.items():
        if name in named:
            granted |= {tool.name: _with_identity_check(roster, tool) for tool in tools_for(client).values()}
    return granted


@lru_cache(maxsize=64)
def _with_identity_check(roster: Roster, tool: Tool) -> Tool:
    """The tool with the identity check before each call; cached, because building its schemas is slow."""

    async def run(call: Call, arguments: Any) -> dict[str, Any]:
        client = call.client
        agent_id = client.agent_id or ""
        delivery.check_identity(roster, agent_id, claimed=agent_id, secret=client.secret)
        entry = delivery.query(roster, agent_id, client.epoch, tool.name)
        try:
            return await tool.run(call, arguments)
        finally:
            entry.queried(roster.clock)

    return replace(tool, run=run)
