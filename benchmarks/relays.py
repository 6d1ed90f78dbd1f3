"""What users wait for once a team runs, through real relays and a real daemon: delivery, full cycles, fan-out, sizes.

The agents are plain JSON-RPC clients over their own relays, so that the figures are the orchestrator's and not a
model's or a worker's. Beside delivery and cycles stand the same calls to a server by the simplest means (`bare.py`).
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator

from benchmarks import bare
from benchmarks.figures import Figure
from benchmarks.project import (
    Project,
    agents_of,
    command,
    cpu_s,
    enqueue,
    pss_mb,
    spread,
    status_mb,
    until_waiting,
)
from benchmarks.wire import Wire

AGENTS = 30
SATURATED = 8
IDLE_S = 20.0
SETTLE_S = 7.0
"""Before the daemon is idle: it saves what it knows of an agent 5 s after the agent's last record."""
FIGURES = (
    Figure("idle_p50", "enqueue -> received by a waiting agent, p50", "ms", at_most=1.6),
    Figure("idle_p95", "  p95", "ms", at_most=3),
    Figure("idle_p99", "  p99", "ms", at_most=6),
    Figure("bare_idle_p50", "  limit: a bare server and relays that copy, p50", "ms"),
    Figure("bare_idle_p95", "  limit: p95", "ms"),
    Figure("cycles_8", f"full cycles (enqueue, wait, ack, result), {SATURATED} agents saturated", "/s", at_least=450),
    Figure("cpu_8", "  CPU of the daemon, a cycle", "ms", at_most=1.6),
    Figure("busy_p50", "  enqueue -> received, p50", "ms"),
    Figure("busy_p95", "  p95", "ms"),
    Figure("busy_p99", "  p99", "ms", at_most=15),
    Figure("whole_p50", "  whole cycle, p50", "ms"),
    Figure("whole_p99", "  p99", "ms"),
    Figure("bare_cycles_8", "  limit: a bare server and relays that copy", "/s"),
    Figure("bare_cpu_8", "  limit: its CPU, a cycle", "ms"),
    Figure("bare_busy_p99", "  limit: its enqueue -> received, p99", "ms"),
    Figure("cycles_1", "full cycles, 1 agent", "/s"),
    Figure("cycles_30", f"full cycles, {AGENTS} agents", "/s"),
    Figure("fanout_s", f"{AGENTS} agents x 5 tasks delivered", "s", at_most=1),
    Figure("relay_pss_mb", "relay, proportional set size", "MB", at_most=10),
    Figure("daemon_rss_mb", f"daemon with {AGENTS} agents, resident", "MB"),
    Figure("idle_cpu_percent", f"idle CPU of the daemon and {AGENTS} waiting relays", "% of a core", at_most=1),
)


class Side:
    """A master, agents and the server's process: the product's, or those of the bare server."""

    def __init__(self, master: Wire, agents: list[tuple[str, Wire]], server: int) -> None:
        self.master, self.agents, self.server = master, agents, server

    async def cycle(self, agent_id: str, wire: Wire) -> tuple[float, float]:
        """ms from the enqueue until the task is received, and until its result is stored; both calls are sent at once."""

        async def work() -> tuple[str, float]:
            got = await command(wire, agent_id)
            at = time.perf_counter()
            await wire.call("emit_event", agent_id=agent_id, type="ack")
            await wire.call("emit_event", agent_id=agent_id, type="result")
            return got["command"]["task_id"], at

        began = time.perf_counter()
        task_id, (got, at) = await asyncio.gather(enqueue(self.master, agent_id), work())
        assert got == task_id, (got, task_id)
        return (at - began) * 1000, (time.perf_counter() - began) * 1000

    async def idle(self, count: int) -> list[float]:
        """ms from the enqueue until the first agent, which waits by then and is the only one that works, has it."""
        agent_id, wire = self.agents[0]
        found = []
        for _ in range(count):
            waiting = asyncio.create_task(command(wire, agent_id))
            # The wait is under way once the daemon says so: then the agent is idle, and only then we enqueue.
            while (await self.master.call("agent_get", agent_id=agent_id))["meta"][
                "reason"
            ] != "inside wait_for_command":
                pass
            began = time.perf_counter()
            enqueued = asyncio.create_task(enqueue(self.master, agent_id))
            await waiting
            found.append((time.perf_counter() - began) * 1000)
            await enqueued
            await wire.call("emit_event", agent_id=agent_id, type="result")
        return found

    async def saturated(self, agents: int, each: int) -> dict[str, float]:
        """``{per_s, cpu_ms, <busy and whole>_p50 ...}`` of so many agents that begin a cycle as soon as one has ended."""
        cycles: list[tuple[float, float]] = []

        async def work(agent_id: str, wire: Wire) -> None:
            cycles.extend([await self.cycle(agent_id, wire) for _ in range(each)])

        began, cpu = time.perf_counter(), cpu_s(self.server)
        await asyncio.gather(*(work(*agent) for agent in self.agents[:agents]))
        took, cpu = time.perf_counter() - began, cpu_s(self.server) - cpu
        return {
            "per_s": len(cycles) / took, "cpu_ms": cpu / len(cycles) * 1000,
            **spread("busy", [received for received, _ in cycles]), **spread("whole", [whole for _, whole in cycles]),
        }  # fmt: skip


