"""Who needs a human, and in which order people see agents. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

NEEDS_HUMAN = ("blocked", "stalled", "failed")
"""Statuses of an agent that stands still until somebody acts."""
_ORDER = {
    **dict.fromkeys(NEEDS_HUMAN, 0),
    **dict.fromkeys(("busy", "starting", "exited"), 1),
    **dict.fromkeys(("idle", "parked", "unknown"), 2),
    **dict.fromkeys(("stopping", "deleted"), 3),
}


def needs_human(row: Mapping[str, Any]) -> bool:
    """Whether the agent of this row of agent_list waits for somebody, by its status or by an item of the inbox."""
    return row["status"] in NEEDS_HUMAN or bool(row.get("needs_human"))


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows: who needs a human, the busy, the idle, the ended; the oldest status first."""
    return sorted(rows, key=lambda row: (_place(row), _since(row), str(row["agent_id"])))


def totals(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The team in numbers: ``{agents, need_you, busy, idle, ended, finished: {result, error, canceled}}``."""
    counted = {"agents": 0, "need_you": 0, "busy": 0, "idle": 0, "ended": 0}
    finished = {"result": 0, "error": 0, "canceled": 0}
    for row in rows:
        counted["agents"] += 1
        counted[("need_you", "busy", "idle", "ended")[_place(row)]] += 1
        for outcome, number in (row.get("finished") or {}).items():
            finished[outcome] = finished.get(outcome, 0) + number
    return {**counted, "finished": finished}


def _place(row: Mapping[str, Any]) -> int:
    return 0 if needs_human(row) else _ORDER.get(row["status"], 2)


def _since(row: Mapping[str, Any]) -> str:
    waits = row.get("waits_for") or {}
    return str(waits.get("since") or row.get("since") or "~")
