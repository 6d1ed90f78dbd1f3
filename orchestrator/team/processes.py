"""Processes of this machine: who descends from whom, since when, with which environment; watching and ending them.

Reads /proc; a pid is trusted only together with its start time, for pids are reused.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

from orchestrator.clock import Clock, elapse
from orchestrator.term import tmux

PROC = Path("/proc")
KILLED_S = 2.0
"""How long the kernel gets to end what SIGKILL was sent to."""

start_time = tmux.start_time


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
    if start_time(pid) != began:
        return False
    try:
        stat = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] != b"Z"


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


async def ended(pid: int) -> None:
    """Wait until the process has ended; returns at once when it is gone already. Not a child of ours: no status."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def readable() -> None:
        if not done.done():
            done.set_result(None)

    loop.add_reader(fd, readable)
    try:
        await done
    finally:
        loop.remove_reader(fd)
        os.close(fd)


async def end_tree(pid: int, grace_s: float, clock: Clock) -> str:
    """End the process and its descendants: SIGTERM, after ``grace_s`` SIGKILL; the name of the one that did it."""
    tree = await asyncio.to_thread(tree_of, pid)
    send(tree, signal.SIGTERM)
    if await _all_gone(tree, grace_s, clock):
        return "SIGTERM"
    await kill_tree(pid, clock, tree)
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
