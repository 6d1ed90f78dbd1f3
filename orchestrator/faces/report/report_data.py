"""All that a report says of a team run, as plain values: totals, agents, tasks, waits, gaps. Reads files."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import OrchestratorError
from orchestrator.base.final_states import TERMINAL
from orchestrator.base.secret_masks import masked, one_line
from orchestrator.core.model_usage import usage_total
from orchestrator.core.task_words import PRIVATE
from orchestrator.faces import timeline as timelines
from orchestrator.faces.amount_words import seconds_between
from orchestrator.faces.report.shown_texts import ShownText, limit_for, shown, text_of
from orchestrator.faces.timeline import Bar, Lane, Timeline
from orchestrator.team.roster import task_views
from orchestrator.team.roster.run_records import AgentRecords, run_records
from orchestrator.team.worktrees.commit_sizes import commit_sizes, sum_within
from orchestrator.team.worktrees.inspection import LOOK_S, look

BUDGET = 3_000_000
"""How many characters of requests and results a report shows in all."""
GIT_S = 20.0
"""For this long in all, git is asked about the agents' worktrees."""

Figures = Mapping[str, Any]
UsageOf = Callable[[str, str], tuple[Figures | None, Mapping[str | None, Figures]]]
"""Tokens and cost of an agent, by id and engine: of all its requests (None: not known), and of each task."""


RunsBetween = Callable[[str, str], tuple[list[dict[str, Any]], str]]
"""A function of two times. Returns the spawn runs and squads that began between them, as rows of the snapshot with
``began`` and ``ended``, and why some may be missing (empty: none are missing)."""


class RunReport(NamedTuple):
    """The report's values, and the timeline that is drawn of the same records."""

    values: dict[str, Any]
    timeline: Timeline


def no_usage(_agent_id: str, _engine: str) -> tuple[Figures | None, Mapping[str | None, Figures]]:
    """For agents of which no tokens are known."""
    return None, {}


def no_runs(_begin: str, _end: str) -> tuple[list[dict[str, Any]], str]:
    """For a project without spawn runs and squads."""
    return [], ""


def report_of(
    root: Path, run_id: str, at: datetime, usage_of: UsageOf = no_usage, runs_between: RunsBetween = no_runs
) -> RunReport:
    """The report of a run at the moment ``at``, from its files alone; BadRequest ``unknown_run``.

    ``{project, title, made_at, run, totals, agents, tasks, runs, runs_unknown, waits, gaps}``. Texts are masked, and
    cut to about `BUDGET` characters in all.
    """
    records = run_records(root, run_id, _kept)
    timeline = timelines.timeline(records)
    now = rfc3339(at)
    last = timeline.end or now  # what is open lasts until then
    usage = {lane.agent_id: _usage(lane, usage_of) for lane in timeline.agents}
    tasks: list[dict[str, Any]] = []
    for agent, lane in zip(records.agents, timeline.agents, strict=True):
        tasks += _tasks(root, agent, lane, usage[agent.agent_id][1], last)
    tasks.sort(key=lambda task: (task["queued_at"] or task["began_at"] or task["ended_at"] or "", task["agent_id"]))
    _cut(tasks)
    waits = [wait for lane in timeline.agents for wait in _waits(lane, last)]
    until = time.monotonic() + GIT_S
    agents = [
        _agent(agent, lane, usage[agent.agent_id][0], last) | {"worktree": _worktree(root, agent, until)}
        for agent, lane in zip(records.agents, timeline.agents, strict=True)
    ]
    _add_changes(root, records.agents, tasks, last, until)
    runs, runs_unknown = runs_between(timeline.begin, last) if timeline.begin else ([], "")
    values = {
        "project": str(root),
        "title": root.name,
        "made_at": now,
        "run": {
            "run_id": run_id,
            "begin": timeline.begin or None,
            "end": timeline.end,
            "live": timeline.end is None,
            "seconds": seconds_between(timeline.begin, last),
        },
        "totals": _totals(agents, tasks, waits),
        "agents": agents,
        "tasks": tasks,
        "runs": [_run(row, last) for row in runs],
        "runs_unknown": one_line(runs_unknown, timelines.TEXT),
        "waits": sorted(waits, key=lambda wait: str(wait["begin"])),
        "gaps": [gap._asdict() for gap in timeline.gaps],
    }
    return RunReport(values, timeline)


def _usage(lane: Lane, usage_of: UsageOf) -> tuple[Figures | None, Mapping[str | None, Figures]]:
    """The agent's figures. If an agent had a task but no counted request, its cost is unknown, not 0."""
    total, of_tasks = usage_of(lane.agent_id, lane.engine)
    if total and not total["requests"] and not total["unknown"] and any(bar.begin for bar in lane.bars):
        total = {**total, "cost_usd": None, "unknown": "none of its requests was counted"}
    return total, of_tasks


