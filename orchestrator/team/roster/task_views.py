"""The tasks of agents from their logs: a list of them, and all about one. Reads files only, so it needs no daemon."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from orchestrator.base.errors import BadRequest, OrchestratorError
from orchestrator.base.final_states import TERMINAL
from orchestrator.core.record_types import INBOX_TYPES, OUTBOX_TYPES
from orchestrator.core.task_words import reason_of, title_of
from orchestrator.journal.log_reader import read_all
from orchestrator.journal.project_files import Paths, check_id, confine
from orchestrator.team.roster import screen_files
from orchestrator.team.roster.agent_fold import must_be_there

MAX_ARTIFACTS = 50
MAX_NAMES = 1000
_NO_SPACE = r"[^\s\"'`<>()\[\]{},;]"

History = dict[str, Any]


def histories(root: Path, agent_id: str, wanted: str | None = None) -> list[History]:
    """The agent's tasks in the order in which they were queued, or only the ``wanted`` one.

    Each is ``{agent_id, task_id, title, state, position, payload, timeout_s, attempt, attempts, cancel_requested,
    queued_at, delivered_at, ack_at, ended_at, by, result, reason, late}``; an attempt is ``{attempt, epoch,
    delivered_at, ended_at, how, reason}``, ``how`` being ``requeued``, a terminal event, or None while it runs.
    ``position`` counts from 1 among the unfinished tasks and is None for ended ones. ``late`` are the ends that lost
    hosts reported after their return, none of them the outcome: ``[{at, kind, host, reason, payload}]``. Raises as
    `read_all`; BadRequest ``unknown_agent``.
    """
    paths = Paths(root)
    check_id(agent_id, "agent_id")
    must_be_there(paths, agent_id)
    tasks: dict[str, History] = {}
    for record in read_all(paths.inbox(agent_id), INBOX_TYPES):
        task_id = str(record.get("task_id"))
        if record["type"] == "task" and wanted in (None, task_id):
            tasks[task_id] = _queued(agent_id, record)
        elif record["type"] == "cancel" and task_id in tasks:
            tasks[task_id]["cancel_requested"] = True
    for record in read_all(paths.outbox(agent_id), OUTBOX_TYPES):
        task = tasks.get(record.get("task_id") or "")
        if task is not None:
            _happened(task, record)
    unfinished = [task for task in tasks.values() if task["ended_at"] is None]
    for position, task in enumerate(unfinished, 1):
        task["position"] = position
    return list(tasks.values())


def task_of(root: Path, agent_id: str, task_id: str) -> History:
    """All about one task: its history, ``waited_s`` and ``ran_s``, ``artifacts`` and kept ``screens``.

    An artifact is ``{path, bytes, exists}``, a screen a path. BadRequest ``unknown_task``.
    """
    paths = Paths(root)
    tasks = histories(root, agent_id, task_id)
    if not tasks:
        raise BadRequest("unknown_task", f"{agent_id} has no task {task_id!r}")
    (task,) = tasks
    ends = [screen_files.of_epoch(paths, agent_id, attempt["epoch"]) for attempt in task["attempts"]]
    screens = [*screen_files.of_task(paths, agent_id, task_id), *(path for path in ends if path is not None)]
    return task | {
        "waited_s": _between(task["queued_at"], task["delivered_at"]),
        "ran_s": _between(task["delivered_at"], task["ended_at"]),
        "artifacts": artifacts_of(root, agent_id, artifact_names(agent_id, task["result"])),
        "screens": [str(path) for path in dict.fromkeys(screens)],
    }


def find_task(root: Path, word: str, agents: Iterable[str]) -> tuple[str, str]:
    """The (agent, task) whose id is ``word``, else the only task whose id begins with it.

    BadRequest ``unknown_task``, or ``bad_argument`` if several agents have it or several tasks begin so. Of several
    agents those whose logs cannot be read are left out; `doctor` reports them.
    """
    paths = Paths(root)
    exact: list[tuple[str, str]] = []
    begins: list[tuple[str, str]] = []
    agents = list(agents)
    for agent_id in agents:
        check_id(agent_id, "agent_id")
        try:
            for record in read_all(paths.inbox(agent_id), INBOX_TYPES):
                task_id = str(record.get("task_id", ""))
                if record["type"] == "task" and word and task_id.startswith(word):
                    (exact if task_id == word else begins).append((agent_id, task_id))
        except OrchestratorError:
            if len(agents) == 1:
                raise
    matches = exact or begins
    if not matches:
        raise BadRequest(
            "unknown_task", f"no task has an id that begins with {word!r}", "list all: orchestrator task list --all"
        )
    if len(matches) > 1:
        ways = ", ".join(f"{agent}/{task}" for agent, task in matches[:5])
        what = f"several agents have a task {word!r}" if exact else f"{len(matches)} tasks begin with {word!r}"
        raise BadRequest("bad_argument", what, f"say which: {ways}" + ", …" * (len(matches) > 5))
    return matches[0]


def _queued(agent_id: str, record: dict[str, Any]) -> History:
    payload = record.get("payload")
    return {
        "agent_id": agent_id,
        "task_id": record["task_id"],
        "title": record.get("title") or title_of(payload) or record["task_id"],
        "state": "queued",
        "position": None,
        "payload": payload,
        "timeout_s": record.get("timeout_s"),
        "attempt": 1,
        "attempts": [],
        "cancel_requested": False,
        "queued_at": record["at"],
        "delivered_at": None,
        "ack_at": None,
        "ended_at": None,
        "by": None,
        "result": None,
        "reason": "",
        "late": [],
    }


def _happened(task: History, record: dict[str, Any]) -> None:
    """Add a record of the outbox to the history of its task."""
    kind, at, attempts = record["type"], record["at"], task["attempts"]
    open_attempt = attempts[-1] if attempts and attempts[-1]["how"] is None else None
    if kind == "delivered":
        task["state"] = "delivered"
        task["attempt"] = record["attempt"]
        task["delivered_at"] = task["delivered_at"] or at
        if open_attempt is None:
            attempts.append(_attempt(record["attempt"], record["epoch"], at))
    elif kind in ("ack", "progress"):
        task["state"] = "running"
        task["ack_at"] = task["ack_at"] or at
    elif kind == "requeued":
        task["state"], task["attempt"], task["reason"] = "queued", record["attempt"], record["reason"]
        if open_attempt is not None:
            open_attempt |= {"ended_at": at, "how": kind, "reason": record["reason"]}
    elif kind == "late":
        task["late"].append({key: record.get(key) for key in ("at", "kind", "host", "reason", "payload")})
    elif kind in TERMINAL:
        payload = record.get("payload")
        reason = "out of time" if record.get("timed_out") else reason_of(payload) if kind != "result" else ""
        task |= {"state": kind, "ended_at": at, "by": record["by"], "result": payload, "reason": reason}
        task["attempt"] = record["attempt"]
        if open_attempt is not None:
            open_attempt |= {"ended_at": at, "how": kind, "reason": reason}


def _attempt(number: int, epoch: int, at: str) -> dict[str, Any]:
    return {"attempt": number, "epoch": epoch, "delivered_at": at, "ended_at": None, "how": None, "reason": ""}


def _between(begin: str | None, end: str | None) -> float | None:
    if begin is None or end is None:
        return None
    return round((datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds(), 3)


def artifact_names(agent_id: str, result: Any) -> list[str]:
    """The names that a task's end calls artifacts, as it writes them: by their key, or as a path in a text."""
    in_text = re.compile(rf"{_NO_SPACE}*\.agents/agents/{re.escape(agent_id)}/artifacts/{_NO_SPACE}+")
    return list(islice(dict.fromkeys(_named(result, in_text)), MAX_NAMES))


