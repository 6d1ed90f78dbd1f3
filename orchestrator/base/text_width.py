"""Measure the width of a text in terminal columns, and cut texts to fit. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

ELLIPSIS = "…"


def columns_of(text: str) -> int:
    """How many columns of a terminal the text needs: wide letters two, marks that join a letter none."""
    if text.isascii():
        return len(text)
    return sum(_width(char) for char in text)


def cut(text: str, width: int, end: str = ELLIPSIS) -> str:
    """The text in at most ``width`` columns. A longer text is cut between two letters, and ends with ``end``."""
    if columns_of(text) <= width:
        return text
    used, kept = 0, ""
    for char in text:
        used += _width(char)
        if used > width - len(end):
            break
        kept += char
    return kept.rstrip() + end if width > 0 else ""


def pieces(line: str, room: int) -> Iterator[str]:
    """A line in pieces of at most ``room`` columns; an empty line is one piece."""
    start = used = 0
    for at, char in enumerate(line):
        # A letter of ambiguous width counts as wide: a piece must fit on every terminal.
        width = 2 if unicodedata.east_asian_width(char) in "WFA" else 1
        if used + width > room:
            yield line[start:at]
            start, used = at, 0
        used += width
    yield line[start:]


def _width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    # tmux, like most terminals, shows letters of ambiguous width in one column.
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
