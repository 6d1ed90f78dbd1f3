"""What this user has launched since the machine was booted: the processes of agents, and who has started members.

One file per boot in the user's state directory, shared by the daemons of all projects: an agent of one must not
lead the team of another. Each launch appends a line before its program begins. Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.base.platform import ancestry
from orchestrator.base.platform.process_facts import PROC, ProcessKey, boot_id
from orchestrator.trust import state_dir
from orchestrator.trust.origin import KnownProcesses, ProcessOrigin, judge
from orchestrator.trust.state_dir import StateDirUnsafe

PLACE = "launched"
READ_MAX = 32 << 20
"""More than a million launches; what somebody has put behind them is not read."""
_DONE: set[Path] = set()  # the files in which this process stands as one that starts members


def record_agent(project: str, agent_id: str) -> None:
    """Say that this process becomes the CLI of an agent.

    Raises ``StateDirUnsafe``, and ``OSError`` as the disk does.
    """
    _append({"agent": agent_id, "project": project, **_own_life()})


def record_members() -> None:
    """Say that this process starts squad members from now on; once is enough. Raises as ``record_agent``."""
    path = state_dir.state_dir() / PLACE / _boot()
    if path in _DONE and path.exists():
        return
    _append({"members": True, **_own_life(), "since": now()})
    _DONE.add(path)


def own_origin() -> ProcessOrigin:
    """Where this very process comes from."""
    return judge(ancestry.lines_of(os.getpid()), Launched().known())


def now() -> int:
    """The present moment as start times are counted: clock ticks since boot."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


class Launched:
    """Reads the file of this boot, each line once. Lines that were read stay known: the file can only grow."""

    def __init__(self) -> None:
        self._known = KnownProcesses()
        self._fd: int | None = None  # stays open, so that no other file can get its inode number
        self._close: Callable[[], object] | None = None
        self._at = 0  # where the next line begins

    def known(self) -> KnownProcesses:
        """All launches that the file has now. An unsafe or unreadable directory adds nothing."""
        with contextlib.suppress(OSError, StateDirUnsafe):
            for line in self._new_lines():
                with contextlib.suppress(ValueError, LookupError, TypeError, RecursionError):
                    self._take(json.loads(line))
        return self._known

    def _new_lines(self) -> list[bytes]:
        base = state_dir.state_dir()
        path = base / PLACE / _boot()
        for step in (base, base / PLACE):
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

    def _take(self, entry: dict[str, Any]) -> None:
        life, above = _pair(entry["pid"], entry["start"]), {_pair(*pair) for pair in entry["above"]}
        if "agent" in entry:
            launched = KnownProcesses(
                {life: (str(entry["project"]), str(entry["agent"]))}, frozenset(), above, life[1]
            )
        else:
            launched = KnownProcesses({}, {life}, above, _pair(0, entry["since"])[1])
        self._known.add(launched)


def _own_life() -> dict[str, Any]:
    """The own process and its ancestors, as a line says them; ``OSError`` where the system does not show them."""
    lines = ancestry.lines_of(os.getpid())
    if not lines:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), PROC)
    own, *above = lines[0].processes
    return {"pid": own.pid, "start": own.start, "above": [[process.pid, process.start] for process in above]}


def _pair(pid: object, start: object) -> ProcessKey:
    if type(pid) is not int or type(start) is not int:
        raise TypeError("no pid and start time")
    return pid, start


def _append(entry: dict[str, Any]) -> None:
    path = state_dir.private_dir(PLACE) / _boot()
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


def _forget_other_boots(path: Path) -> None:
    with contextlib.suppress(OSError):
        for old in path.parent.iterdir():
            if not old.name.startswith(path.name.partition("+")[0]):
                old.unlink()


def _boot() -> str:
    """The name of this boot's file. A container has pids of its own, and may share the directory with others."""
    boot, space = boot_id(), ""
    with contextlib.suppress(OSError):
        space = Path(PROC, "self/ns/pid").readlink().name
    if not (boot and space):
        boot, space = "unknown", ""
    return f"{boot}+{''.join(char for char in space if char.isdigit())}"
