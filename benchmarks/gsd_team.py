"""What a team notices of project intelligence: delivery to a waiting agent while a graph of 100,000 files is read.

In each round there are first deliveries while nobody asks for anything else; then the graph's file is touched, and
tasks are delivered as long as it is read anew.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.project import Project, agents_of, spread
from benchmarks.relays import Side

FILES, EDGES = 100_000, 500_000
DELIVERIES = 200
FIGURES = (
    Figure("quiet_p50", f"enqueue -> received, {FILES:,} files in a graph.db, p50", "ms"),
    Figure("quiet_p95", "  p95", "ms"),
    Figure("busy_p50", "  while that is read, p50", "ms", at_most=5),
    Figure("busy_p95", "  p95", "ms", at_most=15),
    Figure("busy_max", "  max", "ms"),
    Figure("read_s", "  a read", "s"),
)


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


async def rounds() -> AsyncIterator[dict[str, float]]:
    async with Project() as project:
        store = project.root / ".planning/intel/graph.db"
        await asyncio.to_thread(graph_db, store)
        master, ids, wires = await agents_of(project, 1)
        side = Side(master, list(zip(ids, wires, strict=True)), project.daemon_pid())
        gsd = await project.relay("--toolsets", "gsd")

        async def read() -> float:
            os.utime(store)
            began = time.perf_counter()
            await gsd.call("gsd_blast_radius", file="src-area0-part0-file0")
            return time.perf_counter() - began

        await read()  # the first one is also the start of the process
        while True:
            out = spread("quiet", await side.idle(DELIVERIES))
            reading, busy = asyncio.create_task(read()), []
            while not reading.done():
                busy += await side.idle(5)
            yield {**out, **spread("busy", busy), "read_s": await reading}
