"""One agent in the daemon's memory: its folded state, its open logs, and what is seen of it right now. No rules.

Beside it the two small facts about callers that the team's verbs take: where a connection comes from, and a wait
under way.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from orchestrator.clock import Clock, Signal
from orchestrator.core import state
from orchestrator.store.journal import Journal


@dataclass(frozen=True)
class Origin:
    """Where a connection comes from, as its hello tells: used to find the master's pane."""

    conn: str
    cwd: str
    tmux: str | None = None
    tmux_pane: str | None = None
    tty: str | None = None
    pids: tuple[int, ...] = ()


@dataclass(eq=False)
class Waiting:
    """One wait_for_command call under way."""

    superseded: bool = False


class Entry:
    """One agent as the daemon holds it. ``changed`` is notified on every change of records or presence."""

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id
        self.state = state.Agent(agent_id)
        self.changed = Signal()
        self.unpublished: deque[dict[str, Any]] = deque()
        self.waiting: Waiting | None = None
        self.last_call: float | None = None
        self.last_call_wall: datetime | None = None
        self.told: tuple[tuple[int, str, bool], int] | None = None
        self.process = "unknown"
        self.pid: int | None = None
        self.pane_id: str | None = None
        self.secret: str | None = None
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

    def presence(self, clock: Clock) -> state.Presence:
        quiet = None if self.last_call is None else clock.monotonic() - self.last_call
        return state.Presence(self.waiting is not None, quiet, self.process)

    def touch(self, clock: Clock) -> None:
        """Note a call of the agent."""
        self.last_call = clock.monotonic()
        self.last_call_wall = clock.now()
        self.changed.notify()
