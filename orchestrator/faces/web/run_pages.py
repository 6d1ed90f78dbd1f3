"""The pages about runs: their list, the timeline of one, and the files of all agents. Reads the project's files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from orchestrator.base.errors import OrchestratorError
from orchestrator.core.glyphs import outcome_sign
from orchestrator.faces.timeline import Bar, Lane, Timeline, Wait, timeline_of
from orchestrator.faces.web.agent_page import file_link
from orchestrator.faces.web.html_elements import Markup, element, joined, name_of, path_to
from orchestrator.faces.web.page_content import PageContent, PageRequest
from orchestrator.faces.web.page_parts import counted, moment, page, run_parts, slot
from orchestrator.team.roster import artifact_files, offline_view

ROW, NAME, LEAST = 26, 150, 3
WIDTHS = (600, 6000)
"""A timeline is at least and at most this wide; it gets 4 points for each minute."""
SHOWN_FILES = 50


def runs_page(root: Path, snapshot: dict[str, Any]) -> PageContent:
    """All team runs, the newest first, and the spawn runs and squads of now."""
    frame = element(
        "section",
        element("h1", "Runs"),
        element("h2", "Team runs"),
        slot("div", "team-runs"),
        slot("div", "runs"),
    )
    runs = {str(run["run_id"]): _team_run(run) for run in reversed(offline_view.runs(root))}
    empty = {"empty": element("p", "This project has no team run.", data_key="empty")}
    return page(frame, snapshot, **{"team-runs": runs or empty, "runs": run_parts(snapshot, heading=True)})


def _team_run(run: dict[str, Any]) -> Markup:
    run_id = str(run["run_id"])
    link = element("a", run_id, href=f"/timeline?run={path_to(run_id).removeprefix('/')}")
    ended = joined((", ended ", moment(run["ended_at"]))) if run.get("ended_at") else ", running"
    begun = joined((" begun ", moment(run["created_at"])))
    return element("p", link, begun, ended, f", {counted(len(run['agents']), 'agent')}", data_key=run_id)


def files_page(root: Path, snapshot: dict[str, Any]) -> PageContent:
    """The artifacts of the team's agents."""
    frame = element("section", element("h1", "Files"), slot("div", "agents"))
    parts = {str(row["agent_id"]): _files_of(root, row) for row in snapshot["agents"]}
    empty = {"empty": element("p", "This project has no agents.", data_key="empty")}
    return page(frame, snapshot, agents=parts or empty)


def _files_of(root: Path, row: dict[str, Any]) -> Markup:
    agent_id = str(row["agent_id"])
    try:
        artifacts = artifact_files.listed(root, agent_id)
    except OrchestratorError as error:
        artifacts, says = [], error.message
    else:
        says = counted(len(artifacts), "file")
    links = [
        element("li", element("a", name_of(name), href=file_link(agent_id, name)), f" {size:,} bytes")
        for name, size in ((each["name"], each["bytes"]) for each in artifacts[:SHOWN_FILES])
    ]
    more = len(artifacts) - len(links)
    every = (
        element("p", element("a", f"{more} more", href=f"{path_to('agents', agent_id)}?tab=files")) if more else None
    )
    listing = element("ul", *links) if links else None
    return element("section", element("h2", name_of(row["name"]), f": {says}"), listing, every, data_key=agent_id)


# -- timeline -------------------------------------------------------------------------------------------------------


def timeline_page(root: Path, request: PageRequest, snapshot: dict[str, Any]) -> PageContent:
    """The timeline of the run that was asked for, else of the newest one; finished runs too."""
    runs = list(reversed(offline_view.runs(root)))
    run_id = request.run or (str(runs[0]["run_id"]) if runs else "")
    frame = element("section", element("h1", "Timeline"), slot("div", "choice"), slot("div", "timeline"))
    if not run_id:
        nothing = element("p", "This project has no team run.", data_key="empty")
        return page(frame, snapshot, timeline={"empty": nothing})
    options = [
        element("option", f"{run['run_id']}", value=str(run["run_id"]), selected=run["run_id"] == run_id)
        for run in runs
    ]
    shown = timeline_of(root, run_id)
    until = shown.end or str(snapshot["at"])
    label = element("label", "Run ", element("select", *options, data_go="/timeline?run="))
    times = element("span", " from ", moment(shown.begin), " to ", moment(shown.end) if shown.end else "now")
    choice = element("p", label, times, data_key="choice")
    parts = {
        "drawing": element("div", _drawing(shown, until), class_="scroll", tabindex="0", role="region",
                           aria_label="timeline", data_key="drawing"),
        "table": element("details", element("summary", "The same as a table"), _table(shown), data_key="table"),
    }  # fmt: skip
    if shown.gaps:
        gaps = [element("li", name_of(gap.why)) for gap in shown.gaps]
        parts["gaps"] = element("div", element("p", "Records are missing:"), element("ul", *gaps), data_key="gaps")
    return page(frame, snapshot, choice={"choice": choice}, timeline=parts)


