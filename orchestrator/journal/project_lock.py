"""The lock on a project's files: one daemon at a time, wherever its run directory is.

The run directory's lock keeps daemons of one machine apart, but a container or a private /tmp has another run
directory and the same files. So the writer also locks a file next to them when it first reads or writes them. The
text in the lock file tells other programs where to reach the daemon.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout

from orchestrator.base import entropy
from orchestrator.base.errors import Conflict, Environment
from orchestrator.journal.project_files import Paths, failure
from orchestrator.trust import lock_word

LOOKED_AT_S = 1.0  # a program that looks who holds the lock shares it for a moment
LOOK_AGAIN_S = 0.005


class ProjectClaim:
    """A held `.agents/lock`. ``token`` follows the address in the file; empty if it could not be written."""

    def __init__(self, path: Path, lock: FileLock, inode: tuple[int, int], token: str) -> None:
        self.token = token
        self._path = path
        self._lock = lock
        self._inode = inode

    def in_place(self) -> bool:
        """Whether the path still leads to the file that is locked: git and tar replace files."""
        try:
            file_stat = self._path.lstat()
        except OSError:
            return False
        return (file_stat.st_dev, file_stat.st_ino) == self._inode

    def release(self) -> None:
        """Let the next daemon have the files."""
        self._lock.release()


def claim(paths: Paths, word: str = "") -> ProjectClaim:
    """Hold `.agents/lock` until the process ends; Conflict ``daemon_running`` when another daemon has it.

    The directory must exist. ``word`` (`lock_word`) is written into the file. The lock goes with the process, also
    by kill -9; children do not inherit it. Environment ``io_failed`` for a file that is no lock of ours.
    """
    path, deadline, pause = paths.home / "lock", time.monotonic() + LOOKED_AT_S, threading.Event()
    while True:
        lock = FileLock(path, timeout=0, mode=0o600)
        try:
            lock_word.check(path)
            lock.acquire()
        except lock_word.NotOurs as error:
            raise Environment("io_failed", str(error), f"remove {path}; it holds nothing") from error
        except Timeout:
            if lock_word.held(path) or time.monotonic() >= deadline:
                raise taken(paths) from None
        except OSError as error:
            raise failure(path, error) from error
        else:
            try:
                project_claim = _marked(path, lock, word)
            except OSError as error:
                lock.release()
                raise failure(path, error) from error
            if project_claim is not None:
                return project_claim
            lock.release()
            if time.monotonic() >= deadline:
                raise Environment("io_failed", f"{path} is replaced again and again")
        pause.wait(LOOK_AGAIN_S)


def taken(paths: Paths) -> Conflict:
    """The refusal of a daemon whose project another daemon writes."""
    return Conflict("daemon_running", f"another daemon writes {paths.home}, from another run directory")


def _marked(path: Path, lock: FileLock, word: str) -> ProjectClaim | None:
    """The claim, with its word in the file; None where the path leads to another file than the locked one."""
    try:
        if isinstance(lock, SoftFileLock):  # no flock on this file system: what the file says is that library's
            file_stat = path.lstat()
            return ProjectClaim(path, lock, (file_stat.st_dev, file_stat.st_ino), "")
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        file_stat = os.fstat(fd)
        if file_stat.st_nlink != 1 or not _locked(fd):
            return None
        token = entropy.token_hex(8)
        written = lock_word.write(fd, word, token)
        return ProjectClaim(path, lock, (file_stat.st_dev, file_stat.st_ino), token if word and written else "")
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
