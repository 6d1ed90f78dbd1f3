"""Why an agent or a task has its status: the records that prove it, by file and line. Reads only.

The status comes from the daemon or the files; every cited record is read from the logs themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.base.errors import BadRequest, OrchestratorError
from orchestrator.base.final_states import TERMINAL
from orchestrator.core.attach_command import attach_command
from orchestrator.core.attention import state_word
from orchestrator.core.record_types import INBOX_TYPES, OUTBOX_TYPES
from orchestrator.journal.log_reader import page, place, read_all
from orchestrator.journal.project_files import Paths, check_id
from orchestrator.team.roster import offline_view, screen_files, task_views
from orchestrator.team.roster.replica_files import other_host
from orchestrator.team.roster.transcripts import transcript_of

SAYS = ("reason", "how", "code", "signal", "kind", "until", "attempt", "position", "timeout_s", "by")
"""Keys of a record that are shown to people; the shortened payload of a terminal or late event is added."""
SHOWN = 200


def of_agent(root: Path, meta: dict[str, Any]) -> dict[str, Any]:
    """The agent's status and its evidence: ``{agent_id, status, state, reason, evidence, last_task, files, next}``.

    ``meta`` is the meta of agent_get. Each piece of ``evidence`` is ``{file, line, seq, type, at, says}``; ``files``
    has the newest kept ``screen`` and the CLI's ``transcript``, if they exist; ``next`` is a person's next step.
    """
    paths, agent_id = Paths(root), str(meta["agent_id"])
    logs = {"inbox": paths.inbox(agent_id), "outbox": paths.outbox(agent_id)}
    cited = [
        _cited(logs[Path(proof["file"]).name.partition(".")[0]], int(proof["seq"]))
        for proof in meta.get("evidence") or []
    ]
    task_id = meta.get("running_task_id")
    return {
        "agent_id": agent_id,
        "status": meta["status"],
        "state": state_word({**meta, "waits_for": meta.get("blocked")}),
        "reason": meta["reason"],
        "task_id": task_id,
        "evidence": [line for line in cited if line is not None],
        "last_task": meta.get("last_task"),
        "files": files_of(root, meta),
        "next": next_for(root, meta),
    }


def of_task(root: Path, task_id: str, agent_id: str | None, meta_of: Any) -> dict[str, Any]:
    """The task's history: ``{agent_id, task_id, status, reason, evidence, agent}``, with all its records.

    ``meta_of`` gives the meta of an agent by id. Raises BadRequest ``unknown_task``, or ``bad_argument`` if several
    agents have a task of this id and ``agent_id`` names none of them.
    """
    paths = Paths(root)
    agents = [agent_id] if agent_id else offline_view.agent_ids(root)
    try:
        owner, task_id = task_views.find_task(root, task_id, agents)
    except BadRequest as error:
        if error.code == "unknown_task" and (waiting := _waiting(task_id, agents, meta_of)):
            return waiting
        if agent_id or error.code != "unknown_task":
            raise
        raise BadRequest(
            "unknown_task",
            f"there is no agent or task {task_id!r}",
            "orchestrator status shows the agents, orchestrator task list --all their tasks",
        ) from None
    records = list(_records(paths, owner, task_id))
    outbox = [record for path, record in records if path == paths.outbox(owner)]
    end = next((record for record in outbox if record["type"] in TERMINAL), None)
    meta = meta_of(owner)
    status, reason = _standing(task_id, outbox, end, meta)
    late = next((record for record in reversed(outbox) if record["type"] == "late"), None)
    if late is not None:
        reason += f"; late {late['kind']} (not the outcome): {late['reason']}"
    answer: dict[str, Any] = {
        "agent_id": owner,
        "task_id": task_id,
        "status": status,
        "reason": reason,
        "evidence": [_record_line(path, record) for path, record in records],
    }
    if end is None:
        answer["agent"] = of_agent(root, meta)
    return answer


def _waiting(task_id: str, agents: list[str], meta_of: Any) -> dict[str, Any] | None:
    """The answer for a task that the agent's host has not taken yet, so that no log has it; None without one."""
    for agent_id in agents:
        try:
            meta = meta_of(agent_id)
        except OrchestratorError:
            continue
        task = next((task for task in meta.get("tasks") or [] if task["task_id"] == task_id), None)
        if task is not None and task.get("waits_for_host"):
            reason = f"accepted at {task['posted_at']}; host {task['waits_for_host']} has not taken it yet"
            if task["cancel_requested"]:
                reason += ", and will not run it: a cancel was requested"
            return {
                "agent_id": agent_id,
                "task_id": task_id,
                "status": "queued",
                "reason": f"{reason}; {meta['reason']}" if meta.get("reason") else reason,
                "evidence": [],
            }
    return None


