"""One append-only log: append with group commit, read what is durable, start a new file when the current one is full.

A ``Journal`` belongs to the event loop of the one process that writes the log. Records that were appended with
``sync=True``, and all later ones, become visible to readers only once they are on the disk. The journal knows the
names of the record types and nothing else of the domain.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, Self

from orchestrator.base.clock import Clock
from orchestrator.base.errors import Environment
from orchestrator.base.waiting import Signal, wait_until
from orchestrator.journal.file_scan import LogFile
from orchestrator.journal.live_segment import DIRECTORY
from orchestrator.journal.log_lines import Record, encode, received
from orchestrator.journal.log_opening import TAIL_BYTES, OpenedLog, TornTail, open_log
from orchestrator.journal.log_reader import FoundLines, OpenLog, last_records, lines_after_seq
from orchestrator.journal.positions import START, Position
from orchestrator.journal.project_files import failure
from orchestrator.journal.segments import torn
from orchestrator.journal.syncer import Syncer
from orchestrator.journal.syscalls import REAL, SysIO
from orchestrator.trust.seals import Seal

SEGMENT_BYTES = 16 << 20


class Journal:
    """An open log; make one with ``Journal.open``.

    Single-threaded: every method is called on the event loop. ``path`` names its live file, ``signal`` is notified
    whenever ``visible_seq`` advances; ``repaired`` is what was cut off on open, or None.
    """

    def __init__(
        self,
        path: Path,
        opened_log: OpenedLog,
        *,
        syncer: Syncer,
        io: SysIO,
        types: frozenset[str],
        syncs: bool,
        segment_bytes: int | None,
        seal: Seal | None = None,
    ) -> None:
        """Wrap an opened log; use ``Journal.open``, which verifies it first."""
        self.path = path
        self.signal = Signal()
        self.repaired: TornTail | None = opened_log.repaired
        self._live = opened_log.live
        self._full = opened_log.full
        self._syncer = syncer
        self._io = io
        self._types = types
        self._syncs = syncs
        self._seal = seal
        self._segment_bytes = segment_bytes or 0
        self._rotate_at = self._segment_bytes  # the live file is full from this offset
        self._written = opened_log.end
        self._synced = opened_log.end  # on the disk, also with durability="os"
        self._reached = opened_log.end  # what the sync now running will have made durable
        # The ends before records that must be synced before they, and all later ones, become visible.
        self._hidden_from: deque[Position] = deque()
        self._shown_seq = opened_log.end.seq
        self._wanted_seq = 0  # a sync must reach this seq; until then one is running or queued
        self._syncing = False
        self._at_disk = threading.Lock()  # held by a running sync, which must not see the live file change
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._refusal: str | None = None  # why appends are refused
        self._meddled: str | None = None
        self._lost: str | None = None  # why no more records become durable
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
        segment_bytes: int | None = SEGMENT_BYTES,
        start: Position | None = None,
        rest: bool = False,
        seal: Seal | None = None,
    ) -> Self:
        """Open, verify and repair a log, passing each of its records to ``on_record`` once, in order.

        ``clean``: the last writer closed the log properly; otherwise its tail is written again and synced, because
        the page cache may show data whose sync failed. A torn tail is cut off and kept in ``<name>.torn``. A live
        file of ``segment_bytes`` is renamed before the next append (0 or None: never).

        With ``start``, the `position` of an earlier journal, only the records after it are verified and passed on.
        With ``rest`` a log that ends there is not opened before it is used. With a ``seal`` each line is written with
        its MAC, and only lines that have it are read.

        Raises ``WrongPosition`` if ``start`` does not match (open the log without it), ``Corrupt`` at a bad complete
        line, and ``Environment`` if the system refuses, or (foreign_data) at a line without the seal's MAC. In these
        cases nothing on the disk has changed, and what ``on_record`` was given must be dropped.
        """
        syncs = durability == "fsync"
        opened_log = open_log(
            io, path, types, clean=clean, syncs=syncs, create=create, start=start or START,
            rest=rest and start is not None, on_record=on_record, seal=seal,
        )  # fmt: skip
        return cls(
            path, opened_log, syncer=syncer, io=io, types=types, syncs=syncs, segment_bytes=segment_bytes, seal=seal
        )

    @property
    def last_seq(self) -> int:
        """The seq of the last written record, visible or not; 0 if there is none."""
        return self._written.seq

    @property
    def visible_seq(self) -> int:
        """Readers see the records up to this seq."""
        return self._shown.seq

    @property
    def synced_seq(self) -> int:
        """Records up to this seq are on the disk (with ``durability="os"``: were written)."""
        return self.position().seq

    def in_place(self) -> bool:
        """Whether the log is still in its place; False after it was removed, moved or replaced."""
        return self._closed or self._live.in_place()

    @property
    def rests(self) -> bool:
        """Whether the log has no open descriptor until it is used."""
        return self._live.rests and not self._closed

    @property
    def _shown(self) -> Position:
        return self._hidden_from[0] if self._hidden_from else self._written

    @property
    def _offset(self) -> int:
        """Where in the live file the next record goes."""
        return self._written.offset if self._written.segment == self._live.first else 0

    def position(self) -> Position:
        """The position after record ``synced_seq``, for a later ``open``."""
        return self._synced if self._syncs else self._written

    def end(self) -> Position:
        """The position after the last written record, visible or not; usable as ``start`` once it is synced."""
        return self._written

    def append(self, records: list[Record], *, sync: bool) -> list[Record]:
        """Write records with one system call and return them stamped with ``v``, ``seq`` and ``crc``.

        Each record holds at least ``type``, in the order of keys it shall have on disk. With ``sync``
        they, and all later ones, become visible when durable (await ``synced``); otherwise at once, unless an
        earlier one is not synced yet. On an error nothing is stored and the log is unchanged:
        ``BadRequest("bad_argument")`` for values JSON cannot hold, ``Environment("disk_full")`` or
        ``Environment("io_failed")``.
        """
        self._check_writable()
        encoded: list[tuple[Record, bytes]] = []
        for seq, record in enumerate(records, self._written.seq + 1):
            assert record["type"] in self._types, f"{record['type']!r} is no record type of this log"
            encoded.append(encode(record, seq, self._seal))
        return self._store(encoded, sync=sync)

    def extend(self, lines: Sequence[bytes], *, sync: bool) -> list[Record]:
        """Write lines of this log that another host wrote, byte for byte; returns their records.

        The lines are without newlines, as `raw_since` returns them. They must follow ``last_seq``: ``Corrupt`` with
        the line that they would have here at the first that does not, or that no orchestrator of this version wrote;
        with a seal ``Environment`` foreign_data at the first without its MAC. Then nothing is stored. Otherwise as
        ``append``.
        """
        self._check_writable()
        records = received(lines, self._written.seq + 1, self._types, self.path, self._live.first, seal=self._seal)
        return self._store([(record, line + b"\n") for record, line in zip(records, lines, strict=True)], sync=sync)

    def _store(self, encoded: list[tuple[Record, bytes]], *, sync: bool) -> list[Record]:
        """Write records that follow ``last_seq``, each with its line."""
        if not encoded:
            return []
        self._live.wake()
        self._live.take_back(self._offset)
        self._rotate_if_full()
        start, offset = self._written, self._offset
        stamped = [record for record, _ in encoded]
        data = b"".join([line for _, line in encoded])
        self._live.write(data, offset)
        end = offset + len(data)
        self._written = Position(start.seq + len(stamped), self._live.first, end, stamped[-1]["crc"])
        if not self._syncs:
            self._show()
            return stamped
        if sync:
            self._hidden_from.append(start)
            self._want(self._written.seq)
        elif self._unsynced_bytes > TAIL_BYTES // 2:
            self._want(self._written.seq)
        self._show()
        return stamped

    async def synced(self, seq: int) -> None:
        """Wait until the records up to ``seq`` are durable; at once with ``durability="os"``.

        Starts a sync if none covers ``seq`` yet. Raises ``Environment("io_failed")`` if the sync failed: the records
        may or may not be on the disk, and this journal accepts no more.
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
        """The visible records after ``seq``, and whether there are more than the limits allow.

        ``max_bytes`` counts lines on disk; one record is returned even if it alone exceeds it.
        """
        picked = self._picked(seq, max_records, max_bytes)
        return picked.records, max(seq, 0) + len(picked.records) < self._shown.seq

    def raw_since(self, seq: int, max_records: int, max_bytes: int) -> list[tuple[Record, bytes]]:
        """As ``since``, each record with its line as it is on the disk, without its newline."""
        picked = self._picked(seq, max_records, max_bytes)
        return list(zip(picked.records, picked.lines, strict=True))

    def _picked(self, seq: int, max_records: int, max_bytes: int) -> FoundLines:
        self._check_readable()
        seq = max(seq, 0)
        if seq >= self._shown.seq:
            return FoundLines([], [])
        with self._readable() as log:
            picked = lines_after_seq(log, seq, (max_records, max_bytes))
            if not picked.records and max_records > 0:
                raise torn(self._live.path, seq - self._live.first + 2, seq + 1)
        return picked

    def tail(self, n: int, max_bytes: int) -> list[Record]:
        """The last ``n`` visible records in order, fewer if their lines exceed ``max_bytes``, never none."""
        self._check_readable()
        with self._readable() as log:
            return last_records(log, self._shown.seq, (n, max_bytes))

    def _check_readable(self) -> None:
        if self._closed:  # the number of the descriptor may belong to another file by now
            raise self._io_failed("the log is closed")

    @contextmanager
    def _readable(self) -> Iterator[OpenLog]:
        live, shown = self._live, self._shown
        # A file is renamed only when all of it is visible: visible records end in the live file, or just before it.
        end = shown.offset if shown.segment == live.first else 0
        try:
            with live.awake() as fd:
                last = LogFile(self._io, fd, live.path, self._types, live.first, end, self._seal)
                yield OpenLog(self.path, self._full, last)
        except OSError as error:
            raise failure(self.path, error) from error

    async def wait_for(self, seq: int, deadline: float, clock: Clock) -> bool:
        """Whether a record after ``seq`` became visible before ``clock.monotonic()`` reached ``deadline``."""

        def look() -> Literal[True] | None:
            return True if self.visible_seq > seq else None

        return await wait_until(look, self.signal, deadline, clock) is not None

    def close(self) -> None:
        """Accept no more appends and close the file after a running sync; await ``synced`` before."""
        if self._closed:
            return
        self._closed = True
        self._refusal = self._refusal or "the log is closed"
        if not self._syncing:
            self._live.close()

    def rest(self) -> bool:
        """Close the descriptor until the log is used again, if all is synced. Returns whether it is closed now.

        An append opens it again, a read for its duration. Both fail if the file is not the same then.
        """
        idle = not (
            self._syncing or self._waiters or self._closed or self._lost or self._live.spoiled or self._live.untaken
        )
        if idle and not self._live.rests and self.position() == self._written:
            with suppress(OSError):
                self._live.rest()
        return self.rests

    # ---- writing

    def _check_writable(self) -> None:
        sync_failed = None if self._syncer.failed is None else f"a sync failed: {self._syncer.failed}"
        self._refusal = self._refusal or self._lost or self._live.spoiled or sync_failed
        if self._refusal is not None:
            raise self._io_failed(self._refusal)

    def _io_failed(self, reason: str) -> Environment:
        return Environment("io_failed", f"{self.path}: {reason}", file=str(self.path))

    @property
    def _unsynced_bytes(self) -> int:
        # A file is renamed only when all of it is synced: what is not is in the live file.
        return self._offset - (self._synced.offset if self._synced.segment == self._live.first else 0)

    def _show(self) -> None:
        if (seq := self.visible_seq) > self._shown_seq:
            self._shown_seq = seq
            self.signal.notify()

    # ---- rotation

    def _rotate_if_full(self) -> None:
        if not self._segment_bytes or self._offset < self._rotate_at:
            return
        if self._synced != self._written:
            self._want(self._written.seq)
        # Soon all may be synced by itself; if not, a sync is started.
        least = self._rotate_at + (self._segment_bytes if self._synced != self._written else 0)
        if self._offset < least:
            return
        with self._at_disk:
            self._apply_sync(self._syncer.run_now(self._reach))
            if self._lost is None:
                self._rotate()
        self._show()
        self._check_writable()

    def _rotate(self) -> None:
        """Seal the live file, all of which is synced, and make a new one; if that fails, the old one is continued.

        At every step the names on the disk describe a complete log, whichever unsynced steps a power cut undoes. So
        the new name is durable before the old name is given to another file.
        """
        old = self._live
        try:
            # Opened first: a file that cannot be opened now must not look like a failed sync, which is final.
            directory = self._io.open(self.path.parent, DIRECTORY)
        except OSError:
            self._rotate_later()
            return
        try:
            old.seal(self.path)
            self._apply_sync(self._syncer.run_now(lambda: self._io.fsync(directory)))
            if self._lost is None:
                self._live = old.followed_by(self.path, self._written.seq + 1)
                self._full.append(old.first)
                self._rotate_at = self._segment_bytes
                self._apply_sync(self._syncer.run_now(lambda: self._io.fsync(directory)))
        except OSError:
            self._rotate_later()
        finally:
            with suppress(OSError):
                self._io.close(directory)

    def _rotate_later(self) -> None:
        self._rotate_at = self._offset + self._segment_bytes // 8

    # ---- syncing

    def _want(self, seq: int) -> None:
        self._wanted_seq = max(self._wanted_seq, seq)
        if not self._syncing:
            self._syncing = True
            self._syncer.submit(self._sync, self._sync_ended)

    def _sync(self) -> None:
        # In a thread.
        with self._at_disk:
            self._reach()

    def _reach(self) -> None:
        # `_written` is one reference, replaced after its bytes were written: whatever it says before the system
        # call is covered by it, so appends made until then share this sync.
        live, reached = self._live, self._written
        meddled = live.sync(reached.offset if reached.segment == live.first else 0)
        if meddled is None:
            self._reached = reached
        else:
            self._meddled = meddled

    def _sync_ended(self, error: Exception | None) -> None:
        self._syncing = False
        self._apply_sync(error)
        if self._lost is None and self._wanted_seq > self._synced.seq:
            self._want(self._wanted_seq)
        elif self._closed:
            self._live.close()
        self._show()

    def _apply_sync(self, error: Exception | None) -> None:
        """Process the outcome of a sync: advance what is durable, and release those who wait for it."""
        self._lost = self._lost or self._meddled or (None if error is None else f"a sync failed: {error}")
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
