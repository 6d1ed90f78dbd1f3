"""The files of Claude Code's user: where they are, our entry and hooks in them, and what shows a login. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any

from orchestrator.base.public_names import AGENT_TOOLS, SERVER
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

_LOGIN = (
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY",
)  # fmt: skip


def in_config_dir(env: Env, name: str) -> str:
    """The path of a file or folder among Claude Code's own."""
    return posixpath.join(env.get("CLAUDE_CONFIG_DIR") or in_home(env, ".claude"), name)


def _server_file(env: Env, files: ConfigReader) -> str:
    old = in_config_dir(env, ".config.json")  # Claude Code prefers it where it is not empty
    if files.size(old):
        return old
    return posixpath.join(env.get("CLAUDE_CONFIG_DIR") or in_home(env), ".claude.json")


def _settings_file(env: Env) -> str:
    return in_config_dir(env, "settings.json")


def _server(command: Sequence[str], _variables: Sequence[str]) -> dict[str, Any]:
    return {"type": "stdio", "command": command[0], "args": list(command[1:]), "timeout": CALL_LIMIT_S * 1000}


def _agent_snippet(entry: str) -> str:
    allowed = ",".join(f"mcp__{SERVER}__{tool}" for tool in AGENT_TOOLS)
    return f"claude --strict-mcp-config --mcp-config FILE --allowedTools {allowed}\nFILE:\n{entry}"


def _login(env: Env, files: ConfigReader) -> str:
    place = set_variable(env, *_LOGIN) or filled_file(files, in_config_dir(env, ".credentials.json"))
    if place:
        return place
    path = _settings_file(env)
    settings = files.document(path)
    if settings.get("apiKeyHelper") or set(_LOGIN) & set(table(settings, "env")):
        return path
    path = _server_file(env, files)
    state = files.document(path)
    return path if state.get("oauthAccount") or state.get("primaryApiKey") else ""


SETUP = UserSetup(
    title="Claude Code",
    form="json",
    server_file=_server_file,
    server_path=("mcpServers",),
    server=_server,
    login=_login,
    variables=("CLAUDE_CONFIG_DIR",),
    hooks_file=_settings_file,
    hook_events={"Stop": HOOK_LIMIT_S, "UserPromptSubmit": NOTICE_LIMIT_S},
    raises=False,  # after 120 s it moves a call to the background, whatever its limit
    agent_snippet=_agent_snippet,
    lock_stale_s=10.0,  # Claude Code's own measure for a lock whose holder has died
    gsd_in_settings=True,
    settings_notes=(
        "Claude Code itself reads servers from ~/.claude.json: orchestrator setup claude --toolsets gsd",
    ),
)
