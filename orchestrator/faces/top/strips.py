"""Turns parts, which are texts with the name of a style, into strips of Textual. Texts are never read as markup."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from orchestrator.faces.top.team_layout import Part


@functools.cache
def style_named(name: str) -> Style:
    """The style of a name: words such as ``bold red``; a colour is that of the terminal."""
    return Style.parse(name) if name else Style()


def drawn(parts: Sequence[Part]) -> Strip:
    """The parts as a strip as long as they are."""
    return Strip([Segment(text, style_named(name)) for text, name in parts if text])
