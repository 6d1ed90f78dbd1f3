"""HTML elements that are safe by construction: text becomes markup only by being escaped. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from orchestrator.base.svg_page import escaped

_VOID = frozenset(("input", "br", "hr", "meta", "link", "img"))
TAB_COLUMNS = 8


class Markup(str):
    """Markup that was made here. Every other text is escaped when it is put into an element."""

    __slots__ = ()


Content = Markup | str | int | float | None
NOTHING = Markup("")


def element(tag: str, /, *content: Content, **attributes: Any) -> Markup:
    """One element. Names of attributes: `class_` is ``class``, other underscores are hyphens.

    An attribute that is None or False is left out, one that is True has no value.
    """
    shown = "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escaped(value)}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _VOID:
        return Markup(f"<{tag}{shown}>")
    return Markup(f"<{tag}{shown}>{joined(content)}</{tag}>")


def joined(content: Iterable[Content]) -> Markup:
    """Several pieces after each other; plain text among them is escaped."""
    return Markup("".join(piece if isinstance(piece, Markup) else _text(piece) for piece in content))


def name_of(text: object) -> Markup:
    """A name or sentence of somebody else: it keeps its own direction of writing, and nothing around it changes."""
    return element("bdi", str(text))


def preformatted(text: str, **attributes: Any) -> Markup:
    """Text in which every space counts, with tabs as spaces; the keyboard can scroll it."""
    lines = "\n".join(line.expandtabs(TAB_COLUMNS) for line in text.replace("\r\n", "\n").split("\n"))
    return element("pre", lines, **{"tabindex": "0", "dir": "ltr", **attributes})


def path_to(*words: str) -> str:
    """A path of this site in which each word is one step, whatever is in it."""
    return "/" + "/".join(quote(word, safe="", errors="replace") for word in words)


def _text(piece: Content) -> str:
    return "" if piece is None else escaped(piece)
