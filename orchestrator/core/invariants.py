"""The invariants that `orchestrator verify` checks: what must be true of records and broadcasts after any crash.

Pure, and independent of `state` and `decisions` on purpose: a mistake shared by the code that writes the records and
the code that checks them would not be found. Each broken invariant is one `Violation`, and none hides the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from orchestrator.base.final_states import TERMINAL
from orchestrator.core.record_types import BROADCAST_PAYLOAD_BYTES, BROADCAST_TYPES

KINDS: dict[str, str] = {
    # what a line is
    "bad_line": "a line is not a JSON object",
    "bad_crc": "a line's checksum is missing or wrong",
    "seq_gap": "sequence numbers are missing before a record: lines were lost",
    "seq_repeat": "a record repeats an earlier sequence number: lines were repeated or moved",
    "unknown_record": "a record has an unknown type or version",
    "schema": "a record or file does not match its schema",
    "segment": "a log's numbered file does not begin with the record that its name gives",
    "missing_log": "one of an agent's logs, or a run's broadcast or run.json, is missing",
    # the life of an agent
    "no_intent": "an outbox does not begin with starting, or has a second starting",
    "wrong_epoch": "a record is in the part of another launch",
    "two_ready": "one launch became ready twice",
    "life": "a launch ended twice, or the agent was deleted before it was stopped",
    "too_many_lives": "the agent was launched again more often than its policy allows within its window",
    "behind_deleted": "a record follows deleted, which must be the last",
    "unknown_run": "the agent's team run has no directory",
    # its tasks
    "task_twice": "one task was requested twice",
    "call_twice": "one call was carried out twice",
    "post_order": "posts of the fleet were taken out of order, twice, or left out",
    "not_asked": "a record is about a task that was never requested",
    "overlap": "a task was delivered while another was held",
    "not_held": "an event came for a task that was not held",
    "undelivered_result": "an agent ended a task that was not delivered, in a log that was closed cleanly",
    "attempt": "the number of an attempt is wrong",
    "not_fifo": "a task overtook an older one",
    "two_ends": "a task has two terminal events",
    "after_end": "a record about a task follows its terminal event",
    "open_task": "the agent is deleted and one of its tasks has no terminal event",
    # the digest
    "broadcast_order": "the broadcast repeats an agent's records out of order, or one of them twice",
    "broadcast_differs": "a broadcast record differs from the record that it repeats",
    "broadcast_missing": "the broadcast leaves a record out",
    "broadcast_ref": "the broadcast repeats a record beyond the end of the outbox: lines were lost",
    "unknown_agent": "the broadcast names an agent that does not exist or belongs to another run",
    # the caller's word
    "answered_missing": "what a caller was answered is not in the files",
}
"""Kind of violation -> its meaning, in one clause; docs/recovery.md lists them all."""

RESTORED_GAP = 10_000
"""A gap of at least this many posts follows a restore of the database.

