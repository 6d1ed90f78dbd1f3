"""Adoption of foreign team data: what would start if the user trusted it, and writing it with this machine's seals.

Data is foreign if no daemon of this machine wrote it: it came with a clone, a pull, an archive or a copy, or from an
older version. Nothing acts on it before it is adopted. Adoption writes the same records again, each with its seal;
pids, panes and launch files are kept only if running processes prove them.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import structlog

from orchestrator.base import failpoints
from orchestrator.base.errors import Conflict, Corrupt, OrchestratorError
from orchestrator.base.platform import process_facts, processes
from orchestrator.core.record_types import BROADCAST_TYPES, INBOX_TYPES, OUTBOX_TYPES
from orchestrator.core.state import ENDED_LIVES
from orchestrator.edge.project_location import AGENT_ENV
from orchestrator.journal.log_lines import intact, is_sealed, resealed
from orchestrator.journal.log_rewrite import files_of, lines_of, rewrite
from orchestrator.journal.project_files import Paths, check_id, ensure_agents_dir, read_json, replace
from orchestrator.journal.segments import log_exists
from orchestrator.team.life.supervisor import Supervisor
from orchestrator.team.roster.agent_fold import folded
from orchestrator.team.roster.broadcast import open_run, own_run_file, run_file, write_run_file
from orchestrator.team.roster.roster import Roster
from orchestrator.tmux import panes
from orchestrator.tmux.server_address import TmuxSocket
from orchestrator.trust.seals import Seal

log = structlog.get_logger()

LOGS = (("inbox", INBOX_TYPES), ("outbox", OUTBOX_TYPES))
SHOWN_TASKS = 20
UNKNOWN_WINDOW = {"tmux_name": None, "server_pid": 0, "server_start": 0, "window_id": "", "master_pane": "",
                  "master": None, "session": "", "detached": False, "changed": None}  # fmt: skip
"""What run.json says of a run whose window is not known: no window and no process must be taken for this run's."""


# -- what is foreign ------------------------------------------------------------------------------------------------


def foreign_agents(paths: Paths) -> list[str]:
    """The agents of the project with a record that was not written here."""
    return [
        path.name
        for path in _directories(paths.agents)
        if paths.may_be_agent(path) and not paths.is_replica(path) and _agent_is_foreign(paths, path.name)
    ]


def foreign_runs(paths: Paths) -> list[str]:
    """The team runs of the project whose files were not written here."""
    return [path.name for path in _directories(paths.runs) if _run_is_foreign(paths, path.name)]


def foreign_names(root: Path) -> list[str]:
    """The agents and runs of a project that were not written on this machine."""
    paths = Paths(root)
    return [*foreign_agents(paths), *foreign_runs(paths)]


def _agent_is_foreign(paths: Paths, agent_id: str) -> bool:
    if os.path.lexists(paths.mirror(agent_id)):
        return True
    for name, types in LOGS:
        seal = paths.provenance.seal("agent", agent_id, name)
        if _log_is_foreign(paths.agent_dir(agent_id) / f"{name}.jsonl", types, seal):
            return True
    note = paths.collected(paths.agent_dir(agent_id))
    return note.exists() and not paths.is_collected(paths.agent_dir(agent_id))


def _run_is_foreign(paths: Paths, run_id: str) -> bool:
    note = paths.collected(paths.run_dir(run_id))
    if note.exists():
        return not paths.is_collected(paths.run_dir(run_id))
    if not paths.run_json(run_id).is_file():
        return False
    seal = paths.provenance.seal("run", run_id, "broadcast")
    try:
        own_run_file(paths, run_id)
    except OrchestratorError as error:
        return error.code == "foreign_data"
    return _log_is_foreign(paths.broadcast(run_id), BROADCAST_TYPES, seal)