def _kept(agent_id: str, record: dict[str, Any]) -> dict[str, Any]:
    """A record with the beginning of its payload as text in place of the payload."""
    kept = timelines.without_payload(agent_id, record)
    payload = record.get("payload")
    if payload is not None and (record["type"] == "task" or record["type"] in TERMINAL):
        kept["shown"] = text_of(payload)
        kept["private"] = isinstance(payload, dict) and payload.get("private") is True
        if record["type"] in TERMINAL:
            kept["names"] = task_views.artifact_names(agent_id, payload)
    return kept


def _tasks(
    root: Path, agent: AgentRecords, lane: Lane, usage: Mapping[str | None, Figures], last: str
) -> Iterable[dict[str, Any]]:
    tasks: dict[str, dict[str, Any]] = {}
    private: set[str] = set()
    for record in agent.inbox:
        task_id = str(record.get("task_id"))
        if record["type"] == "task":
            tasks[task_id] = _task(lane, task_id, record, usage.get(task_id))
            tasks[task_id]["request"] = record.get("shown")
            if record.get("private"):
                private.add(task_id)
        elif record["type"] == "cancel" and task_id in tasks:
            tasks[task_id]["cancel_requested"] = True
    for bar in lane.bars:
        task = tasks.setdefault(bar.task_id, _task(lane, bar.task_id, {}, usage.get(bar.task_id)))
        _attempt(task, bar, last)
    for record in agent.outbox:
        task = tasks.get(str(record.get("task_id") or ""), {})
        if task and record["type"] in TERMINAL:
            paths = task_views.artifacts_of(root, agent.agent_id, record.get("names", ()))
            task |= {
                "result": record.get("shown"),
                "by": str(record.get("by") or ""),
                "artifacts": [row | {"path": masked(_short(root, row["path"]))} for row in paths],
            }
    for task_id in private & tasks.keys():
        tasks[task_id] |= {"request": _hidden(), "result": tasks[task_id]["result"] and _hidden()}
    return tasks.values()


def _task(lane: Lane, task_id: str, record: dict[str, Any], usage: Figures | None) -> dict[str, Any]:
    return {
        "agent_id": lane.agent_id,
        "task_id": task_id,
        "title": one_line(str(record.get("title") or "") or task_id, timelines.TITLE),
        "state": "queued",
        "reason": "",
        "by": "",
        "request_known": bool(record) and not record.get("lost"),
        "cancel_requested": False,
        "limit_s": record.get("timeout_s"),
        "queued_at": record.get("at"),
        "began_at": None,
        "ended_at": None,
        "waited_s": None,
        "ran_s": None,
        "attempts": [],
        "request": None,
        "result": None,
        "artifacts": [],
        "changes": None,
        "usage": usage,
    }


def _attempt(task: dict[str, Any], bar: Bar, last: str) -> None:
    if not task["request_known"] and bar.title:
        task["title"] = bar.title
    if bar.begin is not None:
        task["attempts"].append(
            {
                "attempt": bar.attempt,
                "begin": bar.begin,
                "end": bar.end,
                "seconds": seconds_between(bar.begin, bar.end or last),
                "how": bar.outcome or "running",
                "why": bar.why,
            }
        )
    task["began_at"] = task["began_at"] or bar.begin
    task["waited_s"] = seconds_between(task["queued_at"], task["began_at"])
    task["state"] = {"requeued": "queued", "": "running"}.get(bar.outcome, bar.outcome)
    task["reason"] = bar.why
    if bar.outcome in TERMINAL:
        task["ended_at"] = bar.end
        task["ran_s"] = seconds_between(task["began_at"], bar.end)


def _cut(tasks: list[dict[str, Any]]) -> None:
    texts = [task[key] for task in tasks for key in ("request", "result") if isinstance(task[key], ShownText)]
    limit = limit_for((len(text.text) for text in texts), BUDGET)
    for task in tasks:
        for key in ("request", "result"):
            if isinstance(task[key], ShownText):
                task[key] = shown(task[key], limit)


def _hidden() -> dict[str, Any]:
    return {"text": PRIVATE, "chars": 0, "cut": True}


def _waits(lane: Lane, last: str) -> Iterable[dict[str, Any]]:
    for wait in lane.waits:
        yield {"agent_id": lane.agent_id, **asdict(wait), "seconds": seconds_between(wait.begin, wait.end or last)}


