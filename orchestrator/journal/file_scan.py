"""Reads one file of a log without an index: all lines in blocks, the lines after a seq, the last lines.

Never writes, and opens nothing. The cost of ``lines_after`` and ``last_lines`` depends on what they return, not on
the length of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from orchestrator.base.errors import Corrupt
from orchestrator.journal.log_lines import HEAD_BYTES, SEQ_AT_START, Record, decode
from orchestrator.journal.syscalls import SysIO
from orchestrator.trust.seals import Seal

FOLD_BLOCK = 1 << 20
NEAR = 16 << 10  # the bisection stops at a stretch this short and the rest is read in order
PROBE = 512


class LogFile(NamedTuple):
    """An open file of a log.

    ``first`` is the seq of its first record, ``end`` the offset after the last newline that a reader may see. With a
    ``seal`` only lines with its MAC count.
    """

    io: SysIO
    fd: int
    path: Path
    types: frozenset[str]
    first: int
    end: int
    seal: Seal | None = None

    def decode(self, lines: list[bytes], seq: int) -> Iterator[Record]:
        """The records of some lines of this file, the first of which must have ``seq``; ``Corrupt`` at a bad line."""
        return decode(lines, seq, self.types, self.path, self.first, seal=self.seal)


class PickedLines(NamedTuple):
    """Lines of one file, the seq after the last line that was read, and whether a limit ended the search."""

    lines: list[bytes]
    next_seq: int
    full: bool


def last_newline(io: SysIO, fd: int, size: int) -> int:
    """The offset after the last newline in the first ``size`` bytes; 0 if there is none."""
    at, step = size, NEAR
    while at > 0:
        begin = max(0, at - step)
        newline = io.pread(fd, at - begin, begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        at, step = begin, min(step * 4, FOLD_BLOCK)
    return 0


def seq_at(io: SysIO, fd: int, offset: int) -> int | None:
    """The seq of the line that starts at ``offset``; None if no valid line does."""
    match = SEQ_AT_START.match(io.pread(fd, HEAD_BYTES, offset))
    return int(match[1]) if match else None


def last_seq(io: SysIO, fd: int, size: int) -> int | None:
    """The seq of the last whole line in the first ``size`` bytes; 0 without a line, None if it is not valid."""
    end = last_newline(io, fd, size)
    return seq_at(io, fd, last_newline(io, fd, end - 1)) if end else 0


def line_blocks(file: LogFile, start: int = 0) -> Iterator[list[bytes]]:
    """All lines from offset ``start`` on in order, without their newlines, in lists of about a MiB."""
    rest = b""
    at = start
    while at < file.end:
        block = file.io.pread(file.fd, min(FOLD_BLOCK, file.end - at), at)
        if not block:
            break
        at += len(block)
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        yield lines


def _line_start_from(file: LogFile, offset: int, end: int) -> tuple[int, bytes] | None:
    """The first line that starts at or after ``offset`` and before ``end``: its offset and first bytes."""
    at, step = offset - 1, PROBE  # the byte before `offset` may be the newline
    while at < end:
        block = file.io.pread(file.fd, min(step, end - at), at)
        if not block:
            return None
        newline = block.find(b"\n")
        if newline >= 0:
            start = at + newline + 1
            if start >= end:
                return None
            head = block[newline + 1 : newline + 1 + HEAD_BYTES]
            return start, head if len(head) == HEAD_BYTES else file.io.pread(file.fd, HEAD_BYTES, start)
        at += len(block)
        step = min(step * 4, FOLD_BLOCK)  # a long line: hundreds of KiB are legal
    return None


def _offset_near(file: LogFile, seq: int) -> tuple[int, int]:
    """Offset and seq of a line at or shortly before the line of ``seq``, by bisection over byte offsets."""
    low, low_seq, high = 0, file.first, file.end
    while high - low > NEAR:
        middle = (low + high) // 2
        line_start = _line_start_from(file, middle, high)
        if line_start is None:
            high = middle
            continue
        start, head = line_start
        match = SEQ_AT_START.match(head)
        if match is None:
            cause = "a line does not start as orchestrator writes it; the file was changed while in use"
            raise Corrupt("corrupt_log", f"{file.path}, offset {start}: {cause}", file=str(file.path), offset=start)
        if (start_seq := int(match[1])) <= seq:
            low, low_seq = start, start_seq
        else:
            high = middle
    return low, low_seq


def lines_after(file: LogFile, seq: int, limits: tuple[int, int], *, least: int) -> PickedLines:
    """Lines of greater seqs, at most ``limits`` = (lines, bytes) of them, but at least ``least`` (0 or 1) if any."""
    max_lines, max_bytes = limits
    at, line_seq = _offset_near(file, seq + 1)
    picked: list[bytes] = []
    total, rest, step = 0, b"", NEAR
    while at < file.end:
        block = file.io.pread(file.fd, min(step, file.end - at), at)
        if not block:
            break
        at += len(block)
        step = min(step * 2, FOLD_BLOCK)
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        for line in lines:
            if line_seq > seq:
                total += len(line) + 1
                if len(picked) >= least and total > max_bytes:
                    return PickedLines(picked, line_seq, True)
                picked.append(line)
                if len(picked) >= max_lines or total >= max_bytes:
                    return PickedLines(picked, line_seq + 1, True)
            line_seq += 1
    return PickedLines(picked, line_seq, False)


def last_lines(file: LogFile, end_seq: int, limits: tuple[int, int], *, least: int) -> list[bytes]:
    """The last lines up to ``end_seq`` in order, at most ``limits`` = (lines, bytes), but at least ``least``."""
    max_lines, max_bytes = limits
    count = min(max_lines, end_seq - file.first + 1)
    if count <= 0:
        return []
    start, tail, step = file.end, b"", NEAR
    # One newline more than lines wanted shows where the first of them starts.
    while start > 0 and tail.count(b"\n") <= count and not (len(tail) > max_bytes and tail.count(b"\n") > 1):
        begin = max(0, start - step)
        tail = file.io.pread(file.fd, start - begin, begin) + tail
        start, step = begin, min(step * 2, FOLD_BLOCK)
    lines = tail.split(b"\n")[:-1]
    if start > 0:
        del lines[0]  # its beginning is not in `tail`
    lines = lines[-count:]
    total = 0
    for picked, line in enumerate(reversed(lines)):
        total += len(line) + 1
        if picked >= least and total > max_bytes:
            return lines[len(lines) - picked :]
    return lines
