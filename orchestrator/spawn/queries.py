"""Reads runs from the database as the dataclasses of `run_data`. Each function takes the connection first.

Rows that the original tool wrote are read as well: a node id with or without its run's id before it (C31),
parameters that are not JSON, its own words for a level. Unknown values and values of a wrong type get the default of
`run_data`, because anybody may have written a home.
"""

# ruff: noqa: S608 - the SQL is put together from our own words
from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple, get_args

from pydantic import ValidationError

from orchestrator.spawn import ddl
from orchestrator.spawn.modes.mode_names import SpawnModeName
from orchestrator.spawn.run_data import (
    ArtifactRow,
    ArtifactType,
    AttemptRow,
    AttemptState,
    CostSource,
    Event,
    EventLevel,
    Node,
    NodeKind,
    NodeRow,
    NodeStatus,
    RunBudget,
    RunOwner,
    RunRequest,
    RunRow,
    RunSettings,
    RunStatus,
)

LIST_MAX = 1000
NOTES = 20
"""How many notes of a run are shown; its events have all."""
MONEY_MAX = Decimal("1e12")
NO_TIME = "1970-01-01T00:00:00.000Z"
"""Stands for a time that nobody can read."""


def node_key(run_id: str, node_id: str) -> str:
    """The primary key of a node, from its public id or from the key itself."""
    return f"{run_id}:{public_node_id(run_id, node_id)}"


def public_node_id(run_id: str, node_id: str) -> str:
    """The public id of a node, from either form of it (C31)."""
    return node_id.removeprefix(f"{run_id}:")


def run(con: sqlite3.Connection, run_id: str) -> RunRow | None:
    """The run of that id; None without one."""
    return _run_row(con, "SELECT * FROM runs WHERE id = ?", run_id)


class RunMoment(NamedTuple):
    """A cheap value that changes whenever a run changes: status, number of the last event, nodes."""

    status: RunStatus
    seq: int
    done: int
    total: int


def run_moment(con: sqlite3.Connection, run_id: str) -> RunMoment | None:
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
        else RunMoment(_word(RunStatus, row["status"], "failed"), row["seq"], row["done"], row["total"])
    )


def token(con: sqlite3.Connection, run_id: str) -> int | None:
    """The number that rose with the run's last change of owner; None without a run."""
    row = con.execute("SELECT token FROM runs WHERE id = ?", (run_id,)).fetchone()
    return None if row is None else int(row["token"])


def by_req(con: sqlite3.Connection, req: str) -> RunRow | None:
    """The run that this request has made; None without one, or for an empty ``req``."""
    return _run_row(con, "SELECT * FROM runs WHERE req = ? AND req <> ''", req)


def runs(con: sqlite3.Connection, status: RunStatus | None = None, limit: int = 20) -> list[RunRow]:
    """Runs of that status, or all, the newest first."""
    which = "WHERE status = ?" if status else ""
    values = [*([status] if status else []), max(0, min(limit, LIST_MAX))]
    return [as_run(row) for row in con.execute(f"SELECT * FROM runs {which} ORDER BY number DESC LIMIT ?", values)]


def run_ids_between(con: sqlite3.Connection, project: str, begin: str, end: str, limit: int) -> list[str]:
    """The runs of a project that were created between two times (RFC 3339 UTC), the oldest first."""
    rows = con.execute(
        "SELECT id FROM runs WHERE project = ? AND created_at BETWEEN ? AND ? ORDER BY number LIMIT ?",
        (project, begin, end, limit),
    )
    return [str(row["id"]) for row in rows]


def unfinished(con: sqlite3.Connection) -> list[RunRow]:
    """Every run that has not ended, in the order of the queue.

    One without a number was made by an original tool that still works in this home, which executes it itself.
    """
    rows = con.execute(f"SELECT * FROM runs WHERE status IN {ddl.OPEN} AND number IS NOT NULL ORDER BY number")
    return [as_run(row) for row in rows]


def nodes(con: sqlite3.Connection, run_id: str) -> list[NodeRow]:
    """The nodes of a run in the order of its plan; empty before it is planned."""
    return [
        _node(run_id, row)
        for row in con.execute("SELECT * FROM nodes WHERE run_id = ? ORDER BY place, rowid", (run_id,))
    ]


