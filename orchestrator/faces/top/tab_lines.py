"""Lines of texts from files, models and screens, made safe for a terminal. Pure."""

from __future__ import annotations

from orchestrator.faces.top.team_layout import Part

TabLine = str | list[Part]
NO_BREAK = "\u00a0"
"""A space at which no line is broken; CLIs draw with it, and it hides nothing."""


def shown_line(text: str) -> str:
    """The text on one line, what a terminal would act on made visible."""
    if text.isprintable():
        return text
    text = text.expandtabs(8).replace("\n", "\\n").replace(NO_BREAK, " ")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
