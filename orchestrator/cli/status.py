"""The commands that show the status of the team: one line an agent, one agent's card, and a display that is redrawn.

Reads only; the layout is in `status_lines`.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from orchestrator.base.errors import BadRequest, NotReady, OrchestratorError
from orchestrator.cli import agent_card, completion, options, output
from orchestrator.cli.agent_choice import chosen, shown_names
from orchestrator.cli.facts import Facts, FromFiles, facts
from orchestrator.cli.options import Json, RunId
from orchestrator.cli.redrawn_screen import RedrawnScreen
from orchestrator.core.attention import totals
from orchestrator.edge.project_location import Project
from orchestrator.faces.daemon_client import project_here
from orchestrator.faces.status_lines import StatusLine, footer, status_lines

NO_SIZE = os.terminal_size((80, 24))
CODES = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36", "dim": "2"}


def status(
    agent: Annotated[
        str, typer.Argument(metavar="[AGENT]", help="Show all about this agent.", autocompletion=completion.agents)
    ] = "",
    run: RunId = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again until Ctrl-C.")] = False,
    every_s: Annotated[
        float, typer.Option("--every", "-n", metavar="SECONDS", min=0.2, help="With --watch: time between two looks.")
    ] = 2.0,
    as_json: Json = False,
) -> None:
    """Show each agent on one line, those that need you first.

    A line has status, task, how long, queued tasks and ended tasks; in a wide terminal also changes, cost and
    reason. With AGENT it shows everything about this agent, and the command to type next.
    """
    place = project_here()
    if watch and not as_json and sys.stdout.isatty():
        _watch(place, chosen(facts(place), agent).agent_id if agent else "", run, every_s)
        return
    source = facts(place)
    if agent:
        agent_card.show(place.root, source, chosen(source, agent).agent_id, as_json=as_json)
        return
    team = _shown(source, run)
    if as_json:
        rows = [row | {"last_event_at": _last_at(source, row)} for row in team.rows]
        output.print_json({"project": str(place.root), "live": source.live, "agents": rows})
        return
    size = output.terminal_size()
    for line in _lines(place, source, team, size.columns if size else None):
        sys.stdout.write(output.encodable(_colored(line)) + "\n")


class _ShownTeam(NamedTuple):
    """The rows to show, the name to show for each agent (its id if the name is not unique), and the totals."""

    rows: list[dict[str, Any]]
    names: dict[str, str]
    totals: dict[str, Any]


def _shown(source: Facts, run: str) -> _ShownTeam:
    """The part of the snapshot to show.

    With ``run`` the totals count only the shown rows, without deleted agents.
    """
    snapshot = source.snapshot()
    rows = snapshot["agents"]
    if run and run not in {row["run_id"] for row in rows}:
        raise BadRequest("unknown_run", f"no agent belongs to team run {run!r}", "list them: orchestrator runs")
    shown = [row for row in rows if row["status"] != "deleted" and (not run or row["run_id"] == run)]
    return _ShownTeam(shown, shown_names(rows), totals(shown) if run else snapshot["totals"])


def _lines(place: Project, source: Facts, team: _ShownTeam, width: int | None) -> list[StatusLine]:
    """The display: the project, a line an agent, the totals."""
    plain = not output.utf8()
    state = "the daemon runs" if source.live else "no daemon answers; shown from the files"
    head = _fitted(f"{_home_short(place.root)}: {state}", width)
    last = StatusLine(footer(team.totals, width, ascii_only=plain))
    if not team.rows:
        hint = "no agents; create one: orchestrator agent create NAME"
        past = [last] if any(team.totals["finished"].values()) else []
        return [StatusLine(head), StatusLine(_fitted(hint, width)), *past]
    shown = [{key: _printable(value) for key, value in row.items()} for row in team.rows]
    if not source.live:  # the first line says it for all of them
        from orchestrator.team.roster.offline_view import NO_DAEMON  # noqa: PLC0415  (loads the log readers)

        shown = [row | {"reason": ""} if row["reason"] == NO_DAEMON else row for row in shown]
    names = {agent_id: _printable(name) for agent_id, name in team.names.items()}
    lines = status_lines(shown, width, datetime.now(UTC), names=names, ascii_only=plain)
    return [StatusLine(head), *lines, last]


def _printable(value: Any) -> Any:
    """The value with its texts on one line and without control characters."""
    if isinstance(value, str):
        return output.printable(value).replace("\n", " ")
    if isinstance(value, dict):
        return {key: _printable(part) for key, part in value.items()}
    return value


def _fitted(text: str, width: int | None) -> str:
    from orchestrator.base.text_width import cut  # noqa: PLC0415

    text = output.printable(text)
    return text if width is None else cut(text, width)


def _home_short(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) and path != home else str(path)


def _colored(line: StatusLine) -> str:
    if not line.color or not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return line.text
    code = CODES[line.color]
    return f"\x1b[{code}m{line.text[: line.colored]}\x1b[0m{line.text[line.colored :]}"


def _last_at(source: Facts, row: dict[str, Any]) -> str | None:
    if not row["last_event_seq"]:
        return None
    events = source.events(row["agent_id"], row["last_event_seq"] - 1, 1)["events"]
    return str(events[-1]["at"]) if events else None


# -- the display that is redrawn ----------------------------------------------------------------------------------


def _watch(place: Project, agent_id: str, run: str, every_s: float) -> None:
    """Redraw the display until Ctrl-C; a daemon that ends, returns or fails is shown and ends nothing."""
    source: Facts = facts(place)
    with RedrawnScreen() as screen:
        while True:
            source = _newest(place, source)
            try:
                lines = _frame(place, source, agent_id, run)
            except NotReady:  # the daemon has just ended: the next look reads the files
                source = FromFiles(place.root)
                continue
            except OrchestratorError as error:
                lines = [StatusLine(_fitted(error.message, (output.terminal_size() or NO_SIZE).columns))]
            screen.show([_colored(line) for line in lines])
            screen.wait(every_s)


def _newest(place: Project, source: Facts) -> Facts:
    """The source itself while it is a daemon, else a daemon if one answers by now."""
    return source if source.live else facts(place)


def _frame(place: Project, source: Facts, agent_id: str, run: str) -> list[StatusLine]:
    """What fits on the screen."""
    size = output.terminal_size() or NO_SIZE
    if agent_id:
        texts = agent_card.texts(place.root, source, agent_id)
        lines = [StatusLine(_fitted(text, size.columns)) for text in texts]
        return lines[: size.lines]
    lines = _lines(place, source, _shown(source, run), size.columns)
    room = max(4, size.lines)
    if len(lines) <= room:
        return lines
    hidden = len(lines) - room + 1
    more = StatusLine(_fitted(f"… and {output.counted(hidden, 'more agents')}", size.columns))
    return [*lines[: room - 2], more, lines[-1]]


def add_to(app: Any) -> None:
    """Declare the command on the top-level app."""
    example = "orchestrator status\norchestrator status builder\norchestrator status --watch"
    options.command(app, "status", example)(status)
