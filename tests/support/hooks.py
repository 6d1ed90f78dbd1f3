"""Hooks as a CLI starts them: the real program with an event on stdin, and raw connections that play one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.stage import Stage, until

HOOK = [sys.executable, "-IS", str(Path(__file__).resolve().parents[2] / "orchestrator" / "hook.py")]

UNDER_NOHUP = ["sh", "-c", 'trap "" HUP TERM; exec "$@"', "sh"]
"""Begun as by a CLI that ignores what would end it, which its children inherit."""


class Hook:
    """One hook process; ``event`` is what the CLI puts on its stdin."""

    def __init__(self, env: dict[str, str], event: dict[str, Any] | bytes, cwd: Path) -> None:
        self.process = subprocess.Popen(
            [*UNDER_NOHUP, *HOOK],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd,
        )
        assert self.process.stdin is not None
        data = event if isinstance(event, bytes) else json.dumps(event).encode()
        try:
            self.process.stdin.write(data)
            self.process.stdin.close()
        except BrokenPipeError:
            pass

    @property
    def held(self) -> bool:
        """Whether it still waits."""
        return self.process.poll() is None

    def said(self, bound_s: float = 40.0) -> dict[str, Any]:
        """Its answer, after which it must have ended well and quietly."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.wait(bound_s)
        out, err = self.process.stdout.read(), self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        assert (self.process.returncode, err) == (0, b"")
        answer: dict[str, Any] = json.loads(out)
        return answer

    def rss_kb(self) -> int:
        """What it holds in memory now."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0])

    def kill(self, sign: int = signal.SIGKILL) -> None:
        """End it from outside."""
        if self.process.poll() is None:
            self.process.send_signal(sign)
            self.process.wait(20)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # what it did not read of its event
                    pipe.close()


def stop(**facts: Any) -> dict[str, Any]:
    """A turn-end event as Claude and Codex tell it."""
    return {"hook_event_name": "Stop", "session_id": "s-1", "stop_hook_active": False, **facts}


def fake_cli(stage: Stage, name: str) -> None:
    """A program of that name on the stage's PATH that only lives: its calls and hooks are played by the test."""
    place = stage.base / "bin"
    place.mkdir(exist_ok=True)
    program = place / name
    program.write_text('#!/bin/sh\n[ "$1" = --version ] && { echo 0.0.1; exit; }\nwhile :; do sleep 1000; done\n')
    program.chmod(0o755)
    if not stage.env["PATH"].startswith(f"{place}{os.pathsep}"):
        stage.env["PATH"] = f"{place}{os.pathsep}{stage.env['PATH']}"


class Cli:
    """A played agent's CLI: its launch environment, its calls and its hooks."""

    def __init__(self, stage: Stage, agent_id: str) -> None:
        self.stage, self.agent_id = stage, agent_id
        path = stage.root / ".agents" / "agents" / agent_id / "engine" / "launch.json"
        self.launch = json.loads(until(lambda: path.exists() and path.read_text()))
        self.env: dict[str, str] = self.launch["env"]
        self.wire = stage.begun(self.env, "--agent", "--project", str(stage.root))
        self.hooks: list[Hook] = []

    def hook(self, event: dict[str, Any] | bytes, **changed: str) -> Hook:
        """Run our hook with that event."""
        one = Hook({**self.env, **changed}, event, self.stage.root)
        self.hooks.append(one)
        return one

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """One call of a tool."""
        return self.wire.tool(name, {"agent_id": self.agent_id, **arguments})

    def close(self) -> None:
        """End what hangs."""
        for hook in self.hooks:
            hook.kill()


def last_of(stage: Stage, agent_id: str, *types: str) -> str | None:
    """The type of the agent's last outbox record among ``types``."""
    found = [record["type"] for record in stage.records(agent_id) if record["type"] in types]
    return found[-1] if found else None
