"""What spawn runs cost beyond their models: a node of a large swarm, the waves of a small one, going on after kill -9.

The model API is the tests' stand-in in a process of its own. Beside the swarm the same calls are made by hand in the
same round: as many at a time, over connections that stay open. More nodes than a plan may have are let through by a
``sitecustomize`` of the benchmark.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import queue
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from benchmarks.figures import Figure
from benchmarks.project import Project, cpu_s
from benchmarks.trees import ROOT
from benchmarks.wire import Wire

NODES, MANY, PARALLEL = 200, 2_000, 4
WAVE_MS, DEPTH = 500, 4
STORED, KILLS = 100, 3
KEY = "sk-or-v1-benchmark"
FIGURES = (
    Figure("nodes_s", f"swarm of {NODES} nodes, model of 0 ms, {PARALLEL} at a time", "/s", at_least=400),
    Figure("by_hand_s", "  limit: the same calls by hand", "/s"),
    Figure("node_ms", "  a node's life beyond its call, p50", "ms", at_most=5),
    Figure("call_ms", "  limit: a call by hand, p50", "ms"),
    Figure("cpu_ms", "  CPU of the daemon, a node", "ms"),
    Figure("many_s", f"swarm of {MANY:,} nodes", "/s"),
    Figure("linear", f"  time of a node to that of one of {NODES}", at_most=1.3),
    Figure("waves", f"swarm of 3 waves and a merge at {WAVE_MS} ms, wall / critical path", at_most=1.1),
    Figure("resumed_s", f"kill -9 -> model asked again, {STORED} runs stored, median of {KILLS}", "s", at_most=1),
    Figure("resumed_max_s", f"  the slowest of {KILLS}", "s"),
)
MORE_NODES = """\
import sys
if "daemon" in sys.orig_argv:
    import importlib.util
    class MoreNodes:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name != "orchestrator.spawn.run_plan":
                return None
            sys.meta_path.remove(MoreNodes)
            spec = importlib.util.find_spec(name)
            run = spec.loader.exec_module
            def exec_module(module):
                run(module)
                module.MAX_NODES = 10_000
            spec.loader.exec_module = exec_module
            return spec
    sys.meta_path.insert(0, MoreNodes)
"""


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


async def client(project: Project, model: Model, parallel: int = PARALLEL) -> Wire:
    env = {
        **project.env,
        "OPENROUTER_API_KEY": KEY,
        "OPENROUTER_BASE_URL": f"{model.root}/v1",
        "SMART_SPAWN_API_URL": f"{model.root}/api",
        "MAX_USD_PER_RUN": "1000",
        "MAX_PARALLEL_RUNS": "4",
        "MAX_PARALLEL_NODES_PER_RUN": str(parallel),
    }
    wire = await project.relay("--toolsets", "smartspawn", env=env)
    await wire.call("smartspawn_health")
    return wire


async def finished(wire: Wire, task: str, mode: str) -> str:
    """The id of a run of this task that has completed."""
    made = await wire.call("smartspawn_run_create", task=task, mode=mode)
    return await ended(wire, str(made["run_id"]))


async def ended(wire: Wire, run_id: str) -> str:
    while True:
        found = await wire.call("smartspawn_run_result", run_id=run_id, wait_ms=40_000)
        if found["status"] in {"completed", "failed", "canceled"}:
            if found["status"] != "completed":
                raise RuntimeError(f"a run did not complete: {found}")
            return run_id


async def rounds() -> AsyncIterator[dict[str, float]]:
    swarms, others = Model(), Model()
    try:
        async with Project() as project:
            project.env["SMART_SPAWN_MCP_HOME"] = str(project.directory / "spawn-home")
            project.site(MORE_NODES)
            parts = [
                {"id": f"swarm-{n}", "description": f"Part {n}.", "dependsOn": [], "wave": 0, "model": None}
                for n in range(MANY)
            ]
            many = {"decomposed": True, "dag": {"tasks": parts}}
            swarms.ask(rules=[{"path": "/api/swarm", "match": "Say much.", "reply": many}])
            swarms.ask(rules=[{"path": "/api/swarm", "dag": "many"}])
            others.ask(rules=[{"match": "of the drinks", "delay_ms": WAVE_MS}])
            wire = await client(project, swarms)
            wide = await client(project, others, parallel=8)
            for at in range(STORED):
                await finished(wire, f"Task {at}.", "single")
            number = 0
            while True:
                number += 1
                out = await swarm(project, wire, swarms)
                yield {**out, "waves": await waves(wide, number), **await resumed(project, wide, others, number)}
    finally:
        swarms.close()
        others.close()


async def swarm(project: Project, wire: Wire, model: Model) -> dict[str, float]:
    """Swarms whose model answers at once; ``node_ms``: from a node's claim to its end beyond one call by hand."""
    by_hand, each = await asyncio.to_thread(calls_by_hand, model.root)
    daemon = project.daemon_pid()
    began, cpu = time.perf_counter(), cpu_s(daemon)
    run_id = await finished(wire, "Say something.", "swarm")
    took, cpu = time.perf_counter() - began, cpu_s(daemon) - cpu
    state = await wire.call("smartspawn_run_status", run_id=run_id)
    lives = [seconds(one["started_at"], one["finished_at"]) * 1000 for one in state["nodes"] if one["kind"] == "task"]
    if len(lives) != NODES:
        raise RuntimeError(f"the swarm had {len(lives)} nodes")
    began = time.perf_counter()
    run_id = await finished(wire, "Say much.", "swarm")
    many = time.perf_counter() - began
    state = await wire.call("smartspawn_run_status", run_id=run_id)
    count = sum(one["kind"] == "task" for one in state["nodes"])
    out = {} if count != MANY else {"many_s": MANY / many, "linear": (many / MANY) / (took / NODES)}
    return {
        "nodes_s": NODES / took, "by_hand_s": NODES / by_hand, "call_ms": statistics.median(each),
        "node_ms": statistics.median(lives) - statistics.median(each), "cpu_ms": cpu / NODES * 1000, **out,
    }  # fmt: skip


