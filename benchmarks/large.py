"""A project with 1,000,000 records in 100 logs: how fast the daemon is back, and how fast the end is read.

And one daemon that finishes very many tasks: what it holds before and after.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks.relays import Project, Wire, agents_of, percentile, rss, ticks
from orchestrator.journal.log_lines import encode
from orchestrator.journal.project_files import Paths
from orchestrator.team.recovery.team_adoption import seal_files
from orchestrator.trust import state_dir

AT = "2026-01-01T00:00:00.000Z"
RUN = {
    "v": 1, "run_id": "run-1", "created_at": AT, "tmux_socket": "/none", "tmux_name": None, "server_pid": 1,
    "server_start": 1, "window_id": "@1", "master_pane": "%0", "session": "s", "detached": False, "changed": None,
    "agents": {}, "ended_at": AT,
}  # fmt: skip


def fill(root: Path, agents: int, tasks: int) -> int:
    """Write the logs of a run that is over: ``agents`` deleted agents with ``tasks`` finished tasks each.

    Returns how many records the agents' logs hold; the run's digest comes on top.
    """
    total = 0
    told: list[dict[str, Any]] = []
    for n in range(agents):
        agent_id = f"a{n}"
        directory = root / ".agents/agents" / agent_id
        (directory / "artifacts").mkdir(parents=True)
        (directory / "engine").mkdir()
        inbox, outbox = [], []
        spec = {
            "at": AT, "type": "starting", "epoch": 1, "name": agent_id, "role": "r", "engine": "shell", "cwd": str(root),
            "policies": {}, "env_names": [], "run_id": "run-1", "by": "orchestrator", "req": f"c:{n}",
        }  # fmt: skip
        outbox.append(spec)
        outbox.append({"at": AT, "type": "ready", "epoch": 1, "by": "agent"})
        for t in range(tasks):
            task = {"task_id": f"t{t}"}
            inbox.append(
                {
                    "at": AT,
                    "type": "task",
                    "epoch": 1,
                    **task,
                    "payload": {"command": "true"},
                    "position": 1,
                    "req": f"c:{t}",
                }
            )
            outbox.append({"at": AT, "type": "delivered", "epoch": 1, **task, "attempt": 1, "by": "orchestrator"})
            outbox.append({"at": AT, "type": "ack", "epoch": 1, **task, "by": "agent", "req": f"w:{t}a"})
            outbox.append(
                {"at": AT, "type": "result", "epoch": 1, **task, "payload": {"exit_code": 0, "duration_s": 0.1},
                 "attempt": 1, "by": "agent", "req": f"w:{t}r"}
            )  # fmt: skip
        inbox.append({"at": AT, "type": "stop", "epoch": 1, "req": "c:s"})
        outbox += [
            {"at": AT, "type": kind, "epoch": 1, **fields, "by": "orchestrator"}
            for kind, fields in (("stopped", {"how": "bench"}), ("deleted", {}))
        ]
        for name, records in (("inbox", inbox), ("outbox", outbox)):
            write(directory / f"{name}.jsonl", records)
            total += len(records)
        told += [
            {"at": AT, "type": record["type"], "agent_id": agent_id, "ref": seq, "epoch": 1, "by": record["by"]}
            for seq, record in enumerate(outbox, 1)
            if record["type"] not in ("delivered", "ack")
        ]
    run = root / ".agents/run/run-1"
    run.mkdir(parents=True)
    (run / "run.json").write_text(json.dumps(RUN))
    write(run / "broadcast.jsonl", told)
    return total


def adopt(project: Project) -> None:
    """Give what was written the seals of the project's machine: without them a daemon leaves it alone."""
    os.environ[state_dir.VARIABLE] = project.env[state_dir.VARIABLE]
    seal_files(Paths(project.root))


def write(path: Path, records: list[dict[str, Any]]) -> None:
    with path.open("wb") as file:
        file.writelines(encode(record, seq)[1] for seq, record in enumerate(records, 1))


async def greeted(project: Project) -> Wire:
    """A master's relay. Without a cache the first start may take longer than a relay holds its client."""
    while True:
        master = await Wire.start(project.root, project.env)
        try:
            await master.greet()
        except RuntimeError:
            await master.close()
        else:
            return master


class Back:
    """A project whose daemon is ended and comes back for the next call."""

    def __init__(self, project: Project, master: Wire) -> None:
        self.project, self.master = project, master

    @classmethod
    async def start(cls, project: Project) -> Back:
        return cls(project, await greeted(project))

    async def ask(self) -> None:
        """A call; an empty project answers it with an error, which is an answer."""
        await self.master.ask("tools/call", {"name": "agent_get", "arguments": {"agent_id": "a0"}})

    async def took(self, sign: int) -> tuple[float, float]:
        """Seconds from the signal to the next call that another daemon has answered, and of the CPU."""
        pid = self.project.daemon_pid()
        began = time.perf_counter()
        os.kill(pid, sign)
        if sign != signal.SIGKILL:
            while Path(f"/proc/{pid}").exists():
                await asyncio.sleep(0.005)  # else the one that ends might still answer
        await self.ask()
        took = time.perf_counter() - began
        return took, ticks([self.project.daemon_pid()]) / os.sysconf("SC_CLK_TCK")


