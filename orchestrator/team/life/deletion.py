"""Ends an agent's CLI, gently first: the bounded steps of agent_delete, each recorded in the `stopped` record.

The steps: stop (the agent leaves by itself), quit (the CLI's own command, if its input line is empty), SIGTERM, then
SIGKILL of the whole process tree. Most CLIs do not leave by themselves: once the agent knows of its stop and its turn
has ended, they wait for a human, and the first step is over. Acts on processes and on the agent's own pane; writes no
record.
"""

from __future__ import annotations

import asyncio
import contextlib

from orchestrator.base.platform import process_facts, processes
from orchestrator.base.waiting import elapse, wait_until
from orchestrator.core.screens import Screen, stands
from orchestrator.core.supervision import EndingStep
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster
from orchestrator.team.wake.paste_wake import may_paste

LOOK_S = 0.2
"""Between two looks at a CLI that may have ended its last turn; both must show the same."""
NO_HOOK_S = 2.0
"""How long the screen of a CLI without hooks must be unchanged: one at work shows its seconds."""


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
            gone, took = await self._left(entry, pid, began, config.stop_grace_s)
            tried.append(EndingStep("stop", took))
            if gone:
                return tried
            if await self._quit(entry):
                gone, took = await self._has_quit(entry, pid, began, config.quit_grace_s)
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

    async def _left(self, entry: AgentEntry, pid: int, began: int, seconds: float) -> tuple[bool, float]:
        """As `_gone_within`, but no longer than until the CLI waits for a human after the agent's last turn."""
        clock = self._roster.clock
        start = clock.monotonic()
        last, since = None, start
        while True:
            took = clock.monotonic() - start
            gone, _ = await self._gone_within(entry, pid, began, min(LOOK_S, seconds - took))
            now = clock.monotonic()
            if gone or entry.state.stop_force or now - start >= seconds:
                return gone, now - start
            screen = await self._rests(entry)
            if screen is None or screen != last:
                last, since = screen, now
            elif now - since >= (LOOK_S if _hooks_report(entry) else NO_HOOK_S):
                return False, now - start

    async def _rests(self, entry: AgentEntry) -> Screen | None:
        """The screen of a CLI that, as far as one look shows, waits for a human after its agent was told to stop."""
        row = entry.engine
        over = entry.turn == "ended" if _hooks_report(entry) else entry.turn != "human"
        if row is None or row.composer is None or not entry.told_stop or not over or entry.finding is not None:
            return None
        screen = await self._team_panes.look_at_agent(entry)
        return screen if screen is not None and not screen.dead and may_paste(row, screen) else None

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
        # Submitted only as it was pasted: a human may have typed into it meanwhile.
        return await self._stands(entry, row.quit) and await self._team_panes.submit(entry)

    async def _has_quit(self, entry: AgentEntry, pid: int, began: int, seconds: float) -> tuple[bool, float]:
        """As `_gone_within`; a quit command whose return a busy CLI has lost is submitted once more."""
        gone, took = await self._gone_within(entry, pid, began, seconds / 3)
        if gone or entry.state.stop_force:
            return gone, took
        screen, row = await self._team_panes.look_at_agent(entry), entry.engine
        if screen is not None and not screen.dead and row is not None and stands(screen, row.quit):
            await self._team_panes.submit(entry)
        gone, more = await self._gone_within(entry, pid, began, seconds - took)
        return gone, took + more

    async def _stands(self, entry: AgentEntry, line: str) -> bool:
        """Whether the input line shows exactly ``line``, for which a busy CLI gets `quit_grace_s`."""
        clock = self._roster.clock
        deadline = clock.monotonic() + self._roster.config().quit_grace_s
        while True:
            screen = await self._team_panes.look_at_agent(entry)
            if screen is None or screen.dead or stands(screen, line):
                return screen is not None and not screen.dead
            if clock.monotonic() >= deadline:
                return False
            await elapse(LOOK_S, clock)

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


def _hooks_report(entry: AgentEntry) -> bool:
    """Whether hooks of this launch report the end of its turns."""
    return entry.hook_epoch == entry.state.epoch
