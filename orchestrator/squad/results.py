"""Build the answer about a squad: the contract's fields first (B2.6), then our extensions. Reads outputs."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from orchestrator.core.file_models import MemberFile, SquadFile
from orchestrator.squad import squad_files

ENDED = ("completed", "error", "timeout")
ANSWER_BYTES = 1 << 20
"""Maximum bytes of all outputs in one answer: relay and client must carry them, and a model cannot read more."""
LEAST_BYTES = 4096


def share(wanted: int, members: int) -> int:
    """Bytes of each output in an answer with this many ``members``; ``wanted`` is the configured limit."""
    return min(wanted, max(LEAST_BYTES, ANSWER_BYTES // (2 * max(1, members))))


def progress(file: SquadFile) -> str:
    """How far the squad is, in a few words."""
    running = [member.role_id for member in file.members if member.state == "running"]
    ended = sum(member.state in ENDED for member in file.members)
    at_work = f"; running: {', '.join(running)}" if running else ""
    return f"{ended} of {len(file.members)} members have ended{at_work}"


SPAWN = "spawn:"
"""How the call of a spawn run's node begins: its squad has one member, and is shown with the run."""


def people_row(file: SquadFile) -> dict[str, Any]:
    """A squad as people see it in the snapshot, beside spawn runs: ``{kind, id, title, status, since, …}``."""
    states = [_status(member) for member in file.members]
    roles = dict.fromkeys(member.role_id for member in file.members)
    return {
        "kind": "squad",
        "id": file.squad_id,
        "title": ", ".join(filter(None, roles)),
        "status": "running" if file.ended_at is None else "canceled" if file.canceled else "completed",
        "since": file.ended_at or file.created_at,
        "done": states.count("completed"),
        "failed": len(states) - states.count("completed") - states.count("running"),
        "total": len(file.members),
        "wave": None,
        "waves": None,
        "cost_usd": None,
        "needs_human": False,
        "reason": "",
    }


def listed(file: SquadFile) -> dict[str, Any]:
    """A squad as one row: its id, start and end, and its members without their outputs."""
    return {
        "squadId": file.squad_id,
        "created_at": file.created_at,
        "ended_at": file.ended_at,
        "read_at": file.read_at,
        "spawn_node": file.req.startswith(SPAWN),
        "members": [
            {"memberId": member.member_id, "roleId": member.role_id, "status": _status(member)}
            for member in file.members
        ],
    }


def shown(file: SquadFile, place: Path, limit: int, now: datetime) -> dict[str, Any]:
    """The answer of start_squad_members; ``place`` is the squad's directory, ``limit`` the bytes of each output."""
    rows = [
        _row(member, place / f"m{at}", limit, now, stateful=file.stateful) for at, member in enumerate(file.members)
    ]
    answer: dict[str, Any] = {"squadId": file.squad_id, "members": rows}
    running = sum(row["status"] == "running" for row in rows)
    if running:
        answer["note"] = (
            f"{running} of {len(rows)} members still run; to wait, call start_squad_members("
            f'{{"squadId": "{file.squad_id}", "members": []}})'
        )
    return answer


def _status(member: MemberFile) -> str:
    return member.state if member.state in ENDED else "running"


def _row(member: MemberFile, place: Path, limit: int, now: datetime, *, stateful: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"memberId": member.member_id, "roleId": member.role_id}
    if member.cwd is not None:
        row["cwd"] = member.cwd
    if stateful:
        row["chatId"] = member.chat_id or ""
    row["status"] = _status(member)
    row["rawStdout"] = row["rawStderr"] = ""
    if row["status"] == "running":
        row["reason"] = _so_far(member, place, now)
        return row
    prefix = "create." if member.step == "create" else ""
    for key, name in (("rawStdout", f"{prefix}stdout"), ("rawStderr", f"{prefix}stderr")):
        row[key], cut = squad_files.output(place / name, limit)
        if cut:
            row[f"{key}File"] = str(place / name)
    if member.reason and member.state == "error":
        row["rawStderr"] = "\n".join(text for text in (row["rawStderr"].rstrip("\n"), member.reason) if text)
    if member.state != "completed":
        facts = {"exitCode": member.exit_code, "signal": member.signal, "reason": member.reason or None}
        row |= {key: value for key, value in facts.items() if value is not None}
    return row


def _so_far(member: MemberFile, place: Path, now: datetime) -> str:
    if member.started_at is None:
        return "waits for its turn"
    since = now - datetime.fromisoformat(member.started_at)
    size = sum(squad_files.size(place / name) for name in ("stdout", "stderr"))
    return f"for {max(0, int(since.total_seconds()))} s, {size} bytes of output so far"
