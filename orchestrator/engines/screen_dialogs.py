"""Permission dialogs as screens show them: their text, and the key that each answer needs. Pure.

The last way to answer: where a CLI's hook or plugin asks, its request has the whole text and no key is pressed. Only
keys that the dialog itself names are used; digits act without Enter in these CLIs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from orchestrator.core.inbox_items import ItemDecision
from orchestrator.core.screens import Screen


class DialogForm(NamedTuple):
    """How one kind of dialog looks; regular expressions that are matched at the beginning of a line.

    The dialog is from the last line that matches ``begins`` to the first line after it that matches ``ends``.
    ``option`` matches a line of its list: a digit, and the words. ``options`` match the words of each answer.
    ``cut`` is searched in the text: something is not shown.
    """

    begins: str
    ends: str
    option: str
    options: Mapping[ItemDecision, str]
    cut: str = r"(?!)"
    hides: bool = False  # the dialog never shows what is to be done, only where


class ScreenDialog(NamedTuple):
    """One dialog on a screen. ``lines`` are its text without frames; ``cut``: it is not all visible."""

    lines: tuple[str, ...]
    keys: Mapping[ItemDecision, str]
    cut: bool

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def digest(self) -> str:
        """The hash of the dialog's whole text. If a line wraps at another place, the hash is another."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()


_FRAME = re.compile(r"^[\s│┃╭╮╰╯─╌━═]*|[\s│┃╭╮╰╯─╌━═]*$")


def dialog_of(forms: Sequence[DialogForm], screen: Screen) -> ScreenDialog | None:
    """The dialog at the end of the screen; None if none of these forms is there."""
    for form in forms:
        span = _span(form, screen.lines)
        if span is None:
            continue
        lines = tuple(filter(None, (_FRAME.sub("", line) for line in span)))
        keys = _keys(form, span)
        text = "\n".join(lines)
        hidden = any(not (char.isprintable() or char == "\n") for char in text)
        if keys:
            return ScreenDialog(lines, keys, form.hides or hidden or re.search(form.cut, text) is not None)
    return None


def _keys(form: DialogForm, span: Sequence[str]) -> dict[ItemDecision, str]:
    """The keys of the list at the end of the dialog. What is asked for may contain a list too, further up."""
    listed: dict[str, str] = {}
    for line in reversed(span):
        option = re.match(form.option, line)
        if option is None:
            continue
        if listed and int(option[1]) != int(next(reversed(listed))) - 1:
            return {}
        listed[option[1]] = option[2].strip()
        if option[1] == "1":
            break
    if "1" not in listed:
        return {}
    return {
        decision: digit
        for decision, words in form.options.items()
        for digit, said in listed.items()
        if re.match(words, said)
    }


def _span(form: DialogForm, lines: Sequence[str]) -> Sequence[str] | None:
    """The lines of the dialog; nothing but its own frame and blanks may be below it."""
    last = next((at for at in range(len(lines) - 1, -1, -1) if re.match(form.ends, lines[at])), None)
    if last is None:
        return None
    first = next((at for at in range(last, -1, -1) if re.match(form.begins, lines[at])), None)
    return None if first is None else lines[first : last + 1]