It raises the next number by a million, and at least to the microseconds of now: two restores may come in one second.
"""
MAX_RESTARTS, WINDOW_S = 3, 600.0  # of agents that were made before the keys were
_OF_LIFE = frozenset({"exited", "restarted", "failed", "stopped", "deleted", "ready"})
NEEDS_ALL = frozenset(
    {
        "not_asked", "overlap", "not_held", "undelivered_result", "attempt", "not_fifo", "no_intent", "wrong_epoch",
        "life", "open_task",
    }
)  # fmt: skip
"""Invariants that are not checked where lines of a log cannot be used: a lost line may be the answer."""

# What one call of an agent may cause once; a wait that is sent again may be handed the same task again.
_ONCE = frozenset({"ack", "progress", *TERMINAL, "ready", "starting"})


@dataclass(slots=True, frozen=True)
class AuditedRecord:
    """One good record with its place, reduced to what the invariants need. ``when`` is Unix time in seconds."""

    file: str
    line: int
    seq: int
    type: str
    epoch: int = 0
    when: float = 0.0
    at: str = ""
    by: str = ""
    task_id: str | None = None
    attempt: int | None = None
    req: str | None = None
    agent_id: str | None = None  # of a broadcast record
    ref: int = 0  # of a broadcast record, else the number of the fleet's post that caused it
    asked: bool = False  # a restart by hand
    resume: bool = False
    how: str = ""  # of `exited`
    pane_closed: bool = False  # of `restarted`
    moved: bool = False  # of `restarted`: to another host
    duplicate: bool = False  # of `task`: known already
    unknown: bool = False  # of `cancel`: the agent never got the task
    payload: int | None = None  # a fingerprint
    payload_bytes: int | None = None
    words: tuple[str | None, ...] = ()  # reason, kind, until, title
    spec: dict[str, Any] = field(default_factory=dict)  # of `starting`: run_id, policies, fleet


class AuditedLog(NamedTuple):
    """A log as it was read: its good records in order; ``whole`` if there are no others."""

    file: str
    lines: list[AuditedRecord]
    whole: bool = True

    @property
    def last_seq(self) -> int:
        return self.lines[-1].seq if self.lines else 0


class Violation(NamedTuple):
    """One broken invariant: its place, agent, task and run, and one sentence."""

    kind: str
    message: str
    file: str
    line: int | None = None
    seq: int | None = None
    agent: str | None = None
    task: str | None = None
    run: str | None = None


def at_line(
    kind: str, record: AuditedRecord, agent: str | None, message: str, *, run: str | None = None
) -> Violation:
    """The violation at a record."""
    return Violation(kind, message, record.file, record.line, record.seq, agent, record.task_id, run)


def agent_faults(agent: str, inbox: AuditedLog, outbox: AuditedLog) -> Iterator[Violation]:
    """Every broken invariant of one agent's two logs.

    Those in ``NEEDS_ALL`` are checked only if both logs are whole.
    """
    left_out = frozenset() if inbox.whole and outbox.whole else NEEDS_ALL
    violations = [
        *_inbox(agent, inbox), *_posts(agent, inbox, outbox), *_life(agent, outbox), *_tasks(agent, inbox, outbox)
    ]  # fmt: skip
    yield from (violation for violation in violations if violation.kind not in left_out)


def _inbox(agent: str, inbox: AuditedLog) -> Iterator[Violation]:
    task_ids: set[str | None] = set()
    calls: dict[str, AuditedRecord] = {}
    for record in inbox.lines:
        if record.type == "task" and not record.duplicate:
            if record.task_id in task_ids:
                yield at_line("task_twice", record, agent, f"task {record.task_id} was asked for before")
            task_ids.add(record.task_id)
        elif record.task_id is not None and record.task_id not in task_ids and not record.unknown:
            yield at_line(
                "not_asked", record, agent, f"{record.type} of task {record.task_id}, which was never requested"
            )
        if record.req is not None:
            before = calls.setdefault(record.req, record)
            if before is not record and not _was_forgotten(before, record):
                message = f"call {record.req} was carried out before, by record {before.seq}"
                yield at_line("call_twice", record, agent, message)


def _was_forgotten(before: AuditedRecord, record: AuditedRecord) -> bool:
    """Whether the fleet's database was restored between two posts: it has accepted a call anew that was taken."""
    return before.ref > 0 and record.ref > before.ref + RESTORED_GAP


def _posts(agent: str, inbox: AuditedLog, outbox: AuditedLog) -> Iterator[Violation]:
    """Posts of the fleet have the numbers 1, 2, 3, …; a restored database goes on `RESTORED_GAP` later."""
    taken = next((record.ref for record in outbox.lines if record.type == "starting"), 0)
    for record in inbox.lines:
        if not record.ref:
            continue
        if record.ref != taken + 1 and record.ref <= taken + RESTORED_GAP:
            yield at_line("post_order", record, agent, f"post {record.ref} where post {taken + 1} is expected")
        taken = max(taken, record.ref)


