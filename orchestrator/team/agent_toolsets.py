"""The tools that a role gives its agents beside their own two: which, and that the living agent alone may call them.

As its own tools they never reach code that creates or kills agents (a test holds it): what the daemon hands in here
only reads.
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
    """The tools of the toolsets that stand in the `starting` record of the agent the connection speaks for.

    That it does speak for it is proven by each call, as with the agent's own tools: listing them tells nothing.
    """
    entry = roster.agents.get(client.agent_id or "")
    named = entry.state.spec.get("toolsets") or () if entry is not None else ()
    found: dict[str, Tool] = {}
    for name, made in offered.items():
        if name in named:
            found |= {tool.name: _proven(roster, tool) for tool in made(client).values()}
    return found


@lru_cache(maxsize=64)
def _proven(roster: Roster, tool: Tool) -> Tool:
    """The tool as an agent has it; made once, for its schemas are."""

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
