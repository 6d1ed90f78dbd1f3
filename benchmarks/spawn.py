"""What spawn runs cost beyond their models: a node of a large swarm, the waves of a small one, going on after kill -9.

The model API is the tests' stand-in in a process of its own; beside the swarm the same calls are made by hand in the
same run, over the same HTTP client.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import time
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.relays import Project
from benchmarks.wire import Wire
from orchestrator.base.clock import SystemClock
from orchestrator.spawn.openrouter import ModelApi
from orchestrator.spawn.run_data import NodeCall, Reply

ROOT = Path(__file__).resolve().parents[1]
NODES = 200
WAVE_MS = 500
STORED = 100
KEY = "sk-or-v1-benchmark"
BOUND_MS = 40_000


class Model:
    """The stand-in, in its own process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fakes.openrouter"], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.root = f"http://127.0.0.1:{self.process.stdout.readline().strip()}"

    def ask(self, **told: Any) -> dict[str, Any]:
        """Tell it something, or ask what it saw."""
        data = json.dumps(told).encode() if told else None
        with urllib.request.urlopen(f"{self.root}/fake", data, timeout=60) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found

    def calls(self) -> int:
        return sum(one["path"].endswith("/chat/completions") for one in self.ask()["requests"])

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


def _project(model: Model, **env: str) -> Project:
    project = Project()
    project.env |= {
        "OPENROUTER_API_KEY": KEY,
        "OPENROUTER_BASE_URL": f"{model.root}/v1",
        "SMART_SPAWN_API_URL": f"{model.root}/api",
        "SMART_SPAWN_MCP_HOME": str(project.root / "spawn-home"),
        "MAX_USD_PER_RUN": "1000",
        **env,
    }
    return project


async def _client(project: Project) -> Wire:
    wire = await Wire.start(project.root, project.env, "--toolsets", "smartspawn")
    await wire.greet()
    return wire


async def _create(wire: Wire, task: str, mode: str) -> str:
    made = await wire.call("smartspawn_run_create", task=task, mode=mode)
    return str(made["run_id"])


async def _ended(wire: Wire, run_id: str) -> dict[str, Any]:
    while True:
        found = await wire.call("smartspawn_run_result", run_id=run_id, wait_ms=BOUND_MS)
        if found["status"] in {"completed", "failed", "canceled"}:
            assert found["status"] == "completed", found
            return found


async def swarm(parallel: int = 4) -> dict[str, float]:
    """A swarm of `NODES` nodes whose model answers at once; beside it the same calls by hand, as many at a time.

    ``node_p50_ms``: what a node's life, from its claim to its end, takes beyond one of those calls.
    """
    model = Model()
    project = _project(model, MAX_PARALLEL_NODES_PER_RUN=str(parallel))
    try:
        model.ask(rules=[{"path": "/api/swarm", "dag": "many"}])
        wire = await _client(project)
        await _warm(wire)
        await _ended(wire, await _create(wire, "Say something.", "single"))
        began = time.perf_counter()
        run_id = await _create(wire, "Say something.", "swarm")
        await _ended(wire, run_id)
        took = time.perf_counter() - began
        state = await wire.call("smartspawn_run_status", run_id=run_id)
        lives = [
            _seconds(one["started_at"], one["finished_at"]) * 1000 for one in state["nodes"] if one["kind"] == "task"
        ]
        assert len(lives) == NODES, len(lives)
        await wire.close()
        by_hand, each = await _by_hand(f"{model.root}/v1", parallel)
        return {
            "nodes_s": NODES / took,
            "by_hand_s": NODES / by_hand,
            "life_p50_ms": statistics.median(lives),
            "call_p50_ms": statistics.median(each),
            "node_p50_ms": statistics.median(lives) - statistics.median(each),
        }
    finally:
        project.close()
        model.close()


async def _warm(wire: Wire) -> Wire:
    await wire.call("smartspawn_health")
    return wire


async def _by_hand(base_url: str, parallel: int) -> tuple[float, list[float]]:
    api, room, each = ModelApi(SystemClock()), asyncio.Semaphore(parallel), []

    async def one(at: int) -> None:
        async with room:
            began = time.perf_counter()
            ask = NodeCall(
                "r", f"n{at}", 1, f"t{at}", "openai/gpt-4o-mini", "", f"Part {at}.", 4096, 60, base_url, KEY
            )
            assert isinstance(await api.call(ask), Reply)
            each.append((time.perf_counter() - began) * 1000)

    await one(0)
    each.clear()
    began = time.perf_counter()
    await asyncio.gather(*(one(at) for at in range(NODES)))
    took = time.perf_counter() - began
    await api.close()
    return took, each


async def waves(rounds: int = 5) -> dict[str, float]:
    """The wall time of a swarm of three waves and a merge, each call `WAVE_MS`, from create to its result."""
    model = Model()
    project = _project(model, SMART_SPAWN_API_URL=f"{model.root}/api", MAX_PARALLEL_NODES_PER_RUN="8")
    try:
        model.ask(rules=[{"delay_ms": WAVE_MS}])
        wire = await _client(project)
        await _warm(wire)
        ratios = []
        for at in range(rounds):
            task = (
                f"1. Research tea {at}\n2. Research coffee {at}\n3. Implement the table of {at}\n4. Document it {at}"
            )
            began = time.perf_counter()
            run_id = await _create(wire, task, "swarm")
            await _ended(wire, run_id)
            took = time.perf_counter() - began
            state = await wire.call("smartspawn_run_status", run_id=run_id)
            depth = len({one["wave"] for one in state["nodes"]})
            assert depth == 4, depth  # three waves and the merge
            ratios.append(took / (depth * WAVE_MS / 1000))
        await wire.close()
        return {"p50": statistics.median(ratios), "max": max(ratios)}
    finally:
        project.close()
        model.close()


async def resumed(rounds: int = 5) -> dict[str, float]:
    """Seconds from kill -9 of the daemon to the model being asked again, with `STORED` runs in the home."""
    model = Model()
    project = _project(model, MAX_PARALLEL_RUNS="4")
    try:
        wire = await _client(project)
        for at in range(STORED):
            await _ended(wire, await _create(wire, f"Task {at}.", "single"))
        found = []
        for at in range(rounds):
            model.ask(rules=[{"match": f"hanging {at}", "hang": True, "times": 1, "per": "all"}])
            run_id = await _create(wire, f"A hanging {at}.", "single")
            await _until(lambda: model.ask()["waiting"].get("hang", 0) > 0)
            before = model.calls()
            killed = time.perf_counter()
            os.kill(project.daemon_pid(), signal.SIGKILL)
            await _until(lambda seen=before: model.calls() > seen)
            found.append(time.perf_counter() - killed)
            await _ended(wire, run_id)
        with sqlite3.connect(project.root / "spawn-home" / "db.sqlite") as con:
            (stored,) = con.execute("SELECT COUNT(*) FROM runs").fetchone()
        con.close()
        await wire.close()
        return {"p50": statistics.median(found), "max": max(found), "stored": stored}
    finally:
        project.close()
        model.close()


async def _until(look: Any, bound_s: float = 60.0) -> None:
    deadline = time.monotonic() + bound_s
    while not await asyncio.to_thread(look):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


def _seconds(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
