"""How soon a team begins and goes on: cold starts, many relays, and the first call after kill -9 of the daemon."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator

from benchmarks.figures import Figure
from benchmarks.project import Project
from benchmarks.wire import Wire

RELAYS, KILLS = 30, 5
BARE = "import asyncio, json, socket, sqlite3"
"""What a daemon of this kind cannot do without."""
FIGURES = (
    Figure("cold_s", "cold start to answered tools/list", "s", at_most=0.6),
    Figure("killed_s", f"kill -9 of the daemon -> the next call is answered, median of {KILLS}", "s", at_most=0.5),
    Figure("killed_max_s", f"  the slowest of {KILLS}", "s"),
    Figure("python_s", f"  limit: python -c '{BARE}'", "s"),
    Figure("three_s", "agents_create of three -> third ready", "s", at_most=3),
    Figure("relays_s", f"{RELAYS} relays ready against a warm daemon", "s", at_most=1.5),
)


async def rounds() -> AsyncIterator[dict[str, float]]:
    while True:
        async with Project() as project:
            yield await one_round(project)


async def one_round(project: Project) -> dict[str, float]:
    out = {}
    began = time.perf_counter()
    master = await ready_relay(project)
    out["cold_s"] = time.perf_counter() - began
    began = time.perf_counter()
    made = await master.call(
        "agents_create", agents=[{"name": f"a{n}", "role": "bench"} for n in range(3)], ready_wait_ms=60_000
    )
    out["three_s"] = time.perf_counter() - began
    if made["ready"] != 3:
        raise RuntimeError(f"three agents were created, and not all became ready: {made}")
    took = []
    for _ in range(KILLS):
        pid = project.daemon_pid()
        began = time.perf_counter()
        os.kill(pid, signal.SIGKILL)
        await master.call("agent_get", agent_id="a0")
        took.append(time.perf_counter() - began)
    out["killed_s"], out["killed_max_s"] = statistics.median(took), max(took)
    began = time.perf_counter()
    await asyncio.gather(*(ready_relay(project) for _ in range(RELAYS)))
    out["relays_s"] = time.perf_counter() - began
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", BARE], check=True)
    out["python_s"] = time.perf_counter() - began
    return out


async def ready_relay(project: Project) -> Wire:
    wire = await project.relay()
    await wire.ask("tools/list", {})
    return wire
