"""An agent's pane for people: its screen as text, and where it is. Reads only; for the command line."""

from __future__ import annotations

import asyncio
from typing import Any

from orchestrator.base.errors import Conflict
from orchestrator.core.attach_command import attach_command
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.team.roster.roster import Roster

MOST_LINES = 10_000
ASKED_S = 10.0
"""Longest wait for the screen of an agent on another host."""
FRESH_S = 1.0
"""Seconds for which a look at a screen is reused: several faces may show the same agent."""


class PaneViews:
    """The panes of a roster's agents. Raises BadRequest ``unknown_agent``, Conflict ``no_pane``, and as tmux does."""

    def __init__(self, roster: Roster, team_panes: TeamPanes) -> None:
        self._roster = roster
        self._team_panes = team_panes
        self._looks: dict[tuple[str, int], tuple[float, asyncio.Task[dict[str, Any]]]] = {}  # when, the look

    async def peek(self, *, agent_id: str, lines: int = 0) -> dict[str, Any]:
        """The screen as text: ``{agent_id, tmux_pane_id, lines}``; ``lines``: the last N lines, with history.

        The same screen is read from tmux at most once in ``FRESH_S`` seconds.
        """
        if agent_id in self._roster.replicas and self._roster.fleet is not None:
            shown = await self._roster.fleet.ask(agent_id, "peek", {"lines": lines}, ASKED_S)
            return {**shown, "agent_id": agent_id, "tmux_pane_id": None}
        wanted, at = (agent_id, max(0, min(lines, MOST_LINES))), self._roster.clock.monotonic()
        last = self._looks.get(wanted)
        if last is None or at - last[0] >= FRESH_S:
            self._looks = {key: look for key, look in self._looks.items() if at - look[0] < FRESH_S}
            last = self._looks[wanted] = at, asyncio.get_running_loop().create_task(self._peek(*wanted))
        return await asyncio.shield(last[1])

    async def _peek(self, agent_id: str, lines: int) -> dict[str, Any]:
        entry = self._roster.entry(agent_id)
        run, pane_id, shown = self._roster.runs.get(entry.run_id), entry.pane_id, []
        if lines > 0 and run is not None:
            shown = await self._team_panes.history(run, agent_id, lines)
        elif (screen := await self._team_panes.look_at_agent(entry)) is not None:
            # The pane's tag was compared, so this is the agent's pane: no second tmux call is needed.
            return {"agent_id": agent_id, "tmux_pane_id": pane_id, "lines": list(screen.lines)}
        pane = await self.pane(agent_id=agent_id)  # afterwards: it may have been closed meanwhile
        return {"agent_id": agent_id, "tmux_pane_id": pane["tmux_pane_id"], "lines": shown}

    async def pane(self, *, agent_id: str) -> dict[str, Any]:
        """Where the pane is: ``{agent_id, tmux_pane_id, tmux_socket}``."""
        if (there := self._roster.replicas.get(agent_id)) is not None and there.remote is not None:
            host = there.remote.host
            message = f"the pane of {agent_id} is on host {host}"
            raise Conflict("no_pane", message, f"{attach_command(agent_id, host)} shows it", host=host)
        entry = self._roster.entry(agent_id)
        run = self._roster.runs.get(entry.run_id)
        pane = (await self._team_panes.tagged(run)).get(agent_id) if run is not None else None
        if run is None or pane is None:
            raise Conflict("no_pane", f"agent {agent_id} has no pane now")
        return {"agent_id": agent_id, "tmux_pane_id": pane.pane_id, "tmux_socket": run.file["tmux_socket"]}
