"""The store alone: durable cycles per second beside raw write+fdatasync loops, and how fast a log is folded.

A cycle of ours is what a task needs of the journal: a synced append to one log, two unsynced ones and a synced one
to another, waiting for both syncs. The raw cycle is three write+fdatasync to one file per thread. They run by turns
in one run (raw, ours, raw); the ratio is taken round by round.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from orchestrator.journal.log import Journal
from orchestrator.journal.log_reader import read_all
from orchestrator.journal.syncer import Syncer

TYPES = frozenset({"task", "delivered", "ack", "result"})
AT = "2026-01-01T00:00:00.000Z"
PAYLOAD = {"command": "true", "note": "x" * 100}


def raw(root: Path, threads: int, cycles: int) -> float:
    """Cycles per second of three write+fdatasync each, by threads of one process."""
    line = b"x" * 255 + b"\n"

    def work(path: Path) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for _ in range(3 * cycles):
            os.write(fd, line)
            os.fdatasync(fd)
        os.close(fd)
        path.unlink()

    running = [threading.Thread(target=work, args=(root / f"raw{n}",)) for n in range(threads)]
    began = time.perf_counter()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return threads * cycles / (time.perf_counter() - began)


async def ours(root: Path, agents: int, cycles: int) -> float:
    """Cycles per second of the journal, by tasks of one event loop."""
    syncer = Syncer(lambda error: sys.exit(str(error)))

    async def work(name: str) -> None:
        inbox = Journal.open(root / f"{name}-inbox", syncer=syncer, types=TYPES)
        outbox = Journal.open(root / f"{name}-outbox", syncer=syncer, types=TYPES)
        for n in range(cycles):
            task = f"t-{n}"
            inbox.append([{"at": AT, "type": "task", "epoch": 1, "task_id": task, "payload": PAYLOAD}], sync=True)
            await inbox.synced(inbox.last_seq)
            for kind in ("delivered", "ack"):
                outbox.append([{"at": AT, "type": kind, "epoch": 1, "task_id": task}], sync=False)
            outbox.append([{"at": AT, "type": "result", "epoch": 1, "task_id": task, "payload": PAYLOAD}], sync=True)
            await outbox.synced(outbox.last_seq)
        for log in (inbox, outbox):
            log.close()
            log.path.unlink()

    began = time.perf_counter()
    await asyncio.gather(*(work(f"a{n}") for n in range(agents)))
    took = time.perf_counter() - began
    syncer.close()
    return agents * cycles / took


def fold(root: Path, records: int) -> float:
    """Records per second of verifying and decoding a log."""
    log = Journal.open(root / "log", syncer=Syncer(sys.exit, threads=0), types=TYPES, durability="os")
    for start in range(0, records, 1000):
        count = min(1000, records - start)
        log.append(
            [{"at": AT, "type": "task", "task_id": f"t-{start + n}", "payload": PAYLOAD} for n in range(count)],
            sync=False,
        )
    log.close()
    began = time.perf_counter()
    for _ in read_all(root / "log", TYPES):
        pass
    return records / (time.perf_counter() - began)


def main(rounds: int = 7, cycles: int = 400, records: int = 200_000) -> list[dict[str, float]]:
    """Print and return the medians: {agents, ours, raw, ratio, ratio_min, ratio_max} for 1 and 8, then {fold}."""
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as directory:
        root = Path(directory)
        for agents in (1, 8):
            each = cycles // agents
            rates, floors = [], []
            for _ in range(rounds):
                before = raw(root, agents, each)
                rates.append(asyncio.run(ours(root, agents, each)))
                floors.append((before + raw(root, agents, each)) / 2)
            ratios = [rate / floor for rate, floor in zip(rates, floors, strict=True)]
            row = {
                "agents": agents,
                "ours": statistics.median(rates),
                "raw": statistics.median(floors),
                "ratio": statistics.median(ratios),
                "ratio_min": min(ratios),
                "ratio_max": max(ratios),
            }
            rows.append(row)
            print(
                f"journal cycles, {agents} agent(s): ours {row['ours']:7.0f}/s   raw 3x {row['raw']:7.0f}/s"
                f"   ratio {row['ratio']:.2f} ({row['ratio_min']:.2f}..{row['ratio_max']:.2f})"
            )
        rows.append({"fold": statistics.median(fold_once(directory, records) for _ in range(3))})
        print(f"fold (verify and decode): {rows[-1]['fold']:.0f} records/s")
    return rows


def fold_once(directory: str, records: int) -> float:
    """One round of `fold` in a directory of its own."""
    with tempfile.TemporaryDirectory(dir=directory) as fresh:
        return fold(Path(fresh), records)


if __name__ == "__main__":
    main()
