"""Repairs the logs of a damaged agent: two logs that fold, in which every reconstructed record is marked.

Pure: lines in, lines out. Every record keeps its number, so that readers continue after the number they have read,
and the broadcast's ``ref`` stays correct. An intact line is kept; a damaged line is replaced by its broadcast record,
by what later lines prove, or by a record `lost`. Then the agent is `failed`: its launch state cannot be trusted.

Work must not be repeated unnoticed: a task without a known end that was delivered, or may have been delivered in a
lost line, ends in `error` with code ``outcome_unknown``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.base.errors import Corrupt
from orchestrator.base.final_states import TERMINAL
from orchestrator.core import state
from orchestrator.core.record_drafts import ended, happened, inbox_draft, titled
from orchestrator.core.record_types import INBOX_TYPES, OUTBOX_TYPES, Draft
from orchestrator.journal.log_lines import Record, encode, intact

CODE = "corrupt_log"
UNKNOWN = "outcome_unknown"
GAP_MAX = 100_000
"""A line whose number differs by more than this from the previous number does not belong to this log."""
LINE_MIN = 100
"""Minimum bytes of a line: bounds the number of lines in unreadable bytes."""

_HANDED_OUT = frozenset({"delivered", "ack", "progress", "requeued", "result", "error"})
_WHOLE = re.compile(rb'\{"v":1,"seq":\d+,[^\x00]*,"crc":"[^"]{8}"\}')


@dataclass(frozen=True)
class DamagedLog:
    """The content of a log: ``lines`` without newlines, the name in quarantine, the first bad line."""

    lines: list[bytes]
    quarantined: str
    where: str


@dataclass
class RepairedLogs:
    """The two new logs, and the outcome of the tasks for the report."""

    at: str  # the time of all new records
    inbox: list[bytes] = field(default_factory=list)
    outbox: list[bytes] = field(default_factory=list)
    lost: int = 0  # numbers without a known record
    rebuilt: list[str] = field(default_factory=list)  # tasks whose record was damaged
    unknown: list[str] = field(default_factory=list)  # tasks ended because their outcome is unknown


@dataclass(frozen=True)
class OutsideFacts:
    """The facts about the agent outside its logs.

    ``broadcast`` are its intact records in the broadcast; ``spec`` the fields of a `starting` record, in case that is
    lost; ``epoch`` the newest epoch named anywhere.
    """

    broadcast: list[Record]
    spec: Record
    epoch: int = 1


def repaired_logs(
    agent_id: str, inbox: DamagedLog, outbox: DamagedLog, outside: OutsideFacts, at: str
) -> RepairedLogs:
    """The agent's logs, as far as they can be repaired.

    Raises ``Corrupt("unknown_version")`` if a newer version has written a line.
    """
    happenings = _intact(outbox, OUTBOX_TYPES)
    known = {record["ref"]: record for record in outside.broadcast if record["type"] != "starting"}
    acts = [(happenings.get(seq) or known[seq]) for seq in sorted({*happenings, *known})]
    if 1 not in happenings or happenings[1]["type"] != "starting":
        blank = state.Agent(agent_id)
        happenings[1] = happened(blank, "starting", at, by="orchestrator", epoch=1, **outside.spec).fields
    repaired = RepairedLogs(at)
    agent = state.Agent(agent_id)
    _repair_inbox(agent, inbox, acts, repaired)
    _Outbox(agent, outbox, (happenings, known), repaired).repair(outside.epoch)
    return repaired


def _intact(log: DamagedLog, types: frozenset[str]) -> dict[int, Record]:
    """The log's intact records by number; the first of equal numbers counts, distant numbers are not this log's."""
    records: dict[int, Record] = {}
    for line in log.lines:
        record = intact(line, types, Path(log.where))
        if record is not None:
            records.setdefault(record["seq"], {**record, "line": line})
    last = 0
    for seq in sorted(records):
        if seq - last > GAP_MAX:
            return {number: record for number, record in records.items() if number <= last}
        last = seq
    return records


def _bad_end(log: DamagedLog, records: dict[int, Record]) -> list[bytes]:
    """The lines after the last intact line."""
    whole = {record["line"] for record in records.values() if "line" in record}
    behind = list(reversed(log.lines))
    at = next((n for n, line in enumerate(behind) if line in whole), len(behind))
    return [line for line in behind[:at] if line]


def _length(log: DamagedLog, records: dict[int, Record]) -> int:
    """How many numbers the log is known to have had: readers know them, so none is reused."""
    return max((seq for seq, record in records.items() if "line" in record), default=0) + len(_bad_end(log, records))


# -- the inbox --------------------------------------------------------------------------------------------------


def _repair_inbox(agent: state.Agent, log: DamagedLog, acts: list[Record], repaired: RepairedLogs) -> None:
    """Write every task once, in an order in which the tasks can have been delivered."""
    records = _intact(log, INBOX_TYPES)
    slots: list[Record | None] = [records.get(seq) for seq in range(1, _length(log, records) + 1)]
    places: dict[str, int] = {}
    for place, record in enumerate(slots):
        if record is not None and record["type"] == "task":
            if record["task_id"] in places:
                slots[place] = None
            else:
                places[record["task_id"]] = place
    # Delivered tasks first: first in, first out shows the order in which they were queued.
    mentioned = [r["task_id"] for r in acts if r["type"] in _HANDED_OUT]
    mentioned += [r["task_id"] for r in acts if r.get("task_id") is not None and r["type"] in state.TASK_RECORDS]
    behind = -1
    for task_id in dict.fromkeys(mentioned):
        if task_id not in places:
            free = next((p for p in range(behind + 1, len(slots)) if slots[p] is None), len(slots))
            blank = inbox_draft(
                agent, "task", repaired.at, None, task_id=task_id, payload=None, position=1, lost=True
            )
            slots[free : free + 1] = [blank.fields]
            places[task_id] = free
            repaired.rebuilt.append(task_id)
        behind = max(behind, places[task_id])
    for seq, slot in enumerate(slots, 1):
        record = slot or inbox_draft(agent, "lost", repaired.at, None, quarantined=log.quarantined).fields
        repaired.lost += slot is None
        stamped, line = _written(record, seq)
        state.apply(agent, "inbox", stamped)
        repaired.inbox.append(line)


def _written(record: Record, seq: int) -> tuple[Record, bytes]:
    """The record and its line; the original line if the record is unchanged."""
    if "line" in record:
        return record, record["line"] + b"\n"
    return encode(record, seq)


# -- the outbox -------------------------------------------------------------------------------------------------


class _Outbox:
    """The new outbox, built record by record; each is legal for the state after the previous records."""

    def __init__(
        self,
        agent: state.Agent,
        log: DamagedLog,
        records: tuple[dict[int, Record], dict[int, Record]],
        repaired: RepairedLogs,
    ) -> None:
        self.agent, self.log, self.repaired, self.at = agent, log, repaired, repaired.at
        self.own, self.published = own, published = records
        self.slots: list[Record | None] = []
        self.free: list[int] = []  # lost numbers of the epoch that is being read
        self.last: dict[str, int] = {}  # number of the last record of each task
        self.act = 0  # number of the last record that shows the delivered task
        self.moved = 0  # number of the last record that changed the head of the queue
        self.ends: dict[str, Record] = {}  # terminal events that do not fit at their old place
        self.seen: set[str] = set()  # delivered, by records that do not fit
        ends = [(seq, r) for seq, r in {**published, **own}.items() if r["type"] in TERMINAL]
        self.end_of = {r["task_id"]: seq for seq, r in ends}

    def repair(self, epoch: int) -> None:
        """Read every number in order, then end the open tasks and the launch."""
        last = max(_length(self.log, self.own), *self.own, *self.published)
        for seq in range(1, last + 1):
            record = self.own.get(seq) or self._from_broadcast(seq)
            if record is not None and self._put(seq, record):
                self.slots.append(record)
            else:
                self.slots.append(None)
                self.free.append(seq)
        self._end_tasks(self._hidden())
        self._end_life(epoch)
        for seq, slot in enumerate(self.slots, 1):
            self.repaired.outbox.append(_written(slot or self._lost(seq), seq)[1])
        self.repaired.lost += self.slots.count(None)

    def _from_broadcast(self, seq: int) -> Record | None:
        """The record of that number from the broadcast, which omits a large payload and small facts."""
        digest = self.published.get(seq)
        if digest is None:
            return None
        kind = digest["type"]
        record: Record = {}
        record |= {key: digest[key] for key in ("at", "type", "epoch", "task_id", "payload", "by") if key in digest}
        task = self.agent.unfinished.get(digest.get("task_id", ""))
        if "payload_bytes" in digest:
            message = f"the payload of {digest['payload_bytes']} bytes was in a damaged line"
            record["payload"] = {"code": CODE, "message": message, "quarantined": self.log.quarantined}
        if kind in TERMINAL:
            record["attempt"] = task.attempt if task is not None else 1
        elif kind == "requeued":
            record["attempt"] = task.attempt + 1 if task is not None else 2
        for key in ("reason", "kind", "until"):
            if key in digest:
                record[key] = digest[key]
        if kind in ("exited", "requeued", "restarted", "failed"):
            record.setdefault("reason", "not known: the line was damaged")
        if kind == "failed":
            record["code"] = CODE
        if kind == "stopped":
            record["how"] = "not known: the line was damaged"
        return record

    def _put(self, seq: int, record: Record) -> bool:
        """Fold the record after the records that must precede it in lost lines; True if it fits."""
        if not self._fits(seq, record):
            task = self.agent.unfinished.get(record.get("task_id", ""))
            if task is None or record["epoch"] != self.agent.epoch or not self._make_room(task, record, seq):
                return self._set_apart(record)
            if not self._fits(seq, record):
                return self._set_apart(record)
        if record["type"] in ("starting", "restarted"):
            self.free.clear()
        return True

    def _fits(self, seq: int, record: Record) -> bool:
        head = self.agent.head()
        try:
            state.apply(self.agent, "outbox", {**record, "seq": seq})
        except (Corrupt, KeyError):
            return False
        task_id = record.get("task_id")
        if task_id is not None and record["type"] in state.TASK_RECORDS:
            self.last[task_id] = seq
            if record["type"] in _HANDED_OUT:
                self.act = max(self.act, seq)
            if head is not None and head.task_id == task_id and record["type"] in _HANDED_OUT | TERMINAL:
                self.moved = max(self.moved, seq)
        return True

    def _set_apart(self, record: Record) -> bool:
        task_id = record.get("task_id")
        if task_id in self.agent.unfinished:
            if record["type"] in TERMINAL:
                self.ends.setdefault(task_id, record)
            if record["type"] in _HANDED_OUT:
                self.seen.add(task_id)
        return False

    def _make_room(self, task: state.Task, record: Record, seq: int) -> bool:
        """Put the ends and the delivery that the record proves into the lost lines before it."""
        agent = self.agent
        while (head := agent.head()) is not None and head is not task:
            if self.end_of.get(head.task_id, 0) > seq:
                return False  # its end is known and follows later
            if not self._fill(self._end(head)):
                return False
        if task.state == "queued" and record["type"] in ("ack", "progress", "requeued"):
            out = happened(agent, "delivered", self.at, by="orchestrator", **titled(task), attempt=task.attempt)
            return self._fill(out)
        return True

    def _fill(self, draft: Draft) -> bool:
        """Write the record into the first lost line after all known changes of the queue."""
        before = self.moved
        if draft.type != "delivered":
            before = max(before, self.last.get(draft.fields["task_id"], 0))
        place = next((seq for seq in self.free if seq > before), None)
        if place is None or not self._fits(place, draft.fields):
            return False
        self.free.remove(place)
        self.slots[place - 1] = draft.fields
        self._note(draft)
        return True

    def _note(self, draft: Draft) -> None:
        if draft.type == "error" and draft.fields["by"] == "orchestrator":
            payload = draft.fields.get("payload")
            if isinstance(payload, dict) and payload.get("code") == UNKNOWN:
                self.repaired.unknown.append(draft.fields["task_id"])

    def _end(self, task: state.Task) -> Draft:
        """The task's end from a record that did not fit, else an end with unknown outcome."""
        end = self.ends.get(task.task_id)
        if end is None:
            return self._unknown(task)
        more = {key: end[key] for key in ("title", "payload") if key in end}
        return happened(
            self.agent, end["type"], end["at"], by=end["by"], task_id=task.task_id, attempt=task.attempt, **more
        )

    def _unknown(self, task: state.Task) -> Draft:
        message = f"{self.log.where}: damaged; whether the task was done is not known, so it is not run again"
        payload = {"code": UNKNOWN, "message": message, "quarantined": self.log.quarantined}
        return ended(self.agent, task, "error", self.at, payload)

    def _lost(self, seq: int) -> Record:
        epochs = [slot["epoch"] for slot in self.slots[:seq] if slot is not None]
        draft = happened(
            self.agent, "lost", self.at, by="orchestrator", epoch=epochs[-1], quarantined=self.log.quarantined
        )
        return draft.fields

    # -- the end ------------------------------------------------------------------------------------------------

    def _hidden(self) -> int:
        """How many tasks may have been delivered in lost lines without a later trace."""
        behind = _bad_end(self.log, self.own)
        bad = sum(1 if _WHOLE.fullmatch(line) else len(line) // LINE_MIN + 1 for line in behind)
        last = max((seq for seq, record in self.own.items() if "line" in record), default=0)
        short = 1 if max(self.published, default=0) > last else 0  # cut off: one more line may have existed
        lines = sum(1 for seq in self.free if seq > self.act) + max(0, bad - len(behind)) + short
        # Each delivery is a line, and the end of the first task is between two deliveries.
        return (lines + (self.agent.lease is None)) // 2

    def _end_tasks(self, hidden: int) -> None:
        order = list(self.agent.unfinished.values())
        lease = self.agent.lease
        out = [n for n, task in enumerate(order) if task is lease or task.task_id in self.seen]
        reached = max(out, default=-1)
        for place, task in enumerate(order):
            end = self.ends.get(task.task_id)
            if place > reached and end is None and hidden > 0:
                reached, hidden = place, hidden - 1
            if end is not None or place <= reached:
                self._add(self._end(task))
            elif task.lost:
                why = {"reason": "its record was damaged, so it cannot be delivered"}
                self._add(ended(self.agent, task, "canceled", self.at, why))

    def _end_life(self, epoch: int) -> None:
        """Record `failed` in the newest epoch, so that the next epoch has a number that no process has had."""
        agent = self.agent
        epoch = max([epoch, agent.epoch, *(r["epoch"] for r in (*self.own.values(), *self.published.values()))])
        reason = f"{self.log.where}: damaged; kept as {self.log.quarantined}"
        if agent.life == "ready" or (agent.life == "starting" and epoch > agent.epoch):
            draft = happened(agent, "exited", self.at, by="orchestrator", reason=reason, code=None, signal=None)
            self._add(draft)
        if epoch > agent.epoch and (agent.life, "restarted") in state.LIFE_EDGES:
            self._add(happened(agent, "restarted", self.at, by="orchestrator", epoch=epoch, reason=reason))
        if agent.life in ("starting", "exited"):
            self._add(happened(agent, "failed", self.at, by="orchestrator", reason=reason, code=CODE))

    def _add(self, draft: Draft) -> None:
        state.apply(self.agent, "outbox", {**draft.fields, "seq": len(self.slots) + 1})
        self.slots.append(draft.fields)
        self._note(draft)
