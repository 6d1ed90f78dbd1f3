"""The error and the note that settings of a project do not count, because nobody has allowed them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.base.errors import Environment

MAX_FILES_NAMED = 5
MAX_NAME_LENGTH = 120


def untrusted(files: Mapping[str, Iterable[str]]) -> Environment:
    """The error that these settings do not count: file -> its keys.

    It has only names, and few: the values come from a repository, and a model reads this error.
    """
    rows = [{"file": _plain(file), "keys": [_plain(key) for key in keys]} for file, keys in sorted(files.items())]
    named = [f"{row['file']} ({', '.join(row['keys'][:MAX_FILES_NAMED])})" for row in rows[:MAX_FILES_NAMED]]
    more = f" and {len(rows) - MAX_FILES_NAMED} more files" if len(rows) > MAX_FILES_NAMED else ""
    message = f"these settings of the project do not count, because nobody has allowed them: {'; '.join(named)}{more}"
    return Environment("untrusted_setting", message, files=rows[: 4 * MAX_FILES_NAMED])


def untrusted_note(files: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """The same as a part of an answer, under the key ``untrusted``; empty if there are no such files."""
    if not files:
        return {}
    return {"untrusted": {key: value for key, value in untrusted(files).as_dict().items() if key != "kind"}}


def _plain(name: str) -> str:
    """The name on one short line, without characters that could control a terminal or imitate our text."""
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name)
    return shown if len(shown) <= MAX_NAME_LENGTH else f"{shown[: MAX_NAME_LENGTH - 1]}…"
