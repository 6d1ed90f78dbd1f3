"""The card of one agent: its status and the whole reason, its tasks, where it works, the command to type next."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator.cli import output
from orchestrator.cli.facts import Facts
from orchestrator.core.glyphs import outcome_sign
from orchestrator.faces.row_words import ended_text, state_of
from orchestrator.faces.status_lines import SAYS_NOTHING

QUEUED_SHOWN = 5


def show(root: Path, source: Facts, agent_id: str, *, as_json: bool) -> None:
    """Print the card; as JSON the meta of agent_get with ``files`` and ``next``."""
    meta, files, step = _facts(root, source, agent_id)
    if as_json:
        output.print_json({"live": source.live, "meta": meta, "files": files, "next": step})
        return
    for line in _lines(root, meta, files, step):
        output.say_line(line)
    if not source.live:
        output.warn("no daemon answers: shown from the files")


def texts(root: Path, source: Facts, agent_id: str) -> list[str]:
    """The lines of the card."""
    return _lines(root, *_facts(root, source, agent_id))


def _facts(root: Path, source: Facts, agent_id: str) -> tuple[dict[str, Any], dict[str, str], str]:
    from orchestrator.team.recovery import explanation  # noqa: PLC0415  (loads the log readers)

    meta = source.agent(agent_id)
    return meta, explanation.files_of(root, meta), explanation.next_for(root, meta)


def _lines(root: Path, meta: dict[str, Any], files: dict[str, str], step: str) -> list[str]:
    now, plain = datetime.now(UTC), not output.utf8()
    since = f" for {output.age(meta.get('since'), now)}" if meta.get("since") else ""
    state = state_of({**meta, "waits_for": meta.get("blocked")}, ascii_only=plain)
    rows = [
        ("", f"{state.sign} {state.word}{since}: {meta['agent_id']}"),
        ("why", "" if meta["status"] in SAYS_NOTHING else str(meta.get("reason") or "")),
        ("task", _running(meta)),
        ("queue", _queue(meta)),
        ("ended", ended_text(meta.get("finished") or {}, ascii_only=plain)),
        ("last", _last(meta, now, plain=plain)),
        ("engine", _engine(meta)),
        ("role", str(meta.get("role") or "")),
        ("pane", str(meta.get("tmux_pane_id") or "")),
        ("worktree", _worktree(meta, root)),
        *((name, _short(path, root)) for name, path in files.items()),
        ("next", step),
    ]
    return [f"{name + ':':<12}{text}" if name else text for name, text in rows if text]


def _running(meta: dict[str, Any]) -> str:
    task_id = meta.get("running_task_id")
    if not task_id:
        return ""
    attempt = meta.get("attempt") or 1
    more = [task_id, f"attempt {attempt}" if attempt > 1 else "", "cancel requested" * bool(meta["cancel_requested"])]
    return f"{meta.get('running_task_title') or task_id} ({', '.join(filter(None, more))})"


def _queue(meta: dict[str, Any]) -> str:
    waiting = [task for task in meta.get("tasks") or [] if task["task_id"] != meta.get("running_task_id")]
    if not waiting:
        return ""
    titles = [str(task.get("title") or task["task_id"]) for task in waiting[:QUEUED_SHOWN]]
    depth = int(meta["queue_depth"])
    return f"{depth} waiting: {'; '.join(titles)}" + "; …" * (depth > len(titles))


def _last(meta: dict[str, Any], now: datetime, *, plain: bool) -> str:
    last = meta.get("last_task")
    if not last:
        return ""
    why = f": {last['reason']}" if last.get("reason") else ""
    sign = outcome_sign(last["outcome"], ascii_only=plain)
    return f"{sign} {titled(last)}, {output.age(last['at'], now)} ago{why}"


def titled(task: dict[str, Any]) -> str:
    """A task's title with its id, or the id alone if it has no title."""
    title, task_id = str(task.get("title") or ""), str(task["task_id"])
    return f"{title} ({task_id})" if title not in ("", task_id) else task_id


def _engine(meta: dict[str, Any]) -> str:
    version = f" {meta['engine_version']}" if meta.get("engine_version") else ""
    model = f", model {meta['model']}" if meta.get("model") else ""
    return f"{meta.get('engine') or ''}{version}{model}, launch {meta.get('epoch')}"


def _worktree(meta: dict[str, Any], root: Path) -> str:
    tree = meta.get("worktree")
    if not tree:
        return ""
    if tree.get("error"):
        return f"{_short(tree['path'], root)}: {tree['error']}"
    state = "uncommitted changes" if tree.get("dirty") else "clean"
    changes = f"{tree.get('ahead', 0)} commits ahead, {tree.get('behind', 0)} behind, {state}"
    return f"{_short(tree['path'], root)}, branch {tree['branch']}: {changes}"


def _short(path: str, root: Path) -> str:
    return str(Path(path).relative_to(root)) if Path(path).is_relative_to(root) else path
