"""Draws the timeline of a team run as lines: agents as rows, tasks as bars, waits for a human marked. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple

from orchestrator.base.text_width import columns_of, cut
from orchestrator.core.glyphs import NEEDS_HUMAN
from orchestrator.faces.timeline import Lane, Timeline
from orchestrator.faces.top.team_layout import Part

NAME_MOST = 16
LABEL = 12  # columns between two labels of the axis
SIGNS = {
    "result": ("✓", "+", "green"),
    "error": ("✕", "x", "red"),
    "canceled": ("⊘", "-", ""),
    "": ("●", "*", "blue"),
}
"""Of a bar by its outcome, with what stands in for it in ASCII, and its colour."""
AGAIN = ("↻", "~", "cyan")
WAIT = NEEDS_HUMAN
LEAST_S = 1.0


class TimeWindow(NamedTuple):
    """What of the run is shown: two instants, in seconds since 1970."""

    begin: float
    end: float

    def zoomed(self, factor: float, whole: TimeWindow) -> TimeWindow:
        """Shows ``factor`` times as much, around the middle, within the whole run."""
        size = max(LEAST_S, min((self.end - self.begin) * factor, whole.end - whole.begin))
        middle = (self.begin + self.end) / 2
        return TimeWindow(middle - size / 2, middle + size / 2).within(whole)

    def moved(self, part: float, whole: TimeWindow) -> TimeWindow:
        """Shows what is that part of the window later, within the whole run."""
        by = (self.end - self.begin) * part
        return TimeWindow(self.begin + by, self.end + by).within(whole)

    def within(self, whole: TimeWindow) -> TimeWindow:
        """The window of the same size inside the whole run."""
        size = min(self.end - self.begin, whole.end - whole.begin)
        begin = max(whole.begin, min(self.begin, whole.end - size))
        return TimeWindow(begin, begin + size)


def whole_of(timeline: Timeline, now: datetime) -> TimeWindow:
    """All of the run; a live one ends now."""
    begin = seconds(timeline.begin, now.timestamp())
    ends = [seconds(bar.end, 0.0) for lane in timeline.agents for bar in lane.bars]
    end = max([seconds(timeline.end, now.timestamp()), *ends])
    return TimeWindow(begin, max(end, begin + LEAST_S))


def seconds(at: str | None, otherwise: float) -> float:
    """An RFC 3339 instant in seconds since 1970."""
    try:
        return datetime.fromisoformat(str(at)).timestamp()
    except ValueError:
        return otherwise


def name_width(timeline: Timeline, width: int) -> int:
    """The columns of the agents' names."""
    longest = max((columns_of(lane.name) for lane in timeline.agents), default=0)
    return max(1, min(longest, NAME_MOST, width // 3))


def axis_line(window: TimeWindow, width: int, names: int, zone: tzinfo | None = None) -> list[Part]:
    """The times, each at the column where its label begins."""
    room = max(1, width - names - 3)
    form = (
        "%H:%M:%S"
        if window.end - window.begin < 600
        else "%H:%M"
        if window.end - window.begin < 86400
        else "%d %H:%M"
    )
    text = ""
    for column in range(0, room, LABEL):
        at = window.begin + (window.end - window.begin) * column / room
        label = datetime.fromtimestamp(at, UTC).astimezone(zone).strftime(form)
        if column + len(label) + 1 <= room:
            text = text.ljust(column) + "|" + label
    return [(" " * (names + 3), ""), (text[:room], "dim")]


def lane_line(
    lane: Lane, window: TimeWindow, width: int, names: int, *, chosen: bool, ascii_only: bool = False
) -> list[Part]:
    """One agent: its name, its bars, and over them its waits for a human."""
    room = max(1, width - names - 3)
    cells: list[tuple[str, str]] = [(" ", "")] * room
    for bar in lane.bars:
        begin = seconds(bar.begin or bar.end, window.begin)
        sign, plain, color = SIGNS.get(bar.outcome, AGAIN)
        title = f"{bar.title} (attempt {bar.attempt})" if bar.attempt > 1 else bar.title
        end = window.end if not bar.end and bar.begin else seconds(bar.end, begin)
        _draw(
            cells,
            window,
            TimeWindow(begin, end),
            f"{plain if ascii_only else sign}{title}",
            f"reverse {color}".strip(),
        )
    for wait in lane.waits:
        begin = seconds(wait.begin, window.begin)
        sign, plain, color = WAIT
        end = window.end if not wait.end else seconds(wait.end, begin)
        _draw(
            cells,
            window,
            TimeWindow(begin, end),
            f"{plain if ascii_only else sign}{wait.kind}",
            f"reverse bold {color}",
        )
    name = cut(lane.name, names)
    mark = (">" if ascii_only else "▶") if chosen else " "
    parts: list[Part] = [(f"{mark} ", ""), (name + " " * (names - columns_of(name) + 1), "bold" if chosen else "")]
    for char, style in cells:
        if parts[-1][1] == style:
            parts[-1] = (parts[-1][0] + char, style)
        else:
            parts.append((char, style))
    return parts


def _draw(cells: list[tuple[str, str]], window: TimeWindow, span: TimeWindow, text: str, style: str) -> None:
    """Write a bar over the cells, with as much of the text as it has room for; at least one cell."""
    room, scale = len(cells), len(cells) / max(window.end - window.begin, 0.001)
    begin, end = span
    if end < window.begin or begin > window.end:
        return
    first = max(0, min(room - 1, int((begin - window.begin) * scale)))
    last = max(first, min(room - 1, int((end - window.begin) * scale) - 1))
    shown = text[:1]
    if last > first:
        shown = cut("".join(char if char.isprintable() else " " for char in text), last - first + 1)
    column = first
    for char in shown:
        if column > last:
            break
        cells[column] = (char, style)
        if columns_of(char) == 2 and column < last:  # a wide letter fills two cells
            cells[column + 1] = ("", style)
            column += 1
        column += columns_of(char) > 0
    for at in range(column, last + 1):
        cells[at] = (" ", style)


def details(lane: Lane, zone: tzinfo | None = None) -> list[str | list[Part]]:
    """All attempts and waits of one agent, as lines, in the order of time."""
    lines: list[tuple[float, list[Part]]] = []
    for bar in lane.bars:
        word = bar.outcome or "runs"
        begin, end = _clock(bar.begin, zone), _clock(bar.end, zone)
        why = f": {bar.why}" if bar.why else ""
        color = SIGNS.get(bar.outcome, AGAIN)[2]
        attempt = f" (attempt {bar.attempt})" if bar.attempt > 1 else ""
        parts: list[Part] = [(f"{begin} - {end}  ", "dim"), (word, color), (f"  {bar.title}{attempt}{why}", "")]
        lines.append((seconds(bar.begin or bar.end, 0.0), parts))
    for wait in lane.waits:
        answer = f": {wait.answer}" + (f" by {wait.by}" if wait.by else "") if wait.answer else ""
        how = answer or (f": {wait.reason}" if wait.reason else "")
        parts = [
            (f"{_clock(wait.begin, zone)} - {_clock(wait.end, zone)}  ", "dim"),
            (f"waited for a human ({wait.kind})", "yellow"),
            (f"  {wait.text}{how}", ""),
        ]
        lines.append((seconds(wait.begin, 0.0), parts))
    return [parts for _, parts in sorted(lines, key=lambda line: line[0])] or [[("no task yet", "dim")]]


def gap_lines(timeline: Timeline) -> Sequence[str | list[Part]]:
    """What is missing of the records."""
    return [[(f"records missing: {gap.log}: {gap.why}", "yellow")] for gap in timeline.gaps[:20]]


def _clock(at: str | None, zone: tzinfo | None) -> str:
    return datetime.fromtimestamp(seconds(at, 0.0), UTC).astimezone(zone).strftime("%H:%M:%S") if at else "now"
