"""Rebuilds a run's damaged broadcast from the agents' outboxes.

Pure: lines in, lines out. If the outboxes prove exactly which records were in a gap, the gap is filled with them, and
no reader notices. Otherwise everything after the gap is written again in order of (`at`, agent, `ref`), as after a
crash.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from pathlib import Path

from orchestrator.core.record_types import BROADCAST_TYPES
from orchestrator.journal.log_lines import Record, encode, intact
from orchestrator.team.roster.broadcast import digest

Outboxes = Mapping[str, list[Record]]
"""The records that each agent's outbox publishes, in order; agents without files are absent."""


def repaired_lines(lines: list[bytes], outboxes: Outboxes, path: Path) -> list[bytes]:
    """The lines of the new broadcast. Records in no intact line are left to normal publishing.

    Raises ``Corrupt("unknown_version")`` if a newer version has written a line.
    """
    by_seq: dict[int, Record] = {}
    for line in lines:
        record = intact(line, BROADCAST_TYPES, path)
        if record is not None:
            by_seq.setdefault(record["seq"], {**record, "line": line})
    published = [by_seq[seq] for seq in sorted(by_seq)]
    due = {agent_id: [digest(agent_id, record) for record in records] for agent_id, records in outboxes.items()}
    out: list[bytes] = []
    while published:
        gap = published[0]["seq"] - len(out) - 1
        missing = _missing(published, due, gap)
        if missing is None or not _follows(published[0], missing, due):
            break
        for digested in missing:
            due[digested["agent_id"]].remove(digested)
            out.append(encode(digested, len(out) + 1)[1])
        record = published.pop(0)
        out.append(record["line"] + b"\n")
        if record["agent_id"] in due:
            del due[record["agent_id"]][0]
    return out + _rest(published, due, len(out))


def _missing(published: list[Record], due: dict[str, list[Record]], gap: int) -> list[Record] | None:
    """The ``gap`` records before the first of ``published``; None if the outboxes do not prove them."""
    if gap == 0:
        return []
    sure: list[list[Record]] = []
    perhaps: list[list[Record]] = []
    for agent_id, records in due.items():
        later = next((record["ref"] for record in published if record["agent_id"] == agent_id), None)
        if later is None:
            perhaps.append(records)
        else:
            sure.append([record for record in records if record["ref"] < later])
    certain, more = in_order(sure), in_order(perhaps)
    if len(certain) >= gap:  # some may belong to a later gap: their times decide
        return certain[:gap]
    both = in_order([certain, more[: gap - len(certain)]])
    return both if len(both) == gap else None


def in_order(digests: Iterable[list[Record]]) -> list[Record]:
    """The digests of several agents in the order of publishing; each agent's own order is kept."""
    return list(heapq.merge(*digests, key=lambda record: (record["at"], record["agent_id"])))


def _follows(record: Record, missing: list[Record], due: dict[str, list[Record]]) -> bool:
    """Whether the record is the next one of its agent's outbox after the missing records."""
    records = due.get(record["agent_id"])
    if records is None:
        return True
    rest = [digested for digested in records if digested not in missing]
    keys = ("ref", "type", "at", "epoch", "task_id", "by")
    return bool(rest) and all(rest[0].get(key) == record.get(key) for key in keys)


def _rest(published: list[Record], due: dict[str, list[Record]], written: int) -> list[bytes]:
    """The published records of all agents after the end of the old numbers, published again."""
    if not published:
        return []
    upto: dict[str, int] = {}
    for record in published:
        upto[record["agent_id"]] = record["ref"]
    again = [
        {key: value for key, value in record.items() if key not in ("v", "seq", "mac", "crc", "line")}
        for record in published
        if record["agent_id"] not in due
    ]
    new = [[record for record in due[agent_id] if record["ref"] <= upto.get(agent_id, 0)] for agent_id in due]
    return [encode(record, seq)[1] for seq, record in enumerate(in_order([again, *new]), written + 1)]
