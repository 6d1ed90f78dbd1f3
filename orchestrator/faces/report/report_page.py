"""Writes a report as one page: totals, timeline, tasks, what waited for a human, gaps. Pure.

The page runs and loads nothing: its own policy forbids scripts and every address. All text of agents, files and
models is escaped, and what a reader cannot see is shown as codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from orchestrator.base.secret_masks import masked
from orchestrator.base.svg_page import escaped, page, scrolled
from orchestrator.core.glyphs import outcome_sign
from orchestrator.faces.amount_words import clock, counted, dollars, duration, size, tokens
from orchestrator.faces.report.report_data import RunReport
from orchestrator.faces.report.report_drawing import SIGNS, drawing, legend
from orchestrator.faces.report.report_drawing import STYLE as DRAWING_STYLE

MARK = "orchestrator report"
"""Stands in the first bytes of every report: a file that has it is ours to replace."""
OPEN_CHARS = 600
"""A text up to this length is shown at once, a longer one when it is opened."""

STYLE = (
    ":root{color-scheme:light dark}body{max-width:1180px;margin:1.5rem auto;padding:0 1rem}"
    "h1{margin:0 0 .3rem}h2{border-bottom:1px solid #d0d7de;padding-bottom:.2rem}a{color:#0969da}"
    ".facts{display:flex;flex-wrap:wrap;gap:.5rem;padding:0;margin:1rem 0;list-style:none}"
    ".facts li{border:1px solid #d0d7de;border-radius:6px;padding:.4rem .8rem;min-width:7rem}"
    ".facts b{display:block;font-size:1.25rem;overflow-wrap:anywhere}.faint{color:#57606a}.keys{font-size:13px}"
    ".key{display:inline-block;margin-right:1.2rem;white-space:nowrap}.key svg{vertical-align:-2px}"
    "article{border:1px solid #d0d7de;border-left-width:4px;border-radius:6px;padding:.6rem .9rem;margin:.7rem 0;"
    "content-visibility:auto;contain-intrinsic-size:auto 11rem}"
    "article h3{font-size:1rem;margin:0;overflow-wrap:anywhere}"
    "article p{margin:.2rem 0;overflow-wrap:anywhere}.t-result{border-left-color:#1a7f37}"
    ".t-error{border-left-color:#cf222e}.t-running{border-left-color:#0969da}"
    "pre{background:#f6f8fa;border-radius:6px;padding:.5rem .7rem;margin:.3rem 0;font-size:13px;max-height:40rem;"
    "overflow:auto;unicode-bidi:plaintext}summary{cursor:pointer}table{font-size:13px;margin:.3rem 0}"
    ".warn{border:1px solid #9a6700;border-radius:6px;padding:.5rem .9rem;background:#fff8c5}"
    "@media(max-width:40rem){body{margin:.7rem auto;padding:0 .6rem}table{display:block;overflow-x:auto}}"
    "@media(prefers-color-scheme:dark){a{color:#58a6ff}.faint{color:#9198a1}"
    "h2,.facts li,article{border-color:#30363d}"
    "pre{background:#161b22}.warn{background:#332500;border-color:#d29922}.t-result{border-left-color:#3fb950}"
    ".t-error{border-left-color:#f85149}.t-running{border-left-color:#58a6ff}}"
    "@media print{body{max-width:none;margin:0;font-size:11px;color:#000;background:#fff}article{content-visibility:"
    "visible;break-inside:avoid-page}pre,.scroll{max-height:none;overflow:visible}details::details-content{"
    "content-visibility:visible;block-size:auto}svg.run{width:100%;height:auto}"
    "*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}"
)


def html(report: RunReport) -> str:
    """The page of a report."""
    values = report.values
    ids = {(task["agent_id"], task["task_id"]): f"task-{n}" for n, task in enumerate(values["tasks"], 1)}
    body = [
        *_header(values),
        *_warning(values["gaps"]),
        "<h2>Timeline</h2>",
        scrolled(drawing(report.timeline, values["made_at"], ids)) or "<p>This run has no agents.</p>",
        legend(),
        *_waits(values["waits"], live=values["run"]["live"]),
        *_failures(values["tasks"], ids),
        *_agents(values["agents"]),
        *_runs(values["runs"], values["runs_unknown"]),
        *_tasks(values["tasks"], ids),
        *_gaps(values["gaps"]),
    ]
    return page(f"Report of {values['run']['run_id']} · {values['title']}", MARK, body, STYLE + DRAWING_STYLE)


def _header(values: dict[str, Any]) -> Iterator[str]:
    run, totals = values["run"], values["totals"]
    times = [
        f"began {clock(run['begin'])}",
        f"ended {clock(run['end'])}" if run["end"] else "still live when this was written",
        f"written {clock(values['made_at'])}",
        f"local times, {clock(values['made_at'], '%Z (UTC%z)')}",
        values["project"],
    ]
    yield f"<h1>{_own(values['title'])}: team run {_own(run['run_id'])}</h1>"
    yield f'<p class="faint">{_own(" · ".join(times))}</p>'
    finished, usage = totals["finished"], totals["usage"]
    facts = [
        ("run time", duration(run["seconds"]), ""),
        ("agents", str(totals["agents"]), counted(totals["launches"], "launch", "launches")),
        (
            "tasks",
            f"{finished['result']} ✓ {finished['error']} ✕ {finished['canceled']} ⊘",
            f"{totals['unfinished']} unfinished" if totals["unfinished"] else "all ended",
        ),
        ("attempts", str(totals["attempts"]), f"{totals['requeued']} lost and tried again"),
        ("work", duration(totals["busy_s"]), "sum over all agents"),
        ("waited for a human", duration(totals["waited_s"]), f"{totals['waits']} times"),
        ("cost, estimated", *_cost(usage)),
    ]
    yield '<ul class="facts">'
    for name, value, note in facts:
        small = f'<span class="faint">{_own(note)}</span>' if note else ""
        yield f'<li><span class="faint">{_own(name)}</span><b>{_own(value)}</b>{small}</li>'
    yield "</ul>"


def _cost(usage: dict[str, Any] | None) -> tuple[str, str]:
    if usage is None:
        return "unknown", "no agent reported tokens"
    words = f"{usage['input'] + usage['cached']:,} tokens in, {usage['output']:,} out"
    unknown = usage.get("cost_unknown")
    if not unknown and usage.get("cost_usd") is None:
        return "none", "no agent uses a model"
    if usage.get("cost_usd") is None:
        return "unknown", words
    return dollars(usage["cost_usd"]), words + (f"; unknown of {counted(unknown, 'agent')}" if unknown else "")


def _warning(gaps: list[dict[str, Any]]) -> Iterator[str]:
    if gaps:
        yield '<p class="warn">Records of this run are missing, so this report is not complete: '
        yield f'see <a href="#gaps">{counted(len(gaps), "gap")}</a>.</p>'


def _waits(waits: list[dict[str, Any]], *, live: bool) -> Iterator[str]:
    lasting = "still waits" if live else "until the run ended"
    yield '<h2 id="waits">What waited for a human</h2>'
    rows = [
        (
            clock(wait["begin"]),
            duration(wait["seconds"]) if wait["end"] else f"{duration(wait['seconds'])}, {lasting}",
            wait["agent_id"],
            wait["kind"],
            wait["text"],
            f"{wait['answer']} by {wait['by'] or 'an unknown person'}" if wait["answer"] else wait["reason"],
        )
        for wait in waits
    ]
    yield from _table(("began", "waited", "agent", "what", "asked", "ended by"), rows, "Nothing waited for a human.")


def _failures(tasks: list[dict[str, Any]], ids: dict[tuple[str, str], str]) -> Iterator[str]:
    failed = [task for task in tasks if task["state"] == "error"]
    if not failed:
        return
    yield "<h2>What failed</h2><ul>"
    for task in failed:
        link = ids[task["agent_id"], task["task_id"]]
        reason = f": {_own(task['reason'])}" if task["reason"] else ""
        yield f'<li><a href="#{link}">{_own(task["title"])}</a> of {_own(task["agent_id"])}{reason}</li>'
    yield "</ul>"


def _agents(agents: list[dict[str, Any]]) -> Iterator[str]:
    yield "<h2>Agents</h2>"
    heads: tuple[str, ...]
    rows: list[tuple[object, ...]] = [
        (
            agent["name"] if agent["name"] == agent["agent_id"] else f"{agent['name']} ({agent['agent_id']})",
            agent["role"],
            ", ".join(filter(None, (agent["engine"], agent["model"]))),
            "{result} ✓ {error} ✕ {canceled} ⊘".format(**agent["finished"]),
            duration(agent["busy_s"]),
            duration(agent["waited_s"]),
            _launches(agent),
            tokens(agent["usage"]) or "not reported",
            _diff(agent["worktree"]),
        )
        for agent in agents
    ]
    heads = ("agent", "role", "engine", "tasks", "work", "waited", "launches", "tokens and cost", "worktree now")
    if any(agent["hosts"] for agent in agents):
        heads = (heads[0], "hosts", *heads[1:])
        rows = [(row[0], ", then ".join(agent["hosts"]), *row[1:]) for agent, row in zip(agents, rows, strict=True)]
    yield from _table(heads, rows, "This run has no agents.")


def _runs(runs: list[dict[str, Any]], unknown: str) -> Iterator[str]:
    if not runs and not unknown:
        return
    yield '<h2 id="runs">Spawn runs and squads of the project during this run</h2>'
    if unknown:
        yield f'<p class="warn">Spawn runs may be missing: {_own(unknown)}</p>'
    rows = [
        (
            "spawn run" if run["kind"] == "spawn" else run["kind"],
            run["title"],
            clock(run["began"]),
            duration(run["seconds"]) + ("" if run["ended"] else ", not ended"),
            run["status"],
            f"{run['done']} of {run['total']}" + (f", {run['failed']} failed" if run["failed"] else ""),
            "" if run["waves"] is None else run["waves"] + 1,
            dollars(run["cost_usd"]) if run["kind"] == "spawn" else "not reported",
            run["reason"],
            run["id"],
        )
        for run in runs
    ]
    heads = ("kind", "task", "began", "took", "state", "nodes or members", "waves", "cost", "why", "id")
    yield from _table(heads, rows, "")


def _launches(agent: dict[str, Any]) -> str:
    ends = [f"{life['how']}: {life['why']}" for life in agent["launches"] if life["how"] in ("exited", "failed")]
    deleted = f"deleted {clock(agent['deleted_at'])}" if agent["deleted_at"] else ""
    return "; ".join(filter(None, (str(len(agent["launches"])), *ends[:5], deleted)))


def _diff(worktree: dict[str, Any] | None) -> str:
    if worktree is None:
        return ""
    if "files_changed" not in worktree:
        return str(worktree.get("error") or "")
    changed = f"{counted(worktree['files_changed'], 'file')}, +{worktree['insertions']} -{worktree['deletions']}"
    return changed + (", merged" if worktree.get("merged") else "") + f", on {worktree.get('branch', '')}"


def _tasks(tasks: list[dict[str, Any]], ids: dict[tuple[str, str], str]) -> Iterator[str]:
    yield "<h2>Tasks</h2>"
    if not tasks:
        yield "<p>No task was given in this run.</p>"
    for task in tasks:
        yield from _task(task, ids[task["agent_id"], task["task_id"]])


def _task(task: dict[str, Any], element: str) -> Iterator[str]:
    state = task["state"]
    yield f'<article id="{element}" class="t-{state}">'
    yield f"<h3>{_sign(state)} {_own(task['title'])}</h3>"
    facts = [
        f"{state}{_by(task)}",
        f"{task['task_id']} of {task['agent_id']}",
        f"queued {clock(task['queued_at'])}" if task["queued_at"] else "",
        f"waited {duration(task['waited_s'])}" if task["waited_s"] is not None else "",
        f"ran {duration(task['ran_s'])}" if task["ran_s"] is not None else "",
        f"limit {duration(task['limit_s'])}" if isinstance(task["limit_s"], int | float) else "",
        "cancel requested" if task["cancel_requested"] else "",
        _changes(task["changes"]),
        tokens(task["usage"]),
    ]
    yield f'<p class="faint">{_own(" · ".join(filter(None, facts)))}</p>'
    if task["reason"]:
        yield f"<p>{_own(task['reason'])}</p>"
    if len(task["attempts"]) > 1:
        rows = [
            (a["attempt"], clock(a["begin"]), duration(a["seconds"]), a["how"], a["why"]) for a in task["attempts"]
        ]
        yield from _table(("attempt", "began", "ran", "ended", "why"), rows, "")
    where = f"orchestrator task show {task['agent_id']}/{task['task_id']}"
    if task["request"] is not None:
        yield from _text("Request", task["request"], where)
    elif not task["request_known"]:
        yield '<p class="faint">Its request is among the missing records.</p>'
    if task["result"] is not None:
        yield from _text("Result" if state == "result" else "Report", task["result"], where)
    for artifact in task["artifacts"]:
        yield f"<p>artifact: <code>{_own(artifact['path'])}</code> ({_own(size(artifact['bytes']))})</p>"
    yield "</article>"


def _changes(changes: dict[str, int] | None) -> str:
    if not changes or not changes["commits"]:
        return "" if changes is None else "no commit"
    files = f"{counted(changes['files'], 'file')}, +{changes['added']} -{changes['removed']}"
    return f"{counted(changes['commits'], 'commit')}: {files}"


def _sign(state: str) -> str:
    return SIGNS.get(state) or ("○" if state == "queued" else outcome_sign(state))


def _by(task: dict[str, Any]) -> str:
    return ", decided by the orchestrator" if task["ended_at"] and task["by"] == "orchestrator" else ""


def _text(name: str, text: dict[str, Any], where: str) -> Iterator[str]:
    note = f'<p class="faint">{_own(_where(text, where))}</p>' if text["cut"] else ""
    content = f'<pre dir="auto">{escaped(text["text"])}</pre>{note}'
    if len(text["text"]) <= OPEN_CHARS and text["text"].count("\n") < 15:
        yield f"<p><b>{name}</b></p>{content}"
    else:
        yield f"<details><summary><b>{name}</b>, {counted(text['chars'], 'character')}</summary>{content}</details>"


def _where(text: dict[str, Any], where: str) -> str:
    if not text["chars"]:
        return f"not shown, because its payload says that it is private; on this machine: {where}"
    return f"cut here, all {text['chars']:,} characters are shown by: {where}"


def _gaps(gaps: list[dict[str, Any]]) -> Iterator[str]:
    if not gaps:
        return
    yield '<h2 id="gaps">Missing records</h2>'
    rows = [(gap["log"], _numbers(gap), gap["why"]) for gap in gaps]
    yield from _table(("log", "records", "why"), rows, "")


def _numbers(gap: dict[str, Any]) -> str:
    first, last = gap["first_seq"], gap["last_seq"]
    return f"from {first}" if last is None else str(first) if first == last else f"{first} to {last}"


def _table(heads: Iterable[str], rows: Sequence[tuple[object, ...]], empty: str) -> Iterator[str]:
    if not rows:
        if empty:
            yield f"<p>{empty}</p>"
        return
    titles = "".join(f'<th scope="col">{name}</th>' for name in heads)
    yield f"<table><tr>{titles}</tr>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{_own(cell)}</td>' for cell in row)}</tr>"
    yield "</table>"


def _own(text: object) -> str:
    """Text without secrets, with its own text direction: its content cannot change the text after it."""
    return f"<bdi>{escaped(masked(str(text)))}</bdi>"
