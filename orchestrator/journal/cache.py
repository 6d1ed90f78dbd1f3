"""The SQLite cache that speeds up the next start: a checkpoint per owner, and data no longer in the owner's memory.

It is only a cache: the logs decide, and deleting the file while no daemon runs loses nothing. SQLite does not notice
a changed byte in its file, and a wrong "unknown" could make a task run twice; so everything that is read here is
proven. A checkpoint has a seal. The archived keys of an owner form a chain: each row names the next key and has a
seal over both, so the row before a missing key proves that the key is missing.

One process uses it at a time (the project lock ensures that). ``find`` belongs to the event loop; ``save`` may run in
a thread, one at a time. The content is opaque to this file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from orchestrator.trust.seals import Seal

TABLES = (
    "CREATE TABLE checkpoint (owner TEXT PRIMARY KEY, body BLOB NOT NULL, crc INTEGER NOT NULL)",
    (
        "CREATE TABLE archived (owner TEXT NOT NULL, key TEXT NOT NULL, next TEXT NOT NULL, value BLOB NOT NULL, "
        "crc INTEGER NOT NULL, PRIMARY KEY (owner, key)) WITHOUT ROWID"
    ),
    # Two tables of one row lie on two pages: the first is written into the file and the second into its WAL, so that
    # a file and a WAL that do not belong together (one of them was restored) are told apart.
    "CREATE TABLE era_of_file (era INTEGER NOT NULL)",
    "CREATE TABLE era_of_wal (era INTEGER NOT NULL, saves INTEGER NOT NULL)",
)
COMPANION_SUFFIXES = ("-wal", "-shm", "-journal")
"""The files that SQLite keeps next to the file; it would follow a link in their place."""
WAL_BYTES = 4 << 20
"""Above this size the WAL is written back into the file."""
PIECE = 100
"""Archived keys that are stored between two pauses: less than a millisecond in which the event loop must wait."""
ARCHIVE = "INSERT OR REPLACE INTO archived VALUES (?, ?, ?, ?, ?)"

BAD = (sqlite3.Error, UnicodeDecodeError, TypeError)
"""A changed byte may change the type of a value, or a name in SQLite's own message, too."""


class BrokenCache(Exception):
    """The cache cannot be trusted or read: fold the logs instead, and stop using it."""


class CacheItem(NamedTuple):
    """What `save` stores of one owner: the checkpoint's body, and the keys that leave memory with it.

    ``anew``: what was stored of the owner before is dropped. ``archived`` None: the owner never archives anything.
    It is read as it is stored, so a generator need not hold all values at once; ascending keys are the quickest.
    """

    owner: str
    body: bytes
    archived: Iterable[tuple[str, bytes]] | None
    anew: bool = False


class _Row(NamedTuple):
    key: str
    next: str  # the next archived key of the owner; "" after the last
    value: bytes


