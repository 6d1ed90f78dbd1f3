"""The damage in a team's files, and what `doctor --fix` would repair. Reads only, needs no daemon."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import Corrupt, Environment, OrchestratorError
from orchestrator.base.platform.process_facts import start_time
from orchestrator.core.record_types import BROADCAST_TYPES, INBOX_TYPES, OUTBOX_TYPES
from orchestrator.journal.log_lines import Record, foreign, intact, is_sealed, resealed
from orchestrator.journal.log_reader import read_all
from orchestrator.journal.log_rewrite import files_of, lines_of, quarantine_name
from orchestrator.journal.project_files import Paths, read_json
from orchestrator.journal.segments import full_path
from orchestrator.team.life import launch_exits
from orchestrator.team.recovery.agent_repair import DamagedLog, OutsideFacts, RepairedLogs, repaired_logs
from orchestrator.team.recovery.broadcast_repair import repaired_lines
from orchestrator.team.roster.agent_fold import folded
from orchestrator.team.roster.broadcast import run_file
from orchestrator.team.roster.replica_files import is_unchanged
from orchestrator.trust.seals import Seal

HALF_S = 60.0
"""A temporary file older than this whose pid is in use was left by an earlier process with that pid."""
SPEC_KEYS = ("name", "role", "engine", "run_id", "cwd", "policies", "env_names", "model", "approval")
TRIES = 3
"""Number of reads: a running daemon writes inbox and outbox while they are read one after the other."""


def of_agent(root: Path, agent_id: str) -> OrchestratorError | None:
    """The damage in an agent's logs, with the repair by --fix as the next step; None if there is none."""
    paths = Paths(root)
    error: OrchestratorError | None = None
    for _ in range(TRIES):
        fault = _wrong(paths, agent_id)
        if fault is None or (error is not None and error.message == fault.message):
            error = fault
            break
        error = fault
    if not isinstance(error, Corrupt) or error.code != "corrupt_log":
        return error
    if paths.is_replica(paths.agent_dir(agent_id)):
        return Corrupt(
            error.code, error.message, "the daemon reads it from the fleet's database again", **error.facts
        )
    try:
        summary = repair_summary(repaired_agent(paths, agent_id, error, datetime.now(UTC)))
    except OrchestratorError as other:
        return other
    step = f"orchestrator doctor --fix quarantines and rewrites it: {summary}"
    return Corrupt(error.code, error.message, step, **error.facts)


def _wrong(paths: Paths, agent_id: str) -> OrchestratorError | None:
    last_ref = max((record["ref"] for record in outside_facts(paths, agent_id).broadcast), default=0)
    try:
        _, last = folded(paths, agent_id)
    except OrchestratorError as error:
        return error
    if last_ref <= last:
        return None
    path = paths.outbox(agent_id)
    message = f"{path}: the broadcast knows record {last_ref}, the log ends at {last}"
    return Corrupt("corrupt_log", message, file=str(path), line=last)


def check_run(root: Path, run_id: str) -> None:
    """Raise Corrupt if the run's run.json is invalid."""
    error = run_trouble(Paths(root), run_id)
    if error is not None:
        step = "orchestrator doctor --fix quarantines it; then the run's window is unknown"
        raise Corrupt(error.code, error.message, step, **error.facts)


def repaired_agent(paths: Paths, agent_id: str, error: Corrupt, at: datetime) -> RepairedLogs:
    """The two repaired logs of the agent; reads only."""
    file = error.facts.get("file")
    where = f"{Path(str(file)).name}, line {error.facts.get('line')}" if file else "its logs"
    seals = [paths.provenance.seal("agent", agent_id, name) for name in ("inbox", "outbox")]
    logs = []
    for path, types, seal in (
        (paths.inbox(agent_id), INBOX_TYPES, seals[0]), (paths.outbox(agent_id), OUTBOX_TYPES, seals[1])
    ):  # fmt: skip
        logs.append(DamagedLog(own_lines(path, types, seal), quarantine_name(path, at).name, where))
    repaired = repaired_logs(agent_id, logs[0], logs[1], outside_facts(paths, agent_id), rfc3339(at))
    if seals[0] is not None and seals[1] is not None:
        repaired.inbox, repaired.outbox = resealed(repaired.inbox, seals[0]), resealed(repaired.outbox, seals[1])
    return repaired


