"""Read the spawn runs of a project in a span of time from a home's database. Needs no daemon."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from orchestrator.base.errors import Environment
from orchestrator.spawn import queries, views
from orchestrator.spawn.database_opening import NAME, looked_at
from orchestrator.spawn.home_location import home_of

RUNS_MAX = 1000


def recorded_runs(env: Mapping[str, str], project: str, begin: str, end: str, now: datetime) -> list[dict[str, Any]]:
    """The runs that began in this time, the oldest first: rows of `views.people_row` with ``began`` and ``ended``.

    Environment ``io_failed`` if there is a home that cannot be read.
    """
    home = home_of(env)
    try:
        with looked_at(home) as con:
            if con is None:
                if (home / NAME).exists():
                    raise Environment("io_failed", f"{home / NAME} cannot be read")
                return []
            return [_row(con, run_id, now) for run_id in queries.run_ids_between(con, project, begin, end, RUNS_MAX)]
    except sqlite3.Error as error:
        raise Environment("io_failed", f"{home / NAME} cannot be read: {error}") from error


def _row(con: sqlite3.Connection, run_id: str, now: datetime) -> dict[str, Any]:
    run = queries.run(con, run_id)
    assert run is not None
    last, notes = queries.last_event(con, run_id), queries.notes(con, run_id)
    nodes, attempts = queries.nodes(con, run_id), queries.attempts(con, run_id)
    state = views.status(run, nodes, attempts, last=last, notes=notes, now=now)
    row = views.people_row(run, state, over_budget=views.is_over_budget(run))
    return {**row, "reason": row["reason"] or run.error or "", "began": run.created_at, "ended": run.finished_at}
