"""A process that appends to a log as fast as it can and tells, after each sync, what is acknowledged.

usage: journal_writer.py LOG ACKS LIFE SEGMENT_BYTES
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from orchestrator.journal.log import Journal
from orchestrator.journal.syncer import Syncer

TYPES = frozenset({"task", "ack", "result"})


async def main(log_path: Path, acks_path: Path, life: int, segment_bytes: int) -> None:
    syncer = Syncer(lambda error: os._exit(9))
    log = Journal.open(log_path, syncer=syncer, types=TYPES, segment_bytes=segment_bytes)
    acks = os.open(acks_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    at = "2026-01-01T00:00:00.000Z"

    async def one(writer: int) -> None:
        n = 0
        while True:
            n += 1
            log.append([{"at": at, "type": "ack", "n": n, "text": "x" * 300}], sync=False)
            size = 20 if n % 7 else 20_000
            records = [{"at": at, "type": "task", "life": life, "writer": writer, "n": n, "text": "y" * size}]
            (stamped,) = log.append(records, sync=True)
            await log.synced(stamped["seq"])
            os.write(acks, f"{stamped['seq']} {life} {writer} {n}\n".encode())

    await asyncio.gather(*(one(writer) for writer in range(4)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
