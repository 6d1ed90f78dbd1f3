"""One run in execution, as its holder knows it: its rows in memory, its time, what stops it, what of it is in flight.

Shared by the runner, which decides, and by the attempts it starts. Touches nothing but through `record`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from orchestrator.base.clock import Clock, Signal
from orchestrator.spawn.callers import Caller
from orchestrator.spawn.database import Database
from orchestrator.spawn.fenced_writes import FencedWrites
from orchestrator.spawn.model_table import ModelTable, shipped
from orchestrator.spawn.run_data import (
    ArtifactRow,
    AttemptRow,
    Fault,
    NodeRow,
    Reply,
    RunPlan,
    RunRequest,
    RunRow,
    RunSettings,
)
from orchestrator.spawn.run_seals import Seals
from orchestrator.spawn.scheduler import Stop


@dataclass(frozen=True)
class RunDeps:
    """What all runs of a home share in one daemon.

    ``table`` returns the model table for a base URL and a key, ``plan`` makes the plan of a request, ``changed`` is
    called with the id of a run after each write. ``seals`` reads files to determine what is of this machine.
    """

    home: Path
    db: Database
    clock: Clock
    callers: Mapping[str, Caller]
    table: Callable[[str, str], Awaitable[ModelTable]]
    plan: Callable[[RunRequest, RunSettings, ModelTable], Awaitable[RunPlan]]
    changed: Callable[[str], None]
    seals: Callable[[], Seals]


class RunState:
    """A run, from the moment its holder begins with it; ``rows``, ``attempts``, ``files`` as last written."""

    def __init__(self, deps: RunDeps, run: RunRow, key: str, seals: Seals) -> None:
        self.deps = deps
        self.run = run
        self.key = key
        self.seals = seals
        self.clock = deps.clock
        self.record = FencedWrites(deps.home, deps.db, deps.clock, run, changed=deps.changed, active_s=self.active_s)
        self.table = shipped()
        self.rows: dict[str, NodeRow] = {}
        self.attempts: dict[tuple[str, int], AttemptRow] = {}
        self.files: dict[str, ArtifactRow] = {}
        self.due: dict[str, float] = {}
        self.calls: dict[str, asyncio.Task[Reply | Fault]] = {}
        self.stop: Stop = ""
        self.wake = Signal()
        self.news = False
        self._began = deps.clock.monotonic()

    def pauses(self) -> dict[str, float]:
        """The nodes that wait for another attempt, and for how many seconds still."""
        now = self.clock.monotonic()
        return {
            node_id: self.due[node_id] - now for node_id, row in self.rows.items() if row.status == "retry_pending"
        }

    @property
    def stopped(self) -> bool:
        """Whether calls in flight are being canceled."""
        return self.stop in ("canceled", "timeout")

    def over(self) -> bool:
        """Whether the run has been stopped, or should be by now."""
        return self.stopped or self.left_s() <= 0

    def active_s(self) -> float:
        """How long the run has been executed, by all daemons."""
        return self.run.active_s + self.clock.monotonic() - self._began

    def left_s(self) -> float:
        """The remaining time of the run; below 0 after its limit."""
        return self.run.settings.run_timeout_s - self.active_s()

    def end_with(self, why: Stop) -> None:
        """Start nothing new from now on; unless the stop is for the budget, calls in flight are canceled too."""
        if self.stopped:
            return
        self.stop = why
        if self.stopped:
            for call in self.calls.values():
                call.cancel()
        self.notify()

    def notify(self) -> None:
        """Something has happened: there may be something new to decide."""
        self.news = True
        self.wake.notify()

    def put(self, row: NodeRow, attempt: AttemptRow) -> None:
        """Take over the written state of a node and its attempt."""
        self.attempts[attempt.node_id, attempt.attempt] = attempt
        self.take(row)

    def take(self, row: NodeRow) -> None:
        """Take over a node; its pause is measured from now, whatever happens to the wall clock."""
        self.rows[row.node.id] = row
        if row.retry_at:
            pause_s = (datetime.fromisoformat(row.retry_at) - self.clock.now()).total_seconds()
            self.due[row.node.id] = self.clock.monotonic() + pause_s
