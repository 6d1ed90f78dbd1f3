"""What the code graph costs: a made-up project of 100,000 files and 500,000 edges, asked in a process of its own.

The project is the same for the same numbers. Its index is asked warm and after each of many changes of one file; then
the same files stand in a ``graph.db`` and an ``index.json``, which their writers replace whole.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from benchmarks.project import PLACE, spread, status_mb
from benchmarks.run import measured_tree, program

FILES, EDGES = 100_000, 500_000
HUBS = 5
QUERIES = 300
CHANGES = 30
SEED = 7
SYLLABLES = (
    "ra to mi ken dor lu pas ver sto ni que tan bel ori mo sal fen gra du hal wo ix cy jun kr ox ez ub af im yt sp gl "
    "br oat eck usk ind olp arn ift ump awl enz igh ost url vex hop jaz wim yod kit nub"
)
KINDS = ("service", "api", "util", "component", "model", "config", "module", "hook", "test")
AT = datetime(2026, 1, 1, tzinfo=UTC)
FIGURES = (
    Figure("load_s", f"code graph of {FILES:,} files, {EDGES:,} edges: load", "s"),
    Figure("after_mb", "  memory after it", "MB"),
    Figure("query_p50", "  gsd_query_intel warm, p50", "ms"),
    Figure("query_p95", "  p95", "ms", at_most=50),
    Figure("query_changed_p95", "  after one file changed, p95", "ms", at_most=100),
    Figure("blast_p50", "  gsd_blast_radius warm, p50", "ms"),
    Figure("blast_p95", "  p95", "ms", at_most=50),
    Figure("blast_changed_p95", "  after one file changed, p95", "ms", at_most=100),
    Figure("first_word_ms", "  the first query of all: one word", "ms"),
    Figure("first_worst_ms", "  bits of words that lie in every name", "ms"),
    Figure("first_hub_ms", "  the first blast radius of a hub of a fifth of all files, ten deep", "ms"),
    Figure("first_next_ms", "  of another", "ms"),
    Figure("query_kb", "  longest answer of gsd_query_intel", "KB", at_most=60),
    Figure("blast_kb", "  of gsd_blast_radius", "KB", at_most=60),
    Figure("stores_load_s", "the same out of graph.db and index.json: load", "s"),
    Figure("stores_after_mb", "  memory after it", "MB"),
    Figure("stores_graph_db_s", "  a read after graph.db was written anew", "s"),
    Figure("stores_index_json_s", "  after index.json was", "s"),
)


def files(count: int, edges: int) -> Iterator[dict[str, Any]]:
    """The made-up files: path, type, purpose, exports, imports; some hubs have a fifth of all files behind them."""
    rng = random.Random(SEED)
    syllables = SYLLABLES.split()
    words = ["".join(rng.choices(syllables, k=rng.randint(2, 4))) for _ in range(4_000)]
    areas = rng.sample(words, 60)
    paths = []
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        ending = ".test.ts" if kind == "test" else ".ts"
        name = f"{rng.choice(words)}{rng.choice(words).title()}{number}{ending}"
        paths.append(f"packages/{rng.choice(areas)}/src/{kind}s/{rng.choice(areas)}/{name}")
    hubs = paths[:HUBS]
    each = max(1, (edges - HUBS * (count // 5)) // count)
    for number, path in enumerate(paths):
        imports = {rng.choice(paths[: max(2, int(count * rng.random() ** 3))]) for _ in range(each)}
        imports.update(hub for at, hub in enumerate(hubs) if number % 5 == at)
        yield {
            "path": path,
            "type": KINDS[number % len(KINDS)],
            "purpose": " ".join(rng.choices(words, k=12)).capitalize(),
            "exports": tuple({f"{rng.choice(words)}{rng.choice(words).title()}" for _ in range(4)}),
            "imports": tuple(sorted(imports - {path})),
        }


def write_index(root: Path, every: list[dict[str, Any]]) -> None:
    from orchestrator.gsd.index import store as index_store
    from orchestrator.gsd.index import writing as index_writing
    from orchestrator.gsd.model import FileFacts

    rows = [index_store.Row(FileFacts(**each, language="typescript", lines=50), b"") for each in every]
    with index_writing.writing(root) as writing:
        writing.save(changed=rows, touched={}, removed=(), at=AT, settings="", conventions="", summary="")


def write_stores(root: Path, every: list[dict[str, Any]]) -> None:
    """The same as GSD's own stores: nodes and edges in graph.db, exports and imports in index.json."""
    from orchestrator.gsd.graph.slugs import slug

    intel = root / ".planning" / "intel"
    intel.mkdir(parents=True)
    with closing(sqlite3.connect(intel / "graph.db")) as con, con:
        con.execute(
            "CREATE TABLE nodes (body TEXT, id TEXT GENERATED ALWAYS AS (json_extract(body, '$.id')) VIRTUAL NOT NULL UNIQUE)"
        )
        con.execute(
            "CREATE TABLE edges (source TEXT NOT NULL, target TEXT NOT NULL, relationship TEXT DEFAULT 'depends_on')"
        )
        con.executemany(
            "INSERT INTO nodes (body) VALUES (?)",
            ((json.dumps({"id": slug(each["path"]), "path": f"/home/x/made/{each['path']}", "type": each["type"]}),)
             for each in every),
        )  # fmt: skip
        con.executemany(
            "INSERT INTO edges (source, target) VALUES (?, ?)",
            ((slug(each["path"]), slug(end)) for each in every for end in each["imports"]),
        )
    index = {
        f"/home/x/made/{each['path']}": {
            "exports": each["exports"], "indexed": 1,
            "imports": [os.path.relpath(end, each["path"].rpartition("/")[0]) for end in each["imports"]],
        }
        for each in every
    }  # fmt: skip
    (intel / "index.json").write_text(json.dumps({"version": 1, "updated": 1, "files": index}))


