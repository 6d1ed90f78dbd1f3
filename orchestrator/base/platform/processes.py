"""Processes of this machine: who descends from whom, since when, with which environment; watching and ending them.

Reads /proc; a pid is trusted only together with its start time, for pids are reused.
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

from orchestrator.base.clock import Clock, SystemClock, elapse

PROC = Path("/proc")
WITHOUT_PIDFD_S = 0.5
KILLED_S = 2.0
"""How long the kernel gets to end what SIGKILL was sent to."""

_CLOCK = SystemClock()  # of the kernel's own moments, which no test's clock moves


def start_time(pid: int) -> int | None:
    """When the process started, in clock ticks since boot: with the pid it is unique. None if it has ended."""
    try:
        stat = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name in parentheses may hold blanks and parentheses: count from the last one.
    state, *rest = stat.rpartition(")")[2].split()
    # A process nobody has waited for yet is still listed, but it has ended.
    return None if state in {"Z", "X"} else int(rest[18])


def environ_of(pid: int) -> dict[str, str]:
    """The environment a process was started with; empty when it is gone or not ours to read."""
    try:
        raw = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.partition(b"=") for item in raw.split(b"\0") if b"=" in item)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs if name}


def command_of(pid: int) -> str:
    """The command line of a process, its words joined by blanks; empty when it is gone or not ours to read."""
    try:
        raw = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    return os.fsdecode(raw.replace(b"\0", b" ")).strip()


def parent_of(pid: int) -> int | None:
    """The parent's pid; None when the process is gone."""
    try:
        stat = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    return int(stat.rpartition(b")")[2].split()[1])


def tree_of(pid: int) -> list[tuple[int, int]]:
    """The process and its living descendants as (pid, start time), parents first."""
    children: dict[int, list[int]] = {}
    for item in PROC.iterdir():
        if item.name.isdigit():
            parent = parent_of(int(item.name))
            if parent is not None:
                children.setdefault(parent, []).append(int(item.name))
    found: list[tuple[int, int]] = []
    todo = [pid]
    while todo:
        one = todo.pop(0)
        began = start_time(one)
        if began is not None:
            found.append((one, began))
            todo += children.get(one, [])
    return found


def alive(pid: int, began: int) -> bool:
    """Whether that very process still runs; a zombie does not."""
    return start_time(pid) == began and state_of(pid) not in ("Z", "")


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
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    except OSError:  # no descriptor is left: look now and then
        began = start_time(pid)
        while began is not None and alive(pid, began):
            await elapse(WITHOUT_PIDFD_S, _CLOCK)
        return None
    try:
        await readable(fd)
        for _ in range(STATUS_TRIES):
            status = _wait_status(fd)
            if status is not None or not _is_zombie(pid):
                return _wait_status(fd)
            await elapse(0.01, _CLOCK)
        return None
    finally:
        os.close(fd)


async def readable(fd: int) -> None:
    """Wait until the descriptor can be read: of a pidfd, until its process has ended."""
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
    (told,) = struct.unpack_from("=Q", info, 0)
    return int(struct.unpack_from("=i", info, _INFO_BYTES - 4)[0]) if told & _INFO_EXIT else None


def _is_zombie(pid: int) -> bool:
    return state_of(pid) == "Z"


def state_of(pid: int) -> str:
    """The kernel's letter for what the process does: R, S, D, T (stopped), Z (ended) …; "" when it is gone."""
    try:
        stat = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return ""
    return stat.rpartition(b")")[2].split()[0].decode()


def stopped_below(pids: Collection[int]) -> dict[int, int]:
    """For each of these processes in whose tree one is stopped (SIGSTOP, Ctrl-Z): the pid of that one.

    tmux lets a pane's own process go on at once, but not those below it.
    """
    parents: dict[int, int] = {}
    stopped: list[int] = []
    for item in PROC.iterdir():
        if not item.name.isdigit():
            continue
        try:
            words = (item / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        parents[int(item.name)] = int(words[1])
        if words[0] in (b"T", b"t"):
            stopped.append(int(item.name))
    found: dict[int, int] = {}
    for pid in stopped:
        at = pid
        while at not in pids and at in parents:
            at = parents[at]
        if at in pids:
            found.setdefault(at, pid)
    return found


def boot_id() -> str:
    """Tells one boot of this machine from another: start times count from it."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


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
