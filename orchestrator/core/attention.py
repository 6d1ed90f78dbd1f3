"""Who needs a human, in which words and in which order people see agents, and a team in numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.core.model_usage import usage_total

NEEDS_HUMAN = ("blocked", "stalled", "failed")
"""Statuses of an agent that cannot continue until somebody acts."""
_AT_REST = ("idle", "parked")
_ORDER = {
    **dict.fromkeys(NEEDS_HUMAN, 0),
    **dict.fromkeys(("busy", "starting", "exited"), 1),
    **dict.fromkeys((*_AT_REST, "unknown"), 2),
    **dict.fromkeys(("stopping", "deleted"), 3),
}


_WAITS = {
    "permission": "asks",
    "question": "asks",
    "dialog": "asks",
    "hooks": "asks",
    "login": "login",
    "trust": "trust",
    "rate_limit": "limit",
}
"""What an agent waits for, in one word, by the kind of its item or block. Other kinds show the status."""


def needs_human(row: Mapping[str, Any]) -> bool:
    """Whether the agent of this row of agent_list waits for somebody, by its status or by an item of the inbox."""
    return row["status"] in NEEDS_HUMAN or bool(row.get("needs_human"))


def state_word(row: Mapping[str, Any]) -> str:
    """The agent's state in one word, the same everywhere: what it waits for if it needs a human, else its status."""
    if not needs_human(row):
        return str(row["status"])
    kind = str((row.get("waits_for") or {}).get("kind") or "")
    return _WAITS.get(kind, str(row["status"]))


def said(word: str, reason: str) -> str:
    """A state and its reason as one text; a reason that begins with the word stands alone: ``asks to run make``."""
    if reason == word or reason.startswith(f"{word} "):
        return reason
    return f"{word}: {reason}" if reason else word


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows: agents that need a human, busy, idle and ended ones; in each group the oldest status first."""
    return sorted(rows, key=lambda row: (_place(row), _since(row), str(row["agent_id"])))


def totals(rows: Iterable[Mapping[str, Any]], past: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The team in numbers: ``{agents, need_you, busy, idle, unknown, ended, finished, usage}``.

    ``unknown`` are agents whose status is not known now; ``finished`` is ``{result, error, canceled}``.
    ``past`` are deleted agents (`past_of_run`). Their tasks and usage are counted, so that no total falls.
    """
    rows, past = list(rows), list(past)
    counted = {"agents": 0, "need_you": 0, "busy": 0, "idle": 0, "unknown": 0, "ended": 0}
    finished = {"result": 0, "error": 0, "canceled": 0}
    for row in rows:
        counted["agents"] += 1
        group = ("need_you", "busy", "idle", "ended")[_place(row)]
        counted["unknown" if group == "idle" and row["status"] not in _AT_REST else group] += 1
    for row in (*rows, *past):
        for outcome, number in (row.get("finished") or {}).items():
            finished[outcome] = finished.get(outcome, 0) + number
    return {**counted, "finished": finished, "usage": usage_total(row.get("usage") for row in (*rows, *past))}


def past_of_run(rows: Iterable[Mapping[str, Any]], deleted: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The deleted agents whose team run still has an agent in ``rows``.

    If ``rows`` is empty, the deleted agents of the newest run: its totals stay when its last agent is deleted.
    """
    deleted = list(deleted)
    runs = {row["run_id"] for row in rows}
    if not runs and deleted:
        runs = {max(deleted, key=lambda row: str(row["created_at"]))["run_id"]}
    return [row for row in deleted if row["run_id"] in runs]


def _place(row: Mapping[str, Any]) -> int:
    return 0 if needs_human(row) else _ORDER.get(row["status"], 2)


def _since(row: Mapping[str, Any]) -> str:
    waits = row.get("waits_for") or {}
    return str(waits.get("since") or row.get("since") or "~")
