"""The raw chain under a task of the fleet: commit of a post, notification, listener, append with fdatasync.

A process of its own, so that it runs in the same seconds as what it is compared with and shares no interpreter with it:
`Chain.start`, then `Chain.stop` for the ms of each time. In a database of its own on the same server; a notification
is delivered within one database, but all commits of a server share its log.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import psycopg

from benchmarks.run import measured_tree, program

PERIOD_S = 0.05
LINE = b"x" * 299 + b"\n"
BODY = json.dumps({"payload": {"command": "true", "note": "x" * 160}})
TABLE = """
create table if not exists post (
    project text collate "C", agent text collate "C", seq bigint, kind text, task_id text collate "C",
    req text collate "C", by_host text collate "C", at timestamptz, position int, body text,
    primary key (project, agent, seq), unique (project, agent, req), unique (project, agent, task_id)
)
"""
"""As the fleet's own table: the same columns and as many indexes."""
INSERT = "insert into post values ('p', 'a', %s, 'task', %s, %s, 'h', clock_timestamp(), 1, %s)"


class Chain:
    """The process of the chain. One time begins `PERIOD_S` after the end of the last one."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, dsn: str, directory: Path) -> Chain:
        """Start it; ``directory`` is on the disk of the hosts' logs."""
        process = await asyncio.create_subprocess_exec(
            *program(measured_tree(), "fleet_chain", dsn, str(directory / "chain")),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 24,
        )  # fmt: skip
        assert process.stdout is not None
        await process.stdout.readline()  # it is connected
        return cls(process)

    async def stop(self) -> list[float]:
        """End it; the ms of each time."""
        out, _ = await self._process.communicate(b"")
        times: list[float] = json.loads(out)
        return times


def main() -> None:
    dsn, place = sys.argv[1:]
    off = "-c synchronous_commit=off"
    with (
        psycopg.connect(dsn, autocommit=True) as writer,
        psycopg.connect(dsn, autocommit=True, options=off) as notifier,
        psycopg.connect(dsn, autocommit=True) as listener,
    ):
        writer.execute(TABLE)
        (number,) = writer.execute("select coalesce(max(seq), 0) from post").fetchone() or (0,)
        listener.execute("listen chain")
        fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        print("ready", flush=True)
        times: list[float] = []
        os.set_blocking(0, False)
        while os_open():
            number += 1
            began = time.perf_counter()
            writer.execute(INSERT, [number, f"t{number}", f"r{number}", BODY], prepare=True)
            notifier.execute("select pg_notify('chain', '')", prepare=True)
            heard = list(listener.notifies(timeout=10, stop_after=1))
            os.write(fd, LINE)
            os.fdatasync(fd)
            times.append((time.perf_counter() - began) * 1000)
            if not heard:
                raise RuntimeError("the notification of the chain did not arrive")
        print(json.dumps(times))


def os_open() -> bool:
    """Wait one period; whether stdin is still open then, whose end ends the chain."""
    time.sleep(PERIOD_S)
    try:
        return os.read(0, 1) != b""
    except BlockingIOError:
        return True


if __name__ == "__main__":
    main()
