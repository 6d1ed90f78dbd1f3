"""All about a task as lines for people: what it is, its times, attempts, request, result and files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator.core.glyphs import outcome_sign
from orchestrator.faces.amount_words import duration, size, tokens
from orchestrator.faces.payload_text import block
from orchestrator.faces.text_table import age


def task_lines(task: dict[str, Any], root: Path, *, ascii_only: bool = False) -> list[str]:
    """All about a task, a line each: what it is, its times, its attempts, its request, its result, its files."""
    now, state = datetime.now(UTC), task["state"]
    sign = outcome_sign(state, ascii_only=ascii_only)
    sign = "" if sign == state else f"{sign} "
    lines = [f"{sign}{state}: {task['title']}"]
    lines += [f"{'task:':<12}{task['task_id']} of {task['agent_id']}"]
    if task["reason"]:
        lines.append(f"{'reason:':<12}{task['reason']}")
    if task["cancel_requested"]:
        lines.append(f"{'cancel:':<12}requested")
    times = [
        f"queued {_clock(task['queued_at'])} ({age(task['queued_at'], now)} ago)",
        f"waited {duration(task['waited_s'])}" if task["waited_s"] is not None else "",
        f"ran {duration(task['ran_s'])}" if task["ran_s"] is not None else "",
        f"ended {_clock(task['ended_at'])}" if task["ended_at"] else "",
        f"limit {task['timeout_s']:g} s" if task["timeout_s"] else "",
    ]
    lines.append(f"{'times:':<12}{', '.join(filter(None, times))}")
    if used := tokens(task.get("usage")):
        lines.append(f"{'used:':<12}{used}")
    for attempt in task["attempts"]:
        end = f"{attempt['how'] or 'runs'}" + (f": {attempt['reason']}" if attempt["reason"] else "")
        lines.append(f"{'attempt ' + str(attempt['attempt']) + ':':<12}{_clock(attempt['delivered_at'])} {end}")
    for late in task["late"]:
        lines.append(f"{'late:':<12}{_clock(late['at'])} {late['kind']}, not the outcome: {late['reason']}")
        lines += _indented(late["payload"]) if late["payload"] is not None else []
    lines += ["request:", *_indented(task["payload"])]
    if task["ended_at"]:
        lines += [f"{state}:" if task["result"] is not None else f"{state}, without a payload"]
        lines += _indented(task["result"]) if task["result"] is not None else []
    for artifact in task["artifacts"]:
        about = size(artifact["bytes"] if artifact["exists"] else None)
        lines.append(f"{'artifact:':<12}{_short_path(artifact['path'], root)} ({about})")
    lines += [f"{'screen:':<12}{_short_path(path, root)}" for path in task["screens"]]
    return lines


def _indented(value: Any) -> list[str]:
    return [f"  {line}" for line in block(value)]


def _clock(at: str | None) -> str:
    """The local time of an instant, with the date if it was on another day."""
    if at is None:
        return "-"
    then = datetime.fromisoformat(at).astimezone()
    return then.strftime("%H:%M:%S" if then.date() == datetime.now().astimezone().date() else "%Y-%m-%d %H:%M:%S")


def _short_path(path: str, root: Path) -> str:
    return str(Path(path).relative_to(root)) if Path(path).is_relative_to(root) else path
