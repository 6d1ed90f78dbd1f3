"""Builds the tools' answers from the rows of a run (B4.19 to B4.25). Pure: no clock, no files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from orchestrator.spawn import costs
from orchestrator.spawn.run_data import CUT_OFF, NODE_ENDED, RUN_ENDED, AttemptRow, Event, NodeRow, RunRow
from orchestrator.spawn.run_seals import FOREIGN
from orchestrator.spawn.scheduler import PARTIAL

TASK_CHARS = 200


def progress(rows: Sequence[NodeRow], estimated: int, *, over: bool) -> dict[str, int]:
    """How far a run is; before its plan is known its estimated steps count as its nodes."""
    total = len(rows) or (0 if over else estimated)
    ended = sum(row.status in NODE_ENDED for row in rows)
    return {
        "total_nodes": total,
        "done_nodes": sum(row.status == "completed" for row in rows),
        "running_nodes": sum(row.status == "running" for row in rows),
        "failed_nodes": sum(row.status == "failed" for row in rows),
        "skipped_nodes": sum(row.status in ("skipped", "canceled") for row in rows),
        "percent": 100 if over else min(99, ended * 100 // total) if total else 0,
    }


def status(
    run: RunRow,
    rows: Sequence[NodeRow],
    attempts: Sequence[AttemptRow],
    *,
    last: Event | None,
    notes: Sequence[str],
    now: datetime,
) -> dict[str, Any]:
    """The answer of smartspawn_run_status."""
    over = run.status in RUN_ENDED
    tried: dict[str, list[AttemptRow]] = {}
    for attempt in attempts:
        tried.setdefault(attempt.node_id, []).append(attempt)
    # Of a run that nobody executes the clocks stand, also those of nodes that were in flight.
    counted = now if run.active else datetime.fromisoformat(run.updated_at)
    answer: dict[str, Any] = {
        "run_id": run.id,
        "status": run.status,
        "mode": run.request.mode,
        "progress": progress(rows, run.estimated_steps, over=over),
        "updated_at": run.updated_at,
        "elapsed_s": round(_elapsed(run, now), 3),
        "cost": cost(run, attempts),
        "nodes": [node(row, tried.get(row.node.id, ()), counted) for row in rows],
        "models": models(attempts),
        "planner": run.plan_source,
    }
    waves = [row.node.wave for row in rows if row.status in ("running", "retry_pending")] or [
        row.node.wave for row in rows if row.status == "queued"
    ]
    if waves and not over:
        answer["current_wave"] = min(waves)
    if last is not None:
        answer["last_event"] = last.message if last.node_id is None else f"{last.node_id}: {last.message}"
    if notes:
        answer["notes"] = list(notes)
    eta_s = eta(run, rows, now)
    if eta_s is not None:
        answer["eta_s"] = eta_s
    if run.waiting and not over:
        answer["waiting_for_key"] = run.request.caller_kind == "model"
    if run.cancel_requested and not over:
        answer["canceling"] = True
    if run.error or run.foreign:
        answer["failure"] = FOREIGN if run.foreign else run.error
    if run.foreign:
        answer["foreign"] = True
    return answer


def node(row: NodeRow, attempts: Sequence[AttemptRow], now: datetime) -> dict[str, Any]:
    """One node with its cost so far."""
    view: dict[str, Any] = {
        "node_id": row.node.id,
        "kind": row.node.kind,
        "wave": row.node.wave,
        "needs": list(row.node.needs),
        "model": row.answered_by or row.node.model,
        "status": row.status,
        "attempts": row.attempt,
        "reruns": row.reruns,
        "prompt_tokens": sum(attempt.prompt_tokens for attempt in attempts),
        "completion_tokens": sum(attempt.completion_tokens for attempt in attempts),
        "usd": costs.shown(costs.reported(attempts)) if _priced(attempts) else None,
        **_maybe_charged(attempts),
        "cost_source": attempts[-1].cost_source if attempts else "none",
    }
    for key in ("retry_at", "error", "started_at", "finished_at"):
        if getattr(row, key):
            view[key] = getattr(row, key)
    if row.finish_reason in CUT_OFF:
        view["truncated"] = True
    seconds = _seconds(row.started_at, row.finished_at or (None if row.status in NODE_ENDED else _text(now)))
    if seconds is not None:
        view["seconds"] = round(seconds, 3)
    return view


def cost(run: RunRow, attempts: Sequence[AttemptRow]) -> dict[str, Any]:
    """The cost of a run and the reservations of calls in flight; null if its caller has no price."""
    priced = run.request.caller_kind == "model"
    flying = [attempt for attempt in attempts if attempt.state == "running"]
    return {
        "usd": costs.shown(costs.reported(attempts)) if priced else None,
        **_maybe_charged(attempts),
        "reserved_usd": costs.shown(sum((attempt.reserved for attempt in flying), Decimal(0))) if priced else None,
        "limit_usd": costs.shown(run.settings.max_usd) if priced else None,
        "prompt_tokens": sum(attempt.prompt_tokens for attempt in attempts),
        "completion_tokens": sum(attempt.completion_tokens for attempt in attempts),
        "sources": sources(attempts),
    }


def sources(attempts: Sequence[AttemptRow]) -> dict[str, int]:
    """From where the costs of ended attempts are: how many from each source (C40)."""
    counts: dict[str, int] = {}
    for attempt in attempts:
        if attempt.state != "running":
            counts[attempt.cost_source] = counts.get(attempt.cost_source, 0) + 1
    return counts


def models(attempts: Sequence[AttemptRow]) -> list[dict[str, Any]]:
    """What each model has cost."""
    by_model: dict[str, list[AttemptRow]] = {}
    for attempt in attempts:
        by_model.setdefault(attempt.model, []).append(attempt)
    return [
        {
            "model": model,
            "nodes": len({attempt.node_id for attempt in of}),
            "attempts": len(of),
            "usd": costs.shown(costs.reported(of)) if _priced(of) else None,
            **_maybe_charged(of),
            "prompt_tokens": sum(attempt.prompt_tokens for attempt in of),
            "completion_tokens": sum(attempt.completion_tokens for attempt in of),
        }
        for model, of in sorted(by_model.items())
    ]


def short_task(task: str) -> str:
    """The beginning of a task, for a list."""
    return task if len(task) <= TASK_CHARS else f"{task[: TASK_CHARS - 1]}…"


def listed(run: RunRow) -> dict[str, Any]:
    """A row of smartspawn_run_list."""
    task = " ".join(run.request.task.split())
    return {
        "run_id": run.id,
        "task": short_task(task),
        "status": run.status,
        "mode": run.request.mode,
        "created_at": run.created_at,
        "updated_at": run.updated_at,
        **({"foreign": True} if run.foreign else {}),
    }


def is_over_budget(run: RunRow) -> bool:
    """Whether the run has ended because its budget was used up."""
    return run.error == "budget" or run.summary.startswith(PARTIAL)


def people_row(
    run: RunRow, state: Mapping[str, Any], *, over_budget: bool = False, dismissed: bool = False
) -> dict[str, Any]:
    """A run as a row of the snapshot, made from its database row and its `status`.

    ``over_budget``: it has ended because its budget was used up. ``dismissed``: this is not, or no longer, an item of
    this project's inbox.
    """
    done, nodes = state["progress"], state["nodes"]
    failure = str(state.get("failure") or "")
    waits = bool(state.get("waiting_for_key")) or run.foreign
    return {
        "kind": "spawn",
        "id": run.id,
        "title": short_task(" ".join(run.request.task.split())),
        "status": state["status"],
        "since": (run.finished_at or run.updated_at) if state["status"] in RUN_ENDED else run.created_at,
        "done": done["done_nodes"],
        "failed": done["failed_nodes"],
        "total": done["total_nodes"],
        "wave": state.get("current_wave"),
        "waves": max((node["wave"] for node in nodes), default=None),
        "cost_usd": None if state["cost"]["usd"] is None else float(state["cost"]["usd"]),
        "needs_human": waits,
        "over_budget": over_budget,
        "dismissed": dismissed,
        "reason": ("its budget is used up" if over_budget else failure) or ("waits for an API key" if waits else ""),
    }


def attempt(row: AttemptRow) -> dict[str, Any]:
    """One attempt as the picture of a run shows it."""
    return {
        "attempt": row.attempt,
        "state": row.state,
        "usd": costs.shown(row.reported),
        **_maybe_charged([row]),
        "started_at": row.started_at,
        "finished_at": row.finished_at,
        "error": row.error,
    }


def event(row: Event) -> dict[str, Any]:
    """An event as the resource shows it."""
    return {"seq": row.seq, "ts": row.ts, "level": row.level, "node_id": row.node_id, "message": row.message}


def eta(run: RunRow, rows: Sequence[NodeRow], now: datetime) -> float | None:
    """About how many seconds a running run still takes, by the nodes it has ended; None: nothing to go by.

    Waves follow each other, and a wave takes as many rounds as its open nodes need places.
    """
    if run.status != "running" or not rows:
        return None
    took = [_seconds(row.started_at, row.finished_at) for row in rows if row.status == "completed"]
    known = [duration for duration in took if duration is not None]
    if not known:
        return None
    mean = sum(known) / len(known)
    open_: dict[int, int] = {}
    for row in rows:
        if row.status not in NODE_ENDED:
            open_[row.node.wave] = open_.get(row.node.wave, 0) + 1
    rounds = sum(-(-count // run.settings.max_parallel_nodes) for count in open_.values())
    running = [
        _seconds(row.started_at, _text(now)) or 0.0 for row in rows if row.status == "running" and row.started_at
    ]
    return round(max(0.0, rounds * mean - (min(running) if running else 0.0)), 1)


def _elapsed(run: RunRow, now: datetime) -> float:
    """Seconds of execution: those written down, and those since."""
    if run.status in RUN_ENDED or not run.active:
        return run.active_s
    return run.active_s + (_seconds(run.updated_at, _text(now)) or 0.0)


def _priced(attempts: Sequence[AttemptRow]) -> bool:
    return any(attempt.cost is not None or attempt.cost_source != "none" for attempt in attempts)


def _maybe_charged(attempts: Sequence[AttemptRow]) -> dict[str, float]:
    """The key of what may have been charged besides; no key if everything is reported."""
    usd = costs.maybe_charged(attempts)
    return {"maybe_charged_usd": costs.shown(usd)} if usd else {}


def _seconds(begin: str | None, end: str | None) -> float | None:
    if not begin or not end:
        return None
    return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds())


def _text(now: datetime) -> str:
    return now.isoformat()
