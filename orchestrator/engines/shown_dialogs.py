"""Which of several waiting requests the dialog on a screen is about. Pure.

A CLI that asks for several calls of one message at once shows their dialogs one after the other, and tells no hook
that a human has answered in the pane. What its screen shows must do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from orchestrator.engines.permission_hooks import LEADS
from orchestrator.engines.permission_requests import Asked

_FILES = frozenset({"file_path", "notebook_path"})
_WORDS_MAX = 200


class ShownDialog(NamedTuple):
    """The dialog on a screen. ``alone``: it is a permission's, and no further dialog waits for this one's answer."""

    text: str
    alone: bool


def about(dialog: ShownDialog, waiting: Sequence[Asked]) -> list[Asked]:
    """Those of the requests, the oldest first, that the dialog may be about; empty if that is not known.

    If the dialog contains the words of several, the longest words count: ``touch a`` is also in ``touch a b``.
    """
    text = _packed(dialog.text)
    matching = [(len(words), asked) for asked in waiting if (words := _packed(_words(asked))) and words in text]
    if matching:
        longest = max(length for length, _ in matching)
        return [asked for length, asked in matching if length == longest]
    return list(waiting[-1:]) if dialog.alone else []


def _words(asked: Asked) -> str:
    """What the dialog of this request surely shows: how the command begins, a file's name, an address, a question."""
    if asked.questions:
        return str(asked.questions[0]["question"])[:_WORDS_MAX]
    for name in LEADS:
        if isinstance(value := asked.tool_input.get(name), str) and value.strip():
            words = value.rstrip("/").rpartition("/")[2] if name in _FILES else value.strip().partition("\n")[0]
            return words[:_WORDS_MAX]
    return asked.tool.rpartition("__")[2]


def _packed(text: str) -> str:
    """The text without white space: a screen breaks lines where it likes."""
    return "".join(text.split())
