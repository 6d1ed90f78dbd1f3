"""Reads logs without an index: the whole log in blocks, the records after a seq, the last records.

Never writes. ``end`` is always the byte offset behind the last newline a reader may see; the cost of
``records_after`` and ``last_records`` depends on what they return, not on the length of the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from orchestrator.errors import Corrupt, Environment
from orchestrator.store.files import failure
from orchestrator.store.lines import HEAD_BYTES, SEQ_AT_START, Record, decode
from orchestrator.store.sysio import REAL, SysIO

FOLD_BLOCK = 1 << 20
NEAR = 16 << 10  # the bisection stops at a stretch this short and the rest is read in order
PROBE = 512


class OpenLog(NamedTuple):
    """An open log file and what is needed to read it."""

    io: SysIO
    fd: int
    types: frozenset[str]
    path: Path


def last_newline(io: SysIO, fd: int, size: int) -> int:
    """The offset behind the last newline in the first ``size`` bytes; 0 when there is none."""
    at = size
    while at > 0:
        begin = max(0, at - FOLD_BLOCK)
        newline = io.pread(fd, at - begin, begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        at = begin
    return 0


def line_blocks(io: SysIO, fd: int, end: int) -> Iterator[list[bytes]]:
    """All lines before ``end`` in order, without their newlines, in lists of about a MiB."""
    rest = b""
    at = 0
    while at < end:
        block = io.pread(fd, min(FOLD_BLOCK, end - at), at)
        if not block:
            break
        at += len(block)
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        yield lines


def read_all(path: Path, types: frozenset[str], io: SysIO = REAL) -> Iterator[Record]:
    """Every record of a log, for when no daemon runs; what follows the last newline is ignored.

    Raises ``Corrupt`` at the first bad line, ``Environment("io_failed")`` when the file cannot be read;
    a missing file is an empty log.
    """
    try:
        fd = io.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Environment("io_failed", f"{path}: {error.strerror}", file=str(path)) from error
    try:
        seq = 1
        for lines in line_blocks(io, fd, last_newline(io, fd, io.fstat(fd).st_size)):
            yield from decode(lines, seq, types, path)
            seq += len(lines)
    except OSError as error:
        raise Environment("io_failed", f"{path}: {error.strerror}", file=str(path)) from error
    finally:
        io.close(fd)


def _line_start_from(log: OpenLog, offset: int, end: int) -> tuple[int, bytes] | None:
    """The first line that starts at or behind ``offset`` and before ``end``: its offset and first bytes."""
    at, step = offset - 1, PROBE  # the byte before `offset` may be the newline
    while at < end:
        block = log.io.pread(log.fd, min(step, end - at), at)
        if not block:
            return None
        newline = block.find(b"\n")
        if newline >= 0:
            start = at + newline + 1
            if start >= end:
                return None
            head = block[newline + 1 : newline + 1 + HEAD_BYTES]
            return start, head if len(head) == HEAD_BYTES else log.io.pread(log.fd, HEAD_BYTES, start)
        at += len(block)
        step = min(step * 4, FOLD_BLOCK)  # a long line: hundreds of KiB are legal
    return None


def _offset_near(log: OpenLog, seq: int, end: int) -> tuple[int, int]:
    """Offset and seq of a line at or shortly before the line of ``seq``, by bisection over byte offsets."""
    low, low_seq, high = 0, 1, end
    while high - low > NEAR:
        middle = (low + high) // 2
        found = _line_start_from(log, middle, high)
        if found is None:
            high = middle
            continue
        start, head = found
        match = SEQ_AT_START.match(head)
        if match is None:
            cause = "a line does not start as orchestrator writes it; the file was changed while in use"
            raise Corrupt("corrupt_log", f"{log.path}, offset {start}: {cause}", file=str(log.path), offset=start)
        if (start_seq := int(match[1])) <= seq:
            low, low_seq = start, start_seq
        else:
            high = middle
    return low, low_seq


def records_after(log: OpenLog, seq: int, end: int, limits: tuple[int, int]) -> list[Record]:
    """Records with a greater seq, at most ``limits`` = (records, bytes) of them, but at least one if there is one."""
    max_records, max_bytes = limits
    if max_records <= 0:
        return []
    at, line_seq = _offset_near(log, seq + 1, end)
    picked: list[bytes] = []
    total, rest, step = 0, b"", NEAR
    full = False
    while at < end and not full:
        block = log.io.pread(log.fd, min(step, end - at), at)
        if not block:
            break
        at += len(block)
        step = min(step * 2, FOLD_BLOCK)
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        for line in lines:
            if line_seq > seq:
                total += len(line) + 1
                if picked and total > max_bytes:
                    full = True
                    break
                picked.append(line)
                if len(picked) >= max_records or total >= max_bytes:
                    full = True
                    break
            line_seq += 1
    return list(decode(picked, seq + 1, log.types, log.path))


def last_records(log: OpenLog, end_seq: int, end: int, limits: tuple[int, int]) -> list[Record]:
    """The last records before ``end`` in order, at most ``limits`` = (records, bytes), but at least one if any."""
    max_records, max_bytes = limits
    count = min(max_records, end_seq)
    if count <= 0:
        return []
    start, tail, step = end, b"", NEAR
    # One newline more than lines wanted shows where the first of them starts.
    while start > 0 and tail.count(b"\n") <= count and not (len(tail) > max_bytes and tail.count(b"\n") > 1):
        begin = max(0, start - step)
        tail = log.io.pread(log.fd, start - begin, begin) + tail
        start, step = begin, min(step * 2, FOLD_BLOCK)
    lines = tail.split(b"\n")[:-1]
    if start > 0:
        del lines[0]  # its beginning is not in `tail`
    lines = lines[-count:]
    total = 0
    for picked, line in enumerate(reversed(lines)):
        total += len(line) + 1
        if picked and total > max_bytes:
            lines = lines[-picked:]
            break
    return list(decode(lines, end_seq - len(lines) + 1, log.types, log.path))


def page(path: Path, types: frozenset[str], seq: int, limits: tuple[int, int], io: SysIO = REAL) -> list[Record]:
    """As ``records_after`` for a log nobody has open; never writes, ignores what follows the last newline."""
    try:
        fd = io.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise failure(path, error) from error
    try:
        end = last_newline(io, fd, io.fstat(fd).st_size)
        return records_after(OpenLog(io, fd, types, path), seq, end, limits) if end else []
    finally:
        io.close(fd)
