"""Find the waiting requests that the dialog on a screen is about. Pure.

If a CLI asks for several calls of one message at once, it shows their dialogs one after the other. It does not report
to a hook that a human has answered in the pane; only its screen shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from orchestrator.engines.permission_hooks import LEADS
from orchestrator.engines.permission_requests import Asked

_FILES = frozenset({"file_path", "notebook_path"})
_WORDS_MAX = 200


class ShownDialog(NamedTuple):
    """The dialog on a screen. ``alone``: it asks for a permission, and no further permission waits after it."""

    text: str
    alone: bool


def about(dialog: ShownDialog, waiting: Sequence[Asked]) -> list[Asked]:
    """The requests that the dialog may be about, the oldest first; empty if unknown.

    If the dialog contains the words of several requests, the longest match wins: ``touch a`` is in ``touch a b`` too.
    """
    text = _packed(dialog.text)
    lengths = [max((len(words) for words in _words(asked) if words in text), default=0) for asked in waiting]
    longest = max(lengths, default=0)
    if longest:
        return [asked for asked, length in zip(waiting, lengths, strict=True) if length == longest]
    return list(waiting[-1:]) if dialog.alone else []


def _words(asked: Asked) -> list[str]:
    """Texts that the request's dialog may show: the beginning of a command, a URL, a question, a path or its end."""
    if asked.questions:
        return [_packed(str(asked.questions[0]["question"])[:_WORDS_MAX])]
    for name in LEADS:
        if isinstance(value := asked.tool_input.get(name), str) and value.strip():
            words = _packed(value.strip().partition("\n")[0][:_WORDS_MAX])
            parts = words.split("/") if name in _FILES else [words]
            return ["/".join(parts[at:]) for at in range(len(parts)) if parts[-1]]
    return [_packed(asked.tool.rpartition("__")[2])]


def _packed(text: str) -> str:
    """The text without white space, because a screen can break lines anywhere."""
    return "".join(text.split())
