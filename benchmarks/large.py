"""A project with 1,000,000 records in 100 logs: how fast the daemon is back, with a cache and without one.

Beside it an empty project. Without a cache the daemon makes one while it works: meanwhile an agent gets tasks.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from benchmarks.old_records import adopt, fill
from benchmarks.project import Project, agents_of, cpu_s, spread, status_mb
from benchmarks.relays import Side
from benchmarks.wire import Wire

RECORDS, LOGS = 1_000_000, 100
PAGES = 100
GROWN_S = 2.0
"""The cache is complete once its file has not grown for this long."""
FIGURES = (
    Figure("kill_s", f"kill -9 -> answered, over {RECORDS:,} records in {LOGS} logs", "s"),
    Figure("kill_empty_s", "  limit: over an empty project", "s"),
    Figure("kill_adds_s", "  what the records add", "s", at_most=1),
    Figure("kill_cpu_s", "  of it CPU", "s"),
    Figure("clean_s", "clean end -> answered, over them", "s"),
    Figure("clean_empty_s", "  limit: over an empty project", "s"),
    Figure("clean_adds_s", "  what the records add", "s", at_most=1),
    Figure("cold_s", "kill -9 -> answered, without a cache", "s"),
    Figure("first_p50", "  enqueue -> received while the first checkpoint runs, p50", "ms"),
    Figure("first_p95", "  p95", "ms", at_most=15),
    Figure("first_p99", "  p99", "ms"),
    Figure("first_max", "  max", "ms"),
    Figure("first_rss_mb", "  memory of the daemon at the end", "MB"),
    Figure("first_peak_mb", "  its peak", "MB"),
    Figure("rss_mb", "memory of the daemon with a cache", "MB"),
    Figure("rss_empty_mb", "  limit: over an empty project", "MB"),
    Figure("page_p50", "events_read of the last 40 of a long log, p50", "ms"),
    Figure("page_p95", "  p95", "ms", at_most=10),
)


class Back:
    """A project whose daemon is ended and comes back for the next call, and its one agent."""

    def __init__(self, project: Project, master: Wire, agent_id: str, wire: Wire) -> None:
        self.project, self.master, self.agent_id, self.wire = project, master, agent_id, wire

    @classmethod
    async def start(cls, project: Project) -> Back:
        await patiently(project.relay)
        master, (agent_id,), (wire,) = await agents_of(project, 1)
        return cls(project, master, agent_id, wire)

    def without_cache(self) -> None:
        """Remove the cache under the running daemon: the one after it begins without, however fast a relay starts it."""
        for path in (self.project.root / ".agents").glob("cache.sqlite*"):
            path.unlink()

    async def took(self, sign: int) -> tuple[float, float]:
        """Seconds from the signal to the next call that another daemon has answered, and of the CPU."""
        pid = self.project.daemon_pid()
        began = time.perf_counter()
        os.kill(pid, sign)
        if sign != signal.SIGKILL:
            while Path(f"/proc/{pid}").exists():
                await asyncio.sleep(0.001)  # else the one that ends might still answer
        await patiently(lambda: self.master.call("agent_get", agent_id=self.agent_id))
        took = time.perf_counter() - began
        return took, cpu_s(self.project.daemon_pid())


async def patiently(ask: Callable[[], Awaitable[Any]]) -> None:
    """Ask until there is an answer: without a cache a start may take longer than a relay holds its client."""
    while True:
        try:
            await ask()
        except RuntimeError as error:
            if "daemon_down" not in str(error):
                raise
        else:
            return


async def rounds() -> AsyncIterator[dict[str, float]]:
    async with Project() as full_project, Project() as empty_project:
        agents = LOGS // 2
        fill(full_project.root, agents, RECORDS // agents // 4)
        adopt(full_project)
        full, empty = await Back.start(full_project), await Back.start(empty_project)
        for back in (full, empty):
            await back.took(signal.SIGTERM)  # a clean end leaves a cache
        while True:
            yield await one_round(full, empty)


async def one_round(full: Back, empty: Back) -> dict[str, float]:
    out: dict[str, float] = {}
    for name, sign in (("kill", signal.SIGKILL), ("clean", signal.SIGTERM)):
        empty_s, empty_cpu = await empty.took(sign)
        full_s, full_cpu = await full.took(sign)
        out |= {
            f"{name}_s": full_s, f"{name}_empty_s": empty_s, f"{name}_adds_s": full_s - empty_s,
            f"{name}_cpu_s": full_cpu - empty_cpu,
        }  # fmt: skip
    out["rss_mb"] = status_mb(full.project.daemon_pid(), "VmRSS")
    out["rss_empty_mb"] = status_mb(empty.project.daemon_pid(), "VmRSS")
    out |= spread("page", await pages(full.master))
    full.without_cache()
    out["cold_s"], _ = await full.took(signal.SIGKILL)
    daemon = full.project.daemon_pid()
    out |= spread("first", await while_the_cache_grows(full))
    out |= {"first_rss_mb": status_mb(daemon, "VmRSS"), "first_peak_mb": status_mb(daemon, "VmHWM")}
    return out


async def while_the_cache_grows(back: Back) -> list[float]:
    """ms of each delivery until the cache grew for the last time."""
    side = Side(back.master, [(back.agent_id, back.wire)], back.project.daemon_pid())
    cache = back.project.root / ".agents/cache.sqlite"
    found: list[float] = []
    latest: list[float] = []
    size, grown = 0, time.perf_counter()
    while time.perf_counter() - grown < GROWN_S:
        latest += await side.idle(5)
        if (now := cache.stat().st_size if cache.exists() else 0) != size:
            size, grown, found, latest = now, time.perf_counter(), found + latest, []
    return found or latest


async def pages(master: Wire) -> list[float]:
    """ms of reading the last 40 records of an old agent's log."""
    last = (await master.call("agent_get", agent_id="old0"))["meta"]["last_event_seq"]
    took = []
    for _ in range(PAGES):
        began = time.perf_counter()
        page = await master.call("events_read", agent_id="old0", since_seq=last - 40)
        took.append((time.perf_counter() - began) * 1000)
        if page["last_seq"] != last:
            raise RuntimeError(f"the page ends at {page['last_seq']}, not at {last}")
    return took
