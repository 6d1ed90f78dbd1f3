"""An open home of spawn runs in one daemon: its database, run queue, keys and model tables."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import structlog

from orchestrator.base.clock import Clock
from orchestrator.base.errors import OrchestratorError
from orchestrator.base.waiting import Signal, elapse, wait_until
from orchestrator.spawn import api_key, queries, run_owner, smart_spawn_client
from orchestrator.spawn.callers import Caller
from orchestrator.spawn.database import Database
from orchestrator.spawn.model_table import ModelTable, shipped
from orchestrator.spawn.openrouter import ModelApi
from orchestrator.spawn.run_data import Fault, RunPlan, RunRequest, RunSettings
from orchestrator.spawn.run_queue import RunQueue
from orchestrator.spawn.run_seals import HomeIdentity, Seals
from orchestrator.spawn.run_state import RunDeps

log = structlog.get_logger()
T = TypeVar("T")
TABLE_KEPT_S = 3600.0
"""Seconds for which a server's list of models and prices is used before it is fetched again."""
TABLE_AGAIN_S = 60.0
INSTEAD = "models of the shipped table are called; to choose others, name them in `models` or MODEL_ALLOWLIST"
FOREIGN_LOOK_S = 0.25
"""Seconds between two checks by a waiting call for writes of another daemon."""


@dataclass(frozen=True)
class SpawnDeps:
    """The parts that all homes of one daemon share.

    ``changed`` is called with the id of each changed run, "" if another daemon wrote; ``ended`` with the id of
    each run that this daemon no longer executes.
    """

    project: str
    clock: Clock
    api: ModelApi
    http: Callable[[], httpx2.AsyncClient | None]
    callers: Mapping[str, Caller]
    changed: Callable[[str], None]
    ended: Callable[[str], None]


