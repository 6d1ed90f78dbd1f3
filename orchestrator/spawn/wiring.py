"""Loads the spawn runs of a daemon when a client uses the toolset, or a home has unfinished runs.

Most daemons never need them, and loading them is a tenth of a daemon's start.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.base.clock import call_off
from orchestrator.base.errors import OrchestratorError
from orchestrator.base.toolsets import SMARTSPAWN
from orchestrator.protocol.offers import AdminMethods, Offer
from orchestrator.protocol.tool_calls import Client
from orchestrator.roles.library import RoleLibrary
from orchestrator.spawn.event_resource import SpawnEvents
from orchestrator.spawn.home_location import has_open_runs, home_of
from orchestrator.squad.squads import Squads
from orchestrator.team.roster.roster import Roster

if TYPE_CHECKING:
    from orchestrator.spawn.runs import SpawnRuns
    from orchestrator.spawn.service import SpawnService

INSTRUCTIONS = (
    "smartspawn_run_create starts a DAG of model calls and answers at once; smartspawn_run_result(wait_ms) gives "
    "the merged answer."
)

Told = Callable[[str], None]


class SpawnWiring:
    """Spawn runs of one daemon, from its start to its end. ``listeners`` hear the id of each run that has moved."""

    def __init__(self, roster: Roster, squads: Squads, library: RoleLibrary) -> None:
        self._given = roster, squads, library
        self.listeners: list[Told] = []
        self._service: SpawnService | None = None
        self._beginning: asyncio.Task[None] | None = None

    @property
    def active(self) -> int:
        """How many runs need this daemon."""
        return self._service.active if self._service is not None else 0

    @property
    def runs(self) -> SpawnRuns:
        """The runs themselves; loads them."""
        return self._loaded().runs

    def offer(self, client: Client) -> Offer:
        """The toolset, if the connection has it; the events of its runs, if it may change something."""
        if SMARTSPAWN not in client.toolsets:
            return Offer()
        service = self._loaded()
        events = SpawnEvents(partial(service.runs.events, client.env), self.listeners)
        return Offer(service.tools, INSTRUCTIONS, resources=events if client.rights == "master" else None)

    def begin(self) -> None:
        """Continue the runs of an earlier daemon, in the background."""
        self._beginning = asyncio.get_running_loop().create_task(self._resume(dict(os.environ)))

    def welcome(self, client: Client) -> None:
        """A connection has come: its home may hold runs, and its key may be the one they wait for."""
        if client.rights == "master" and SMARTSPAWN in client.toolsets:
            self._loaded().welcome(client)

    def part(self, client: Client) -> None:
        """A connection has ended."""
        if self._service is not None:
            self._service.part(client)

    async def close(self) -> None:
        """Release all runs, because the daemon ends."""
        if self._beginning is not None:
            await call_off([self._beginning])
        if self._service is not None:
            await self._service.close()

    def admin(self, client: Client) -> AdminMethods:
        """Requests that only the command line makes."""

        async def spawn_run(*, run_id: str) -> dict[str, Any]:
            return await self.runs.whole(client.env, str(run_id))

        return {"spawn_run": spawn_run}

    async def _resume(self, env: Mapping[str, str]) -> None:
        if await asyncio.to_thread(_has_work, env):
            await self.runs.resume(env)

    def _loaded(self) -> SpawnService:
        if self._service is None:
            from orchestrator.spawn.service import SpawnService  # noqa: PLC0415 - the head says why

            self._service = SpawnService(*self._given, self.listeners)
        return self._service


def _has_work(env: Mapping[str, str]) -> bool:
    try:
        return has_open_runs(home_of(env))
    except OrchestratorError:
        return True  # the service says what is wrong with it