async def measure(records: int = 1_000_000, logs: int = 100, rounds: int = 5) -> dict[str, float]:
    """Seconds from the end of a daemon to the next answered call, over an empty project and a full one in turn.

    ``{records, cold, cold_floor, kill_p50, kill_floor, clean_p50, clean_floor, ...}``: *cold* is without a cache,
    *floor* the same over the empty project.
    """
    agents = logs // 2
    full, empty = Project(), Project()
    try:
        total = fill(full.root, agents, records // agents // 4)
        adopt(full)
        out: dict[str, float] = {"records": total}
        began = time.perf_counter()
        floor = await Back.start(empty)
        await floor.ask()
        out["cold_floor"] = time.perf_counter() - began
        began = time.perf_counter()
        back = await Back.start(full)
        await back.ask()
        out["cold"] = time.perf_counter() - began
        await back.took(signal.SIGTERM)  # the clean end has made the cache
        out["cache_mb"] = (full.root / ".agents/cache.sqlite").stat().st_size / 1e6
        for name, sign in (("kill", signal.SIGKILL), ("clean", signal.SIGTERM)):
            took = [(await floor.took(sign), await back.took(sign)) for _ in range(rounds)]
            out[f"{name}_floor"] = statistics.median(empty_s for (empty_s, _), _ in took)
            out[f"{name}_p50"] = statistics.median(full_s for _, (full_s, _) in took)
            out[f"{name}_max"] = max(full_s for _, (full_s, _) in took)
            out[f"{name}_cpu"] = statistics.median(busy - idle for (_, idle), (_, busy) in took)
        out["rss_mb"] = rss(full.daemon_pid()) / 1024
        out["rss_floor_mb"] = rss(empty.daemon_pid()) / 1024
        await back.master.close()
        await floor.master.close()
        return out
    finally:
        full.close()
        empty.close()


async def growth(tasks: int = 200_000, agents: int = 8, ahead: int = 20) -> dict[str, float]:
    """One daemon that finishes ``tasks`` tasks: its memory (MB, peak) and descriptors after the first 5 % and at the end."""
    project = Project(durability='"os"', log_level='"warning"')
    try:
        master, ids, wires = await agents_of(project, agents)
        pid = project.daemon_pid()

        async def work(wire: Wire, agent_id: str, first: int, count: int) -> None:
            for at in range(first, first + count, ahead):
                await asyncio.gather(
                    *(
                        master.call("task_enqueue", agent_id=agent_id, task={"task_id": f"t{n}", "payload": n})
                        for n in range(at, at + ahead)
                    )
                )
                for _ in range(ahead):
                    await wire.call("wait_for_command", agent_id=agent_id, timeout_ms=20_000)
                    await wire.call("emit_event", agent_id=agent_id, type="result")

        out: dict[str, float] = {"tasks": 0}
        each = tasks // agents
        for name, first, count in (("before", 0, each // 20), ("after", each // 20, each - each // 20)):
            began = time.perf_counter()
            await asyncio.gather(*(work(w, a, first, count) for w, a in zip(wires, ids, strict=True)))
            out["tasks"] += agents * count
            out["per_s"] = agents * count / (time.perf_counter() - began)
            out[f"{name}_rss_mb"] = rss(pid) / 1024
            out[f"{name}_peak_mb"] = peak(pid) / 1024
            out[f"{name}_fds"] = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        for wire in (*wires, master):
            await wire.close()
        return out
    finally:
        project.close()


def peak(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


async def pages(records: int = 1_000_000, rounds: int = 200) -> dict[str, float]:
    """events_read of the last 50 of one log of ``records`` records; ms through a real relay."""
    project = Project()
    try:
        fill(project.root, 1, records // 3)
        adopt(project)
        master = await greeted(project)
        last = (await master.call("agent_get", agent_id="a0"))["meta"]["last_event_seq"]
        took = []
        for _ in range(rounds):
            began = time.perf_counter()
            page = await master.call("events_read", agent_id="a0", since_seq=last - 50)
            took.append((time.perf_counter() - began) * 1000)
            assert page["last_seq"] == last, page
        await master.close()
        return {
            "page_p50_ms": statistics.median(took),
            "page_p95_ms": percentile(took, 0.95),
            "page_log_records": last,
        }
    finally:
        project.close()
