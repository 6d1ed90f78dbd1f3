"""Lay out the table of top for a width: an agent or run as cells, and its lines as texts with styles. Pure.

Texts of the snapshot are printable already. A style is a name: of a colour, ``dim``, ``bold``, or empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from orchestrator.base.text_width import columns_of, cut
from orchestrator.faces.row_words import (
    StateWord,
    cost_text,
    diff_text,
    outcome_texts,
    run_state,
    since_of,
    state_of,
    tokens_text,
)
from orchestrator.faces.status_lines import task_text
from orchestrator.faces.text_table import age

NARROW = 60
"""Below this width a row is its state, its agent, for how long, and one text."""
WORDS = 36  # below it the state is its sign alone
GAP = 2
AGENT_MOST = 20
_LEAST_TASK = 12
_OPTIONAL = (("diff", 92), ("tokens", 104), ("screen", 150))
"""Columns that are shown from a width on."""
_TITLES = {
    "state": "STATE", "agent": "AGENT", "host": "HOST", "task": "TASK", "age": "FOR", "queue": "Q", "ended": "✓/✕",
    "cost": "COST", "diff": "DIFF", "tokens": "TOKENS", "screen": "SCREEN",
}  # fmt: skip
_RIGHT = frozenset(("age", "queue", "ended", "cost", "diff", "tokens"))

Part = tuple[str, str]


class TeamCells(NamedTuple):
    """One row of the table: what does not depend on the time or the width. ``waits`` stands on a line of its own."""

    key: str
    needs_human: bool
    state: StateWord
    since: str | None
    waits: str
    cells: Mapping[str, str]


class ColumnWidths(NamedTuple):
    """The columns of the table that fit a terminal of ``width``, in order, each with its size.

    ``narrow``: a row is one line only.
    """

    width: int
    sizes: Mapping[str, int]
    narrow: bool


def agent_cells(row: Mapping[str, Any], name: str, *, ascii_only: bool = False) -> TeamCells:
    """The cells of an agent's row; ``name`` is what people call it."""
    waits = row.get("waits_for") or {}
    state = state_of(row, ascii_only=ascii_only)
    task = task_text(dict(row), ascii_only=ascii_only)
    last = row.get("last_task") or {}
    if not row.get("running_task_id") and last.get("outcome") == "error" and last.get("reason"):
        task += f": {last['reason']}"
    text = str(waits.get("text") or "")
    if not text and row.get("status") in ("blocked", "stalled", "failed", "exited"):
        text = str(row.get("reason") or "")
    return TeamCells(
        f"agent:{row['agent_id']}",
        bool(row.get("needs_human")),
        state,
        since_of(row),
        _line(text),
        {
            "agent": _line(name),
            "host": _line(str(row.get("host") or "")),
            "task": _line(task),
            "queue": str(row.get("queue_depth") or ""),
            "ended": outcome_texts(row.get("finished") or {}),
            "cost": cost_text(row.get("usage"), ascii_only=ascii_only),
            "diff": diff_text(row.get("diff"), ascii_only=ascii_only),
            "tokens": tokens_text(row.get("usage")),
            "screen": _line(str(row.get("screen_line") or "")),
        },
    )


def run_cells(run: Mapping[str, Any], *, ascii_only: bool = False) -> TeamCells:
    """The cells of a spawn run or a squad."""
    done, failed, total = (int(run.get(key) or 0) for key in ("done", "failed", "total"))
    wave = f", wave {run.get('wave')}/{run['waves']}" if run.get("waves") else ""
    title = str(run.get("title") or "")
    cost = run.get("cost_usd")
    return TeamCells(
        f"run:{run['id']}",
        bool(run.get("needs_human")),
        run_state(run, ascii_only=ascii_only),
        run.get("since"),
        _line(str(run.get("reason") or "")) if run.get("needs_human") else "",
        {
            "agent": _line(f"{run.get('kind', 'run')} {str(run['id'])[:8]}"),
            "host": "",
            "task": _line(f"{done}/{total}{wave}{': ' if title else ''}{title}"),
            "queue": "",
            "ended": f"{done}/{failed}",
            "cost": "" if cost is None else f"${float(cost):.2f}",
            "diff": "",
            "tokens": "",
            "screen": "",
        },
    )


