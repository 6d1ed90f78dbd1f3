"""A project with 1,000,000 records in 100 logs: how fast the daemon is back, and how fast the end is read."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

from benchmarks.relays import Project, Wire, percentile
from orchestrator.store.lines import encode

AT = "2026-01-01T00:00:00.000Z"


def fill(root: Path, agents: int, tasks: int) -> int:
    """Write the logs of ``agents`` deleted-free, idle agents with ``tasks`` finished tasks each; the records written."""
    total = 0
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
        end = [
            ("exited", {"reason": "bench", "code": 1, "signal": None, "last_lines": []}),
            ("failed", {"reason": "bench", "code": "exited"}),
        ]
        outbox += [{"at": AT, "type": kind, "epoch": 1, **fields, "by": "orchestrator"} for kind, fields in end]
        for name, records in (("inbox", inbox), ("outbox", outbox)):
            with (directory / f"{name}.jsonl").open("wb") as file:
                file.writelines(encode(record, seq)[1] for seq, record in enumerate(records, 1))
            total += len(records)
    return total


async def measure(records: int = 1_000_000, logs: int = 100, rounds: int = 3) -> dict[str, float]:
    """{records, restart_p50, restart_max (kill -9 to answered agent_get), page_p50_ms, page_p95_ms}."""
    agents = logs // 2
    project = Project()
    try:
        total = fill(project.root, agents, records // agents // 4)
        master = await Wire.start(project.root, project.env)
        await master.greet()
        await master.call("agent_list", scope="all")
        restarts = []
        for _ in range(rounds):
            pid = project.daemon_pid()
            began = time.perf_counter()
            os.kill(pid, 9)
            await master.call("agent_get", agent_id="a0")
            restarts.append(time.perf_counter() - began)
        await master.close()
        return {
            "records": total,
            "restart_p50": statistics.median(restarts),
            "restart_max": max(restarts),
            **await pages(),
        }
    finally:
        project.close()


async def pages(records: int = 1_000_000, rounds: int = 200) -> dict[str, float]:
    """events_read of the last 50 of one log of ``records`` records; ms through a real relay."""
    project = Project()
    try:
        fill(project.root, 1, records // 3)
        master = await Wire.start(project.root, project.env)
        await master.greet()
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
