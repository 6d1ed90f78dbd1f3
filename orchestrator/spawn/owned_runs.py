"""Reads and writes the runs of this machine with their seals; foreign runs are left out or marked.

Functions of a connection, part of the caller's transaction.
"""

# ruff: noqa: PLR0917 - steps are called with a run's values in order, as those of transitions
from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import replace

from orchestrator.base.errors import Corrupt, Environment
from orchestrator.spawn import queries, transitions
from orchestrator.spawn.ddl import OPEN
from orchestrator.spawn.run_data import RUN_ENDED, ArtifactRow, EndedAttempt, NodeRow, RunPlan, RunRow
from orchestrator.spawn.run_seals import Seals, with_mac


def unfinished(con: sqlite3.Connection, seals: Seals, known: Mapping[str, int]) -> list[RunRow]:
    """The runs of this machine that have not ended, in the order of the queue.

    ``known`` holds the tokens under which runs were found to be of this machine with all their nodes: those are not
    looked at again (who executes the run does that).
    """
    return [
        run
        for row in con.execute(with_mac(f"status IN {OPEN} AND number IS NOT NULL ORDER BY number")).fetchall()
        if seals.request_fits(row)
        and (known.get((run := queries.as_run(row)).id) == run.token or seals.plan_fits(con, run.id))
    ]


def run(con: sqlite3.Connection, seals: Seals, run_id: str) -> RunRow | None:
    """The run with that id, if it was created on this machine; its nodes are not checked."""
    row = con.execute(with_mac("id = ?"), (run_id,)).fetchone()
    return queries.as_run(row) if row is not None and seals.request_fits(row) else None


def nodes(con: sqlite3.Connection, run_id: str, seals: Seals) -> list[NodeRow] | None:
    """The nodes of a run in the order of its plan; None when they are not those that were planned here."""
    return queries.nodes(con, run_id) if seals.plan_fits(con, run_id) else None


def answers(con: sqlite3.Connection, run_id: str, seals: Seals) -> list[ArtifactRow]:
    """The files of the answers that were written here."""
    return [file for file in queries.artifacts(con, run_id) if seals.file_fits(con, run_id, file)]


def with_foreign_mark(con: sqlite3.Connection, seals: Seals, row: RunRow | None) -> RunRow | None:
    """The run, with ``foreign`` set if it has not ended and is not of this machine."""
    if row is None or row.status in RUN_ENDED or seals.run_is_own(con, row.id):
        return row
    return replace(row, foreign=True)


def create(con: sqlite3.Connection, seals: Seals, row: RunRow, at: str) -> RunRow:
    """As `transitions.create`, with the seal of the request.

    Environment ``foreign_data`` if the same request exists already and was not stored on this machine, Corrupt
    ``corrupt_home`` if the database accepts no further run.
    """
    try:
        stored = transitions.create(con, row, at)
    except sqlite3.IntegrityError as error:
        raise Corrupt("corrupt_home", f"the database accepts no further run: {error}") from error
    if stored.id == row.id:
        seals.seal_request(con, row.id)
    elif stored.status not in RUN_ENDED and not seals.run_is_own(con, stored.id):
        raise Environment("foreign_data", f"the run {stored.id[:80]!r} of this request was not made on this machine")
    return stored


def store_plan(
    con: sqlite3.Connection, run_id: str, token: int, seals: Seals, plan: RunPlan, file: ArtifactRow, at: str
) -> bool:
    """As `transitions.store_plan`, with the seal of the nodes."""
    stored = transitions.store_plan(con, run_id, token, plan, file, at)
    if stored:
        seals.seal_plan(con, run_id)
    return stored


def end_attempt(
    con: sqlite3.Connection,
    run_id: str,
    token: int,
    seals: Seals,
    ended: EndedAttempt,
    file: ArtifactRow | None,
    at: str,
) -> bool:
    """As `transitions.end_attempt`, with the seal of the answer's file."""
    written = transitions.end_attempt(con, run_id, token, ended, file, at)
    if written and file is not None:
        seals.seal_file(con, run_id, file)
    return written


def cancel(con: sqlite3.Connection, seals: Seals, run_id: str, at: str) -> str:
    """As `transitions.cancel`; Environment ``foreign_data`` for an unfinished run of another machine."""
    row = with_foreign_mark(con, seals, queries.run(con, run_id))
    if row is not None and row.foreign:
        raise Environment("foreign_data", f"the run {run_id[:80]!r} was not made on this machine")
    return transitions.cancel(con, run_id, at)
