"""Detects the end of a CLI or a tmux server at once, and periodically a pane that is gone.

Waits on pidfds, lists panes through tmux, and records each CLI's process; decides nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from orchestrator.base.errors import OrchestratorError
from orchestrator.base.platform import processes
from orchestrator.base.waiting import call_off
from orchestrator.team.life import launch_exits
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.broadcast import TeamRun
from orchestrator.team.roster.roster import Roster

log = structlog.get_logger()


class ProcessExits:
    """The CLIs and tmux servers of a roster's agents; ``tend`` is called for each agent whose CLI or server ended."""

    def __init__(self, roster: Roster, team_panes: TeamPanes, tend: Callable[[AgentEntry], None]) -> None:
        self._roster = roster
        self._team_panes = team_panes
        self._tend = tend
        self._processes: dict[str, asyncio.Task[None]] = {}
        self._servers: dict[int, asyncio.Task[None]] = {}  # by pid

    async def process(self, entry: AgentEntry, run: TeamRun, pid: int) -> None:
        """Record this process as the agent's CLI and watch for its end; repeatable."""
        self._server(run)
        watching, epoch = self._processes.get(entry.agent_id), entry.state.epoch
        if entry.pid == pid and watching is not None and not watching.done():
            return
        await asyncio.to_thread(launch_exits.record, self._roster.paths, entry.agent_id, pid, epoch)
        self.forget(entry)
        entry.pid = pid
        entry.process = "alive"
        entry.changed.notify()

        async def watch() -> None:
            status = await processes.ended(pid)
            entry.wait_status = None if status is None else (epoch, status)
            entry.process = "gone"
            entry.changed.notify()
            self._tend(entry)

        self._processes[entry.agent_id] = asyncio.get_running_loop().create_task(watch())

    def forget(self, entry: AgentEntry) -> None:
        """Stop watching the agent's process."""
        watching = self._processes.pop(entry.agent_id, None)
        if watching is not None:
            watching.cancel()

    def _server(self, run: TeamRun) -> None:
        """Watch for the end of the tmux server: a CLI may outlive it and would then be invisible."""
        pid = int(run.file["server_pid"])
        if pid in self._servers:
            return

        async def watch() -> None:
            await processes.ended(pid)
            del self._servers[pid]
            for entry in list(self._roster.agents.values()):
                of = self._roster.runs.get(entry.run_id)
                if entry.live and of is not None and of.file["server_pid"] == pid:
                    self._tend(entry)

        self._servers[pid] = asyncio.get_running_loop().create_task(watch())

    async def look_for_panes(self) -> None:
        """Tend the live agents whose pane is gone although their CLI still runs; called periodically."""
        for run in [run for run in self._roster.runs.values() if run.live and run.file["agents"]]:
            try:
                seen = await self._team_panes.tagged(run)
            except OrchestratorError as error:
                log.debug("panes not seen", run=run.run_id, **error.as_dict())
                continue
            for agent_id in list(run.file["agents"]):
                entry = self._roster.agents.get(agent_id)
                if entry is not None and entry.live and agent_id not in seen:
                    self._tend(entry)

    async def close(self) -> None:
        """Stop watching."""
        await call_off([*self._processes.values(), *self._servers.values()])
