"""A roster over real journals in a temporary project, with a clock that only moves by hand."""

from __future__ import annotations

import asyncio
import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from unittest import mock

from orchestrator.base.errors import Environment
from orchestrator.config.keys import Config
from orchestrator.core import decisions, supervision
from orchestrator.journal.project_files import Paths, ensure_agents_dir
from orchestrator.journal.syncer import Syncer
from orchestrator.team.people.approval_rules import ApprovalRules
from orchestrator.team.people.approvals import Approvals
from orchestrator.team.people.dialog_answers import DialogAnswers
from orchestrator.team.people.inbox_answers import InboxAnswers
from orchestrator.team.people.snapshot_feed import SnapshotFeed
from orchestrator.team.people.snapshot_rows import RowFacts
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.broadcast import open_run
from orchestrator.team.roster.roster import Roster


@dataclass
class Alarm:
    at: float
    callback: Any
    canceled: bool = False

    def cancel(self) -> None:
        self.canceled = True


@dataclass
class FakeClock:
    """Time moves by `advance` only, which fires the timers that come due, in order."""

    seconds: float = 1000.0
    alarms: list[Alarm] = field(default_factory=list)

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    def awake(self) -> float:
        return self.seconds

    def timer(self, delay: float, callback: Any) -> Alarm:
        at = self.seconds + max(0.0, delay)
        if delay > 0 and at == self.seconds:  # a delay too small for the sum: time must move all the same
            at = math.nextafter(at, math.inf)
        alarm = Alarm(at, callback)
        self.alarms.append(alarm)
        return alarm

    async def advance(self, seconds: float) -> None:
        until = self.seconds + seconds
        while True:
            await settle()
            due = sorted((a for a in self.alarms if not a.canceled and a.at <= until), key=lambda a: a.at)
            self.alarms = [a for a in self.alarms if not a.canceled]
            if not due:
                break
            self.alarms.remove(due[0])
            self.seconds = max(self.seconds, due[0].at)
            due[0].callback()
        self.seconds = until
        await settle()


async def settle() -> None:
    """Let every task run until it waits for something outside the loop's ready queue."""
    for _ in range(20):
        await asyncio.sleep(0)  # not a wait: it hands the turn to the other tasks


class Team:
    """A roster with one run; ``syncer`` runs syncs at once unless told otherwise."""

    def __init__(
        self, root: Path, clock: FakeClock | None = None, syncer: Syncer | None = None, **config: Any
    ) -> None:
        self.clock = clock or FakeClock()
        self.paths = Paths(root)
        self.config = Config(**config)
        self.failures: list[Exception] = []
        self.syncer = syncer or Syncer(self.failures.append, threads=0)
        self.roster = Roster(root, self.paths, self.clock, self.syncer, lambda: self.config)

    def load(self, *, clean: bool = False) -> Team:
        self.roster.load(clean=clean)
        for entry in self.roster.agents.values():
            entry.secret = "s"
        return self

    def run(self, run_id: str = "run-1") -> None:
        ensure_agents_dir(self.paths)
        if not self.paths.run_dir(run_id).exists():
            self.paths.run_dir(run_id).mkdir(parents=True)
        file = {
            "v": 1, "run_id": run_id, "created_at": "2026-01-01T00:00:00.000Z", "tmux_socket": "/none", "tmux_name": None,
            "server_pid": 1, "server_start": 1, "window_id": "@1", "master_pane": "%0", "session": "s",
            "detached": False, "changed": None, "agents": {}, "ended_at": None,
        }  # fmt: skip
        run = open_run(
            self.paths, run_id, file, self.syncer, self.config.durability, clean=True,
            segment_bytes=self.config.segment_bytes,
        )  # fmt: skip
        run.save()
        self.roster.runs[run_id] = run

    async def agent(self, name: str = "a1", *, ready: bool = True, **policies: Any) -> AgentEntry:
        if not self.roster.runs:
            self.run()
        spec = {
            "name": name, "role": "r", "engine": "shell", "run_id": "run-1", "cwd": str(self.roster.root),
            "policies": {"restart": "on-failure", "max_restarts": 1, "on_lost": "requeue", "max_attempts": 2} | policies,
            "env_names": [],
        }  # fmt: skip
        draft = supervision.starting(name, at="2026-01-01T00:00:00.000Z", req=f"c:{name}", spec=spec)
        entry = await self.roster.create(name, draft)
        entry.secret = "s"
        if ready:
            await self.roster.commit(entry, decisions.ready(entry.state, at="2026-01-01T00:00:00.001Z", req=None))
        return entry

    def full_disk(self) -> AbstractContextManager[object]:
        """No record can be written meanwhile."""
        refused = Environment("disk_full", "no room")
        return mock.patch.object(self.roster, "commit", mock.AsyncMock(side_effect=refused))

    def close(self) -> None:
        self.roster.close()


def feed_of(team: Team) -> SnapshotFeed:
    """The snapshot of a team without panes."""
    approvals = Approvals(team.roster, ApprovalRules(team.roster.root))
    inbox = InboxAnswers(team.roster, approvals, DialogAnswers(cast("Any", None)))
    return SnapshotFeed(team.roster, inbox, RowFacts(), "b1")
