"""The spawn runs of a daemon: create, inspect and cancel them, read their results and artifacts. The tools call it.

Several homes can be in use, because each connection has its SMART_SPAWN_MCP_HOME; each is opened when it is first
needed. Touches the homes.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import structlog

from orchestrator.base.clock import Clock, rfc3339
from orchestrator.base.errors import BadRequest, Conflict, Environment, OrchestratorError
from orchestrator.spawn import (
    api_key,
    health,
    home_location,
    owned_runs,
    queries,
    run_adoption,
    run_plan,
    run_results,
    run_settings,
    transitions,
    views,
)
from orchestrator.spawn.callers import Caller
from orchestrator.spawn.home import SpawnDeps, SpawnHome
from orchestrator.spawn.openrouter import ModelApi, origin
from orchestrator.spawn.queries import RunMoment
from orchestrator.spawn.run_data import RUN_ENDED, Event, RunRequest, RunRow, RunStatus
from orchestrator.spawn.run_seals import Seals

log = structlog.get_logger()

CALLER_NODE_S, CALLER_RUN_S = 600.0, 7200.0
"""Time limits of runs that squads or agents answer, if none are set: these work longer than a model's call."""
LISTED, LISTED_MAX = 20, 200
TASK_MAX = 4_000_000


@dataclass(frozen=True)
class RunCreation:
    """One smartspawn_run_create: the request, the variables of its connection, its key for exactly-once.

    ``made`` is called with the run's id before the run can begin; with the existing id if it was made already.
    """

    request: RunRequest
    env: Mapping[str, str]
    req: str
    made: Callable[[str], None] = lambda _run_id: None


