"""Answers the calls that read a run: its state, result, artifacts, or everything. Reads one home; writes nothing."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from orchestrator.base.clock import Clock
from orchestrator.base.errors import BadRequest
from orchestrator.spawn import artifacts, owned_runs, queries, views
from orchestrator.spawn.home import SpawnHome
from orchestrator.spawn.queries import RunMoment
from orchestrator.spawn.run_data import RUN_ENDED, ArtifactRow, AttemptRow, Event, NodeRow, RunRow
from orchestrator.spawn.run_seals import FOREIGN

RAW_CHARS = 12_000
"""How much of each node's answer smartspawn_run_result shows (A4); the artifact has all of it."""
MERGED_CHARS = 60_000
CONTENT_CHARS = 60_000
EVENTS_MAX = 10_000
LOOK_S = 0.1


async def run_of(home: SpawnHome, run_id: str) -> RunRow:
    """The run of that id, marked if it is foreign; BadRequest ``unknown_spawn_run``."""
    run = await home.db.read(_marked, home, run_id)
    if run is None:
        raise BadRequest("unknown_spawn_run", f"no spawn run is called {run_id[:80]!r}")
    return run


def _marked(con: sqlite3.Connection, home: SpawnHome, run_id: str) -> RunRow | None:
    return owned_runs.with_foreign_mark(con, home.seals(), queries.run(con, run_id))


async def wait_for_change(
    home: SpawnHome, run_id: str, deadline: float, clock: Clock, enough: Callable[[RunMoment, RunMoment], bool]
) -> None:
    """Wait until the run has ended, ``enough(first mark, mark now)``, or the clock shows ``deadline``.

    BadRequest ``unknown_spawn_run``. Each look is one small read, however large the run; a large run changes a
    thousand times in a second, so from the second change on it is looked at every `LOOK_S`, and as it ends.
    """
    first: RunMoment | None = None
    while True:
        seen = home.count(run_id)
        now = await home.together(run_id, "mark", lambda: home.db.read(queries.run_moment, run_id))
        if now is None:
            await run_of(home, run_id)
            return
        again, first = first is not None, first or now
        left = deadline - clock.monotonic()
        if left <= 0 or now.status in RUN_ENDED or enough(first, now):
            return
        if again:
            await home.wait_for_end_here(run_id, min(left, LOOK_S))
            left = deadline - clock.monotonic()
        await home.wait(run_id, left, seen)


async def status(home: SpawnHome, run_id: str, now: datetime) -> dict[str, Any]:
    """How far a run is, as smartspawn_run_status answers it; BadRequest ``unknown_spawn_run``."""
    read = await home.db.read(_at_once, home, run_id)
    run = read.run or await run_of(home, run_id)
    return views.status(run, read.rows, read.attempts, last=read.last, notes=read.notes, now=now)


async def result(home: SpawnHome, run_id: str, state: Mapping[str, Any], *, include_raw: bool) -> dict[str, Any]:
    """The result of a run, as smartspawn_run_result answers it; ``state`` is its status.

    Corrupt ``corrupt_home`` if one of its files was changed.
    """
    run = await run_of(home, run_id)
    files = await home.db.read(queries.artifacts, run_id)
    rows = {row.node.id: row for row in await home.db.read(queries.nodes, run_id)}
    merged = next((file for file in files if file.type == "merged"), None)
    text = await _text(home, merged) if merged is not None else ""
    cost = state["cost"]
    answer: dict[str, Any] = {
        "run_id": run_id,
        "status": run.status,
        "merged_output": text[:MERGED_CHARS],
        "summary": run.summary or _so_far(run, state),
        "artifacts": [
            {
                "node_id": file.node_id,
                "path": str(home.path / file.path),
                "model": file.model,
                "status": rows[file.node_id].status if file.node_id in rows else run.status,
                "type": file.type,
            }
            for file in files
        ],
        "cost": {
            "prompt_tokens": cost["prompt_tokens"],
            "completion_tokens": cost["completion_tokens"],
            "usd_estimate": cost["usd"],
            **({"maybe_charged_usd": cost["maybe_charged_usd"]} if "maybe_charged_usd" in cost else {}),
            "sources": cost["sources"],
        },
        "planner": run.plan_source,
    }
    if len(text) > MERGED_CHARS:
        answer["more"] = True
        answer["next_offset"] = MERGED_CHARS
    if state.get("notes"):
        answer["notes"] = state["notes"]
    if run.dissent:
        answer["dissent"] = run.dissent
    if run.error or run.foreign:
        answer["failure"] = FOREIGN if run.foreign else run.error
    if run.foreign:
        answer["foreign"] = True
    if include_raw:
        places = {node_id: at for at, node_id in enumerate(rows)}
        raws = sorted((file for file in files if file.type == "raw"), key=lambda file: places.get(file.node_id, 0))
        answer["raw_outputs"] = [await _raw(home, file) for file in raws]
    return answer