def _log_is_foreign(log_path: Path, types: frozenset[str], seal: Seal | None) -> bool:
    """Whether an intact line of the log lacks the seal; damaged lines are no question of trust."""
    if seal is None:
        return log_exists(log_path)
    accepted = seal.accepted_count(line for _, line in _lines_of(log_path))
    for path, line in islice(_lines_of(log_path), accepted, None):
        try:
            if not is_sealed(line, seal) and intact(line, types, path) is not None:
                return True
        except Corrupt:
            return True  # of a newer version, and not of this machine
    return False


def _lines_of(log_path: Path) -> Iterator[tuple[Path, bytes]]:
    """Each line of a log, without its newline, and its file."""
    for path in files_of(log_path):
        with _opened(path) as file:
            for line in file:
                yield path, line[:-1]


def _opened(path: Path) -> BufferedReader:
    """The file to read; a pipe is not waited for, a link not followed. OSError."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def _directories(place: Path) -> list[Path]:
    if place.is_symlink() or not place.is_dir():
        return []
    return [path for path in sorted(place.iterdir()) if path.is_dir() and not path.is_symlink()]


def _digest(files: Iterable[Path]) -> str:
    """A digest of these files, so that exactly what was shown is adopted."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode(errors="surrogateescape") + b"\0")
        try:
            with _opened(path) as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError:
            digest.update(b"-")
    return digest.hexdigest()


def _agent_files(paths: Paths, agent_id: str) -> Iterator[Path]:
    for name, _ in LOGS:
        yield from files_of(paths.agent_dir(agent_id) / f"{name}.jsonl")
    yield paths.launch(agent_id)
    yield paths.mirror(agent_id)
    yield paths.collected(paths.agent_dir(agent_id))


def _run_files(paths: Paths, run_id: str) -> Iterator[Path]:
    yield paths.run_json(run_id)
    yield from files_of(paths.broadcast(run_id))
    yield paths.collected(paths.run_dir(run_id))


def foreign_squads(paths: Paths) -> list[Path]:
    """The files of squads that were not written here."""
    files = []
    for place in _directories(paths.squads):
        path = paths.squad_json(place.name)
        try:
            if path.is_file() and not path.is_symlink() and not paths.provenance.owns(
                read_json(path), "squad", place.name
            ):  # fmt: skip
                files.append(path)
        except OrchestratorError:
            continue  # damaged: nobody uses it
    return files


# -- what would come to life ----------------------------------------------------------------------------------------


def preview(paths: Paths) -> list[dict[str, Any]]:
    """What adoption would start, for the question to the user: one row per foreign agent, run or squad.

    ``{kind, name, does, sha256, ...}``: ``sha256`` changes with every byte that would be adopted. The row of an agent
    also has engine, command, cwd, approval, status and unfinished tasks. Reads only.
    """
    rows = [
        _agent_row(paths, agent_id) | {"sha256": _digest(_agent_files(paths, agent_id))}
        for agent_id in foreign_agents(paths)
    ]
    rows += [
        {
            "kind": "run",
            "name": run_id,
            "does": "its panes are used if they run agents of this project",
            "sha256": _digest(_run_files(paths, run_id)),
        }
        for run_id in foreign_runs(paths)
    ]
    rows += [
        {"kind": "squad", "name": path.parent.name, "does": "its results can be read", "sha256": _digest([path])}
        for path in foreign_squads(paths)
    ]
    return rows


def _agent_row(paths: Paths, agent_id: str) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": "agent", "name": agent_id}
    if paths.collected(paths.agent_dir(agent_id)).exists():
        return row | {"does": "nothing: it was deleted, and its data removed"}
    if os.path.lexists(paths.mirror(agent_id)):
        return row | {"does": "nothing: it is a copy of another host's agent"}
    try:
        agent, last = folded(paths, agent_id)
    except OrchestratorError as error:
        return row | {"does": "nothing before it is repaired", "damaged": error.message}
    lives = agent.life not in ENDED_LIVES and not agent.stop_asked
    spec = agent.spec
    tasks = [{"task_id": task.task_id, "state": task.state, "payload": task.payload}
             for task in agent.unfinished.values()]  # fmt: skip
    row |= {
        "does": "is launched again by its policy" if lives else "nothing: it has ended",
        "lives": lives, "status": agent.life, "role": spec.get("role"), "engine": spec.get("engine"),
        "command": spec.get("command"), "cwd": spec.get("cwd"), "approval": spec.get("approval", "ask"),
        "restart": agent.policies.get("restart"), "records": last,
    }  # fmt: skip
    if lives:
        row |= {"tasks": tasks[:SHOWN_TASKS], "tasks_not_shown": max(0, len(tasks) - SHOWN_TASKS)}
    return row


