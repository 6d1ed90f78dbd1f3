"""Durable task cycles inside the daemon's process, beside a raw loop of the same work and an SQLite queue.

A cycle is enqueue, deliver, ack, result of one task. What it appends and syncs is counted while it is measured; the
raw loop does exactly as many appends of that size and as many fdatasyncs a cycle, to two files per agent, by as many
threads as there are agents. All run by turns, the raw loop before and after; the ratio is taken round by round.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.figures import Figure
from benchmarks.project import PLACE
from orchestrator.base.clock import SystemClock
from orchestrator.journal.syncer import Syncer
from orchestrator.team.roster import delivery
from tests.support.team import Team

PAYLOAD = {"command": "true", "note": "x" * 160}
CYCLES = {1: 400, 8: 100}
"""By the number of agents: the cycles of each in one round."""


def of(agents: int, at_least: float) -> tuple[Figure, ...]:
    n = f"{agents} agent" + ("s" if agents > 1 else "")
    return (
        Figure(f"team_{agents}", f"durable cycles in the daemon's process, {n}", "/s"),
        Figure(f"ratio_{agents}", "  to the raw loop of the same work", at_least=at_least),
        Figure(f"raw_{agents}", "  limit: the raw loop of the same work", "/s"),
        Figure(f"appends_{agents}", "  appends a cycle"),
        Figure(f"syncs_{agents}", "  syncs a cycle"),
        Figure(f"cpu_{agents}", "  CPU a cycle", "ms"),
        Figure(f"sqlite_{agents}", "  SQLite WAL synchronous=FULL queue", "/s"),
    )


FIGURES = (*of(1, 0.6), *of(8, 0.6))


class Work:
    """What the appends and syncs of this process amount to while `counted`."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.syncs: list[None] = []

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        def append(real: Callable[..., int]) -> Callable[..., int]:
            def call(fd: int, data: bytes, *where: int) -> int:
                self.sizes.append(len(data))
                return real(fd, data, *where)

            return call

        def sync(real: Callable[[int], None]) -> Callable[[int], None]:
            def call(fd: int) -> None:
                self.syncs.append(None)
                real(fd)

            return call

        with contextlib.ExitStack() as stack:
            for name, wrap in (("write", append), ("pwrite", append), ("fsync", sync), ("fdatasync", sync)):
                stack.enter_context(mock.patch.object(os, name, wrap(getattr(os, name))))
            yield
        if not (self.sizes and self.syncs):
            raise RuntimeError("the journal's appends and syncs could not be counted")


def together(work: Callable[[Any], None], each: Iterable[Any]) -> float:
    """Run ``work`` on each item in a thread of its own; the seconds until all are done."""
    threads = [threading.Thread(target=work, args=(one,)) for one in each]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def raw(root: Path, agents: int, cycles: int, work: Work) -> float:
    """Cycles per second of the same appends and syncs."""
    total = agents * cycles
    line = b"x" * (sum(work.sizes) // len(work.sizes) - 1) + b"\n"

    def loop(agent: int) -> None:
        fds = [os.open(root / f"{agent}.{n}", os.O_WRONLY | os.O_CREAT | os.O_APPEND) for n in range(2)]
        appends = syncs = 0
        for cycle in range(1, cycles + 1):
            while appends < cycle * len(work.sizes) / total:
                os.write(fds[appends % 2], line)
                appends += 1
                if syncs < cycle * len(work.syncs) / total:
                    os.fdatasync(fds[(appends - 1) % 2])
                    syncs += 1
        for fd in fds:
            os.close(fd)

    return total / together(loop, range(agents))


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


async def team(root: Path, agents: int, cycles: int, counted: Work) -> tuple[float, float]:
    """Cycles per second of our own calls in one event loop, and the CPU of one in ms."""
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
            assert got["command"]["task_id"] == f"t{n}", got
            await delivery.emit_event(
                roster, name, 1, kind="ack", task_id=None, payload=None, done=None, req=f"a:{name}{n}"
            )
            await delivery.emit_event(
                roster, name, 1, kind="result", task_id=None, payload={"exit_code": 0}, done=None, req=f"r:{name}{n}"
            )

    with counted.counted():
        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(work(name) for name in names))
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
    await made.roster.flush()
    made.close()
    syncer.close()
    total = agents * cycles
    return total / took, cpu / total * 1000


async def rounds() -> AsyncIterator[dict[str, float]]:
    last: dict[int, Work] = {}
    while True:
        out: dict[str, float] = {}
        for agents, each in CYCLES.items():
            if agents not in last:  # so that the raw loop can also run before the first round
                with directory() as root:
                    last[agents] = Work()
                    await team(root, agents, each, last[agents])
            out |= {f"{name}_{agents}": value for name, value in (await one_round(agents, each, last)).items()}
        yield out


async def one_round(agents: int, each: int, last: dict[int, Work]) -> dict[str, float]:
    with directory() as root:
        for name in ("before", "team", "after", "sqlite"):
            (root / name).mkdir()
        before = raw(root / "before", agents, each, last[agents])
        work = last[agents] = Work()
        ours, cpu = await team(root / "team", agents, each, work)
        floor = (before + raw(root / "after", agents, each, work)) / 2
        return {
            "team": ours, "raw": floor, "ratio": ours / floor, "cpu": cpu, "appends": len(work.sizes) / (agents * each),
            "syncs": len(work.syncs) / (agents * each), "sqlite": sqlite_queue(root / "sqlite", agents, each),
        }  # fmt: skip


@contextlib.contextmanager
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=os.environ.get(PLACE)) as place:
        yield Path(place)
