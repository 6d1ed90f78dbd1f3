"""How soon a task runs again after kill -9 of its agent's process (a shell worker), without and with its new start."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import time
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from benchmarks.project import Project, enqueue

KILLS = 5
BOUND_S = 60.0
Record = dict[str, Any]
FIGURES = (
    Figure("again_ms", f"kill -9 of an agent -> its task runs again, without the start, median of {KILLS}", "ms"),
    Figure("again_max_ms", f"  the slowest of {KILLS}", "ms"),
    Figure("start_s", "  limit: the start of the next life, from its launch to its first call", "s"),
    Figure("whole_s", "  with the start", "s"),
)


async def rounds() -> AsyncIterator[dict[str, float]]:
    async with Project(max_restarts=100, restart_backoff_s=0.0, max_attempts=100) as project:
        master = await project.relay()
        await master.call("agent_create", name="w", role="r", engine="shell")
        outbox = project.root / ".agents/agents/w/outbox.jsonl"
        await enqueue(master, "w", {"command": "sleep 3600"})
        attempt = 1
        await record(outbox, "ack", attempt)
        while True:
            again, start, whole = [], [], []
            for _ in range(KILLS):
                pid = int((await master.call("agent_get", agent_id="w"))["meta"]["pid"])
                killed = time.time()
                os.kill(pid, signal.SIGKILL)
                attempt += 1
                end = at(await record(outbox, "ack", attempt)) - killed
                begun = at(await record(outbox, "restarted", attempt))
                start.append(at(await record(outbox, "ready", attempt)) - begun)
                whole.append(end)
                again.append(end - start[-1])
            yield {
                "again_ms": statistics.median(again) * 1000, "again_max_ms": max(again) * 1000,
                "start_s": statistics.median(start), "whole_s": statistics.median(whole),
            }  # fmt: skip


async def record(path: Path, kind: str, epoch: int) -> Record:
    """The record of this type and life, as soon as it is there."""
    return await first(path, lambda found: found["type"] == kind and found["epoch"] == epoch)


async def first(path: Path, wanted: Callable[[Record], bool]) -> Record:
    deadline = time.monotonic() + BOUND_S
    while time.monotonic() < deadline:
        data = path.read_bytes() if path.exists() else b""
        for line in data[: data.rfind(b"\n") + 1].splitlines():
            if wanted(found := json.loads(line)):
                return found
        await asyncio.sleep(0.005)
    raise TimeoutError(f"a record did not come into {path}")


def at(found: Record) -> float:
    return datetime.fromisoformat(found["at"]).timestamp()
