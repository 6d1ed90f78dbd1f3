"""One run in execution, as its holder knows it: its rows in memory, its time, what stops it, what of it is in flight.

Shared by the runner, which decides, and by the attempts it starts. Touches nothing but through `record`.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from orchestrator.base.clock import FOR_EVER_S, Clock
from orchestrator.base.waiting import Signal
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
from orchestrator.spawn.scheduler import Scheduler, Stop


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
    """A run, from the moment its holder begins with it; ``rows``, ``attempts``, ``files`` as last written.

    ``spent`` is what all attempts together count against MAX_USD_PER_RUN.
    """

    def __init__(self, deps: RunDeps, run: RunRow, key: str, seals: Seals) -> None:
        self.deps = deps
        self.run = run
        self.key = key
        self.seals = seals
        self.clock = deps.clock
        self.record = FencedWrites(deps.home, deps.db, deps.clock, run, changed=deps.changed, active_s=self.active_s)
        self.table = shipped()
        self.attempts: dict[tuple[str, int], AttemptRow] = {}
        self.files: dict[str, ArtifactRow] = {}
        self.spent = Decimal(0)
        self.calls: dict[str, asyncio.Task[Reply | Fault]] = {}
        self.stop: Stop = ""
        self.wake = Signal()
        self.news = False
        self._pauses: list[tuple[float, str]] = []  # a heap: when a pause ends, and the node's id
        self._began = deps.clock.monotonic()
        self.plan(())

    def plan(self, rows: Iterable[NodeRow]) -> None:
        """Take over all nodes, in the order of the plan."""
        rows = tuple(rows)
        self.scheduler = Scheduler(self.run.request.mode, self.run.settings.max_parallel_nodes, rows)
        for row in rows:
            self._note_pause(row)

    @property
    def rows(self) -> Mapping[str, NodeRow]:
        """The nodes by their ids, in the order of the plan."""
        return self.scheduler.rows

    def ended_pauses(self) -> list[str]:
        """The nodes whose pause before another attempt has ended since the last call."""
        now, due = self.clock.monotonic(), []
        while self._pauses and self._pauses[0][0] <= now:
            due.append(heapq.heappop(self._pauses)[1])
        return due

    def next_pause_s(self) -> float:
        """How long until a pause may end; for ever without one."""
        return self._pauses[0][0] - self.clock.monotonic() if self._pauses else FOR_EVER_S

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
        self.note(attempt)
        self.take(row)

    def note(self, attempt: AttemptRow) -> None:
        """Take over an attempt."""
        key = attempt.node_id, attempt.attempt
        self.forget(*key)
        self.attempts[key] = attempt
        self.spent += attempt.spent

    def forget(self, node_id: str, number: int) -> None:
        """Leave out an attempt that was not made."""
        before = self.attempts.pop((node_id, number), None)
        if before is not None:
            self.spent -= before.spent

    def take(self, row: NodeRow) -> None:
        """Take over a node."""
        self.scheduler.take(row)
        self._note_pause(row)

    def _note_pause(self, row: NodeRow) -> None:
        # Measured from now, whatever happens to the wall clock.
        if row.status == "retry_pending":
            ends_at = datetime.fromisoformat(row.retry_at) if row.retry_at else self.clock.now()
            pause_s = (ends_at - self.clock.now()).total_seconds()
            heapq.heappush(self._pauses, (self.clock.monotonic() + pause_s, row.node.id))
