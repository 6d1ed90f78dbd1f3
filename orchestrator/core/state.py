"""What the records mean: the transition tables, and `apply`, which folds a record into an agent's state.

Two rules for editors of this file. All legal (state, record) pairs are in `TASK_EDGES` and `LIFE_EDGES`; any other
pair is illegal. Nothing here reads a clock, a file or a random number: `decisions.py` decides which records a request
causes, the daemon writes them, and this file defines their effect.

The two logs of an agent are synced separately, so after a power cut one may be ahead of the other. Folding therefore
never depends on how inbox and outbox lines interleaved: folding the whole inbox and then the whole outbox gives the
same state as the live order (a property test holds this). docs/lifecycle.md is generated from the tables.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from orchestrator.base.errors import Corrupt
from orchestrator.base.final_states import TERMINAL
from orchestrator.core.task_words import reason_of

# (state of the task, outbox record) -> state. "queued" is entered by the inbox record `task`.
TASK_EDGES: dict[tuple[str, str], str] = {
    ("queued", "delivered"): "delivered",
    ("queued", "cancel_requested"): "queued",
    ("queued", "canceled"): "canceled",  # by the orchestrator, at once: the task never reaches the agent
    ("queued", "result"): "result",  # of earlier versions: a power cut lost the head's `delivered`
    ("queued", "error"): "error",  # same, or max_attempts reached
    ("delivered", "delivered"): "delivered",  # delivered again before its ack
    ("delivered", "ack"): "running",
    ("delivered", "progress"): "running",  # any event of the lease implies its ack
    ("delivered", "cancel_requested"): "delivered",
    ("delivered", "requeued"): "queued",
    ("delivered", "result"): "result",
    ("delivered", "error"): "error",
    ("delivered", "canceled"): "canceled",
    ("running", "delivered"): "running",  # delivered again after its ack: `redelivered`
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
    ("starting", "failed"): "failed",  # its pane could not be made, or it was not ready in time
    ("starting", "stopped"): "stopped",
    ("starting", "blocked"): "starting",  # a dialog blocks its CLI before the first call
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
    ("failed", "restarted"): "starting",  # requested by hand: no policy restarts a failed agent
    ("failed", "stopped"): "stopped",
    ("stopped", "deleted"): "deleted",
    ("starting", "answered"): "starting",
    ("ready", "answered"): "ready",
    ("exited", "answered"): "exited",  # a human has taken note of the error of its last task
    ("failed", "answered"): "failed",
    ("stopped", "answered"): "stopped",
    # A damaged line that doctor --fix has replaced: its number stays, and it has no effect.
    ("starting", "lost"): "starting",
    ("ready", "lost"): "ready",
    ("exited", "lost"): "exited",
    ("failed", "lost"): "failed",
    ("stopped", "lost"): "stopped",
    # A former owner of a moved agent reports the end of a task. It changes no status and no outcome.
    ("starting", "late"): "starting",
    ("ready", "late"): "ready",
    ("exited", "late"): "exited",
    ("failed", "late"): "failed",
    ("stopped", "late"): "stopped",
}
ENDED_LIVES = frozenset({"failed", "stopped", "deleted"})
TASK_RECORDS = frozenset(record for _, record in TASK_EDGES)

REMEMBERED_RESTARTS = 200
"""More than any budget (`max_restarts`) allows."""

REMEMBERED_CALLS = 1000
"""Per agent: the least number of answered calls that a re-sent call is matched with."""


REMEMBERED_ANSWERS = 50
"""Per agent: how many answered items of the inbox are remembered at least, and how many dismissed items."""

REMEMBERED_ERRORS = 5
"""Per agent: maximum number of tasks that ended in `error` and are not dismissed."""


class Answered(NamedTuple):
    """The record that a call caused when it was first sent; a re-sent call is answered from it."""

    type: str
    task_id: str | None
    seq: int


class Block(NamedTuple):
    """One cause that blocks the agent; ``kind`` "" is the delivery rule: no terminal event."""

    kind: str
    reason: str
    until: str | None
    since: str  # RFC 3339
    seq: int = 0  # of its outbox record


class Proof(NamedTuple):
    """The record that proves a fact; ``log`` is inbox or outbox."""

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
    title: str = ""  # empty in records of before 2026-12 and for a payload without words
    lost: bool = False  # its record and so its payload was damaged: it is never delivered
    state: str = "queued"
    attempt: int = 1
    cancel_asked: bool = False  # by a record of the inbox
    cancel_requested: bool = False  # by a record of the outbox
    redeliveries: int = 0  # after its ack, in this epoch
    timeout_s: float | None = None  # of one attempt
    refused: dict[str, Any] = field(default_factory=dict)  # why it ends at once: code and message
    overtime: bool = False  # it was canceled because it exceeded its time limit
    began: str | None = None  # `at` of its first delivery
    lent: str | None = None  # `at` of this attempt's delivery
    lost_why: str = ""  # why the attempt before this one was lost
    late: dict[str, Any] = field(default_factory=dict)  # what a former owner reported last: kind, reason, payload


class LastEnd(NamedTuple):
    """The task of an agent that ended last, by its terminal event."""

    task_id: str
    title: str
    outcome: str
    reason: str  # of an error or a cancel, in the words of its payload; may be empty
    at: str
    seq: int  # of its outbox record


class ItemAnswer(NamedTuple):
    """What was answered to an item of the inbox."""

    decision: str
    text: str
    seq: int  # of its outbox record
    rule: str | None = None


class Finished(NamedTuple):
    """What is kept of an ended task."""

    seq: int  # of its inbox record
    position: int
    outcome: str
    ref: int  # seq of its terminal event


@dataclass(slots=True)
class Agent:
    """One agent, folded from its records.

    Invariants: the lease is the first unfinished task in inbox order (FIFO, one at a time); ``epoch`` never
    falls; a finished task never becomes unfinished.
    """

    agent_id: str
    life: str = "new"
    epoch: int = 0
    spec: dict[str, Any] = field(default_factory=dict)  # the `starting` record
    order: deque[Task] = field(default_factory=deque)  # inbox order; ended tasks are dropped from the left
    unfinished: dict[str, Task] = field(default_factory=dict)
    finished: dict[str, Finished] = field(default_factory=dict)  # not in the archive yet; `ended` looks in both
    archive: Callable[[str], Finished | None] | None = (
        None  # finds ended tasks that are no longer in memory; None: there are none
    )
    lease: Task | None = None
    cancels: set[str] = field(default_factory=set)  # requested and not settled yet
    refusals: list[str] = field(default_factory=list)  # tasks that end at once and have not ended yet
    ref: int = 0  # number of the last post of the fleet that was taken
    fence: int = 0  # of the fleet: number of the owner that launched the current epoch; 0: a local agent
    host: str = ""  # that owner
    owners: dict[str, str] = field(default_factory=dict)  # by fence: every owner that launched an epoch
    late: dict[str, list[int]] = field(default_factory=dict)  # by task: fences under which it ended too late
    stop_asked: int = 0  # seq of the inbox `stop`
    stop_force: bool = False
    blocks: dict[str, Block] = field(default_factory=dict)  # by kind: each cause is lifted separately; newest last
    restarts: list[str] = field(default_factory=list)  # `at` of each that counts since the last requested one
    restart_asked: int = 0  # seq of the last inbox `restart`
    restart_fresh: bool = False
    restarted_for: int = 0  # the last `restart` that a launch has followed
    overrun: int = 0  # the epoch in which a task exceeded its time limit: that launch must end
    stalled: str | None = None  # the reason, while the agent is stalled
    proofs: dict[str, Proof] = field(default_factory=dict)  # what proves the current state, by what it proves
    exited: dict[str, Any] | None = None  # the last `exited` record of the current launch
    failure: dict[str, Any] | None = None
    calls: dict[str, Answered] = field(default_factory=dict)  # by req
    outcomes: dict[str, int] = field(default_factory=lambda: {"result": 0, "error": 0, "canceled": 0})
    last_end: LastEnd | None = None
    errors: dict[str, LastEnd] = field(default_factory=dict)  # by task id; not yet dismissed, only the newest
    answers: dict[str, ItemAnswer] = field(default_factory=dict)  # by the id of the item; the newest only
    created_at: str | None = None
    ready_at: str | None = None
    ready_epoch: int = 0
    wake_epoch: int = 0  # the last epoch whose hook or plugin has called, by the records
    session: str | None = None  # of the CLI, from the last `ready`
    resume: str | None = None  # the session that the current launch resumes
    parked: bool = False  # by its last record on it; whether a wake reaches the agent is presence

    @property
    def run_id(self) -> str:
        return str(self.spec.get("run_id", ""))

    @property
    def blocked(self) -> Block | None:
        """The newest cause that blocks the agent, or None."""
        return next(reversed(self.blocks.values()), None)

    @property
    def restart_due(self) -> bool:
        """Whether a restart was requested that no launch has followed yet."""
        return self.restart_asked > self.restarted_for

    @property
    def policies(self) -> dict[str, Any]:
        policies: dict[str, Any] = self.spec.get("policies", {})
        return policies

    @property
    def fleet(self) -> dict[str, Any]:
        """The agent's place in a fleet (`FleetMembership`); empty for a local agent."""
        membership: dict[str, Any] = self.spec.get("fleet") or {}
        return membership

    def ended(self, task_id: str) -> Finished | None:
        """What is kept of an ended task, however long ago; None if the task has not ended or is unknown."""
        finished = self.finished.get(task_id)
        if finished is None and self.archive is not None:
            finished = self.archive(task_id)
        return finished

    def head(self) -> Task | None:
        """The first unfinished task in FIFO order; the lease, if there is one."""
        while self.order and self.order[0].state in TERMINAL:
            self.order.popleft()
        return self.order[0] if self.order else None


