"""Upgrades a database of the original tool (0.1.0): copies it first, then changes it in one transaction.

Touches the database, whose lock the caller holds, and writes the copy next to it. After a kill, the next opening
starts again: nothing is changed before the commit, and the same content is not copied twice.
"""

# ruff: noqa: S608 - the SQL is put together from our own words
from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import Environment
from orchestrator.base.failpoints import passed
from orchestrator.journal.project_files import failure
from orchestrator.spawn import ddl
from orchestrator.spawn.queries import public_node_id

INTERRUPTED = "interrupted before upgrade"
ENDED = "('completed', 'failed', 'canceled')"


def upgrade(con: sqlite3.Connection, path: Path, now: datetime) -> None:
    """Copy the database to ``<name>.backup-0.1.0-<stamp>``, then convert it to our form, with unfinished runs failed.

    Raises sqlite3.Error, Environment ``disk_full`` or ``io_failed``; the database is unchanged then.
    """
    back_up(con, path, now)
    passed("spawn.backed_up")
    con.execute("BEGIN IMMEDIATE")
    try:
        ddl.widen(con)
        _number(con)
        _end(con, rfc3339(now))
        passed("spawn.half_upgraded")
        _count(con)
        ddl.create(con)
        con.execute("COMMIT")
    finally:
        if con.in_transaction:
            con.execute("ROLLBACK")
    passed("spawn.upgraded")


def back_up(con: sqlite3.Connection, path: Path, now: datetime) -> Path:
    """A synced copy of all that is committed, readable by the user alone; one there is of the same content is it.

    Raises sqlite3.Error, Environment ``disk_full`` or ``io_failed``.
    """
    temporary = path.with_name(f".{path.name}.backup.tmp")
    stem = f"{path.name}.backup-0.1.0-"
    try:
        temporary.unlink(missing_ok=True)
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with contextlib.closing(sqlite3.connect(temporary, isolation_level=None)) as copy:
            con.backup(copy)
        digest = _synced(temporary)
        passed("spawn.backup_copied")
        for there in sorted(path.parent.glob(f"{stem}*")):
            if there.is_file() and not there.is_symlink() and _digest(there) == digest:
                temporary.unlink()
                return there
        backup = path.with_name(f"{stem}{now.astimezone(UTC):%Y%m%dT%H%M%SZ}")
        if os.path.lexists(backup):  # of another content: copies are never written over
            raise Environment("io_failed", f"{backup} is there already", "open it again", file=str(backup))
        temporary.rename(backup)
        _sync_dir(path.parent)
    except OSError as error:
        raise failure(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    return backup


def _number(con: sqlite3.Connection) -> None:
    """Give runs, nodes and events the places they had by their times and the order they were written in."""
    _place(con, "runs", "number", "SELECT rowid FROM runs ORDER BY created_at, rowid")
    for column, table, order in (("place", "nodes", "wave, rowid"), ("seq", "events", "ts, rowid")):
        for (run_id,) in con.execute(f"SELECT DISTINCT run_id FROM {table}").fetchall():
            _place(con, table, column, f"SELECT rowid FROM {table} WHERE run_id = ? ORDER BY {order}", (run_id,))
    con.execute("UPDATE events SET level = 'warning' WHERE level = 'warn'")


def _place(con: sqlite3.Connection, table: str, column: str, rows: str, values: Sequence[Any] = ()) -> None:
    row_ids = con.execute(rows, values).fetchall()
    con.executemany(
        f"UPDATE {table} SET {column} = ? WHERE rowid = ?", [(at, row[0]) for at, row in enumerate(row_ids, 1)]
    )


def _end(con: sqlite3.Connection, at: str) -> None:
    """End what the original left unfinished, with an event each; in runs that ended, nodes it forgot end silently."""
    for (run_id,) in con.execute(f"SELECT id FROM runs WHERE status NOT IN {ENDED} ORDER BY number").fetchall():
        open_nodes = con.execute(
            "SELECT id, status FROM nodes WHERE run_id = ? AND status IN ('queued', 'running') ORDER BY place",
            (run_id,),
        ).fetchall()
        for node_key, status in open_nodes:
            ended = "failed" if status == "running" else "canceled"
            con.execute(
                "UPDATE nodes SET status = ?, error = ?, finished_at = ? WHERE id = ?",
                (ended, INTERRUPTED, at, node_key),
            )
            _say(
                con,
                run_id,
                public_node_id(run_id, node_key),
                f"{public_node_id(run_id, node_key)} {ended}: {INTERRUPTED}",
                at,
            )
        con.execute(
            "UPDATE runs SET status = 'failed', error = ?, updated_at = ?, finished_at = ? WHERE id = ?",
            (INTERRUPTED, at, at, run_id),
        )
        _say(con, run_id, None, f"run failed: {INTERRUPTED}", at)
    con.execute(
        "UPDATE nodes SET status = 'canceled', finished_at = COALESCE(finished_at, ?) "
        "WHERE status NOT IN ('completed', 'failed', 'canceled', 'skipped')",
        (at,),
    )


def _say(con: sqlite3.Connection, run_id: str, node_id: str | None, message: str, at: str) -> None:
    (seq,) = con.execute("SELECT COALESCE(MAX(seq), 0) + 1 FROM events WHERE run_id = ?", (run_id,)).fetchone()
    con.execute(
        "INSERT INTO events (id, run_id, node_id, level, message, ts, seq) VALUES (?, ?, ?, 'error', ?, ?, ?)",
        (f"{run_id}:{seq}", run_id, node_id, message, at, seq),
    )


def _count(con: sqlite3.Connection) -> None:
    """Carry over what the original says of costs and models: an attempt of each node that was begun."""
    con.execute(ddl.ATTEMPTS)
    begun = con.execute("SELECT * FROM nodes WHERE started_at IS NOT NULL ORDER BY rowid").fetchall()
    for node in begun:
        run_id, node_id = node["run_id"], public_node_id(node["run_id"], node["id"])
        state = "done" if node["status"] == "completed" else "failed"
        cost = node["cost_usd"]
        con.execute(
            "INSERT OR IGNORE INTO attempts (run_id, node_id, attempt, token, state, reserved, cost, cost_source, "
            "tokens_prompt, tokens_completion, model, started_at, finished_at, error) "
            "SELECT id, ?, 1, ?, ?, '0', ?, 'table', ?, ?, ?, ?, ?, ? FROM runs WHERE id = ?",
            (
                node_id,
                f"{run_id}:{node_id}:1",
                state,
                repr(float(cost)) if isinstance(cost, int | float) else "0",
                node["tokens_prompt"] or 0,
                node["tokens_completion"] or 0,
                node["model"],
                node["started_at"],
                node["finished_at"],
                node["error"],
                run_id,
            ),
        )
    con.execute("UPDATE nodes SET attempt = 1, answered_by = model WHERE started_at IS NOT NULL")
    con.execute("UPDATE runs SET planned = 1 WHERE id IN (SELECT run_id FROM nodes)")
    con.execute(
        "UPDATE artifacts SET model = COALESCE((SELECT model FROM nodes WHERE nodes.run_id = artifacts.run_id AND "
        "(nodes.id = artifacts.node_id OR (artifacts.node_id = 'merged' AND nodes.kind = 'merge'))), '')"
    )


def _synced(path: Path) -> str:
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return _digest(path)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_dir(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