def widths_for(rows: Sequence[TeamCells], width: int, *, scrolls: bool = False) -> ColumnWidths:
    """The columns for these rows in a terminal of this width. ``scrolls``: a scroll bar takes one terminal column."""
    shows = width - scrolls
    room = shows - 2  # the mark of the chosen row
    words = max((len(row.state.word) for row in rows), default=4)
    state = 1 if width < WORDS else max(5, words + 2)
    of_agents = [row for row in rows if width >= NARROW or row.key.startswith("agent:")]
    agent = min(AGENT_MOST, max((columns_of(row.cells["agent"]) for row in of_agents), default=0))
    if width < NARROW:
        gap = 1
        agent = max(3, min(agent, room // 3))
        task = room - state - agent - 4 - 3 * gap
        sizes = {"state": state, "agent": agent, "age": 4, "task": task}
        return ColumnWidths(shows, {name: size for name, size in sizes.items() if size > 0}, narrow=True)
    sizes = {
        "state": state,
        "agent": max(8, agent),
        "host": 0,
        "task": 0,
        "age": 4,
        "queue": 0,
        "ended": 0,
        "cost": 0,
    }
    shown = [name for name, least in _OPTIONAL if width >= least]
    for name in ("host", "queue", "ended", "cost", *(part for part in shown if part != "screen")):
        need = max((columns_of(row.cells[name]) for row in rows), default=0)
        sizes[name] = max(need, len(_TITLES[name])) if need else 0
    sizes["host"] = min(sizes["host"], 16)
    # What has no room goes, the least needed first.
    for name in ("tokens", "diff", "host", "cost", "queue"):
        if _spare(sizes, room) >= _LEAST_TASK:
            break
        sizes[name] = 0
    spare = _spare(sizes, room)
    if "screen" in shown and any(row.cells["screen"] for row in rows):
        need = max((columns_of(row.cells["task"]) for row in rows), default=0)
        task = max(min(need, spare * 3 // 5), 24)
        if spare - task - GAP >= 20:
            sizes["task"], sizes["screen"] = task, spare - task - GAP
    if not sizes.get("screen"):
        sizes["task"] = max(spare, 1)
    return ColumnWidths(shows, {name: size for name, size in sizes.items() if size}, narrow=False)


def title_line(widths: ColumnWidths, *, ascii_only: bool = False) -> str:
    """The titles of the columns."""
    titles = _TITLES | ({"ended": "+/x"} if ascii_only else {})
    gap = " " * (1 if widths.narrow else GAP)
    parts = []
    for name, size in widths.sizes.items():
        title = "" if size < 3 and name == "state" else titles[name]
        parts.append(_fitted(title, size, right=name in _RIGHT))
    return "  " + gap.join(parts)


def row_line(
    row: TeamCells, widths: ColumnWidths, now: datetime, *, chosen: bool, ascii_only: bool = False
) -> list[Part]:
    """The first line of a row."""
    gap = " " * (1 if widths.narrow else GAP)
    mark = (">" if ascii_only else "▶") if chosen else " "
    parts: list[Part] = [(f"{mark} ", "bold" if chosen else "")]
    state = row.state.sign if widths.sizes.get("state", 1) < 3 else f"{row.state.sign} {row.state.word}"
    for at, (name, size) in enumerate(widths.sizes.items()):
        if at:
            parts.append((gap, ""))
        if name == "state":
            parts.append((_fitted(state, size), row.state.color))
        elif name == "age":
            parts.append((_fitted(age(row.since, now), size, right=True), "dim" if not row.needs_human else ""))
        elif name == "task" and widths.narrow:
            parts.append((_fitted(row.waits or row.cells["task"], size), ""))
        else:
            style = {"screen": "dim", "agent": "bold" if row.needs_human else ""}.get(name, "")
            parts.append((_fitted(row.cells[name], size, right=name in _RIGHT), style))
    return parts


def waits_line(row: TeamCells, widths: ColumnWidths) -> list[Part]:
    """The second line of a row: what it waits for, below its agent's name."""
    before = 2 + widths.sizes.get("state", 0) + GAP
    return [(" " * before, ""), (_fitted(row.waits, max(1, widths.width - before)), row.state.color)]


def has_second_line(row: TeamCells, widths: ColumnWidths) -> bool:
    """Whether the row needs a line for what it waits for."""
    return bool(row.waits) and not widths.narrow


def matching(rows: Iterable[TeamCells], text: str, *, needs_me: bool) -> list[TeamCells]:
    """The rows that contain the text, in small or capital letters, and with ``needs_me`` those that need a human."""
    wanted = text.casefold().split()
    return [
        row
        for row in rows
        if (row.needs_human or not needs_me)
        and all(
            word in f"{row.key} {row.state.word} {row.waits} {' '.join(row.cells.values())}".casefold()
            for word in wanted
        )
    ]


def _spare(sizes: Mapping[str, int], room: int) -> int:
    shown = [size for name, size in sizes.items() if size and name not in ("task", "screen")]
    return room - sum(shown) - GAP * len(shown)


def _fitted(text: str, size: int, *, right: bool = False) -> str:
    text = cut(text, size)
    blank = " " * (size - columns_of(text))
    return blank + text if right else text + blank


def _line(text: str) -> str:
    """The text on one line, without what a terminal would act on."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if char in "\n\t" else "\ufffd" for char in text)
