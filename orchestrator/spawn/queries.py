"""What the database says of runs, as the dataclasses of `model`. Reads only; each takes the connection first.

Rows that the original tool wrote are read as well: a node id with or without its run's before it (C31), parameters
that are no JSON any more, words of its own for a level. What cannot be known of them has model.py's default.
"""

# ruff: noqa: S608 - the SQL is put together from our own words
from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple, get_args

from pydantic import ValidationError

from orchestrator.spawn import ddl
from orchestrator.spawn.model import (
    NODE_ENDED,
    ArtifactRow,
    ArtifactType,
    Asked,
    AttemptRow,
    Budget,
    Event,
    Kind,
    Level,
    Mode,
    Node,
    NodeRow,
    NodeStatus,
    Owner,
    RunRow,
    RunStatus,
    Settings,
)

LIST_MAX = 1000


def node_key(run_id: str, node_id: str) -> str:
    """The primary key of a node, from its public id or from the key itself."""
    return f"{run_id}:{local(run_id, node_id)}"


def local(run_id: str, node_id: str) -> str:
    """The public id of a node, from either form of it (C31)."""
    return node_id.removeprefix(f"{run_id}:")


def run(con: sqlite3.Connection, run_id: str) -> RunRow | None:
    """The run of that id; None without one."""
    return _one(con, "SELECT * FROM runs WHERE id = ?", run_id)


class Mark(NamedTuple):
    """What tells, at little cost, that a run has moved: its status, the number of its last event, its nodes."""

    status: RunStatus
    seq: int
    done: int
    total: int


def mark(con: sqlite3.Connection, run_id: str) -> Mark | None:
    """The mark of a run; None without one."""
    row = con.execute(
        "SELECT status, (SELECT COALESCE(MAX(seq), 0) FROM events WHERE run_id = runs.id) AS seq, "
        "(SELECT COUNT(*) FROM nodes WHERE run_id = runs.id) AS total, "
        "(SELECT COUNT(*) FROM nodes WHERE run_id = runs.id AND status = 'completed') AS done FROM runs WHERE id = ?",
        (run_id,),
    ).fetchone()
    return (
        None
        if row is None
        else Mark(_word(RunStatus, row["status"], "failed"), row["seq"], row["done"], row["total"])
    )


def token(con: sqlite3.Connection, run_id: str) -> int | None:
    """The number that rose with the run's last change of owner; None without a run."""
    row = con.execute("SELECT token FROM runs WHERE id = ?", (run_id,)).fetchone()
    return None if row is None else int(row["token"])


def by_req(con: sqlite3.Connection, req: str) -> RunRow | None:
    """The run that this request has made; None without one, or for an empty ``req``."""
    return _one(con, "SELECT * FROM runs WHERE req = ? AND req <> ''", req)


def runs(con: sqlite3.Connection, status: RunStatus | None = None, limit: int = 20) -> list[RunRow]:
    """Runs of that status, or all, the newest first."""
    which = "WHERE status = ?" if status else ""
    values = [*([status] if status else []), max(0, min(limit, LIST_MAX))]
    return [_run(row) for row in con.execute(f"SELECT * FROM runs {which} ORDER BY number DESC LIMIT ?", values)]


def unfinished(con: sqlite3.Connection) -> list[RunRow]:
    """Every run that has not ended, in the order of the line.

    One without a number was made by an original tool that still works in this home, which executes it itself.
    """
    found = con.execute(f"SELECT * FROM runs WHERE status IN {ddl.OPEN} AND number IS NOT NULL ORDER BY number")
    return [_run(row) for row in found]


def nodes(con: sqlite3.Connection, run_id: str) -> list[NodeRow]:
    """The nodes of a run in the order of its plan; empty before it is planned."""
    return [
        _node(run_id, row)
        for row in con.execute("SELECT * FROM nodes WHERE run_id = ? ORDER BY place, rowid", (run_id,))
    ]


