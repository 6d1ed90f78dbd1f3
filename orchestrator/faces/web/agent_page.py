"""The page of one agent: its facts, and the view that was chosen: screen, task, result, log, diff, records, files.

Reads the project's files, and asks the daemon for the screen. All text is masked; the elements escape it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from orchestrator.base.errors import BadRequest, OrchestratorError
from orchestrator.base.secret_masks import masked
from orchestrator.faces.changed_files import guessed_changes
from orchestrator.faces.output_files import end_of, newest_output
from orchestrator.faces.payload_text import block
from orchestrator.faces.row_words import NO_BREAK, diff_text, outcome_texts, since_of
from orchestrator.faces.status_lines import reason_text, task_text
from orchestrator.faces.web.html_elements import Content, Markup, element, joined, name_of, path_to, preformatted
from orchestrator.faces.web.page_content import TABS, PageContent, PageRequest
from orchestrator.faces.web.page_parts import (
    age,
    cost,
    counted,
    fact_list,
    inbox_item,
    moment,
    next_step,
    page,
    slot,
    state_sign,
)
from orchestrator.team.recovery import explanation
from orchestrator.team.roster import artifact_files, offline_view, task_views
from orchestrator.team.worktrees import changes

LOG_LINES = 2000
SHOWN_CHARS = 200_000
SLACK = 4096
"""A secret is looked for this far after the cut: half a secret is not known as one."""
SHOWN_TASKS = 50
RUNS_COMMANDS = "shell"
"""The engine whose output goes to files."""


class AgentCalls(Protocol):
    """What is asked of the daemon; each blocks, and raises OrchestratorError as the daemon does."""

    def screen(self, agent_id: str, lines: int = 0) -> list[str]: ...
    def meta(self, agent_id: str) -> dict[str, Any]: ...


def agent_page(root: Path, request: PageRequest, snapshot: dict[str, Any], calls: AgentCalls) -> PageContent:
    """The page of ``request.agent`` with the tab that was asked for.

    BadRequest ``unknown_agent``, ``bad_id``; what a tab cannot show is said in its place.
    """
    agent_id = request.agent
    row = next((row for row in snapshot["agents"] if row["agent_id"] == agent_id), None)
    row = row or offline_view.agent(root, agent_id)
    try:
        content = _TABS[request.tab](root, request, row, calls)
    except OrchestratorError as error:
        content = joined((element("p", error.message, class_="reason"), next_step(error)))
    frame = element(
        "section",
        element("h1", name_of(row["name"])),
        slot("div", "facts"),
        slot("div", "items", class_="items"),
        _tabs(request),
        slot("div", "tab"),
    )
    items = {str(item["id"]): inbox_item(item) for item in snapshot["inbox"] if item["agent_id"] == agent_id}
    tab = element("div", content, data_key=request.tab, class_=f"tab {request.tab}")
    return page(frame, snapshot, facts={"facts": _facts(row)}, items=items, tab={request.tab: tab})


def _tabs(request: PageRequest) -> Markup:
    links = [
        element(
            "a",
            tab,
            href=f"{path_to('agents', request.agent)}?tab={tab}",
            aria_current="page" if tab == request.tab else None,
        )
        for tab in TABS
    ]
    return element("nav", *links, class_="tabs", aria_label="Views of this agent")


def _facts(row: dict[str, Any]) -> Markup:
    facts = [
        ("State", state_sign(row)),
        ("For", age(since_of(row))),
        ("Task", name_of(task_text(row)) if task_text(row) else None),
        ("Why", name_of(reason_text(row)) if reason_text(row) else None),
        ("Queue", str(row["queue_depth"] or "")),
        ("✓/✕", outcome_texts(row.get("finished") or {})),
        ("Diff", diff_text(row.get("diff"))),
        ("Cost", cost(row.get("usage"))),
        ("Engine", name_of(row["engine"])),
        ("Role", name_of(row["role"]) if row.get("role") else None),
        ("Host", name_of(row["host"]) if row.get("host") else None),
        ("Id", str(row["agent_id"])),
    ]
    return element("div", fact_list(facts), data_key="facts")


# -- tabs -----------------------------------------------------------------------------------------------------------


def _screen(_root: Path, request: PageRequest, _row: dict[str, Any], calls: AgentCalls) -> Markup:
    return text_box("\n".join(_screen_lines(calls, request.agent)), "screen")


def _screen_lines(calls: AgentCalls, agent_id: str, lines: int = 0) -> list[str]:
    """A pane's lines; a space that must not break is a space in a pane."""
    return [line.replace(NO_BREAK, " ") for line in calls.screen(agent_id, lines)]


