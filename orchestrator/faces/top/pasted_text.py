"""Keeps pasted text from acting: Textual takes what follows an escape character inside a paste for keys.

Changes nothing of what a person types.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver
from textual.message import Message

BEGIN, END = "\x1b[200~", "\x1b[201~"
ESCAPE_SHOWN = "\u241b"


class PastedText:
    """Follows the input of a terminal, which comes in pieces."""

    def __init__(self) -> None:
        self._inside = False
        # Of a marker that is not complete yet: of an END, held back, or of a BEGIN, passed on already.
        self._rest = ""

    def harmless(self, data: str) -> str:
        """The input with the escape characters inside pastes shown as a sign."""
        out = []
        passed = 0 if self._inside else len(self._rest)
        data, self._rest = self._rest + data, ""
        while True:
            mark = END if self._inside else BEGIN
            at = data.find(mark)
            text = data if at < 0 else data[:at]
            if at < 0:
                self._rest = _beginning(data, mark)
                if self._inside and self._rest:
                    text = data[: -len(self._rest)]
            out.append(text.replace("\x1b", ESCAPE_SHOWN) if self._inside else text)
            if at < 0:
                break
            out.append(mark)
            self._inside = not self._inside
            data = data[at + len(mark) :]
        return "".join(out)[passed:]


def _beginning(data: str, mark: str) -> str:
    """The longest end of the data with which the mark may begin."""
    sizes = range(min(len(mark) - 1, len(data)), 0, -1)
    return next((data[-size:] for size in sizes if mark.startswith(data[-size:])), "")


class SafePasteParser(XTermParser):
    """Textual's parser of input over harmless pastes."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._pasted = PastedText()

    def feed(self, data: str) -> Iterable[Message]:
        """As Textual's."""
        return super().feed(self._pasted.harmless(data) if data else data)


def install() -> None:
    """Let Textual's driver for terminals use this parser."""
    linux_driver.XTermParser = SafePasteParser  # type: ignore[attr-defined]  # it imports the name
