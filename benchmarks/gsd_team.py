"""What a team notices of project intelligence: delivery to a waiting agent while a graph of 100,000 files is read.

The graph is read again and again as long as the rounds last, by touching its file; before and after stand rounds of
the same run in which nobody asks for anything else.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks.relays import Project, agents_of, percentile
from benchmarks.wire import Wire

FILES, EDGES = 100_000, 500_000
READS = 3


def graph_db(path: Path, files: int = FILES, edges: int = EDGES) -> None:
    """A store of that size in the form of GSD's own hook."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = random.Random(7)
    ids = [f"src-area{n % 97}-part{n % 1013}-file{n}" for n in range(files)]
    db = sqlite3.connect(path)
    db.executescript(
        "PRAGMA synchronous=OFF;"
        "CREATE TABLE nodes (body TEXT, id TEXT GENERATED ALWAYS AS (json_extract(body,'$.id')) VIRTUAL NOT NULL UNIQUE);"
        "CREATE INDEX id_idx ON nodes(id);"
        "CREATE TABLE edges (source TEXT NOT NULL, target TEXT NOT NULL, relationship TEXT DEFAULT 'depends_on',"
        " UNIQUE(source,target,relationship) ON CONFLICT REPLACE);"
        "CREATE INDEX source_idx ON edges(source); CREATE INDEX target_idx ON edges(target);"
    )
    bodies = (
        (
            json.dumps(
                {"id": one, "path": f"/home/her/app/src/area{n % 97}/part{n % 1013}/file{n}.ts", "type": "module"}
            ),
        )
        for n, one in enumerate(ids)
    )
    db.executemany("INSERT INTO nodes(body) VALUES (?)", bodies)
    pairs = ((rng.choice(ids), rng.choice(ids)) for _ in range(edges))
    db.executemany("INSERT INTO edges(source, target) VALUES (?, ?)", pairs)
    db.commit()
    db.close()


async def delivery(rounds: int = 300) -> dict[str, float]:
    """ms from enqueue to received: quiet, while a graph is read over and over, quiet again; and how often it was read."""
    project = Project()
    store = project.root / ".planning/intel/graph.db"
    try:
        await asyncio.to_thread(graph_db, store)
        master, (agent,), (wire,) = await agents_of(project, 1)
        gsd = await Wire.start(project.root, project.env, "--toolsets", "gsd")
        await gsd.greet()
        numbers = iter(range(1_000_000))

        async def some(reads: int = 0) -> list[float]:
            """The rounds, and on until a graph has been read so many times more."""
            found: list[float] = []
            enough = len(took) + reads
            while len(found) < rounds or len(took) < enough:
                waiting = asyncio.create_task(wire.call("wait_for_command", agent_id=agent, timeout_ms=20_000))
                while (await master.call("agent_get", agent_id=agent))["meta"]["reason"] != "inside wait_for_command":
                    pass
                began = time.perf_counter()
                task = {"task_id": f"t{next(numbers)}", "payload": {}}
                enqueued = asyncio.create_task(master.call("task_enqueue", agent_id=agent, task=task))
                assert (await waiting)["status"] == "command"
                found.append((time.perf_counter() - began) * 1000)
                await enqueued
                await wire.call("emit_event", agent_id=agent, type="result")
            return found

        async def read_on() -> None:
            while True:
                os.utime(store)
                began = time.perf_counter()
                await gsd.call("gsd_blast_radius", file="src-area0-part0-file0")
                took.append(time.perf_counter() - began)

        took: list[float] = []
        await some()  # whatever is loaded once is loaded now
        quiet = await some()
        reading = asyncio.create_task(read_on())
        while not took:  # the first one is also the start of the process
            await asyncio.wait([reading], timeout=0.1)
        first, done = took[0], len(took)
        busy = await some(READS)
        reads = len(took) - done
        reading.cancel()
        await asyncio.wait([reading])
        again = await some()
        out: dict[str, Any] = {"first_s": first, "reads": reads, "read_s": statistics.median(took)}
        for name, values in (("quiet", quiet), ("busy", busy), ("again", again)):
            out |= {f"{name}_p50": statistics.median(values), f"{name}_p95": percentile(values, 0.95)}
            out[f"{name}_max"] = max(values)
        for one in (gsd, wire, master):
            await one.close()
        return out
    finally:
        project.close()
