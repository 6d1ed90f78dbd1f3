"""What a team on ten hosts costs: from the enqueue to the handed out task, cycles, statements, takeover, growth.

Ten real daemons with 50 agents each on one machine, and a real PostgreSQL, by a client in this process. The raw chain
(`fleet_chain`) runs in the same seconds. The first round also measures what takes long; it ends with the million old
tasks (`fleet_old_tasks`), which stay: the later rounds are measured with them.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator

from benchmarks import fleet_old_tasks, sockets
from benchmarks.figures import Figure
from benchmarks.fleet_chain import Chain
from benchmarks.fleet_team import DIRECT, HOSTS, NAME, RELAYED, VICTIM, Fleet, Side
from benchmarks.project import spread
from benchmarks.wire import Wire

PER_S, SECONDS = 50, 8
SATURATED_S, UNSETTLED = 5.0, 200
IDLE_S, SETTLE_S = 16.0, 7.0


def paced(key: str, title: str, p50: float, p95: float) -> tuple[Figure, ...]:
    return (
        Figure(f"{key}_p50", f"{title}, p50", "ms", at_most=p50),
        Figure(f"{key}_p95", "  p95", "ms", at_most=p95),
        Figure(f"{key}_chain_p50", "  limit: the raw chain in the same seconds, p50", "ms"),
        Figure(f"{key}_chain_p95", "  limit: p95", "ms"),
    )


FIGURES = (
    *paced("direct", f"{PER_S}/s, {HOSTS} hosts x {DIRECT + RELAYED} agents: enqueue -> handed out", 8, 25),
    Figure("direct_ratio_p50", "  to the raw chain, p50", at_most=3),
    Figure("direct_ratio_p95", "  to the raw chain, p95", at_most=3),
    Figure("statements", "  statements (each a transaction) of the hosts, a task", at_most=7),
    Figure("logs", "  syncs of agents' logs, a task", at_most=2),
    Figure("others", "  other syncs of the hosts (broadcast, meta.json), a task"),
    Figure("cpu", "  CPU of the hosts, a task", "ms"),
    *paced("relayed", "  with relays at both ends", 12, 35),
    Figure("cycles", "cycles (enqueue, handed out, result, told at home)", "/s", at_least=400),
    Figure("cycles_cpu", "  CPU of the hosts, a cycle", "ms"),
    Figure("relayed_cycles", "  with relays at both ends", "/s", at_least=250),
    Figure("tasks", "tasks so far: none lost, none twice, else the group fails"),
    Figure("idle", "idle host, statements", "/s", at_most=1),
    Figure("takeover_s", "kill -9 of a host -> its shell agent ends the task elsewhere", "s", at_most=25),
    Figure(
        "grown_p50", f"with {fleet_old_tasks.TASKS:,} old tasks to without: enqueue -> handed out, p50", at_most=1.5
    ),
    Figure("grown_cycles", "  cycles", at_least=0.7),
)


async def rounds() -> AsyncIterator[dict[str, float]]:
    async with Fleet.running() as fleet:
        master = await sockets.master(fleet.home)
        direct_agents, relayed_agents = await fleet.agents(master)
        direct = Side(fleet, "direct", master, direct_agents)
        relayed = Side(fleet, "relayed", await fleet.home.relay(), relayed_agents)
        try:
            for side in (direct, relayed):  # whatever is loaded once is loaded now
                await side.saturated(SATURATED_S, UNSETTLED)
            out = await one_round(fleet, direct, relayed)
            out["idle"] = await idle(fleet)
            out["takeover_s"] = await takeover(fleet, master)
            yield out | await growth(fleet, direct)
            while True:
                yield await one_round(fleet, direct, relayed)
        finally:
            for side in (direct, relayed):
                await side.close()


async def one_round(fleet: Fleet, direct: Side, relayed: Side) -> dict[str, float]:
    out: dict[str, float] = {}
    tasks = PER_S * SECONDS
    before = fleet.used()
    out |= await beside(fleet, direct, "direct")
    out |= {name: (used - before[name]) / tasks for name, used in fleet.used().items()}
    out |= await beside(fleet, relayed, "relayed")
    before, checked = fleet.used(), direct.checked
    out["cycles"] = await direct.saturated(SATURATED_S, UNSETTLED)
    out["cycles_cpu"] = (fleet.used()["cpu"] - before["cpu"]) / (direct.checked - checked)
    out["relayed_cycles"] = await relayed.saturated(SATURATED_S, UNSETTLED)
    out["tasks"] = direct.checked + relayed.checked
    return out


async def beside(fleet: Fleet, side: Side, name: str) -> dict[str, float]:
    """Tasks at a steady pace, and the raw chain in the same seconds."""
    chain = await Chain.start(fleet.cluster.dsn(), fleet.home.directory)
    found = spread(name, await side.paced(PER_S * SECONDS, PER_S))
    found |= spread(f"{name}_chain", await chain.stop())
    return found | {f"{name}_ratio_{p}": found[f"{name}_{p}"] / found[f"{name}_chain_{p}"] for p in ("p50", "p95")}


async def idle(fleet: Fleet) -> float:
    """Statements of one host in a second, as the server counts them, while all agents wait."""
    await asyncio.sleep(SETTLE_S)
    before, began = fleet.statements(), time.perf_counter()
    await asyncio.sleep(IDLE_S)
    return (fleet.statements() - before) / (time.perf_counter() - began) / len(fleet.hosts)


async def takeover(fleet: Fleet, master: Wire) -> float:
    """Seconds from the end of a host until the task that its shell agent held has ended on another host."""
    mark = fleet.home.directory / "first-attempt"
    made = await master.call(
        "agent_create", name="shell", role="r", engine="shell", host=VICTIM, policies={"on_host_lost": "move"}
    )
    command = f"if mkdir '{mark}' 2>/dev/null; then sleep 3600; fi"
    task = {"task_id": "taken-over", "payload": {"command": command}}
    await master.call("task_enqueue", agent_id=made["agent_id"], task=task)
    while not mark.exists():
        await asyncio.sleep(0.05)
    began = time.perf_counter()
    fleet.victim.ended()
    while not fleet.ends(["taken-over"]):
        await asyncio.sleep(0.05)
    took = time.perf_counter() - began
    records = [r for r in fleet.outboxes() if r.get("task_id") == "taken-over"]
    ended = [(record["type"], record.get("attempt")) for record in records if record["type"] == "result"]
    if ended != [("result", 2)]:
        raise RuntimeError(f"the task that was taken over has not one result of attempt 2: {ended}")
    return took


async def growth(fleet: Fleet, direct: Side) -> dict[str, float]:
    """What the old tasks make of pace and cycles: after to before, minutes later on the same fleet."""
    before, cycles = (
        spread("p", await direct.paced(PER_S * SECONDS, PER_S)),
        await direct.saturated(SATURATED_S, UNSETTLED),
    )
    await asyncio.to_thread(fleet_old_tasks.insert, fleet.owner, NAME, VICTIM)
    await asyncio.to_thread(os.sync)  # a gigabyte waits for the disk, and every sync of a log behind it
    after, later = (
        spread("p", await direct.paced(PER_S * SECONDS, PER_S)),
        await direct.saturated(SATURATED_S, UNSETTLED),
    )
    return {"grown_p50": after["p_p50"] / before["p_p50"], "grown_cycles": later / cycles}
