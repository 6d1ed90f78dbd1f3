"""The last line on the screen of each agent, for those who look: one tmux invocation per run, every `EVERY_S`.

Without an open face tmux is not called. A parked agent's screen does not change, so it is read once.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from orchestrator.base.secret_masks import one_line
from orchestrator.core.screens import LINE_MAX, readable
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.team.people.watched_rounds import WatchedRounds
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster

log = structlog.get_logger()

EVERY_S = 5.0


class ScreenLines:
    """The last lines of a roster's screens. ``changed`` is called with an agent that has another one."""

    def __init__(self, roster: Roster, team_panes: TeamPanes) -> None:
        self._roster = roster
        self._team_panes = team_panes
        self.changed: Callable[[AgentEntry], None] = lambda _entry: None
        self._lines: dict[str, tuple[str, str]] = {}  # agent -> as it stands there, as it is shown
        self._still: dict[str, int] = {}  # agents that are parked and were looked at since -> calls by then
        self._rounds = WatchedRounds(roster.clock, EVERY_S, self._tick)
        self._glanced = -EVERY_S

    async def close(self) -> None:
        """Stop looking."""
        await self._rounds.close()

    def watched(self, is_open: bool) -> None:
        """Whether a face is open."""
        self._rounds.watched(is_open)

    async def glance(self) -> None:
        """Look once, for a caller that opens no face; not more often than an open face looks.

        A screen that moves is a change, and a client may read again at each change.
        """
        now = self._roster.clock.monotonic()
        if now >= self._glanced + EVERY_S:
            self._glanced = now
            await self._rounds.glance()

    def line_of(self, entry: AgentEntry) -> str:
        """The last line with text on its screen, masked; empty if it was not seen or its pane is gone."""
        return self._lines[entry.agent_id][1] if entry.pane_id and entry.agent_id in self._lines else ""

    def _tick(self) -> None:
        for kept in (self._lines, self._still):
            for agent_id in kept.keys() - self._roster.agents.keys():
                del kept[agent_id]
        by_run: dict[str, list[AgentEntry]] = {}
        for entry in self._roster.agents.values():
            if entry.live and entry.pane_id is not None and not self._stands_still(entry):
                by_run.setdefault(entry.run_id, []).append(entry)
        if by_run and not list(self._rounds.tasks):
            self._rounds.tasks.start(self._look(by_run))

    def _stands_still(self, entry: AgentEntry) -> bool:
        return entry.turn == "parked" and self._still.get(entry.agent_id) == entry.calls

    async def _look(self, by_run: dict[str, list[AgentEntry]]) -> None:
        try:
            for run_id, entries in by_run.items():
                run = self._roster.runs.get(run_id)
                parked = {entry.agent_id: entry.calls for entry in entries if entry.turn == "parked"}
                texts = await self._team_panes.texts(run, entries) if run is not None else {}
                self._still = {name: calls for name, calls in self._still.items() if name not in texts} | {
                    name: calls for name, calls in parked.items() if name in texts
                }
                for entry in entries:
                    if entry.agent_id in texts:
                        self._take(entry, texts[entry.agent_id])
        except Exception:
            log.exception("bug while looking at screens")

    def _take(self, entry: AgentEntry, lines: list[str]) -> None:
        last = next((text for line in reversed(lines) for text in readable([line])), "")
        before = self._lines.get(entry.agent_id, ("", ""))
        if last != before[0]:
            line = one_line(last, LINE_MAX)
            self._lines[entry.agent_id] = last, line
            if line != before[1]:
                self.changed(entry)
