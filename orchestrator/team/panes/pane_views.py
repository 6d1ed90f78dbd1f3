"""An agent's pane for people: its screen as text, and where it is. Reads only; for the command line."""

from __future__ import annotations

from typing import Any

from orchestrator.base.errors import Conflict
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.team.roster.roster import Roster

MOST_LINES = 10_000


class PaneViews:
    """The panes of a roster's agents. Raises BadRequest ``unknown_agent``, Conflict ``no_pane``, and as tmux does."""

    def __init__(self, roster: Roster, team_panes: TeamPanes) -> None:
        self._roster = roster
        self._team_panes = team_panes

    async def peek(self, *, agent_id: str, lines: int = 0) -> dict[str, Any]:
        """The screen as text: ``{agent_id, tmux_pane_id, lines}``; with ``lines`` that many, the history included."""
        entry = self._roster.entry(agent_id)
        run = self._roster.runs.get(entry.run_id)
        if lines > 0 and run is not None:
            shown = await self._team_panes.history(run, agent_id, min(lines, MOST_LINES))
        else:
            screen = await self._team_panes.look_at_agent(entry)
            shown = list(screen.lines) if screen is not None else []
        pane = await self.pane(agent_id=agent_id)  # afterwards: it may have been closed meanwhile
        return {"agent_id": agent_id, "tmux_pane_id": pane["tmux_pane_id"], "lines": shown}

    async def pane(self, *, agent_id: str) -> dict[str, Any]:
        """Where the pane is: ``{agent_id, tmux_pane_id, tmux_socket}``."""
        entry = self._roster.entry(agent_id)
        run = self._roster.runs.get(entry.run_id)
        pane = (await self._team_panes.tagged(run)).get(agent_id) if run is not None else None
        if run is None or pane is None:
            raise Conflict("no_pane", f"agent {agent_id} has no pane now")
        return {"agent_id": agent_id, "tmux_pane_id": pane.pane_id, "tmux_socket": run.file["tmux_socket"]}
