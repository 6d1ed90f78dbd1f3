"""One agent in the daemon's memory: its folded state, its open logs, and what is currently seen of it. No rules.

Also defines a small value that the team's commands use: a pending wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from orchestrator.base.clock import Clock
from orchestrator.base.errors import OrchestratorError
from orchestrator.base.waiting import Signal
from orchestrator.core import agent_status as derived
from orchestrator.core import snapshot, state
from orchestrator.core.screens import ScreenFinding
from orchestrator.engines.definition import Engine
from orchestrator.engines.screen_dialogs import ScreenDialog
from orchestrator.engines.table import ENGINES
from orchestrator.journal.log import Journal
from orchestrator.team.roster.remote_facts import RemoteFacts


@dataclass(eq=False)
class WaitUnderWay:
    """One pending wait_for_command call."""

    superseded: bool = False


class AgentEntry:
    """One agent in the daemon. ``changed`` is notified on every change of its records or presence."""

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id
        self.state = state.Agent(agent_id)
        self.changed = Signal()
        self.unpublished: deque[dict[str, Any]] = deque()  # for the broadcast, once they are visible
        self.untold: deque[dict[str, Any]] = deque()  # visible, and not certain yet: see `Roster.tell`
        self.waiting: WaitUnderWay | None = None
        self.last_call: float | None = None
        self.last_call_wall: datetime | None = None
        self.handed_out: tuple[tuple[int, str, bool], int] | None = None
        self.process = "unknown"
        self.pid: int | None = None
        self.wait_status: tuple[int, int] | None = None  # epoch, and the wait status of its process, if known
        self.relaunch_at: tuple[int, float] | None = None  # ended epoch, and when (monotonic) the next may begin
        self.pane_id: str | None = None
        self.secret: str | None = None
        self.session: str | None = None  # of the CLI, preset by the launch or reported by the CLI
        self.listed_epoch = 0  # the last epoch whose CLI has listed our tools
        self.hook_epoch = 0  # the last epoch whose hook or plugin sent a message: its wake channel works
        self.turn = "unknown"  # of the CLI, as its hooks report it: see `agent_status.Presence`
        self.at_prompt = False  # a hook has just shown that its CLI waits for input, after a command of its user
        self.empty_waits = 0  # consecutive waits without a command
        self.last_word: float | None = None  # monotonic: the last message from or to its hooks
        self.calls = 0  # calls since the daemon started; a wake worked if a call follows
        self.trouble: OrchestratorError | None = None  # the error that prevents its next step
        self.told_stop = False  # a wait has delivered the stop
        self.finding: ScreenFinding | None = None  # what blocks the CLI now, as its hook reported
        self.seen: ScreenFinding | None = None  # what the last look at its screen explained
        self.dialog: ScreenDialog | None = None  # the permission dialog that the last look at its screen showed
        self.client = ("", "")  # name and version that the CLI sent to our server
        self.looked: tuple[float, asyncio.Task[dict[str, Any] | None]] | None = (
            None  # at its worktree: when, the look
        )
        self.writing = False  # records are being written: what follows from them is not decided in between
        self.filling_up = False  # from its mirror: what follows from the records may be among those to come
        self.due = {"inbox": 0, "outbox": 0}  # the last record of each log that must be durable
        self.news_seq = 0  # the last visible outbox record of a type that the broadcast tells
        self.logs: dict[str, Journal] = {}
        self.artifacts = ""  # absolute; every task's command names it
        self.remote: RemoteFacts | None = None  # of a replica: another host owns the agent

    @property
    def inbox(self) -> Journal:
        return self.logs["inbox"]

    @property
    def outbox(self) -> Journal:
        return self.logs["outbox"]

    @property
    def run_id(self) -> str:
        return self.state.run_id or (self.remote.run_id if self.remote is not None else "")

    @property
    def last_news(self) -> int:
        """The last outbox record of a type that the broadcast tells, also one that is not visible yet."""
        return int(self.unpublished[-1]["seq"]) if self.unpublished else self.news_seq

    @property
    def may_move(self) -> bool:
        """Whether another host takes the agent over if its own one is lost."""
        return self.state.fleet.get("on_host_lost") == "move"

    @property
    def engine(self) -> Engine | None:
        """The engine of its CLI; None if no engine has the recorded name."""
        return ENGINES.get(str(self.state.spec.get("engine")))

    @property
    def live(self) -> bool:
        """Whether the agent still needs supervision: it was not deleted."""
        return self.state.life != "deleted"

    def rest(self) -> None:
        """Release the file descriptors and most memory of a deleted agent."""
        snapshot.trim(self.state)
        for journal in self.logs.values():
            journal.rest()

    def presence(self, clock: Clock) -> derived.Presence:
        quiet = None if self.last_call is None else clock.monotonic() - self.last_call
        again = self.relaunch_at
        wait_s = again[1] - clock.monotonic() if again is not None and again[0] == self.state.epoch else None
        return derived.Presence(self.waiting is not None, quiet, self.process, self.turn, wait_s)

    def called(self, clock: Clock) -> None:
        """Note that the agent begins a call: its CLI is inside a turn, whatever was assumed before."""
        self.calls += 1
        self.at_prompt = False
        if self.turn != "unknown":
            self.turn = "working"
        self.touch(clock)

    def queried(self, clock: Clock) -> None:
        """Note a query outside the loop: an agent with a task is still working; otherwise it shows nothing.

        It is no call of the loop: it neither answers a wake nor ends a park.
        """
        self.last_call_wall = clock.now()
        if self.state.lease is not None:
            self.touch(clock)

    def touch(self, clock: Clock) -> None:
        """Note a call of the agent: it is working, whatever its screen showed."""
        self.finding = self.seen = self.dialog = None
        self.last_call = clock.monotonic()
        self.last_call_wall = clock.now()
        self.changed.notify()
