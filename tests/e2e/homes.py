"""What a user of the four CLIs has in the home directory and in the shell's environment.

``write(kind, home, project, models)`` writes that CLI's own configuration as its user would have it after the first
start: set-up done, updates and telemetry off, the folder trusted, the model provider at the scripted server. ``keys``
are the variables that the user's shell exports. ``snapshot`` is what must not change behind the user's back.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e.models.server import MODEL, ModelServer
from tests.e2e.models.turn import Kind

KEY = "scripted-0123456789"
GEMINI_MODEL = "gemini-2.5-flash"  # a pinned model needs no router calls
CLAUDE_MODEL = "claude-sonnet-4-5"
CODEX_MODEL = "gpt-5-codex"


def keys(kind: Kind, models: ModelServer) -> dict[str, str]:
    """The variables that this CLI's user exports in the shell."""
    if kind == "gemini":
        return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": models.base(kind)}
    if kind == "claude":
        return {
            "ANTHROPIC_BASE_URL": models.base(kind),
            "ANTHROPIC_AUTH_TOKEN": KEY,
            "ANTHROPIC_MODEL": CLAUDE_MODEL,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
    if kind == "codex":
        return {"SCRIPTED_API_KEY": KEY}
    return {
        "SCRIPTED_API_KEY": KEY,
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    }


def write(kind: Kind, home: Path, project: Path, models: ModelServer) -> None:
    """Write the CLI's configuration; ``project`` is the folder that its user has trusted."""
    {"gemini": _gemini, "claude": _claude, "codex": _codex, "opencode": _opencode}[kind](home, project, models)


def _put(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2) + "\n")


def _gemini(home: Path, project: Path, models: ModelServer) -> None:
    settings = {
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": True}},
        "ui": {"hideTips": True, "showHomeDirectoryWarning": False},
        "model": {"name": GEMINI_MODEL},
    }
    _put(home / ".gemini" / "settings.json", settings)
    _put(home / ".gemini" / "trustedFolders.json", {str(project): "TRUST_FOLDER"})


def _claude(home: Path, project: Path, models: ModelServer) -> None:
    known = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    _put(home / ".claude.json", {"hasCompletedOnboarding": True, "projects": {str(project): known}})
    _put(home / ".claude" / "settings.json", {"theme": "dark"})


def _codex(home: Path, project: Path, models: ModelServer) -> None:
    config = f"""\
# the user's own comment
model = "{CODEX_MODEL}"
model_provider = "scripted"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "{models.base("codex")}"
wire_api = "responses"
env_key = "SCRIPTED_API_KEY"

[analytics]
enabled = false

[projects."{project}"]
trust_level = "trusted"
"""
    _put(home / ".codex" / "config.toml", config)


def _opencode(home: Path, project: Path, models: ModelServer) -> None:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": {"baseURL": models.base("opencode"), "apiKey": "{env:SCRIPTED_API_KEY}"},
        "models": {MODEL: {"name": "Scripted", "tool_call": True, "limit": {"context": 200_000, "output": 8192}}},
    }
    config = {
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": False,
        "share": "disabled",
        "model": f"scripted/{MODEL}",
        "small_model": f"scripted/{MODEL}",
        "provider": {"scripted": provider},
        "enabled_providers": ["scripted"],
    }
    _put(home / ".config" / "opencode" / "opencode.json", config)


# -- what must stay as it is -----------------------------------------------------------------------------------------

_OWN: dict[Kind, tuple[str, ...]] = {
    "gemini": (".gemini/settings.json", ".gemini/trustedFolders.json", ".gemini/GEMINI.md", ".gemini/.env",
               ".gemini/extensions", ".gemini/commands", ".gemini/policies", ".gemini/agents", ".gemini/skills"),
    "claude": (".claude.json", ".claude/settings.json", ".claude/settings.local.json", ".claude/CLAUDE.md",
               ".claude/commands", ".claude/agents", ".claude/hooks", ".claude/skills", ".claude/plugins/config.json"),
    "codex": (".codex/config.toml", ".codex/AGENTS.md", ".codex/prompts", ".codex/rules", ".codex/hooks.json"),
    "opencode": (".config/opencode/opencode.json", ".config/opencode/opencode.jsonc", ".config/opencode/config.json",
                 ".config/opencode/AGENTS.md", ".config/opencode/plugin", ".config/opencode/plugins",
                 ".config/opencode/agent", ".config/opencode/command", ".config/opencode/tui.json"),
}  # fmt: skip
_IN_PROJECT: dict[Kind, tuple[str, ...]] = {
    "gemini": (".gemini", "GEMINI.md", ".env"),
    "claude": (".claude", ".mcp.json", "CLAUDE.md"),
    "codex": (".codex", "AGENTS.md"),
    "opencode": (".opencode", "opencode.json", "opencode.jsonc", "AGENTS.md"),
}


def snapshot(kind: Kind, home: Path, project: Path) -> dict[str, str]:
    """The CLI's configuration files, of the user and of the project: path -> hash.

    What the CLI itself keeps rewriting in them (counters, caches, that a hint was shown) does not count.
    """
    found = {}
    for root, names in ((home, _OWN[kind]), (project, _IN_PROJECT[kind])):
        for path in _files(root, names):
            name = str(path.relative_to(root))
            found[f"{'~' if root == home else 'project'}/{name}"] = hashlib.sha256(_core(name, path)).hexdigest()
    return found


def _files(root: Path, names: tuple[str, ...]) -> Iterator[Path]:
    for name in names:
        path = root / name
        if path.is_dir():
            yield from sorted(each for each in path.rglob("*") if each.is_file())
        elif path.is_file():
            yield path


_CLAUDE_KEYS = ("mcpServers", "hasTrustDialogAccepted", "allowedTools", "enabledMcpjsonServers",
                "disabledMcpjsonServers", "mcpContextUris", "hooks", "env")  # fmt: skip


def _core(name: str, path: Path) -> bytes:
    data = path.read_bytes()
    if name == ".claude.json":
        whole = json.loads(data)
        kept = {key: whole[key] for key in ("mcpServers", "hasCompletedOnboarding", "env") if key in whole}
        # An empty list is what Claude Code writes for every project it meets.
        kept["projects"] = {
            place: {key: one[key] for key in _CLAUDE_KEYS if one.get(key)}
            for place, one in whole.get("projects", {}).items()
        }
        kept["projects"] = {place: one for place, one in kept["projects"].items() if one}
        return json.dumps(kept, sort_keys=True).encode()
    if name == ".codex/config.toml":
        config = tomllib.loads(data.decode())
        config.pop("tui", None)
        return json.dumps(config, sort_keys=True).encode()
    return data