def apply(agent: Agent, log: str, record: dict[str, Any]) -> None:
    """Fold one record. Raises `Corrupt` and leaves the state unchanged if the (state, record) pair is illegal.

    The error's ``line`` is the record's seq, because logs are numbered from 1 without gaps; the caller adds the file.
    A start folds every record, so this path is kept short.
    """
    kind = record["type"]
    if log == "inbox":
        _INBOX[kind](agent, record)
        agent.ref = max(agent.ref, record.get("ref", 0))
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
    if record.get("duplicate"):
        return
    if task_id in agent.unfinished or agent.ended(task_id) is not None:
        raise _illegal(record, f"task {task_id!r}, which was asked for already")
    title = record.get("title", "")
    task = Task(task_id, record["seq"], record["position"], record.get("payload"), title, record.get("lost", False))
    task.timeout_s = record.get("timeout_s")
    task.refused = record.get("refused") or {}
    if task.refused:
        agent.refusals.append(task_id)
    agent.unfinished[task_id] = task
    agent.order.append(task)


def _cancel_asked(agent: Agent, record: dict[str, Any]) -> None:
    task = agent.unfinished.get(record["task_id"])
    if task is not None:  # else it has ended: the inbox is folded first, and the outbox decides
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
    """A damaged line has no effect."""


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
    if task is not agent.lease and kind in _OF_THE_HEAD and task is not agent.head() and not task.refused:
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
        reason = "" if after == "result" else reason_of(record.get("payload"))
        agent.last_end = LastEnd(task_id, task.title, after, reason, record["at"], record["seq"])
        if after == "error":
            agent.errors[task_id] = agent.last_end
            if len(agent.errors) > REMEMBERED_ERRORS:
                del agent.errors[next(iter(agent.errors))]
        agent.cancels.discard(task_id)
        if task.refused:
            agent.refusals.remove(task_id)
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