def _task(root: Path, request: PageRequest, row: dict[str, Any], _calls: AgentCalls) -> Markup:
    task_id = row.get("running_task_id") or (row.get("last_task") or {}).get("task_id")
    if not task_id:
        return element("p", "It has had no task.")
    task = task_views.task_of(root, request.agent, str(task_id))
    attempts = [
        element("li", f"attempt {attempt['attempt']}: ", attempt["how"] or "runs", f" {attempt['reason']}")
        for attempt in task["attempts"]
    ]
    facts = [
        ("Task", name_of(task["title"])),
        ("Id", str(task["task_id"])),
        ("State", str(task["state"])),
        ("Queued", moment(task["queued_at"])),
        ("Begun", moment(task["delivered_at"])),
        ("Ended", moment(task["ended_at"])),
        ("Why", name_of(task["reason"]) if task["reason"] else None),
    ]
    return joined((
        fact_list(facts), element("ol", *attempts) if attempts else None,
        element("h2", "Request"), payload_box(task["payload"]),
    ))  # fmt: skip


def _result(root: Path, request: PageRequest, _row: dict[str, Any], _calls: AgentCalls) -> Markup:
    ended = [task for task in task_views.histories(root, request.agent) if task["ended_at"] is not None]
    if not ended:
        return element("p", "None of its tasks has ended.")
    shown = [
        element(
            "details",
            element("summary", f"{task['state']}: ", name_of(task["title"]), " ", moment(task["ended_at"])),
            payload_box(task["result"]),
            open=at == 0,
        )
        for at, task in enumerate(reversed(ended[-SHOWN_TASKS:]))
    ]
    more = len(ended) - len(shown)
    return joined((*shown, element("p", f"{more} earlier tasks: orchestrator task list --all") if more else None))


def _log(root: Path, request: PageRequest, row: dict[str, Any], calls: AgentCalls) -> Markup:
    if row["engine"] == RUNS_COMMANDS:
        file = newest_output(root / ".agents" / "agents" / request.agent / "artifacts", "")
        lines = end_of(file, LOG_LINES) if file is not None else []
    else:
        lines = _screen_lines(calls, request.agent, LOG_LINES)
    matches = [line for line in lines if request.find.casefold() in line.casefold()]
    field = element(
        "label", "Search ", element("input", type="search", value=request.find, data_find=True, maxlength="200")
    )
    last = f"the last {counted(len(lines), 'line')}" if lines else "nothing yet"
    says = f"{len(matches)} of {last}" if request.find and lines else last
    return joined((element("p", field, " ", says, class_="find"), text_box("\n".join(matches), "log")))


def _diff(root: Path, request: PageRequest, row: dict[str, Any], _calls: AgentCalls) -> Markup:
    try:
        change = changes.diff(root, request.agent)
    except BadRequest as error:
        if error.code != "no_worktree":
            raise
        return _guessed(root, row)
    text = masked(change.text.decode("utf-8", "replace")[: SHOWN_CHARS + SLACK])[:SHOWN_CHARS]
    lines = [element("span", f"{line.expandtabs(8)}\n", class_=_diff_class(line)) for line in text.split("\n")]
    untracked = [element("li", name_of(name)) for name in change.untracked]
    return joined((
        element("p", f"Against commit {change.base[:12]}."),
        element("pre", *lines, tabindex="0", dir="ltr", aria_label="diff") if text else element("p", "No changes."),
        element("p", "The diff is longer than this.") if change.cut or len(text) == SHOWN_CHARS else None,
        joined((element("h2", "New files that git does not know"), element("ul", *untracked))) if untracked else None,
    ))  # fmt: skip


