"""Writes shared by the steps of `transitions`: the fence, the next event, an artifact's row, the sums of a node.

Functions of a connection, part of the caller's transaction.
"""

# ruff: noqa: PLR0917 - rows are written with their values in order
from __future__ import annotations

import sqlite3
from decimal import Decimal

from orchestrator.spawn import queries
from orchestrator.spawn.ddl import OPEN
from orchestrator.spawn.queries import node_key
from orchestrator.spawn.run_data import ArtifactRow, EventLevel, RunStatus

_FENCE = "SELECT number, started_at, active, waiting, cancel_requested, planned, settings_json FROM runs"


def fenced_run(con: sqlite3.Connection, run_id: str, token: int) -> sqlite3.Row | None:
    """What steps want to know of the run, if it has not ended and the token is its last one; else None."""
    row: sqlite3.Row | None = con.execute(
        f"{_FENCE} WHERE id = ? AND token = ? AND status IN {OPEN}", (run_id, token)
    ).fetchone()
    return row


def end_run(con: sqlite3.Connection, run_id: str, status: RunStatus, error: str | None, at: str) -> None:
    """Give the run its end: nobody owns it, it has no place any more, and no seal, so that no change wakes it."""
    con.execute("DELETE FROM seals WHERE run_id = ?", (run_id,))
    con.execute(
        "UPDATE runs SET status = ?, error = ?, finished_at = ?, owner_host = NULL, owner_boot_id = NULL, "
        "owner_pid = NULL, owner_start = NULL, active = 0, waiting = 0 WHERE id = ?",
        (status, error, at, run_id),
    )


def store_active_s(con: sqlite3.Connection, run_id: str, active_s: float) -> None:
    """Note how long the run has been executed; it never shrinks."""
    con.execute("UPDATE runs SET active_s = MAX(active_s, ?) WHERE id = ?", (active_s, run_id))


def store_artifact(con: sqlite3.Connection, run_id: str, row: ArtifactRow) -> None:
    """Store an artifact's row in the place of the one of that node."""
    insert(
        con,
        "artifacts",
        "INSERT OR REPLACE",
        id=node_key(run_id, row.node_id),
        run_id=run_id,
        node_id=row.node_id,
        type=row.type,
        path=row.path,
        bytes=row.bytes,
        sha256=row.sha256,
        created_at=row.created_at,
        model=row.model,
    )


def update_node_sums(con: sqlite3.Connection, run_id: str, node_id: str) -> None:
    """The original's columns of a node: what all of its attempts have used."""
    of_node = queries.attempts(con, run_id, node_id)
    con.execute(
        "UPDATE nodes SET tokens_prompt = ?, tokens_completion = ?, cost_usd = ? WHERE id = ?",
        (
            sum(attempt.prompt_tokens for attempt in of_node),
            sum(attempt.completion_tokens for attempt in of_node),
            float(sum((attempt.spent for attempt in of_node), Decimal(0))),
            node_key(run_id, node_id),
        ),
    )


def add_event(
    con: sqlite3.Connection,
    run_id: str,
    node_id: str | None,
    level: EventLevel,
    message: str,
    at: str,
    event_id: str = "",
) -> bool:
    """Write the run's next event; True always, for callers whose step has succeeded with it."""
    con.execute(
        "INSERT INTO events (id, run_id, node_id, level, message, ts, seq) "
        "SELECT COALESCE(:id, :run || ':' || next), :run, :node, :level, :message, :at, next "
        "FROM (SELECT COALESCE(MAX(seq), 0) + 1 AS next FROM events WHERE run_id = :run)",
        {"id": event_id or None, "run": run_id, "node": node_id, "level": level, "message": message, "at": at},
    )
    con.execute("UPDATE runs SET updated_at = ? WHERE id = ?", (at, run_id))
    return True


def insert(con: sqlite3.Connection, table: str, how: str = "INSERT", **values: object) -> None:
    """Insert one row; the names of the columns are the keywords."""
    marks = ", ".join("?" * len(values))
    con.execute(f"{how} INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values()))
