"""Reads one file of a project for the index: never one outside, never a pipe, and sees when it is being written.

The way to the file is opened directory by directory without following links, so a directory that is swapped for a
link to elsewhere between the listing and the reading leads nowhere.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from dataclasses import dataclass
from hashlib import blake2b

MAX_BYTES = 1 << 20
"""A larger file is data or generated: it is known by its name and length only."""
SETTLED_NS = 2_000_000_000
"""A file that changed so shortly before it was read may change again without another time stamp (as git knows)."""
_TRIES = 3
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EISDIR}
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class NotThere(Exception):
    """There is no regular file of this path inside the project (any more)."""


@dataclass(frozen=True, slots=True)
class Content:
    """A file as it was at one moment. ``data`` is None when it is larger than the limit.

    ``mtime_ns`` is 0 when the time stamp could not tell a later change: the file had just been written, or was
    written while it was read. ``digest`` is of the content; of a large file, of its length.
    """

    data: bytes | None
    mtime_ns: int
    size: int
    digest: bytes


def digest_of(data: bytes) -> bytes:
    """What tells one content from another."""
    return blake2b(data, digest_size=16).digest()


def read_file(root: str, path: str, limit: int = MAX_BYTES) -> Content:
    """The file of a project-relative path; `NotThere`, or OSError when the system refuses to read it."""
    for last in (False,) * (_TRIES - 1) + (True,):
        fd = _open(root, path)
        try:
            before = os.fstat(fd)
            if not stat.S_ISREG(before.st_mode):
                raise NotThere(path)
            data = _read(fd, limit) if before.st_size <= limit else None
            after = os.fstat(fd)
        finally:
            os.close(fd)
        quiet = (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)
        if data is not None and len(data) > limit:
            data, quiet = None, False
        if quiet or last:
            settled = quiet and time.time_ns() - after.st_mtime_ns > SETTLED_NS
            size = after.st_size if data is None else len(data)
            digest = digest_of(b"large\0%d" % size if data is None else data)
            return Content(data, after.st_mtime_ns if settled else 0, size, digest)
    raise AssertionError("unreachable")


def _open(root: str, path: str) -> int:
    *directories, name = path.split("/")
    at = -1
    try:
        at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in directories:
            if part in {"", ".", ".."}:
                raise NotThere(path)
            inner = os.open(part, _PLAIN | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = inner
        return os.open(name, _PLAIN, dir_fd=at)
    except ValueError:  # a NUL
        raise NotThere(path) from None
    except OSError as error:
        if error.errno in _GONE:
            raise NotThere(path) from None
        raise
    finally:
        if at >= 0:
            os.close(at)


def _read(fd: int, limit: int) -> bytes:
    parts: list[bytes] = []
    left = limit + 1
    while left > 0 and (part := os.read(fd, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