def attempts(con: sqlite3.Connection, run_id: str, node_id: str | None = None) -> list[AttemptRow]:
    """Every attempt at the run's nodes, or at one of them, in the order they were begun."""
    which, values = ("", [run_id]) if node_id is None else (" AND node_id = ?", [run_id, node_id])
    rows = con.execute(f"SELECT * FROM attempts WHERE run_id = ?{which} ORDER BY rowid", values)
    return [
        AttemptRow(
            node_id=_str(row["node_id"]),
            attempt=_int(row["attempt"]),
            token=_str(row["token"]),
            state=_word(AttemptState, row["state"], "lost"),
            reserved=_money(row["reserved"]) or Decimal(0),
            cost=_money(row["cost"]),
            cost_source=_word(CostSource, row["cost_source"], "reserved"),
            prompt_tokens=_int(row["tokens_prompt"]),
            completion_tokens=_int(row["tokens_completion"]),
            model=_str(row["model"]),
            started_at=_time(row["started_at"]) or NO_TIME,
            finished_at=_time(row["finished_at"]),
            error=_text(row["error"]),
        )
        for row in rows
    ]


def events(
    con: sqlite3.Connection, run_id: str, since_seq: int = 0, tail: int | None = None, limit: int = 200
) -> list[Event]:
    """Events after ``since_seq``, oldest first: the first ``limit``, or with ``tail`` the last ``limit``."""
    order, most = ("DESC", min(tail, limit)) if tail is not None else ("ASC", limit)
    rows = con.execute(
        f"SELECT * FROM events WHERE run_id = ? AND seq > ? ORDER BY seq {order} LIMIT ?",
        (run_id, since_seq, max(0, most)),
    ).fetchall()
    return [_event(run_id, row) for row in (reversed(rows) if tail is not None else rows)]


def budget_dismissed(con: sqlite3.Connection, run_id: str) -> bool:
    """Whether a human has dismissed the run's used-up budget."""
    return con.execute("SELECT 1 FROM events WHERE id = ?", (ddl.dismissal_of(run_id),)).fetchone() is not None


def last_event(con: sqlite3.Connection, run_id: str) -> Event | None:
    """What happened last with the run."""
    newest = events(con, run_id, tail=1)
    return newest[0] if newest else None


def notes(con: sqlite3.Connection, run_id: str) -> list[str]:
    """What a user should know of the run itself, such as the notes of its plan; the first 20."""
    rows = con.execute(
        "SELECT message FROM events WHERE run_id = ? AND node_id IS NULL AND level = 'warning' ORDER BY seq LIMIT ?",
        (run_id, NOTES),
    )
    return [text for text in map(_text, (row["message"] for row in rows)) if text]


def artifacts(con: sqlite3.Connection, run_id: str) -> list[ArtifactRow]:
    """The run's artifacts, one of each node and type, in the order they were made; of several the newest."""
    files: dict[tuple[str, str], ArtifactRow] = {}
    for row in con.execute("SELECT * FROM artifacts WHERE run_id = ? ORDER BY created_at, rowid", (run_id,)):
        file = _artifact(run_id, row)
        files[file.node_id, file.type] = file
    return list(files.values())


def artifact(con: sqlite3.Connection, run_id: str, node_id: str) -> ArtifactRow | None:
    """The newest artifact of a node (``<run>:<node>`` will do as well), of ``merged`` or ``plan``; None without."""
    short = public_node_id(run_id, node_id)
    row = con.execute(
        "SELECT * FROM artifacts WHERE run_id = ? AND node_id IN (?, ?) ORDER BY created_at DESC, rowid DESC LIMIT 1",
        (run_id, short, node_key(run_id, short)),
    ).fetchone()
    return None if row is None else _artifact(run_id, row)


# -- rows -----------------------------------------------------------------------------------------------------------


def _run_row(con: sqlite3.Connection, sql: str, value: str) -> RunRow | None:
    row = con.execute(sql, (value,)).fetchone()
    return None if row is None else as_run(row)


def as_run(row: sqlite3.Row) -> RunRow:
    """A row of runs, whatever its content: another program may have written it."""
    owner = None
    if row["owner_host"] is not None:
        owner = RunOwner(
            _str(row["owner_host"]), _str(row["owner_boot_id"]), _int(row["owner_pid"]), _int(row["owner_start"])
        )
    return RunRow(
        id=_str(row["id"]),
        number=_int(row["number"]),
        request=_request_of(row),
        settings=settings(row["settings_json"]),
        status=_word(RunStatus, row["status"], "failed"),
        created_at=_time(row["created_at"]) or NO_TIME,
        updated_at=_time(row["updated_at"]) or NO_TIME,
        started_at=_time(row["started_at"]),
        finished_at=_time(row["finished_at"]),
        error=_text(row["error"]),
        project=_str(row["project"]),
        req=_str(row["req"]),
        origin=_str(row["origin"]),
        key_fp=_str(row["key_fp"]),
        estimated_steps=_int(row["estimated_steps"]),
        owner=owner,
        token=_int(row["token"]),
        active=bool(row["active"]),
        waiting=bool(row["waiting"]),
        active_s=_float(row["active_s"]),
        cancel_requested=bool(row["cancel_requested"]),
        planned=bool(row["planned"]),
        plan_source=_str(row["plan_source"]),
        summary=_str(row["summary"]),
        dissent=_str(row["dissent"]),
    )


