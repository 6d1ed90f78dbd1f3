"""Reads what is left of a damaged log: every intact record, and which numbers are missing. Never writes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from orchestrator.base.errors import Corrupt, OrchestratorError
from orchestrator.core.state import TASK_RECORDS
from orchestrator.journal.log_lines import Record, intact
from orchestrator.journal.log_reader import READ, read_all
from orchestrator.journal.log_rewrite import files_of

ODD = "?"
OF_A_TASK = TASK_RECORDS | {"task", "cancel"}


class LogGap(NamedTuple):
    """Records that a reader of a log does not have, from ``first_seq`` to ``last_seq`` (None: to an unknown end).

    ``log`` is the path of the log, ``why`` a sentence for people.
    """

    log: str
    first_seq: int
    last_seq: int | None
    why: str


class Salvaged(NamedTuple):
    """The intact records of a log in the order of their numbers, and what is missing between and after them."""

    records: list[Record]
    gaps: list[LogGap]


def salvaged(path: Path, types: frozenset[str], keep: Callable[[Record], Record], log: str = "") -> Salvaged:
    """All of the log that can be read; never raises for a damaged or unreadable one.

    ``keep`` makes of each record what is kept of it, so that large payloads need not stay in memory; ``log`` is the
    name of the log in the gaps. A ``lost`` record, which replaces a damaged line, is a gap too.
    """
    name = log or str(path)
    try:
        records = [keep(record) if _has_its_keys(record) else _odd(record) for record in read_all(path, types)]
    except OrchestratorError as error:
        return _pieces(path, types, keep, name, error)
    return _told_apart(records, name)


def _pieces(
    path: Path, types: frozenset[str], keep: Callable[[Record], Record], name: str, error: OrchestratorError
) -> Salvaged:
    why = str(error.facts.get("cause") or error.message)
    by_seq: dict[int, Record] = {}
    bad_at_end = True
    try:
        for file in files_of(path):
            for line in _lines(file):
                record = _record(line, types, file)
                bad_at_end = record is None
                if record is not None:
                    by_seq.setdefault(record["seq"], keep(record) if _has_its_keys(record) else _odd(record))
    except OSError as failed:
        why, bad_at_end = failed.strerror or str(failed), True
    records, gaps = _told_apart([by_seq[seq] for seq in sorted(by_seq)], name)
    due = 1
    for record in sorted(by_seq.values(), key=lambda record: int(record["seq"])):
        if record["seq"] > due:
            gaps.append(LogGap(name, due, record["seq"] - 1, why))
        due = record["seq"] + 1
    if bad_at_end:
        gaps.append(LogGap(name, due, None, why))
    return Salvaged(records, sorted(gaps, key=lambda gap: gap.first_seq))


def _told_apart(records: list[Record], name: str) -> Salvaged:
    """The records that say something, and as gaps those that stand for damage or are not in the form of a record."""
    gaps = []
    for record in records:
        if record["type"] == "lost":
            kept = record.get("quarantined") or "a quarantined file"
            gaps.append(LogGap(name, record["seq"], record["seq"], f"a damaged line was here; it is kept in {kept}"))
        elif record["type"] == ODD:
            gaps.append(LogGap(name, record["seq"], record["seq"], "the record has not the keys of its type"))
    return Salvaged([record for record in records if record["type"] not in ("lost", ODD)], gaps)


def _odd(record: Record) -> Record:
    return {"seq": record["seq"], "type": ODD}


def _has_its_keys(record: Record) -> bool:
    """Whether time, epoch, task and attempt have the types of our records: a foreign log may hold anything."""
    task_id = record.get("task_id")
    try:
        datetime.fromisoformat(record["at"])
        return (
            record["at"].endswith("Z")
            and type(record["epoch"]) is int
            and (isinstance(task_id, str) or (task_id is None and record["type"] not in OF_A_TASK))
            and type(record.get("attempt", 1)) is int
        )
    except (KeyError, ValueError, TypeError):
        return False


def _record(line: bytes, types: frozenset[str], file: Path) -> Record | None:
    try:
        return intact(line, types, file)
    except Corrupt:  # of a newer version
        return None


def _lines(file: Path) -> list[bytes]:
    """The whole lines of a regular file; what follows the last newline is not one yet."""
    fd = os.open(file, READ)
    with open(fd, "rb") as opened:  # noqa: PTH123 - a descriptor
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return []
        return opened.read().split(b"\n")[:-1]
