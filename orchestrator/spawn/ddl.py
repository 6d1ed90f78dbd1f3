"""The tables of the spawn runs' database: the original tool's tables plus our columns. SQL only.

Each of our columns has a default or may be NULL, so that ``ALTER TABLE ADD`` alone upgrades a table of 0.1.0 (C32),
and statements of the original tool still find every column they use.
"""

from __future__ import annotations

import re
import sqlite3

VERSION = 2
"""``PRAGMA user_version``; the original has 0."""
OPEN = "('queued', 'running')"
"""The states of a run that has not ended."""

_DISMISSED = ":dismissed"
"""End of the id of the event that records that a human dismissed the run's used-up budget. A run has at most one."""
STOPPED_UNSEEN = (
    f"SELECT 1 FROM runs WHERE status NOT IN {OPEN} AND (error = 'budget' OR summary LIKE 'partial: budget%') "  # noqa: S608 - put together from our own words
    f"AND project = ? AND NOT EXISTS (SELECT 1 FROM events WHERE id = runs.id || '{_DISMISSED}') LIMIT 1"
)
"""Whether the budget has stopped a run of a project, and nobody has dismissed it."""


def dismissal_of(run_id: str) -> str:
    """The id of the event that records that a human dismissed the run's used-up budget."""
    return f"{run_id}{_DISMISSED}"


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

# What this machine has written, see `sealing`. It came without a new form: a version that does not know the table
# leaves it alone, and what such a version writes has no seal.
SEALS = """
CREATE TABLE IF NOT EXISTS seals (
    run_id TEXT NOT NULL REFERENCES runs(id),
    what TEXT NOT NULL,
    mac TEXT NOT NULL,
    PRIMARY KEY (run_id, what)
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
    con.execute(SEALS)
    for index in INDEXES:
        con.execute(index)
    con.execute(f"PRAGMA user_version = {VERSION}")


OURS = frozenset({*ORIGINAL, "attempts", "seals"})
_INERT = re.compile(r"\b(?:CHECK|GENERATED|AS|COLLATE|ON|WITHOUT|STRICT)\b|\bDEFAULT\s*\(", re.IGNORECASE)
"""What no table of ours has in its definition: what computes, removes or refuses something when a row is written."""


def strange(con: sqlite3.Connection) -> str:
    """Parts of the schema that would act in our transactions or replace one of our tables; empty: none.

    These are triggers, views, virtual tables, indexes on expressions, and tables of ours that do more than store
    rows. Other ordinary tables are harmless: no statement of ours names them.
    """
    for kind, name, table, sql in con.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall():
        named = f"the {kind} {str(name)[:80]!r}"
        if kind not in {"table", "index"} or (
            kind == "table" and re.match(r"\s*CREATE\s+VIRTUAL\b", str(sql), re.IGNORECASE)
        ):
            return named
        if kind == "table" and str(name).lower() in OURS and (name not in OURS or _INERT.search(str(sql))):
            return named
        if kind == "index" and sql is not None and str(table).lower() in OURS and _computes(con, str(name), str(sql)):
            return named
    return ""


def _computes(con: sqlite3.Connection, index: str, sql: str) -> bool:
    """Whether an index holds an expression (cid -2) or a condition, which SQLite would work out for each row."""
    if sql.replace(" ", "") in {index.replace(" IF NOT EXISTS", "").replace(" ", "") for index in INDEXES}:
        return False
    return " where " in f" {sql.lower()} " or any(row[1] == -2 for row in _pragma(con, "index_xinfo", index))


def _pragma(con: sqlite3.Connection, name: str, of: str) -> list[sqlite3.Row]:
    # Not as a table-valued function: a table of that name would answer in its place.
    quoted = of.replace('"', '""')
    return con.execute(f'PRAGMA {name}("{quoted}")').fetchall()


def lacking(con: sqlite3.Connection) -> str:
    """A table of ours that is not there or has not all of its columns; empty: none. For a database of our form."""
    wanted = {table: {column.split(" ", 1)[0] for column in (*ORIGINAL[table], *ADDED[table])} for table in ORIGINAL}
    wanted |= {"attempts": set(_COLUMN.findall(ATTEMPTS)), "seals": set(_COLUMN.findall(SEALS))}
    for table, columns in wanted.items():
        if not columns <= {row[1] for row in _pragma(con, "table_info", table)}:
            return f"the table {table!r} lacks columns"
    return ""


_COLUMN = re.compile(r"^    ([a-z_]+) ", re.MULTILINE)


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
