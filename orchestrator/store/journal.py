"""One append-only log: append with group commit, verify and repair on open, read what is durable.

A ``Journal`` lives on the event loop of the one process that writes the file. Records appended with
``sync=True``, and everything behind them, become visible to readers only once they are on the disk.
The store knows the names of the record types and nothing else of the domain.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from orchestrator.clock import Clock, Signal, wait_until
from orchestrator.errors import Environment
from orchestrator.store.lines import Record, decode, encode
from orchestrator.store.reading import OpenLog, last_newline, last_records, line_blocks, read_all, records_after
from orchestrator.store.syncer import Syncer
from orchestrator.store.sysio import REAL, SysIO

__all__ = ["Journal", "Record", "Repair", "Syncer", "read_all"]

# How much of the end of a log may be unsynced at once, and is written again after an unclean stop.
TAIL_BYTES = 256 << 10


class Repair(NamedTuple):
    """What ``Journal.open`` cut off: ``cut_bytes`` bytes from ``offset``, appended to ``kept_in``."""

    offset: int
    cut_bytes: int
    kept_in: Path


class _End(NamedTuple):
    """A point in the log: the last record before it and its byte offset."""

    seq: int
    offset: int


class Journal:
    """An open log; make one with ``Journal.open``.

    Single-threaded: every method is called on the event loop. ``signal`` is notified whenever
    ``visible_seq`` advances; ``repaired`` is what was cut off on open, or None.
    """

    def __init__(self, path: Path, fd: int, *, syncer: Syncer, io: SysIO, types: frozenset[str], syncs: bool) -> None:
        """Wrap an open descriptor; use ``Journal.open``, which verifies the file first."""
        self.path = path
        self.signal = Signal()
        self.repaired: Repair | None = None
        self._fd = fd
        self._syncer = syncer
        self._io = io
        self._types = types
        self._log = OpenLog(io, fd, types, path)
        self._syncs = syncs
        self._written = _End(0, 0)
        self._limit = 0  # no byte behind this offset is ours
        self._synced = _End(0, 0)
        self._reached = _End(0, 0)  # what the sync now running will have made durable
        # Ends before the records that must be synced before they, and all behind them, are shown.
        self._hidden_from: deque[_End] = deque()
        self._shown_seq = 0
        self._wanted_seq = 0  # a sync must reach this seq; one is running or queued while it is not synced
        self._syncing = False
        self._entry_synced = True  # False: the file is new and its directory entry not yet durable
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._refusal: str | None = None  # why appends are refused
        self._meddled: str | None = None
        self._lost: str | None = None  # why nothing more becomes durable
        self._closed = False

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        syncer: Syncer,
        types: frozenset[str],
        io: SysIO = REAL,
        durability: Literal["fsync", "os"] = "fsync",
        clean: bool = False,
        on_record: Callable[[Record], None] | None = None,
        create: bool = True,
    ) -> Journal:
        """Open, verify and repair a log, passing each of its records to ``on_record`` once, in order.

        ``clean`` says the last writer closed the log in good order; otherwise its tail is written again
        and synced, for the page cache may show data whose sync failed. A torn tail is cut off and kept
        in ``<name>.torn``. Raises ``Corrupt`` at a bad complete line, with nothing changed on the disk
        (what ``on_record`` got before is then to be thrown away), and ``Environment`` when the system
        refuses.
        """
        flags = os.O_RDWR | os.O_NOFOLLOW
        fd = -1
        try:
            try:
                fd = io.open(path, flags)
                created = False
            except FileNotFoundError:
                if not create:
                    raise
                fd = io.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
                created = True
            journal = cls(path, fd, syncer=syncer, io=io, types=types, syncs=durability == "fsync")
            journal._entry_synced = not created
            journal._load(clean=clean or created, on_record=on_record)
        except BaseException as error:
            if fd >= 0:
                io.close(fd)
            if isinstance(error, OSError):
                raise _failure(path, error) from error
            raise
        return journal

    @property
    def last_seq(self) -> int:
        """The seq of the last record written, shown or not; 0 when there is none."""
        return self._written.seq

    @property
    def visible_seq(self) -> int:
        """Readers see the records up to this seq."""
        return self._shown.seq

    @property
    def synced_seq(self) -> int:
        """Records up to this seq are known to be on the disk (with ``durability="os"``: were written)."""
        return self._synced.seq

    @property
    def size_visible(self) -> int:
        """The byte offset behind the last visible record."""
        return self._shown.offset

    @property
    def _shown(self) -> _End:
        return self._hidden_from[0] if self._hidden_from else self._written

    def append(self, records: list[Record], *, sync: bool) -> list[Record]:
        """Write records with one system call and return them stamped with ``v``, ``seq`` and ``crc``.

        Each record holds at least ``type``, in the order of keys it shall have on disk. With ``sync``
        they, and all later ones, become visible when durable (await ``synced``); else at once, unless an
        earlier one is still to be synced. On an error nothing is stored and the log is as before:
        ``BadRequest("bad_argument")`` for values JSON cannot hold, ``Environment("disk_full")`` or
        ``Environment("io_failed")``.
        """
        self._refusal = self._refusal or self._lost or self._syncer_failure()
        if self._refusal is not None:
            raise self._io_failed(self._refusal)
        start = self._written
        stamped: list[Record] = []
        parts: list[bytes] = []
        for seq, record in enumerate(records, start.seq + 1):
            assert record["type"] in self._types, f"{record['type']!r} is no record type of this log"
            done, line = encode(record, seq)
            stamped.append(done)
            parts.append(line)
        if not stamped:
            return stamped
        self._write(b"".join(parts), start.offset)
        self._written = _End(start.seq + len(stamped), start.offset + sum(map(len, parts)))
        if not self._syncs:
            self._synced = self._written
        elif sync:
            self._hidden_from.append(start)
            self._want(self._written.seq)
        elif self._written.offset - self._synced.offset > TAIL_BYTES // 2:
            self._want(self._written.seq)
        self._show()
        return stamped

    async def synced(self, seq: int) -> None:
        """Wait until the records up to ``seq`` are durable; at once with ``durability="os"``.

        Starts a sync if none covers ``seq`` yet. Raises ``Environment("io_failed")`` when the sync failed:
        the records may or may not be on the disk, and this journal takes no more.
        """
        if not self._syncs or seq <= self._synced.seq:
            return
        seq = min(seq, self._written.seq)
        if not (self._closed or self._lost):
            self._want(seq)
        if seq <= self._synced.seq:
            return
        if not self._syncing:
            raise self._io_failed(self._lost or "the log is closed")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((seq, waiter))
        await waiter

    def since(self, seq: int, max_records: int, max_bytes: int) -> tuple[list[Record], bool]:
        """The visible records behind ``seq`` and whether there are more than the limits allow.

        ``max_bytes`` counts lines on disk; one record is returned even if it alone exceeds it.
        """
        shown = self._shown_open()
        if seq >= shown.seq:
            return [], False
        seq = max(seq, 0)
        try:
            found = records_after(self._log, seq, shown.offset, (max_records, max_bytes))
        except OSError as error:
            raise _failure(self.path, error) from error
        return found, seq + len(found) < shown.seq

    def tail(self, n: int, max_bytes: int) -> list[Record]:
        """The last ``n`` visible records in order, fewer if their lines exceed ``max_bytes``, never none."""
        shown = self._shown_open()
        try:
            return last_records(self._log, shown.seq, shown.offset, (n, max_bytes))
        except OSError as error:
            raise _failure(self.path, error) from error

    def _shown_open(self) -> _End:
        if self._closed:  # the number of our descriptor may be another file's by now
            raise self._io_failed("the log is closed")
        return self._shown

    async def wait_for(self, seq: int, deadline: float, clock: Clock) -> bool:
        """Whether a record behind ``seq`` became visible before ``clock.monotonic()`` reached ``deadline``."""

        def look() -> Literal[True] | None:
            return True if self.visible_seq > seq else None

        return await wait_until(look, self.signal, deadline, clock) is not None

    def close(self) -> None:
        """Take no more appends and close the file, once a running sync has ended; await ``synced`` before."""
        if self._closed:
            return
        self._closed = True
        self._refusal = self._refusal or "the log is closed"
        if not self._syncing:
            self._io.close(self._fd)

    # ---- opening

    def _load(self, *, clean: bool, on_record: Callable[[Record], None] | None) -> None:
        size = self._io.fstat(self._fd).st_size
        end = last_newline(self._io, self._fd, size)
        seq = offset = 0
        for lines in line_blocks(self._io, self._fd, end):
            # Blocks that never reached the disk read as NULs, and may carry the newline of a last line with
            # them: torn, not damaged. Two NULs, because no single flipped bit in a good line makes two.
            last = offset + sum(map(len, lines)) + len(lines) == end
            if last and not clean and b"\0\0" in lines[-1]:
                end -= len(lines.pop()) + 1
            for record in decode(lines, seq + 1, self._types, self.path):
                if on_record is not None:
                    on_record(record)
            seq += len(lines)
            offset += sum(map(len, lines)) + len(lines)
        if end < size:
            self._cut(end, size)
        self._written = self._synced = self._reached = _End(seq, end)
        self._limit = end
        if self._syncs and (self.repaired is not None or not clean):
            self._rewrite_tail(end)

    def _cut(self, end: int, size: int) -> None:
        kept_in = self.path.with_name(self.path.name + ".torn")
        kept = self._io.open(kept_in, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW)
        try:
            at, kept_at = end, self._io.fstat(kept).st_size
            while at < size:
                block = self._io.pread(self._fd, min(1 << 20, size - at), at)
                if not block:
                    break
                wrote = self._io.pwrite(kept, block, kept_at)
                if not wrote:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                at += wrote
                kept_at += wrote
            self._io.fdatasync(kept)
        finally:
            self._io.close(kept)
        self._io.ftruncate(self._fd, end)
        self.repaired = Repair(end, size - end, kept_in)

    def _rewrite_tail(self, end: int) -> None:
        at = max(0, end - TAIL_BYTES)
        while at < end:
            block = self._io.pread(self._fd, end - at, at)
            wrote = self._io.pwrite(self._fd, block, at)
            if not wrote:
                raise OSError(errno.EIO, "the tail of the log cannot be written again")
            at += wrote
        self._io.fdatasync(self._fd)
        # The stop may have come between the creation of the file and the sync of its directory entry.
        self._io.fsync_dir(self.path.parent)

    # ---- writing

    def _syncer_failure(self) -> str | None:
        return None if self._syncer.failed is None else f"a sync failed: {self._syncer.failed}"

    def _io_failed(self, reason: str) -> Environment:
        return Environment("io_failed", f"{self.path}: {reason}", file=str(self.path))

    def _write(self, data: bytes, offset: int) -> None:
        self._limit = offset + len(data)
        try:
            wrote = self._io.pwrite(self._fd, data, offset)
            if wrote == len(data):
                return
            # The kernel cuts a write short when the disk is full, and says so only at the next one.
            failure = Environment(
                "disk_full",
                f"{self.path}: only {wrote} of {len(data)} bytes could be written",
                file=str(self.path),
            )
        except OSError as error:
            failure = _failure(self.path, error)
        try:
            self._io.ftruncate(self._fd, offset)
        except OSError as error:
            # What stands behind `offset` now must never be glued to a later record.
            self._refusal = f"a failed write could not be taken back: {error.strerror}"
        raise failure

    def _show(self) -> None:
        if (seq := self.visible_seq) > self._shown_seq:
            self._shown_seq = seq
            self.signal.notify()

    # ---- syncing

    def _want(self, seq: int) -> None:
        self._wanted_seq = max(self._wanted_seq, seq)
        if not self._syncing:
            self._syncing = True
            self._syncer.submit(self._sync, self._sync_ended)

    def _sync(self) -> None:
        # In a thread. `_written` is one reference, replaced after its bytes were written: whatever it says
        # before the system call is covered by it, so appends made until then share this sync.
        reached = self._written
        self._io.fdatasync(self._fd)
        if not self._entry_synced:
            self._io.fsync_dir(self.path.parent)
            self._entry_synced = True
        # A log deleted or changed behind our back takes its records with it: they must not be acknowledged.
        now = self._io.fstat(self._fd)
        if now.st_nlink == 0:
            self._meddled = "the log was deleted while in use"
        elif not reached.offset <= now.st_size <= self._limit:
            self._meddled = "somebody else wrote to the log while it was in use"
        else:
            self._reached = reached

    def _sync_ended(self, error: Exception | None) -> None:
        self._syncing = False
        self._lost = self._meddled or (None if error is None else f"a sync failed: {error}")
        if self._lost is None:
            self._synced = self._reached
        seq = self._synced.seq
        while self._hidden_from and self._hidden_from[0].seq < seq:
            self._hidden_from.popleft()
        waiters, self._waiters = self._waiters, []
        for wanted, waiter in waiters:
            if waiter.done():
                continue
            if wanted <= seq:
                waiter.set_result(None)
            elif self._lost is not None:
                waiter.set_exception(self._io_failed(self._lost))
            else:
                self._waiters.append((wanted, waiter))
        if self._lost is None and self._wanted_seq > seq:
            self._want(self._wanted_seq)
        elif self._closed:
            self._io.close(self._fd)
        self._show()


def _failure(path: Path, error: OSError) -> Environment:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    code, reason = ("disk_full", "the disk is full") if full else ("io_failed", error.strerror or str(error))
    return Environment(code, f"{path}: {reason}", file=str(path))
