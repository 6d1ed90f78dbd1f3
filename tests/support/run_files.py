"""The files of a team run, written record by record with times of one's own: also what no daemon would write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from orchestrator.base.clock import rfc3339
from orchestrator.journal.log_lines import encode
from orchestrator.journal.project_files import Paths

BEGIN = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    """So many seconds after the begin of the run."""
    return rfc3339(BEGIN + timedelta(seconds=seconds))


class RunFiles:
    """One run below ``root``; `save` writes all its files."""

    def __init__(self, root: Path, run_id: str = "run-1") -> None:
        self.paths, self.run_id = Paths(root), run_id
        self.logs: dict[Path, list[dict[str, Any]]] = {}
        self.file: dict[str, Any] = {
            "v": 1, "run_id": run_id, "created_at": at(0), "tmux_socket": "/none", "tmux_name": None, "server_pid": 1,
            "server_start": 1, "window_id": "@1", "master_pane": "%0", "session": "s", "detached": False,
            "changed": None, "agents": {}, "ended_at": None,
        }  # fmt: skip

    def add(self, path: Path, kind: str, seconds: float, /, **fields: Any) -> dict[str, Any]:
        """One record more in the log."""
        record = {"at": at(seconds), "type": kind, "epoch": 1, **fields}
        self.logs.setdefault(path, []).append(record)
        return record

    def agent(self, agent_id: str, seconds: float = 0, **spec: Any) -> AgentFiles:
        """An agent that was created and is ready."""
        agent = AgentFiles(self, agent_id)
        whole = {
            "name": agent_id, "role": "builder", "engine": "shell", "run_id": self.run_id, "cwd": "/shop", "policies": {},
            "env_names": [],
        }  # fmt: skip
        agent.out("starting", seconds, **{**whole, **spec})
        agent.out("ready", seconds + 1)
        return agent

    def save(self) -> None:
        self.paths.run_dir(self.run_id).mkdir(parents=True, exist_ok=True)
        self.paths.run_json(self.run_id).write_bytes(orjson.dumps(self.file))
        for path, records in self.logs.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"".join(encode(record, seq)[1] for seq, record in enumerate(records, 1)))

    def broadcast(self, agent: AgentFiles, ref: int) -> None:
        """Repeat a record of the agent's outbox in the run's broadcast."""
        record = dict(self.logs[agent.outbox][ref - 1])
        kept = {key: record[key] for key in ("task_id", "title", "payload", "reason", "kind", "by") if key in record}
        path = self.paths.broadcast(self.run_id)
        head = {"at": record["at"], "type": record["type"], "agent_id": agent.agent_id, "ref": ref, "epoch": 1}
        self.logs.setdefault(path, []).append({**head, **kept})


class AgentFiles:
    """The two logs of one agent."""

    def __init__(self, run: RunFiles, agent_id: str) -> None:
        self.run, self.agent_id = run, agent_id
        self.inbox, self.outbox = run.paths.inbox(agent_id), run.paths.outbox(agent_id)

    def out(self, kind: str, seconds: float, /, *, by: str = "orchestrator", **fields: Any) -> dict[str, Any]:
        return self.run.add(self.outbox, kind, seconds, by=by, **fields)

    def task(self, task_id: str, seconds: float, payload: Any = None, title: str = "") -> None:
        """Asked for, and delivered a second later."""
        named = {"title": title} if title else {}
        self.run.add(self.inbox, "task", seconds, task_id=task_id, payload=payload, position=1, **named)
        self.out("delivered", seconds + 1, task_id=task_id, attempt=1, **named)

    def end(self, task_id: str, seconds: float, kind: str = "result", payload: Any = None, **fields: Any) -> None:
        self.out(kind, seconds, by="agent", task_id=task_id, **{"attempt": 1, "payload": payload, **fields})