class Cache:
    """An open cache; make one with ``Cache.open``. Each method but ``close`` raises `BrokenCache`."""

    def __init__(self, path: Path, writer: sqlite3.Connection, reader: sqlite3.Connection, seal: Seal) -> None:
        """Wrap two connections; use ``Cache.open``."""
        self.path = path
        self._seal = seal
        self._writer = writer
        self._reader = reader
        self._broken: str | None = None
        self._saving = threading.Lock()

    @classmethod
    def open(cls, path: Path, form: int, seal: Seal) -> Cache:
        """Open the cache; make a new one if there is none, or if it has another ``form`` (31 bits) or is broken.

        Content without a valid ``seal`` counts as broken: a checkpoint that others wrote could claim anything.
        `BrokenCache` if the new one cannot be made either: no space, or no permission to write.
        """
        try:
            return cls._open(path, form, seal)
        except BrokenCache:
            discard(path)
        return cls._open(path, form, seal)

    @classmethod
    def _open(cls, path: Path, form: int, seal: Seal) -> Cache:
        connections: list[sqlite3.Connection] = []
        try:
            for suffix in COMPANION_SUFFIXES:
                side_file = path.with_name(path.name + suffix)
                # Our cache has a WAL and no journal. A stranger's journal could name any file, which SQLite would
                # then remove.
                if side_file.is_symlink() or (suffix == "-journal" and side_file.exists()):
                    raise BrokenCache(f"{side_file} is not ours")  # noqa: TRY301 - one refusal for all ways of being wrong
            # SQLite would follow a link out of the project, and would make the file readable for everyone.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            connections += [_connect(path), _connect(path)]
            cache = cls(path, connections[0], connections[1], seal)
            cache._prepare(form)
        except (*BAD, OSError, BrokenCache) as error:
            for connection in connections:
                connection.close()
            raise BrokenCache(f"{path}: {error}") from error
        return cache

    def _prepare(self, form: int) -> None:
        writer = self._writer
        writer.execute("PRAGMA journal_mode = WAL")
        # Before 3.51.3 two connections may corrupt a WAL if both write it back: only `_carry_over` does.
        for connection in (writer, self._reader):
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute("PRAGMA trusted_schema = OFF")
        writer.execute("PRAGMA synchronous = NORMAL")
        self._reader.execute("PRAGMA query_only = ON")
        tables = [sql for (sql,) in writer.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")]
        if not tables:
            with _transaction(writer):
                for table in TABLES:
                    writer.execute(table)
                writer.execute("INSERT INTO era_of_file VALUES (1)")
                writer.execute("INSERT INTO era_of_wal VALUES (1, 0)")
                writer.execute(f"PRAGMA user_version = {form:d}")
            self._carry_over(0)  # so that a copy of the file alone contains the tables
            return
        if tables != list(TABLES) or writer.execute("PRAGMA user_version").fetchall() != [(form,)]:
            raise BrokenCache("made by another version")
        eras = writer.execute("SELECT f.era = w.era FROM era_of_file AS f, era_of_wal AS w").fetchall()
        if eras != [(1,)]:
            raise BrokenCache("the file and its WAL do not belong together")

    # -- reading ------------------------------------------------------------------------------------------------

    def owners(self) -> list[str]:
        """The owners that are stored."""
        return [owner for (owner,) in self._read("SELECT owner FROM checkpoint", ()) if isinstance(owner, str)]

    def checkpoint(self, owner: str) -> bytes | None:
        """The owner's newest checkpoint body, or None."""
        rows = self._read("SELECT body, crc FROM checkpoint WHERE owner = ?", (owner,))
        if not rows:
            return None
        ((body, crc),) = rows
        if not isinstance(body, bytes) or crc != self._seal.number(owner.encode() + b"\0" + body):
            raise self._spoilt(f"the checkpoint of {owner} does not fit its checksum")
        return body

    def find(self, owner: str, key: str) -> bytes | None:
        """The value that is archived under the key, or None if it is proven that there is none; a point read.

        The empty key is the head of the chain, and never a key of its owner.
        """
        row = self._before(self._reader, owner, key)
        return row.value if key and row.key == key else None

    def _read(self, sql: str, values: tuple[str, ...]) -> list[tuple[object, ...]]:
        if self._broken is not None:
            raise BrokenCache(self._broken)
        try:
            return self._reader.execute(sql, values).fetchall()
        except BAD as error:
            raise self._spoilt(str(error)) from error

    def _before(self, connection: sqlite3.Connection, owner: str, key: str) -> _Row:
        """The owner's last row up to and including the key; every stored owner has a row with key ""."""
        if self._broken is not None:
            raise BrokenCache(self._broken)
        try:
            rows = connection.execute(
                "SELECT key, next, value, crc FROM archived WHERE owner = ? AND key <= ? ORDER BY key DESC LIMIT 1",
                (owner, key),
            ).fetchall()
            if rows:
                row = _Row(*rows[0][:3])
                if self._sealed(owner, row) == rows[0][3] and row.key <= key and (row.next > key or not row.next):
                    return row
        except BAD as error:
            raise self._spoilt(str(error)) from error
        raise self._spoilt(f"the archived keys of {owner} are no chain")

    def _spoilt(self, why: str) -> BrokenCache:
        self._broken = self._broken or f"{self.path}: {why}"
        return BrokenCache(self._broken)

    # -- writing ------------------------------------------------------------------------------------------------

    def save(
        self,
        items: Iterable[CacheItem],
        gone: Iterable[str] = (),
        before_commit: Callable[[], None] = lambda: None,
        pause: Callable[[], object] = lambda: None,
    ) -> None:
        """Store all items and drop the owners that are ``gone``; if this raises, nothing has changed.

        ``pause`` is called after each `PIECE` of the archived keys: a thread that went on without a pause would keep
        the interpreter from the event loop. `BrokenCache` if the cache must not be used again; `OSError` if there was
        no space: try again later.
        """
        with self._saving:
            self._save(items, gone, before_commit, pause)

    def _save(
        self,
        items: Iterable[CacheItem],
        gone: Iterable[str],
        before_commit: Callable[[], None],
        pause: Callable[[], object],
    ) -> None:
        if self._broken is not None:
            raise BrokenCache(self._broken)
        writer = self._writer
        try:
            with _transaction(writer):
                for owner in gone:
                    self._forget(owner)
                for item in items:
                    if item.anew:
                        self._forget(item.owner)
                    crc = self._seal.number(item.owner.encode() + b"\0" + item.body)
                    writer.execute("INSERT OR REPLACE INTO checkpoint VALUES (?, ?, ?)", (item.owner, item.body, crc))
                    if item.archived is not None:
                        rows = self._links(item.owner, item.archived)
                        for row in rows:
                            writer.executemany(ARCHIVE, chain((row,), islice(rows, PIECE - 1)))
                            pause()
                writer.execute("UPDATE era_of_wal SET saves = saves + 1")
                before_commit()
        except BAD as error:
            if _no_room(error):
                raise OSError(f"{self.path}: {error}") from error
            raise self._spoilt(str(error)) from error
        self._carry_over(WAL_BYTES)

    def _forget(self, owner: str) -> None:
        self._writer.execute("DELETE FROM checkpoint WHERE owner = ?", (owner,))
        self._writer.execute("DELETE FROM archived WHERE owner = ?", (owner,))

    def _links(self, owner: str, archived: Iterable[tuple[str, bytes]]) -> Iterator[tuple[object, ...]]:
        """The rows that put the keys into the owner's chain; each must be stored before the next is asked for."""
        writer = self._writer
        begun = writer.execute("SELECT 1 FROM archived WHERE owner = ? LIMIT 1", (owner,)).fetchall()
        at, changed = (None, False) if begun else (_Row("", "", b""), True)
        for key, value in archived:
            if at is None or key < at.key or (at.next and at.next <= key):
                if at is not None and changed:
                    yield owner, *at, self._sealed(owner, at)
                at, changed = self._before(writer, owner, key), False
            if at.key == key:
                if at.value != value:
                    raise self._spoilt(f"{key!r} of {owner} is archived with another value")
                continue  # stored by a save that failed after its commit
            before = at._replace(next=key)
            yield owner, *before, self._sealed(owner, before)
            at, changed = _Row(key, at.next, value), True
        if at is not None and changed:
            yield owner, *at, self._sealed(owner, at)

    def _sealed(self, owner: str, row: _Row) -> int:
        return self._seal.number(f"{owner}\0{row.key}\0{row.next}\0".encode() + row.value)

    def _carry_over(self, behind: int) -> None:
        """Write a WAL of more bytes back into the file; a failure here repeats at the next save or is gone."""
        try:
            if self.path.with_name(self.path.name + "-wal").stat().st_size <= behind:
                return
            with _transaction(self._writer):
                self._writer.execute("UPDATE era_of_file SET era = era + 1")
                self._writer.execute("UPDATE era_of_wal SET era = era + 1")
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            with _transaction(self._writer):
                self._writer.execute("UPDATE era_of_wal SET saves = saves + 1")
        except (*BAD, OSError):
            return

    def close(self) -> None:
        """Close the cache; a broken one is removed, and the next start makes a new one."""
        with self._saving, contextlib.suppress(sqlite3.Error):
            self._reader.close()
            self._writer.close()
            if self._broken is not None:
                discard(self.path)
            self._broken = self._broken or f"{self.path}: closed"


def discard(path: Path) -> None:
    """Remove the file and the files that SQLite keeps next to it, if they exist. Only while no process uses it."""
    for suffix in ("", *COMPANION_SUFFIXES):
        with contextlib.suppress(OSError):
            path.with_name(path.name + suffix).unlink()


def _connect(path: Path) -> sqlite3.Connection:
    # autocommit: only `_transaction` begins and ends transactions.
    return sqlite3.connect(path, timeout=1.0, isolation_level=None, check_same_thread=False)


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _no_room(error: Exception) -> bool:
    """Whether the system refused for now; otherwise the file is broken."""
    refused = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN)
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in refused
