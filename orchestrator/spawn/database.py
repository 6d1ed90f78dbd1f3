"""The database of spawn runs: one SQLite connection on one thread; concurrent calls share its transactions.

Touches ``<home>/db.sqlite`` and SQLite's files next to it, ``<home>/db.lock``, and the home's mode. Knows nothing of
runs: `transitions` and `queries` are functions of a connection that run here.

Several daemons share a home, and before SQLite 3.51.3 processes that write or checkpoint the WAL at the same moment
may corrupt it; so every writing transaction, every checkpoint, opening and closing hold an flock on ``db.lock``.
Readers need none. Nothing happens before the first call, so without runs no home is created.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import sqlite3
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from orchestrator.base.clock import SystemClock
from orchestrator.base.errors import Conflict, Corrupt, Environment, OrchestratorError
from orchestrator.journal.project_files import make_dir
from orchestrator.spawn import database_upgrade, ddl
from orchestrator.spawn.database_errors import translated
from orchestrator.spawn.database_opening import NAME, check_files, suspicious

P = ParamSpec("P")
T = TypeVar("T")
LOCK = "db.lock"
WAL_BYTES = 4 << 20
"""Each time the WAL has grown by so much it is carried into the file."""
LOCK_WAIT_S = 30.0
"""How long others may hold the lock: a transaction takes milliseconds, so whoever has it then stands still."""
CLOSE_S = 5.0
BUSY_MS = 5000
_ABANDONED: list[sqlite3.Connection] = []
"""Connections not to be closed before the process ends: the lock could not be had, or their file is not there any
more, and closing would remove the WAL of the one now in its place."""


@dataclass
class _Job(Generic[T]):
    writes: bool
    fn: Callable[[sqlite3.Connection], T]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[T]
    value: T | None = None
    error: BaseException | None = None


class Database:
    """The database of one home; the first call opens it.

    ``write`` and ``read`` raise what their function raised, or: Environment ``home_unusable``, ``disk_full``,
    ``io_failed``; Conflict ``home_newer``; Corrupt ``corrupt_home``. After any of these the next call tries again.
    """

    def __init__(self, home: Path, now: Callable[[], datetime] | None = None) -> None:
        """Name the home; ``now`` stamps what an upgrade leaves."""
        self.home = home
        self.path = home / NAME
        self._now = now or SystemClock().now
        self._due: deque[_Job[Any]] = deque()
        self._wake = threading.Condition()
        self._closing = threading.Event()
        self._never = threading.Event()
        self._thread: threading.Thread | None = None
        self._con: sqlite3.Connection | None = None
        self._file: tuple[int, int] = (0, 0)
        self._opened = 0
        self._schema = -1
        self._wal_due = WAL_BYTES

    async def write(
        self, fn: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The result of ``fn(con, …)`` after commit and sync; if ``fn`` raises, all its changes are undone.

        Waiting calls share one transaction and its sync, each with its own savepoint.
        """
        return await self._call(True, lambda con: fn(con, *args, **kwargs))

    async def read(self, fn: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What ``fn(con, …)`` returns, on one snapshot; whatever it may write is undone."""
        return await self._call(False, lambda con: fn(con, *args, **kwargs))

    async def data_version(self) -> int:
        """A number that has changed when another process (or another ``Database``) has written since it was asked."""
        return await self._call(False, self._version)

    def _version(self, con: sqlite3.Connection) -> int:
        (version,) = con.execute("PRAGMA data_version").fetchone()
        return self._opened << 40 | int(version)

    def close(self) -> None:
        """Finish the calls there are and end the thread; takes a few seconds at most, later calls are refused."""
        with self._wake:
            self._closing.set()
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    async def _call(self, writes: bool, fn: Callable[[sqlite3.Connection], T]) -> T:
        loop = asyncio.get_running_loop()
        job: _Job[T] = _Job(writes, fn, loop, loop.create_future())
        with self._wake:
            if self._closing.is_set():
                raise Environment("io_failed", f"{self.path}: closed", file=str(self.path))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="spawn-db", daemon=True)
                self._thread.start()
            self._due.append(job)
            self._wake.notify()
        return await job.future

    # -- the thread -------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._due or self._closing.is_set())
                jobs = [job for job in self._due if not job.future.cancelled()]
                self._due.clear()
                if not jobs and self._closing.is_set():
                    break
            for writes in (False, True):
                group = [job for job in jobs if job.writes is writes]
                if group:
                    self._serve(group, self._write_all if writes else self._read_all)
        self._give_up()

    def _serve(self, group: list[_Job[Any]], run: Callable[[sqlite3.Connection, list[_Job[Any]]], None]) -> None:
        """Run the group and resolve its callers; an error of the whole group goes to all."""
        try:
            run(self._connection(), group)
        except BaseException as error:  # noqa: BLE001 - a thread that ended would leave every caller waiting
            for job in group:
                job.error = error
        translations = {id(job.error): translated(self.path, job.error) for job in group if job.error is not None}
        for job in group:
            job.error = translations.get(id(job.error))
        if any(isinstance(job.error, Environment | Corrupt) for job in group):
            self._give_up()
        loops = {job.loop for job in group}
        for loop in loops:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_deliver, [job for job in group if job.loop is loop])

    def _read_all(self, con: sqlite3.Connection, group: list[_Job[Any]]) -> None:
        for job in group:
            con.execute("BEGIN")
            try:
                self._check(con)
                job.value = job.fn(con)
            except Exception as error:  # noqa: BLE001 - it is the caller's
                job.error = error
            finally:
                if con.in_transaction:
                    con.execute("ROLLBACK")

    def _write_all(self, con: sqlite3.Connection, group: list[_Job[Any]]) -> None:
        with self._lock():
            con.execute("BEGIN IMMEDIATE")
            try:
                self._check(con)
                for job in group:
                    self._run_job(con, job)
                con.execute("COMMIT")
            except BaseException:
                # A commit whose sync failed stands whole in the WAL, and the next opening would take it for one: a
                # transaction of no meaning is written over it, whether or not that is synced.
                for sql in ("ROLLBACK", f"PRAGMA user_version = {ddl.VERSION}"):
                    with contextlib.suppress(sqlite3.Error):
                        con.execute(sql)
                raise
            self._carry_over(con)

    def _run_job(self, con: sqlite3.Connection, job: _Job[Any]) -> None:
        con.execute("SAVEPOINT job")
        try:
            job.value = job.fn(con)
        except Exception as error:
            # After some errors SQLite has undone the whole transaction, and with it what others did in it.
            if not con.in_transaction or translated(self.path, error) is not error:
                raise
            job.error = error
            con.execute("ROLLBACK TO job")
        con.execute("RELEASE job")

    def _carry_over(self, con: sqlite3.Connection) -> None:
        """Carry a long WAL into the file; what fails stays in the WAL, and is tried again when that has grown."""
        with contextlib.suppress(OSError, sqlite3.Error):
            size = self._wal_bytes()
            if size < self._wal_due:
                return
            self._wal_due = size + WAL_BYTES
            con.execute("PRAGMA busy_timeout = 0")
            try:
                # As far as readers let it; the WAL begins anew when none holds it.
                con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                self._wal_due = self._wal_bytes() + WAL_BYTES
            finally:
                con.execute(f"PRAGMA busy_timeout = {BUSY_MS}")

    def _wal_bytes(self) -> int:
        return self.path.with_name(f"{NAME}-wal").stat().st_size

    def _give_up(self) -> None:
        """Close the connection: after a failed sync its state is unknown, and a new connection reads the file."""
        con, self._con = self._con, None
        if con is None:
            return
        try:
            with self._lock():
                con.close()
        except (OrchestratorError, OSError, sqlite3.Error):
            # SQLite carries the WAL over as the last connection closes, which needs the lock.
            _ABANDONED.append(con)

    # -- opening ----------------------------------------------------------------------------------------------------

    def _connection(self) -> sqlite3.Connection:
        if self._con is not None:
            with contextlib.suppress(OSError):
                file_stat = self.path.stat()
                if (file_stat.st_dev, file_stat.st_ino) == self._file:
                    return self._con
            _ABANDONED.append(self._con)
            self._con = None
        prepare_home(self.home)
        with self._lock():
            self._con = self._open()
        return self._con

    def _open(self) -> sqlite3.Connection:
        # An existing file is not opened to look at it: closing it would drop the locks of SQLite in this process.
        try:
            file_stat = self.path.lstat()
        except FileNotFoundError:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            file_stat = self.path.lstat()
        check_files(self.path)
        if stat.S_IMODE(file_stat.st_mode) & 0o077:
            self.path.chmod(0o600)
        con = sqlite3.connect(self.path, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False)
        try:
            suspicious(con)
            con.execute("PRAGMA foreign_keys = ON")
            (version,) = con.execute("PRAGMA user_version").fetchone()
            if version > ddl.VERSION:
                raise Conflict(  # noqa: TRY301
                    "home_newer", f"{self.path} has form {version}, this version knows {ddl.VERSION}"
                )
            con.execute("PRAGMA wal_autocheckpoint = 0")
            con.execute("PRAGMA synchronous = FULL")
            con.execute("PRAGMA fullfsync = ON")  # macOS: as `durable_sync` writes there
            self._insist(ddl.strange(con))
            if version < ddl.VERSION:
                self._prepare(con)
            elif "seals" not in ddl.tables(con):
                con.execute(ddl.SEALS)
            self._insist(ddl.lacking(con))
            con.execute("PRAGMA journal_mode = WAL").fetchall()
        except BaseException:
            con.close()
            raise
        self._file = (file_stat.st_dev, file_stat.st_ino)
        self._opened += 1
        self._schema = -1
        self._wal_due = WAL_BYTES
        return con

    def _check(self, con: sqlite3.Connection) -> None:
        """Look at the schema again when it has changed, in the transaction: others may have written the file."""
        (schema,) = con.execute("PRAGMA schema_version").fetchone()
        if schema != self._schema:
            self._insist(ddl.strange(con))
            self._schema = schema

    def _insist(self, strange: str) -> None:
        if strange:
            raise Corrupt(
                "corrupt_home",
                f"{self.path}: {strange} does not belong in a database of spawn runs",
                file=str(self.path),
            )

    def _prepare(self, con: sqlite3.Connection) -> None:
        try:
            if "runs" in ddl.tables(con):
                database_upgrade.upgrade(con, self.path, self._now())
                return
            con.execute("BEGIN IMMEDIATE")
            try:
                ddl.create(con)
                con.execute("COMMIT")
            finally:
                if con.in_transaction:
                    con.execute("ROLLBACK")
        except sqlite3.Error as error:
            if translated(self.path, error) is not error:
                raise
            raise Corrupt(
                "corrupt_home", f"{self.path} is no database of spawn runs: {error}", file=str(self.path)
            ) from error

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Hold the home's lock: against other processes, and against another Database of this one."""
        path = self.home / LOCK
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            pause, waited = 0.001, 0.0
            while not _locked(fd):
                if waited >= (CLOSE_S / 2 if self._closing.is_set() else LOCK_WAIT_S):
                    raise Environment(
                        "io_failed", f"{path}: another process has held it for {waited:.0f} s", file=str(path)
                    )
                # flock itself knows no bound, so it is asked again and again.
                self._never.wait(pause)
                waited, pause = waited + pause, min(pause * 1.2, 0.02)
            yield
        finally:
            os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _deliver(jobs: Sequence[_Job[Any]]) -> None:
    for job in jobs:
        if not job.future.done():
            if isinstance(job.error, StopIteration):  # no future takes one
                job.future.set_exception(RuntimeError("StopIteration"))
            elif job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.value)


def prepare_home(home: Path) -> None:
    """Make the home for the user alone; Environment ``home_unusable`` if others own it or may write into it.

    A home that others may only read is made private: the original tool created it readable.
    """
    try:
        make_dir(home, 0o700)
    except Environment as error:
        if error.code == "disk_full":
            raise
        raise Environment("home_unusable", error.message, file=str(home)) from error
    try:
        home_stat = home.stat()
        if home_stat.st_uid != os.geteuid():
            raise Environment("home_unusable", f"{home} belongs to another user", file=str(home))
        if stat.S_IMODE(home_stat.st_mode) & 0o022:
            raise Environment(
                "home_unusable", f"{home} may be written by others", f"chmod 700 {home}", file=str(home)
            )
        if stat.S_IMODE(home_stat.st_mode) & 0o077:
            home.chmod(0o700)
    except OSError as error:
        raise Environment("home_unusable", f"{home}: {error.strerror}", file=str(home)) from error