def calls_by_hand(root: str) -> tuple[float, list[float]]:
    """Seconds of all calls, and milliseconds of each."""
    each: list[float] = []
    work: queue.SimpleQueue[int] = queue.SimpleQueue()
    for at in range(NODES):
        work.put(at)
    address = urlsplit(root).netloc

    def caller() -> None:
        server = http.client.HTTPConnection(address)
        while True:
            try:
                at = work.get_nowait()
            except queue.Empty:
                server.close()
                return
            began = time.perf_counter()
            body = {
                "model": "openai/gpt-4o-mini", "messages": [{"role": "user", "content": f"Part {at}."}],
                "max_tokens": 4096, "temperature": 0.2, "stream": True, "stream_options": {"include_usage": True},
            }  # fmt: skip
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
            server.request("POST", "/v1/chat/completions", json.dumps(body), headers)
            answer = server.getresponse()
            if b"[DONE]" not in answer.read():
                raise RuntimeError(f"the model answered {answer.status}")
            each.append((time.perf_counter() - began) * 1000)

    threads = [threading.Thread(target=caller) for _ in range(PARALLEL)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    if len(each) != NODES:
        raise RuntimeError("not every call by hand was answered")
    return took, each


async def waves(wire: Wire, number: int) -> float:
    """The time of a swarm of three waves and a merge from create to its result, to that of its calls."""
    named = f"of the drinks {number}"
    task = (
        f"1. Research tea {named}\n2. Research coffee {named}\n3. Implement the table {named}\n4. Document it {named}"
    )
    began = time.perf_counter()
    run_id = await finished(wire, task, "swarm")
    took = time.perf_counter() - began
    state = await wire.call("smartspawn_run_status", run_id=run_id)
    depth = len({one["wave"] for one in state["nodes"]})
    if depth != DEPTH:  # three waves and the merge
        raise RuntimeError(f"the swarm had {depth} waves")
    return took / (depth * WAVE_MS / 1000)


async def resumed(project: Project, wire: Wire, model: Model, number: int) -> dict[str, float]:
    """Seconds from kill -9 of the daemon until the model is asked again."""
    found = []
    for at in range(KILLS):
        name = f"hanging {number}.{at}."
        model.ask(rules=[{"match": name, "hang": True, "times": 1, "per": "all"}])
        made = await wire.call("smartspawn_run_create", task=f"A {name}", mode="single")
        await until(lambda: model.ask()["waiting"].get("hang", 0) > 0)
        daemon, before = project.daemon_pid(), model.calls()
        killed = time.perf_counter()
        os.kill(daemon, signal.SIGKILL)
        await until(lambda seen=before: model.calls() > seen)
        found.append(time.perf_counter() - killed)
        await ended(wire, str(made["run_id"]))
    return {"resumed_s": statistics.median(found), "resumed_max_s": max(found)}


async def until(look: Callable[[], bool], bound_s: float = 60.0) -> None:
    deadline = time.monotonic() + bound_s
    while not await asyncio.to_thread(look):
        if time.monotonic() > deadline:
            raise TimeoutError("the model was not asked")
        await asyncio.sleep(0.005)


def seconds(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
