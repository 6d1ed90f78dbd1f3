"""Where a saturated daemon's CPU goes, by share: system calls, and user time by the packages whose code ran.

The daemon samples itself: a timer of its own user time interrupts it, and the handler notes the innermost frame of the
event loop's thread that belongs to a known package. It is put there by a ``sitecustomize`` of the benchmark; signals
begin and end it. The share of system calls is the kernel's own account of the process.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.project import TICKS, Project, agents_of
from benchmarks.relays import SATURATED, Side

EACH = 250
SAMPLER = """\
import signal, sys
if "daemon" in sys.orig_argv:
    import collections, json, os
    seen = collections.Counter()
    def sample(number, frame):
        chain = []
        while frame is not None and len(chain) < 40:
            chain.append(frame.f_code.co_filename)
            frame = frame.f_back
        seen["\\n".join(chain)] += 1
    def begin(number, frame):
        seen.clear()
        signal.signal(signal.SIGVTALRM, sample)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.001, 0.001)
    def end(number, frame):
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        with open(PLACE + ".part", "w") as file:
            json.dump(seen, file)
        os.rename(PLACE + ".part", PLACE)
    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)
"""
GROUPS = {
    "sdk": ("/site-packages/mcp/", "/site-packages/mcp_types/", "/site-packages/opentelemetry/"),
    "loop": ("/site-packages/anyio/", "/asyncio/"),
    "pydantic": ("/site-packages/pydantic",),
    "protocol": ("/orchestrator/protocol/", "/orchestrator/daemon/"),
    "team": ("/orchestrator/team/", "/orchestrator/core/"),
    "journal": ("/orchestrator/journal/", "/orchestrator/trust/seals"),
    "other": ("/orchestrator/",),
}
"""By name: what the path of a frame's file holds. The first that fits counts; files of the last are ours too."""
WORDS = {
    "sdk": "the MCP SDK", "loop": "anyio and asyncio", "pydantic": "pydantic", "protocol": "our protocol and daemon",
    "team": "our team and core", "journal": "our journal, seals", "other": "the rest of ours",
    "threads": "other threads (the loop's waits)", "unknown": "anything else",
}  # fmt: skip
FIGURES = (
    Figure("cpu", f"CPU of the daemon, a cycle, {SATURATED} agents saturated (sampled)", "ms"),
    Figure("kernel", "  system calls", "%"),
    *(Figure(name, f"  {word}", "%") for name, word in WORDS.items()),
    Figure("samples", "  samples of its user time"),
)


async def rounds() -> AsyncIterator[dict[str, float]]:
    async with Project() as project:
        answer = project.directory / "samples"
        project.site(f"PLACE = {str(answer)!r}\n{SAMPLER}")
        master, ids, wires = await agents_of(project, SATURATED)
        daemon = project.daemon_pid()
        side = Side(master, list(zip(ids, wires, strict=True)), daemon)
        await side.saturated(SATURATED, 20)
        while True:
            before = user_and_system(daemon)
            os.kill(daemon, signal.SIGUSR1)
            await side.saturated(SATURATED, EACH)
            os.kill(daemon, signal.SIGUSR2)
            user, system = (end - begin for begin, end in zip(before, user_and_system(daemon), strict=True))
            while not answer.exists():
                await asyncio.sleep(0.01)
            found = shares(json.loads(answer.read_text()))
            answer.unlink()
            share = user / (user + system)
            yield {
                "cpu": (user + system) / (SATURATED * EACH) * 1000, "kernel": 100 * (1 - share),
                "samples": found.pop("samples"), **{name: value * share for name, value in found.items()},
            }  # fmt: skip


def user_and_system(pid: int) -> tuple[float, float]:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / TICKS, int(fields[12]) / TICKS


def shares(chains: dict[str, int]) -> dict[str, float]:
    """Percent of the samples by group; ``samples``: how many there are."""
    found: Counter[str] = Counter()
    for chain, count in chains.items():
        found[group_of(chain.split("\n"))] += count
    total = sum(found.values())
    return {"samples": total, **{name: 100 * found[name] / max(total, 1) for name in WORDS}}


def group_of(files: list[str]) -> str:
    """The group of the innermost file that belongs to one; a standard module works for the code that called it."""
    if files[0].endswith("/selectors.py"):
        return "threads"  # the loop waits: the time is that of another thread
    for path in files:
        file = path[max(0, path.rfind("/site-packages/")) :]  # a checkout may have any name
        for name, parts in GROUPS.items():
            if any(part in file for part in parts):
                return name
    return "unknown"
