"""Keeps what an agent's pane shows when its CLI ends or a task of it fails, as artifacts. Reads panes, writes files.

Nothing waits for it longer than ``WAIT_S``, and no failure of it is more than a line in the log.
"""

from __future__ import annotations

import asyncio

import structlog

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.errors import OrchestratorError
from orchestrator.base.waiting import call_off, wait_until
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.team.roster import screen_files
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster

log = structlog.get_logger()

LINES = 2000
"""How many lines of a pane are kept, its history included."""
WAIT_S = 1.0


class ScreenKeeping:
    """The screens of a roster's agents; `seen` is a listener of the roster."""

    def __init__(self, roster: Roster, team_panes: TeamPanes) -> None:
        self._roster = roster
        self._team_panes = team_panes
        self._tasks = BackgroundTasks()
        self._ends: dict[str, asyncio.Task[None]] = {}
        self._errors: dict[str, int] = {}  # by agent: how many of its tasks had failed at the last call

    def seen(self, entry: AgentEntry) -> None:
        """Keep the screen if a task of the agent has just failed while its CLI runs."""
        agent = entry.state
        errors = agent.outcomes["error"]
        before = self._errors.get(entry.agent_id, errors)  # what failed before this daemon began is not on the screen
        self._errors[entry.agent_id] = errors
        last = agent.last_end
        if errors > before and agent.life == "ready" and last is not None and last.outcome == "error":
            self._tasks.start(self._keep(entry, last.task_id))

    def begin(self, entry: AgentEntry) -> None:
        """Keep the screen at the end of this launch, without waiting; a second call for it changes nothing."""
        if entry.agent_id in self._ends or self._kept(entry):
            return
        task = self._tasks.start(self._keep(entry, screen_files.END))
        self._ends[entry.agent_id] = task
        task.add_done_callback(lambda _task: self._ended(entry))

    async def finish(self, entry: AgentEntry) -> None:
        """Wait a moment for what `begin` does: the pane is about to change."""
        task, clock = self._ends.get(entry.agent_id), self._roster.clock
        if task is not None:
            deadline = clock.monotonic() + WAIT_S
            await wait_until(lambda: True if task.done() else None, entry.changed, deadline, clock)

    async def close(self) -> None:
        """Stop keeping."""
        await call_off(self._tasks)

    def _kept(self, entry: AgentEntry) -> bool:
        """Whether the CLI had ended before and its last screen was kept then."""
        paths, agent = self._roster.paths, entry.state
        return agent.life != "ready" and screen_files.of_epoch(paths, entry.agent_id, agent.epoch) is not None

    def _ended(self, entry: AgentEntry) -> None:
        self._ends.pop(entry.agent_id, None)
        entry.changed.notify()

    async def _keep(self, entry: AgentEntry, what: str) -> None:
        epoch, run = entry.state.epoch, self._roster.runs.get(entry.run_id)
        if run is None:
            return
        try:
            lines = await self._team_panes.history(run, entry.agent_id, LINES)
            if lines:
                await asyncio.to_thread(screen_files.keep, self._roster.paths, entry.agent_id, what, epoch, lines)
        except OrchestratorError as error:
            log.info("a screen was not kept", agent=entry.agent_id, what=what, **error.as_dict())
