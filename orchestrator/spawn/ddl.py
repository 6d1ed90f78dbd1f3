"""The tables of the spawn runs' database: the original tool's, with the columns we need beside them. SQL only.

Everything that is not in the original's tables has a default or may be NULL, so that a table of its 0.1.0 becomes
ours by ``ALTER TABLE ADD`` alone (C32), and so that a statement of its own still finds every column it knows.
"""

from __future__ import annotations

import sqlite3

VERSION = 2
"""``PRAGMA user_version``; the original has 0."""
OPEN = "('queued', 'running')"
"""The states of a run that has not ended."""

# The original's columns, in its order (0.1.0); role_json is in the design only, and is added where it is missing.
ORIGINAL: dict[str, tuple[str, ...]] = {
    "runs": (
        "id TEXT PRIMARY KEY",
        "task TEXT NOT NULL",
        "mode TEXT NOT NULL",
        "budget TEXT NOT NULL",
        "context TEXT",
        "params_json TEXT NOT NULL",
        "status TEXT NOT NULL",
        "error TEXT",
        "created_at TEXT NOT NULL",
        "updated_at TEXT NOT NULL",
        "started_at TEXT",
        "finished_at TEXT",
    ),
    "nodes": (
        "id TEXT PRIMARY KEY",
        "run_id TEXT NOT NULL REFERENCES runs(id)",
        "kind TEXT NOT NULL",
        "wave INTEGER NOT NULL",
        "depends_on_json TEXT NOT NULL",
        "task TEXT NOT NULL",
        "model TEXT NOT NULL",
        "prompt TEXT NOT NULL",
        "meta_json TEXT NOT NULL",
        "status TEXT NOT NULL",
        "retry_count INTEGER NOT NULL DEFAULT 0",
        "max_retries INTEGER NOT NULL DEFAULT 2",
        "error TEXT",
        "started_at TEXT",
        "finished_at TEXT",
        "tokens_prompt INTEGER NOT NULL DEFAULT 0",
        "tokens_completion INTEGER NOT NULL DEFAULT 0",
        "cost_usd REAL NOT NULL DEFAULT 0",
    ),
    "events": (
        "id TEXT PRIMARY KEY",
        "run_id TEXT NOT NULL REFERENCES runs(id)",
        "node_id TEXT",
        "level TEXT NOT NULL",
        "message TEXT NOT NULL",
        "ts TEXT NOT NULL",
    ),
    "artifacts": (
        "id TEXT PRIMARY KEY",
        "run_id TEXT NOT NULL REFERENCES runs(id)",
        "node_id TEXT NOT NULL",
        "type TEXT NOT NULL",
        "path TEXT NOT NULL",
        "bytes INTEGER NOT NULL",
        "sha256 TEXT NOT NULL",
        "created_at TEXT NOT NULL",
    ),
}

# What is ours. Money is text, for it is decimal: nodes.cost_usd is the original's, and for its eyes only.
ADDED: dict[str, tuple[str, ...]] = {
    "runs": (
        "number INTEGER",
        "settings_json TEXT NOT NULL DEFAULT '{}'",
        "project TEXT NOT NULL DEFAULT ''",
        "req TEXT NOT NULL DEFAULT ''",
        "origin TEXT NOT NULL DEFAULT ''",
        "key_fp TEXT NOT NULL DEFAULT ''",
        "estimated_steps INTEGER NOT NULL DEFAULT 0",
        "owner_host TEXT",
        "owner_boot_id TEXT",
        "owner_pid INTEGER",
        "owner_start INTEGER",
        "token INTEGER NOT NULL DEFAULT 0",
        "active INTEGER NOT NULL DEFAULT 0",
        "waiting INTEGER NOT NULL DEFAULT 0",
        "active_s REAL NOT NULL DEFAULT 0",
        "cancel_requested INTEGER NOT NULL DEFAULT 0",
        "planned INTEGER NOT NULL DEFAULT 0",
        "plan_source TEXT NOT NULL DEFAULT ''",
        "summary TEXT NOT NULL DEFAULT ''",
        "dissent TEXT NOT NULL DEFAULT ''",
    ),
    "nodes": (
        "role_json TEXT",
        "place INTEGER NOT NULL DEFAULT 0",
        "attempt INTEGER NOT NULL DEFAULT 0",
        "reruns INTEGER NOT NULL DEFAULT 0",
        "retry_at TEXT",
        "finish_reason TEXT NOT NULL DEFAULT ''",
        "answered_by TEXT NOT NULL DEFAULT ''",
    ),
    "events": ("seq INTEGER",),
    "artifacts": ("model TEXT NOT NULL DEFAULT ''",),
}

# node_id is the public, local id, as it is in our events and artifacts; nodes.id is `<run>:<local>` (C31).
ATTEMPTS = """
CREATE TABLE IF NOT EXISTS attempts (
    run_id TEXT NOT NULL REFERENCES runs(id),
    node_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    token TEXT NOT NULL,
    state TEXT NOT NULL,
    reserved TEXT NOT NULL,
    cost TEXT,
    cost_source TEXT NOT NULL DEFAULT 'reserved',
    tokens_prompt INTEGER NOT NULL DEFAULT 0,
    tokens_completion INTEGER NOT NULL DEFAULT 0,
    model TEXT NOT NULL DEFAULT '',
    started_at TEXT NOT NULL,
    finished_at TEXT,
    error TEXT,
    PRIMARY KEY (run_id, node_id, attempt)
)"""

INDEXES = (
    "CREATE INDEX IF NOT EXISTS idx_runs_status ON runs(status)",
    "CREATE INDEX IF NOT EXISTS idx_nodes_run_id ON nodes(run_id)",
    "CREATE INDEX IF NOT EXISTS idx_nodes_status ON nodes(status)",
    "CREATE INDEX IF NOT EXISTS idx_artifacts_run_id ON artifacts(run_id)",
    "CREATE INDEX IF NOT EXISTS idx_events_run_id ON events(run_id, ts)",
    "CREATE UNIQUE INDEX IF NOT EXISTS idx_runs_number ON runs(number)",
    "CREATE UNIQUE INDEX IF NOT EXISTS idx_runs_req ON runs(req) WHERE req <> ''",
    "CREATE UNIQUE INDEX IF NOT EXISTS idx_events_seq ON events(run_id, seq)",
)


def tables(con: sqlite3.Connection) -> set[str]:
    """The names of the tables there are."""
    return {name for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def create(con: sqlite3.Connection) -> None:
    """Make every table and index that is missing, and say whose they are; part of the caller's transaction."""
    for table, columns in ORIGINAL.items():
        con.execute(f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(columns + ADDED[table])})")
    con.execute(ATTEMPTS)
    for index in INDEXES:
        con.execute(index)
    con.execute(f"PRAGMA user_version = {VERSION}")


def widen(con: sqlite3.Connection) -> None:
    """Give each of the original's tables the columns it lacks; part of the caller's transaction."""
    for table, columns in ADDED.items():
        there = {row[1] for row in con.execute(f"PRAGMA table_info({table})")}
        for column in columns:
            if there and column.split(" ", 1)[0] not in there:
                con.execute(f"ALTER TABLE {table} ADD COLUMN {column}")


def probe(con: sqlite3.Connection) -> None:
    """Write something and remove it again, in the original's table for it: so health knows that it can be done."""
    con.execute("CREATE TABLE IF NOT EXISTS _health_probe (id INTEGER PRIMARY KEY, ts TEXT NOT NULL)")
    con.execute("INSERT INTO _health_probe (ts) VALUES (datetime('now'))")
    con.execute("DELETE FROM _health_probe")
