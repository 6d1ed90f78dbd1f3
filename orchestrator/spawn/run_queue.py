"""The queue of a home's runs: which of them this daemon executes, and when.

Runs that were not made on this machine are not in it: they are not executed and do not count. The daemons of all
projects share a home. Each run has one owner. A run whose owner is dead is released, and any daemon that can execute
it may take it: one with its key, or for squads and agents the daemon of its project. The database counts how many
runs execute at the same time across the home. Touches the rows of runs and its own runners.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime

import structlog

from orchestrator.base import failpoints
from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import OrchestratorError
from orchestrator.base.waiting import Signal, call_off, wait_until
from orchestrator.spawn import owned_runs, queries, run_owner, transitions
from orchestrator.spawn.row_writes import store_active_s
from orchestrator.spawn.run_data import RunOwner, RunRow
from orchestrator.spawn.run_execution import RunExecution
from orchestrator.spawn.run_seals import Seals
from orchestrator.spawn.run_state import RunDeps

log = structlog.get_logger()
LOOK_S = 1.0
"""How often other daemons' changes and deaths are looked for."""


class RunQueue:
    """The runs of one home, as one daemon executes them.

    ``key`` returns the key of a fingerprint, None if this daemon has none; ``project`` is the daemon's; ``ended`` is
    called with each run that it no longer executes.
    """

    def __init__(
        self,
        deps: RunDeps,
        me: RunOwner,
        project: str,
        key: Callable[[str], Awaitable[str | None]],
        ended: Callable[[str], None],
    ) -> None:
        self._deps = deps
        self.me = me
        self._project = project
        self._key = key
        self._on_end = ended
        self._runners: dict[str, RunExecution] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._signal = Signal()
        self._news = False
        self._loop: asyncio.Task[None] | None = None
        self._queued = 0
        self._broken: set[str] = set()  # runs whose rows cannot be written
        self._own: dict[str, int] = {}  # runs of this machine, and the tokens under which their nodes were looked at

    @property
    def active(self) -> int:
        """How many runs need this daemon: those it executes, and those of its own that wait for a place."""
        return len(self._runners) + self._queued

    def executes(self, run_id: str) -> bool:
        """Whether this daemon executes the run now."""
        return run_id in self._runners

    @property
    def alive(self) -> bool:
        """Whether its loop is running."""
        return self._loop is not None and not self._loop.done()

    def begin(self) -> None:
        """Start looking at the queue."""
        self._loop = asyncio.get_running_loop().create_task(self._follow())

    def look(self) -> None:
        """Something has changed: a run was created or canceled, a key has come."""
        self._news = True
        self._signal.notify()

    async def close(self) -> None:
        """Stop executing and release all runs: another daemon, or the next one, continues them."""
        if self._loop is not None:
            await call_off([self._loop])
        times = {run_id: runner.active_s() for run_id, runner in self._runners.items()}
        await call_off(self._tasks.values())
        at = rfc3339(self._deps.clock.now())
        try:
            for row in await self._deps.db.read(self._unfinished, {**self._own}):
                if row.owner == self.me:
                    await self._deps.db.write(store_active_s, row.id, times.get(row.id, 0.0))
                    await self._deps.db.write(transitions.release, row.id, row.token, at)
        except (OrchestratorError, sqlite3.Error) as error:
            # The next daemon finds that this one is dead.
            log.warning("the spawn runs cannot be released", reason=str(error))

    async def _follow(self) -> None:
        clock = self._deps.clock
        while True:
            self._news = False
            try:
                await self._look_at_runs()
            except OrchestratorError as error:
                log.warning("the spawn runs cannot be looked at", reason=error.message)
            except Exception:
                log.exception("bug in the queue of spawn runs")
            await wait_until(lambda: self._news or None, self._signal, clock.monotonic() + LOOK_S, clock)

    async def _look_at_runs(self) -> None:
        # Those that this daemon executes it knows by heart.
        rows = await self._deps.db.read(self._unfinished, {**self._own})
        self._own = {row.id: row.token for row in rows}
        queued = ahead = 0
        later = sum(row.active for row in rows)
        for row in rows:
            later -= row.active
            full = ahead + later >= row.settings.max_parallel_runs
            ahead += row.active or (row.owner is not None and not row.waiting)
            runner = self._runners.get(row.id)
            if runner is not None:
                if row.cancel_requested:
                    runner.cancel()
            elif full and row.owner == self.me and not row.active and not row.waiting:
                queued += 1  # `begin` would count the same, with a transaction for each
            elif row.id in self._broken or await self._try_to_start(row):
                continue
            else:
                queued += await self._waits_here(row.id)
        self._queued = queued

    def _unfinished(self, con: sqlite3.Connection, known: Mapping[str, int]) -> list[RunRow]:
        return owned_runs.unfinished(con, self._deps.seals(), known)

    def _begin_run(self, con: sqlite3.Connection, run_id: str, token: int, at: str) -> bool:
        return transitions.begin(con, run_id, token, at, self._deps.seals().request_fits)

    def _sealed(self, con: sqlite3.Connection, run_id: str) -> tuple[RunRow | None, Seals]:
        seals = self._deps.seals()
        return owned_runs.run(con, seals, run_id), seals

    async def _try_to_start(self, row: RunRow) -> bool:
        """As `_start_if_free`; a run whose rows cannot be written holds up no other one."""
        try:
            return await self._start_if_free(row)
        except sqlite3.Error:
            log.exception("a spawn run cannot be written down", run=row.id)
            self._broken.add(row.id)
            return True

    async def _waits_here(self, run_id: str) -> bool:
        row = await self._deps.db.read(queries.run, run_id)
        return row is not None and row.owner == self.me and not row.waiting and row.status in ("queued", "running")

    async def _start_if_free(self, row: RunRow) -> bool:
        """Take the run and start it, if it is free and this daemon can; whether it did."""
        db, at = self._deps.db, rfc3339(self._deps.clock.now())
        if row.owner is not None and row.owner != self.me:
            quiet_s = (self._deps.clock.now() - datetime.fromisoformat(row.updated_at)).total_seconds()
            if not run_owner.has_ended(row.owner, self.me) and not run_owner.presumed_ended(
                row.owner, self.me, quiet_s, row.settings
            ):
                return False
            if not await db.write(transitions.release, row.id, row.token, at):
                return False
            log.info("a spawn run's daemon is dead", run=row.id, pid=row.owner.pid)
            row = replace(row, owner=None, token=row.token + 1, active=False)
        if row.cancel_requested and row.owner is None:
            await db.write(transitions.cancel, row.id, at)
            self._deps.changed(row.id)
            self._on_end(row.id)
            return False
        key = await self._key_for(row)
        if key is None:
            if not row.waiting:
                await db.write(transitions.wait_for_daemon, row.id, row.token, self._reason_to_wait(row), at)
                self._deps.changed(row.id)
            return False
        token = row.token
        if row.owner is None:
            taken = await db.write(transitions.take_over, row.id, row.token, self.me, at)
            if taken is None:
                return False
            token = taken
        if row.waiting:
            await db.write(transitions.end_wait, row.id, token, at)
        if not await db.write(self._begin_run, row.id, token, at):
            return False
        failpoints.passed("spawn:begun")
        self._deps.changed(row.id)
        now, seals = await db.read(self._sealed, row.id)
        if now is None or now.token != token:
            return False
        self._start(now, key, seals)
        return True

    async def _key_for(self, row: RunRow) -> str | None:
        """The key with which this daemon can execute the run, empty where none is needed; None: it cannot."""
        if row.request.caller_kind == "model":
            return await self._key(row.key_fp)
        return "" if row.project == self._project else None

    @staticmethod
    def _reason_to_wait(row: RunRow) -> str:
        return "waiting for key" if row.request.caller_kind == "model" else f"waiting for the daemon of {row.project}"

    def _start(self, row: RunRow, key: str, seals: Seals) -> None:
        runner = RunExecution(self._deps, row, key, seals)
        self._runners[row.id] = runner
        task = asyncio.get_running_loop().create_task(runner.run())
        self._tasks[row.id] = task
        task.add_done_callback(lambda done: self._ended(row.id, done))

    def _ended(self, run_id: str, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            # Not even its end can be written: to begin it again would be for ever.
            log.error("a spawn run cannot be ended", run=run_id, exc_info=error)
            self._broken.add(run_id)
        self._runners.pop(run_id, None)
        self._tasks.pop(run_id, None)
        self._deps.changed(run_id)
        self._on_end(run_id)
        self.look()
