"""Lay out a table as lines for a terminal's width: one line a row, cut with … and never wrapped; ages. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from orchestrator.base.text_width import columns_of, cut


class Column(NamedTuple):
    """One column: ``least`` is how many terminal columns it keeps where there is no room; 0: it is never cut."""

    title: str
    cells: Sequence[str]
    least: int = 0
    right: bool = False


def lines_of(columns: Sequence[Column], width: int | None) -> list[str]:
    """The titles and then one line a row, none wider than ``width``; None: as wide as the cells are.

    A column without a title and without content is left out.
    """
    shown = [column for column in columns if any(column.cells)]
    gap = "  " if width is None or width >= 60 else " "
    widths = _widths(shown, width, len(gap))
    lines = []
    for cells in [[column.title for column in shown], *zip(*(column.cells for column in shown), strict=True)]:
        parts = [_padded(cell, size, column.right) for cell, size, column in zip(cells, widths, shown, strict=True)]
        line = gap.join(parts).rstrip()
        lines.append(line if width is None else cut(line, width))
    return lines


def age(at: str | None, now: datetime) -> str:
    """How long ago an RFC 3339 instant was, in the largest unit that says it; ``-`` for None or nonsense."""
    try:
        then = datetime.fromisoformat(str(at))
        seconds = max(0, int((now - then).total_seconds()))
    except (ValueError, TypeError):
        return "-"
    for size, letter in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{letter}"
    return f"{seconds}s"


def _widths(columns: Sequence[Column], width: int | None, gap: int) -> list[int]:
    """The room of each column: what its cells need, less where ``width`` does not suffice."""
    needed = [max(columns_of(text) for text in (column.title, *column.cells)) for column in columns]
    if width is None:
        return needed
    sizes = [min(column.least, need) or need for column, need in zip(columns, needed, strict=True)]
    spare = width - sum(sizes) - gap * max(0, len(columns) - 1)
    growing = [at for at, need in enumerate(needed) if sizes[at] < need]
    while spare > 0 and growing:
        for at in growing:
            sizes[at] += spare > 0
            spare -= spare > 0
        growing = [at for at in growing if sizes[at] < needed[at]]
    return sizes


def _padded(text: str, size: int, right: bool) -> str:
    text = cut(text, size)
    blank = " " * (size - columns_of(text))
    return blank + text if right else text + blank
