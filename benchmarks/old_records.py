"""Writes the logs of a run that is over, with as many old records as asked for, and the seals of this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from benchmarks.project import Project
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
        agent_id = f"old{n}"
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
