"""Opens a log for its writer: finds its files, verifies its records, repairs the end that a crash left.

May cut a torn tail off the live file (kept in ``<name>.torn``), write the end of it again, and give the last full
file the live name back when a rotation was interrupted; otherwise only reads.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from orchestrator.journal import segments
from orchestrator.journal.file_scan import LogFile, last_newline, seq_at
from orchestrator.journal.live_segment import CREATE, FLAGS, LiveSegment
from orchestrator.journal.log_lines import Record
from orchestrator.journal.log_reader import OpenLog, all_records
from orchestrator.journal.positions import START, Position, WrongPosition, check
from orchestrator.journal.project_files import failure
from orchestrator.journal.syscalls import SysIO
from orchestrator.trust.seals import Seal

# How much of the end of a log may be unsynced at once, and is written again after an unclean stop.
TAIL_BYTES = 256 << 10


class TornTail(NamedTuple):
    """What ``Journal.open`` cut off: ``cut_bytes`` bytes from ``offset`` of the live file, kept in ``kept_in``."""

    offset: int
    cut_bytes: int
    kept_in: Path


class OpenedLog(NamedTuple):
    """An opened log: its live file, the first seqs of its full files, its end, and what was cut off."""

    live: LiveSegment
    full: list[int]
    end: Position
    repaired: TornTail | None


def open_log(
    io: SysIO,
    path: Path,
    types: frozenset[str],
    *,
    clean: bool,
    syncs: bool,
    create: bool,
    start: Position,
    rest: bool,
    on_record: Callable[[Record], None] | None,
    seal: Seal | None = None,
) -> OpenedLog:
    """As ``Journal.open``, which names the arguments and the errors; leaves no descriptor open when it raises."""
    fd = -1
    start = start if start.seq else START
    try:
        full = segments.full_firsts(path, io)
        if rest and (resting := _at_rest(io, path, full, start)) is not None:
            return OpenedLog(resting, full, start, None)
        fd, created = _live(io, path, full, create=create, start=start)
        last = LogFile(io, fd, path, types, 0, io.fstat(fd).st_size, seal)
        return _load(io, fd, OpenLog(path, full, last), start,
                     clean=clean or created, created=created, syncs=syncs, on_record=on_record)  # fmt: skip
    except BaseException as error:
        if fd >= 0:
            io.close(fd)
        if isinstance(error, OSError):
            raise failure(path, error) from error
        raise


def _at_rest(io: SysIO, path: Path, full: list[int], position: Position) -> LiveSegment | None:
    """The live file, not opened, if the log ends where the position says."""
    try:
        now = io.stat(path)
    except FileNotFoundError:
        return None
    last = max(full, default=0)
    is_live = position.segment > last if last else position.segment == 1
    if not (is_live and stat.S_ISREG(now.st_mode) and now.st_size == position.offset):
        return None
    # Whether its name is durable is not known here; its first sync makes sure.
    return LiveSegment(io, path, -1, position.segment, position.offset, entry_synced=False, inode=now.st_ino)


def _live(io: SysIO, path: Path, full: list[int], *, create: bool, start: Position) -> tuple[int, bool]:
    """The descriptor of the live file, and whether it was made."""
    try:
        return io.open(path, FLAGS), False
    except FileNotFoundError:
        if full:
            # A crash between the two steps of a rotation: it is undone, and done again when the time comes.
            last = segments.full_path(path, full[-1])
            if not io.stat(last).st_size:
                raise segments.torn(last, 1, full[-1]) from None
            io.rename(last, path)
            full.pop()
            return io.open(path, FLAGS), False
        if start.seq:
            raise WrongPosition(path, start, cut=True) from None
        if not create:
            raise
    return io.open(path, CREATE, 0o600), True


def _load(
    io: SysIO,
    fd: int,
    log: OpenLog,
    start: Position,
    *,
    clean: bool,
    created: bool,
    syncs: bool,
    on_record: Callable[[Record], None] | None,
) -> OpenedLog:
    path, size = log.path, log.last.end
    check(log, start)
    newest = max(log.full, default=0)
    in_live = start.segment > newest
    nothing_new = bool(start.seq) and in_live and start.offset == size
    end = size if nothing_new else _end_of_lines(io, fd, size, clean=clean)
    last = log.last._replace(first=start.segment if in_live else newest + 1, end=end)
    seq, crc = start.seq, start.crc
    for record in all_records(log._replace(last=last), seq, start.segment, start.offset):
        if on_record is not None:
            on_record(record)
        seq += 1
        crc = record["crc"]
    # No name says which seq the live file begins with: its first line does, which was verified above.
    first = (seq_at(io, fd, 0) if end else None) or seq + 1
    repaired = _cut(io, fd, path, end, size) if end < size else None
    trusted = nothing_new or (clean and repaired is None)
    if syncs and not trusted:
        _rewrite_tail(io, fd, path, max(end - TAIL_BYTES, start.offset if in_live else 0, 0), end)
    live = LiveSegment(io, path, fd, first, end, entry_synced=not created and not nothing_new)
    if end:
        place = Position(seq, first, end, crc)
    elif log.full:
        place = Position(seq, newest, io.stat(segments.full_path(path, newest)).st_size, crc)
    else:
        place = START
    return OpenedLog(live, list(log.full), place, repaired)


def _end_of_lines(io: SysIO, fd: int, size: int, *, clean: bool) -> int:
    end = last_newline(io, fd, size)
    if end and not clean:
        # Blocks that never reached the disk read as NULs, and may carry the newline of a last line with
        # them: torn, not damaged. Two NULs, because no single flipped bit in a good line makes two.
        begin = last_newline(io, fd, end - 1)
        if b"\0\0" in io.pread(fd, end - begin, begin):
            return begin
    return end


def _cut(io: SysIO, fd: int, path: Path, end: int, size: int) -> TornTail:
    kept_in = path.with_name(path.name + ".torn")
    torn_fd = io.open(kept_in, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW)
    try:
        at, torn_offset = end, io.fstat(torn_fd).st_size
        while at < size:
            block = io.pread(fd, min(1 << 20, size - at), at)
            if not block:
                break
            wrote = io.pwrite(torn_fd, block, torn_offset)
            if not wrote:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            at += wrote
            torn_offset += wrote
        io.fdatasync(torn_fd)
    finally:
        io.close(torn_fd)
    io.ftruncate(fd, end)
    return TornTail(end, size - end, kept_in)


def _rewrite_tail(io: SysIO, fd: int, path: Path, start: int, end: int) -> None:
    at = start
    while at < end:
        block = io.pread(fd, end - at, at)
        wrote = io.pwrite(fd, block, at)
        if not wrote:
            raise OSError(errno.EIO, "the tail of the log cannot be written again")
        at += wrote
    io.fdatasync(fd)
    # The stop may have come between the creation of the file and the sync of its directory entry.
    io.fsync_dir(path.parent)