def _records(paths: Paths, agent_id: str, task_id: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    check_id(agent_id, "agent_id")
    for path, types in ((paths.inbox(agent_id), INBOX_TYPES), (paths.outbox(agent_id), OUTBOX_TYPES)):
        for record in read_all(path, types):
            if record.get("task_id") == task_id:
                yield path, record


def _standing(
    task_id: str, outbox: list[dict[str, Any]], end: dict[str, Any] | None, meta: dict[str, Any]
) -> tuple[str, str]:
    if end is not None:
        by = "the agent" if end["by"] == "agent" else "the orchestrator, on behalf of the agent"
        payload = end.get("payload")
        hand = isinstance(payload, dict) and payload.get("canceled_by") == "human"
        why = ", out of time" if end.get("timed_out") else ", canceled by a human in its pane" if hand else ""
        return str(end["type"]), f"ended by {by} in attempt {end['attempt']}{why}"
    standing = next((task for task in meta.get("tasks") or [] if task["task_id"] == task_id), None)
    if meta.get("running_task_id") == task_id:
        return "running", f"attempt {standing['attempt'] if standing else 1}, its agent is working on it"
    lost = sum(1 for record in outbox if record["type"] == "requeued")
    again = f", {lost} attempt{'s' if lost > 1 else ''} lost" if lost else ""
    if standing is None:
        return "queued", f"not among the first tasks of the queue{again}"
    return "queued", f"place {standing['position']} of the agent's unfinished tasks{again}"


def _cited(path: Path, seq: int) -> dict[str, Any] | None:
    types = INBOX_TYPES | OUTBOX_TYPES
    records = page(path, types, seq - 1, (1, 1))
    return _record_line(path, records[0]) if records else None


def _record_line(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    file, line = place(path, record["seq"])
    details = [f"{key} {record[key]}" for key in SAYS if record.get(key) is not None]
    if record["type"] in (*TERMINAL, "late") and record.get("payload") is not None:
        text = str(record["payload"])
        details.append(text if len(text) <= SHOWN else text[: SHOWN - 1] + "…")
    return {
        "file": str(file),
        "line": line,
        "seq": record["seq"],
        "type": record["type"],
        "at": record["at"],
        "says": ", ".join(details),
    }


def files_of(root: Path, meta: dict[str, Any]) -> dict[str, str]:
    """What shows the agent's work to a person: the newest kept ``screen`` and the CLI's ``transcript``, if any."""
    paths, agent_id = Paths(root), str(meta["agent_id"])
    screens = screen_files.listed(paths, agent_id)
    transcript = transcript_of(paths, agent_id, str(meta.get("engine", "")), meta.get("session"))
    files = {"screen": screens[0] if screens else None, "transcript": transcript}
    return {name: str(path) for name, path in files.items() if path is not None}


def next_for(root: Path, meta: dict[str, Any]) -> str:
    """What a person does next about the agent: a command to type."""
    agent_id, last = str(meta["agent_id"]), meta.get("last_task") or {}
    elsewhere = other_host(root, meta)
    attach = attach_command(agent_id, elsewhere)
    at_rest = f'give it work: orchestrator task add {agent_id} "WHAT TO DO"'
    if last.get("outcome") == "error":
        at_rest = f"see why its last task failed: orchestrator task show {agent_id}/{last['task_id']}"
    ways = {
        "starting": f"look at its pane: orchestrator peek {agent_id}",
        "busy": f"look at its pane: orchestrator peek {agent_id}"
        if elsewhere
        else f"follow it: orchestrator logs {agent_id} -f",
        "idle": at_rest,
        "parked": at_rest,
        "failed": f"restart it: orchestrator agent restart {agent_id}",
        "stalled": f"look at its pane: {attach}; it may need: agent restart {agent_id}",
        "blocked": f"answer in its pane: {attach}",
        "exited": f"wait for what the reason says, or: orchestrator agent restart {agent_id}",
        "unknown": f"look at its pane: orchestrator peek {agent_id}; its records: orchestrator events {agent_id}",
    }
    return ways.get(str(meta["status"]), "")
