"""Processes as Linux shows them: /proc. The standard library only; reads, and changes nothing.

The same functions as `portable_processes`; `process_facts` takes those of this system.
"""

from __future__ import annotations

import errno
import os
import time

from orchestrator.base.platform.basic_facts import PROC
from orchestrator.base.platform.process_stat import ProcessStat

_HAS_NONE = 0x4 | 0x200000
"""linux/sched.h, PF_EXITING and PF_KTHREAD: who has no environment and gets none."""


def read(pid: int, name: str) -> bytes:
    """A file of the process in /proc; ``OSError`` when it is gone, not ours to read, or no descriptor is left."""
    # Neither pathlib nor a buffer: a search reads this for each of hundreds of processes.
    with open(f"{PROC}/{pid}/{name}", "rb", buffering=0) as file:  # noqa: PTH123
        return file.read()


def read_stat(pid: int) -> ProcessStat:
    """The process as it is listed now; raises ``OSError`` as ``read`` does."""
    # The name in parentheses may hold blanks and parentheses: it ends at the last one.
    name, _, rest = read(pid, "stat").partition(b"(")[2].rpartition(b")")
    fields = rest.split()
    if len(fields) < 20:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH), f"{PROC}/{pid}/stat")
    state, parent, _, session, terminal, _, flags = fields[:7]
    return ProcessStat(
        name,
        state,
        int(parent),
        int(session),
        int(terminal) & 0xFFFFFFFF,
        int(fields[19]),
        bool(int(flags) & _HAS_NONE),
    )


def terminal_of(_pid: int, stat: ProcessStat) -> int:
    """The device number of its controlling terminal, also of one whose device is not visible here; 0 without one."""
    return stat.terminal


def environment_of(pid: int) -> list[bytes]:
    """The variables that the process was started with, ``NAME=value``; raises ``OSError`` as ``read`` does."""
    return [item for item in read(pid, "environ").split(b"\0") if item]


def words_of(pid: int) -> list[bytes]:
    """The words of the process's command line, and an empty one after the last; empty when it cannot be read."""
    try:
        return read(pid, "cmdline").split(b"\0")
    except OSError:
        return []


def directory_of(pid: int) -> str:
    """The working directory of the process; raises ``OSError``."""
    return os.readlink(f"{PROC}/{pid}/cwd")  # noqa: PTH115  (as in `read`)


def is_own(pid: int) -> bool:
    """Whether the process runs and belongs to this user."""
    try:
        return os.stat(f"{PROC}/{pid}").st_uid == os.geteuid()  # noqa: PTH116  (as in `read`)
    except OSError:
        return False


def pids() -> list[int]:
    """All processes that are listed now; raises ``OSError`` where /proc is not readable."""
    return [int(name) for name in os.listdir(PROC) if name.isdigit()]  # noqa: PTH208  (as in `read`)


def pid_space() -> str:
    """Tells the pids of one container from those of another; empty where the system does not show it."""
    try:
        link = os.readlink(f"{PROC}/self/ns/pid")  # noqa: PTH115  (as in `read`)
    except OSError:
        return ""
    return "".join(char for char in link if char.isdigit())


def now() -> int:
    """The present moment as start times are counted."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
