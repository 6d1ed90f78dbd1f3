"""Facts about processes and this boot: state, parent, session, terminal, start time, words, environment.

Standard library only and light on Linux: every relay and launch stub imports it at its start. Reads, changes nothing.

A pid is trusted only together with its start time and its boot: pids are reused, and start times count from a boot.
"""

from __future__ import annotations

from orchestrator.base.platform.basic_facts import LINUX, boot_id
from orchestrator.base.platform.process_stat import ProcessStat

if LINUX:
    from orchestrator.base.platform import linux_processes as system
else:
    from orchestrator.base.platform import portable_processes as system  # type: ignore[no-redef]  # the same functions

__all__ = [
    "LINUX", "ProcessKey", "ProcessStat", "alive", "boot_id", "directory_of", "environment_of", "has_ended",
    "has_terminal", "is_own", "now", "parent_of", "pid_space", "pids", "read_stat", "start_time",
    "stat_of", "terminal_of", "words_of",
]  # fmt: skip

ProcessKey = tuple[int, int]
"""Pid and start time: one process of this boot."""
read_stat = system.read_stat
terminal_of = system.terminal_of
environment_of = system.environment_of
words_of = system.words_of
directory_of = system.directory_of
is_own = system.is_own
pids = system.pids
pid_space = system.pid_space
now = system.now


def stat_of(pid: int) -> ProcessStat | None:
    """The process as it is listed now; None when it is gone or cannot be read."""
    try:
        return system.read_stat(pid)
    except OSError:
        return None


def start_time(pid: int) -> int | None:
    """When the process started (`ProcessStat.start`): with the pid it is unique. None if it has ended."""
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
    return stat is not None and terminal_of(pid, stat) != 0
