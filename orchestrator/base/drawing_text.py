"""Words as they may stand in a drawing: escaped, with what is not printable made visible, cut to their room. Pure."""

from __future__ import annotations

from html import escape
from unicodedata import east_asian_width


def said(text: object, cells: int = 0) -> str:
    """Text as it may stand in XML and HTML, also in quotes; cut to ``cells`` columns if given."""
    shown = _visible(text)
    return escape(cut(shown.replace("\n", " "), cells) if cells else shown, quote=True)


def said_end(text: object, cells: int) -> str:
    """As ``said``, cut at its beginning: of a path the end tells most."""
    return escape(cut(_visible(text).replace("\n", " ")[::-1], cells)[::-1], quote=True)


def cut(text: str, cells: int) -> str:
    """The first ``cells`` columns of a text, with an ellipsis where something is missing."""
    used = 0
    for at, c in enumerate(text):
        used += 2 if east_asian_width(c) in "WF" else 1
        if used > cells:
            return text[: max(0, at - 1)] + "…"
    return text


def _visible(text: object) -> str:
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape", "surrogatepass").decode() for c in str(text)
    )
