"""The command that checks every record of a team and their consistency. Needs no daemon, and the fleet if asked."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.base.errors import EXIT_CODES, Corrupt
from orchestrator.cli import fleet_session, options, output
from orchestrator.cli.options import Json, RunId
from orchestrator.edge import project_location
from orchestrator.edge.project_location import Project
from orchestrator.faces.daemon_client import project_here
from orchestrator.trust import lock_word


def verify(
    answered: Annotated[
        str,
        typer.Option(
            "--answered", metavar="FILE", help="JSON lines of answers that callers got; the files must contain them."
        ),
    ] = "",
    run: RunId = "",
    fleet: Annotated[
        bool, typer.Option("--fleet", help="Also compare the agents of the fleet with its database.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check that the records of the team are complete and consistent.

    Checks every line of every log, the one terminal event of each task, order, attempts, epochs and the broadcast,
    from the files alone. Safe while a daemon runs: work in progress is then left out, and named. With --fleet it also
    compares each log with its mirror, byte for byte, and the fences and posts. Exit 6 if there is a violation.
    """
    from orchestrator.team.recovery import verification as checker  # noqa: PLC0415  (loads pydantic)

    place = project_here()
    live = daemon_at_work(place)

    def look() -> checker.Report:
        return checker.verify(
            place.root,
            live=live,
            settled=ended_well(place),
            answered=Path(answered) if answered else None,
            run=run or None,
        )

    report = look()
    if report.violations and not live and daemon_at_work(place):
        live = True  # a daemon was started meanwhile: its work in progress is no violation
        report = look()
    if fleet:
        _add_fleet(place, report)
    if as_json:
        facts = {key: value for key, value in asdict(report).items() if key != "violations"}
        rows = [violation._asdict() for violation in report.violations]
        output.print_json({"ok": report.ok, "project": str(place.root), "live": live, "violations": rows, **facts})
    else:
        _show(report, live=live)
    if not report.ok:
        raise typer.Exit(EXIT_CODES[Corrupt])


def _add_fleet(place: Project, report: Any) -> None:
    """Put what the fleet's database shows into the report."""
    settings = fleet_session.need_settings(place)
    fleet_session.need_driver()
    from orchestrator.fleet import mirror_audit  # noqa: PLC0415  (loads psycopg)

    mirrors = mirror_audit.audit(place.root, settings)
    report.violations += mirrors.violations
    report.notes += mirrors.notes
    report.checked["mirrored agents"] = mirrors.agents


def _show(report: Any, *, live: bool) -> None:
    for violation in report.violations:
        where = f"{violation.file}:{violation.line}" if violation.line else violation.file
        about = ", ".join(
            f"{word} {name}" for word, name in (("agent", violation.agent), ("task", violation.task)) if name
        )
        output.say(f"✕ {violation.kind}: {where}: {violation.message}" + (f" ({about})" if about else ""))
    for note in report.notes:
        output.say(f"· {note}")
    if live:
        output.say("· a daemon is running: its work in progress is left out")
    for what in report.left_out:
        output.say(f"· not checked: {what}")
    counted = ", ".join(f"{number} {what}" for what, number in report.checked.items())
    output.say(counted + ": " + ("no violations" if report.ok else f"{len(report.violations)} violations"))


def daemon_at_work(place: Project) -> bool:
    """Whether a process holds the project's files, or the lock of its run directory."""
    directories = project_location.run_dirs(place.root)
    locks = (place.root / ".agents" / "lock", *(directory / project_location.LOCK for directory in directories))
    return any(map(lock_word.held, locks))


def ended_well(place: Project) -> bool:
    """Whether the last daemon closed its files cleanly: then no record is still to be written."""
    last = lock_word.token(place.root / ".agents" / "lock")
    for directory in project_location.run_dirs(place.root):
        with contextlib.suppress(OSError):
            if last and (directory / project_location.CLEAN).read_text("ascii", "replace") == last:
                return True
    return False


def add_to(app: Any) -> None:
    """Declare the command on the top-level app."""
    options.command(app, "verify", "orchestrator verify --json | jq '.violations[]'")(verify)
