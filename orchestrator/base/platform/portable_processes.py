"""Processes as psutil shows them: the form for systems without /proc. Reads, and changes nothing.

The same functions as `linux_processes`; `process_facts` takes those of this system. psutil is imported when it is
needed: the small programs of `edge` get by without it, by `ancestry.lines_of`, which then asks another program.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from orchestrator.base.platform.process_stat import ProcessStat

TICKS = 100
"""Per second: psutil tells when a process was started as exactly as the kernel does, and no journal needs more."""

_STATES = {"zombie": b"Z", "dead": b"X", "stopped": b"T", "tracing-stop": b"t", "running": b"R"}


def read_stat(pid: int) -> ProcessStat:
    """The process as it is listed now; ``OSError`` when it is gone or not ours to look into."""
    with _as_os_error(pid) as psutil:
        process = psutil.Process(pid)
        with process.oneshot():
            state = _STATES.get(process.status(), b"S")
            name, parent = os.fsencode(process.name()), process.ppid() or 0
            return ProcessStat(name, state, parent, _session(pid), 0, _start(process))


def _start(process: Any) -> int:
    """When it was started, by a clock that nobody sets: what psutil itself recognizes the process by.

    That is the time since boot on Linux, and elsewhere the kernel's own note; ``create_time`` would move whenever the
    clock of the machine is set, and each process of ours would be taken for another one.
    """
    start: float | None = process._ident[1]  # noqa: SLF001 - as psutil compares processes; it has no public name
    if start is None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return round(start * TICKS)


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def terminal_of(pid: int, _stat: ProcessStat) -> int:
    """The device number of its controlling terminal; 0 without one. Takes long for one without: it is looked for."""
    try:
        with _as_os_error(pid) as psutil:
            process = psutil.Process(pid)
            path = process.terminal()
            if path is None:  # psutil lists the machine's terminals once, and this one may be younger
                psutil._psposix.get_terminal_map.cache_clear()  # noqa: SLF001 - it has no public name
                path = process.terminal()
            return os.stat(path).st_rdev if path else 0  # noqa: PTH116 - a device, by its name
    except OSError:
        return 0


def environment_of(pid: int) -> list[bytes]:
    """The variables that the process was started with, ``NAME=value``; raises ``OSError`` as ``read_stat`` does.

    macOS shows those of its own programs to nobody, and then there are none.
    """
    with _as_os_error(pid) as psutil:
        return [os.fsencode(f"{name}={value}") for name, value in psutil.Process(pid).environ().items()]


def words_of(pid: int) -> list[bytes]:
    """The words of the process's command line, and an empty one after the last; empty when it cannot be read."""
    try:
        with _as_os_error(pid) as psutil:
            return [os.fsencode(word) for word in (*psutil.Process(pid).cmdline(), "")]
    except OSError:
        return []


def directory_of(pid: int) -> str:
    """The working directory of the process; raises ``OSError``."""
    with _as_os_error(pid) as psutil:
        return str(psutil.Process(pid).cwd())


def is_own(pid: int) -> bool:
    """Whether the process runs and belongs to this user."""
    try:
        with _as_os_error(pid) as psutil:
            return bool(psutil.Process(pid).uids().effective == os.geteuid())
    except OSError:
        return False


def pids() -> list[int]:
    """All processes that are listed now."""
    with _as_os_error(0) as psutil:
        return list(psutil.pids())


def pid_space() -> str:
    """Nothing to tell: macOS has no containers with pids of their own."""
    return "0"


def now() -> int:
    """The present moment as start times are counted."""
    since_boot = sys.platform in ("linux", "android")
    return int((time.clock_gettime(time.CLOCK_BOOTTIME) if since_boot else time.time()) * TICKS)


@contextmanager
def _as_os_error(pid: int) -> Iterator[Any]:
    """psutil, with its errors as those that reading /proc would raise."""
    import psutil  # noqa: PLC0415 - see the head

    try:
        yield psutil
    except psutil.NoSuchProcess as error:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH), str(pid)) from error
    except psutil.Error as error:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(pid)) from error