def attempts(con: sqlite3.Connection, run_id: str, node_id: str | None = None) -> list[AttemptRow]:
    """Every attempt at the run's nodes, or at one of them, in the order they were begun."""
    which, values = ("", [run_id]) if node_id is None else (" AND node_id = ?", [run_id, node_id])
    found = con.execute(f"SELECT * FROM attempts WHERE run_id = ?{which} ORDER BY rowid", values)
    return [
        AttemptRow(
            node_id=row["node_id"],
            attempt=row["attempt"],
            token=row["token"],
            state=row["state"],
            reserved=_money(row["reserved"]) or Decimal(0),
            cost=_money(row["cost"]),
            cost_source=row["cost_source"],
            prompt_tokens=row["tokens_prompt"],
            completion_tokens=row["tokens_completion"],
            model=row["model"],
            started_at=row["started_at"],
            finished_at=row["finished_at"],
            error=row["error"],
        )
        for row in found
    ]


def events(
    con: sqlite3.Connection, run_id: str, since_seq: int = 0, tail: int | None = None, limit: int = 200
) -> list[Event]:
    """Events behind ``since_seq``, oldest first: the first ``limit`` of them, or with ``tail`` the last so many."""
    order, most = ("DESC", min(tail, limit)) if tail is not None else ("ASC", limit)
    found = con.execute(
        f"SELECT * FROM events WHERE run_id = ? AND seq > ? ORDER BY seq {order} LIMIT ?",
        (run_id, since_seq, max(0, most)),
    ).fetchall()
    return [_event(run_id, row) for row in (reversed(found) if tail is not None else found)]


def last_event(con: sqlite3.Connection, run_id: str) -> Event | None:
    """What happened last with the run."""
    found = events(con, run_id, tail=1)
    return found[0] if found else None


def artifacts(con: sqlite3.Connection, run_id: str) -> list[ArtifactRow]:
    """The run's artifacts, one of each node and type, in the order they were made; of several the newest."""
    found: dict[tuple[str, str], ArtifactRow] = {}
    for row in con.execute("SELECT * FROM artifacts WHERE run_id = ? ORDER BY created_at, rowid", (run_id,)):
        one = _artifact(run_id, row)
        found[one.node_id, one.type] = one
    return list(found.values())


def artifact(con: sqlite3.Connection, run_id: str, node_id: str) -> ArtifactRow | None:
    """The newest artifact of a node (``<run>:<node>`` will do as well), of ``merged`` or ``plan``; None without."""
    short = local(run_id, node_id)
    row = con.execute(
        "SELECT * FROM artifacts WHERE run_id = ? AND node_id IN (?, ?) ORDER BY created_at DESC, rowid DESC LIMIT 1",
        (run_id, short, node_key(run_id, short)),
    ).fetchone()
    return None if row is None else _artifact(run_id, row)


def counts(con: sqlite3.Connection, run_id: str) -> dict[NodeStatus, int]:
    """How many nodes of the run have which status; statuses that none has are left out."""
    found = con.execute("SELECT status, COUNT(*) FROM nodes WHERE run_id = ? GROUP BY status", (run_id,))
    return {_word(NodeStatus, status, "failed"): count for status, count in found}


def wave(con: sqlite3.Connection, run_id: str) -> int | None:
    """The first wave with a node that has not ended; None when there is none."""
    marks = ", ".join("?" * len(NODE_ENDED))
    (found,) = con.execute(
        f"SELECT MIN(wave) FROM nodes WHERE run_id = ? AND status NOT IN ({marks})", (run_id, *sorted(NODE_ENDED))
    ).fetchone()
    return None if found is None else int(found)


# -- rows -----------------------------------------------------------------------------------------------------------


def _one(con: sqlite3.Connection, sql: str, value: str) -> RunRow | None:
    row = con.execute(sql, (value,)).fetchone()
    return None if row is None else _run(row)


