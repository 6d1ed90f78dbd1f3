"""Spawn runs in their database, for tests: rows to begin with, and a home of the original tool."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import sqlite3
from dataclasses import replace
from decimal import Decimal

from orchestrator.spawn import owned_runs
from orchestrator.spawn import transitions as steps
from orchestrator.spawn.database import Database
from orchestrator.spawn.run_data import (
    ArtifactRow,
    AttemptRow,
    EndedAttempt,
    Node,
    NodeRow,
    RunOwner,
    RunPlan,
    RunRequest,
    RunRow,
    RunSettings,
)
from orchestrator.spawn.run_seals import HomeIdentity, Seals

AT = "2026-01-01T00:00:00.000Z"
LATER = "2026-01-01T00:01:00.000Z"
US = RunOwner("here", "boot", 1, 1)
THEM = RunOwner("here", "boot", 2, 2)


def row(run_id="r1", *, req="", settings=None, owner=US, token=1, **asked):
    asked = RunRequest(**{"task": "do it", "mode": "swarm"} | asked)
    return RunRow(
        id=run_id, number=0, request=asked, settings=settings or RunSettings(), status="queued", created_at=AT,
        updated_at=AT, req=req, owner=owner, token=token, project="/p", origin="https://o", key_fp="fp", estimated_steps=3,
    )  # fmt: skip


def node(node_id, *needs, wave=0, **more):
    return Node(**{"id": node_id, "kind": "task", "wave": wave, "needs": needs, "task": "t", "model": "m"} | more)


def file(node_id, kind="raw"):
    return ArtifactRow(node_id, kind, f"artifacts/r1/{node_id}.json", 2, "0" * 64, AT, "m")


DIAMOND = RunPlan(
    (node("a"), node("b", "a", wave=1), node("merged", "a", "b", wave=2, kind="merge")), "local", ("so",)
)


def begun(con, run_id="r1", plan=DIAMOND, token=1, **more):
    """A run that has its place and its plan."""
    steps.create(con, row(run_id, token=token, **more), AT)
    assert steps.begin(con, run_id, token, AT)
    assert steps.store_plan(con, run_id, token, plan, file("plan", "plan"), AT)


def attempt_of(node_id, number=1, *, run_id="r1", reserved="0.5"):
    return AttemptRow(node_id, number, f"{run_id}/{node_id}/{number}", "running", Decimal(reserved), model="m")


def claim(con, node_id, number=1, *, run_id="r1", token=1, reserved="0.5"):
    return steps.claim_attempt(con, run_id, token, attempt_of(node_id, number, run_id=run_id, reserved=reserved), AT)


def settle(
    con, node_id, attempt=1, state="done", *, run_id="r1", token=1, cost=Decimal("0.1"), cost_source="usage",
    node_status="completed", error=None, retry_at=None, artifact=None,
):  # fmt: skip
    """End an attempt that the model ``real`` answered."""
    ended = AttemptRow(node_id, attempt, "t", state, Decimal("0.5"), cost, cost_source, 3, 4, "real")
    then = NodeRow(node(node_id), node_status, error=error, retry_at=retry_at, finish_reason="stop")
    return steps.end_attempt(con, run_id, token, EndedAttempt(ended, then, "info", "done"), artifact, AT)


def in_home(home, play):
    """What the coroutine function gives, called with the home's database."""

    async def run():
        db = Database(home)
        try:
            return await play(db)
        finally:
            db.close()

    return asyncio.run(run())


def planted(home, *rows, plan=None):
    """A home in which this machine has stored these runs, each with that plan, that nobody executes."""

    async def plant(db):
        def store(con):
            seals = Seals(HomeIdentity(home).establish())
            for one in rows:
                owned_runs.create(con, seals, replace(one, owner=None), AT)
                if plan is not None:
                    assert owned_runs.store_plan(con, one.id, one.token, seals, plan, file("plan", "plan"), AT)

        await db.write(store)

    in_home(home, plant)
    return home


@contextlib.contextmanager
def opened(home):
    """A plain connection to a home's database, which nobody else writes meanwhile."""
    con = sqlite3.connect(home / "db.sqlite", isolation_level=None)
    con.row_factory = sqlite3.Row
    try:
        yield con
    finally:
        con.close()


# -- the original tool, 0.1.0 -----------------------------------------------------------------------------------------

OLD = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS runs (id TEXT PRIMARY KEY, task TEXT NOT NULL, mode TEXT NOT NULL, budget TEXT NOT NULL,
  context TEXT, params_json TEXT NOT NULL, status TEXT NOT NULL, error TEXT, created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL, started_at TEXT, finished_at TEXT);
