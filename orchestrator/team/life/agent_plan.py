"""What agent_create is asked for, and its check: a spec becomes the values of the agent's `starting` record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.config.sources import PROJECT_FILE
from orchestrator.core.agent_ids import slug
from orchestrator.engines import table
from orchestrator.journal.project_files import confine
from orchestrator.roles.catalogue import Role
from orchestrator.team.life import launch_files
from orchestrator.team.roster.roster import Roster
from orchestrator.trust.untrusted_settings import untrusted


@dataclass(frozen=True)
class AgentSpec:
    """The requested agent; ``cwd`` is relative to the project or inside it."""

    name: str
    role: str
    cwd: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    engine: str | None = None
    model: str | None = None
    approval: str | None = None
    command: tuple[str, ...] = ()
    policies: dict[str, Any] = field(default_factory=dict)  # values that differ from the configuration
    worktree: bool = False  # with its own git worktree
    host: str | None = None  # of the fleet; None: here, and not in the fleet


POLICIES = (
    "restart", "max_restarts", "restart_window_s", "on_lost", "on_pane_closed", "max_attempts", "stall_after_s",
)  # fmt: skip
"""Settings that are frozen into an agent's spec; a caller may give other values for one agent."""


def planned(
    roster: Roster,
    spec: AgentSpec,
    role: Role | None,
    client_name: str,
    inherited: Mapping[str, str],
    *,
    whose: str = "the master's CLI",
) -> dict[str, Any]:
    """Check a spec completely, before anything is written.

    Values missing in the call come from the file of its ``role``, then from the configuration. The agent gets
    ``inherited``, the environment of ``whose``.
    """
    slug(spec.name)
    config = roster.config()
    row_ = (
        table.engine(spec.engine) if spec.engine else table.engine(table.default_engine(config.engine, client_name))
    )
    approval = spec.approval or (role.approval if role is not None else None) or config.approval
    model = spec.model or (role.model_for(row_) if role is not None and row_.models else None)
    command = launch_files.command_line(spec.command, config.command) if row_.name == "command" else ()
    if row_.name == "command" and not command and "command" in roster.withheld():
        raise untrusted({PROJECT_FILE: ["command"]})
    table.check_wishes(row_, model, approval, command)
    launch_files.check_program(row_, command, spec.env.get("PATH", inherited.get("PATH", "")), whose)
    cwd = confine(roster.root, spec.cwd or ".", what="cwd")
    if not Path(cwd).is_dir():
        raise BadRequest("bad_argument", f"cwd {spec.cwd!r} is no directory", "make it, or name another one")
    checked_env(spec.env)
    policies = {name: getattr(config, name) for name in POLICIES} | spec.policies
    if policies["on_pane_closed"] == "auto":
        policies["on_pane_closed"] = row_.on_pane_closed
    fields = {
        "name": spec.name,
        "role": spec.role,
        "engine": row_.name,
        "cwd": str(cwd),
        "policies": policies,
        "env_names": sorted(spec.env),
    }
    wishes = {"model": model, "command": list(command) or None}
    if role is not None and role.toolsets:
        wishes["toolsets"] = list(role.toolsets)
    if approval != "ask":
        wishes["approval"] = approval
    return fields | {name: value for name, value in wishes.items() if value is not None}


def checked_env(env: Mapping[str, str]) -> None:
    """Raise BadRequest ``bad_argument`` for a variable that cannot be set, or that we set."""
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise BadRequest("bad_argument", f"{name!r} is no name of an environment variable")
        if name.startswith("ORCHESTRATOR_"):
            raise BadRequest("bad_argument", f"{name} is set by orchestrator itself")
