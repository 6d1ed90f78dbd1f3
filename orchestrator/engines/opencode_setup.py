"""The files of opencode's user: where they are, our entry in them, and what shows a login. Pure."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Sequence
from typing import Any

from orchestrator.base.public_names import AGENT_TOOLS, SERVER
from orchestrator.engines.user_setup import (
    CALL_LIMIT_S,
    ConfigReader,
    Env,
    UserSetup,
    in_home,
    set_variable,
    table,
)

_PROVIDER_KEYS = (
    "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY",
    "GROQ_API_KEY", "MISTRAL_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY", "GITHUB_TOKEN", "AWS_ACCESS_KEY_ID",
)  # fmt: skip


def _server_file(env: Env, files: ConfigReader) -> str:
    if env.get("OPENCODE_CONFIG"):
        return env["OPENCODE_CONFIG"]
    folder = posixpath.join(env.get("XDG_CONFIG_HOME") or in_home(env, ".config"), "opencode")
    paths = [f"{folder}/{name}" for name in ("opencode.jsonc", "opencode.json", "config.json")]
    return next((path for path in paths if files.size(path) is not None), f"{folder}/opencode.json")


def _server(command: Sequence[str], _variables: Sequence[str]) -> dict[str, Any]:
    return {"type": "local", "command": list(command), "enabled": True, "timeout": CALL_LIMIT_S * 1000}


def _agent_snippet(entry: str) -> str:
    tools = {f"{SERVER}_{tool}": "allow" for tool in AGENT_TOOLS}
    return json.dumps({**json.loads(entry), "permission": {f"{SERVER}_*": "deny", **tools}}, indent=2)


def _login(env: Env, files: ConfigReader) -> str:
    stored = posixpath.join(env.get("XDG_DATA_HOME") or in_home(env, ".local/share"), "opencode/auth.json")
    if files.document(stored):
        return stored
    config = _server_file(env, files)
    providers = table(files.document(config), "provider")
    if any(table(providers, name, "options") for name in providers):
        return f"a provider of {config}"
    return set_variable(env, *_PROVIDER_KEYS)


SETUP = UserSetup(
    title="opencode",
    form="json",
    server_file=_server_file,
    server_path=("mcp",),
    server=_server,
    login=_login,
    variables=("OPENCODE_CONFIG", "XDG_CONFIG_HOME"),
    agent_snippet=_agent_snippet,
)
