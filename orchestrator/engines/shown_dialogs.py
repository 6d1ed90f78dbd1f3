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
    """The dialog on a screen. ``alone``: it is a permission's, and no further permission waits for its answer."""

    text: str
    alone: bool


def about(dialog: ShownDialog, waiting: Sequence[Asked]) -> list[Asked]:
    """Those of the requests, the oldest first, that the dialog may be about; empty if that is not known.

    If the dialog contains the words of several, the longest words count: ``touch a`` is also in ``touch a b``.
    """
    text = _packed(dialog.text)
    lengths = [max((len(words) for words in _words(asked) if words in text), default=0) for asked in waiting]
    longest = max(lengths, default=0)
    if longest:
        return [asked for asked, length in zip(waiting, lengths, strict=True) if length == longest]
    return list(waiting[-1:]) if dialog.alone else []


def _words(asked: Asked) -> list[str]:
    """What the dialog of this request may show: how the command begins, an address, a question, a path or its end."""
    if asked.questions:
        return [_packed(str(asked.questions[0]["question"])[:_WORDS_MAX])]
    for name in LEADS:
        if isinstance(value := asked.tool_input.get(name), str) and value.strip():
            words = _packed(value.strip().partition("\n")[0][:_WORDS_MAX])
            parts = words.split("/") if name in _FILES else [words]
            return ["/".join(parts[at:]) for at in range(len(parts)) if parts[-1]]
    return [_packed(asked.tool.rpartition("__")[2])]


def _packed(text: str) -> str:
    """The text without white space: a screen breaks lines where it likes."""
    return "".join(text.split())
