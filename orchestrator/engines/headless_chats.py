"""What the rows share about headless runs: which ids their chats have, and prompts that would be commands. Pure."""

from __future__ import annotations

import re

from orchestrator.base.errors import BadRequest

UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
ANY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


def chat_id(given: str, form: re.Pattern[str], cli: str) -> str:
    """The id, if it can be one of a chat of that CLI; BadRequest ``bad_argument`` otherwise.

    CLIs take other words for a title, a number in a list or the latest session, or begin a new chat unasked.
    """
    if form.fullmatch(given):
        return given
    raise BadRequest(
        "bad_argument",
        f"{given!r} is no chat of {cli}",
        "pass the id that a run with this engine has answered, or none for a new chat",
    )


def no_command(prompt: str) -> str:
    """A prompt whose first letter makes no command of the CLI's of it: an empty line goes before a slash."""
    return f"\n{prompt}" if prompt.startswith("/") else prompt
