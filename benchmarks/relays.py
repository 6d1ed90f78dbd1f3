"""What users wait for, measured through real relays and a real daemon: delivery, fan-out, starts, sizes, idle cost.

The agents of the delivery figures are plain JSON-RPC clients over their own relays, so that the figures are the
orchestrator's and not a model's or a worker's.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.wire import OWN, Wire, agent_env, private_env


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


class Project:
    """A scratch project with its own tmux server, daemon and environment."""

    def __init__(self, **config: Any) -> None:
        self.directory = Path(tempfile.mkdtemp(dir=os.environ.get("BENCH_DIR"), prefix="orchestrator-bench-"))
        self.env = private_env(self.directory)
        self.root = self.directory / "project"
        (self.root / ".agents").mkdir(parents=True)
        self.tmux = f"orchestrator-bench-{os.getpid()}-{time.monotonic_ns()}"
        lines = [f'tmux_socket = "{self.tmux}"', "session_width = 400", "session_height = 200"]
        lines += [f"{key} = {value}" for key, value in config.items()]
        (self.root / ".agents/config.toml").write_text("\n".join(lines) + "\n")

    def run_directory(self) -> Path:
        (found,) = [path.parent for path in (self.directory / "run").rglob("lock")]
        return found

    def daemon_pid(self) -> int:
        answer = subprocess.run(
            [*OWN, "daemon", "status", "--json"],
            cwd=self.root,
            env=self.env,
            capture_output=True,
            text=True,
            check=True,
        )
        import json

        return int(json.loads(answer.stdout)["pid"])

    def close(self) -> None:
        subprocess.run([*OWN, "daemon", "stop"], cwd=self.root, env=self.env, capture_output=True, check=False)
        subprocess.run(["tmux", "-L", self.tmux, "kill-server"], capture_output=True, check=False)
        shutil.rmtree(self.directory, ignore_errors=True)


IDLE = """\
import signal, sys
if sys.orig_argv[-1:] == ["worker"]:
    while True:
        signal.pause()
