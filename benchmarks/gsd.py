"""What the code graph costs: a made-up project of 100,000 files and 500,000 edges, asked in a process of its own.

The project is the same for the same numbers. Its index is asked warm and after each of many changes of one file; then
the same files stand in a ``graph.db`` and an ``index.json``, which their writers replace whole. ``python -m
benchmarks.gsd FILES EDGES`` prints the table for other numbers.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
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

    got: dict[str, float] = {"before_mb": _rss()}
    store = IntelStore(root)

    def snapshot() -> Snapshot:
        graph, intel = store.read()
        return Snapshot(root, None, graph, intel, store.entity, lambda paths: [])

    at = time.perf_counter()
    graph: Graph = snapshot().graph
    got |= {"load_s": time.perf_counter() - at, "after_mb": _rss(), "nodes": len(graph.nodes), "edges": graph.edges}
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
        got |= {f"{name}_{key}": value for key, value in _spread(times).items()} | {f"{name}_kb": longest / 1000}
    if changes:
        got |= _changed(root, snapshot, changes, query)
    return got | {"end_mb": _rss()}


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
    return {
        f"{name}_changed_{key}": value
        for name, times in (("query", queries), ("blast", blasts))
        for key, value in _spread(times).items()
    }


def measure(count: int = FILES, edges: int = EDGES, changes: int = CHANGES) -> dict[str, dict[str, float]]:
    """By form of the store, ``index`` and ``stores``: what `ask` gives, of a process that did nothing else."""
    every = list(files(count, edges))
    got = {}
    with tempfile.TemporaryDirectory(prefix="orchestrator-bench-") as at:
        for name, write in (("index", write_index), ("stores", write_stores)):
            root = Path(at).resolve() / name
            root.mkdir()
            write(root, every)
            command = [
                sys.executable,
                "-m",
                "benchmarks.gsd",
                "ask",
                str(root),
                str(changes if name == "index" else 0),
            ]
            done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
            got[name] = json.loads(done.stdout)
            if name == "stores":
                got[name] |= _reload(root)
    return got


def _reload(root: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.gsd", "reload", str(root)]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def reload(root: Path) -> dict[str, float]:
    """How long a read takes after one of the whole stores has been written again with one file changed."""
    from orchestrator.gsd.intel.reading import IntelStore

    store = IntelStore(root)
    store.read()
    intel = root / ".planning" / "intel"
    with closing(sqlite3.connect(intel / "graph.db")) as con, con:
        source, target = con.execute("SELECT source, target FROM edges ORDER BY rowid LIMIT 1").fetchone()
        con.execute("DELETE FROM edges WHERE source = ? AND target = ?", (source, target))
    at = time.perf_counter()
    store.read()
    got = {"graph_db_s": time.perf_counter() - at}
    index = json.loads((intel / "index.json").read_bytes())
    next(iter(index["files"].values()))["exports"].append("another")
    (intel / "index.json").write_text(json.dumps(index))
    at = time.perf_counter()
    store.read()
    return got | {"index_json_s": time.perf_counter() - at}


def table(row: Callable[[str, str, str], None], count: int = FILES, edges: int = EDGES) -> None:
    """One row for each figure."""
    got = measure(count, edges)
    index, stores = got["index"], got["stores"]
    row(
        f"code graph of {index['nodes']:,.0f} files, {index['edges']:,.0f} edges: load; memory before, after",
        f"{index['load_s']:.1f} s; {index['before_mb']:.0f}, {index['after_mb']:.0f} MB",
        "",
    )
    for name, tool in (("query", "gsd_query_intel"), ("blast", "gsd_blast_radius")):
        row(f"  {tool} warm, p50 / p95 / max", _times(index, name), "<= 50 ms p95")
        row(f"  {tool} after one file changed, p50 / p95 / max", _times(index, f"{name}_changed"), "<= 100 ms")
    row(
        "  the same out of graph.db and index.json: load; memory after",
        f"{stores['load_s']:.1f} s; {stores['after_mb']:.0f} MB",
        "",
    )
    row(
        "  a read after graph.db, index.json was written anew",
        f"{stores['graph_db_s']:.1f} s; {stores['index_json_s']:.1f} s",
        "",
    )
    row(
        "  the first query of all: one word; four bits of words that lie in every name",
        f"{index['first_word_ms']:.0f} ms; {index['first_worst_ms']:.0f} ms",
        "",
    )
    row(
        "  the first blast radius of a hub of a fifth of all files, ten deep; of another",
        f"{index['first_hub_ms']:.0f} ms; {index['first_next_ms']:.0f} ms",
        "",
    )
    row("  longest answer of each", f"{index['query_kb']:.0f} KB; {index['blast_kb']:.0f} KB", "<= 60 KB")


def _times(got: dict[str, float], name: str) -> str:
    return f"{got[f'{name}_p50']:.1f} / {got[f'{name}_p95']:.1f} / {got[f'{name}_max']:.1f} ms"


def _spread(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    last = len(ordered) - 1
    return {"p50": ordered[last // 2], "p95": ordered[round(last * 0.95)], "max": ordered[-1]}


def _rss() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    if sys.argv[1:2] in (["ask"], ["reload"]):
        where = Path(sys.argv[2])
        print(json.dumps(ask(where, int(sys.argv[3])) if sys.argv[1] == "ask" else reload(where)))
    else:
        table(lambda *cells: print("{:<72} {:<34} {}".format(*cells), flush=True), *map(int, sys.argv[1:3]))
