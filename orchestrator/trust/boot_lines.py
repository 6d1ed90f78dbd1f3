"""Lines that hold until the next boot: one file per boot in the user's state directory, shared by all daemons.

Each line is JSON and is appended in one write; lines are only ever added. Standard library only: the launch stub
uses it too.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from orchestrator.base.platform import ancestry, process_facts
from orchestrator.trust import state_dir
from orchestrator.trust.state_dir import StateDirUnsafe

READ_MAX = 32 << 20
"""More than a million lines; what somebody has put behind them is not read."""


class BootLines:
    """Reads the file of this boot below ``place``, each line once: the file can only grow."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._fd: int | None = None  # stays open, so that no other file can get its inode number
        self._close: Callable[[], object] | None = None
        self._at = 0  # where the next line begins

    def new(self) -> Iterator[dict[str, Any]]:
        """The objects that were appended since the last call. An unsafe or unreadable directory has none."""
        with contextlib.suppress(OSError, StateDirUnsafe):
            for line in self._new_lines():
                with contextlib.suppress(ValueError, RecursionError):
                    entry = json.loads(line)
                    if isinstance(entry, dict):
                        yield entry

    def _new_lines(self) -> list[bytes]:
        base = state_dir.state_dir()
        path = base / self._place / name_of_boot()
        for step in (base, base / self._place):
            state_dir.check(step, step.lstat())
        if self._fd is None or not os.path.samestat(os.fstat(self._fd), path.lstat()):
            self._open(path)
        if self._fd is None:
            return []
        size = os.fstat(self._fd).st_size
        if size < self._at:
            self._at = 0
        data = os.pread(self._fd, min(size, READ_MAX) - self._at, self._at) if self._at < min(size, READ_MAX) else b""
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        return whole.splitlines()

    def _open(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        file_stat = os.fstat(fd)
        if not stat.S_ISREG(file_stat.st_mode) or file_stat.st_uid != os.geteuid():
            os.close(fd)
            return
        if self._close is not None:
            self._close()
        self._fd, self._at, self._close = fd, 0, weakref.finalize(self, os.close, fd)


def append(place: str, entry: dict[str, Any]) -> None:
    """Add a line to the file of this boot, and remove those of earlier boots.

    Raises ``StateDirUnsafe``, and ``OSError`` as the disk does.
    """
    path = state_dir.private_dir(place) / name_of_boot()
    data = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    fd = os.open(path, flags, 0o600)
    try:
        file_stat = os.fstat(fd)
        if not stat.S_ISREG(file_stat.st_mode) or file_stat.st_uid != os.geteuid():
            raise StateDirUnsafe(f"{path} is not a file of this user")
        if file_stat.st_size == 0:
            _forget_other_boots(path)
        # One write: lines of two programs do not mix. Not synced: it holds for this boot, which a power cut ends.
        if os.write(fd, data) != len(data):
            os.write(fd, b"\n")  # the next line must not be glued to half of this one
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(fd)


def process_line(pid: int) -> dict[str, Any]:
    """A living process and its ancestors, as a line names them; ``OSError`` where the system does not show them."""
    lines = ancestry.lines_of(pid)
    if not lines:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), f"process {pid}")
    own, *above = lines[0].processes
    return {"pid": own.pid, "start": own.start, "above": [[process.pid, process.start] for process in above]}


def name_of_boot() -> str:
    """The name of this boot's file. A container has pids of its own, and may share the directory with others."""
    boot, space = process_facts.boot_id(), process_facts.pid_space()
    return f"{boot}+{space}" if boot and space else "unknown+"


def _forget_other_boots(path: Path) -> None:
    with contextlib.suppress(OSError):
        for old in path.parent.iterdir():
            if not old.name.startswith(path.name.partition("+")[0]):
                old.unlink()