class SpawnRuns:
    """The spawn runs that one daemon offers.

    ``changed`` is called with the id of each changed run, "" if another daemon wrote; ``ended`` with the id of
    each run that this daemon no longer executes.
    """

    def __init__(
        self,
        project: Path,
        clock: Clock,
        callers: Mapping[str, Caller],
        changed: Callable[[str], None],
        ended: Callable[[str], None] = lambda _run_id: None,
    ) -> None:
        self._project = str(project)
        self._clock = clock
        self._ended = ended
        self._deps = SpawnDeps(self._project, clock, ModelApi(clock), self._client, callers, changed, ended)
        self._http: httpx2.AsyncClient | None = None
        self._homes: dict[Path, SpawnHome] = {}
        self._opening: dict[Path, asyncio.Lock] = {}

    @property
    def active(self) -> int:
        """How many runs need this daemon."""
        return sum(home.run_queue.active for home in self._homes.values())

    # -- the life of the daemon ---------------------------------------------------------------------------------

    async def resume(self, env: Mapping[str, str]) -> None:
        """Open the home that these variables name, if it has runs that have not ended (B4.31); else touch nothing.

        The key they hold is remembered for the runs that wait for it.
        """
        try:
            path = home_location.home_of(env)
            if path in self._homes or await asyncio.to_thread(home_location.has_work, path, self._project):
                await self._offer_key(await self._home(path), env)
        except OrchestratorError as error:
            home = env.get(home_location.HOME, home_location.DEFAULT_HOME)
            log.warning("the home of the spawn runs was left alone", home=home, reason=error.message)

    async def close(self) -> None:
        """Release every run and close the homes."""
        for home in self._homes.values():
            await home.close()
        await self._deps.api.close()
        if self._http is not None:
            await self._http.aclose()

    def _client(self) -> httpx2.AsyncClient | None:
        """The HTTP client for planners; made when it is first needed, for it reads certificates. None: it failed."""
        if self._http is None:
            with contextlib.suppress(httpx2.InvalidURL, ValueError, ImportError, OSError):
                self._http = httpx2.AsyncClient(follow_redirects=False)
        return self._http

    async def _home(self, path: Path) -> SpawnHome:
        async with self._opening.setdefault(path, asyncio.Lock()):
            home = self._homes.get(path)
            if home is None:
                home = SpawnHome(path, self._deps)
                try:
                    await home.open()
                except BaseException:
                    await asyncio.to_thread(home.db.close)
                    raise
                self._homes[path] = home
            return home

    async def _home_of(self, env: Mapping[str, str]) -> SpawnHome:
        home = await self._home(home_location.home_of(env))
        await self._offer_key(home, env)
        return home

    async def _offer_key(self, home: SpawnHome, env: Mapping[str, str]) -> None:
        with contextlib.suppress(Environment):  # what is no key: who needs one is told so
            if key := api_key.brought(env):
                await home.offer(key)

    # -- what callers ask ---------------------------------------------------------------------------------------

    async def create(self, creation: RunCreation) -> dict[str, Any]:
        """Put a run in the queue; a call that is sent again (same ``req``) gets the run of the first."""
        request = creation.request
        chosen = run_settings.read(creation.env)
        size = len(request.task) + len(request.context)
        if size > chosen.max_prompt_chars:
            message = f"{size} characters; MAX_PROMPT_CHARS is {chosen.max_prompt_chars}"
            raise BadRequest("prompt_too_large", message)
        if request.caller_kind != "model":
            chosen = chosen.model_copy(
                update={
                    name: seconds
                    for name, variable, seconds in (
                        ("node_timeout_s", "NODE_TIMEOUT_SECONDS", CALLER_NODE_S),
                        ("run_timeout_s", "RUN_TIMEOUT_SECONDS", CALLER_RUN_S),
                    )
                    if not creation.env.get(variable, "").strip()
                }
            )
        run_plan.check_named_models(request, chosen)
        server = origin(chosen.base_url)
        path = home_location.home_of(creation.env)
        key = ""
        if request.caller_kind == "model":
            key = await asyncio.to_thread(api_key.key_of, creation.env, path, self._project)
        if request.caller_kind == "model" and not key:
            raise BadRequest("no_api_key", "OPENROUTER_API_KEY is not set for this connection")
        home = await self._home_of(creation.env)
        at = rfc3339(self._clock.now())
        row = RunRow(
            id=str(uuid.uuid4()),
            number=0,
            request=request,
            settings=chosen,
            status="queued",
            created_at=at,
            updated_at=at,
            project=self._project,
            req=creation.req,
            origin=server if key else "",
            key_fp=await home.offer(key) if key else "",
            estimated_steps=await asyncio.to_thread(run_plan.estimated_steps, request),
            owner=home.run_queue.me,
        )
        creation.made(row.id)
        stored: RunRow | None = None
        try:
            stored = await home.db.write(_stored, home, row, at)
        finally:
            if stored is None or stored.id != row.id:
                self._ended(row.id)
        if stored.id != row.id and stored.status not in RUN_ENDED:
            creation.made(stored.id)  # sent again behind a restart: this daemon keeps nothing for it yet
        home.run_queue.look()
        return {
            "run_id": stored.id,
            "status": "queued",
            "created_at": stored.created_at,
            "estimated_steps": stored.estimated_steps,
        }

    async def status(self, env: Mapping[str, str], run_id: str, wait_s: float) -> dict[str, Any]:
        """The status of a run; with ``wait_s`` after its next change or that time."""
        home = await self._home_of(env)
        deadline = self._clock.monotonic() + wait_s
        await run_results.wait_for_change(home, run_id, deadline, self._clock, lambda first, now: now != first)
        return await run_results.status(home, run_id, self._clock.now())

    async def result(
        self, env: Mapping[str, str], run_id: str, wait_s: float, *, include_raw: bool, tell: Callable[[str], None]
    ) -> dict[str, Any]:
        """The result of a run; with ``wait_s`` after its end or that time."""
        home = await self._home_of(env)
        reported = ""

        def ended(_first: RunMoment, now: RunMoment) -> bool:
            nonlocal reported
            if (progress := f"{now.done} of {now.total} nodes done") != reported:
                reported = progress
                tell(progress)
            return False

        await run_results.wait_for_change(home, run_id, self._clock.monotonic() + wait_s, self._clock, ended)
        state = await run_results.status(home, run_id, self._clock.now())
        return await run_results.result(home, run_id, state, include_raw=include_raw)

    async def cancel(self, env: Mapping[str, str], run_id: str) -> dict[str, Any]:
        """End a run; Conflict ``spawn_run_finished`` when it has ended already (with its status).

        Environment ``foreign_data`` for one that was not made on this machine.
        """
        home = await self._home_of(env)
        run = await run_results.run_of(home, run_id)
        if run.foreign:
            raise Environment("foreign_data", f"the run {run_id[:80]!r} was not made on this machine")
        done = await home.db.write(_canceled, home, run_id, rfc3339(self._clock.now()))
        if done == "finished":
            run = await run_results.run_of(home, run_id)
            raise Conflict("spawn_run_finished", f"the run is {run.status}", status=run.status)
        home.changed(run_id)
        if done == "canceled":
            self._ended(run_id)
        home.run_queue.look()
        return {"status": done}

    async def listed(self, env: Mapping[str, str], status: RunStatus | None, limit: int | None) -> dict[str, Any]:
        """The runs of the home, the newest first."""
        home = await self._home_of(env)
        runs = await home.db.read(_listed, home, status, limit or LISTED)
        return {"runs": [views.listed(run) for run in runs]}

    async def people_rows(self) -> list[dict[str, Any]]:
        """The runs of all open homes as people see them in the snapshot, the newest first."""
        rows = []
        for home in self._homes.values():
            for run in await home.db.read(_listed, home, None, LISTED):
                with contextlib.suppress(BadRequest):  # removed meanwhile
                    state = await run_results.status(home, run.id, self._clock.now())
                    over = views.is_over_budget(run)
                    seen = run.project != self._project or await home.db.read(queries.budget_dismissed, run.id)
                    rows.append(views.people_row(run, state, over_budget=over, dismissed=over and seen))
        return rows[:LISTED]

    async def dismiss_budget(self, run_id: str, who: str) -> bool:
        """Record in the run's events that ``who`` dismissed its used-up budget; False if already dismissed."""
        for home in self._homes.values():
            if await home.db.read(queries.run, run_id) is not None:
                noted = await home.db.write(transitions.dismiss_budget, run_id, who, rfc3339(self._clock.now()))
                home.changed(run_id)
                return noted
        return False

    async def artifact(self, env: Mapping[str, str], run_id: str, node_id: str, offset: int) -> dict[str, Any]:
        """A file of a run, from the character ``offset``; BadRequest ``unknown_artifact``."""
        return await run_results.artifact(await self._home_of(env), run_id, node_id, offset)

    async def whole(self, env: Mapping[str, str], run_id: str) -> dict[str, Any]:
        """All there is of a run, for its picture."""
        return await run_results.whole(await self._home_of(env), run_id, self._clock.now())

    async def health(self, env: Mapping[str, str]) -> dict[str, Any]:
        """The five booleans of B4.25, and why one is false."""
        return await health.look(env, lambda: self._home_of(env), self._client(), self._project)

    async def events(
        self, env: Mapping[str, str], run_id: str, since_seq: int, tail: int | None
    ) -> list[dict[str, Any]]:
        """The events of a run after ``since_seq`` as its resource shows them: the last ``tail``, or the first 200.

        BadRequest ``unknown_spawn_run``.
        """
        home = await self._home_of(env)
        await run_results.run_of(home, run_id)
        events: list[Event] = await home.db.read(
            queries.events, run_id, since_seq, tail, run_results.EVENTS_MAX if tail else LISTED_MAX
        )
        return [views.event(event) for event in events]

    # -- trust ------------------------------------------------------------------------------------------------------

    async def foreign(self, env: Mapping[str, str]) -> list[dict[str, Any]]:
        """The runs of the home that would continue if the user trusted them, as `run_adoption.foreign` shows them.

        Changes nothing; empty if there is no readable home.
        """
        return await asyncio.to_thread(run_adoption.foreign, home_location.home_of(env))

    async def adopt(self, env: Mapping[str, str], shown: Collection[str] | None = None) -> int:
        """Adopt the foreign runs of the home; returns how many. They continue at once.

        With ``shown`` only those whose ``digest`` is in it: a run that has changed since stays foreign. Environment
        ``state_dir_unsafe`` if the adoption cannot be stored.
        """
        if not await self.foreign(env):
            return 0
        home = await self._home_of(env)
        adopted = await home.db.write(run_adoption.adopt, home.identity, shown)
        for run_id in adopted:
            home.changed(run_id)
        home.run_queue.look()
        return len(adopted)


def _stored(con: sqlite3.Connection, home: SpawnHome, row: RunRow, at: str) -> RunRow:
    return owned_runs.create(con, Seals(home.identity.establish()), row, at)


def _canceled(con: sqlite3.Connection, home: SpawnHome, run_id: str, at: str) -> str:
    return owned_runs.cancel(con, home.seals(), run_id, at)


def _listed(con: sqlite3.Connection, home: SpawnHome, status: RunStatus | None, limit: int) -> list[RunRow]:
    seals = home.seals()
    rows = (owned_runs.with_foreign_mark(con, seals, run) for run in queries.runs(con, status, limit))
    return [run for run in rows if run is not None]