class SpawnHome:
    """An open home. ``moved`` is notified of each write to one of its runs, by this daemon or noticed of another."""

    def __init__(self, path: Path, deps: SpawnDeps) -> None:
        self.path = path
        self.db = Database(path)
        self.identity = HomeIdentity(path)
        self.moved = Signal()
        self._foreign_changes = 0
        self._changes: Counter[str] = Counter()
        self._deps = deps
        self._clock = deps.clock
        self._keys: dict[str, str] = {}
        self._tables: dict[tuple[str, str], tuple[float, ModelTable]] = {}
        self._asking: dict[tuple[str, str], asyncio.Lock] = {}
        self._making: dict[tuple[str, int], asyncio.Task[Any]] = {}
        self._waiting = 0
        self._foreign: asyncio.Task[None] | None = None
        callers: dict[str, Caller] = {"model": deps.api, **deps.callers}
        run_deps = RunDeps(path, self.db, deps.clock, callers, self.table, self._plan, self.changed, self.seals)
        self.run_queue = RunQueue(run_deps, run_owner.this_daemon(), deps.project, self._key, deps.ended)

    async def open(self) -> None:
        """Open or create the database and start its queue; raises an error that says why the home is unusable."""
        await self.db.read(queries.unfinished)
        self.run_queue.begin()

    async def close(self) -> None:
        """Release the runs and close the database."""
        if self._foreign is not None:
            self._foreign.cancel()
        await self.run_queue.close()
        await asyncio.to_thread(self.db.close)

    def seals(self) -> Seals:
        """The seals by which rows of this machine are recognized, for the home's current identity. Reads files."""
        return Seals(self.identity.recognize())

    async def offer(self, key: str) -> str:
        """Keep a key in memory for the runs that were created with it; returns its fingerprint."""
        fingerprint = await asyncio.to_thread(api_key.fingerprint, self.path, key)
        if fingerprint not in self._keys:
            self._keys[fingerprint] = key
            self.run_queue.look()
        return fingerprint

    async def _key(self, fingerprint: str) -> str | None:
        """The key with this fingerprint, from a connection or from the home's file; None if neither has it."""
        if fingerprint not in self._keys:
            try:
                key = await asyncio.to_thread(api_key.key_of, {}, self.path, self._deps.project)
                if key:
                    self._keys[await asyncio.to_thread(api_key.fingerprint, self.path, key)] = key
            except OrchestratorError as error:
                # `health` reports it; runs that do not need this key continue.
                log.debug("the key of the home cannot be used", home=str(self.path), reason=error.message)
        return self._keys.get(fingerprint)

    async def table(self, base_url: str, key: str) -> ModelTable:
        """The models and prices of a server, fetched once an hour; the shipped ones if the server gives none.

        Its note says why they are the shipped ones. A server that wants the key may list others for each key.
        """
        whose = base_url, key
        async with self._asking.setdefault(whose, asyncio.Lock()):
            known = self._tables.get(whose)
            if known is not None and self._clock.monotonic() < known[0]:
                return known[1]
            body = await self._deps.api.models(base_url, key)
            if isinstance(body, Fault):
                log.warning("no list of models", server=base_url, reason=body.message)
                why = f"the server gives no list of models ({body.code}: {body.message})"
                table, keep_s = (
                    known[1] if known is not None else shipped().noting(f"{why}; {INSTEAD}"),
                    TABLE_AGAIN_S,
                )
            else:
                table, keep_s = shipped().refreshed(body), TABLE_KEPT_S
                if not table.listed:
                    table, keep_s = table.noting(f"the server lists no model; {INSTEAD}"), TABLE_AGAIN_S
            self._tables[whose] = (self._clock.monotonic() + keep_s, table)
            return table

    async def _plan(self, request: RunRequest, settings: RunSettings, table: ModelTable) -> RunPlan:
        return await smart_spawn_client.make_plan(request, settings, table, self._deps.http())

    def changed(self, run_id: str) -> None:
        """Report a write to that run; an empty id stands for a write of another daemon."""
        if run_id:
            self._changes[run_id] += 1
        else:
            self._foreign_changes += 1
        self._deps.changed(run_id)
        self.moved.notify()

    def count(self, run_id: str) -> int:
        """Number of changes noticed of this run or of an unknown run. A waiting call compares it."""
        return self._foreign_changes + self._changes.get(run_id, 0)

    async def wait(self, run_id: str, seconds: float, seen: int) -> None:
        """Wait at most ``seconds`` until the run's `count` differs from ``seen``."""
        self._waiting += 1
        if self._foreign is None or self._foreign.done():
            self._foreign = asyncio.get_running_loop().create_task(self._follow())
        try:
            deadline = self._clock.monotonic() + seconds
            await wait_until(lambda: True if self.count(run_id) != seen else None, self.moved, deadline, self._clock)
        finally:
            self._waiting -= 1

    async def wait_for_end_here(self, run_id: str, seconds: float) -> None:
        """Wait at most ``seconds`` until this daemon does not execute the run, or no longer."""
        deadline = self._clock.monotonic() + seconds
        here = self.run_queue.executes
        await wait_until(lambda: None if here(run_id) else True, self.moved, deadline, self._clock)

    async def together(self, run_id: str, what: str, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of ``make``, computed once for all calls that need it at once: waiting calls wake together."""
        key = f"{run_id}:{what}", self.count(run_id)
        task = self._making.get(key)
        if task is None:
            task = self._making[key] = asyncio.get_running_loop().create_task(make())
            task.add_done_callback(lambda done: self._made(key, done))
        result: T = await asyncio.shield(task)
        return result

    def _made(self, key: tuple[str, int], done: asyncio.Task[Any]) -> None:
        del self._making[key]
        if not done.cancelled():
            done.exception()  # each caller gets the error itself; there may be no caller left

    async def _follow(self) -> None:
        """Notice the writes of other daemons as long as a call waits."""
        seen = 0  # so that a write before the first check is noticed, too
        while self._waiting:
            version = -1
            with contextlib.suppress(OrchestratorError):  # waiting calls get the error when they read
                version = await self.db.data_version()
            if version != seen:
                seen = version
                self.changed("")
            await elapse(FOREIGN_LOOK_S, self._clock)
