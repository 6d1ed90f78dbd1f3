"""A widget of one line: parts with styles, cut where the terminal ends. Texts are never read as markup."""

from __future__ import annotations

from collections.abc import Sequence

from textual.strip import Strip
from textual.widget import Widget

from orchestrator.faces.top.strips import drawn
from orchestrator.faces.top.team_layout import Part


class PlainLine(Widget):
    """One line; ``right`` stands at its right end if there is room for both."""

    DEFAULT_CSS = "PlainLine { height: 1; width: 1fr; }"

    def __init__(self, parts: Sequence[Part] = (), *, id: str | None = None) -> None:  # noqa: A002  (Textual's word)
        super().__init__(id=id)
        self._parts = list(parts)
        self._right: list[Part] = []

    @property
    def text(self) -> str:
        """The line as plain text."""
        return "".join(text for text, _ in self._parts)

    def show(self, parts: Sequence[Part], right: Sequence[Part] = ()) -> None:
        """Show these parts; draws nothing if they are the same."""
        if (list(parts), list(right)) != (self._parts, self._right):
            self._parts, self._right = list(parts), list(right)
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """The line."""
        width = self.size.width
        if y:
            return Strip.blank(width, self.rich_style)
        left, right = drawn(self._parts), drawn(self._right)
        room = width - right.cell_length
        if self._right and left.cell_length < room:
            strip = Strip.join([left.adjust_cell_length(room), right])
        else:
            strip = left.adjust_cell_length(width)
        return strip.apply_style(self.rich_style)