# -- giving seals ---------------------------------------------------------------------------------------------------


def seal_files(paths: Paths) -> tuple[list[str], list[str]]:
    """Give every foreign file its seal, and the directory its identity; the ids of the runs and the agents.

    Each file is replaced as a whole; after a crash the rest is still foreign and can be adopted again. No process may
    have the logs open. A run's window, an agent's launch file and its process are kept only if they provably belong
    to this project. Raises ``Environment`` if the disk fails.
    """
    agents, runs, squads = foreign_agents(paths), foreign_runs(paths), foreign_squads(paths)
    ensure_agents_dir(paths)
    for run_id in runs:
        _seal_run(paths, run_id)
        failpoints.passed("trust:run")
    for path in squads:
        _seal_squad(paths, path)
    for agent_id in agents:
        _seal_agent(paths, agent_id)
        failpoints.passed("trust:agent")
    return runs, agents


def _seal_log(paths: Paths, path: Path, types: frozenset[str], *scope: str) -> None:
    seal = paths.provenance.seal(*scope)
    assert seal is not None, "ensure_agents_dir has given the directory an identity"
    if not log_exists(path):
        return
    raw_lines = lines_of(path, types)
    accepted = seal.accepted_count(raw_lines)
    lines = [line + b"\n" for line in raw_lines[:accepted]]
    for line in raw_lines[accepted:]:
        whole = line + b"\n"
        lines += resealed([whole], seal) if intact(line, types, path) is not None else [whole]
    rewrite(path, lines)


def _seal_agent(paths: Paths, agent_id: str) -> None:
    directory = paths.agent_dir(agent_id)
    if paths.collected(directory).exists():
        _seal_note(paths, paths.collected(directory), "collected")
        return
    if os.path.lexists(paths.mirror(agent_id)):
        _seal_note(paths, paths.mirror(agent_id), "mirror")
        return
    launch = _proven_launch(paths, agent_id)
    if launch is not None:
        sealed = paths.provenance.sealed(launch, "agent", agent_id, "launch")
        replace(paths.launch(agent_id), orjson.dumps(sealed), mode=0o600)
    # The outbox last: an agent is foreign as long as that is, whatever a crash leaves undone.
    for name, types in LOGS:
        _seal_log(paths, directory / f"{name}.jsonl", types, "agent", agent_id, name)


def _seal_note(paths: Paths, path: Path, kind: str) -> None:
    try:
        note = read_json(path)
    except OrchestratorError:
        return
    if isinstance(note, dict):
        sealed = paths.provenance.sealed(note, kind, path.parent.name)
        replace(path, orjson.dumps(sealed, option=orjson.OPT_INDENT_2) + b"\n", mode=0o600)


def _seal_run(paths: Paths, run_id: str) -> None:
    if paths.collected(paths.run_dir(run_id)).exists():
        _seal_note(paths, paths.collected(paths.run_dir(run_id)), "collected")
        return
    try:
        file = run_file(paths, run_id)
    except OrchestratorError:
        return  # damaged: repair says so
    _seal_log(paths, paths.broadcast(run_id), BROADCAST_TYPES, "run", run_id, "broadcast")
    if not _window_proven(paths, file):
        unknown = str(paths.run_dir(run_id) / "unknown")  # a socket that is nobody's
        file |= UNKNOWN_WINDOW | {"tmux_socket": unknown, "agents": dict.fromkeys(file.get("agents") or {}, "")}
    write_run_file(paths.run_json(run_id), file, paths.provenance)


