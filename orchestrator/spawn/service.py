"""The running spawn runs of a daemon: their service, the callers of their nodes, the resource of their events.

The only place where spawn runs meet squads and the team: both are given to a run as callers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from orchestrator.protocol.tool_calls import Client
from orchestrator.roles.library import RoleLibrary
from orchestrator.spawn import tools as spawn_tools
from orchestrator.spawn.callers import Caller, kind_of, name_of
from orchestrator.spawn.runs import SpawnRuns
from orchestrator.spawn.squad_and_agent_callers import AgentCaller, EngineCaller, MemberStart, kept_of
from orchestrator.squad.squads import Squads
from orchestrator.team.roster.roster import Roster

Told = Callable[[str], None]


class SpawnService:
    """Spawn runs of one daemon, from their first use to its end. ``listeners`` hear the id of each run that moved."""

    def __init__(self, roster: Roster, squads: Squads, library: RoleLibrary, listeners: Sequence[Told]) -> None:
        self._engines = EngineCaller(squads, roster.config, roster.clock)
        self._agents = AgentCaller(roster)
        self._listeners = listeners
        callers: dict[str, Caller] = {"engine": self._engines, "agent": self._agents}
        self.runs = SpawnRuns(roster.root, roster.clock, callers, self._notify_listeners, self._ended)
        self.tools = spawn_tools.build(spawn_tools.SpawnToolDeps(self.runs, library, self._check, roster.withheld))
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def active(self) -> int:
        """How many runs need this daemon."""
        return self.runs.active

    def welcome(self, client: Client) -> None:
        """A connection with the toolset has come: its home may hold runs, its key may be the one they wait for."""
        self._begin(self._welcome(client))

    def part(self, client: Client) -> None:
        """A connection has ended."""
        self._engines.withdraw(client)

    async def close(self) -> None:
        """Release all runs, because the daemon ends."""
        self._agents.leave()
        for task in self._tasks:
            task.cancel()
        await self.runs.close()

    async def _welcome(self, client: Client) -> None:
        await self._engines.offer(client)
        await self.runs.resume(client.env)

    def _notify_listeners(self, run_id: str) -> None:
        for listener in self._listeners:
            listener(run_id)

    def _ended(self, run_id: str) -> None:
        self._engines.forget(run_id)
        self._begin(self._agents.forget(run_id))

    def _begin(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _check(self, client: Client, peers: tuple[str, ...]) -> Callable[[str], None]:
        kept = await asyncio.to_thread(kept_of, client) if peers else MemberStart()
        for peer in peers:
            if kind_of(peer) == "engine":
                await self._engines.check(name_of(peer), kept)
            else:
                self._agents.check(name_of(peer))

        def keep(run_id: str) -> None:
            if peers:
                self._engines.keep(run_id, kept)

        return keep