async def artifact(home: SpawnHome, run_id: str, node_id: str, offset: int) -> dict[str, Any]:
    """A file of a run from the character ``offset``, as smartspawn_artifact_get answers it.

    BadRequest ``unknown_spawn_run`` or ``unknown_artifact``, Corrupt ``corrupt_home``.
    """
    await run_of(home, run_id)
    row = await home.db.read(queries.artifact, run_id, node_id)
    if row is None:
        files = await home.db.read(queries.artifacts, run_id)
        there = ", ".join(file.node_id for file in files[:20]) or "none yet"
        raise BadRequest("unknown_artifact", f"the run has no artifact {node_id[:80]!r}; there are: {there}")
    text = await _text(home, row)
    answer: dict[str, Any] = {
        "artifact_type": row.type,
        "content": text[offset : offset + CONTENT_CHARS],
        "metadata": {
            "created_at": row.created_at,
            "bytes": row.bytes,
            "sha256": row.sha256,
            "path": str(home.path / row.path),
            **({"model": row.model} if row.model else {}),
        },
    }
    if len(text) > offset + CONTENT_CHARS:
        answer["next_offset"] = offset + CONTENT_CHARS
    return answer


async def whole(home: SpawnHome, run_id: str, now: datetime) -> dict[str, Any]:
    """All there is of a run, for its picture: its status, tasks, attempts and events."""
    read = await home.db.read(_at_once, home, run_id)
    run, rows, attempts = read.run or await run_of(home, run_id), read.rows, read.attempts
    events = await home.db.read(queries.events, run_id, 0, None, EVENTS_MAX)
    state = views.status(run, rows, attempts, last=read.last, notes=read.notes, now=now)
    tried: dict[str, list[AttemptRow]] = {row.node.id: [] for row in rows}
    for attempt in attempts:
        tried[attempt.node_id].append(attempt)
    nodes = [
        {
            **view,
            "task": row.node.task,
            "reason": row.node.reason,
            "attempts_list": [views.attempt(attempt) for attempt in tried[row.node.id]],
        }
        for row, view in zip(rows, state["nodes"], strict=True)
    ]
    head = {
        **state,
        "task": run.request.task,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "project": run.project,
    }
    return {"run": head, "nodes": nodes, "events": [views.event(event) for event in events]}


@dataclass(frozen=True)
class _RunRead:
    """A run with its nodes, attempts, last event and notes, of one moment."""

    run: RunRow | None
    rows: list[NodeRow]
    attempts: list[AttemptRow]
    last: Event | None
    notes: list[str]


def _at_once(con: sqlite3.Connection, home: SpawnHome, run_id: str) -> _RunRead:
    return _RunRead(
        _marked(con, home, run_id),
        queries.nodes(con, run_id),
        queries.attempts(con, run_id),
        queries.last_event(con, run_id),
        queries.notes(con, run_id),
    )


async def _text(home: SpawnHome, row: ArtifactRow) -> str:
    return (await asyncio.to_thread(artifacts.read, home.path, row)).decode(errors="replace")


async def _raw(home: SpawnHome, file: ArtifactRow) -> dict[str, Any]:
    text = _output(await _text(home, file))
    return {"node_id": file.node_id, "output": text[:RAW_CHARS], "truncated": len(text) > RAW_CHARS}


def _output(text: str) -> str:
    """The answer in a node's document; one that is no JSON, as it is."""
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return str(document.get("output", "")) if isinstance(document, dict) else text


def _so_far(run: RunRow, state: Mapping[str, Any]) -> str:
    done = state["progress"]
    return f"{run.status}: {done['done_nodes']} of {done['total_nodes']} nodes done"
