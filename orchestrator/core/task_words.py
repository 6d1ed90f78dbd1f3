"""Short texts about tasks for people: the title of a task, and why it ended as it did. Pure."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from typing import Any

from orchestrator.base.secret_masks import READ_CHARS, masked

TITLE_CHARS = 80
REASON_CHARS = 160

PRIVATE = "private command"
"""The title of a payload that says ``private``: its text must appear in no list."""

_ASKED = ("title", "task", "goal", "instructions", "instruction", "prompt", "command", "question", "text", "message")
_REPORTED = ("message", "summary", "reason", "error", "text", "output", "code")


def title_of(payload: Any, given: str = "") -> str:
    """The title of a task: the ``given`` text, else the first words of its payload; one line, at most 80 characters.

    In words of the payload secrets are masked. Empty only if neither has a visible character.
    """
    if given and (title := short_line(given, TITLE_CHARS)):
        return title
    if isinstance(payload, Mapping) and payload.get("private") is True:
        return PRIVATE
    return short_line(masked(_text(payload, _ASKED)[:READ_CHARS]), TITLE_CHARS)


def reason_of(payload: Any) -> str:
    """Why a task ended, in the words of its terminal event; one line of at most 160 characters, or empty."""
    if isinstance(payload, Mapping) and payload.get("code") == "exit_status" and "exit_code" in payload:
        return f"exit code {payload['exit_code']}"[:REASON_CHARS]  # lists have little room
    return short_line(_text(payload, _REPORTED), REASON_CHARS)


def short_line(text: str, limit: int) -> str:
    """The text as one line of at most ``limit`` characters that has no control and no format characters."""
    text = text[: 20 * limit]  # enough for any text, and a payload may have megabytes
    if not text.isprintable():
        text = "".join(" " if unicodedata.category(char)[0] in "CZ" else char for char in text)
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def _text(payload: Any, keys: tuple[str, ...]) -> str:
    if isinstance(payload, str):
        return payload
    if payload is None:
        return ""
    if isinstance(payload, Mapping):
        values = [payload.get(key) for key in keys]
        text = next((value for value in values if isinstance(value, str) and value.strip()), None)
        if text is not None:
            return text
    return json.dumps(payload, ensure_ascii=False) if payload not in ({}, []) else ""
