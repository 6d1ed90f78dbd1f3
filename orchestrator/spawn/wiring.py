"""Wire the spawn runs into the daemon: the callers of their nodes, the tools, the listeners of their events.

Most daemons never need them, and loading them is a tenth of a daemon's start: their modules are loaded when a client
uses the toolset, or a home has unfinished runs.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.errors import OrchestratorError
from orchestrator.base.toolsets import SMARTSPAWN
from orchestrator.base.waiting import call_off
from orchestrator.protocol.offers import AdminMethods, Offer
from orchestrator.protocol.tool_calls import Client, Tool
from orchestrator.roles.library import RoleLibrary
from orchestrator.spawn.event_resource import SpawnEvents
from orchestrator.spawn.home_location import has_work, home_of
from orchestrator.squad.squads import Squads
from orchestrator.team.roster.roster import Roster

if TYPE_CHECKING:
    from orchestrator.spawn.runs import SpawnRuns
    from orchestrator.spawn.squad_and_agent_callers import SquadAndAgentCallers

log = structlog.get_logger()

INSTRUCTIONS = (
    "smartspawn_run_create starts a DAG of model calls and answers at once; smartspawn_run_result(wait_ms) gives "
    "the merged answer."
)

Listener = Callable[[str], None]


@dataclass(frozen=True)
class _LoadedParts:
    """What a daemon makes at the first use of spawn runs."""

    runs: SpawnRuns
    callers: SquadAndAgentCallers
    tools: dict[str, Tool]


class SpawnWiring:
    """Spawn runs of one daemon, from its start to its end. ``listeners`` get the id of each run that has changed."""

    def __init__(self, roster: Roster, squads: Squads, library: RoleLibrary) -> None:
        self._roster = roster
        self._squads = squads
        self._library = library
        self.listeners: list[Listener] = []
        self._parts: _LoadedParts | None = None
        self._tasks = BackgroundTasks()
        self._rows: list[dict[str, Any]] = []
        self._stirred = True
        self._look: asyncio.Task[None] | None = None

    @property
    def active(self) -> int:
        """How many runs need this daemon."""
        return self._parts.runs.active if self._parts is not None else 0

    @property
    def runs(self) -> SpawnRuns:
        """The runs themselves; loads them."""
        return self._loaded().runs

    def offer(self, client: Client) -> Offer:
        """The toolset, if the connection has it; the events of its runs, if it may change something."""
        if SMARTSPAWN not in client.toolsets:
            return Offer()
        parts = self._loaded()
        events = SpawnEvents(partial(parts.runs.events, client.env), self.listeners)
        return Offer(parts.tools, INSTRUCTIONS, resources=events if client.rights == "master" else None)

    def people_rows(self) -> list[dict[str, Any]]:
        """The runs as people see them in the snapshot, as they were at the last look; a new look begins if needed."""
        if self._parts is not None and self._stirred and (self._look is None or self._look.done()):
            self._stirred = False
            self._look = self._tasks.start(self._look_at(self._parts.runs))
        return self._rows

    async def dismiss_budget(self, run_id: str, who: str) -> bool:
        """Record that ``who`` dismissed the used-up budget of a run in `people_rows`; False if already dismissed."""
        return await self.runs.dismiss_budget(run_id, who)

    async def _look_at(self, runs: SpawnRuns) -> None:
        try:
            self._rows = await runs.people_rows()
        except OrchestratorError as error:
            log.warning("spawn runs are not shown", **error.as_dict())

    def begin(self) -> None:
        """Continue the runs of an earlier daemon, in the background."""
        self._tasks.start(self._resume(dict(os.environ)))

    def welcome(self, client: Client) -> None:
        """A connection has come: its home may hold runs, and its key may be the one they wait for."""
        if client.rights == "master" and SMARTSPAWN in client.toolsets:
            self._tasks.start(self._resume_with(self._loaded(), client))

    def part(self, client: Client) -> None:
        """A connection has ended."""
        if self._parts is not None:
            self._parts.callers.engines.withdraw(client)

    async def close(self) -> None:
        """Release all runs, because the daemon ends."""
        if self._parts is not None:
            self._parts.callers.agents.leave()
        await call_off(self._tasks)
        if self._parts is not None:
            await self._parts.runs.close()

    def admin(self, client: Client) -> AdminMethods:
        """Requests that only the command line makes."""

        async def spawn_run(*, run_id: str) -> dict[str, Any]:
            return await self.runs.whole(client.env, str(run_id))

        return {"spawn_run": spawn_run}

    async def _resume(self, env: Mapping[str, str]) -> None:
        if await asyncio.to_thread(_has_work, env, str(self._roster.root)):
            await self.runs.resume(env)

    @staticmethod
    async def _resume_with(parts: _LoadedParts, client: Client) -> None:
        await parts.callers.engines.offer(client)
        await parts.runs.resume(client.env)

    def _loaded(self) -> _LoadedParts:
        if self._parts is None:
            from orchestrator.spawn import tools  # noqa: PLC0415 - the head says why
            from orchestrator.spawn.runs import SpawnRuns  # noqa: PLC0415
            from orchestrator.spawn.squad_and_agent_callers import SquadAndAgentCallers  # noqa: PLC0415

            roster = self._roster
            callers = SquadAndAgentCallers(roster, self._squads)
            runs = SpawnRuns(roster.root, roster.clock, callers.by_kind, self._run_changed, self._run_ended)
            deps = tools.SpawnToolDeps(runs, self._library, callers.check, roster.withheld)
            self._parts = _LoadedParts(runs, callers, tools.build(deps))
        return self._parts

    def _run_changed(self, run_id: str) -> None:
        self._stirred = True
        for listener in self.listeners:
            listener(run_id)

    def _run_ended(self, run_id: str) -> None:
        callers = self._loaded().callers
        callers.engines.forget(run_id)
        self._tasks.start(callers.agents.forget(run_id))


def _has_work(env: Mapping[str, str], project: str) -> bool:
    try:
        return has_work(home_of(env), project)
    except OrchestratorError:
        return True  # `SpawnRuns.resume` reports what is wrong with it
