"""Squads over real relays: a connection with its variables, tasks for the fake CLI, and what that CLI was called with."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

from tests.support.stage import Stage, Wire, alive, lines_of, processes_with, until

FAKE = Path(__file__).parents[1] / "fakes" / "member.py"
COMMAND = shlex.join([sys.executable, "-IS", str(FAKE)])
RUN = '<% if (chatId) { %>--chat <%= chatId %><% } %> "<%= prompt %>"'
CREATE = "create-chat"
TOOL = "start_squad_members"


class Scene:
    """A test's own part of a stage that is shared: its own directory for logs and gates, the squads made since."""

    def __init__(self, stage: Stage, base: Path) -> None:
        self.stage = stage
        self.base = base
        self.root, self.env, self.begun, self.run_base = stage.root, stage.env, stage.begun, stage.run_base
        self.before = set(squads_of(stage))

    def made(self) -> list[str]:
        """The squads made in this test."""
        return sorted(set(squads_of(self)) - self.before)


def do(**what: Any) -> str:
    """A task for the fake CLI."""
    return f"Please:\nDO {json.dumps(what)}"


def log_of(stage: Any) -> Path:
    """Where the fake CLI notes its calls."""
    return stage.base / "members.jsonl"


def calls(stage: Any, step: str = "run") -> list[dict[str, Any]]:
    """The calls of the fake CLI so far."""
    return [one for one in lines_of(log_of(stage)) if one["step"] == step]


def variables(stage: Any, **env: str) -> dict[str, str]:
    """The environment of a connection whose squads run the fake CLI; an empty value takes a variable out."""
    found = {
        **stage.env,
        "MEMBER_LOG": str(log_of(stage)),
        "ENGINE_COMMAND": COMMAND,
        "RUN_TEMPLATE": RUN,
        "CREATE_CHAT_TEMPLATE": f"{CREATE} ''",
        **env,
    }
    return {name: value for name, value in found.items() if value}


def connect(stage: Any, **env: str) -> Wire:
    """A client whose server has these variables."""
    return stage.begun(variables(stage, **env))


def role(
    stage: Any, role_id: str = "coder", body: str = "You write code.", folder: str = ".agents/roles", **keys: str
) -> Path:
    """Write a role's file."""
    path = stage.root / folder / f"{role_id}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    front = "".join(f"{key}: {value}\n" for key, value in keys.items())
    path.write_text(f"---\n{front}---\n{body}\n" if keys else f"{body}\n")
    return path


def start(wire: Wire, *tasks: str, **more: Any) -> dict[str, Any]:
    """Start one member of role ``coder`` for each task; the answer."""
    return wire.tool(TOOL, {"members": [{"roleId": "coder", "task": one} for one in tasks], **more})


def collect(wire: Wire, squad_id: str, **more: Any) -> dict[str, Any]:
    """Go on waiting for a squad."""
    return wire.tool(TOOL, {"squadId": squad_id, "members": [], **more})


def file_of(stage: Any, squad_id: str) -> dict[str, Any]:
    """The squad's file."""
    found: dict[str, Any] = json.loads((stage.root / ".agents/squads" / squad_id / "squad.json").read_text())
    return found


def squads_of(stage: Any) -> list[str]:
    """The ids of the squads on the disk."""
    return sorted(path.parent.name for path in (stage.root / ".agents" / "squads").glob("*/squad.json"))


def members(stage: Any) -> list[int]:
    """The pids of living members and of all that descends from them."""
    mine = processes_with("ORCHESTRATOR_MEMBER_ID=")
    own = processes_with(f"ORCHESTRATOR_RUN_BASE={stage.run_base}")
    return sorted({*(mine.keys() & own.keys()), *(pid for pid in lingering(stage) if alive(pid))})


def lingering(stage: Any) -> list[int]:
    """The pids of children that fake CLIs left behind."""
    path = Path(f"{log_of(stage)}.pids")
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def gone(stage: Any) -> None:
    """Wait until no process of a member is left; those that stay fail this test only, not those after it."""
    try:
        until(lambda: not members(stage))
    finally:
        end(stage)


def end(stage: Any) -> None:
    """Kill what members a test left, as one that failed does: the next test of a shared stage looks for its own only."""
    for pid in members(stage):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
