"""Lay out the status of a team for a terminal's width: one line an agent, who needs a human first. Pure.

Rows are those of agent_list, their texts printable. Nothing here writes or asks, so that any display can use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from orchestrator.base.text_width import cut
from orchestrator.core.attention import in_order, needs_human
from orchestrator.core.glyphs import outcome_sign
from orchestrator.faces.row_words import cost_text, diff_text, since_of, state_of, totals_parts
from orchestrator.faces.text_table import Column, age, lines_of

SAYS_NOTHING = ("busy", "idle", "parked")
"""Statuses whose reason repeats the status."""
WIDE = 90  # columns from which task and reason have a column each
WORDS = 48  # columns from which the status is shown as a word too


class StatusLine(NamedTuple):
    """One line; its first ``colored`` characters show a state in ``color``, which is empty for titles."""

    text: str
    color: str = ""
    colored: int = 0


def status_lines(
    rows: Sequence[dict[str, Any]],
    width: int | None,
    now: datetime,
    *,
    names: Mapping[str, str] | None = None,
    ascii_only: bool = False,
) -> list[StatusLine]:
    """The titles and one line an agent, none wider than ``width``; None: nothing is cut.

    ``names`` are shown in place of ids.
    """
    rows = in_order(rows)
    separate = width is None or width >= WIDE
    words = width is None or width >= WORDS
    known = [state_of(row, ascii_only=ascii_only) for row in rows]
    states = [f"{state.sign} {state.word}" if words else state.sign for state in known]
    work, why = [task_text(row, ascii_only=ascii_only) for row in rows], [reason_text(row) for row in rows]
    if not separate:
        work = [_joined(row, what, reason) for row, what, reason in zip(rows, work, why, strict=True)]
    ended = [row.get("finished") or {} for row in rows]
    marks = {kind: outcome_sign(kind, ascii_only=ascii_only) for kind in ("result", "error", "canceled")}
    columns = [
        Column("STATE" if words else "", states),
        Column("AGENT", [(names or {}).get(row["agent_id"], str(row["agent_id"])) for row in rows], least=8),
        Column("TASK", work, least=8),
        Column("FOR", [age(since_of(row), now) for row in rows], right=True),
        Column("QUEUE", [_above(row["queue_depth"], 0) for row in rows], right=True),
        *(Column(mark, [_above(done.get(kind), 0) for done in ended], right=True) for kind, mark in marks.items()),
    ]
    if separate:
        columns.insert(2, Column("HOST", [str(row.get("host") or "") for row in rows]))
        columns += [
            Column("DIFF", [diff_text(row.get("diff"), ascii_only=ascii_only) for row in rows], right=True),
            Column("COST", [cost_text(row.get("usage"), ascii_only=ascii_only) for row in rows], right=True),
            Column("REASON", why, least=10),
        ]
    if not words:  # a small pane: who, what, how long
        columns = columns[:4]
    title, *lines = lines_of(columns, width)
    return [
        StatusLine(title),
        *(StatusLine(line, of.color, len(state)) for line, of, state in zip(lines, known, states, strict=True)),
    ]


def footer(counted: Mapping[str, Any], width: int | None, *, ascii_only: bool = False) -> str:
    """The totals of a team in one line: ``12 agents · 2 need you · 7 busy · 41 ✓ 3 ✕``."""
    parts = totals_parts({"totals": counted}, ascii_only=ascii_only)
    line = (" - " if ascii_only else " · ").join(parts)
    return line if width is None else cut(line, width)


def task_text(row: dict[str, Any], *, ascii_only: bool = False) -> str:
    """The agent's task: ``attempt 2: make lint`` from the second attempt on; else its last one: ``✕ make lint``.

    The attempt comes first, because a narrow pane cuts the end.
    """
    if row.get("running_task_id"):
        title, attempt = str(row.get("running_task_title") or row["running_task_id"]), row.get("attempt") or 1
        again = f"attempt {attempt}: " if attempt > 1 else ""
        return again + title + (" (cancel requested)" if row.get("cancel_requested") else "")
    last = row.get("last_task")
    if not last:
        return ""
    return f"{outcome_sign(last['outcome'], ascii_only=ascii_only)} {last.get('title') or last['task_id']}"


def reason_text(row: dict[str, Any]) -> str:
    """Why the agent has its status; of an agent at rest why its last task failed."""
    waits = row.get("waits_for") or {}
    if waits.get("text"):
        return str(waits["text"])
    if row["status"] not in SAYS_NOTHING and row.get("reason"):
        return str(row["reason"])
    last = row.get("last_task") or {}
    return str(last.get("reason") or "") if row["status"] != "busy" and last.get("outcome") == "error" else ""


def _joined(row: dict[str, Any], work: str, reason: str) -> str:
    """Task and reason in one column: of an agent that needs a human the reason comes first."""
    first, second = (reason, work) if needs_human(row) else (work, reason)
    return ": ".join(filter(None, (first, second)))


def _above(number: Any, least: int) -> str:
    return str(number) if isinstance(number, int) and number > least else ""
