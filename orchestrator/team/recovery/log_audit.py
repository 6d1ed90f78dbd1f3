"""Reads every log of a project line by line, independently of the product's readers, and reports each faulty line.

For `verification` only. It uses json, zlib and the record models, not the product's own readers: a fault shared by
writer and reader would stay hidden. Never writes, takes no lock, and may run beside the daemon.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import TypeAdapter, ValidationError

from orchestrator.base.errors import Environment
from orchestrator.core.invariants import AuditedLog, AuditedRecord, Violation
from orchestrator.core.record_types import BROADCAST_TYPES
from orchestrator.core.schemas import SCHEMAS

COLLECTED = "collected.json"  # what gc leaves of an agent whose data it removed
MIRROR = "mirror.json"  # names the owner of another host's agent, of which these are copies
SET_ASIDE = re.compile(r"\.|.+\.fenced-[0-9]+\Z")  # being made or dropped, or of an agent that has moved away
QUARANTINE = re.compile(r"\.quarantine-")
_LOOKS = 100
_SEAL = re.compile(rb',"crc":"([0-9a-f]{8})"\}\Z')


@dataclass
class Evidence:
    """What was found so far: violations, notes for the reader, and how many records were good."""

    live: bool
    violations: list[Violation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    records: int = 0

    def read(
        self, directory: Path, name: str, *, agent: str | None = None, run: str | None = None
    ) -> AuditedLog | None:
        """The log ``name`` (inbox, outbox, broadcast) of a directory; None when it has no file at all.

        Segments and the live file are read as one log. A last line without its end is left out: it was never
        shown to anybody.
        """
        place = directory / f"{name}.jsonl"
        reading = _Reading(self, place, SCHEMAS[name], agent, run)
        with contextlib.ExitStack() as opened:
            files = _open_all(directory, name, opened)
            if not files:
                return None
            for path, file in files:
                reading.file(path, file, last=path is files[-1][0])
        return AuditedLog(str(place), reading.lines, reading.whole)

    def set_aside(self, directory: Path) -> set[str]:
        """The names of logs that doctor has moved out of the way, with a note for each; and for each torn line."""
        names = set()
        for path in sorted(directory.iterdir()):
            if QUARANTINE.search(path.name):
                names.add(path.name.partition(".")[0])
                self.notes.append(f"{path}: a damaged log, set aside; its records cannot be checked")
            elif path.suffix == ".torn":
                self.notes.append(f"{path}: an unfinished last line, kept after a crash; no reader ever saw it")
        return names


def _open_all(directory: Path, name: str, opened: contextlib.ExitStack) -> list[tuple[Path, BinaryIO]]:
    """The files of a log in order. The live file is opened first: one that is renamed meanwhile is known again."""
    live = directory / f"{name}.jsonl"
    form = re.compile(rf"{name}\.\d{{12}}\.jsonl\Z")
    current, files = None, []
    try:
        for _ in range(_LOOKS):
            current = _opened(live, opened)
            segments = sorted(path for path in directory.iterdir() if form.fullmatch(path.name))
            files = [(path, file) for path in segments if (file := _opened(path, opened)) is not None]
            if current is not None or not live.exists():
                break  # else it had lost its name for a moment, and may have got it back
    except FileNotFoundError:
        return []  # its directory was removed this moment
    except OSError as error:
        raise Environment("io_failed", f"{error.filename}: {error.strerror}", file=str(error.filename)) from error
    if current is None:
        return files
    mine = os.fstat(current.fileno())
    renamed = any(os.path.samestat(os.fstat(file.fileno()), mine) for _, file in files)
    return files if renamed else [*files, (live, current)]


def _opened(path: Path, opened: contextlib.ExitStack) -> BinaryIO | None:
    try:
        return opened.enter_context(path.open("rb"))
    except FileNotFoundError:
        return None


class _Reading:
    """One log on its way into lines."""

    def __init__(
        self, into: Evidence, place: Path, model: TypeAdapter[Any], agent: str | None, run: str | None
    ) -> None:
        self.into, self.place, self.model, self.agent, self.run = into, place, model, agent, run
        self.lines: list[AuditedRecord] = []
        self.whole = True
        self.due = 1

    def file(self, path: Path, file: BinaryIO, *, last: bool) -> None:
        named = path.name.split(".")[-2]
        first = True
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                if not last:
                    self._wrong("bad_line", path, number, None, "the last line of a finished file has no end")
                elif not self.into.live:
                    text = f"{path}, line {number}: unfinished; no reader ever saw it, and the next start cuts it off"
                    self.into.notes.append(text)
                return
            record = self._record(path, number, line[:-1])
            if first and path != self.place and record is not None and record["seq"] != int(named):
                text = f"the file begins with record {record['seq']}"
                self._wrong("segment", path, number, record, text)
            first = False

    def _record(self, path: Path, number: int, line: bytes) -> dict[str, Any] | None:
        """The record of a line, taken into ``lines`` when it is good; None when it has no number to go by."""
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            self.due += 1
            self._wrong("bad_line", path, number, None, "it is not a JSON object")
            return None
        seal = _SEAL.search(line)
        if seal is None or f"{zlib.crc32(line[: seal.start()]):08x}".encode() != seal[1]:
            self.due += 1
            self._wrong("bad_crc", path, number, record, "its checksum is missing" if seal is None else
                        "its checksum does not fit")  # fmt: skip
            return None
        seq = record.get("seq")
        if not isinstance(seq, int):
            self.due += 1
            self._wrong("schema", path, number, record, "it has no number")
            return None
        if seq != self.due:
            kind = "seq_gap" if seq > self.due else "seq_repeat"
            self._wrong(kind, path, number, record, f"record {seq} where record {self.due} is expected")
        new = seq >= self.due
        self.due = max(seq + 1, self.due)
        if wrong := self._unfit(record):
            self._wrong(wrong[0], path, number, record, wrong[1])
        elif new:
            self.into.records += 1
            self.lines.append(_line(path, number, record))
        return record

    def _unfit(self, record: dict[str, Any]) -> tuple[str, str] | None:
        try:
            self.model.validate_python(record)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"][-1:]) or "record"
            if first["type"].startswith("union_tag") or record.get("v") != 1:
                return "unknown_record", f"type {record.get('type')!r} of version {record.get('v')!r} is unknown"
            return "schema", f"{where}: {first['msg']}"
        if self.run is not None and record["type"] not in BROADCAST_TYPES:
            return "unknown_record", f"type {record['type']!r} does not belong in a broadcast"
        return None

    def _wrong(self, kind: str, path: Path, number: int, record: dict[str, Any] | None, text: str) -> None:
        self.whole = False
        fields = record or {}
        seq, task = fields.get("seq"), fields.get("task_id")
        self.into.violations.append(
            Violation(
                kind,
                text,
                str(path),
                number,
                seq if isinstance(seq, int) else None,
                self.agent,
                task if isinstance(task, str) else None,
                self.run,
            )
        )


def _line(path: Path, number: int, record: dict[str, Any]) -> AuditedRecord:
    kind, payload = record["type"], record.get("payload")
    digested = kind in BROADCAST_TYPES  # only what is repeated in the broadcast is compared
    return AuditedRecord(
        file=str(path),
        line=number,
        seq=record["seq"],
        type=kind,
        epoch=record["epoch"],
        when=datetime.fromisoformat(record["at"]).timestamp() if kind == "restarted" else 0.0,
        at=record["at"],
        by=record.get("by", ""),
        task_id=record.get("task_id"),
        attempt=record.get("attempt"),
        req=record.get("req"),
        agent_id=record.get("agent_id"),
        ref=record.get("ref", 0),
        asked=bool(record.get("asked")),
        resume=bool(record.get("resume")),
        how=str(record.get("how") or "") if kind == "exited" else "",
        pane_closed=bool(record.get("pane_closed")),
        moved=kind == "restarted" and record.get("fence") is not None,
        duplicate=bool(record.get("duplicate")),
        unknown=kind == "cancel" and bool(record.get("ref")) and bool(record.get("unknown")),
        payload=zlib.crc32(json.dumps(payload, sort_keys=True).encode())
        if digested and payload is not None
        else None,
        payload_bytes=record.get("payload_bytes"),
        words=tuple(record.get(key) or None for key in ("reason", "kind", "until", "title")) if digested else (),
        spec={key: record[key] for key in ("run_id", "policies", "fleet") if kind == "starting" and key in record},
    )


def directories(place: Path) -> Iterator[Path]:
    """The directories below a place in order; other tools' files, links, and what was set aside are none of ours."""
    if place.is_dir():
        for path in sorted(place.iterdir()):
            if path.is_dir() and not path.is_symlink() and SET_ASIDE.match(path.name) is None:
                yield path
