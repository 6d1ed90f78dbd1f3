"""Ends an agent's CLI, gently first: the bounded steps of agent_delete, each recorded in the `stopped` record.

The steps: stop (the agent leaves by itself), quit (the CLI's own command, if its input line is empty), SIGTERM, then
SIGKILL of the whole process tree. Acts on processes and on the agent's own pane; writes no record.
"""

from __future__ import annotations

import asyncio
import contextlib

from orchestrator.base.clock import elapse, wait_until
from orchestrator.base.platform import process_facts, processes
from orchestrator.core.supervision import EndingStep
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster
from orchestrator.team.wake.paste_wake import may_paste


class DeletionLadder:
    """The steps of ending a CLI, for the agents of a roster."""

    def __init__(self, roster: Roster, team_panes: TeamPanes) -> None:
        self._roster = roster
        self._team_panes = team_panes

    async def gently(self, entry: AgentEntry, pid: int) -> list[EndingStep]:
        """Take all steps for an agent that was asked to stop; returns those taken, the last of which ended it."""
        config, began = self._roster.config(), process_facts.start_time(pid)
        if began is None:
            return []
        tried: list[EndingStep] = []
        if not entry.state.stop_force and entry.state.life == "ready":
            gone, took = await self._gone_within(entry, pid, began, config.stop_grace_s)
            tried.append(EndingStep("stop", took))
            if gone:
                return tried
            if await self._quit(entry):
                gone, took = await self._gone_within(entry, pid, began, config.quit_grace_s)
                tried.append(EndingStep("quit", took))
                if gone:
                    return tried
        return [*tried, *await self.at_once(pid)]

    async def at_once(self, pid: int) -> list[EndingStep]:
        """Send SIGTERM and, after `kill_grace_s`, SIGKILL to the process and its descendants."""
        clock = self._roster.clock
        began = clock.monotonic()
        by = await processes.end_tree(pid, self._roster.config().kill_grace_s, clock)
        took = clock.monotonic() - began
        if by == "SIGTERM":
            return [EndingStep("SIGTERM", took)]
        grace = min(took, self._roster.config().kill_grace_s)
        return [EndingStep("SIGTERM", grace), EndingStep("SIGKILL", took - grace)]

    async def _quit(self, entry: AgentEntry) -> bool:
        """Type the CLI's own quit command; False if it could land anywhere but in an empty input line."""
        row = entry.engine
        if row is None or not row.quit or entry.state.stop_force:
            return False
        screen = await self._team_panes.look_at_agent(entry)
        if screen is None or screen.dead or entry.finding is not None or not may_paste(row, screen):
            return False
        if not await self._team_panes.paste(entry, row.quit):
            return False
        await elapse(row.paste_gap_s, self._roster.clock)
        return await self._team_panes.submit(entry)

    async def _gone_within(self, entry: AgentEntry, pid: int, began: int, seconds: float) -> tuple[bool, float]:
        """Whether the process ends in time, and the seconds it was given; a later force ends the wait."""
        clock = self._roster.clock
        start = clock.monotonic()
        ending = asyncio.get_running_loop().create_task(processes.ended(pid))
        ending.add_done_callback(lambda _task: entry.changed.notify())
        try:
            await wait_until(
                lambda: True if ending.done() or entry.state.stop_force else None,
                entry.changed,
                start + seconds,
                clock,
            )
        finally:
            ending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await ending
        return not process_facts.alive(pid, began), clock.monotonic() - start
