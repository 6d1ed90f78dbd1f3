"""What a day of work leaves in a daemon: a roster over real files and a clock that is moved by hand.

Each agent gets a task a minute and reports; waits, heartbeats, silence and time limits pass. A round is three hours.
"""

from __future__ import annotations

import gc
import os
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from benchmarks.project import PLACE, descriptors, status_mb
from orchestrator.team.life.deadlines import Deadlines
from orchestrator.team.roster import delivery
from tests.support.team import Team

AGENTS = 10
FULL = 9
"""By the end of this hour every agent has its 2,000 remembered calls: from there on nothing grows."""
HOURS = 3
FIGURES = (
    Figure("rss_mb", f"memory in the hours from {FULL} to 24 of a team of {AGENTS}", "MB"),
    Figure("grown", f"  to that after hour {FULL}", at_most=1.05),
    Figure("fds", "  descriptors"),
    Figure("cpu_us", "  CPU per task", "us"),
    Figure("cpu_grown", f"  to that of hour {FULL}", at_most=1.25),
)


class Panes:
    """What Windows is to the looks at silent agents: nothing ever moves."""

    async def look(self, _run: Any, _entries: Any) -> dict[str, Any]:
        return {}


async def rounds() -> AsyncIterator[dict[str, float]]:
    with tempfile.TemporaryDirectory(dir=os.environ.get(PLACE)) as place:
        team = Team(Path(place), segment_bytes=1 << 20)
        team.roster.begin_writing()
        ids = [(await team.agent(f"a{n}")).agent_id for n in range(AGENTS)]
        overdue = Deadlines(team.roster, Panes(), lambda _entry: None)  # type: ignore[arg-type]
        team.roster.listeners.append(overdue.seen)
        try:
            for number in range(FULL):
                full_us = await hour(team, ids, number)
            gc.collect()
            full_mb, number = status_mb(os.getpid(), "VmRSS"), FULL
            while True:
                each = []
                for _ in range(HOURS):
                    each.append(await hour(team, ids, number))
                    number += 1
                gc.collect()
                cpu, rss = sum(each) / HOURS, status_mb(os.getpid(), "VmRSS")
                yield {
                    "rss_mb": rss, "grown": rss / full_mb, "fds": descriptors(os.getpid()), "cpu_us": cpu,
                    "cpu_grown": cpu / full_us,
                }  # fmt: skip
        finally:
            await overdue.close()
            team.close()


async def hour(team: Team, ids: list[str], number: int) -> float:
    """Microseconds of CPU per task."""
    cpu = time.process_time()
    for minute in range(60):
        for agent_id in ids:
            await one_task(team.roster, agent_id, f"{number}.{minute}")
        await team.clock.advance(60.0)
    return (time.process_time() - cpu) / (60 * len(ids)) * 1e6


async def one_task(roster: Any, agent_id: str, name: str) -> None:
    await delivery.enqueue(
        roster, agent_id, task_id=f"t-{name}", payload={"command": "true"}, req=f"c:{name}", timeout_s=3600.0
    )
    got = await delivery.wait_for_command(roster, agent_id, 1, timeout_s=0.0, age_s=0.0, req=f"w:{name}")
    assert got["command"]["task_id"] == f"t-{name}", got
    for kind in ("ack", "progress", "result"):
        await delivery.emit_event(
            roster, agent_id, 1, kind=kind, task_id=None, payload={"n": 1}, done=None, req=f"{kind}:{name}"
        )
