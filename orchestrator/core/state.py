"""What the records mean: the transition tables, and `apply`, which folds a record into an agent's state.

Two rules for editors of this file. All legal (state, record) pairs stand in `TASK_EDGES` and `LIFE_EDGES`; a pair
that is absent is illegal. Nothing here reads a clock, a file or a random number; `decide.py` says which records a
request deserves, the daemon writes them, and this file says what they did.

The two logs of an agent are synced apart, so after a power cut one may be ahead of the other. Folding therefore
never depends on how inbox and outbox lines interleaved: first the whole inbox, then the whole outbox gives the
same state as the live order (a property test holds it). docs/lifecycle.md is generated from the tables.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from orchestrator.base.errors import Corrupt
from orchestrator.core.records import TERMINAL

# (state of the task, outbox record) -> state. "queued" is entered by the inbox record `task`.
TASK_EDGES: dict[tuple[str, str], str] = {
    ("queued", "delivered"): "delivered",
    ("queued", "cancel_requested"): "queued",
    ("queued", "canceled"): "canceled",  # by the orchestrator at once: it never reaches the agent
    ("queued", "result"): "result",  # of earlier versions: the head's `delivered` was lost with the power
    ("queued", "error"): "error",  # same, or max_attempts reached
    ("delivered", "delivered"): "delivered",  # handed out again before its ack
    ("delivered", "ack"): "running",
    ("delivered", "progress"): "running",  # any event of the lease implies its ack
    ("delivered", "cancel_requested"): "delivered",
    ("delivered", "requeued"): "queued",
    ("delivered", "result"): "result",
    ("delivered", "error"): "error",
    ("delivered", "canceled"): "canceled",
    ("running", "delivered"): "running",  # handed out again after its ack: `redelivered`
    ("running", "progress"): "running",
    ("running", "cancel_requested"): "running",
    ("running", "requeued"): "queued",
    ("running", "result"): "result",
    ("running", "error"): "error",
    ("running", "canceled"): "canceled",
}

# (state of the agent, outbox record) -> state
LIFE_EDGES: dict[tuple[str, str], str] = {
    ("new", "starting"): "starting",
    ("starting", "ready"): "ready",
    ("starting", "exited"): "exited",
    ("starting", "failed"): "failed",  # its pane could not be made, or it did not get ready in time
    ("starting", "stopped"): "stopped",
    ("starting", "blocked"): "starting",  # a dialog keeps its CLI from its first call
    ("starting", "unblocked"): "starting",
    ("ready", "exited"): "exited",
    ("ready", "blocked"): "ready",
    ("ready", "unblocked"): "ready",
    ("ready", "stalled"): "ready",
    ("ready", "recovered"): "ready",
    ("ready", "parked"): "ready",
    ("ready", "woken"): "ready",
    ("ready", "stopped"): "stopped",
    ("exited", "restarted"): "starting",  # begins a new epoch
    ("exited", "failed"): "failed",
    ("exited", "stopped"): "stopped",
    ("failed", "restarted"): "starting",  # asked for by hand: policy never revives what it has failed
    ("failed", "stopped"): "stopped",
    ("stopped", "deleted"): "deleted",
    # A damaged line that doctor --fix has replaced: its number stays, and nothing follows from it.
    ("starting", "lost"): "starting",
    ("ready", "lost"): "ready",
    ("exited", "lost"): "exited",
    ("failed", "lost"): "failed",
    ("stopped", "lost"): "stopped",
}
ENDED_LIVES = frozenset({"failed", "stopped", "deleted"})
TASK_RECORDS = frozenset(record for _, record in TASK_EDGES)

REMEMBERED_RESTARTS = 200
"""More than any budget (`max_restarts`) allows."""

REMEMBERED_CALLS = 1000
"""Per agent: how many answered calls, at least, a re-sent call can be matched with (relay.md §3)."""


class Answered(NamedTuple):
    """What a re-sent call is answered from: the record it caused the first time."""

    type: str
    task_id: str | None
    seq: int


class Block(NamedTuple):
    """One reason why the agent does not go on; ``kind`` "" is the delivery rule: no terminal event."""

    kind: str
    reason: str
    until: str | None
    since: str  # RFC 3339
    seq: int = 0  # of its outbox record


class Proof(NamedTuple):
    """The record that shows a fact: ``log`` is inbox or outbox."""

    log: str
    seq: int
    type: str
    at: str


@dataclass(slots=True)
class Task:
    """One unfinished task; derived from the records."""

    task_id: str
    seq: int  # of its inbox record
    position: int
    payload: Any
    lost: bool = False  # its record was damaged, and with it the payload: it is never handed out
    state: str = "queued"
    attempt: int = 1
    cancel_asked: bool = False  # the inbox says so
    cancel_requested: bool = False  # the outbox says so
    redeliveries: int = 0  # after its ack, in this epoch
    timeout_s: float | None = None  # of one attempt
    overtime: bool = False  # its cancel was asked for because its time was over
    began: str | None = None  # `at` of its very first delivery
    lent: str | None = None  # `at` of this attempt's delivery
    lost_why: str = ""  # why the attempt before this one was lost


class Finished(NamedTuple):
    """What is remembered of a task that ended."""

    seq: int  # of its inbox record
    position: int
    outcome: str
    ref: int  # seq of its terminal event


@dataclass(slots=True)
class Agent:
    """One agent as its records tell it.

    Invariants: the lease is the first unfinished task in inbox order (FIFO, one at a time); ``epoch`` never
    falls; a finished task never becomes unfinished.
    """

    agent_id: str
    life: str = "new"
    epoch: int = 0
    spec: dict[str, Any] = field(default_factory=dict)  # the `starting` record
    order: deque[Task] = field(default_factory=deque)  # inbox order; ended ones are dropped from the left
    unfinished: dict[str, Task] = field(default_factory=dict)
    finished: dict[str, Finished] = field(default_factory=dict)  # not in the archive yet; `ended` asks both
    archive: Callable[[str], Finished | None] | None = None  # looks up what has left memory; None = nothing has
    lease: Task | None = None
    cancels: set[str] = field(default_factory=set)  # asked for, not settled yet
    stop_asked: int = 0  # seq of the inbox `stop`
    stop_force: bool = False
    blocks: dict[str, Block] = field(default_factory=dict)  # by kind: each cause is lifted by itself, newest last
    restarts: list[str] = field(default_factory=list)  # `at` of each by policy, since the last one asked for
    restart_asked: int = 0  # seq of the last inbox `restart`
    restart_fresh: bool = False
    restarted_for: int = 0  # up to which `restart` a new life has begun
    overrun: int = 0  # the epoch in which a task ran out of time: that life must end
    stalled: str | None = None  # its reason, while it stands
    proofs: dict[str, Proof] = field(default_factory=dict)  # what shows the current state, by what it shows
    exited: dict[str, Any] | None = None  # the last `exited` record of the current life
    failure: dict[str, Any] | None = None
    calls: dict[str, Answered] = field(default_factory=dict)  # by req
    outcomes: dict[str, int] = field(default_factory=lambda: {"result": 0, "error": 0, "canceled": 0})
    created_at: str | None = None
    ready_at: str | None = None
    ready_epoch: int = 0
    wake_epoch: int = 0  # the last epoch whose hook or plugin is known, by the records, to have spoken
    session: str | None = None  # of the CLI, told by the last `ready`
    resume: str | None = None  # what the current life was launched to go on with
    parked: bool = False  # its last word on it was `parked`; whether a wake still reaches it is presence

    @property
    def run_id(self) -> str:
        return str(self.spec.get("run_id", ""))

    @property
    def blocked(self) -> Block | None:
        """What blocks the agent; the newest, when it is more than one thing."""
        return next(reversed(self.blocks.values()), None)

    @property
    def restart_due(self) -> bool:
        """Whether a restart was asked for that no new life has answered yet."""
        return self.restart_asked > self.restarted_for

    @property
    def policies(self) -> dict[str, Any]:
        found: dict[str, Any] = self.spec.get("policies", {})
        return found

    def ended(self, task_id: str) -> Finished | None:
        """What is remembered of an ended task, however long ago; None when the task has not ended or is unknown."""
        found = self.finished.get(task_id)
        if found is None and self.archive is not None:
            found = self.archive(task_id)
        return found

    def head(self) -> Task | None:
        """The first unfinished task in FIFO order: the lease, while there is one."""
        while self.order and self.order[0].state in TERMINAL:
            self.order.popleft()
        return self.order[0] if self.order else None


def apply(agent: Agent, log: str, record: dict[str, Any]) -> None:
    """Fold one record; raises `Corrupt` and leaves the state unchanged when its (state, record) pair is illegal.

    The error's ``line`` is the record's seq, for logs are dense from 1; the caller adds the file. A start folds
    every record there is, so this path is kept short.
    """
    kind = record["type"]
    if log == "inbox":
        _INBOX[kind](agent, record)
    elif record["epoch"] != agent.epoch and (record["epoch"] < agent.epoch or kind not in ("starting", "restarted")):
        raise _illegal(record, f"an agent in epoch {agent.epoch}")
    elif kind in TASK_RECORDS:
        _task_happened(agent, kind, record)
    else:
        _life_happened(agent, kind, record)
    if "req" in record:
        calls = agent.calls
        calls[record["req"]] = Answered(kind, record.get("task_id"), record["seq"])
        if len(calls) > 2 * REMEMBERED_CALLS:
            agent.calls = dict(list(calls.items())[-REMEMBERED_CALLS:])


def _illegal(record: dict[str, Any], what: str) -> Corrupt:
    return Corrupt(
        "corrupt_log", f"record {record['type']!r} of epoch {record['epoch']} for {what}", line=record["seq"]
    )


def _task_asked(agent: Agent, record: dict[str, Any]) -> None:
    task_id = record["task_id"]
    if task_id in agent.unfinished or agent.ended(task_id) is not None:
        raise _illegal(record, f"task {task_id!r}, which was asked for already")
    task = Task(task_id, record["seq"], record["position"], record.get("payload"), record.get("lost", False))
    task.timeout_s = record.get("timeout_s")
    agent.unfinished[task_id] = task
    agent.order.append(task)


def _cancel_asked(agent: Agent, record: dict[str, Any]) -> None:
    task = agent.unfinished.get(record["task_id"])
    if task is not None:  # else it ended: the inbox is folded first, the outbox decides
        task.cancel_asked = True
        task.overtime = task.overtime or record.get("reason") == "timed_out"
        agent.cancels.add(task.task_id)


def _stop_asked(agent: Agent, record: dict[str, Any]) -> None:
    agent.stop_asked = agent.stop_asked or record["seq"]
    agent.stop_force = agent.stop_force or bool(record.get("force"))
    agent.proofs.setdefault("stop", Proof("inbox", record["seq"], "stop", record["at"]))


def _restart_asked(agent: Agent, record: dict[str, Any]) -> None:
    agent.restart_asked = record["seq"]
    agent.restart_fresh = bool(record.get("fresh"))
    agent.proofs["restart"] = Proof("inbox", record["seq"], "restart", record["at"])


def _asked_and_lost(_agent: Agent, _record: dict[str, Any]) -> None:
    """Nothing follows from a damaged line."""


_INBOX = {
    "task": _task_asked,
    "cancel": _cancel_asked,
    "restart": _restart_asked,
    "stop": _stop_asked,
    "lost": _asked_and_lost,
}


def _task_happened(agent: Agent, kind: str, record: dict[str, Any]) -> None:
    task_id = record["task_id"]
    task = agent.unfinished.get(task_id)
    if task is None:
        known = "was never asked for" if agent.ended(task_id) is None else "has ended already"
        raise _illegal(record, f"task {task_id!r}, which {known}")
    after = TASK_EDGES.get((task.state, kind))
    if after is None:
        raise _illegal(record, f"task {task_id!r}, which is {task.state}")
    if task is not agent.lease and kind in _OF_THE_HEAD and task is not agent.head():
        raise _illegal(record, f"task {task_id!r}, which is not the head of the queue")
    if kind == "delivered":
        if task.state == "running":
            task.redeliveries += 1
        task.state = after
        if agent.lease is not task:
            task.lent = record["at"]
            task.began = task.began or task.lent
            agent.proofs["lease"] = Proof("outbox", record["seq"], kind, record["at"])
        agent.lease = task
    elif after in TERMINAL:
        task.state = after
        task.payload = None
        del agent.unfinished[task_id]
        agent.finished[task_id] = Finished(task.seq, task.position, after, record["seq"])
        agent.outcomes[after] += 1
        agent.cancels.discard(task_id)
        if record.get("timed_out"):
            agent.overrun = record["epoch"]
            agent.proofs["overrun"] = Proof("outbox", record["seq"], kind, record["at"])
        if agent.lease is task:
            agent.lease = None
            agent.blocks.pop("", None)
            agent.proofs.pop("lease", None)
    elif kind == "cancel_requested":
        task.cancel_requested = True
    elif kind == "requeued":
        task.state = after
        task.attempt = record["attempt"]
        task.redeliveries = 0
        task.lost_why = record.get("reason", "")
        agent.lease = None
        agent.proofs.pop("lease", None)
    else:
        task.state = after


_OF_THE_HEAD = frozenset({"delivered", "result", "error"})


def _life_happened(agent: Agent, kind: str, record: dict[str, Any]) -> None:
    after = LIFE_EDGES.get((agent.life, kind))
    if after is None:
        raise _illegal(record, f"an agent that is {agent.life}")
    if kind == "starting":
        agent.spec = record
        agent.created_at = record["at"]
    elif kind == "restarted":
        asked = record.get("asked")
        if asked is None:
            agent.restarts = [*agent.restarts, record["at"]][-REMEMBERED_RESTARTS:]
        else:  # somebody has looked after it: its budget begins anew
            agent.restarts = []
            agent.restarted_for = max(agent.restarted_for, asked)
        agent.exited = agent.failure = None
        agent.blocks = {}
        agent.parked = False
        agent.resume = record.get("resume")
    elif kind == "ready":
        agent.ready_at = record["at"]
        agent.ready_epoch = record["epoch"]
        agent.wake_epoch = record["epoch"] if record.get("wakes") else agent.wake_epoch
        agent.session = record.get("session") or agent.session
    elif kind == "exited":
        agent.exited = record
    elif kind == "failed":
        agent.failure = record
    elif kind == "blocked":
        cause = record.get("kind") or ""
        agent.blocks.pop(cause, None)
        reason = record.get("reason") or "blocked"
        agent.blocks[cause] = Block(cause, reason, record.get("until"), record["at"], record["seq"])
    elif kind == "unblocked":
        agent.blocks.pop(record.get("kind") or "", None)
    elif kind in ("parked", "woken"):
        agent.parked = kind == "parked"
        agent.wake_epoch = record["epoch"] if agent.parked else agent.wake_epoch
        agent.proofs["parked"] = Proof("outbox", record["seq"], kind, record["at"])
    elif kind in ("stalled", "recovered"):
        agent.stalled = (record.get("reason") or "stalled") if kind == "stalled" else None
        agent.proofs["stalled"] = Proof("outbox", record["seq"], kind, record["at"])
    agent.epoch = record["epoch"]
    if after != agent.life or kind == "restarted":
        agent.proofs["life"] = Proof("outbox", record["seq"], kind, record["at"])
        agent.stalled = None
    agent.life = after
    if after not in ("starting", "ready"):
        agent.blocks = {}
