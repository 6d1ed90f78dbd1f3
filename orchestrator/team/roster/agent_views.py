"""Views of an agent: the rows of agent_list, the meta of agent_get, its records as models see them. Reads only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from orchestrator.base.clock import Clock, rfc3339
from orchestrator.base.errors import OrchestratorError
from orchestrator.core import agent_status as derived
from orchestrator.core import state
from orchestrator.core.task_words import title_of
from orchestrator.journal.log_reader import place
from orchestrator.journal.project_files import Paths, list_artifacts, read_artifact
from orchestrator.journal.segments import full_firsts

if TYPE_CHECKING:  # the command line shows files without them: 0.1 s sooner
    from orchestrator.team.roster.agent_entry import AgentEntry
    from orchestrator.team.roster.roster import Roster

SHOWN_TASKS = 50
PAGE_BYTES = 10_000
"""Answers to models are paged at 10 KB."""


def row_of(agent: state.Agent, status: tuple[str, str], pane_id: str | None, last_seq: int) -> dict[str, Any]:
    """One row of agent_list (R-AC3)."""
    lease = agent.lease
    return {
        "agent_id": agent.agent_id,
        "name": agent.spec.get("name", agent.agent_id),
        "role": agent.spec.get("role", ""),
        "engine": agent.spec.get("engine", ""),
        "status": status[0],
        "reason": status[1],
        "tmux_pane_id": pane_id,
        "queue_depth": len(agent.unfinished) - (1 if lease is not None else 0),
        "running_task_id": lease.task_id if lease is not None else None,
        "running_task_title": title_of_task(lease) if lease is not None else None,
        "attempt": lease.attempt if lease is not None else None,
        "since": derived.since(agent, status[0]),
        "finished": dict(agent.outcomes),
        "last_task": last_task_of(agent),
        "cancel_requested": bool(lease is not None and lease.cancel_requested),
        "last_event_seq": last_seq,
        "run_id": agent.run_id,
        "created_at": agent.created_at,
        **({"host": agent.host} if agent.fleet else {}),
    }


def full_of(
    agent: state.Agent, status: tuple[str, str], pane_id: str | None, last_seq: int, paths: Paths
) -> dict[str, Any]:
    """The meta of agent_get."""
    tasks = [
        {
            "task_id": task.task_id,
            "title": title_of_task(task),
            "state": task.state,
            "position": place,
            "attempt": task.attempt,
            "cancel_requested": task.cancel_requested,
            "timeout_s": task.timeout_s,
        }
        for place, task in enumerate(agent.unfinished.values(), 1)
        if place <= SHOWN_TASKS
    ]
    return {
        **row_of(agent, status, pane_id, last_seq),
        "blocked": blocked_of(agent),
        "evidence": evidence_of(agent, status[0], paths),
        "model": agent.spec.get("model"),
        "approval": agent.spec.get("approval", "ask"),
        "command": agent.spec.get("command"),
        "session": agent.session,
        "engine_version": None,
        "cwd": agent.spec.get("cwd", ""),
        "worktree": worktree_of(agent),
        "toolsets": agent.spec.get("toolsets", []),
        "epoch": agent.epoch,
        "tasks": tasks,
        "tasks_not_shown": max(0, len(agent.unfinished) - SHOWN_TASKS),
        "paths": paths_of(paths, agent.agent_id),
        "ready_at": agent.ready_at,
        "policies": {**agent.policies, "on_host_lost": agent.fleet["on_host_lost"]}
        if agent.fleet
        else agent.policies,
        "env_names": agent.spec.get("env_names", []),
    }


def title_of_task(task: state.Task) -> str:
    """The title of an unfinished task; its id if its payload has no words. Old records have no title."""
    return task.title or title_of(task.payload) or task.task_id


def last_task_of(agent: state.Agent) -> dict[str, Any] | None:
    """The task that ended last: ``{task_id, title, outcome, reason, at}``; None if none has ended."""
    last = agent.last_end
    if last is None:
        return None
    return {
        "task_id": last.task_id,
        "title": last.title or last.task_id,
        "outcome": last.outcome,
        "reason": last.reason,
        "at": last.at,
    }


def worktree_of(agent: state.Agent) -> dict[str, Any] | None:
    """The agent's git worktree from its record: ``{path, branch, base}``; None without one."""
    worktree = agent.spec.get("worktree")
    return {key: worktree[key] for key in ("path", "branch", "base")} if worktree else None


