"""One agent in the daemon's memory: its folded state, its open logs, and what is currently seen of it. No rules.

Also defines a small value that the team's commands use: a pending wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from orchestrator.base.clock import Clock, Signal
from orchestrator.base.errors import OrchestratorError
from orchestrator.core import agent_status as derived
from orchestrator.core import snapshot, state
from orchestrator.core.screens import ScreenFinding
from orchestrator.journal.log import Journal


@dataclass(eq=False)
class WaitUnderWay:
    """One wait_for_command call under way."""

    superseded: bool = False


class AgentEntry:
    """One agent as the daemon holds it. ``changed`` is notified on every change of records or presence."""

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id
        self.state = state.Agent(agent_id)
        self.changed = Signal()
        self.unpublished: deque[dict[str, Any]] = deque()
        self.waiting: WaitUnderWay | None = None
        self.last_call: float | None = None
        self.last_call_wall: datetime | None = None
        self.told: tuple[tuple[int, str, bool], int] | None = None
        self.process = "unknown"
        self.pid: int | None = None
        self.wait_status: tuple[int, int] | None = None  # epoch, and how its process ended, where the kernel told it
        self.relaunch_at: tuple[int, float] | None = None  # epoch that ended, and when (monotonic) the next may begin
        self.pane_id: str | None = None
        self.secret: str | None = None
        self.session: str | None = None  # of the CLI, as preset by the launch or told by the CLI
        self.listed_epoch = 0  # the last epoch whose CLI has asked for our tools
        self.hook_epoch = 0  # the last epoch whose hook or plugin has said a word: its wake channel is proven
        self.turn = "unknown"  # of the CLI, as its hooks tell it: working | parked | ended | human | unknown
        self.empty_waits = 0  # waits in a row that brought nothing
        self.last_word: float | None = None  # monotonic: when its hooks last told us something, or we them
        self.calls = 0  # of this daemon's life; a wake is heeded when one follows
        self.trouble: OrchestratorError | None = None  # what keeps its next step from being taken
        self.told_stop = False  # a wait has handed out the stop
        self.finding: ScreenFinding | None = None  # what blocks the CLI right now, as a hook of it told
        self.seen: ScreenFinding | None = None  # what the last look at its screen explains
        self.client = ("", "")  # name and version by which the CLI introduced itself to our server
        self.looked: tuple[float, asyncio.Task[dict[str, Any] | None]] | None = None  # at its worktree, and when
        self.due = {"inbox": 0, "outbox": 0}  # the last record of each log that must be durable
        self.logs: dict[str, Journal] = {}
        self.artifacts = ""  # absolute; every task's command names it

    @property
    def inbox(self) -> Journal:
        return self.logs["inbox"]

    @property
    def outbox(self) -> Journal:
        return self.logs["outbox"]

    @property
    def run_id(self) -> str:
        return self.state.run_id

    @property
    def live(self) -> bool:
        """Whether the agent still needs supervision: it was not deleted."""
        return self.state.life != "deleted"

    def rest(self) -> None:
        """Let a deleted agent, which is hardly asked any more, go as far as it can: no descriptors, few memories."""
        snapshot.trim(self.state)
        for journal in self.logs.values():
            journal.rest()

    def presence(self, clock: Clock) -> derived.Presence:
        quiet = None if self.last_call is None else clock.monotonic() - self.last_call
        again = self.relaunch_at
        wait_s = again[1] - clock.monotonic() if again is not None and again[0] == self.state.epoch else None
        return derived.Presence(self.waiting is not None, quiet, self.process, self.turn, wait_s)

    def called(self, clock: Clock) -> None:
        """Note that the agent begins a call: its CLI is in the middle of a turn, whatever we took it for."""
        self.calls += 1
        if self.turn != "unknown":
            self.turn = "working"
        self.touch(clock)

    def queried(self, clock: Clock) -> None:
        """Note a query beside the loop: one that holds a task goes on with it; of another it shows nothing.

        It is no call of the loop: it neither heeds a wake nor ends a park.
        """
        self.last_call_wall = clock.now()
        if self.state.lease is not None:
            self.touch(clock)

    def touch(self, clock: Clock) -> None:
        """Note a call of the agent: it goes on, whatever its screen said."""
        self.finding = self.seen = None
        self.last_call = clock.monotonic()
        self.last_call_wall = clock.now()
        self.changed.notify()
