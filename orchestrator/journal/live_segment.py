"""The last file of a log, the only one that is written: write, sync, seal, close.

It may be closed while the log is unused, and is opened again for the next use. Then, and at every sync, it is checked
that it is still the same file with exactly the bytes that were written.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.base.errors import Environment
from orchestrator.journal import segments
from orchestrator.journal.project_files import failure
from orchestrator.journal.syscalls import SysIO

FLAGS = os.O_RDWR | os.O_NOFOLLOW
CREATE = FLAGS | os.O_CREAT | os.O_EXCL
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY
DELETED = "the log was deleted while in use"
MOVED = "the log was moved away while in use"
MEDDLED = "another program wrote to the log while it was in use"


class LiveSegment:
    """An open live file; ``first`` is the seq its first record has or will have.

    ``path`` is its current name: a full file's while a rotation is half done. ``spoiled`` is the reason why
    nothing may be appended any longer: the file does not contain what was written.
    """

    def __init__(
        self, io: SysIO, path: Path, fd: int, first: int, size: int, *, entry_synced: bool, inode: int | None = None
    ) -> None:
        """Wrap a descriptor, or with ``fd=-1`` a closed file with that inode; ``size`` bytes of it are known."""
        self.path = path
        self.first = first
        self.spoiled: str | None = None
        self.untaken = False  # bytes of a failed write may follow the last record
        self.entry_synced = entry_synced  # False: its directory entry may not be durable yet
        self._io = io
        self.fd = fd
        self._limit = size  # no byte after this offset was written by us
        self._size = size
        self._inode = inode

    @property
    def rests(self) -> bool:
        """Whether it has no open descriptor."""
        return self.fd < 0

    def in_place(self) -> bool:
        """Whether its name still leads to the file that is written; True if that cannot be determined now."""
        try:
            named = self._io.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        if self.rests:
            return named.st_ino == self._inode
        ours = self._io.fstat(self.fd)
        return (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino)

    def write(self, data: bytes, offset: int) -> None:
        """Write all of it or nothing; raises ``Environment("disk_full")`` or ``Environment("io_failed")``."""
        self._limit = offset + len(data)
        try:
            wrote = self._io.pwrite(self.fd, data, offset)
            if wrote == len(data):
                self._size = self._limit
                return
            # If the disk is full, the kernel cuts a write short and reports it only at the next write.
            error = Environment(
                "disk_full",
                f"{self.path}: only {wrote} of {len(data)} bytes could be written",
                file=str(self.path),
            )
        except OSError as cause:
            error = failure(self.path, cause)
        self.untaken = True
        with contextlib.suppress(Environment):  # then the next append must do it first
            self.take_back(offset)
        raise error

    def take_back(self, offset: int) -> None:
        """Cut the file at ``offset``: the rest of a failed write must never become part of a later record.

        Raises ``Environment("io_failed")`` if the disk refuses; the next append tries again.
        """
        if not self.untaken:
            return
        try:
            self._io.ftruncate(self.fd, offset)
        except OSError as cause:
            what = f"a failed write could not be taken back: {cause.strerror}"
            raise Environment("io_failed", f"{self.path}: {what}", file=str(self.path)) from cause
        self.untaken = False

    def sync(self, reached: int) -> str | None:
        """Make the file, and its name if it is new, durable. Runs in a thread.

        Returns why the file is not the one that was written, or None. ``reached`` is the offset after what was
        written before the call. Raises ``OSError``, which is final.
        """
        self._io.fdatasync(self.fd)
        # The records of a log that another program deleted, moved or changed must not be acknowledged.
        if not self.in_place():
            return MOVED if self._io.fstat(self.fd).st_nlink else DELETED
        if not self.entry_synced:
            try:
                self._io.fsync_dir(self.path.parent)
            except FileNotFoundError:
                return DELETED  # just now
            self.entry_synced = True
        now = self._io.fstat(self.fd)
        if now.st_nlink == 0:
            return DELETED
        return None if reached <= now.st_size <= self._limit else MEDDLED

    # ---- rotation

    def seal(self, live: Path) -> None:
        """Rename it from ``live`` to the name of a full file; raises ``OSError`` with its name unchanged."""
        name = segments.full_path(live, self.first)
        if self.path == name:
            return
        with contextlib.suppress(FileNotFoundError):
            self._io.stat(name)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        self._io.rename(self.path, name)
        self.path = name

    def followed_by(self, live: Path, first: int) -> LiveSegment:
        """A new file with the name ``live`` that follows this full one, which is closed.

        Raises ``OSError`` if it cannot be made; this file then has its old name again, or is continued under its new
        one.
        """
        try:
            fd = self._io.open(live, CREATE, 0o600)
        except OSError:
            with contextlib.suppress(OSError):
                self._unseal(live)
            raise
        with contextlib.suppress(OSError):  # all of it is synced
            self.close()
        return LiveSegment(self._io, live, fd, first, 0, entry_synced=True)

    def _unseal(self, live: Path) -> None:
        try:
            self._io.stat(live)
        except FileNotFoundError:
            self._io.rename(self.path, live)
            self.path = live

    # ---- rest

    def rest(self) -> None:
        """Close the descriptor until the file is used again."""
        self._inode = self._io.fstat(self.fd).st_ino
        self.close()

    def wake(self) -> None:
        """Open the file again. Raises ``Environment``, and is spoiled, if it is not the file that was closed."""
        if not self.rests:
            return
        if self.spoiled is None:
            self._open_again()
        if self.spoiled is not None:
            raise Environment("io_failed", f"{self.path}: {self.spoiled}", file=str(self.path))

    def _open_again(self) -> None:
        fd = -1
        try:
            fd = self._io.open(self.path, FLAGS)
            now = self._io.fstat(fd)
        except FileNotFoundError:
            self.spoiled = DELETED
        except OSError as error:
            if fd >= 0:
                self._io.close(fd)
            raise failure(self.path, error) from error
        else:
            if now.st_ino == self._inode and now.st_size == self._size:
                self.fd = fd
                return
            self._io.close(fd)
            self.spoiled = MEDDLED

    @contextmanager
    def awake(self) -> Iterator[int]:
        """The descriptor for a read; a closed file is closed again afterwards."""
        rested = self.rests
        self.wake()
        try:
            yield self.fd
        finally:
            if rested:
                self.close()

    def close(self) -> None:
        """Close the descriptor, if there is one."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            self._io.close(fd)