def _window_proven(paths: Paths, file: dict[str, Any]) -> bool:
    """Whether the run's panes are there and run agents of this very project, and none runs something else."""
    wanted = {str(pane): str(name) for name, pane in (file.get("agents") or {}).items() if pane}
    try:
        tagged = panes.list_tagged(TmuxSocket(path=str(file["tmux_socket"])))
    except (OrchestratorError, KeyError):
        return False
    ours = [pane for pane in tagged if pane.run_id == file["run_id"] and wanted.get(pane.pane_id) == pane.agent_id]
    return bool(ours) and all(_of_project(paths, pane.pid, pane.agent_id) for pane in ours if not pane.dead)


def _of_project(paths: Paths, pid: int, agent_id: str) -> bool:
    env = processes.environ_of(pid)
    return env.get(AGENT_ENV[0]) == agent_id and env.get("ORCHESTRATOR_PROJECT") == str(paths.root)


def _proven_launch(paths: Paths, agent_id: str) -> dict[str, Any] | None:
    """The agent's launch file, if a process that runs now was launched with it; else it decides nothing any more."""
    try:
        launch = read_json(paths.launch(agent_id))
        secret = launch["secret"]
    except (OrchestratorError, LookupError, TypeError):
        return None
    for pid in process_facts.pids():
        if _of_project(paths, pid, agent_id) and processes.environ_of(pid).get(AGENT_ENV[2]) == secret:
            return dict(launch)
    return None


def _seal_squad(paths: Paths, path: Path) -> None:
    try:
        content = read_json(path)
        for member in content["members"]:
            member |= {"pid": None, "start": None, "boot_id": None}
    except (OrchestratorError, LookupError, TypeError):
        return
    replace(path, orjson.dumps(paths.provenance.sealed(content, "squad", path.parent.name)), mode=0o600)


# -- in the daemon --------------------------------------------------------------------------------------------------


class TeamAdoption:
    """The adoption of a project's foreign data by the daemon that supervises its team; one at a time."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._roster: Roster = supervisor.roster
        self._at_work = asyncio.Lock()

    async def preview(self) -> list[dict[str, Any]]:
        """As `preview`, of this project."""
        return await asyncio.to_thread(preview, self._roster.paths)

    async def adopt(self, shown: Sequence[dict[str, Any]]) -> list[str]:
        """Adopt all foreign data if it is still what was ``shown``, and load it; returns the adopted ids.

        Conflict ``trust_changed`` if something has changed since it was shown.
        """
        roster, paths = self._roster, self._roster.paths
        async with self._at_work:
            if await self.preview() != list(shown):
                raise Conflict("trust_changed", "the team data changed since it was shown")
            roster.begin_writing()
            runs, agents = await asyncio.to_thread(seal_files, paths)
            for run_id in runs:
                self._take_up_run(run_id)
            for agent_id in agents:
                await self._take_up(agent_id)
            roster.publish_missing()
            log.info("foreign team data was adopted", runs=runs, agents=agents)
        return [*runs, *agents]

    def _take_up_run(self, run_id: str) -> None:
        roster, config = self._roster, self._roster.config()
        roster.corrupt.pop(run_id, None)
        roster.checkpoints.forget_run(run_id)
        try:
            roster.runs[run_id] = open_run(
                roster.paths, run_id, own_run_file(roster.paths, run_id), roster.syncer, config.durability,
                clean=False, segment_bytes=config.segment_bytes,
            )  # fmt: skip
        except OrchestratorError as error:
            roster.corrupt[run_id] = error

    async def _take_up(self, agent_id: str) -> None:
        roster = self._roster
        roster.checkpoints.forget(agent_id)
        directory = roster.paths.agent_dir(agent_id)
        if roster.paths.is_collected(directory) or roster.paths.is_replica(directory):
            roster.corrupt.pop(agent_id, None)
            return
        entry = roster.take_up(check_id(agent_id, "agent id"))
        if entry is not None:
            await roster.commit(entry, [])
            self._supervisor.take_over(entry)
            for listener in roster.listeners:
                listener(entry)
