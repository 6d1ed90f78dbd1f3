"""The figures of agents that are not in their records: usage, changes, and last lines of screens.

They are read while a face is open. Usage is also read when a turn or a task ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from orchestrator.core.inbox_items import InboxItem
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.team.people.screen_lines import ScreenLines
from orchestrator.team.people.snapshot_rows import RowFacts
from orchestrator.team.people.usage_accounts import UsageAccounts
from orchestrator.team.people.worktree_sizes import WorktreeSizes
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster


class AgentFigures:
    """The figures of a roster's agents, from the start of a daemon to its end."""

    def __init__(self, roster: Roster, team_panes: TeamPanes) -> None:
        self._roster = roster
        self.usage = UsageAccounts(roster)
        self.sizes = WorktreeSizes(roster)
        self.lines = ScreenLines(roster, team_panes)

    def facts(self) -> RowFacts:
        """What a row of the snapshot takes from here."""
        return RowFacts(self.usage.usage_of, self.sizes.size_of, self.lines.line_of)

    def items(self, entry: AgentEntry) -> tuple[InboxItem, ...]:
        """The agent's items of the inbox that no record of it shows: a budget, a conflict."""
        return (*self.usage.items(entry), *self.sizes.items(entry))

    def begin(self, changed: Callable[[AgentEntry], None]) -> None:
        """Follow the agents; ``changed`` is called with one that has other figures."""
        self.usage.changed = self.sizes.changed = self.lines.changed = changed
        self._roster.listeners.append(self.usage.seen)
        for entry in self._roster.agents.values():
            self.usage.seen(entry)

    def watched(self, is_open: bool) -> None:
        """Whether a face is open."""
        self.usage.watched(is_open)
        self.sizes.watched(is_open)
        self.lines.watched(is_open)

    async def glance(self) -> None:
        """Look once at the worktrees and screens, for a caller that opens no face."""
        await asyncio.gather(self.sizes.glance(), self.lines.glance())

    async def close(self) -> None:
        """Stop asking."""
        await self.usage.close()
        await self.sizes.close()
        await self.lines.close()
