"""Whether a CLI looks logged in, as far as files and variables show. Reads only, and never shows a secret.

A login kept in the system's keychain is not seen, so a missing one is no proof.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from orchestrator.setup import config_locations, jsonc, toml_text
from orchestrator.setup.entries import Cli

Env = Mapping[str, str]

_PROVIDER_KEYS = (
    "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY",
    "GROQ_API_KEY", "MISTRAL_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY", "GITHUB_TOKEN", "AWS_ACCESS_KEY_ID",
)  # fmt: skip


def seen(cli: Cli, env: Env) -> str:
    """Where a login was seen, in a few words; empty if none was."""
    return _SEEN[cli.name](cli, env)


def _gemini(cli: Cli, env: Env) -> str:
    home = config_locations.config_dir(cli, env)
    names = ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA")
    return (
        _variable(env, *names)
        or next((f"{path}" for path in (home / ".env", home.parent / ".env") if _assigns(path, names)), "")
        or _file(home / "oauth_creds.json", home / "gemini-credentials.json")
    )


def _claude(cli: Cli, env: Env) -> str:
    home = config_locations.config_dir(cli, env)
    names = (
        "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY",
    )  # fmt: skip
    found = _variable(env, *names) or _file(home / ".credentials.json")
    settings, state = home / "settings.json", config_locations.server_file(cli, env)
    given = _json(settings)
    if not found and (given.get("apiKeyHelper") or set(names) & set(_table(given, "env"))):
        found = str(settings)
    told = _json(state)
    if not found and (told.get("oauthAccount") or told.get("primaryApiKey")):
        found = str(state)
    return found


def _codex(cli: Cli, env: Env) -> str:
    home = config_locations.config_dir(cli, env)
    try:
        config = toml_text.read(_text(home / "config.toml"))
    except jsonc.Unreadable:
        config = {}
    provider = _table(_table(config, "model_providers"), str(config.get("model_provider", "")))
    key = provider.get("env_key")
    if isinstance(key, str):
        return _variable(env, key)
    if provider and not provider.get("requires_openai_auth"):
        return f"provider {config['model_provider']} asks for none"
    return _file(home / "auth.json") or _variable(env, "CODEX_API_KEY", "OPENAI_API_KEY")


def _opencode(cli: Cli, env: Env) -> str:
    stored = config_locations.data_dir(env) / "auth.json"
    if _json(stored):
        return str(stored)
    config = config_locations.server_file(cli, env)
    providers = _table(_json(config), "provider")
    if any(_table(_table(providers, name), "options") for name in providers):
        return f"a provider of {config}"
    return _variable(env, *_PROVIDER_KEYS)


_SEEN: dict[str, Callable[[Cli, Env], str]] = {
    "gemini": _gemini, "claude": _claude, "codex": _codex, "opencode": _opencode,
}  # fmt: skip


def _variable(env: Env, *names: str) -> str:
    return next((f"${name}" for name in names if env.get(name)), "")


def _file(*paths: Path) -> str:
    return next((str(path) for path in paths if _text(path).strip()), "")


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _assigns(path: Path, names: tuple[str, ...]) -> bool:
    lines = (line.strip().removeprefix("export ").partition("=") for line in _text(path).splitlines())
    return any(name.strip() in names and value.strip() for name, _, value in lines)


def _json(path: Path) -> dict[str, Any]:
    text = _text(path)
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        try:
            found = jsonc.read(text)
        except jsonc.Unreadable:
            found = {}
    return found if isinstance(found, dict) else {}


def _table(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = data.get(key)
    return found if isinstance(found, dict) else {}
