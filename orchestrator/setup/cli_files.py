"""The files of the CLIs: reads one, keeps a copy next to it, replaces it. The only writer of `orchestrator.setup`.

A link is followed, so that dotfiles that are stored elsewhere stay linked; mode and owner are kept. No reader ever
sees half a file, and a file that changed between reading and writing is not overwritten.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orchestrator.base.errors import Environment, NotReady

BOM = "\ufeff"


@dataclass(frozen=True)
class Original:
    """A file as it was read: ``text`` is None if there is none, without the byte order mark."""

    path: Path
    data: bytes | None
    text: str | None

    def encoded(self, text: str) -> bytes:
        """A new text in the file's own encoding."""
        mark = BOM if self.data is not None and self.data.startswith(BOM.encode()) else ""
        return (mark + text).encode()


def read(path: Path) -> Original:
    """The file now; a dangling link counts as missing. Environment errors if it cannot be read as UTF-8."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Original(path, None, None)
    except OSError as error:
        raise _failed(path, error) from error
    try:
        return Original(path, data, data.decode().removeprefix(BOM))
    except UnicodeDecodeError as error:
        raise unreadable(path, data.count(b"\n", 0, error.start) + 1, "not UTF-8") from error


def unreadable(path: Path, line: int, reason: str) -> Environment:
    """The error for a file that is left alone because it cannot be understood."""
    return Environment("config_unreadable", f"{path} line {line}: {reason}", file=str(path), line=line)


def write(original: Original, text: str | None, stamp: str) -> Path | None:
    """Replace the file by ``text`` (None: remove it); returns the path of the copy next to it, if there was a file.

    ``stamp`` becomes part of the copy's name. NotReady ``config_busy`` if the file has changed since it was read.
    """
    path = original.path
    target = Path(os.path.realpath(path))
    try:
        if original.data is not None:
            before = target.stat()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if read(path).data != original.data:
            raise _busy(path)
        kept = None if original.data is None else _keep(path, original.data, stat.S_IMODE(before.st_mode), stamp)
        if text is None:
            target.unlink(missing_ok=True)
            return kept
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(original.encoded(text))
                if original.data is not None:
                    os.fchmod(fd, stat.S_IMODE(before.st_mode))
                    if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                        os.fchown(fd, before.st_uid, before.st_gid)
                file.flush()
                os.fsync(fd)
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        return kept
    except OSError as error:
        raise _failed(path, error) from error


@contextlib.contextmanager
def directory_lock(path: Path, stale_s: float) -> Iterator[None]:
    """Hold the lock that a CLI holds while it writes the file; NotReady ``config_busy`` while it does.

    The lock is a directory next to the file, and counts no more when it is ``stale_s`` old.
    """
    lock = path.with_name(path.name + ".lock")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _locks(lock, stale_s):
            raise _busy(path)
    except OSError as error:
        raise _failed(path, error) from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.rmdir()


def _locks(lock: Path, stale_s: float) -> bool:
    """Whether the lock is ours now; a stale lock is taken over, and its holder may release it at any moment."""
    with contextlib.suppress(FileExistsError):
        lock.mkdir()
        return True
    with contextlib.suppress(FileNotFoundError):
        if time.time() - lock.stat().st_mtime < stale_s:
            return False
        lock.rmdir()
    with contextlib.suppress(FileExistsError):
        lock.mkdir()
        return True
    return False


def _keep(path: Path, data: bytes, mode: int, stamp: str) -> Path:
    number = 1
    while True:
        again = "" if number == 1 else f"-{number}"
        kept = path.with_name(f"{path.name}.orchestrator-backup-{stamp}{again}")
        try:
            fd = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        except FileExistsError:
            number += 1
            continue
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        return kept


def _busy(path: Path) -> NotReady:
    return NotReady("config_busy", f"{path} is being written by another program")


def _failed(path: Path, error: OSError) -> Environment:
    return Environment("io_failed", f"{error.filename or path}: {error.strerror or error}")
