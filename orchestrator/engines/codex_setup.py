"""The files of Codex's user: where they are, our entry and hooks in them, and what shows a login. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any

from orchestrator.engines.user_setup import (
    CALL_LIMIT_S,
    HOOK_LIMIT_S,
    NOTICE_LIMIT_S,
    ConfigReader,
    Env,
    UserSetup,
    filled_file,
    in_home,
    set_variable,
    table,
)

_START_LIMIT_S = 60  # the relay answers in less than a second, but a daemon may have many logs to read


def config_dir(env: Env) -> str:
    """The directory of Codex's own files."""
    return env.get("CODEX_HOME") or in_home(env, ".codex")


def config_file(env: Env) -> str:
    """The user's `config.toml`."""
    return posixpath.join(config_dir(env), "config.toml")


def _server_file(env: Env, _files: ConfigReader) -> str:
    return config_file(env)


def _server(command: Sequence[str], variables: Sequence[str]) -> dict[str, Any]:
    """Codex hands on no variable that its entry does not name."""
    return {
        "command": command[0],
        "args": list(command[1:]),
        "env_vars": list(variables),
        "startup_timeout_sec": _START_LIMIT_S,
        "tool_timeout_sec": CALL_LIMIT_S,
    }


def _login(env: Env, files: ConfigReader) -> str:
    config = files.document(config_file(env))
    provider = table(config, "model_providers", str(config.get("model_provider", "")))
    key = provider.get("env_key")
    if isinstance(key, str):
        return set_variable(env, key)
    if provider and not provider.get("requires_openai_auth"):
        return f"provider {config['model_provider']} asks for none"
    stored = posixpath.join(config_dir(env), "auth.json")
    return filled_file(files, stored) or set_variable(env, "CODEX_API_KEY", "OPENAI_API_KEY")


SETUP = UserSetup(
    title="Codex",
    form="toml",
    server_file=_server_file,
    server_path=("mcp_servers",),
    server=_server,
    login=_login,
    variables=("CODEX_HOME",),
    hook_events={"Stop": HOOK_LIMIT_S, "Interrupt": NOTICE_LIMIT_S},
    tool_filter="enabled_tools",
    notes=("in tmux start it with --no-daemon: its shared background process does not know your pane",),
    hook_notes=("Codex asks once whether it may run a new hook: answer that you trust it",),
)