def _life(agent: str, outbox: AuditedLog) -> Iterator[Violation]:
    """The agent itself: intent, launches, end."""
    epoch, gone = 1, False
    counts: Counter[tuple[str, int]] = Counter()
    calls: dict[tuple[str, str], int] = {}
    for at, record in enumerate(outbox.lines):
        kind = record.type
        if gone:
            yield at_line("behind_deleted", record, agent, f"{kind} follows deleted")
        if (kind == "starting") != (at == 0):
            message = f"the first record is {kind}" if at == 0 else "the agent starts a second time"
            yield at_line("no_intent", record, agent, message)
        due = epoch + 1 if kind == "restarted" else epoch
        if record.epoch != due:
            yield at_line(
                "wrong_epoch",
                record,
                agent,
                f"{kind} of launch {record.epoch} where a record of launch {due} is expected",
            )
        if kind == "restarted":
            epoch = record.epoch
        if kind in _OF_LIFE:
            counts[kind, 0 if kind in ("stopped", "deleted") else record.epoch] += 1
            yield from _twice(agent, record, counts)
        gone = gone or kind == "deleted"
        if record.req is not None and kind in _ONCE:
            if (record.req, kind) in calls:
                message = f"call {record.req} was carried out before, by record {calls[record.req, kind]}"
                yield at_line("call_twice", record, agent, message)
            calls[record.req, kind] = record.seq
    yield from _lives(agent, outbox)


def _twice(agent: str, record: AuditedRecord, counts: Counter[tuple[str, int]]) -> Iterator[Violation]:
    if record.type == "ready" and counts["ready", record.epoch] > 1:
        yield at_line("two_ready", record, agent, f"launch {record.epoch} became ready before")
    elif record.type == "exited" and counts["exited", record.epoch] > 1:
        yield at_line("life", record, agent, f"launch {record.epoch} exited before")
    elif record.type == "stopped" and counts["stopped", 0] > 1:
        yield at_line("life", record, agent, "the agent was stopped before")
    elif record.type == "deleted" and not counts["stopped", 0]:
        yield at_line("life", record, agent, "the agent was deleted and never stopped")


def _lives(agent: str, outbox: AuditedLog) -> Iterator[Violation]:
    """Relaunches against the policies in `starting`; a restart by hand gives a new budget.

    A relaunch whose resumed session did not become ready does not count, nor one that follows a launch that was ready
    and whose pane was closed by hand, nor one on another host.
    """
    policies = next((record.spec.get("policies") or {} for record in outbox.lines if record.type == "starting"), {})
    limit = 0 if policies.get("restart") == "never" else policies.get("max_restarts", MAX_RESTARTS)
    window = policies.get("restart_window_s", WINDOW_S)
    if not isinstance(limit, int) or not isinstance(window, int | float):
        return
    ready = {record.epoch for record in outbox.lines if record.type == "ready"}
    by_hand = {record.epoch for record in outbox.lines if record.how == "pane_closed"} & ready
    before: list[AuditedRecord] = []
    for record in outbox.lines:
        if record.type != "restarted" or (record.pane_closed and record.epoch - 1 in by_hand):
            continue
        if record.asked:
            before = []
            continue
        if record.moved:
            continue
        counted = [e for e in before if e.when > record.when - window and not (e.resume and e.epoch not in ready)]
        if len(counted) >= limit:
            message = f"launched again {len(counted) + 1} times within {window:g} s; its policy allows {limit}"
            yield at_line("too_many_lives", record, agent, message)
        before.append(record)