def _run(row: sqlite3.Row) -> RunRow:
    owner = None
    if row["owner_host"] is not None:
        owner = Owner(row["owner_host"], row["owner_boot_id"], row["owner_pid"], row["owner_start"])
    return RunRow(
        id=row["id"],
        number=row["number"] or 0,
        asked=_asked(row),
        settings=settings(row["settings_json"]),
        status=_word(RunStatus, row["status"], "failed"),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        error=row["error"],
        project=row["project"],
        req=row["req"],
        origin=row["origin"],
        key_fp=row["key_fp"],
        estimated_steps=row["estimated_steps"],
        owner=owner,
        token=row["token"],
        active=bool(row["active"]),
        waiting=bool(row["waiting"]),
        active_s=row["active_s"],
        cancel_requested=bool(row["cancel_requested"]),
        planned=bool(row["planned"]),
        plan_source=row["plan_source"],
        summary=row["summary"],
        dissent=row["dissent"],
    )


def _asked(row: sqlite3.Row) -> Asked:
    """What was asked; where params_json does not say it in our words or the original's, what the columns say."""
    columns = {
        "task": row["task"],
        "mode": _word(Mode, row["mode"], "single"),
        "budget": _word(Budget, row["budget"], "medium"),
        "context": row["context"] or "",
    }
    given = {key: value for key, value in _object(row["params_json"]).items() if value is not None}
    if "collectiveCount" in given:
        given.setdefault("count", given["collectiveCount"])
    try:
        return Asked.model_validate(columns | given | columns)
    except ValidationError:
        return Asked.model_validate(columns)


def settings(text: str) -> Settings:
    """Settings from their JSON; the defaults, where an older tool has left none."""
    try:
        return Settings.model_validate_json(text)
    except ValidationError:
        return Settings()


def _node(run_id: str, row: sqlite3.Row) -> NodeRow:
    meta, role = _object(row["meta_json"]), _object(row["role_json"])
    needs = _json(row["depends_on_json"])
    tier = meta.get("tier")
    node = Node(
        id=local(run_id, row["id"]),
        kind=_word(Kind, row["kind"], "task"),
        wave=row["wave"] or 0,
        needs=tuple(local(run_id, str(one)) for one in needs) if isinstance(needs, list) else (),
        task=row["task"],
        model=row["model"],
        system=str(role.get("system") or ""),
        tier=tier if tier in {"cheap", "premium"} else "",
        reason=str(meta.get("reason") or ""),
    )
    return NodeRow(
        node=node,
        status=_word(NodeStatus, row["status"], "failed"),
        attempt=row["attempt"],
        retry_count=row["retry_count"],
        reruns=row["reruns"],
        retry_at=row["retry_at"],
        error=row["error"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        finish_reason=row["finish_reason"],
        answered_by=row["answered_by"],
    )


def _event(run_id: str, row: sqlite3.Row) -> Event:
    node_id = row["node_id"]
    return Event(
        seq=row["seq"],
        node_id=None if node_id is None else local(run_id, node_id),
        level="warning" if row["level"] == "warn" else _word(Level, row["level"], "info"),
        message=row["message"],
        ts=row["ts"],
    )


def _artifact(run_id: str, row: sqlite3.Row) -> ArtifactRow:
    return ArtifactRow(
        node_id=local(run_id, row["node_id"]),
        type=_word(ArtifactType, row["type"], "log"),
        path=row["path"],
        bytes=row["bytes"],
        sha256=row["sha256"],
        created_at=row["created_at"],
        model=row["model"],
    )


def _word(words: object, value: object, otherwise: str) -> Any:
    """The value, if it is one of the words of that Literal; the other one if it is not."""
    return value if value in get_args(words) else otherwise


def _json(text: str | None) -> Any:
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):
        return None


def _object(text: str | None) -> Mapping[str, Any]:
    found = _json(text)
    return found if isinstance(found, dict) else {}


def _money(text: str | None) -> Decimal | None:
    try:
        found = None if text is None else Decimal(text)
    except InvalidOperation:
        return None
    return found if found is None or found.is_finite() else None
