"""A widget that shows lines of text, as long as they are: scrolling, search, and the end kept in view."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from orchestrator.base.text_width import columns_of
from orchestrator.faces.top.strips import drawn, style_named
from orchestrator.faces.top.team_layout import Part

MATCH = Style(reverse=True)


class LineView(ScrollView, can_focus=False):
    """Lines, each a text or parts with styles; only those in view are drawn."""

    DEFAULT_CSS = "LineView { scrollbar-size: 1 1; }"

    def __init__(self, *, id: str | None = None, wrap: bool = False) -> None:  # noqa: A002  (Textual's word)
        super().__init__(id=id)
        self._given: list[list[Part]] = []
        self._lines: list[list[Part]] = []
        self.wrap = wrap
        self._wanted = ""
        self.match_line = -1

    @property
    def texts(self) -> list[str]:
        """The lines as plain text."""
        return ["".join(text for text, _ in line) for line in self._lines]

    def show(
        self, lines: Sequence[str | list[Part]], *, at_end: bool = False, keep: bool = True, wrap: bool | None = None
    ) -> None:
        """Show these lines; ``keep`` the place, or, ``at_end``, stay at the end if that is in view."""
        given = [[(line, "")] if isinstance(line, str) else line for line in lines]
        if given == self._given and wrap in (None, self.wrap):
            return
        if wrap is not None and wrap != self.wrap:
            self.wrap = wrap
            self._given = []
        was_at_end = not self._given or self.scroll_offset.y >= self.max_scroll_y
        before = self._lines
        self._given = given
        self._lay_out()
        if not keep and not at_end:
            self.scroll_to(0, 0, animate=False)
        elif at_end and (was_at_end or not keep):
            self.scroll_to(self.scroll_offset.x, len(self._lines), animate=False)
        if len(before) != len(self._lines):
            self.refresh()
            return
        top, height = self.scroll_offset.y, self.size.height
        for y in range(top, min(top + height, len(self._lines))):
            if before[y] != self._lines[y]:
                self.refresh(Region(0, y - top, self.size.width, 1))

    def on_resize(self) -> None:
        """Lines are broken anew if they are broken at all."""
        if self.wrap:
            self._lay_out()

    def _lay_out(self) -> None:
        width = self.size.width if self.wrap else 0
        self._lines = self._broken_at(width)
        if width > 1 and len(self._lines) > self.size.height:  # the scroll bar takes a column
            self._lines = self._broken_at(width - 1)
        longest = max((sum(columns_of(text) for text, _ in line) for line in self._lines), default=0)
        self.virtual_size = Size(0 if self.wrap else longest, len(self._lines))

    def _broken_at(self, width: int) -> list[list[Part]]:
        return [piece for line in self._given for piece in (_broken(line, width) if width else [line])]

    def search(self, text: str, *, backwards: bool = False) -> bool:
        """Go to the next line that contains the text; False if none does."""
        self._wanted = text.casefold()
        if not text:
            self.match_line = -1
            self.refresh()
            return True
        hits = [y for y, line in enumerate(self.texts) if self._wanted in line.casefold()]
        if not hits:
            self.match_line = -1
            self.refresh()
            return False
        start = self.match_line if self.match_line >= 0 else self.scroll_offset.y - (0 if backwards else 1)
        after = [y for y in hits if y > start]
        earlier = [y for y in hits if y < start]
        self.match_line = (earlier[-1] if earlier else hits[-1]) if backwards else (after[0] if after else hits[0])
        text, left, width = self.texts[self.match_line], self.scroll_offset.x, self.size.width
        at = columns_of(text[: text.casefold().find(self._wanted)])
        if not left <= at <= left + width - columns_of(self._wanted):
            left = max(0, at - width // 2)
        self.scroll_to(left, max(0, self.match_line - self.size.height // 2), animate=False)
        self.refresh()
        return True

    def render_line(self, y: int) -> Strip:
        """One line of the view."""
        left, top = self.scroll_offset
        at, width = y + top, self.size.width
        if at >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        parts = self._lines[at]
        if self._wanted and self._wanted in "".join(text for text, _ in parts).casefold():
            strip = Strip(_marked(parts, self._wanted))
        else:
            strip = drawn(parts)
        return strip.crop_extend(left, left + width, self.rich_style).apply_style(self.rich_style)


def _marked(parts: list[Part], wanted: str) -> list[Segment]:
    """The parts with what was searched for made visible; a part that hides it across its end is drawn as it is."""
    out: list[Segment] = []
    for text, name in parts:
        style, folded, at = style_named(name), text.casefold(), 0
        if len(folded) != len(text):
            out.append(Segment(text, style))
            continue
        while (hit := folded.find(wanted, at)) >= 0:
            out += [Segment(text[at:hit], style), Segment(text[hit : hit + len(wanted)], style + MATCH)]
            at = hit + len(wanted)
        out.append(Segment(text[at:], style))
    return [segment for segment in out if segment.text]


def _broken(line: list[Part], width: int) -> list[list[Part]]:
    """The line in pieces of at most ``width`` columns, broken at spaces where that is possible."""
    if sum(columns_of(text) for text, _ in line) <= width:
        return [line]
    text, style = "".join(part for part, _ in line), line[0][1]
    pieces: list[list[Part]] = []
    begin = used = 0
    space = -1
    for at, char in enumerate(text):
        wide = 1 if char.isascii() else columns_of(char)
        if used + wide > width and at > begin:
            end = space if space > begin + width // 2 else at
            pieces.append([(text[begin:end], style)])
            begin = end + 1 if end == space else end
            used = columns_of(text[begin:at])
        if char == " ":
            space = at
        used += wide
    return [*pieces, [(text[begin:], style)]]