CREATE TABLE IF NOT EXISTS nodes (id TEXT PRIMARY KEY, run_id TEXT NOT NULL, kind TEXT NOT NULL, wave INTEGER NOT NULL,
  depends_on_json TEXT NOT NULL, task TEXT NOT NULL, model TEXT NOT NULL, prompt TEXT NOT NULL, meta_json TEXT NOT NULL,
  status TEXT NOT NULL, retry_count INTEGER NOT NULL DEFAULT 0, max_retries INTEGER NOT NULL DEFAULT 2, error TEXT,
  started_at TEXT, finished_at TEXT, tokens_prompt INTEGER NOT NULL DEFAULT 0,
  tokens_completion INTEGER NOT NULL DEFAULT 0, cost_usd REAL NOT NULL DEFAULT 0,
  FOREIGN KEY (run_id) REFERENCES runs(id));
CREATE TABLE IF NOT EXISTS events (id TEXT PRIMARY KEY, run_id TEXT NOT NULL, node_id TEXT, level TEXT NOT NULL,
  message TEXT NOT NULL, ts TEXT NOT NULL, FOREIGN KEY (run_id) REFERENCES runs(id));
CREATE TABLE IF NOT EXISTS artifacts (id TEXT PRIMARY KEY, run_id TEXT NOT NULL, node_id TEXT NOT NULL,
  type TEXT NOT NULL, path TEXT NOT NULL, bytes INTEGER NOT NULL, sha256 TEXT NOT NULL, created_at TEXT NOT NULL,
  FOREIGN KEY (run_id) REFERENCES runs(id));
CREATE INDEX IF NOT EXISTS idx_runs_status ON runs(status);
CREATE INDEX IF NOT EXISTS idx_nodes_run_id ON nodes(run_id);
CREATE INDEX IF NOT EXISTS idx_nodes_status ON nodes(status);
CREATE INDEX IF NOT EXISTS idx_artifacts_run_id ON artifacts(run_id);
CREATE INDEX IF NOT EXISTS idx_events_run_id ON events(run_id, ts);
CREATE TABLE IF NOT EXISTS _health_probe (id INTEGER PRIMARY KEY, ts TEXT NOT NULL);
"""
OLD_RUNS = {"done": "completed", "going": "running", "waiting": "queued", "stopped": "canceled"}


def old_home(home):
    """A home as 0.1.0 leaves it, open to readers: one run of each status, whose events were written out of order."""
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    con = sqlite3.connect(home / "db.sqlite", isolation_level=None)
    con.executescript(OLD)
    params = {
        "done": '{"task":"t done","mode":"collective","budget":"low","collectiveCount":2,"role":{"persona":"p",'
        '"stack":["a"]},"merge":{"style":"concise"}}',
        "going": "{garbled",
        "waiting": "[]",
        "stopped": '{"task":"other","mode":7,"role":"x"}',
    }  # fmt: skip
    for at, (run_id, status) in enumerate(OLD_RUNS.items()):
        stamp = f"2026-01-0{at + 1}T00:00:00.000Z"
        values = (
            run_id,
            f"t {run_id}",
            "collective",
            "low",
            None,
            params[run_id],
            status,
            None,
            stamp,
            stamp,
            stamp,
            None,
        )
        con.execute(f"INSERT INTO runs VALUES ({', '.join('?' * 12)})", values)
        for seq in (2, 1, 3):
            level = "warn" if seq == 2 else "info"
            values = (f"e-{run_id}-{seq}", run_id, f"{run_id}:one" if seq == 2 else None, level, f"event {seq}")
            con.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", (*values, f"2026-02-01T00:00:0{seq}.000Z"))
        if status == "queued":
            continue
        left = "completed" if run_id == "done" else "running"
        for name, kind, needs, state in (
            ("one", "task", "[]", "completed"),
            ("two", "task", "[]", left),
            ("merged", "merge", f'["{run_id}:one","{run_id}:two"]', "completed" if run_id == "done" else "queued"),
        ):
            began = None if state == "queued" else stamp
            con.execute(
                "INSERT INTO nodes VALUES (?, ?, ?, ?, ?, 't', 'm/x', 'p', '{}', ?, 0, 2, NULL, ?, NULL, 10, 20, 0.00007)",
                (f"{run_id}:{name}", run_id, kind, int(kind == "merge"), needs, state, began),
            )
    (home / "artifacts" / "done").mkdir(parents=True)
    for node_id, kind, name, text in (
        ("done:one", "raw", "done:one.json", '{"output": "é"}'),
        ("merged", "merged", "merged.md", "# Merged Output\n\nyes"),
    ):
        data = text.encode()
        (home / "artifacts" / "done" / name).write_bytes(data)
        con.execute(
            "INSERT INTO artifacts VALUES (?, 'done', ?, ?, ?, ?, ?, ?)",
            (
                f"a-{node_id}",
                node_id,
                kind,
                f"artifacts/done/{name}",
                len(data),
                hashlib.sha256(data).hexdigest(),
                AT,
            ),
        )
    con.close()
    return home