def _owned_by(agent: Agent, fence: int, host: str) -> None:
    agent.fence, agent.host = fence, host
    if fence:
        agent.owners[str(fence)] = host


def _came_late(agent: Agent, record: dict[str, Any]) -> None:
    task_id = record["task_id"]
    task = agent.unfinished.get(task_id)
    if task is None and agent.ended(task_id) is None:
        raise _illegal(record, f"task {task_id!r}, which was never asked for")
    agent.late.setdefault(task_id, []).append(record.get("former_fence") or 0)
    if task is not None:
        task.late = {key: record[key] for key in ("kind", "reason", "payload") if record.get(key) is not None}


def _newest(answers: dict[str, ItemAnswer]) -> dict[str, ItemAnswer]:
    """The newest answers. Dismissals have their own limit, so that many other answers do not displace them."""
    dismissed = [item for item, answer in answers.items() if answer.decision == "dismiss"]
    others = [item for item, answer in answers.items() if answer.decision != "dismiss"]
    return {item: answers[item] for item in (*dismissed[-REMEMBERED_ANSWERS:], *others[-REMEMBERED_ANSWERS:])}


_OF_THE_HEAD = frozenset({"delivered", "result", "error"})


def _life_happened(agent: Agent, kind: str, record: dict[str, Any]) -> None:
    after = LIFE_EDGES.get((agent.life, kind))
    if after is None:
        raise _illegal(record, f"an agent that is {agent.life}")
    if kind == "starting":
        agent.spec = record
        agent.created_at = record["at"]
        agent.ref = max(agent.ref, record.get("ref") or 0)
        _owned_by(agent, agent.fleet.get("fence", 0), agent.fleet.get("host", ""))
    elif kind == "restarted":
        request_seq = record.get("asked")
        moved_to = record.get("fence")
        if moved_to is not None:
            _owned_by(agent, moved_to, record.get("host") or "")
            agent.spec = {**agent.spec, **(record.get("placed") or {})}
        if request_seq is None:
            if not record.get("pane_closed") and moved_to is None:
                agent.restarts = [*agent.restarts, record["at"]][-REMEMBERED_RESTARTS:]
        else:  # somebody has attended to it: its budget starts again
            agent.restarts = []
            agent.restarted_for = max(agent.restarted_for, request_seq)
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
    elif kind == "answered":
        said = record.get("text") or ""
        agent.answers[record["item"]] = ItemAnswer(record["decision"], said, record["seq"], record.get("rule"))
        if record["decision"] == "dismiss" and record["kind"] == "error":
            agent.errors.pop(record.get("task_id") or "", None)
        if len(agent.answers) > 3 * REMEMBERED_ANSWERS:
            agent.answers = _newest(agent.answers)
    elif kind == "late":
        _came_late(agent, record)
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
