"""What squads cost: a member beyond its command, many at once, the daemon's memory while a member writes much."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.relays import Project, rss
from benchmarks.wire import Wire

TRUE = "true"
MB = 100


def peak(pid: int) -> int:
    """The highest resident memory of a process so far, kB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


async def measure(count: int = 20) -> dict[str, float]:
    """Members of ``true`` one by one and at once, beside the same processes started by hand; then one that writes."""
    project = Project()
    project.env |= {"RUN_TEMPLATE": f'{TRUE} "<%= prompt %>"', "MAX_PARALLEL_MEMBERS": str(count)}
    out: dict[str, float] = {}
    try:
        wire = await _client(project)
        await _squad(wire, 1)
        with tempfile.TemporaryDirectory(dir=project.directory) as place:
            members, direct = [], []
            for _ in range(count):
                began = time.perf_counter()
                await _squad(wire, 1)
                members.append((time.perf_counter() - began) * 1000)
                began = time.perf_counter()
                await asyncio.to_thread(_by_hand, Path(place), 1)
                direct.append((time.perf_counter() - began) * 1000)
            out["member_p50_ms"], out["direct_p50_ms"] = statistics.median(members), statistics.median(direct)
            began = time.perf_counter()
            await _squad(wire, count)
            out["together_s"] = time.perf_counter() - began
            began = time.perf_counter()
            await asyncio.to_thread(_by_hand, Path(place), count)
            out["together_direct_s"] = time.perf_counter() - began
        await wire.close()

        project.env["RUN_TEMPLATE"] = f"head -c {MB << 20} /dev/zero"
        wire, daemon = await _client(project), project.daemon_pid()
        out["before_rss_mb"], out["before_peak_mb"] = rss(daemon) / 1024, peak(daemon) / 1024
        # The peak is the kernel's own, so nobody has to look at the right moment.
        await _squad(wire, 1)
        out["after_rss_mb"], out["after_peak_mb"] = rss(daemon) / 1024, peak(daemon) / 1024
        await wire.close()
        return out
    finally:
        project.close()


async def _client(project: Project) -> Wire:
    wire = await Wire.start(project.root, project.env)
    await wire.greet()
    return wire


async def _squad(wire: Wire, count: int) -> None:
    asked = [{"roleId": "reviewer", "task": "Nothing."}] * count
    rows = (await wire.call("start_squad_members", members=asked))["members"]
    assert [row["status"] for row in rows] == ["completed"] * count, rows


def _by_hand(place: Path, count: int) -> None:
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