def _agent(agent: AgentRecords, lane: Lane, usage: Figures | None, last: str) -> dict[str, Any]:
    ends = Counter(bar.outcome for bar in lane.bars)
    return {
        "agent_id": lane.agent_id,
        "name": lane.name,
        "engine": lane.engine,
        "role": lane.role,
        "model": one_line(str(agent.spec.get("model") or ""), timelines.TITLE),
        "hosts": _hosts(agent),
        "deleted_at": lane.deleted,
        "launches": [asdict(life) for life in lane.lives],
        "finished": {outcome: ends[outcome] for outcome in ("result", "error", "canceled")},
        "busy_s": round(sum(seconds_between(bar.begin, bar.end or last) or 0.0 for bar in lane.bars), 3),
        "waited_s": waited_s(lane, last),
        "usage": usage,
    }


def _hosts(agent: AgentRecords) -> list[str]:
    """The hosts of a fleet that the agent ran on, in order; empty for an agent of this host alone."""
    member = agent.spec.get("fleet")
    first = member.get("host") if isinstance(member, dict) else None
    later = [record.get("host") for record in agent.outbox if record["type"] == "restarted"]
    return list(dict.fromkeys(one_line(str(host), timelines.TITLE) for host in (first, *later) if host))


_RUN = ("kind", "id", "status", "began", "ended", "done", "failed", "total", "waves", "cost_usd")


def _run(row: Mapping[str, Any], last: str) -> dict[str, Any]:
    texts = {key: one_line(str(row.get(key) or ""), timelines.TEXT) for key in ("title", "reason")}
    return {key: row[key] for key in _RUN} | texts | {"seconds": seconds_between(row["began"], row["ended"] or last)}


_DIFF = ("branch", "ahead", "behind", "files_changed", "insertions", "deletions", "merged", "error")


def _worktree(root: Path, agent: AgentRecords, until: float) -> dict[str, Any] | None:
    """What the agent's worktree holds now; git is asked only where this machine's own records name a worktree."""
    if not agent.spec.get("worktree"):
        return None
    seconds = until - time.monotonic()
    seen = look(root, agent.agent_id, min(seconds, LOOK_S)) if seconds > 0 else {"error": "not measured, out of time"}
    if seen is None:
        return None
    diff = {key: seen[key] for key in _DIFF if seen.get(key) is not None}
    return {key: one_line(value, timelines.TEXT) if isinstance(value, str) else value for key, value in diff.items()}


def _add_changes(
    root: Path, agents: Iterable[AgentRecords], tasks: list[dict[str, Any]], last: str, until: float
) -> None:
    """Add to each task of an agent with a worktree the commits that were made there while the task ran."""
    for agent in agents:
        seconds = until - time.monotonic()
        if not agent.spec.get("worktree") or seconds <= 0:
            continue
        try:
            sizes = commit_sizes(root, agent.agent_id, min(seconds, LOOK_S))
        except OrchestratorError:  # its branch is gone, or git is too slow
            continue
        for task in tasks if sizes is not None else ():
            if task["agent_id"] == agent.agent_id:
                spans = [(attempt["begin"], attempt["end"] or last) for attempt in task["attempts"]]
                task["changes"] = sum_within(sizes or (), spans)


def waited_s(lane: Lane, last: str) -> float:
    """Seconds until ``last`` in which the agent waited for a human, for however many reasons at once."""
    total, until = 0.0, ""
    for wait in sorted(lane.waits, key=lambda wait: wait.begin):
        begin, end = max(wait.begin, until), wait.end or last
        if end > begin:
            total += seconds_between(begin, end) or 0.0
            until = end
    return round(total, 3)


def _totals(agents: list[dict[str, Any]], tasks: list[dict[str, Any]], waits: list[dict[str, Any]]) -> dict[str, Any]:
    states = Counter(task["state"] for task in tasks)
    return {
        "agents": len(agents),
        "tasks": len(tasks),
        "finished": {outcome: states[outcome] for outcome in ("result", "error", "canceled")},
        "unfinished": len(tasks) - sum(states[outcome] for outcome in TERMINAL),
        "attempts": sum(len(task["attempts"]) for task in tasks),
        "requeued": sum(attempt["how"] == "requeued" for task in tasks for attempt in task["attempts"]),
        "launches": sum(len(agent["launches"]) for agent in agents),
        "busy_s": round(sum(agent["busy_s"] for agent in agents), 3),
        "waits": sum(not wait["by"].startswith("rule") for wait in waits),
        "waited_s": round(sum(agent["waited_s"] for agent in agents), 3),
        "usage": usage_total(agent["usage"] for agent in agents) if any(agent["usage"] for agent in agents) else None,
    }


def _short(root: Path, path: str) -> str:
    return str(Path(path).relative_to(root)) if Path(path).is_relative_to(root) else path
