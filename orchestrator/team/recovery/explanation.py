"""Why an agent or a task has its status: the records that prove it, by file and line. Reads only.

The status comes from the daemon or the files; every cited record is read from the logs themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.base.errors import BadRequest, OrchestratorError
from orchestrator.base.final_states import TERMINAL
from orchestrator.core.records import INBOX_TYPES, OUTBOX_TYPES
from orchestrator.journal.log_reader import page, place, read_all
from orchestrator.journal.project_files import Paths, check_id
from orchestrator.team.roster import offline_view

SAYS = ("reason", "how", "code", "signal", "kind", "until", "attempt", "position", "timeout_s", "by")
"""Keys of a record that are shown to people; the shortened payload of a terminal event is added."""
SHOWN = 200


def of_agent(root: Path, meta: dict[str, Any]) -> dict[str, Any]:
    """The agent's status and its evidence: ``{agent_id, status, reason, evidence, next}``.

    ``meta`` is the meta of agent_get. Each piece of ``evidence`` is ``{file, line, seq, type, at, says}``.
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
        "reason": meta["reason"],
        "task_id": task_id,
        "evidence": [line for line in cited if line is not None],
        "next": _next_for(str(meta["status"]), agent_id, paths),
    }


def of_task(root: Path, task_id: str, agent_id: str | None, meta_of: Any) -> dict[str, Any]:
    """The task's history: ``{agent_id, task_id, status, reason, evidence, agent}``, with all its records.

    ``meta_of`` gives the meta of an agent by id. Raises BadRequest ``unknown_task``, or ``bad_argument`` if several
    agents have a task of this id and ``agent_id`` names none of them.
    """
    paths = Paths(root)
    owner = agent_id or _owner(paths, task_id)
    records = list(_records(paths, owner, task_id))
    if not records:
        raise BadRequest("unknown_task", f"{owner} has no task {task_id!r}")
    outbox = [record for path, record in records if path == paths.outbox(owner)]
    end = next((record for record in outbox if record["type"] in TERMINAL), None)
    meta = meta_of(owner)
    status, reason = _standing(task_id, outbox, end, meta)
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


def _owner(paths: Paths, task_id: str) -> str:
    owners = []
    for row in offline_view.agents(paths.root):
        inbox = paths.inbox(str(row["agent_id"]))
        try:
            if any(r.get("task_id") == task_id and r["type"] == "task" for r in read_all(inbox, INBOX_TYPES)):
                owners.append(str(row["agent_id"]))
        except OrchestratorError:
            continue  # `doctor` reports damaged logs
    if len(owners) > 1:
        ways = ", ".join(f"{owner}/{task_id}" for owner in owners)
        raise BadRequest("bad_argument", f"several agents have a task {task_id!r}", f"say which: {ways}")
    if not owners:
        message = f"there is no agent or task {task_id!r}"
        raise BadRequest(
            "unknown_task", message, "orchestrator status shows the agents, orchestrator task list their tasks"
        )
    return owners[0]


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
    if record["type"] in TERMINAL and record.get("payload") is not None:
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


def _next_for(status: str, agent_id: str, paths: Paths) -> str:
    ways = {
        "failed": f"restart it: orchestrator agent restart {agent_id}",
        "stalled": f"look at its pane; then wait, or: orchestrator agent restart {agent_id}",
        "blocked": "look at its pane; the reason says what it waits for",
        "exited": f"wait for what the reason says, or: orchestrator agent restart {agent_id}",
        "unknown": f"look at its pane, and at {paths.outbox(agent_id)}",
    }
    return ways.get(status, "")
