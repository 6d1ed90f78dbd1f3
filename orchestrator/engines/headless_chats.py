"""Shared by the engines' headless runs: checks chat ids and escapes prompts that would be commands. Pure."""

from __future__ import annotations

import re

from orchestrator.base.errors import BadRequest

UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
ANY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


def chat_id(given: str, form: re.Pattern[str], cli: str) -> str:
    """The id, if it can be one of a chat of that CLI; BadRequest ``bad_argument`` otherwise.

    A CLI would read another text as a title, a number in a list or the latest session, or begin a new chat.
    """
    if form.fullmatch(given):
        return given
    raise BadRequest(
        "bad_argument",
        f"{given!r} is not a chat id of {cli}",
        "pass a chat id that a run with this engine returned, or omit it to begin a new chat",
    )


def no_command(prompt: str) -> str:
    """The prompt, with an empty line before a leading slash, so the CLI does not read it as a command."""
    return f"\n{prompt}" if prompt.startswith("/") else prompt
