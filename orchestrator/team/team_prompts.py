"""The team's prompts: how to lead agents, and the loop of an agent, with their names filled in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import mcp_types as types

from orchestrator.base.package_data import prompt
from orchestrator.base.toolsets import tools_of
from orchestrator.core.prompts import queries_rule, render, worktree_rule
from orchestrator.protocol.tool_calls import Client
from orchestrator.team.roster.roster import Roster

AGENT = "agent"
PROMPTS = {
    "lead_team": "How to lead a team of agents with these tools",
    AGENT: "The loop a sub-agent follows",
}


class TeamPrompts:
    """A `PromptSource`: those of `PROMPTS` in ``names``, for one connection."""

    def __init__(self, roster: Roster, client: Client, names: Collection[str] = tuple(PROMPTS)) -> None:
        self._roster = roster
        self._client = client
        self.names = names

    def listed(self) -> list[types.Prompt]:
        """They take no arguments."""
        return [types.Prompt(name=name, description=PROMPTS[name]) for name in self.names]

    async def get(self, name: str, _arguments: Mapping[str, str], _session: Any) -> types.GetPromptResult:
        """An agent's own text says who it is, and which further rules hold for it."""
        roster, agent_id = self._roster, self._client.agent_id
        values = {"project": str(roster.root), "agent_id": agent_id or "<agent_id>", "role": "", "artifacts": ""}
        entry = roster.agents.get(agent_id or "")
        if entry is not None:
            values["role"] = str(entry.state.spec.get("role", ""))
            values["artifacts"] = str(roster.paths.artifacts(entry.agent_id))
        text = render(prompt(name), values)
        if entry is not None and name == AGENT:
            tree = entry.state.spec.get("worktree")
            if tree:
                text = f"{text.rstrip()}\n\n{worktree_rule(tree['path'], tree['branch'])}\n"
            queries = tools_of(entry.state.spec.get("toolsets") or ())
            if queries:
                text = f"{text.rstrip()}\n\n{queries_rule(queries)}\n"
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description=PROMPTS[name], messages=[message])
