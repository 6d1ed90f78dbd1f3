"""Reads the fleet's agents of this host, and their mirrors, for `orchestrator verify --fleet`. Changes nothing.

Effects are read before their causes: of an own agent the mirror before the log, of a replica the other way round.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.core.invariants import Violation
from orchestrator.core.mirror_invariants import (
    ComparedAgent,
    ComparedLog,
    HeldLine,
    MirrorLine,
    PostHead,
    lost_posts,
    mirror_faults,
    passed_posts,
    unshipped,
)
from orchestrator.fleet.fleet_agent_ids import fleet_id
from orchestrator.fleet.owner_session import Session, session
from orchestrator.fleet.settings import FleetSettings
from orchestrator.journal.project_files import Paths
from orchestrator.journal.segments import log_files

LINES, BYTES = 2000, 8 << 20
"""How much of a mirror is read at once."""
POSTS = 1000
_OWNERSHIP = "select host, fence from orchestrator_fleet.ownership(%s)"
_READ = "select seq, fence, line from orchestrator_fleet.read(%s, %s, %s, %s, %s)"
_TAKE = "select seq, kind, task_id from orchestrator_fleet.take(%s, %s::bigint[], %s)"


@dataclass
class MirrorReport:
    """What is wrong with the mirrors of this host's agents; ``notes`` is what is only under way."""

    violations: list[Violation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    agents: int = 0


def audit(root: Path, settings: FleetSettings) -> MirrorReport:
    """Compare every fleet agent of this host, own or replica, with the database; its errors have codes."""
    report = MirrorReport()
    paths = Paths(root)
    with session(settings.dsn) as connection:
        for directory in sorted(paths.agents.iterdir()) if paths.agents.is_dir() else ():
            if directory.name.startswith(".") or ".fenced-" in directory.name:
                continue
            own = not paths.is_replica(directory)
            if own and not _of_fleet(directory):
                continue
            report.agents += 1
            _compare(connection, settings.host, directory, report, own=own)
    return report


def _compare(connection: Session, host: str, directory: Path, report: MirrorReport, *, own: bool) -> None:
    name = fleet_id(directory.name)
    row = connection.execute(_OWNERSHIP, [[name]]).fetchone()
    holder, fence = (row[0], int(row[1])) if row else ("", None)
    if own and row and holder != host:
        report.notes.append(f"{directory.name} has moved to {holder}; the daemon sets it aside when it starts")
        return
    logs = {}
    for log in ("inbox", "outbox"):
        path = directory / f"{log}.jsonl"
        held = [] if own else list(_lines(path))
        mirror = _mirror(connection, name, log)
        logs[log] = ComparedLog(str(path), list(_lines(path)) if own else held, mirror)
    posts = _posts(connection, name) if own and row else None
    agent = ComparedAgent(directory.name, own, fence, logs["inbox"], logs["outbox"], posts)
    report.violations += mirror_faults(agent)
    if count := unshipped(agent):
        report.notes.append(f"{count} records of {directory.name} are not in the mirror yet")
    if count := lost_posts(agent):
        report.notes.append(
            f"{count} calls for {directory.name} are only in its log here: the database lost them when it was"
            " restored or failed over; they were taken before, and count"
        )
    if count := passed_posts(agent):
        report.notes.append(
            f"{count} calls for {directory.name} will not be carried out: a restore or failover had lost them, and a"
            " later one has them again; repeat those that you need, a task under another id"
        )


def _of_fleet(directory: Path) -> bool:
    first = next(_lines(directory / "outbox.jsonl"), None)
    try:
        record = json.loads(first.line) if first is not None else None
    except ValueError:
        return False
    return isinstance(record, dict) and bool(record.get("fleet"))


def _lines(path: Path) -> Iterator[HeldLine]:
    """The complete lines of a log, over all its files."""
    for file in log_files(path):
        with file.open("rb") as content:
            for number, line in enumerate(content, 1):
                if line.endswith(b"\n"):
                    yield HeldLine(line[:-1], str(file), number)


def _mirror(connection: Session, name: str, log: str) -> list[MirrorLine]:
    lines: list[MirrorLine] = []
    while True:
        after = lines[-1].seq if lines else 0
        rows = connection.execute(_READ, [name, log, after, LINES, BYTES]).fetchall()
        lines += [MirrorLine(seq, fence, line.encode()) for seq, fence, line in rows]
        if not rows:
            return lines


def _posts(connection: Session, name: str) -> dict[int, PostHead]:
    posts: dict[int, PostHead] = {}
    while True:
        rows = connection.execute(_TAKE, [[name], [max(posts, default=0)], POSTS]).fetchall()
        posts |= {seq: PostHead(kind, task_id) for seq, kind, task_id in rows}
        if not rows:
            return posts
