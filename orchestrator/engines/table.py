"""The table of all engines: looks one up, picks the default, checks options, builds an agent's environment. Pure.

Each large CLI has its own module in this package; `definition.py` holds the types.
"""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.base.errors import BadRequest
from orchestrator.engines import claude, codex, gemini, opencode, others
from orchestrator.engines.definition import APPROVALS, Engine
from orchestrator.engines.user_setup import UserSetup

NOT_PASSED = frozenset(
    {
        # of the terminal the master runs in, not of the agent's pane
        "TMUX", "TMUX_PANE", "TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "_", "SHLVL",
        # what a CLI tells its own children; an agent's CLI would take itself for nested
        "CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_PID", "CLAUDE_PROJECT_DIR",
        "GEMINI_CLI", "GEMINI_SESSION_ID", "OPENCODE", "OPENCODE_PID", "AGENT", "CLI_TITLE",
        # of a program that Node has forked with a channel to its parent: a child without that channel ends at once
        "NODE_CHANNEL_FD", "NODE_CHANNEL_SERIALIZATION_MODE", "NODE_UNIQUE_ID", "GEMINI_CLI_NO_RELAUNCH",
    }
)  # fmt: skip
"""Never passed from the master's CLI to an agent's."""

ENGINES: dict[str, Engine] = {
    row.name: row
    for row in (
        gemini.ROW,
        claude.ROW,
        codex.ROW,
        opencode.ROW,
        others.CURSOR,
        others.ANTIGRAVITY,
        others.COMMAND,
        others.SHELL,
    )
}

SETUPS: dict[str, UserSetup] = {row.name: row.setup for row in ENGINES.values() if row.setup is not None}
"""What setup and doctor need of the CLIs that setup supports, by their engines' names."""


def engine(name: str) -> Engine:
    """The engine of that name; raises BadRequest ``unknown_engine`` if there is none."""
    row = ENGINES.get(name)
    if row is None:
        raise BadRequest(
            "unknown_engine", f"no engine is named {name!r}; the engines are: {', '.join(sorted(ENGINES))}"
        )
    return row


def default_engine(configured: str, client_name: str) -> str:
    """Config first, else the kind of the master's client, else ``shell``."""
    if configured:
        return engine(configured).name
    row = engine_of_client(client_name)
    return row.name if row is not None else "shell"


def engine_of_client(client_name: str) -> Engine | None:
    """The engine whose CLI introduces itself to our server by that name; None for any other client."""
    return next((row for row in ENGINES.values() if client_name in row.clients), None)


def call_limit_s(client_name: str) -> float | None:
    """Default limit of one call, in seconds, in the CLI with that client name; None: not known."""
    row = engine_of_client(client_name)
    return row.call_limit_s or None if row is not None else None


def check_wishes(row: Engine, model: str | None, approval: str, command: tuple[str, ...]) -> None:
    """Refuse what the engine cannot do; BadRequest ``bad_argument``."""
    if model and not row.models:
        raise BadRequest("bad_argument", f"engine {row.name} takes no model")
    if approval not in APPROVALS:
        raise BadRequest("bad_argument", f"approval {approval!r} is not one of {', '.join(APPROVALS)}")
    if row.name == "command" and not command:
        raise BadRequest(
            "bad_argument", "engine 'command' needs a command line", "pass command, or set `command` in config.toml"
        )


def passed_on(inherited: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """The master CLI's environment for an agent, without our variables, overlaid with ``extra``."""
    ours = ("ORCHESTRATOR_AGENT_", "ORCHESTRATOR_MEMBER_")
    env = {k: v for k, v in inherited.items() if k not in NOT_PASSED and not k.startswith(ours)}
    return {**env, **extra}


def identity(*, agent_id: str, epoch: int, secret: str, project: str) -> dict[str, str]:
    """The variables from which relay, hook and worker learn the agent's identity."""
    return {
        "ORCHESTRATOR_AGENT_ID": agent_id,
        "ORCHESTRATOR_AGENT_EPOCH": str(epoch),
        "ORCHESTRATOR_AGENT_SECRET": secret,
        "ORCHESTRATOR_PROJECT": project,
    }
