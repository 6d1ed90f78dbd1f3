"""The user's state directory, which has the facts about trust, outside every project.

Standard library only: the launch stub reads it too. Makes the directory when a caller writes, and nothing else.
"""
# os.path keeps paths that are not UTF-8:
# ruff: noqa: PTH102

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from pathlib import Path

VARIABLE = "ORCHESTRATOR_STATE_DIR"
_COUNT = 0


class StateDirUnsafe(Exception):
    """The state directory cannot be used; the message is one sentence naming the path."""


def state_dir() -> Path:
    """The path of the directory, which may not exist yet.

    ``ORCHESTRATOR_STATE_DIR`` if that is an absolute path (containers, tests), else ``.local/state/orchestrator``
    in the home directory of the password database: ``$HOME`` differs between CLIs that scrub their environment.
    """
    named = os.environ.get(VARIABLE, "")
    if named.startswith("/"):
        return Path(named)
    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:  # a container's user without an entry
        home = os.environ.get("HOME", "")
    if not home.startswith("/"):
        raise StateDirUnsafe(f"user {os.geteuid()} has no home directory; set {VARIABLE} to an absolute path")
    return Path(home, ".local", "state", "orchestrator")


def private_dir(*names: str) -> Path:
    """A directory below the state directory, made if missing; each step is ours alone (0700).

    Raises ``StateDirUnsafe`` when a step belongs to another user, is open to others, or cannot be made.
    """
    base = state_dir()
    try:
        base.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateDirUnsafe(f"{base.parent} cannot be made: {error.strerror}") from error
    path = base
    _insist(path)
    for name in names:
        path = path / name
        _insist(path)
    return path


def _insist(path: Path) -> None:
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        directory_stat = os.lstat(path)
    except OSError as error:
        raise StateDirUnsafe(f"the state directory {path} cannot be made: {error.strerror}") from error
    check(path, directory_stat)


def check(path: Path, directory_stat: os.stat_result) -> None:
    """Insist on a directory of ours that is closed to others; ``StateDirUnsafe`` otherwise."""
    if not stat.S_ISDIR(directory_stat.st_mode):
        raise StateDirUnsafe(f"{path} is not a directory")
    if directory_stat.st_uid != os.geteuid():
        raise StateDirUnsafe(f"{path} belongs to user {directory_stat.st_uid}, not to {os.geteuid()}")
    if directory_stat.st_mode & 0o077:
        raise StateDirUnsafe(
            f"{path} is open to others (mode {stat.S_IMODE(directory_stat.st_mode):04o}, wanted 0700)"
        )


def read(path: Path, limit: int = 1 << 20) -> bytes | None:
    """A private file's content; None when there is none, or it is not a regular file of this user alone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        file_stat = os.fstat(fd)
        private = (
            stat.S_ISREG(file_stat.st_mode) and file_stat.st_uid == os.geteuid() and not file_stat.st_mode & 0o077
        )
        return os.read(fd, limit) if private else None
    except OSError:
        return None
    finally:
        os.close(fd)


def write(path: Path, data: bytes) -> None:
    """Replace a private file (0600), atomically and durably; raises ``OSError``."""
    global _COUNT  # noqa: PLW0603 - two replacements of one file must not share a temporary
    _COUNT += 1
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{_COUNT}.tmp")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        temporary.replace(path)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
