"""How soon a team goes on after kill -9, and what a day of work leaves in a daemon.

The first two figures come from real processes, the day from a roster over real files and a clock that is moved by
hand: 24 hours of tasks, waits, heartbeats, silence and time limits in a minute.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import statistics
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.relays import Project, percentile
from benchmarks.wire import Wire
from orchestrator.team.life.deadlines import Deadlines
from orchestrator.team.roster import delivery
from tests.support.team import Team

BOUND_S = 60.0
FULL = 8
"""In this hour every agent has its 2,000 remembered calls, which a checkpoint holds: from there on nothing grows."""


async def agent_killed(rounds: int = 20) -> dict[str, float]:
    """Seconds from kill -9 of a worker to its task in the hands of the next life, without the start of that life.

    ``{p50, p95, max, whole_p50}``: ``whole`` with the start. What is taken off is the time between the records
    `restarted` and `ready` of the new life.
    """
    project = Project(max_restarts=100, restart_backoff_s=0.0, max_attempts=100)
    try:
        master = await Wire.start(project.root, project.env)
        await master.greet()
        await master.call("agent_create", name="w", role="r", engine="shell")
        outbox = project.root / ".agents/agents/w/outbox.jsonl"
        await master.call("task_enqueue", agent_id="w", task={"task_id": "t", "payload": {"command": "sleep 3600"}})
        found, whole = [], []
        for attempt in range(1, rounds + 1):
            await _record(outbox, lambda r, n=attempt: r["type"] == "ack" and r["epoch"] == n)
            pid = int((await master.call("agent_get", agent_id="w"))["meta"]["pid"])
            killed = time.time()
            os.kill(pid, signal.SIGKILL)
            again = await _record(outbox, lambda r, n=attempt + 1: r["type"] == "ack" and r["epoch"] == n)
            life = [r for r in _records(outbox) if r["epoch"] == attempt + 1]
            start = _at(life, "ready") - _at(life, "restarted")
            took = _at([again], "ack") - killed
            whole.append(took)
            found.append(took - start)
        await master.call("agent_delete", agent_id="w", force=True, confirm="w")
        await master.close()
        return {
            "p50": statistics.median(found),
            "p95": percentile(found, 0.95),
            "max": max(found),
            "whole_p50": statistics.median(whole),
        }
    finally:
        project.close()


def _records(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]


async def _record(path: Path, wanted: Any) -> dict[str, Any]:
    deadline = time.monotonic() + BOUND_S
    while time.monotonic() < deadline:
        for record in reversed(_records(path)):
            if wanted(record):
                return record
        await asyncio.sleep(0.005)
    raise TimeoutError("the record did not come")


def _at(records: list[dict[str, Any]], kind: str) -> float:
    [at] = [record["at"] for record in records if record["type"] == kind][:1]
    return datetime.fromisoformat(at).timestamp()


async def daemon_killed(rounds: int = 10) -> dict[str, float]:
    """Seconds from kill -9 of the daemon to the answer of a call that was sent right after: ``{p50, max}``."""
    project = Project()
    try:
        master = await Wire.start(project.root, project.env)
        await master.greet()
        await master.call(
            "agents_create", agents=[{"name": f"w{n}", "role": "r", "engine": "shell"} for n in range(3)]
        )
        found = []
        for _ in range(rounds):
            pid = project.daemon_pid()
            began = time.perf_counter()
            os.kill(pid, signal.SIGKILL)
            await master.call("agent_get", agent_id="w0")
            found.append(time.perf_counter() - began)
        for n in range(3):
            await master.call("agent_delete", agent_id=f"w{n}", force=True, confirm=f"w{n}")
        await master.close()
        return {"p50": statistics.median(found), "max": max(found)}
    finally:
        project.close()


class _Panes:
    """What Windows is to the looks at silent agents: nothing ever moves."""

    async def look(self, _run: Any, _entries: Any) -> dict[str, Any]:
        return {}


async def day(hours: int = 24, agents: int = 10) -> dict[str, float]:
    """A day of a team by the clock: each agent gets a task a minute and reports; figures of three of its hours.

    ``{tasks, <hour>_rss_mb, <hour>_fds, <hour>_cpu_us (per task)}``; the hours are ``first``, ``full`` and ``last``.
    """
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as place:
        team = Team(Path(place), segment_bytes=1 << 20)
        roster, clock = team.roster, team.clock
        roster.begin_writing()
        entries = [await team.agent(f"a{n}") for n in range(agents)]
        overdue = Deadlines(roster, _Panes(), lambda _entry: None)  # type: ignore[arg-type]
        roster.listeners.append(overdue.seen)
        out: dict[str, float] = {}
        done = 0
        for hour in range(hours):
            cpu, before = time.process_time(), done
            for minute in range(60):
                for n, entry in enumerate(entries):
                    await _task(roster, entry.agent_id, f"{hour}.{minute}.{n}")
                    done += 1
                await clock.advance(60.0)
            if hour in (0, FULL, hours - 1):
                gc.collect()
                name = {0: "first", FULL: "full"}.get(hour, "last")
                out[f"{name}_cpu_us"] = (time.process_time() - cpu) / (done - before) * 1e6
                out[f"{name}_rss_mb"] = _rss_mb()
                out[f"{name}_fds"] = float(len(list(Path("/proc/self/fd").iterdir())))
        await overdue.close()
        team.close()
        return {"tasks": float(done), **out}


async def _task(roster: Any, agent_id: str, name: str) -> None:
    await delivery.enqueue(
        roster, agent_id, task_id=f"t-{name}", payload={"command": "true"}, req=f"c:{name}", timeout_s=3600.0
    )
    told = await delivery.wait_for_command(roster, agent_id, 1, timeout_s=0.0, age_s=0.0, req=f"w:{name}")
    assert told["command"]["task_id"] == f"t-{name}"
    for kind in ("ack", "progress", "result"):
        await delivery.emit_event(
            roster, agent_id, 1, kind=kind, task_id=None, payload={"n": 1}, done=None, req=f"{kind}:{name}"
        )


def _rss_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
