"""The widget that shows the team as a table: draws lines in view only, and of these only those that changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from orchestrator.faces.text_table import age
from orchestrator.faces.top.strips import drawn
from orchestrator.faces.top.team_layout import (
    ColumnWidths,
    TeamCells,
    has_second_line,
    row_line,
    waits_line,
    widths_for,
)

CHOSEN = Style(reverse=True)


class RowChosen(Message):
    """Another row is the chosen one."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key


class RowOpened(Message):
    """A row was clicked twice."""


class WidthsChanged(Message):
    """The columns have other widths."""


class TableLine(NamedTuple):
    """One line of the table: its row, and whether it is the row's second line."""

    row: TeamCells
    second: bool


class TeamTable(ScrollView, can_focus=False):
    """The rows of the snapshot; the chosen one stays chosen while rows move."""

    DEFAULT_CSS = "TeamTable { scrollbar-size-vertical: 1; overflow-x: hidden; }"

    def __init__(self, *, ascii_only: bool = False) -> None:
        super().__init__(id="team")
        self._ascii = ascii_only
        self._rows: list[TeamCells] = []
        self._lines: list[TableLine] = []
        self._ages: dict[str, str] = {}
        self.widths = ColumnWidths(80, {}, narrow=False)
        self.key = ""

    @property
    def chosen(self) -> TeamCells | None:
        """The chosen row."""
        return next((row for row in self._rows if row.key == self.key), None)

    @property
    def lines_wanted(self) -> int:
        """How many lines show all rows."""
        return len(self._lines)

    def show(self, rows: Sequence[TeamCells]) -> None:
        """Show these rows; draws what differs from before."""
        self._rows = list(rows)
        if rows and self.chosen is None:
            self._choose(self._near(self.key))
        self._lay_out()

    def _near(self, key: str) -> str:
        """The row at the place of one that is gone, else the first."""
        at = next((y for y, line in enumerate(self._lines) if line.row.key == key), 0)
        left = {row.key for row in self._rows}
        after = next((line.row.key for line in self._lines[at:] if line.row.key in left), "")
        return after or self._rows[0 if at == 0 else -1].key

    def _lay_out(self) -> None:
        before, widths = self._lines, self.widths
        width = self.size.width or 80
        self.widths = widths_for(self._rows, width)
        self._lines = [
            TableLine(row, second)
            for row in self._rows
            for second in ((False, True) if has_second_line(row, self.widths) else (False,))
        ]
        if len(self._lines) > self.size.height:  # the scroll bar takes a column
            self.widths = widths_for(self._rows, width, scrolls=True)
        self.virtual_size = Size(self.size.width, len(self._lines))
        if widths != self.widths:
            self.post_message(WidthsChanged())
        if widths != self.widths or len(before) != len(self._lines):
            self.refresh()
            return
        top = self.scroll_offset.y
        for y in range(top, min(top + self.size.height, len(self._lines))):
            if before[y] != self._lines[y]:
                self._refresh_line(y)

    def tick(self) -> None:
        """Draw the ages in view that are other ones by now."""
        now, top = datetime.now(UTC), self.scroll_offset.y
        for y in range(top, min(top + self.size.height, len(self._lines))):
            line = self._lines[y]
            if not line.second and self._ages.get(line.row.key) != age(line.row.since, now):
                self._refresh_line(y)

    def on_resize(self) -> None:
        """Another width, other columns."""
        self._lay_out()
        self.call_after_refresh(self._in_view)

    def _refresh_line(self, y: int) -> None:
        self.refresh(Region(0, y - self.scroll_offset.y, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        """One line of the view."""
        at, width = y + self.scroll_offset.y, self.size.width
        if at >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        row, second = self._lines[at]
        chosen = row.key == self.key
        if second:
            strip = drawn(waits_line(row, self.widths))
        else:
            now = datetime.now(UTC)
            self._ages[row.key] = age(row.since, now)
            strip = drawn(row_line(row, self.widths, now, chosen=chosen, ascii_only=self._ascii))
        strip = strip.adjust_cell_length(width).apply_style(self.rich_style)
        return strip.apply_style(CHOSEN) if chosen and not second else strip

    # -- choosing ---------------------------------------------------------------------------------------------------

    def move(self, by: int) -> None:
        """Choose the row that is so many rows below."""
        keys = [row.key for row in self._rows]
        if keys:
            at = keys.index(self.key) if self.key in keys else 0
            self._choose(keys[max(0, min(len(keys) - 1, at + by))])

    def page(self, direction: int) -> None:
        """Choose the row one view below or above."""
        self.move(direction * max(1, self.size.height - 1))

    def choose(self, key: str) -> None:
        """Choose a row by its key, if it is shown."""
        if any(row.key == key for row in self._rows):
            self._choose(key)

    def _choose(self, key: str) -> None:
        if key == self.key:
            return
        before, self.key = self.key, key
        for y, line in enumerate(self._lines):
            if line.row.key in (before, key):
                self._refresh_line(y)
        self._in_view()
        self.post_message(RowChosen(key))

    def _in_view(self) -> None:
        ys = [y for y, line in enumerate(self._lines) if line.row.key == self.key]
        if not ys or not self.size.height:
            return
        top, height = self.scroll_offset.y, self.size.height
        if ys[0] < top:
            self.scroll_to(0, ys[0], animate=False)
        elif ys[-1] >= top + height:
            self.scroll_to(0, ys[-1] - height + 1, animate=False)

    def on_click(self, event: events.Click) -> None:
        """A click chooses a row, a second one goes to its pane."""
        at = event.y + self.scroll_offset.y
        if 0 <= at < len(self._lines):
            self._choose(self._lines[at].row.key)
            if event.chain > 1:
                self.post_message(RowOpened())
