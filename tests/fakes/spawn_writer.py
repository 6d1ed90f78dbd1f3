"""A process that drives spawn runs of a home as fast as it can and tells, after each commit, what was answered.

usage: spawn_writer.py HOME NAME ACKS RUNS
"""

from __future__ import annotations

import asyncio
import os
import sys
from decimal import Decimal
from pathlib import Path

from orchestrator.spawn import owned_runs
from orchestrator.spawn import transitions as steps
from orchestrator.spawn.database import Database
from orchestrator.spawn.run_data import RunOutcome, RunSettings
from orchestrator.spawn.run_seals import HomeIdentity, Seals
from tests.support.spawns import AT, DIAMOND, claim, file, row, settle

ROOM = RunSettings(max_parallel_runs=100)


async def main(home: Path, name: str, acks: int, runs: int) -> None:
    db = Database(home)
    identity = HomeIdentity(home)

    def create(con, asked):
        return owned_runs.create(con, Seals(identity.establish()), asked, AT)

    def lay(con, run_id):
        return owned_runs.store_plan(con, run_id, 1, Seals(identity.recognize()), DIAMOND, file("plan", "plan"), AT)

    async def one(number: int) -> None:
        run_id = f"{name}-{number}"

        def tell(what: object) -> None:
            os.write(acks, f"{run_id} {what}\n".encode())

        made = await db.write(create, row(run_id, settings=ROOM, req=run_id))
        tell(f"number {made.number}")
        assert await db.write(steps.begin, run_id, 1, AT)
        assert await db.write(lay, run_id)
        for node in DIAMOND.nodes:
            for attempt in (1, 2):
                await db.write(claim, node.id, attempt, run_id=run_id)
                more = {} if attempt == 2 else {"node_status": "retry_pending", "retry_at": AT}
                assert await db.write(settle, node.id, attempt, run_id=run_id, cost=Decimal("0.01"), **more)
                tell(f"settled {node.id} {attempt}")
        assert await db.write(steps.finish, run_id, 1, RunOutcome("completed", ""), AT)
        tell("finished -")

    for start in range(0, runs, 5):
        await asyncio.gather(*(one(number) for number in range(start, min(start + 5, runs))))
    db.close()


if __name__ == "__main__":
    out = os.open(sys.argv[3], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], out, int(sys.argv[4])))
