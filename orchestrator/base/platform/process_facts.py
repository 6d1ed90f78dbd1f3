"""Facts about processes and this boot, as /proc shows them: state, parent, session, terminal, start time, words.

Standard library only and light: every relay and launch stub imports it at its start. Reads /proc, changes nothing.

A pid is trusted only together with its start time and its boot: pids are reused, and start times count from a boot.
"""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

PROC = "/proc"
ProcessKey = tuple[int, int]
"""Pid and start time: one process of this boot."""


class ProcessStat(NamedTuple):
    """A process as the kernel lists it, also one that has ended and that nobody has waited for.

    ``start`` is in clock ticks since boot; ``terminal`` is the device number of the controlling one, 0 without one;
    ``flags`` are the PF_ bits of linux/sched.h.
    """

    name: bytes
    state: bytes
    parent: int
    session: int
    terminal: int
    flags: int
    start: int

    @property
    def ended(self) -> bool:
        """Whether the process has ended and is listed only until its parent waits for it."""
        return self.state in (b"Z", b"X")


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
        name, state, int(parent), int(session), int(terminal) & 0xFFFFFFFF, int(flags), int(fields[19])
    )


def stat_of(pid: int) -> ProcessStat | None:
    """The process as it is listed now; None when it is gone or cannot be read."""
    try:
        return read_stat(pid)
    except OSError:
        return None


def start_time(pid: int) -> int | None:
    """When the process started, in clock ticks since boot: with the pid it is unique. None if it has ended."""
    stat = stat_of(pid)
    return None if stat is None or stat.ended else stat.start


def alive(pid: int, began: int) -> bool:
    """Whether that very process still runs; a zombie does not."""
    return start_time(pid) == began


def has_ended(pid: int) -> bool:
    """Whether the process is gone, or a zombie that nobody has waited for."""
    return start_time(pid) is None


def parent_of(pid: int) -> int | None:
    """The parent's pid; None when the process is gone."""
    stat = stat_of(pid)
    return None if stat is None else stat.parent


def has_terminal(pid: int) -> bool:
    """Whether the process has a controlling terminal, also one whose device is not visible here."""
    stat = stat_of(pid)
    return stat is not None and stat.terminal != 0


def is_own(pid: int) -> bool:
    """Whether the process runs and belongs to this user."""
    try:
        return os.stat(f"{PROC}/{pid}").st_uid == os.geteuid()  # noqa: PTH116  (as in `read`)
    except OSError:
        return False


def words_of(pid: int) -> list[bytes]:
    """The words of the process's command line, and an empty one after the last; empty when it cannot be read."""
    try:
        return read(pid, "cmdline").split(b"\0")
    except OSError:
        return []


def pids() -> list[int]:
    """All processes that are listed now; raises ``OSError`` where /proc is not readable."""
    return [int(name) for name in os.listdir(PROC) if name.isdigit()]  # noqa: PTH208  (as in `read`)


def boot_id() -> str:
    """Tells one boot of this machine from another; empty where the system does not show it."""
    try:
        with open(f"{PROC}/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123  (as in `read`)
            return file.read().strip()
    except OSError:
        return ""
