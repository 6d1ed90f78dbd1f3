"""What squads cost: a member beyond its command, many at once, the daemon's memory while a member writes much."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.project import Project, status_mb
from benchmarks.wire import Wire

TRUE = "true"
SINGLE, TOGETHER, MB = 10, 20, 100
FIGURES = (
    Figure("member_ms", f"squad member of true, p50 of {SINGLE}", "ms"),
    Figure("direct_ms", "  limit: the same process by hand", "ms"),
    Figure("beyond_ms", "  beyond it", "ms"),
    Figure("together_s", f"{TOGETHER} members of true at once", "s"),
    Figure("together_direct_s", f"  limit: {TOGETHER} processes by hand", "s"),
    Figure("rss_grown_mb", f"daemon's memory grows by, after {MB} MB of output", "MB", at_most=20),
    Figure("peak_grown_mb", "  its peak", "MB", at_most=20),
)


async def rounds() -> AsyncIterator[dict[str, float]]:
    async with Project() as project:
        # What members run is a setting of the connection.
        project.env |= {"RUN_TEMPLATE": f'{TRUE} "<%= prompt %>"', "MAX_PARALLEL_MEMBERS": str(TOGETHER)}
        small = await project.relay()
        project.env["RUN_TEMPLATE"] = f"head -c {MB << 20} /dev/zero"
        large = await project.relay()
        await squad(small, 1)
        while True:
            yield await one_round(project, small, large)


async def one_round(project: Project, small: Wire, large: Wire) -> dict[str, float]:
    out: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=project.directory) as place:
        members, direct = [], []
        for _ in range(SINGLE):
            began = time.perf_counter()
            await squad(small, 1)
            members.append((time.perf_counter() - began) * 1000)
            began = time.perf_counter()
            await asyncio.to_thread(by_hand, Path(place), 1)
            direct.append((time.perf_counter() - began) * 1000)
        out["member_ms"], out["direct_ms"] = statistics.median(members), statistics.median(direct)
        out["beyond_ms"] = out["member_ms"] - out["direct_ms"]
        began = time.perf_counter()
        await squad(small, TOGETHER)
        out["together_s"] = time.perf_counter() - began
        began = time.perf_counter()
        await asyncio.to_thread(by_hand, Path(place), TOGETHER)
        out["together_direct_s"] = time.perf_counter() - began
    daemon = project.daemon_pid()
    rss, peak = status_mb(daemon, "VmRSS"), status_mb(daemon, "VmHWM")
    await squad(large, 1)
    out["rss_grown_mb"] = status_mb(daemon, "VmRSS") - rss
    out["peak_grown_mb"] = status_mb(daemon, "VmHWM") - peak
    return out


async def squad(wire: Wire, count: int) -> None:
    asked = [{"roleId": "reviewer", "task": "Nothing."}] * count
    rows = (await wire.call("start_squad_members", members=asked))["members"]
    if [row["status"] for row in rows] != ["completed"] * count:
        raise RuntimeError(f"members did not complete: {rows}")


def by_hand(place: Path, count: int) -> None:
    """What the runner asks of the system for so many members, and nothing else."""
    running = []
    for at in range(count):
        with (place / f"{at}.out").open("wb") as stdout, (place / f"{at}.err").open("wb") as stderr:
            running.append(
                subprocess.Popen(
                    [TRUE, "Nothing."], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
                )
            )
    for process in running:
        process.wait()
