"""Processes as the daemon handles them: environment, descendants, open files, end, signals. Uses psutil.

Single facts of a process come from `process_facts`. How a process that is no child of ours has ended only Linux
tells, and psutil does not have it: it is read here.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import time
from collections.abc import Collection
from pathlib import Path

import psutil

from orchestrator.base.clock import Clock, SystemClock
from orchestrator.base.platform import process_facts
from orchestrator.base.platform.basic_facts import LINUX, ProcessEnd
from orchestrator.base.platform.process_facts import alive, has_ended, start_time, stat_of, words_of
from orchestrator.base.waiting import elapse

LOOK_S = 0.5
"""How often a process is looked at whose end cannot be waited for."""
KILLED_S = 2.0
"""How long the kernel gets to end what SIGKILL was sent to."""
SPARED = b"tmux"
"""The beginning of a tmux server's name. It is never ended for what started it: it may hold other people's work."""
UNREADABLE = (psutil.Error, OSError)
"""What psutil raises for a process that has ended or is not ours to look into."""
SUSPENDED = (b"T", b"t")
"""The states of a process that was stopped, by a signal or by a debugger."""

_CLOCK = SystemClock()  # of the kernel's own moments, which no test's clock moves


def environ_of(pid: int) -> dict[str, str]:
    """The environment a process was started with; empty when it is gone or not ours to read."""
    try:
        return psutil.Process(pid).environ()
    except UNREADABLE:
        return {}


def command_of(pid: int) -> str:
    """The command line of a process, its words joined by blanks; empty when it is gone or not ours to read."""
    return os.fsdecode(b" ".join(words_of(pid))).strip()


def tree_of(pid: int) -> list[tuple[int, int]]:
    """The process and its living descendants as (pid, start time), parents first."""
    try:
        descendants = psutil.Process(pid).children(recursive=True)
    except UNREADABLE:
        descendants = []
    starts = [(member, start_time(member)) for member in (pid, *(process.pid for process in descendants))]
    return [(member, began) for member, began in starts if began is not None]


def holders_of(path: Path) -> list[int]:
    """The other processes that have the file open, as far as this user may look into them."""
    try:
        wanted = path.stat()
    except OSError:
        return []
    holders = []
    for process in psutil.process_iter():
        with contextlib.suppress(*UNREADABLE):
            if process.pid != os.getpid() and any(_is_same(file.path, wanted) for file in process.open_files()):
                holders.append(process.pid)
    return holders


def _is_same(path: str, wanted: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(Path(path).stat(), wanted)
    return False


def signal_name(number: int) -> str:
    """SIGKILL for 9; the number for one this system does not name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def send(tree: list[tuple[int, int]], sign: signal.Signals) -> None:
    """Signal those of the tree that still are the same processes."""
    for pid, began in tree:
        if alive(pid, began):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, sign)


async def ended(pid: int) -> int | None:
    """Wait until the process has ended; at once when it is gone already. Its wait status where the kernel tells it.

    It is no child of ours, so only Linux 6.15 and newer can tell, once its parent has taken note of the end.
    """
    try:
        end = ProcessEnd(pid)
    except ProcessLookupError:
        return None
    except OSError:
        began = start_time(pid)
        while began is not None and alive(pid, began):
            await elapse(LOOK_S, _CLOCK)
        return None
    try:
        await _readable(end.fileno())
        for _ in range(STATUS_TRIES if LINUX else 0):
            status, stat = _wait_status(end.fileno()), stat_of(pid)
            if status is not None or stat is None or not stat.ended:
                return _wait_status(end.fileno())
            await elapse(0.01, _CLOCK)
        return None
    finally:
        end.close()


async def child_ended(pid: int, clock: Clock) -> None:
    """Wait until our child has ended; it stays a zombie."""
    try:
        end = ProcessEnd(pid)
    except OSError:
        while not has_ended(pid):
            await elapse(LOOK_S, clock)
        return
    try:
        await _readable(end.fileno())
    finally:
        end.close()


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, lambda: None if done.done() else done.set_result(None))
    try:
        await done
    finally:
        loop.remove_reader(fd)


# linux/pidfd.h: struct pidfd_info in its first published size, and the exit status at its end.
_INFO_BYTES = 64
_GET_INFO = (3 << 30) | (_INFO_BYTES << 16) | (0xFF << 8) | 11
_INFO_EXIT = 1 << 3
STATUS_TRIES = 20


def _wait_status(fd: int) -> int | None:
    info = bytearray(_INFO_BYTES)
    struct.pack_into("=Q", info, 0, _INFO_EXIT)
    try:
        fcntl.ioctl(fd, _GET_INFO, info, True)
    except OSError:
        return None
    (filled,) = struct.unpack_from("=Q", info, 0)
    return int(struct.unpack_from("=i", info, _INFO_BYTES - 4)[0]) if filled & _INFO_EXIT else None


def stopped_below(pids: Collection[int]) -> dict[int, int]:
    """For each of these processes in whose tree one is stopped (SIGSTOP, Ctrl-Z): the pid of that one.

    tmux lets a pane's own process go on at once, but not those below it.
    """
    parents: dict[int, int] = {}
    stopped: list[int] = []
    for each in process_facts.pids():  # not by psutil, which takes four times as long, every few seconds
        stat = stat_of(each)
        if stat is not None:
            parents[each] = stat.parent
            if stat.state in SUSPENDED:
                stopped.append(each)
    below: dict[int, int] = {}
    for pid in stopped:
        at = pid
        while at not in pids and at in parents:
            at = parents[at]
        if at in pids:
            below.setdefault(at, pid)
    return below


async def end_tree(pid: int, grace_s: float, clock: Clock, began: int | None = None) -> str:
    """End the process and its descendants: SIGTERM, after ``grace_s`` SIGKILL; the name of the one that did it.

    With ``began`` only the process that was started then: another one of that pid is left alone.
    """
    tree = await asyncio.to_thread(tree_of, pid)
    if began is not None and (not tree or tree[0] != (pid, began)):
        return "gone already"
    send(tree, signal.SIGTERM)
    if await _all_gone(tree, grace_s, clock):
        return "SIGTERM"
    if began is None or alive(pid, began):
        await kill_tree(pid, clock, tree)
    else:
        send(tree, signal.SIGKILL)
        await _all_gone(tree, KILLED_S, clock)
    return "SIGKILL"


async def kill_tree(pid: int, clock: Clock, known: list[tuple[int, int]] | None = None) -> None:
    """SIGKILL for the process, its descendants, and those it was ``known`` to have before."""
    now = await asyncio.to_thread(tree_of, pid)
    both = list(dict.fromkeys([*(known or []), *now]))
    send(both, signal.SIGKILL)
    await _all_gone(both, KILLED_S, clock)


async def _all_gone(tree: list[tuple[int, int]], seconds: float, clock: Clock) -> bool:
    until = time.monotonic() + seconds
    while any(alive(pid, began) for pid, began in tree):
        if time.monotonic() >= until:
            return False
        await elapse(0.02, clock)
    return True