def blocked_of(agent: state.Agent) -> dict[str, Any] | None:
    """What blocks the agent: ``{kind, reason, until, since}``; None if it is not blocked."""
    block = agent.blocked
    if block is None:
        return None
    return {"kind": block.kind or None, "reason": block.reason, "until": block.until, "since": block.since}


def evidence_of(agent: state.Agent, shown: str, paths: Paths) -> list[dict[str, Any]]:
    """The records that prove the status, most relevant first: ``[{file, seq, type, at}]``.

    Empty if only presence shows the status (`idle` has its launch record; no record shows that it waits now).
    """
    logs = {"inbox": paths.inbox(agent.agent_id), "outbox": paths.outbox(agent.agent_id)}
    return [
        {"file": _file_of(logs[proof.log], proof.seq), "seq": proof.seq, "type": proof.type, "at": proof.at}
        for proof in derived.proof_of(agent, shown)
    ]


def _file_of(log: Path, seq: int) -> str:
    """The log file that holds the record; the live file if that cannot be determined."""
    try:
        return str(place(log, seq)[0] if full_firsts(log) else log)
    except (OSError, OrchestratorError):
        return str(log)


def paths_of(paths: Paths, agent_id: str) -> dict[str, str]:
    """The absolute paths of the agent's files."""
    return {
        "meta": str(paths.meta(agent_id)),
        "inbox": str(paths.inbox(agent_id)),
        "outbox": str(paths.outbox(agent_id)),
        "artifacts": str(paths.artifacts(agent_id)),
    }


def status_of(entry: AgentEntry, clock: Clock) -> tuple[str, str]:
    """The derived (status, reason) right now."""
    if entry.remote is not None:
        return entry.remote.status(entry.state)
    return derived.status(entry.state, entry.presence(clock))


def row(roster: Roster, entry: AgentEntry) -> dict[str, Any]:
    """The agent's row with its status now."""
    shown = row_of(entry.state, status_of(entry, roster.clock), entry.pane_id, entry.outbox.visible_seq)
    if entry.remote is not None:
        shown["queue_depth"] += len(entry.remote.waiting_tasks(entry.state))
    return shown


def meta_of(roster: Roster, entry: AgentEntry) -> dict[str, Any]:
    """The agent's meta with its status now, its process and its last call.

    ``provisional`` is there, and True, if the loss of this host could undo what the agent did last.
    """
    status = status_of(entry, roster.clock)
    meta = full_of(entry.state, status, entry.pane_id, entry.outbox.visible_seq, roster.paths)
    if entry.remote is not None and (waiting := entry.remote.waiting_tasks(entry.state)):
        tasks = [*meta["tasks"], *waiting]
        meta["queue_depth"] += len(waiting)
        meta["tasks"] = tasks[:SHOWN_TASKS]
        meta["tasks_not_shown"] += len(tasks) - len(meta["tasks"])
    if entry.news_seq > roster.certain_seq(entry):
        meta["provisional"] = True
    run = roster.runs.get(entry.run_id)
    meta["session"] = entry.session or meta["session"]
    meta["engine_version"] = _version(entry)
    meta["window_id"] = run.file.get("window_id") if run else None
    meta["pid"] = entry.pid
    meta["last_call_at"] = rfc3339(entry.last_call_wall) if entry.last_call_wall is not None else None
    return meta


def _version(entry: AgentEntry) -> str | None:
    """The version that the CLI reported to our server; None for a client that is not the engine's CLI."""
    row, (name, version) = entry.engine, entry.client
    return version if row is not None and version and name in row.clients else None


def artifacts(roster: Roster, entry: AgentEntry) -> list[dict[str, Any]]:
    """The agent's artifacts: ``[{name, bytes, modified_at}]``."""
    return list_artifacts(roster.paths.artifacts(entry.agent_id))


def artifact(roster: Roster, entry: AgentEntry, name: str, limit: int) -> bytes:
    """The first ``limit`` bytes of an artifact; BadRequest ``path_escape`` for any path outside."""
    return read_artifact(roster.paths.artifacts(entry.agent_id), name, limit)


def record_view(record: dict[str, Any]) -> dict[str, Any]:
    """A record as models see it: without keys that only the file needs, large payloads cut."""
    out = {key: value for key, value in record.items() if key not in ("v", "mac", "crc", "req")}
    payload = out.get("payload")
    if payload is not None and len(orjson.dumps(payload)) > PAGE_BYTES:
        text = orjson.dumps(payload).decode()
        out["payload"] = {"cut": True, "bytes": len(text), "begins": text[: PAGE_BYTES // 2]}
    return out
