"""Reads a log as one, however many files it has: the whole log, the records after a seq, the last records.

Never writes. ``since`` and ``tail`` read an `OpenLog`; ``read_all`` and ``page`` open one for a moment, also while
the daemon appends and rotates: they see the log as it was when they began, or a little more.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os.path import samestat
from pathlib import Path
from typing import NamedTuple

from orchestrator.journal import segments
from orchestrator.journal.file_scan import (
    LogFile,
    last_lines,
    last_newline,
    last_seq,
    line_blocks,
    lines_after,
    seq_at,
)
from orchestrator.journal.log_lines import Record
from orchestrator.journal.project_files import failure
from orchestrator.journal.syscalls import REAL, SysIO
from orchestrator.trust.seals import Seal

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe in the place of a log is not waited for
NAMES_CHANGE = 5  # how often names are looked up again, that a rotation changes while they are looked up


class OpenLog(NamedTuple):
    """A log to read from: the first seqs of its ``full`` files, and the open one that follows them.

    ``path`` is the name of the live file, which ``last`` is or was.
    """

    path: Path
    full: Sequence[int]
    last: LogFile


@contextmanager
def opened(log: OpenLog, first: int) -> Iterator[LogFile]:
    """The file of the log that begins with seq ``first``: one of ``full``, or the last.

    Raises ``Corrupt`` when it is gone, ``OSError``.
    """
    last = log.last
    if first == last.first:
        yield last
        return
    io, name = last.io, segments.full_path(log.path, first)
    try:
        fd = io.open(name, READ)
    except FileNotFoundError:
        raise segments.gone(name, first) from None
    try:
        yield LogFile(io, fd, name, last.types, first, io.fstat(fd).st_size, last.seal)
    finally:
        io.close(fd)


def _next_file(log: OpenLog, index: int, file: LogFile, next_seq: int) -> OpenLog:
    """The file ``index`` of the log, which follows ``file`` and must begin with ``next_seq``.

    Raises ``Corrupt`` unless ``file`` ends with a whole line and the next file begins with that seq.
    """
    if file.end and file.io.pread(file.fd, 1, file.end - 1) != b"\n":
        raise segments.torn(file.path, next_seq - file.first + 1, next_seq)
    if index == len(log.full) and log.last.path == log.path:
        # What the live file begins with is not in its name: its first line is judged.
        last = log.last._replace(first=next_seq)
        if last.end and seq_at(last.io, last.fd, 0) != next_seq:
            deque(last.decode(next(line_blocks(last))[:1], next_seq))
        return log._replace(last=last)
    first = _first_of(log, index)
    if next_seq != first:
        raise segments.misplaced(_path_of(log, first), first, next_seq)
    return log


def _first_of(log: OpenLog, index: int) -> int:
    return log.full[index] if index < len(log.full) else log.last.first


def _index_of(log: OpenLog, seq: int) -> int:
    """Which file of the log, in order, holds the record with that seq, if there is one."""
    if seq >= log.last.first:
        return len(log.full)
    index = bisect_right(log.full, seq) - 1
    if index < 0:
        first = _first_of(log, 0)
        raise segments.misplaced(_path_of(log, first), first, 1)
    return index


def _path_of(log: OpenLog, first: int) -> Path:
    return log.last.path if first == log.last.first else segments.full_path(log.path, first)


class FoundLines(NamedTuple):
    """Records, and the line of each without its newline."""

    records: list[Record]
    lines: list[bytes]


def records_after(log: OpenLog, seq: int, limits: tuple[int, int]) -> list[Record]:
    """Records with a greater seq, at most ``limits`` = (records, bytes) of them, but at least one if there is one.

    Raises ``Corrupt`` with file and line, ``OSError``.
    """
    return lines_after_seq(log, seq, limits).records


def lines_after_seq(log: OpenLog, seq: int, limits: tuple[int, int]) -> FoundLines:
    """As ``records_after``, with the lines."""
    max_records, max_bytes = limits
    picked = FoundLines([], [])
    if max_records <= 0:
        return picked
    records = picked.records
    _compare_accepted(log, seq + 1)
    index = _index_of(log, seq + 1)
    while True:
        with opened(log, _first_of(log, index)) as file:
            at = seq + len(records)
            room = max_records - len(records), max_bytes
            lines, next_seq, full = lines_after(file, at, room, least=0 if records else 1)
            records += file.decode(lines, at + 1)
            picked.lines.extend(lines)
            max_bytes -= sum(map(len, lines)) + len(lines)
            index += 1
            if full or index > len(log.full):
                return picked
            log = _next_file(log, index, file, next_seq)


def last_records(log: OpenLog, end_seq: int, limits: tuple[int, int]) -> list[Record]:
    """The last records up to ``end_seq`` in order, at most ``limits`` = (records, bytes), but at least one if any.

    Raises ``Corrupt`` with file and line, ``OSError``.
    """
    max_records, max_bytes = limits
    records: list[Record] = []
    _compare_accepted(log, end_seq - max_records + 1)
    for index in range(len(log.full), -1, -1):
        first = _first_of(log, index)
        wanted = min(max_records - len(records), end_seq)
        if wanted <= 0:
            break
        with opened(log, first) as file:
            lines = last_lines(file, end_seq, (wanted, max_bytes), least=0 if records else 1)
            if not lines and end_seq >= first and not (records and file.end):
                raise segments.torn(file.path, 1, first)
            records = [*file.decode(lines, end_seq - len(lines) + 1), *records]
        max_bytes -= sum(map(len, lines)) + len(lines)
        end_seq -= len(lines)
        if end_seq >= first:  # a limit ended the search
            break
    return records


def all_records(log: OpenLog, seq: int = 0, segment: int = 1, offset: int = 0) -> Iterator[Record]:
    """Every record after ``seq`` in all files, verified.

    The first is at ``offset`` of the file that begins with the seq ``segment``, or in the next file.
    Raises ``Corrupt`` with file and line, ``OSError``.
    """
    _compare_accepted(log, seq + 1)
    for file, lines in _all_lines(log, seq, segment, offset):
        yield from file.decode(lines, seq + 1)
        seq += len(lines)


def _all_lines(
    log: OpenLog, seq: int = 0, segment: int = 1, offset: int = 0
) -> Iterator[tuple[LogFile, list[bytes]]]:
    index = _index_of(log, segment)
    while True:
        with opened(log, _first_of(log, index)) as file:
            for lines in line_blocks(file, offset):
                yield file, lines
                seq += len(lines)
            index, offset = index + 1, 0
            if index > len(log.full):
                return
            log = _next_file(log, index, file, seq + 1)


def _compare_accepted(log: OpenLog, seq: int) -> None:
    """Before a record from ``seq`` on is read: find out, once per seal, whether the log begins as it was accepted.

    If it does not, each of its lines needs the MAC. Nothing is read of a log that was not taken over, nor before
    somebody asks for accepted lines: a log that is opened from a checkpoint was compared when those were folded.
    """
    seal = log.last.seal
    if seal is not None and seal.trusted_seq is None and seal.accepts(seq):
        seal.trusted_seq = seal.accepted_count(line for _, lines in _all_lines(log) for line in lines)


@contextmanager
def _looked_at(path: Path, types: frozenset[str], io: SysIO, seal: Seal | None = None) -> Iterator[OpenLog]:
    """The log as it is now, for a reader without the daemon; what follows its last newline is ignored."""
    fd = -1
    try:
        fd, name, firsts = _newest(path, io)
        end = last_newline(io, fd, io.fstat(fd).st_size) if fd >= 0 else 0
        first = firsts[-1] if name != path else _first_of_live(path, fd, end, firsts, io)
        yield OpenLog(path, firsts[: bisect_left(firsts, first)], LogFile(io, fd, name, types, first, end, seal))
    except OSError as error:
        raise failure(path, error) from error
    finally:
        _close(fd, io)


def _newest(path: Path, io: SysIO) -> tuple[int, Path, list[int]]:
    """The last file of the log, opened (-1: there is none), its name, and the first seqs of the full files."""
    for _ in range(NAMES_CHANGE):
        # The live file before the listing: every file before it was renamed when it was made, so none is missed.
        fd, name = _open_if_there(path, io), path
        try:
            firsts = segments.full_firsts(path, io)
            if fd < 0 and firsts:
                name = segments.full_path(path, firsts[-1])
                fd = _open_if_there(name, io)
            # Without a live file, the last full one may have got that name back before it was listed.
            settled = (name == path and fd >= 0) or not _is_there(path, io)
        except BaseException:
            _close(fd, io)
            raise
        if settled and (fd >= 0 or not firsts):
            return fd, name, firsts
        _close(fd, io)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def _is_there(path: Path, io: SysIO) -> bool:
    try:
        io.stat(path)
    except FileNotFoundError:
        return False
    return True


def _close(fd: int, io: SysIO) -> None:
    if fd >= 0:
        io.close(fd)


def _open_if_there(path: Path, io: SysIO) -> int:
    try:
        return io.open(path, READ)
    except FileNotFoundError:
        return -1


def _first_of_live(path: Path, fd: int, end: int, firsts: list[int], io: SysIO) -> int:
    """The seq that the opened live file begins with, or must begin with if its first line cannot be read."""
    if not firsts:
        return 1
    first = seq_at(io, fd, 0) if end else None
    if first is not None and first > firsts[-1]:
        return first
    if first in firsts and _is_named(fd, segments.full_path(path, first), io):
        return first  # renamed since it was opened
    before = io.open(segments.full_path(path, firsts[-1]), READ)
    try:
        return (last_seq(io, before, io.fstat(before).st_size) or firsts[-1]) + 1
    finally:
        io.close(before)


def _is_named(fd: int, name: Path, io: SysIO) -> bool:
    """Whether the open file has that name; also if nothing has it any more: a rotation was undone meanwhile."""
    try:
        return samestat(io.fstat(fd), io.stat(name))
    except FileNotFoundError:
        return True


def read_all(path: Path, types: frozenset[str], io: SysIO = REAL, *, seal: Seal | None = None) -> Iterator[Record]:
    """Every record of a log, for when no daemon runs; what follows the last newline is ignored.

    Raises ``Corrupt`` at the first bad line, ``Environment`` when a file cannot be read, or (foreign_data) at the
    first line without the MAC of ``seal``; a missing log is empty.
    """
    with _looked_at(path, types, io, seal) as log:
        yield from all_records(log)


def page(
    path: Path,
    types: frozenset[str],
    seq: int,
    limits: tuple[int, int],
    io: SysIO = REAL,
    *,
    seal: Seal | None = None,
) -> list[Record]:
    """As ``records_after``, for a log that no process has open; never writes, and ignores an unfinished last line."""
    with _looked_at(path, types, io, seal) as log:
        return records_after(log, seq, limits)


def place(path: Path, seq: int, io: SysIO = REAL) -> tuple[Path, int]:
    """File and line of the record with that seq, for a message; raises ``Environment`` and ``Corrupt``."""
    with _looked_at(path, frozenset(), io) as log:
        first = _first_of(log, _index_of(log, seq))
        return _path_of(log, first), seq - first + 1
