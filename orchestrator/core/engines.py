"""The engines table: how to start and speak to one kind of CLI. Pure.

One row per engine; a quirk that needs code is a function named in the row, never a subclass. The rows of the AI
CLIs come with their own issue; ``shell`` is our worker, and the default where no AI CLI is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.errors import BadRequest

OWN_VARIABLES = (
    "ORCHESTRATOR_AGENT_ID",
    "ORCHESTRATOR_AGENT_EPOCH",
    "ORCHESTRATOR_AGENT_SECRET",
    "ORCHESTRATOR_PROJECT",
)
"""Set for every agent; an inherited value is never passed on."""

NOT_PASSED = ("TMUX", "TMUX_PANE", "TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "_", "SHLVL")
"""Belong to the terminal the master runs in, not to the agent's pane."""


@dataclass(frozen=True)
class Engine:
    """One kind of CLI.

    ``argv`` may hold ``{own}`` as its first item: the command of our own package. ``tool_limit_s`` is how long
    the CLI lets one tool call run; ``wait_for_command`` is capped below it. ``program`` must be on PATH.
    """

    name: str
    argv: tuple[str, ...]
    tool_limit_s: float
    program: str = ""
    tested: bool = True
    clients: tuple[str, ...] = field(default=())
    about: str = ""


ENGINES: dict[str, Engine] = {
    "shell": Engine(
        name="shell",
        argv=("{own}", "worker"),
        tool_limit_s=600.0,
        about="our worker: runs each task's shell command visibly in its pane",
    ),
}


def engine(name: str) -> Engine:
    """The row of that name; BadRequest ``unknown_engine`` otherwise."""
    row = ENGINES.get(name)
    if row is None:
        raise BadRequest("unknown_engine", f"no engine is called {name!r}; there are: {', '.join(sorted(ENGINES))}")
    return row


def default_engine(configured: str, client_name: str) -> str:
    """Config first, else the kind of the master's client, else ``shell`` (design §8)."""
    if configured:
        return engine(configured).name
    for row in ENGINES.values():
        if client_name and client_name in row.clients:
            return row.name
    return "shell"


def argv_of(row: Engine, own: list[str]) -> list[str]:
    """The command line, with ``{own}`` replaced by our own command."""
    out: list[str] = []
    for part in row.argv:
        out.extend(own if part == "{own}" else [part])
    return out


def environment(
    inherited: Mapping[str, str],
    extra: Mapping[str, str],
    *,
    agent_id: str,
    epoch: int,
    secret: str,
    project: str,
) -> dict[str, str]:
    """The agent's environment: the master CLI's, less ours and the terminal's, plus ``extra``, plus identity."""
    ours = ("ORCHESTRATOR_AGENT_",)
    env = {k: v for k, v in inherited.items() if k not in NOT_PASSED and not k.startswith(ours)}
    env.update(extra)
    env.update(
        ORCHESTRATOR_AGENT_ID=agent_id,
        ORCHESTRATOR_AGENT_EPOCH=str(epoch),
        ORCHESTRATOR_AGENT_SECRET=secret,
        ORCHESTRATOR_PROJECT=project,
    )
    return env
