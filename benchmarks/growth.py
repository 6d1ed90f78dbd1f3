"""One daemon that finishes very many tasks: what it holds after the first thousands, and after each round more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

from benchmarks.figures import Figure
from benchmarks.project import Project, agents_of, command, descriptors, enqueue, status_mb
from benchmarks.wire import Wire

AGENTS, AHEAD = 8, 20
WARM, ROUND = 800, 400
"""Tasks per agent: after the first an agent remembers as many calls as it ever does, and more should not be held."""
FIGURES = (
    Figure("rss_mb", f"daemon's memory after {AGENTS * WARM:,} tasks and {AGENTS * ROUND:,} more a round", "MB"),
    Figure("grown", "  to that after the first", at_most=1.1),
    Figure("peak_mb", "  its peak", "MB"),
    Figure("fds", "  its descriptors"),
    Figure("fds_grown", "  to those after the first", at_most=1.1),
    Figure("per_s", f"tasks finished by {AGENTS} agents, up to {AHEAD} queued for each, without syncs", "/s"),
)


async def rounds() -> AsyncIterator[dict[str, float]]:
    async with Project(durability='"os"', log_level='"warning"') as project:
        master, ids, wires = await agents_of(project, AGENTS)
        pid = project.daemon_pid()

        async def finish(each: int) -> float:
            began = time.perf_counter()
            await asyncio.gather(*(work(master, w, a, each) for w, a in zip(wires, ids, strict=True)))
            return AGENTS * each / (time.perf_counter() - began)

        await finish(WARM)
        first, fds = status_mb(pid, "VmRSS"), descriptors(pid)
        while True:
            out = {"per_s": await finish(ROUND), "peak_mb": status_mb(pid, "VmHWM")}
            out |= {"rss_mb": status_mb(pid, "VmRSS"), "fds": descriptors(pid)}
            yield {**out, "grown": out["rss_mb"] / first, "fds_grown": out["fds"] / fds}


async def work(master: Wire, wire: Wire, agent_id: str, count: int) -> None:
    """Enqueue and finish so many tasks, some ahead."""
    for size in portions(count, AHEAD):
        await asyncio.gather(*(enqueue(master, agent_id) for _ in range(size)))
        for _ in range(size):
            await command(wire, agent_id)
            await wire.call("emit_event", agent_id=agent_id, type="result")


def portions(count: int, size: int) -> Iterator[int]:
    """``count`` in portions of ``size``, the last one smaller if it must be.

    >>> list(portions(50, 20)), list(portions(40, 20)), list(portions(0, 20))
    ([20, 20, 10], [20, 20], [])
    """
    for at in range(0, count, size):
        yield min(size, count - at)