FOREIGN_LINE = b"\0"
"""Replaces an intact line that was not written here: it may not be saved, and its number is not free."""


def own_lines(path: Path, types: frozenset[str], seal: Seal | None) -> list[bytes]:
    """As `lines_of`, but intact lines without this seal are made unreadable; without a seal all lines count.

    Environment foreign_data if lines that were accepted from another host have changed: none of them can be told from
    a stranger's, and they may be had from where they came.
    """
    lines = lines_of(path, types)
    if seal is None:
        return lines
    accepted = seal.accepted_count(lines)
    for at, line in enumerate(lines[accepted:], accepted):
        if not is_sealed(line, seal) and intact(line, types, path) is not None:
            if seal.accepts(at + 1):
                raise foreign(path, at + 1)
            lines[at] = FOREIGN_LINE
    return lines


def repair_summary(repaired: RepairedLogs) -> str:
    """The outcome of the repair, in one sentence."""
    parts = [f"{len(repaired.inbox) + len(repaired.outbox) - repaired.lost} records kept, {repaired.lost} lost"]
    if repaired.rebuilt:
        parts.append(f"the payload is lost of: {', '.join(repaired.rebuilt)}")
    if repaired.unknown:
        parts.append(f"ended in error, outcome unknown: {', '.join(repaired.unknown)}")
    return "; ".join([*parts, "the agent is then failed, or ends if it was asked to stop"])


def outside_facts(paths: Paths, agent_id: str) -> OutsideFacts:
    """The facts about the agent in the project's other files; files not written here are ignored."""
    published: list[Record] = []
    for path in sorted(paths.runs.glob("*/broadcast.jsonl")) if paths.runs.is_dir() else []:
        seal = paths.provenance.seal("run", path.parent.name, "broadcast")
        published += [record for record in intact_of(path, BROADCAST_TYPES, seal) if record["agent_id"] == agent_id]
    spec: dict[str, Any] = {
        "name": agent_id, "role": "", "engine": "unknown", "run_id": "", "cwd": str(paths.root), "policies": {},
    }  # fmt: skip
    epochs = [1]
    for path, kind in ((paths.meta(agent_id), "meta"), (paths.launch(agent_id), "launch")):
        try:
            content = read_json(path)
        except OrchestratorError:
            continue
        if not paths.provenance.owns(content, "agent", agent_id, kind):
            continue
        if type(content.get("epoch")) is int:
            epochs.append(content["epoch"])
        if kind == "meta":
            spec |= {name: content[name] for name in SPEC_KEYS if content.get(name) is not None}
    process = launch_exits.recorded(paths, agent_id)
    if process is not None:
        epochs.append(process.epoch)
    return OutsideFacts(published, spec, max(epochs))


def intact_of(path: Path, types: frozenset[str], seal: Seal | None) -> list[Record]:
    """The intact records of a log with this seal, at any place; without a seal all intact records."""
    return [record for line in own_lines(path, types, seal) if (record := intact(line, types, path)) is not None]


def damage(paths: Paths, agent_id: str) -> Corrupt | None:
    """The first damaged line of the agent's logs."""
    try:
        for path, types in ((paths.inbox(agent_id), INBOX_TYPES), (paths.outbox(agent_id), OUTBOX_TYPES)):
            for _ in read_all(path, types):
                pass
    except Corrupt as error:
        return error
    except OrchestratorError:
        return None
    return None


def run_trouble(paths: Paths, run_id: str) -> Corrupt | None:
    """Why a run's run.json is invalid; None if it is valid or a newer version wrote it."""
    try:
        run_file(paths, run_id)
    except Corrupt as error:
        try:
            version = read_json(paths.run_json(run_id)).get("v")
        except (Corrupt, AttributeError):
            return error
        return None if isinstance(version, int) and version > 1 else error
    return None


