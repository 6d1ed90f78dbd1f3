"""Writes of a run's owner: changes of its rows under its token, and its files; retried until they succeed.

Failed reads and writes are retried, so that an answer that was paid for is not lost. Only files, whose failure may be
permanent, are given up when the run was canceled or has exceeded its time limit.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import structlog

from orchestrator.base.clock import Clock, rfc3339
from orchestrator.base.errors import Environment
from orchestrator.base.waiting import elapse
from orchestrator.spawn import artifacts, queries, transitions
from orchestrator.spawn.database import Database
from orchestrator.spawn.row_writes import store_active_s
from orchestrator.spawn.run_data import ArtifactRow, ArtifactType, EventLevel, RunRow

T = TypeVar("T")
log = structlog.get_logger()
AGAIN_S = 2.0


class Fenced(Exception):
    """The run belongs to another daemon now."""


class FencedWrites:
    """One run, as the owner of its lease writes it; ``changed`` is called with the run's id after each change.

    ``active_s`` returns how long the run has been executed; every change stores that too.
    """

    def __init__(
        self,
        home: Path,
        db: Database,
        clock: Clock,
        run: RunRow,
        *,
        changed: Callable[[str], None],
        active_s: Callable[[], float],
    ) -> None:
        self._home = home
        self._db = db
        self._clock = clock
        self._run = run
        self._changed = changed
        self._active_s = active_s

    def at(self) -> str:
        """Now, as rows hold it."""
        return rfc3339(self._clock.now())

    async def write(self, change: Callable[..., Any], *args: Any) -> None:
        """``change(con, run_id, token, *args, at)``, committed; Fenced if it returns something false."""
        tried, at, active_s = False, self.at(), self._active_s()

        def timed(con: sqlite3.Connection) -> Any:
            done = change(con, self._run.id, self._run.token, *args, at)
            if done:
                store_active_s(con, self._run.id, active_s)
            return done

        while True:
            try:
                done = await self._db.write(timed)
            except Environment as error:
                log.warning("a spawn run cannot be written down", run=self._run.id, reason=error.message)
                tried = True
                await elapse(AGAIN_S, self._clock)
                continue
            # After an error nobody knows whether the change was kept; that of a run that is still ours was.
            if not done and not (tried and await self.is_ours()):
                raise Fenced
            self._changed(self._run.id)
            return

    async def read(self, query: Callable[[sqlite3.Connection, str], T]) -> T:
        """``query(con, run_id)``."""
        while True:
            try:
                return await self._db.read(query, self._run.id)
            except Environment as error:
                log.warning("a spawn run cannot be read", run=self._run.id, reason=error.message)
                await elapse(AGAIN_S, self._clock)

    async def is_ours(self) -> bool:
        """Whether the run's token is still the holder's."""
        return await self.read(queries.token) == self._run.token

    async def note(self, level: EventLevel, message: str) -> None:
        """Write an event of the run."""
        await self.write(transitions.note, level, message)

    async def store(
        self, name: str, data: bytes, node_id: str, kind: ArtifactType, model: str, *, over: Callable[[], bool]
    ) -> ArtifactRow:
        """Write a file of the run; returns its row, not stored yet. If the run is ``over``, a failure raises.

        Raises Fenced if the run belongs to another daemon, because the file would replace that daemon's.
        """
        while True:
            try:
                if not await self.is_ours():
                    raise Fenced
                path, size, digest = await asyncio.to_thread(artifacts.write, self._home, self._run.id, name, data)
            except Environment as error:
                if over():
                    raise
                log.warning("an artifact cannot be written", run=self._run.id, node=node_id, reason=error.message)
                await elapse(AGAIN_S, self._clock)
                continue
            return ArtifactRow(node_id, kind, path, size, digest, self.at(), model)
