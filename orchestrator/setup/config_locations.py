"""Where a CLI's configuration is, and whether the CLI is logged in, as its `UserSetup` determines. Reads only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.engines.user_setup import UserSetup
from orchestrator.setup import jsonc, toml_text


class ConfigFiles:
    """The user's files as they are now: the `ConfigReader` of the engines."""

    def size(self, path: str) -> int | None:
        file = Path(path)
        if not file.exists():
            return None
        return file.stat().st_size if file.is_file() else 0

    def text(self, path: str) -> str:
        try:
            return Path(path).read_text("utf-8", "replace")
        except OSError:
            return ""

    def document(self, path: str) -> dict[str, Any]:
        text = self.text(path)
        try:
            document = toml_text.read(text) if path.endswith(".toml") else _json(text)
        except jsonc.Unreadable:
            return {}
        return document if isinstance(document, dict) else {}


def server_file(cli: UserSetup, env: Mapping[str, str]) -> Path:
    """The file that holds the CLI's MCP servers, existing or not."""
    return Path(cli.server_file(_with_home(env), ConfigFiles()))


def hooks_file(cli: UserSetup, env: Mapping[str, str]) -> Path:
    """The file that holds the CLI's hooks, existing or not."""
    return Path(cli.hooks_file(_with_home(env))) if cli.hooks_file else server_file(cli, env)


def login(cli: UserSetup, env: Mapping[str, str]) -> str:
    """Where a login was seen, in a few words and without any secret; empty if none was.

    A login kept in the system's keychain is not seen, so a missing one is no proof.
    """
    return cli.login(_with_home(env), ConfigFiles())


def _with_home(env: Mapping[str, str]) -> Mapping[str, str]:
    return env if env.get("HOME", "").startswith("/") else {**env, "HOME": str(Path.home())}


def _json(text: str) -> Any:
    try:
        return json.loads(text) if text else {}
    except ValueError:
        return jsonc.read(text)
