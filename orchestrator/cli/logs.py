"""The command that shows what an agent has put out: a task's output, or where its CLI's transcript and screens are.

Reads files of the project; the screen of a living agent comes from the daemon.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.base.errors import BadRequest, OrchestratorError
from orchestrator.cli import options, output
from orchestrator.cli.agent_choice import chosen
from orchestrator.cli.facts import Facts, FromDaemon, facts
from orchestrator.cli.options import AgentWord, Follow, Json
from orchestrator.core.attach_command import attach_command
from orchestrator.edge.project_location import Project
from orchestrator.faces.daemon_client import project_here
from orchestrator.faces.output_files import last_of, newest_output, output_lines, tail_of

LOOK_AGAIN_S = 0.25
RUNS_COMMANDS = "shell"
"""The engine whose output goes to files."""


def logs(
    agent: AgentWord,
    follow: Follow = False,
    last: Annotated[
        int, typer.Option("-n", "--last", metavar="N", min=0, help="Only the last N lines; 0: all.")
    ] = 100,
    task: Annotated[str, typer.Option("--task", metavar="TASK", help="Of this task; default: the last one.")] = "",
    as_json: Json = False,
) -> None:
    """Print what an agent has put out.

    Of a shell agent: the output of its last task, and with -f what comes. Of an AI CLI: where its transcript and
    newest kept screen are, and what its pane shows now.
    """
    place = project_here()
    source = facts(place)
    meta = source.agent(chosen(source, agent).agent_id)
    if meta["engine"] != RUNS_COMMANDS:
        _session(place, source, meta, follow=follow, as_json=as_json)
        return
    from orchestrator.team.roster import replica_files  # noqa: PLC0415  (loads the log readers)

    folder = Path(meta["paths"]["artifacts"])
    file = newest_output(folder, task)
    if as_json:
        lines = list(tail_of(file, last)) if file else []
        output.print_json({"agent_id": meta["agent_id"], "file": str(file) if file else None, "lines": lines})
        return
    if file is None and (host := replica_files.other_host(place.root, meta)):
        why = f"{meta['agent_id']} runs on host {host}: output of a task is copied here when the task has ended"
        output.warn(f"{why}; orchestrator peek {meta['agent_id']} shows its pane now")
    elif file is None and not follow:
        output.warn(f"no task of {meta['agent_id']} has any output yet")
    for line in _followed(folder, task, last, follow=follow):
        output.say_line(line)


def _session(place: Project, source: Facts, meta: dict[str, Any], *, follow: bool, as_json: bool) -> None:
    """Show where the work of an AI CLI can be read, and its screen."""
    from orchestrator.team.recovery import explanation  # noqa: PLC0415  (loads the log readers)

    agent_id = str(meta["agent_id"])
    if follow:
        from orchestrator.team.roster import replica_files  # noqa: PLC0415  (loads the log readers)

        step = f"{attach_command(agent_id, replica_files.other_host(place.root, meta))} shows its pane"
        raise BadRequest("bad_argument", f"the output of {agent_id} cannot be followed: its CLI draws a screen", step)
    files = explanation.files_of(place.root, meta)
    screen = _screen(source, agent_id)
    if as_json:
        output.print_json({"agent_id": agent_id, "files": files, "lines": screen})
        return
    for name, path in files.items():
        output.say_line(f"{name}: {path}")
    for line in screen:
        output.say_line(line)
    if not files and not screen:
        output.warn(f"nothing of {agent_id} is kept, and it has no pane now")


def _screen(source: Facts, agent_id: str) -> list[str]:
    """The agent's screen; empty without a daemon, a pane, or the right to see it."""
    if not isinstance(source, FromDaemon):
        return []
    with contextlib.suppress(OrchestratorError):
        return list(source.link.ask("orchestrator/peek", {"agent_id": agent_id, "lines": 0})["lines"])
    return []


def _followed(folder: Path, task: str, last: int, *, follow: bool) -> Iterator[str]:
    """The lines of the newest file; with ``follow`` also new ones, and then those of each newer file."""
    shown: Path | None = None
    while True:
        file = newest_output(folder, task)
        if file is not None and file != shown:
            if follow:
                yield f"── {file.name}"
            with file.open("rb") as data:
                yield from last_of(output_lines(data, unfinished=not follow), last if shown is None else 0)
                shown = file
                while follow and newest_output(folder, task) == file:
                    yield from output_lines(data, unfinished=False)
                    time.sleep(LOOK_AGAIN_S)
                yield from output_lines(data)
        if not follow:
            return
        time.sleep(LOOK_AGAIN_S)


def add_to(app: Any) -> None:
    """Declare the command on the top-level app."""
    options.command(app, "logs", "orchestrator logs tester -f\norchestrator logs builder")(logs)
