"""`.agents/lock`: whether a process holds it, and the text in it that says which run directory its holder uses.

Git and tar can write the file. So its content counts only while the lock is held, and it never names a path. Touches
that one file. Standard library only: every relay reads it.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress

TMP = "tmp"
"""The run directory below /tmp."""
STATE = "state"
"""The run directory below the user's state directory."""
_MAX = 64


class NotOurs(Exception):
    """The file cannot carry a word; the message is one sentence naming the path."""


def lock_text(path: str | os.PathLike[str]) -> str:
    """The text of the process that holds the lock; "" if no process holds it."""
    content = _look(path)
    words = content.split() if content is not None else []
    return next((word for word in (TMP, STATE) if words[:1] == [word.encode()]), "")


def held(path: str | os.PathLike[str]) -> bool:
    """Whether a process holds the lock. Never blocks, and never makes the file.

    The check takes a shared lock and releases it at once. A process that claims the lock meanwhile is refused
    although nobody holds it; with this function it notices that, and tries again.
    """
    return _look(path) is not None


def token(path: str | os.PathLike[str]) -> str:
    """The token that the last holder wrote after its word; an empty string if there is none."""
    with suppress(OSError):
        fd = _open(path, os.O_RDONLY)
        try:
            words = os.read(fd, _MAX).split()
            return words[1].decode("ascii", "replace") if len(words) == 2 else ""
        finally:
            os.close(fd)
    return ""


def write(fd: int, word: str, mark: str) -> bool:
    """Write text and token into the lock file that the caller holds, durably; returns whether that succeeded.

    If not (a full disk), the file is emptied, because no text is better than a wrong one.
    """
    data = f"{word} {mark}\n".encode() if word else b""
    try:
        os.pwrite(fd, data, 0)
        os.ftruncate(fd, len(data))
        os.fsync(fd)
    except OSError:
        with suppress(OSError):
            os.ftruncate(fd, 0)
        return False
    return True


def check(path: str | os.PathLike[str]) -> None:
    """Insist that the file, if there is one, is a regular file of one name; raises ``NotOurs``.

    An archive may bring a link, and to write through it would destroy another file.
    """
    try:
        file_stat = os.lstat(path)
    except OSError:
        return
    if not stat.S_ISREG(file_stat.st_mode):
        raise NotOurs(f"{os.fspath(path)} is not a regular file")
    if file_stat.st_nlink > 1:
        raise NotOurs(f"{os.fspath(path)} is a hard link to another file")


def _look(path: str | os.PathLike[str]) -> bytes | None:
    """The first bytes of the file while a process holds the lock; None otherwise."""
    try:
        fd = _open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        with suppress(OSError):
            return os.read(fd, _MAX)
        return b""
    except OSError:  # a file system without locks: nobody can be seen to hold it
        return None
    finally:
        os.close(fd)
    return None


def _open(path: str | os.PathLike[str], flags: int) -> int:
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError("not a regular file")
    return fd