def ask(root: Path, changes: int) -> dict[str, float]:
    """In a fresh process: load, ask warm, ask after each change."""
    from orchestrator.gsd.graph import code_answers
    from orchestrator.gsd.graph.protocol import Graph
    from orchestrator.gsd.graph_snapshot import Snapshot
    from orchestrator.gsd.intel.reading import IntelStore

    got: dict[str, float] = {"before_mb": status_mb(os.getpid(), "VmRSS")}
    store = IntelStore(root)

    def snapshot() -> Snapshot:
        graph, intel = store.read()
        return Snapshot(root, None, graph, intel, store.entity, lambda paths: [])

    at = time.perf_counter()
    graph: Graph = snapshot().graph
    got |= {
        "load_s": time.perf_counter() - at,
        "after_mb": status_mb(os.getpid(), "VmRSS"),
        "nodes": len(graph.nodes),
        "edges": graph.edges,
    }
    rng = random.Random(SEED)
    nodes = list(graph.nodes.values())
    hubs = [node for node, _ in graph.hotspots(HUBS)]

    def query() -> dict[str, Any]:
        some = rng.choice(nodes)
        words = some.purpose.lower().split() or ["alpha", "beta", "gamma"]
        text = rng.choice([
            words[0], words[-1], " ".join(rng.sample(words, min(5, len(words)))), "src", "packages ts", "service",
            f"where is {words[0]} used by the {words[-1]} api", "zzzznothing", "user_id2 http2", "ra mi ken dor",
            some.path, some.path.rpartition("/")[2], rng.choice(some.exports or ("x",)), f"{words[0]} {words[1]}",
        ])  # fmt: skip
        return {"query": text, "include_blast_radius": True, "type_filter": rng.choice(["all", "all", "service"])}

    def blast() -> dict[str, Any]:
        node = rng.choice(hubs if rng.random() < 0.2 else nodes)
        return {"file": rng.choice([node.path, node.path, node.id]), "max_depth": rng.choice([1, 2, 3, 3, 5, 10])}

    for name, text in (
        ("word", nodes[-1].purpose.split()[0] if nodes[-1].purpose else "src"),
        ("worst", "ra mi ken dor"),
    ):
        at = time.perf_counter()
        code_answers.query_intel(snapshot(), query=text)
        got[f"first_{name}_ms"] = (time.perf_counter() - at) * 1000
    for name, node in (("hub", hubs[0]), ("next", hubs[1])):
        at = time.perf_counter()
        code_answers.blast_radius(snapshot(), file=node.path, max_depth=10)
        got[f"first_{name}_ms"] = (time.perf_counter() - at) * 1000
    for name, answer, question in (
        ("query", code_answers.query_intel, query), ("blast", code_answers.blast_radius, blast),
    ):  # fmt: skip
        times = []
        longest = 0
        for _ in range(QUERIES):
            asked = question()
            at = time.perf_counter()
            found = answer(snapshot(), **asked)
            times.append((time.perf_counter() - at) * 1000)
            longest = max(longest, len(json.dumps(found)))
        got |= spread(name, times) | {f"{name}_kb": longest / 1000}
    if changes:
        got |= _changed(root, snapshot, changes, query)
    return got | {"end_mb": status_mb(os.getpid(), "VmRSS")}


