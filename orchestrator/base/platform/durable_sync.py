"""Writes a file through to the disk, past the caches of the system and of the drive.

fsync of macOS leaves the bytes in the drive's cache, where a power cut takes them; F_FULLFSYNC does not.
"""

from __future__ import annotations

import errno
import fcntl
import os

from orchestrator.base.platform.basic_facts import LINUX

F_FULLFSYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)  # macOS alone
_WITHOUT = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL)
"""Of a file system that cannot tell its drive, such as one of another machine: plain fsync is what it has."""


def sync_data(fd: int) -> None:
    """The content and the length of the file are on the disk when this returns; raises ``OSError``."""
    if LINUX:
        os.fdatasync(fd)
    else:
        sync_file(fd)


def sync_file(fd: int) -> None:
    """All of the file, or the entries of a directory, are on the disk when this returns; raises ``OSError``."""
    if F_FULLFSYNC is not None:
        try:
            fcntl.fcntl(fd, F_FULLFSYNC)
        except OSError as error:
            if error.errno not in _WITHOUT:
                raise
        else:
            return
    os.fsync(fd)
