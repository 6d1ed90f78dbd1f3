"""Where each CLI keeps its configuration, as its own environment variables say. Looks at names, reads nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orchestrator.setup.entries import Cli


def home(env: Mapping[str, str]) -> Path:
    """The user's home directory."""
    return Path(env["HOME"]) if env.get("HOME", "").startswith("/") else Path.home()


def config_dir(cli: Cli, env: Mapping[str, str]) -> Path:
    """The directory of the CLI's own files."""
    if cli.name == "gemini":
        return Path(env.get("GEMINI_CLI_HOME") or home(env)) / ".gemini"
    if cli.name == "claude":
        return Path(env.get("CLAUDE_CONFIG_DIR") or home(env) / ".claude")
    if cli.name == "codex":
        return Path(env.get("CODEX_HOME") or home(env) / ".codex")
    return Path(env.get("XDG_CONFIG_HOME") or home(env) / ".config") / "opencode"


def data_dir(env: Mapping[str, str]) -> Path:
    """Where opencode keeps its login."""
    return Path(env.get("XDG_DATA_HOME") or home(env) / ".local" / "share") / "opencode"


def server_file(cli: Cli, env: Mapping[str, str]) -> Path:
    """The file that holds the CLI's MCP servers, existing or not."""
    at = config_dir(cli, env)
    if cli.name == "gemini":
        return at / "settings.json"
    if cli.name == "codex":
        return at / "config.toml"
    if cli.name == "claude":
        old = at / ".config.json"  # Claude Code prefers it where it is not empty
        if old.is_file() and old.stat().st_size:
            return old
        return Path(env.get("CLAUDE_CONFIG_DIR") or home(env)) / ".claude.json"
    if env.get("OPENCODE_CONFIG"):
        return Path(env["OPENCODE_CONFIG"])
    existing = (at / name for name in ("opencode.jsonc", "opencode.json", "config.json"))
    return next((path for path in existing if path.exists()), at / "opencode.json")


def hooks_file(cli: Cli, env: Mapping[str, str]) -> Path:
    """The file that holds the CLI's hooks, existing or not."""
    return config_dir(cli, env) / "settings.json" if cli.name == "claude" else server_file(cli, env)