def blank_run(paths: Paths, run_id: str, at: datetime) -> dict[str, Any]:
    """The run.json of a run whose window is unknown."""
    seal = paths.provenance.seal("run", run_id, "broadcast")
    records = intact_of(paths.broadcast(run_id), BROADCAST_TYPES, seal)
    return {
        "v": 1, "run_id": run_id, "created_at": records[0]["at"] if records else rfc3339(at),
        # A socket that does not exist: no window must be taken for this run's window.
        "tmux_socket": str(paths.run_dir(run_id) / "unknown"), "tmux_name": None, "server_pid": 0,
        "server_start": 0, "window_id": "", "master_pane": "", "session": "", "detached": False,
        "changed": None, "agents": {}, "ended_at": None,
    }  # fmt: skip


def rebuilt_broadcast(paths: Paths, run_id: str) -> list[bytes]:
    """The run's broadcast, rebuilt from its lines and the outboxes of its agents."""
    outboxes: dict[str, list[Record]] = {}
    for directory in sorted(paths.agents.iterdir()) if paths.agents.is_dir() else []:
        if paths.collected(directory).exists() or not paths.may_be_agent(directory):
            continue
        replica = paths.is_replica(directory)  # its lines have the seals of other hosts
        if replica and not is_unchanged(paths, directory.name):
            continue
        records = []
        seal = None if replica else paths.provenance.seal("agent", directory.name, "outbox")
        try:
            for record in read_all(paths.outbox(directory.name), OUTBOX_TYPES, seal=seal):
                if record["seq"] == 1 and record.get("run_id") != run_id:
                    break
                records.append(record)
        except (Corrupt, Environment):
            continue  # its records are unknown or not from this machine: its published records stay
        if records:
            outboxes[directory.name] = [record for record in records if record["type"] in BROADCAST_TYPES]
    path = paths.broadcast(run_id)
    seal = paths.provenance.seal("run", run_id, "broadcast")
    lines = repaired_lines(own_lines(path, BROADCAST_TYPES, seal), outboxes, path)
    return lines if seal is None else resealed(lines, seal)


def is_same(path: Path, lines: list[bytes]) -> bool:
    """Whether the log's files hold these lines and nothing else, each file under the name it must have."""
    seen = 0
    for file in files_of(path):
        if file not in (path, full_path(path, seen + 1)):
            return False
        file_lines = file.read_bytes().splitlines(keepends=True)
        if file_lines != lines[seen : seen + len(file_lines)]:
            return False
        seen += len(file_lines)
    return seen == len(lines)


def half_written_of(root: Path) -> list[Path]:
    """As `half_written`, of a project."""
    return half_written(Paths(root))


def half_written(paths: Paths) -> list[Path]:
    """Our temporary files whose writer has ended."""
    places = [paths.home, *_below(paths.agents), *_below(paths.runs)]
    places += [deep for agent in _below(paths.agents) for deep in engine_dirs(agent)]
    return sorted(path for place in places for path in place.glob(".*.tmp") if _left_over(path))


def _below(place: Path) -> list[Path]:
    """The directories in a directory, without links, which may lead anywhere."""
    if place.is_symlink() or not place.is_dir():
        return []
    return [path for path in place.iterdir() if path.is_dir() and not path.is_symlink()]


def engine_dirs(agent_dir: Path) -> list[Path]:
    """The engine directory of an agent and every directory in it, none of them reached through a link."""
    engine = agent_dir / "engine"
    if engine.is_symlink() or not engine.is_dir():
        return []
    return [Path(place) for place, _, _ in os.walk(engine)]


def _left_over(path: Path) -> bool:
    words = path.name.removesuffix(".tmp").rpartition(".")[2].split("-")
    if len(words) != 2 or not all(word.isdecimal() for word in words) or path.is_symlink() or not path.is_file():
        return False
    if int(words[0]) == os.getpid() or start_time(int(words[0])) is not None:  # or another process of that pid
        return time.time() - path.stat().st_mtime > HALF_S
    return True
