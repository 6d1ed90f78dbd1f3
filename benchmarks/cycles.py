"""Durable task cycles inside the daemon's process, beside raw write+fdatasync loops and an SQLite queue.

A cycle is enqueue, deliver, ack, result of one task. The raw loop does three write+fdatasync per cycle, by as many
threads of one process as there are agents. All three run by turns in the same run; the ratio is taken round by round.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from orchestrator.base.clock import SystemClock
from orchestrator.journal.syncer import Syncer
from orchestrator.team.roster import delivery
from tests.support.team import Team

PAYLOAD = {"command": "true", "note": "x" * 160}


def together(work: Callable[[Any], None], each: Iterable[Any]) -> float:
    """Run ``work`` on each item in a thread of its own; the seconds until all are done."""
    threads = [threading.Thread(target=work, args=(one,)) for one in each]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def raw(root: Path, workers: int, cycles: int) -> float:
    """Cycles per second of three write+fdatasync each."""
    line = b"x" * 255 + b"\n"

    def work(path: Path) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for _ in range(3 * cycles):
            os.write(fd, line)
            os.fdatasync(fd)
        os.close(fd)

    return workers * cycles / together(work, [root / f"raw{n}" for n in range(workers)])


def sqlite_queue(root: Path, workers: int, cycles: int) -> float:
    """Cycles per second of an enqueue, claim, complete queue with synchronous=FULL in WAL mode."""
    path = root / "queue.db"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE IF NOT EXISTS q (id INTEGER PRIMARY KEY, agent INT, state TEXT, body TEXT)")
    body = "x" * 200

    def work(agent: int) -> None:
        db = sqlite3.connect(path, isolation_level=None, timeout=60)
        db.execute("PRAGMA synchronous=FULL")
        for _ in range(cycles):
            (row,) = db.execute(
                "INSERT INTO q (agent, state, body) VALUES (?, 'queued', ?) RETURNING id", (agent, body)
            )
            db.execute("UPDATE q SET state = 'leased' WHERE id = ?", row)
            db.execute("UPDATE q SET state = 'done' WHERE id = ?", row)
        db.close()

    return workers * cycles / together(work, range(workers))


async def team(root: Path, agents: int, cycles: int) -> float:
    """Cycles per second of our own calls, in one event loop."""
    syncer = Syncer(lambda error: sys.exit(str(error)))
    made = Team(root, SystemClock(), syncer)
    names = [f"a{n}" for n in range(agents)]
    for name in names:
        await made.agent(name)

    async def work(name: str) -> None:
        roster = made.roster
        for n in range(cycles):
            await delivery.enqueue(roster, name, task_id=f"t{n}", payload=PAYLOAD, req=f"m:{name}{n}")
            got = await delivery.wait_for_command(roster, name, 1, timeout_s=5, age_s=0, req=f"w:{n}")
            assert got["command"]["task_id"] == f"t{n}"
            await delivery.emit_event(
                roster, name, 1, kind="ack", task_id=None, payload=None, done=None, req=f"a:{name}{n}"
            )
            await delivery.emit_event(
                roster, name, 1, kind="result", task_id=None, payload={"exit_code": 0}, done=None, req=f"r:{name}{n}"
            )

    began = time.perf_counter()
    await asyncio.gather(*(work(name) for name in names))
    took = time.perf_counter() - began
    await made.roster.flush()
    made.close()
    syncer.close()
    return agents * cycles / took


def main(rounds: int = 5, cycles: int = 400) -> list[dict[str, float]]:
    """Print and return the medians: {workers, team, raw, sqlite, ratio, ratio_min, ratio_max, sqlite_ratio}."""
    rows = []
    for workers in (1, 8):
        each = cycles if workers == 1 else cycles // 4
        got: dict[str, list[float]] = {"team": [], "raw": [], "sqlite": []}
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as directory:
                root = Path(directory)
                for name in ("r", "s", "t"):
                    (root / name).mkdir()
                before = raw(root / "r", workers, each)
                got["team"].append(asyncio.run(team(root / "t", workers, each)))
                after = raw(root / "r", workers, each)
                got["raw"].append((before + after) / 2)
                got["sqlite"].append(sqlite_queue(root / "s", workers, each))
        ratios = [ours / floor for ours, floor in zip(got["team"], got["raw"], strict=True)]
        row = {
            "workers": workers,
            **{name: statistics.median(values) for name, values in got.items()},
            "ratio": statistics.median(ratios),
            "ratio_min": min(ratios),
            "ratio_max": max(ratios),
        }
        rows.append(row)
        print(
            f"durable cycles, {workers} agent(s): team {row['team']:7.0f}/s   raw 3x(write+fdatasync) {row['raw']:7.0f}/s"
            f"   sqlite FULL {row['sqlite']:7.0f}/s   ratio team/raw {row['ratio']:.2f}"
            f" ({row['ratio_min']:.2f}..{row['ratio_max']:.2f})"
        )
    return rows


if __name__ == "__main__":
    main()