def _request_of(row: sqlite3.Row) -> RunRequest:
    """The request; if params_json has neither our form nor the original's, it is read from the columns."""
    columns = {
        "task": _str(row["task"]),
        "mode": _word(SpawnModeName, row["mode"], "single"),
        "budget": _word(RunBudget, row["budget"], "medium"),
        "context": _str(row["context"]),
    }
    parameters = {key: value for key, value in _object(row["params_json"]).items() if value is not None}
    if "collectiveCount" in parameters:
        parameters.setdefault("count", parameters["collectiveCount"])
    try:
        return RunRequest.model_validate(columns | parameters | columns)
    except ValidationError:
        return RunRequest.model_validate(columns)


def settings(text: object) -> RunSettings:
    """Settings from their JSON; the defaults, where an older tool has left none."""
    try:
        return RunSettings.model_validate_json(_str(text))
    except ValidationError:
        return RunSettings()


def _node(run_id: str, row: sqlite3.Row) -> NodeRow:
    meta, role = _object(row["meta_json"]), _object(row["role_json"])
    needs = _json(row["depends_on_json"])
    tier = meta.get("tier")
    node = Node(
        id=public_node_id(run_id, _str(row["id"])),
        kind=_word(NodeKind, row["kind"], "task"),
        wave=_int(row["wave"]),
        needs=tuple(public_node_id(run_id, str(need)) for need in needs) if isinstance(needs, list) else (),
        task=_str(row["task"]),
        model=_str(row["model"]),
        system=str(role.get("system") or ""),
        tier=tier if tier in {"cheap", "premium"} else "",
        reason=str(meta.get("reason") or ""),
    )
    return NodeRow(
        node=node,
        status=_word(NodeStatus, row["status"], "failed"),
        attempt=_int(row["attempt"]),
        retry_count=_int(row["retry_count"]),
        reruns=_int(row["reruns"]),
        retry_at=_time(row["retry_at"]),
        error=_text(row["error"]),
        started_at=_time(row["started_at"]),
        finished_at=_time(row["finished_at"]),
        finish_reason=_str(row["finish_reason"]),
        answered_by=_str(row["answered_by"]),
    )


def _event(run_id: str, row: sqlite3.Row) -> Event:
    node_id = _text(row["node_id"])
    return Event(
        seq=_int(row["seq"]),
        node_id=None if node_id is None else public_node_id(run_id, node_id),
        level="warning" if row["level"] == "warn" else _word(EventLevel, row["level"], "info"),
        message=_str(row["message"]),
        ts=_str(row["ts"]),
    )


def _artifact(run_id: str, row: sqlite3.Row) -> ArtifactRow:
    return ArtifactRow(
        node_id=public_node_id(run_id, _str(row["node_id"])),
        type=_word(ArtifactType, row["type"], "log"),
        path=_str(row["path"]),
        bytes=_int(row["bytes"]),
        sha256=_str(row["sha256"]),
        created_at=_str(row["created_at"]),
        model=_str(row["model"]),
    )


def _word(words: object, value: object, otherwise: str) -> Any:
    """The value, if it is one of the words of that Literal; the other one if it is not."""
    return value if value in get_args(words) else otherwise


def _str(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _text(value: object) -> str | None:
    return None if value is None else _str(value)


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0


def _float(value: object) -> float:
    number = float(value) if isinstance(value, int | float) else 0.0
    return number if math.isfinite(number) else 0.0


def _time(value: object) -> str | None:
    """A time with its zone, unchanged; None if it is not one."""
    try:
        return value if isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None else None
    except ValueError:
        return None


def _json(text: object) -> Any:
    try:
        return json.loads(text if isinstance(text, str) and text else "null")
    except (ValueError, RecursionError):
        return None


def _object(text: object) -> Mapping[str, Any]:
    content = _json(text)
    return content if isinstance(content, dict) else {}


def _money(text: object) -> Decimal | None:
    try:
        amount = None if text is None else Decimal(_str(text))
    except InvalidOperation:
        return None
    return amount if amount is None or (amount.is_finite() and abs(amount) < MONEY_MAX) else None
