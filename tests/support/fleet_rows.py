"""The rows of the model's database: hosts, agents with their posts and mirrors, runs and questions of a project."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from orchestrator.base.final_states import TERMINAL
from orchestrator.fleet import database_functions as functions

LOGS: tuple[functions.LogName, ...] = ("inbox", "outbox")


@dataclass
class Host:
    instance: str = ""
    boot: str = ""
    version: str = ""
    log_v: int = 0
    caps: Any = field(default_factory=dict)
    lease_until: datetime | None = None
    unbroken_since: datetime | None = None
    draining: bool = False
    lost: bool = False
    view: str | None = None
    view_n: int = 0


class PostRow(NamedTuple):
    seq: int
    kind: functions.PostKind
    task_id: str | None
    req: str
    by_host: str
    at: str
    body: str
    position: int


class LogRow(NamedTuple):
    seq: int
    fence: int
    type: str
    task_id: str | None
    line: str


@dataclass
class Agent:
    """The rows of `agent` and `queue`, the posts and the mirror of one agent."""

    host: str
    run_id: str
    engine: str
    on_host_lost: functions.OnHostLost
    log_v: int
    fence: int = 1
    life: str = "new"
    ends: bool = False
    ended: int = 0
    next_post: int = 0
    last_post: int = 0
    tasks: int = 0
    closing: bool = False
    posts: list[PostRow] = field(default_factory=list)
    logs: dict[str, list[LogRow]] = field(default_factory=lambda: {name: [] for name in LOGS})
    late: list[functions.KeptLateLine] = field(default_factory=list)

    def end(self, log: str) -> int:
        """The end of the mirror of this log."""
        return self.logs[log][-1].seq if self.logs[log] else 0

    def outcome(self, task_id: str) -> str:
        """The terminal event of a task; "" if the mirror has none."""
        ends = (row.type for row in self.logs["outbox"] if row.type in TERMINAL and row.task_id == task_id)
        return next(ends, "")


@dataclass
class Run:
    home: str
    gen: int = 1
    homes: list[str] = field(default_factory=list)


@dataclass
class AskRow:
    by_host: str
    to_host: str
    verb: str
    body: str
    until: datetime
    answer: str | None = None


@dataclass
class Project:
    repository: str = ""
    hosts: dict[str, Host] = field(default_factory=dict)
    agents: dict[str, Agent] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    asks: dict[int, AskRow] = field(default_factory=dict)
