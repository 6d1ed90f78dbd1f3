"""The system calls of the journal, in one replaceable place; nothing else in the journal touches the disk.

Tests pass a subclass that records calls or fails the n-th one, so every error path can be reached on demand.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from pathlib import Path

from orchestrator.base.platform import durable_sync


class SysIO:
    """The real calls, one method each; all raise ``OSError`` and return what ``os`` returns."""

    _spare: int | None = None
    _spare_lock = threading.Lock()

    def reserve(self) -> None:
        """Keep a descriptor for the time when there is no other: a failed sync of a directory ends the daemon."""
        if self._spare is None:
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def close(self, fd: int) -> None:
        os.close(fd)

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        return os.pread(fd, count, offset)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        return os.pwrite(fd, data, offset)

    def fdatasync(self, fd: int) -> None:
        durable_sync.sync_data(fd)

    def fsync(self, fd: int) -> None:
        durable_sync.sync_file(fd)

    def ftruncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def fstat(self, fd: int) -> os.stat_result:
        return os.fstat(fd)

    def stat(self, path: Path) -> os.stat_result:
        """Of the name itself, not of what a link points to."""
        return path.lstat()

    def listdir(self, path: Path) -> list[str]:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries]

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def mkdir(self, path: Path, mode: int) -> None:
        path.mkdir(mode)

    def fsync_dir(self, path: Path) -> None:
        """Make the entries of a directory durable (a new or renamed file is not, by its own fsync alone)."""
        try:
            self._fsync_dir(path)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            with self._spare_lock:
                if self._spare is None:
                    raise
                os.close(self._spare)
                self._spare = None
                try:
                    self._fsync_dir(path)
                finally:
                    with contextlib.suppress(OSError):
                        self.reserve()

    def _fsync_dir(self, path: Path) -> None:
        fd = self.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.fsync(fd)
        finally:
            self.close(fd)


REAL = SysIO()