"""


async def agents_of(project: Project, count: int) -> tuple[Wire, list[str], list[Wire]]:
    """A master and ``count`` agents: in each pane a process that only lives, and a relay of ours that speaks for it."""
    site = project.directory / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(IDLE)
    master = await Wire.start(project.root, project.env)
    await master.greet()
    made = await master.call(
        "agents_create",
        agents=[{"name": f"a{n}", "role": "bench", "env": {"PYTHONPATH": str(site)}} for n in range(count)],
        ready_wait_ms=0,
    )
    ids = [row["agent_id"] for row in made["agents"]]
    wires = []
    for agent_id in ids:
        wire = await Wire.start(project.root, agent_env(project.env, project.root, agent_id), "--agent")
        await wire.greet()
        await wire.call("wait_for_command", agent_id=agent_id, timeout_ms=0)
        wires.append(wire)
    return master, ids, wires


async def latency(rounds: int = 200) -> dict[str, float]:
    """Enqueue at the master -> command received by a waiting agent, both through real relays; ms."""
    project = Project()
    try:
        master, (agent,), (wire,) = await agents_of(project, 1)
        found: list[float] = []
        cycle_began = time.perf_counter()
        for n in range(rounds):
            waiting = asyncio.create_task(wire.call("wait_for_command", agent_id=agent, timeout_ms=20_000))
            # The wait is under way once the daemon says so: then the agent is idle, and only then we enqueue.
            while (await master.call("agent_get", agent_id=agent))["meta"]["reason"] != "inside wait_for_command":
                pass
            began = time.perf_counter()
            await asyncio.gather(
                master.call("task_enqueue", agent_id=agent, task={"task_id": f"t{n}", "payload": {"n": n}}),
                _received(waiting, began, found),
            )
            await wire.call("emit_event", agent_id=agent, type="result")
        took = time.perf_counter() - cycle_began
        await wire.close()
        await master.close()
        return {
            "p50": statistics.median(found), "p95": percentile(found, 0.95), "max": max(found), "n": rounds,
            "rounds_per_s": rounds / took,
        }  # fmt: skip
    finally:
        project.close()


async def _received(waiting: asyncio.Task[dict[str, Any]], began: float, found: list[float]) -> None:
    answer = await waiting
    found.append((time.perf_counter() - began) * 1000)
    assert answer["status"] == "command", answer


async def many(count: int = 30, tasks: int = 5) -> dict[str, float]:
    """Fan-out to ``count`` waiting agents, cycles through relays, relay sizes, idle CPU."""
    project = Project()
    out: dict[str, float] = {}
    try:
        master, ids, wires = await agents_of(project, count)

        async def agent(wire: Wire, agent_id: str) -> list[float]:
            at = []
            for _ in range(tasks):
                got = await wire.call("wait_for_command", agent_id=agent_id, timeout_ms=50_000)
                assert got["status"] == "command", got
                at.append(time.perf_counter())
                await wire.call("emit_event", agent_id=agent_id, type="result")
            return at

        async def give(agent_id: str) -> None:
            for n in range(tasks):
                await master.call("task_enqueue", agent_id=agent_id, task={"task_id": f"f{n}", "payload": n})

        working = [asyncio.create_task(agent(w, a)) for w, a in zip(wires, ids, strict=True)]
        await _until_idle(master, count)
        began = time.perf_counter()
        await asyncio.gather(*(give(agent_id) for agent_id in ids))
        out["fanout_s"] = max(max(at) for at in await asyncio.gather(*working)) - began

        for name, group in (
            ("cycles_1", list(zip(wires, ids, strict=True))[:1]),
            (f"cycles_{count}", list(zip(wires, ids, strict=True))),
        ):
            each = 100 if len(group) == 1 else 10
            began = time.perf_counter()
            await asyncio.gather(*(_cycles(master, wire, agent_id, each, name) for wire, agent_id in group))
            out[name] = len(group) * each / (time.perf_counter() - began)

        waits = [
            asyncio.create_task(wire.call("wait_for_command", agent_id=agent_id, timeout_ms=55_000))
            for wire, agent_id in zip(wires, ids, strict=True)
        ]
        await _until_idle(master, count)
        pids = [wire.process.pid for wire in wires]
        out["relay_pss_mb"] = statistics.mean(pss(pid) for pid in pids) / 1024
        daemon = project.daemon_pid()
        out["daemon_rss_mb"] = rss(daemon) / 1024
        before = ticks([daemon, *pids])
        seconds = 20.0
        await asyncio.sleep(seconds)
        out["idle_cpu_percent"] = (ticks([daemon, *pids]) - before) / os.sysconf("SC_CLK_TCK") / seconds * 100
        for wait in waits:
            wait.cancel()
        for wire in (*wires, master):
            await wire.close()
        return out
    finally:
        project.close()


async def _cycles(master: Wire, wire: Wire, agent_id: str, count: int, prefix: str) -> None:
    for n in range(count):
        await master.call("task_enqueue", agent_id=agent_id, task={"task_id": f"{prefix}-{n}", "payload": n})
        await wire.call("wait_for_command", agent_id=agent_id, timeout_ms=20_000)
        await wire.call("emit_event", agent_id=agent_id, type="ack")
        await wire.call("emit_event", agent_id=agent_id, type="result")


async def _until_idle(master: Wire, count: int) -> None:
    while True:
        rows = (await master.call("agent_list"))["agents"]
        if sum(1 for row in rows if row["reason"] == "inside wait_for_command") == count:
            return


def pss(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def rss(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def ticks(pids: list[int]) -> int:
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total


async def starts(rounds: int = 5, relays: int = 30) -> dict[str, float]:
    """Cold start to answered tools/list, three agents to the third ready, thirty relays against a warm daemon; s."""
    cold, three, thirty = [], [], []
    for _ in range(rounds):
        project = Project()
        try:
            began = time.perf_counter()
            master = await Wire.start(project.root, project.env)
            await master.greet()
            await master.ask("tools/list", {})
            cold.append(time.perf_counter() - began)
            began = time.perf_counter()
            made = await master.call(
                "agents_create", agents=[{"name": f"a{n}", "role": "bench"} for n in range(3)], ready_wait_ms=60_000
            )
            assert made["ready"] == 3, made
            three.append(time.perf_counter() - began)
            began = time.perf_counter()
            wires = await asyncio.gather(*(_ready_relay(project) for _ in range(relays)))
            thirty.append(time.perf_counter() - began)
            for wire in (*wires, master):
                await wire.close()
        finally:
            project.close()
    return {
        "cold_p50": statistics.median(cold), "cold_max": max(cold), "three_p50": statistics.median(three),
        "three_max": max(three), "thirty_p50": statistics.median(thirty), "thirty_max": max(thirty),
    }  # fmt: skip


async def _ready_relay(project: Project) -> Wire:
    wire = await Wire.start(project.root, project.env)
    await wire.greet()
    await wire.ask("tools/list", {})
    return wire