def _guessed(root: Path, row: dict[str, Any]) -> Markup:
    guess = guessed_changes(root, row)
    files = element("ul", *(element("li", name_of(name)) for name in guess.files)) if guess.files else None
    none = element("p", "None.") if guess.files == [] else None
    return joined((element("p", guess.says), files, none))


def _diff_class(line: str) -> str | None:
    if line.startswith(("+++", "---", "diff ", "index ")):
        return "head"
    return {"+": "added", "-": "removed", "@": "head"}.get(line[:1])


def _records(root: Path, request: PageRequest, row: dict[str, Any], calls: AgentCalls) -> Markup:
    try:
        meta = calls.meta(request.agent)
    except OrchestratorError:
        meta = offline_view.agent(root, request.agent)
    why = explanation.of_agent(root, meta)
    rows = [
        element(
            "tr",
            element("td", moment(line["at"])),
            element("td", str(line["type"])),
            element("td", name_of(masked(line["says"]))),
            element("td", name_of(f"{Path(line['file']).name}:{line['line']}")),
        )
        for line in why["evidence"]
    ]
    heads = [element("th", name, scope="col") for name in ("At", "Record", "Says", "File and line")]
    table = element("table", element("caption", "Records that prove it"), element("tr", *heads), *rows)
    return joined((
        element("p", state_sign(row), ": ", name_of(why["reason"])),
        table if rows else element("p", "No record proves it: this is what the daemon sees now."),
        element("p", "Next: ", name_of(why["next"])) if why["next"] else None,
    ))  # fmt: skip


def _files(root: Path, request: PageRequest, _row: dict[str, Any], _calls: AgentCalls) -> Markup:
    if request.file:
        return _file(root, request)
    artifacts = artifact_files.listed(root, request.agent)
    if not artifacts:
        return element("p", "It has left no files.")
    rows = [
        element(
            "tr",
            element("td", element("a", name_of(each["name"]), href=file_link(request.agent, each["name"]))),
            element("td", f"{each['bytes']:,} bytes"),
            element("td", moment(each["modified_at"])),
        )
        for each in artifacts
    ]
    heads = [element("th", name, scope="col") for name in ("Name", "Size", "Changed")]
    return element("table", element("caption", "Artifacts"), element("tr", *heads), *rows)


def _file(root: Path, request: PageRequest) -> Markup:
    file, size = artifact_files.opened(root, request.agent, request.file)
    with file:
        data = file.read(SHOWN_CHARS)
    words = request.file.split("/")
    button = element(
        "button", "Download", type="button",
        data_download=path_to("download", request.agent, *words), data_name=words[-1],
    )  # fmt: skip
    head = element("p", name_of(request.file), f", {size:,} bytes ", button)
    if b"\0" in data:
        return joined((head, element("p", "This is not a text.")))
    cut = element("p", "The file is longer than what is shown here.") if size > len(data) else None
    return joined((head, text_box(data.decode("utf-8", "replace"), request.file), cut))


def file_link(agent_id: str, name: str) -> str:
    """The page that shows an artifact."""
    return f"{path_to('agents', agent_id)}?tab=files&file={path_to(name).removeprefix('/')}"


def text_box(text: str, label: str) -> Markup:
    """A text of somebody else as it is, with secrets masked; what cannot be seen is shown as a code."""
    return preformatted(masked(text[: SHOWN_CHARS + SLACK])[:SHOWN_CHARS], aria_label=label)


def payload_box(payload: Any) -> Markup:
    """A payload in full."""
    if payload is None:
        return element("p", "Without a payload.")
    text = payload if isinstance(payload, str) else "\n".join(block(payload))
    cut: Sequence[Content] = (
        (element("p", f"This is the beginning of {len(text):,} characters."),) if len(text) > SHOWN_CHARS else ()
    )
    return joined((text_box(text[: SHOWN_CHARS + SLACK], "payload"), *cut))


_TABS: dict[str, Callable[[Path, PageRequest, dict[str, Any], AgentCalls], Markup]] = {
    "screen": _screen, "task": _task, "result": _result, "log": _log, "diff": _diff, "records": _records,
    "files": _files,
}  # fmt: skip