def _tasks(agent: str, inbox: AuditedLog, outbox: AuditedLog) -> Iterator[Violation]:
    """Queue and lease: every record about a task, in order."""
    order = list(dict.fromkeys(record.task_id for record in inbox.lines if record.type == "task"))
    attempt: dict[str | None, int] = dict.fromkeys(order, 1)
    over: dict[str | None, AuditedRecord] = {}
    lease, oldest = None, 0
    lost = False  # whether a damaged record of this launch may have been a delivery
    for record in outbox.lines:
        kind, task = record.type, record.task_id
        lost = kind == "lost" or (lost and kind != "restarted")
        if task is None or kind in ("blocked", "unblocked", "stalled", "recovered", "answered"):
            continue
        if task not in attempt:
            yield at_line("not_asked", record, agent, f"{kind} of task {task}, which was never requested")
            continue
        if kind == "late":
            continue  # of an attempt on a lost host: it may follow the task's end, and ends nothing
        if task in over:
            message = f"task {task} has ended with {over[task].type}, record {over[task].seq}"
            yield at_line("two_ends" if kind in TERMINAL else "after_end", record, agent, message)
            continue
        while oldest < len(order) and order[oldest] in over:
            oldest += 1
        head = order[oldest] if oldest < len(order) else None
        if kind == "delivered":
            if lease not in (None, task):
                yield at_line("overlap", record, agent, f"task {task} was delivered while {lease} was held")
            elif task != head:
                yield at_line("not_fifo", record, agent, f"task {task} was delivered before {head}, which is older")
            lease = task
        elif lease != task and (kind in ("requeued", "result") or record.by == "agent"):
            if lease is not None or kind not in TERMINAL or task != head:
                held = lease or "nothing"
                yield at_line("not_held", record, agent, f"{kind} of task {task} while {held} was held")
            elif not lost:
                yield at_line("undelivered_result", record, agent, f"{kind} of task {task}, which was not delivered")
        if record.attempt is not None:
            due = attempt[task] + (kind == "requeued")
            if record.attempt != due:
                yield at_line(
                    "attempt", record, agent, f"{kind} of attempt {record.attempt} of {task}; expected {due}"
                )
            attempt[task] = record.attempt
        if kind in TERMINAL:
            over[task] = record
        if lease == task and (kind in TERMINAL or kind == "requeued"):
            lease = None
    gone = next((record for record in outbox.lines if record.type == "deleted"), None)
    for task in order:
        if gone is not None and task not in over:
            message = f"the agent is deleted, and task {task} has no terminal event"
            yield at_line("open_task", gone, agent, message)._replace(task=task)


def digest_faults(
    run: str, agent: str, repeats: Iterable[AuditedRecord], outbox: AuditedLog, *, broadcast: AuditedLog
) -> Iterator[Violation]:
    """Differences between a run's broadcast and an agent's outbox; records not yet in the broadcast are none."""
    due = [record for record in outbox.lines if record.type in BROADCAST_TYPES]
    known = {record.seq: record for record in due}
    last, at = 0, 0
    for repeat in repeats:
        if repeat.ref > outbox.last_seq and outbox.whole:
            text = f"it repeats record {repeat.ref} of {agent}, whose outbox ends at {outbox.last_seq}"
            yield at_line("broadcast_ref", repeat, agent, text, run=run)
            continue
        if repeat.ref <= last:
            text = f"record {repeat.ref} of {agent} is repeated after record {last}"
            yield at_line("broadcast_order", repeat, agent, text, run=run)
        elif repeat.ref not in known and outbox.whole:
            text = f"record {repeat.ref} of {agent} is of a type that a broadcast does not repeat"
            yield at_line("broadcast_differs", repeat, agent, text, run=run)
        elif repeat.ref in known and (wrong := _differs(repeat, known[repeat.ref])):
            text = f"{wrong} differs from record {repeat.ref} of {agent}, which it repeats"
            yield at_line("broadcast_differs", repeat, agent, text, run=run)
        while at < len(due) and due[at].seq < repeat.ref:
            if due[at].seq > last and broadcast.whole:
                text = f"record {due[at].seq} ({due[at].type}) of {agent} was left out before this one"
                yield at_line("broadcast_missing", repeat, agent, text, run=run)
            at += 1
        last = max(last, repeat.ref)


def untold(repeats: Iterable[AuditedRecord], outbox: AuditedLog) -> list[AuditedRecord]:
    """The records of an agent that the broadcast does not have yet: those after the last one it has."""
    last = max((repeat.ref for repeat in repeats), default=0)
    return [record for record in outbox.lines if record.type in BROADCAST_TYPES and record.seq > last]


def _differs(repeat: AuditedRecord, original: AuditedRecord) -> str:
    """The key of a broadcast record that differs from the original; "" if none does."""
    for key in ("type", "at", "epoch", "task_id", "by", "words"):
        if getattr(repeat, key) != getattr(original, key):
            return "its reason, kind, until or title" if key == "words" else f"its {key}"
    if repeat.payload_bytes is not None:  # too large to be repeated
        sound = (
            repeat.payload is None and original.payload is not None and repeat.payload_bytes > BROADCAST_PAYLOAD_BYTES
        )
        return "" if sound else "its payload_bytes"
    return "" if repeat.payload == original.payload else "its payload"