def artifacts_of(root: Path, agent_id: str, names: Iterable[str]) -> list[dict[str, Any]]:
    """The artifacts of these names as ``{path, bytes, exists}``; those outside the project are left out."""
    paths = Paths(root)
    folder = paths.artifacts(agent_id)
    rows: dict[str, dict[str, Any]] = {}
    for name in names:
        # A name without a folder is one of the agent's artifacts.
        bases = (paths.root,) if name.startswith(("/", ".agents/")) else (folder, paths.root)
        for base in bases:
            try:
                path = confine(paths.root, str(base / name), what="artifact")
            except BadRequest:
                continue
            if path.is_file() or base == bases[-1]:
                rows.setdefault(str(path), _row(path))
                break
        if len(rows) == MAX_ARTIFACTS:
            break
    return list(rows.values())


def _row(path: Path) -> dict[str, Any]:
    there = path.is_file()
    return {"path": str(path), "bytes": path.stat().st_size if there else None, "exists": there}


def _named(value: Any, pattern: re.Pattern[str], key: str = "") -> Iterator[str]:
    """Strings that a result calls an artifact, and paths of artifacts in its texts."""
    if isinstance(value, str):
        if key in ("artifact", "artifacts"):
            yield value
        else:
            yield from (name.rstrip(".:") for name in pattern.findall(value))
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _named(part, pattern, str(name))
    elif isinstance(value, list):
        for part in value:
            yield from _named(part, pattern, key)
