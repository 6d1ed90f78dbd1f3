"""How long one agent's report takes while very many others wait, or all begin to wait at once.

The agent that is measured has a relay of its own; the others speak over their sockets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from benchmarks import sockets
from benchmarks.figures import Figure
from benchmarks.project import Project, agents_of, command, enqueue, spread
from benchmarks.wire import Wire

AGENTS, REPORTS = 300, 20
BEGIN_MS = 1_000
FIGURES = (
    Figure("quiet_p50", "an agent's ack, nobody else waits, p50", "ms"),
    Figure("quiet_p95", "  p95", "ms"),
    Figure("open_p50", f"  while {AGENTS} others wait, p50", "ms"),
    Figure("open_ratio", "  to that while nobody waits", at_most=1.5),
    Figure("open_p95", "  p95", "ms"),
    Figure("begin_p50", f"  while {AGENTS} others begin to wait at once, p50", "ms"),
    Figure("begin_p95", "  p95", "ms"),
)


async def rounds() -> AsyncIterator[dict[str, float]]:
    async with Project(overflow='"window"', ready_timeout_s=3600.0) as project:
        master, (agent,), (wire,) = await agents_of(project, 1)
        names = [f"w{n}" for n in range(AGENTS)]
        others = await sockets.agents(project, await sockets.master(project), names, ["sleep", "86400"])
        await asyncio.sleep(2)
        while True:
            yield await one_round(master, agent, wire, others)


async def one_round(master: Wire, agent: str, wire: Wire, others: dict[str, Wire]) -> dict[str, float]:
    def wait(timeout_ms: int) -> list[asyncio.Task[dict[str, object]]]:
        return [
            asyncio.create_task(one.call("wait_for_command", agent_id=name, timeout_ms=timeout_ms))
            for name, one in others.items()
        ]

    async def ack(*, beside: int = 0) -> float:
        """ms of the ack of a new task; ``beside``: meanwhile all others begin to wait, for so many milliseconds."""
        await enqueue(master, agent)
        await command(wire, agent)
        waits = wait(beside) if beside else []
        await asyncio.sleep(0.02 if beside else 0)
        began = time.perf_counter()
        await wire.call("emit_event", agent_id=agent, type="ack")
        took = time.perf_counter() - began
        await wire.call("emit_event", agent_id=agent, type="result")
        await asyncio.gather(*waits)
        return took * 1000

    quiet = [await ack() for _ in range(REPORTS)]
    begin = [await ack(beside=BEGIN_MS) for _ in range(3)]
    waits = wait(9_000)
    await asyncio.sleep(3)  # until all of them are inside the call
    during = [await ack() for _ in range(REPORTS)]
    if any(waiting.done() for waiting in waits):
        raise RuntimeError("the others did not wait long enough")
    await asyncio.gather(*waits)
    out = spread("quiet", quiet) | spread("begin", begin) | spread("open", during)
    return {**out, "open_ratio": out["open_p50"] / out["quiet_p50"]}
