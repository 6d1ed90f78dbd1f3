"""Stop pasted text from acting as keys: Textual reads the text after an escape character in a paste as keys.

Typed input is not changed.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver
from textual.message import Message

BEGIN, END = "\x1b[200~", "\x1b[201~"
ESCAPE_SHOWN = "\u241b"


class PastedText:
    """Tracks pastes in a terminal's input, which comes in pieces."""

    def __init__(self) -> None:
        self._inside = False
        # The beginning of an incomplete marker: of END, which is held back, or of BEGIN, which was already passed on.
        self._rest = ""

    def harmless(self, data: str) -> str:
        """The input, with each escape character in a paste replaced by a visible sign."""
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
    """The longest end of the data that is a beginning of the mark."""
    sizes = range(min(len(mark) - 1, len(data)), 0, -1)
    return next((data[-size:] for size in sizes if mark.startswith(data[-size:])), "")


class SafePasteParser(XTermParser):
    """Textual's input parser, fed with harmless pastes."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._pasted = PastedText()

    def feed(self, data: str) -> Iterable[Message]:
        """As Textual's."""
        return super().feed(self._pasted.harmless(data) if data else data)


def install() -> None:
    """Make Textual's terminal driver use this parser."""
    linux_driver.XTermParser = SafePasteParser  # type: ignore[attr-defined]  # it imports the name