def _changed(
    root: Path, snapshot: Callable[[], Any], changes: int, query: Callable[[], dict[str, Any]]
) -> dict[str, float]:
    """The first answer after each change of one file: its purpose and imports, now and then a new file."""
    from orchestrator.gsd.graph import code_answers
    from orchestrator.gsd.index import store as index_store
    from orchestrator.gsd.index import writing as index_writing
    from orchestrator.gsd.model import FileFacts

    rng = random.Random(SEED)
    paths = sorted(node.path for node in snapshot().graph.nodes.values())
    queries, blasts = [], []
    for number in range(changes):
        path = rng.choice(paths) if number % 5 else f"packages/new/src/fresh{number}.ts"
        facts = FileFacts(path, "service", f"Changed {number}", (f"changed{number}",), tuple(rng.sample(paths, 5)))
        with index_writing.writing(root) as writing:
            writing.save(
                changed=[index_store.Row(facts, b"")], touched={}, removed=(), at=AT, settings="", conventions="",
                summary="",
            )  # fmt: skip
        at = time.perf_counter()
        if number % 2:
            found = code_answers.query_intel(snapshot(), **{**query(), "type_filter": "all"})
        else:
            found = code_answers.blast_radius(snapshot(), file=facts.imports[0], max_depth=3)
            assert path in [each["path"] for each in found["details"]["directDependents"]] or found.get("truncated")
        (queries if number % 2 else blasts).append((time.perf_counter() - at) * 1000)
    return spread("query_changed", queries) | spread("blast_changed", blasts)


async def rounds() -> AsyncIterator[dict[str, float]]:
    """Each figure from a process that does nothing else."""
    every = list(files(FILES, EDGES))
    with tempfile.TemporaryDirectory(dir=os.environ.get(PLACE)) as at:
        index, stores = Path(at).resolve() / "index", Path(at).resolve() / "stores"
        for root, write in ((index, write_index), (stores, write_stores)):
            root.mkdir()
            write(root, every)
        del every
        while True:
            out = await asyncio.to_thread(in_process, "ask", index, CHANGES)
            yield out | await asyncio.to_thread(in_process, "reload", stores, 0)


def in_process(what: str, root: Path, changes: int) -> dict[str, float]:
    command = program(measured_tree(), "gsd", what, str(root), str(changes))
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def reload(root: Path) -> dict[str, float]:
    """How long the first read takes, and one after either store has been written again with one file changed."""
    from orchestrator.gsd.intel.reading import IntelStore

    store = IntelStore(root)
    at = time.perf_counter()
    store.read()
    got = {"stores_load_s": time.perf_counter() - at, "stores_after_mb": status_mb(os.getpid(), "VmRSS")}
    intel = root / ".planning" / "intel"
    with closing(sqlite3.connect(intel / "graph.db")) as con, con:
        source, target = con.execute("SELECT source, target FROM edges ORDER BY rowid LIMIT 1").fetchone()
        con.execute("DELETE FROM edges WHERE source = ? AND target = ?", (source, target))
    at = time.perf_counter()
    store.read()
    got["stores_graph_db_s"] = time.perf_counter() - at
    index = json.loads((intel / "index.json").read_bytes())
    next(iter(index["files"].values()))["exports"].append("another")
    (intel / "index.json").write_text(json.dumps(index))
    at = time.perf_counter()
    store.read()
    return got | {"stores_index_json_s": time.perf_counter() - at}


if __name__ == "__main__":
    where = Path(sys.argv[2])
    print(json.dumps(ask(where, int(sys.argv[3])) if sys.argv[1] == "ask" else reload(where)))
