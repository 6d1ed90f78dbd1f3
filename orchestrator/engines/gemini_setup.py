"""The files of Gemini CLI's user: where they are, our entry and hook in them, and what shows a login. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.base.public_names import SERVER
from orchestrator.engines.user_setup import CALL_LIMIT_S, ConfigReader, Env, UserSetup, filled_file, set_variable

PARK_LIMIT_S = 600
"""A parked Gemini CLI animates a spinner, about a tenth of a core; at its prompt it is idle."""

_LOGIN = ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA")


def gemini_home(env: Env) -> str:
    """The directory that holds the user's `.gemini`."""
    return (env.get("GEMINI_CLI_HOME") or env.get("HOME") or "/nonexistent").rstrip("/")


def config_dir(env: Env) -> str:
    """The directory of Gemini CLI's own files."""
    return f"{gemini_home(env)}/.gemini"


def _server_file(env: Env, _files: ConfigReader) -> str:
    return f"{config_dir(env)}/settings.json"


def _server(command: Sequence[str], _variables: Sequence[str]) -> dict[str, Any]:
    return {"command": command[0], "args": list(command[1:]), "timeout": CALL_LIMIT_S * 1000, "trust": False}


def _login(env: Env, files: ConfigReader) -> str:
    home = config_dir(env)
    return (
        set_variable(env, *_LOGIN)
        or next((path for path in (f"{home}/.env", f"{gemini_home(env)}/.env") if _assigns(files.text(path))), "")
        or filled_file(files, f"{home}/oauth_creds.json", f"{home}/gemini-credentials.json")
    )


def _assigns(text: str) -> bool:
    """Whether a file of variables gives a value to one that logs in."""
    lines = (line.strip().removeprefix("export ").partition("=") for line in text.splitlines())
    return any(name.strip() in _LOGIN and value.strip() for name, _, value in lines)


SETUP = UserSetup(
    title="Gemini CLI",
    form="json",
    server_file=_server_file,
    server_path=("mcpServers",),
    server=_server,
    login=_login,
    variables=("GEMINI_CLI_HOME",),
    hook_events={"AfterAgent": PARK_LIMIT_S * 1000},
    hook_name=SERVER,
    tool_filter="includeTools",
)
