"""Adoption of foreign spawn runs: lists the runs that would continue, and gives them this machine's seals.

A run is foreign if it has not ended, and its row or its nodes were not stored by a daemon of this machine. It came
with a clone, a pull, an archive or a copy, or an older version created it. Touches one home.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Collection
from pathlib import Path
from typing import Any

from orchestrator.journal.project_files import ID
from orchestrator.spawn import ddl, queries, run_seals, views
from orchestrator.spawn.database_opening import looked_at
from orchestrator.spawn.run_data import NODE_ENDED
from orchestrator.spawn.run_seals import HomeIdentity, Seals

SHOWN = 200


def foreign(home: Path) -> list[dict[str, Any]]:
    """The foreign runs of a home, the oldest first, `SHOWN` of them at most; changes nothing.

    Of each: ``id``, ``task`` (its first line), ``caller`` (model, engine or agent), ``engine`` or ``agent`` (who is
    asked), ``mode``, ``project``, ``base_url`` (the server that is asked, and sent the key), ``nodes`` that are open,
    and ``digest``, which changes with all that adoption would vouch for.
    """
    own = HomeIdentity(home).recognize()
    with contextlib.suppress(sqlite3.Error), looked_at(home) as con:
        if con is not None:
            con.execute("BEGIN")
            return [_row(con, run_id) for run_id in _foreign(con, Seals(own))[:SHOWN]]
    return []


def adopt(con: sqlite3.Connection, home: HomeIdentity, shown: Collection[str] | None) -> list[str]:
    """Seal the foreign runs, those whose digest is in ``shown`` (None: all); their ids. In the caller's transaction.

    Gives the home its identity. What an unfinished attempt left on the disk is not believed: it is made again.
    """
    adopted = []
    for run_id in _foreign(con, Seals(home.recognize())):
        if shown is not None and _digest(con, run_id) not in shown:
            continue
        seals = Seals(home.establish())
        seals.seal_request(con, run_id)
        run = queries.run(con, run_id)
        if (run is not None and run.planned) or queries.nodes(con, run_id):
            seals.seal_plan(con, run_id)
        for file in queries.artifacts(con, run_id):
            seals.seal_file(con, run_id, file)
        adopted.append(run_id)
    return adopted


def _foreign(con: sqlite3.Connection, seals: Seals) -> list[str]:
    """The ids of the foreign runs; those whose id cannot become part of a path can never go on, and are left out."""
    sealed = "seals" in ddl.tables(con)
    ids = [run.id for run in queries.unfinished(con) if ID.fullmatch(run.id) and ".." not in run.id]
    return [run_id for run_id in ids if not sealed or not seals.run_is_own(con, run_id)]


def _digest(con: sqlite3.Connection, run_id: str) -> str:
    return hashlib.sha256(run_seals.digest_of(con, run_id)).hexdigest()[:32]


def _row(con: sqlite3.Connection, run_id: str) -> dict[str, Any]:
    run = queries.run(con, run_id)
    assert run is not None, "read on one snapshot"
    nodes = queries.nodes(con, run_id)
    first = run.request.task.strip().partition("\n")[0]
    names = {"engine": list(run.request.engines), "agent": list(run.request.agents)}
    # Nodes of a stranger's plan may ask others than the run was created with.
    asked_by_nodes = sorted({row.node.model for row in nodes if row.status not in NODE_ENDED})[:20]
    return {
        "id": run.id,
        "task": views.short_task(first),
        "caller": run.request.caller_kind,
        "mode": run.request.mode,
        "status": run.status,
        "project": run.project,
        "base_url": run.settings.base_url if run.request.caller_kind == "model" else "",
        "nodes": sum(row.status not in NODE_ENDED for row in nodes),
        "asks": asked_by_nodes,
        "digest": _digest(con, run_id),
        **{kind: callers for kind, callers in names.items() if callers},
    }
