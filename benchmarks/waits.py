"""How long one agent's report takes while very many others wait, or all ask to wait at once.

Through real relays. The daemon is measured with and without its turns (`server.turns`) in the same run: a signal
switches them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time

from benchmarks.relays import Project, percentile
from benchmarks.wire import Wire, agent_env

AGENTS = 300
AT_ONCE = 50
SWITCH = """\
import signal, sys
if sys.orig_argv[-1:] != ["worker"] and "daemon" in sys.orig_argv:
    def switch(number, frame):
        from orchestrator.protocol.wait_turns import WaitTurns
        async def at_once(self):
            pass
        WaitTurns.turn, WaitTurns.other = getattr(WaitTurns, "other", at_once), WaitTurns.turn
    signal.signal(signal.SIGUSR2, switch)
"""


async def report(count: int = AGENTS, rounds: int = 15) -> dict[str, float]:
    """Milliseconds of an `ack`: nobody else waits, ``count`` agents wait, they all begin to; without turns, and with."""
    project = Project(overflow='"window"', ready_timeout_s=3600.0)
    try:
        site = project.directory / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(SWITCH)
        project.env["PYTHONPATH"] = str(site)
        master, ids, wires = await _agents(project, count + 1)
        daemon = project.daemon_pid()
        agent, wire = ids[0], wires[0]
        others = list(zip(wires[1:], ids[1:], strict=True))

        def wait(timeout_ms: int) -> list[asyncio.Task[dict[str, object]]]:
            return [
                asyncio.create_task(one.call("wait_for_command", agent_id=name, timeout_ms=timeout_ms))
                for one, name in others
            ]

        async def ack(n: int, *, beside: int = 0) -> float:
            """Of a new task; ``beside``: meanwhile all others begin to wait for so many milliseconds."""
            await master.call("task_enqueue", agent_id=agent, task={"task_id": f"t{n}", "payload": n})
            await wire.call("wait_for_command", agent_id=agent, timeout_ms=20_000)
            waits = wait(beside) if beside else []
            await asyncio.sleep(0.02 if beside else 0)
            began = time.perf_counter()
            await wire.call("emit_event", agent_id=agent, type="ack")
            took = time.perf_counter() - began
            await wire.call("emit_event", agent_id=agent, type="result")
            await asyncio.gather(*waits)
            return took * 1000

        found: dict[str, list[float]] = {"quiet": [], "open": [], "before": [], "after": []}
        for n in range(rounds):
            found["quiet"].append(await ack(n))
        for n in range(rounds, 3 * rounds, 2):
            os.kill(daemon, signal.SIGUSR2)
            found["before"].append(await ack(n, beside=2_000))
            os.kill(daemon, signal.SIGUSR2)
            found["after"].append(await ack(n + 1, beside=2_000))
        waits = wait(50_000)
        await asyncio.sleep(5)
        for n in range(3 * rounds, 4 * rounds):
            found["open"].append(await ack(n))
        for one in waits:
            one.cancel()
        for one in (*wires, master):
            await one.close()
        return {
            f"{name}_{what}": value
            for name, values in found.items()
            for what, value in (
                ("p50", statistics.median(values)), ("p95", percentile(values, 0.95)), ("max", max(values)),
            )
        }  # fmt: skip
    finally:
        project.close()


async def _agents(project: Project, count: int) -> tuple[Wire, list[str], list[Wire]]:
    """A master and ``count`` agents: in each pane a program that only lives, and a relay that speaks for it."""
    master = await Wire.start(project.root, project.env)
    await master.greet()
    ids: list[str] = []
    wires = []
    for first in range(0, count, AT_ONCE):
        names = [f"a{n}" for n in range(first, min(first + AT_ONCE, count))]
        made = await master.call(
            "agents_create",
            agents=[
                {"name": name, "role": "bench", "engine": "command", "command": ["sleep", "86400"]} for name in names
            ],
            ready_wait_ms=0,
        )
        for row in made["agents"]:
            ids.append(row["agent_id"])
            wire = await Wire.start(project.root, agent_env(project.env, project.root, ids[-1]), "--agent")
            await wire.greet()
            await wire.call("wait_for_command", agent_id=ids[-1], timeout_ms=0)
            wires.append(wire)
    return master, ids, wires
