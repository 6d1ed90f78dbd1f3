"""The team read from its files, when no daemon answers. Never writes; a status is `unknown` unless it is final.

Everything is folded from the logs; meta.json and run.json only add facts that the logs do not have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orchestrator.base.errors import BadRequest, Environment, OrchestratorError
from orchestrator.base.final_states import FINAL_LIVES
from orchestrator.core import agent_status as derived
from orchestrator.core import state
from orchestrator.core.record_types import BROADCAST_TYPES, OUTBOX_TYPES
from orchestrator.journal.log_reader import page, read_all
from orchestrator.journal.project_files import Paths, check_id
from orchestrator.journal.segments import log_exists
from orchestrator.team.roster.agent_fold import folded, must_be_there
from orchestrator.team.roster.agent_views import PAGE_BYTES, full_of, record_view, row_of
from orchestrator.team.roster.broadcast import run_file
from orchestrator.team.roster.replica_files import is_unchanged, owner_of

NO_DAEMON = "no daemon runs: what the files say"
FOREIGN = "not of this machine; orchestrator trust lists what would be started"


def _status(agent: state.Agent, reason: str) -> tuple[str, str]:
    status = derived.status(agent, derived.Presence())
    return status if status[0] in FINAL_LIVES else ("unknown", reason)


def _folded(paths: Paths, agent_id: str) -> tuple[state.Agent, int, str]:
    """As `folded`, and why its status is not known: other words for own files, a stranger's, and a replica's."""
    owner = owner_of(paths, agent_id)
    if owner is not None and is_unchanged(paths, agent_id):
        return *folded(paths, agent_id), f"an agent of host {owner.host}: what was last heard of it"
    try:
        return *folded(paths, agent_id, own=True), NO_DAEMON
    except Environment as error:
        if error.code != "foreign_data":
            raise
    return *folded(paths, agent_id), FOREIGN


def _pane(paths: Paths, agent: state.Agent) -> str | None:
    try:
        pane: str | None = run_file(paths, agent.run_id)["agents"].get(agent.agent_id)
    except OrchestratorError:
        return None
    return pane


def agents(root: Path) -> list[dict[str, Any]]:
    """The rows of agent_list for the whole project; an unreadable agent is a row with status `failed`."""
    paths = Paths(root)
    return [row(paths, agent_id) for agent_id in agent_ids(root)]


def row(paths: Paths, agent_id: str) -> dict[str, Any]:
    """The agent's row from its files; the pane of a foreign agent is not shown."""
    return row_and_state(paths, agent_id)[0]


def row_and_state(paths: Paths, agent_id: str) -> tuple[dict[str, Any], state.Agent | None]:
    """As `row`, with the state it shows; None if the logs cannot be read or were not written on this machine."""
    try:
        agent, last, reason = _folded(paths, agent_id)
    except OrchestratorError as error:
        return row_of(state.Agent(agent_id), ("failed", error.message), None, 0), None
    pane = _pane(paths, agent) if reason == NO_DAEMON else None
    return row_of(agent, _status(agent, reason), pane, last), None if reason == FOREIGN else agent


def agent(root: Path, agent_id: str) -> dict[str, Any]:
    """The meta of agent_get."""
    paths = Paths(root)
    agent_state, last, reason = _folded(paths, agent_id)
    status, own = _status(agent_state, reason), reason == NO_DAEMON
    meta = full_of(agent_state, status, _pane(paths, agent_state) if own else None, last, paths)
    from orchestrator.team.worktrees.inspection import look  # noqa: PLC0415  (loads the git commands)

    # Looking runs git in the worktree's directory, which a foreign record could name.
    return meta | {"worktree": look(root, agent_id) if meta["worktree"] and own else None}


def events(root: Path, agent_id: str, since_seq: int, max_events: int) -> dict[str, Any]:
    """As events_read, without waiting."""
    paths = Paths(root)
    check_id(agent_id, "agent_id")
    must_be_there(paths, agent_id)
    return {"agent_id": agent_id, **_page(paths.outbox(agent_id), OUTBOX_TYPES, since_seq, max_events)}


def record(root: Path, agent_id: str, seq: int) -> dict[str, Any] | None:
    """One record of the agent's outbox, whole; None if it is not there. For what `events` has cut."""
    records = page(Paths(root).outbox(check_id(agent_id, "agent_id")), OUTBOX_TYPES, seq - 1, (1, 1))
    return records[0] if records and records[0]["seq"] == seq else None


def broadcast(root: Path, run_id: str | None, since_seq: int, max_events: int) -> dict[str, Any]:
    """As broadcast_read, without waiting; without ``run_id`` that of the newest run."""
    paths = Paths(root)
    if run_id is None:
        known = runs(root)
        if not known:
            raise BadRequest("unknown_run", "this project has no team run")
        run_id = str(known[-1]["run_id"])
    check_id(run_id, "run_id")
    if not paths.run_json(run_id).exists():
        raise BadRequest("unknown_run", f"no team run is called {run_id!r}")
    return {"run_id": run_id, **_page(paths.broadcast(run_id), BROADCAST_TYPES, since_seq, max_events)}


def verify_broadcast(root: Path, run_id: str) -> int:
    """Read every line of a run's broadcast; how many. Corrupt with file and line at the first bad one."""
    path = Paths(root).broadcast(check_id(run_id, "run_id"))
    return sum(1 for _ in read_all(path, BROADCAST_TYPES)) if log_exists(path) else 0


def runs(root: Path) -> list[dict[str, Any]]:
    """Every run, oldest first: its id, agents, times, and where in tmux it is, by the keys of run.json."""
    paths = Paths(root)
    if not paths.runs.is_dir():
        return []
    rows = []
    for directory in sorted(paths.runs.iterdir()):
        if not (directory / "run.json").is_file() or paths.collected(directory).exists():
            continue
        try:
            file = run_file(paths, directory.name)
        except OrchestratorError:
            continue
        keys = ("run_id", "created_at", "window_id", "tmux_socket", "server_pid", "master_pane", "ended_at")
        rows.append({**{key: file.get(key) for key in keys}, "agents": sorted(file["agents"])})
    return sorted(rows, key=lambda run: str(run["created_at"]))


def agent_ids(root: Path) -> list[str]:
    """The ids of all agents whose data is there, deleted ones included."""
    paths = Paths(root)
    if not paths.agents.is_dir():
        return []
    return sorted(
        entry.name
        for entry in paths.agents.iterdir()
        if paths.may_be_agent(entry) and log_exists(entry / "outbox.jsonl") and not paths.collected(entry).exists()
    )


def _page(path: Path, types: frozenset[str], since_seq: int, max_events: int) -> dict[str, Any]:
    records = page(path, types, since_seq, (max_events + 1, PAGE_BYTES))
    more = len(records) > max_events or (bool(records) and bool(page(path, types, records[-1]["seq"], (1, 1))))
    records = records[:max_events]
    last = records[-1]["seq"] if records else since_seq
    return {"events": [record_view(record) for record in records], "last_seq": last, "more": more}