async def rounds() -> AsyncIterator[dict[str, float]]:
    async with Project() as project:
        server = bare.Server(project.directory / "bare")
        try:
            await server.start()
            names = [f"a{n}" for n in range(SATURATED)]
            plain = Side(await server.relay(), [(name, await server.relay()) for name in names], server.pid)
            master, ids, wires = await agents_of(project, AGENTS)
            own = Side(master, list(zip(ids, wires, strict=True)), project.daemon_pid())
            for side in (own, plain):
                await side.saturated(SATURATED, 20)  # whatever is loaded once is loaded now
            while True:
                yield await one_round(own, plain)
        finally:
            await server.close()


async def one_round(own: Side, plain: Side) -> dict[str, float]:
    out = spread("idle", await own.idle(200)) | spread("bare_idle", await plain.idle(200))
    busy, least = await own.saturated(SATURATED, 150), await plain.saturated(SATURATED, 150)
    out |= {"cycles_8": busy.pop("per_s"), "cpu_8": busy.pop("cpu_ms"), **busy}
    out |= {"bare_cycles_8": least["per_s"], "bare_cpu_8": least["cpu_ms"], "bare_busy_p99": least["busy_p99"]}
    out["cycles_1"] = (await own.saturated(1, 100))["per_s"]
    out["cycles_30"] = (await own.saturated(AGENTS, 10))["per_s"]
    out["fanout_s"] = await fan_out(own)
    return out | await idle_costs(own)


async def fan_out(side: Side, tasks: int = 5) -> float:
    """Seconds until all agents have got all their tasks, which are enqueued together while all of them wait."""

    async def agent(agent_id: str, wire: Wire) -> float:
        for _ in range(tasks):
            await command(wire, agent_id)
            at = time.perf_counter()
            await wire.call("emit_event", agent_id=agent_id, type="result")
        return at

    async def give(agent_id: str) -> None:
        for _ in range(tasks):
            await enqueue(side.master, agent_id)

    working = [asyncio.create_task(agent(*each)) for each in side.agents]
    await until_waiting(side.master, *(agent_id for agent_id, _ in side.agents))
    began = time.perf_counter()
    await asyncio.gather(*(give(agent_id) for agent_id, _ in side.agents))
    return max(await asyncio.gather(*working)) - began


async def idle_costs(side: Side) -> dict[str, float]:
    """What the daemon and its relays take while all agents wait."""
    waits = [asyncio.create_task(command(wire, agent_id)) for agent_id, wire in side.agents]
    await until_waiting(side.master, *(agent_id for agent_id, _ in side.agents))
    pids = [wire.process.pid for _, wire in side.agents if wire.process]
    await asyncio.sleep(SETTLE_S)
    before = cpu_s(side.server, *pids)
    await asyncio.sleep(IDLE_S)
    used = cpu_s(side.server, *pids) - before
    out = {
        "relay_pss_mb": statistics.mean(map(pss_mb, pids)), "daemon_rss_mb": status_mb(side.server, "VmRSS"),
        "idle_cpu_percent": used / IDLE_S * 100,
    }  # fmt: skip
    for (agent_id, wire), waiting in zip(side.agents, waits, strict=True):  # the next round begins without a wait
        await enqueue(side.master, agent_id)
        await waiting
        await wire.call("emit_event", agent_id=agent_id, type="result")
    return out
