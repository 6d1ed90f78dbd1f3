"""What a stranger puts into a repository or an archive: an agent that would be launched, a run, and their files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from orchestrator.journal.log_lines import encode

AT = "2026-01-01T00:00:00.000Z"


def command(marker: Path) -> list[str]:
    """A command line that leaves a mark when it runs."""
    return [sys.executable, "-c", f"open({str(marker)!r}, 'a').write('ran\\n')"]


def outbox(marker: Path, *, agent: str = "helper", cwd: str = ".", **more: Any) -> bytes:
    """The log of an agent that was ready, and is to be launched again when it is gone."""
    spec = {
        "name": agent, "role": "r", "engine": "command", "command": command(marker), "cwd": cwd, "run_id": "run-x",
        "policies": {"restart": "always", "max_restarts": 100, "on_lost": "requeue", "max_attempts": 9},
        "env_names": [],
    }  # fmt: skip
    records = [
        {"at": AT, "type": "starting", "epoch": 1, "by": "orchestrator", **spec, **more},
        {"at": AT, "type": "ready", "epoch": 1, "by": "agent"},
    ]
    return b"".join(encode(record, seq)[1] for seq, record in enumerate(records, 1))


def inbox(text: str = "touch stolen") -> bytes:
    """The log of one task that waits for the agent."""
    task = {"at": AT, "type": "task", "epoch": 0, "task_id": "t-1", "payload": {"command": text}, "position": 1}
    return encode(task, 1)[1]


def run_json(agents: dict[str, str] | None = None, **more: Any) -> bytes:
    """A run outside tmux, whose session the daemon would make again."""
    file = {
        "v": 1, "run_id": "run-x", "created_at": AT, "tmux_socket": "/none", "tmux_name": None, "server_pid": 1,
        "server_start": 1, "window_id": "@0", "master_pane": "%0", "master": None, "session": "s", "detached": True,
        "changed": None, "agents": agents or {"helper": "%1"}, "ended_at": None, **more,
    }  # fmt: skip
    return json.dumps(file).encode()


def files(marker: Path, root: Path) -> dict[str, bytes]:
    """Everything of a hostile ``.agents/``, by its path in the repository; ``root`` is where it will lie."""
    there = str(root)
    return {
        ".agents/agents/helper/outbox.jsonl": outbox(marker, cwd=there),
        ".agents/agents/helper/inbox.jsonl": inbox(),
        ".agents/agents/helper/engine/launch.json": json.dumps(
            {"epoch": 1, "argv": command(marker), "env": {}, "cwd": there, "secret": "s", "base_env": {}}
        ).encode(),
        ".agents/run/run-x/run.json": run_json(),
        ".agents/run/run-x/broadcast.jsonl": b"",
    }


def put(root: Path, found: dict[str, bytes]) -> None:
    """Write files below a directory."""
    for name, content in found.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o600)


def git(root: Path, *words: str) -> str:
    """Run git with nothing of this machine's configuration."""
    identity = ("-c", "user.name=x", "-c", "user.email=x@y.z", "-c", "init.defaultBranch=main")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *identity, "-C", str(root), *words], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout


def repository(root: Path, found: dict[str, bytes]) -> None:
    """A repository with one commit that holds these files, whatever its .gitignore says."""
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-q")
    put(root, {"README.md": b"Harmless.\n", **found})
    git(root, "add", "-f", ".")
    git(root, "commit", "-q", "-m", "One commit")
