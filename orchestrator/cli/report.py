"""The command that writes a report of a team run: one page for people. Reads files only, so it needs no daemon."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.cli import options, output, reports
from orchestrator.cli.recorded_cost import figures_here
from orchestrator.cli.run_choice import choose_run
from orchestrator.cli.spawn_and_squad_runs import runs_here
from orchestrator.faces.daemon_client import project_here

STDOUT = Path("-")


def report(
    run: Annotated[
        str, typer.Argument(metavar="[RUN]", help="The team run; default: the live one, else the newest.")
    ] = "",
    file: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the page to this file; - writes it to stdout."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is no report.")] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print JSON instead, errors included; a page is written only with --output."),
    ] = False,
) -> None:
    """Write a report of a team run as one page.

    The page shows its timeline, tasks, results and cost, what waited for a human and for how long, and which records
    are missing. It needs no network and runs no script. Secrets are masked. Works for ended runs and without a
    daemon. Default: .agents/reports/<run>.html in the project.
    """
    from orchestrator.faces.report import report_data, report_page  # noqa: PLC0415  (no other command draws)

    root = project_here().root
    run_id = run or choose_run(project_here(), "", "say which: orchestrator report")
    made = report_data.report_of(root, run_id, datetime.now(UTC), figures_here(root), runs_here(root))
    place = None
    if file == STDOUT and not as_json:
        sys.stdout.write(report_page.html(made))
        return
    if file is not None or not as_json:
        place = reports.place_of(root, file, f"{run_id}.html")
        reports.refuse_others(place, report_page.MARK, force=force)
        reports.write(place, report_page.html(made))
    if as_json:
        output.print_json({"file": None if place is None else str(place.absolute()), **made.values})
    elif place is not None:
        output.say(str(place))


def add_to(app: Any) -> None:
    """Declare the command on the top-level app."""
    options.command(app, "report", "orchestrator report\norchestrator report run-7c21 -o team.html")(report)