def _drawing(shown: Timeline, until: str) -> Markup:
    first, last = _seconds(shown.begin), max(_seconds(shown.begin) + 1, _seconds(until))
    width = max(WIDTHS[0], min(WIDTHS[1], (last - first) / 15))

    def at(moment_text: str | None) -> float:
        seconds = _seconds(moment_text) if moment_text else last
        return NAME + width * (min(max(seconds, first), last) - first) / (last - first)

    lanes = [piece for row, lane in enumerate(shown.agents) for piece in _lane(lane, row * ROW, at, until)]
    height, right = ROW * max(1, len(shown.agents)) + 4, NAME + width + 8
    about = f"{counted(len(shown.agents), 'agent')} from {shown.begin} to {until}"
    return element(
        "svg", element("title", about), *lanes,
        width=f"{right:.0f}", height=f"{height}", viewBox=f"0 0 {right:.0f} {height}", role="img", class_="lanes",
    )  # fmt: skip


def _lane(lane: Lane, top: int, at: Any, until: str) -> Iterator[Markup]:
    middle = top + ROW * 0.66
    yield element("text", lane.name[:20], x="4", y=f"{middle:.0f}")
    for life in lane.lives:
        yield _rect("life", at(life.begin), at(life.end or until), top + ROW - 6, 2, says=f"launch {life.epoch}")
    for bar in lane.bars:
        if bar.begin is not None:
            kind = f"bar {bar.outcome or 'running'}"
            yield _rect(kind, at(bar.begin), at(bar.end or until), top + 5, ROW - 13, says=_bar(bar))
    for wait in lane.waits:
        yield _rect("wait", at(wait.begin), at(wait.end or until), top + 2, 5, says=_wait(wait))


def _rect(kind: str, left: float, right: float, top: float, height: float, *, says: str) -> Markup:
    sizes = {"x": f"{left:.1f}", "y": f"{top:.1f}", "width": f"{max(LEAST, right - left):.1f}", "height": f"{height}"}
    return element("rect", element("title", says), class_=kind, **sizes)


def _table(shown: Timeline) -> Markup:
    rows = [
        element(
            "tr", element("td", name_of(lane.name)), element("td", moment(begin)), element("td", moment(end)),
            element("td", name_of(says)),
        )
        for lane in shown.agents
        for begin, end, says in sorted(
            [
                *((bar.begin or bar.end or "", bar.end, _bar(bar)) for bar in lane.bars),
                *((wait.begin, wait.end, _wait(wait)) for wait in lane.waits),
            ],
            key=lambda line: line[0],
        )
    ]  # fmt: skip
    heads = [element("th", name, scope="col") for name in ("Agent", "From", "Until", "What")]
    return element("table", element("tr", *heads), *rows)


def _bar(bar: Bar) -> str:
    attempt = f", attempt {bar.attempt}" if bar.attempt > 1 else ""
    outcome = f"{outcome_sign(bar.outcome)} " if bar.outcome in ("result", "error", "canceled") else ""
    why = f": {bar.why}" if bar.why else ""
    return f"{outcome}{bar.title}{attempt} ({bar.outcome or 'running'}){why}"


def _wait(wait: Wait) -> str:
    answer = f"; {wait.answer} by {wait.by}" if wait.answer else ""
    return f"waits for a human ({wait.kind}): {wait.text}{answer}"


def _seconds(at: str) -> float:
    try:
        return datetime.fromisoformat(at).timestamp()
    except ValueError:
        return 0.0
