"""The command that checks everything a team needs and reports what is wrong. Changes nothing without --fix."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer

from orchestrator.base import lazy_imports
from orchestrator.base.errors import EXIT_CODES, BadRequest, Corrupt, Environment, OrchestratorError
from orchestrator.base.platform.basic_facts import LINUX, MACOS, VARIABLE
from orchestrator.cli import doctor_clis, doctor_leftovers, options, output
from orchestrator.cli.doctor_finding import DoctorFinding, of_error
from orchestrator.cli.facts import daemon_if_any
from orchestrator.cli.options import Json
from orchestrator.edge import project_location
from orchestrator.edge.project_location import Project
from orchestrator.faces.daemon_client import DaemonClient, failed_start, project_here
from orchestrator.tmux.installed import installed
from orchestrator.trust import lock_word

PYTHON = (3, 11)
FIX_S = 600.0
OWN_ENV = {
    *project_location.AGENT_ENV,
    "ORCHESTRATOR_PROJECT",
    "ORCHESTRATOR_AGENT_MCP",
    "ORCHESTRATOR_RUN_BASE",
    "ORCHESTRATOR_STATE_DIR",
    VARIABLE,
}


def doctor(
    engines: Annotated[
        list[str] | None, typer.Argument(metavar="[ENGINE]...", help="Only with --live: test these engines.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Also test each installed CLI as an agent; costs a few model turns.")
    ] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="First repair damaged logs, leftovers of crashes and file modes.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check everything a team needs.

    Checks Python, tmux, project, run directory, daemon, settings, engines, each CLI's login and registration,
    permissions, every line of every log, and leftovers of crashes. Changes nothing without --fix, which keeps each
    damaged file in quarantine. With --live each CLI also runs two tasks in a temporary project. Exit 6 if a log is
    corrupt, 5 if something else is wrong.
    """
    if engines and not live:
        raise BadRequest(
            "bad_argument", "engines can only be named with --live", "run: orchestrator doctor --live ENGINE"
        )
    place = project_here()
    findings: list[DoctorFinding] = []
    if live:
        options.refuse_agents()
        from orchestrator.cli import doctor_live  # noqa: PLC0415

        doctor_live.chosen(engines or [])
    repairs = _fix(place, as_json=as_json) if fix else None
    for check in CHECKS:
        try:
            findings.extend(check(place))
        except OrchestratorError as error:
            findings.append(of_error(check.__name__.strip("_"), error))
        except project_location.RunDirUnsafe as error:
            findings.append(of_error(check.__name__.strip("_"), Environment("run_dir_unsafe", str(error))))
    if not as_json:
        _show(findings)
    if live:
        live_findings = doctor_live.live(engines or [], output.warn if as_json else output.say)
        findings += live_findings
        if not as_json:
            _show(live_findings)
    bad = [finding for finding in findings if finding.level == "bad"]
    if as_json:
        report = {"ok": not bad, "project": str(place.root), "findings": [asdict(finding) for finding in findings]}
        output.print_json(
            report if repairs is None else {**report, "fixed": repairs["done"], "not_fixed": repairs["left"]}
        )
    else:
        output.say("no problems" if not bad else f"{output.counted(len(bad), 'problems')}")
    if bad:
        raise typer.Exit(EXIT_CODES[Corrupt if any(finding.corrupt for finding in bad) else Environment])


def _fix(place: Project, *, as_json: bool) -> dict[str, Any]:
    """Let the daemon, their only writer, repair the files, and print what it did."""
    options.refuse_agents()
    with DaemonClient(place, start=True) as link:
        notes = link.ask("orchestrator/status", {}).get("notes") or []
        repairs = link.ask("orchestrator/fix", {}, wait_s=FIX_S)
    if not as_json:
        for repair in repairs["done"]:
            output.say(f"repaired {repair['what']} {repair['file']}: {repair['did']}")
            if repair.get("kept_in"):
                output.say(f"    kept in {repair['kept_in']}")
        for note in notes:
            output.say(f"repaired at the daemon's start: {note}")
        for error in repairs["left"]:
            output.say(f"not repaired: {error['message']}")
            output.say(f"    {error['next_step']}")
        if not (repairs["done"] or repairs["left"]):
            output.say("nothing to repair")
    return repairs


def _show(findings: list[DoctorFinding]) -> None:
    for finding in findings:
        output.say(f"{ {'ok': '✓', 'note': '·', 'bad': '✕'}[finding.level] } {finding.check}: {finding.message}")
        if finding.next_step and finding.level != "ok":
            output.say(f"    {finding.next_step}")
        for line in finding.figures.get("last_lines") or []:
            output.say(f"    | {line}")


def add_to(app: Any) -> None:
    """Declare the command on the top-level app."""
    bad = "orchestrator doctor --json | jq '.findings[] | select(.level == \"bad\")'"
    example = f"{bad}\norchestrator doctor --live codex\norchestrator doctor --fix"
    options.command(app, "doctor", example)(doctor)


def _python(_: Project) -> Iterator[DoctorFinding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < PYTHON:
        yield DoctorFinding("python", "bad", f"{version} is too old", "use Python 3.11 or newer")
    else:
        yield DoctorFinding(
            "python", "ok", f"{version} at {sys.executable}, orchestrator {project_location.version()}"
        )


def _system(_: Project) -> Iterator[DoctorFinding]:
    if MACOS:
        what = "macOS: nobody has tried orchestrator on a real Mac yet"
        yield DoctorFinding(
            "system", "note", what, "docs/platforms.md says line by line what is untried; please report it"
        )
    elif not LINUX:
        yield DoctorFinding("system", "note", "the portable form is taken, which is slower", f"unset {VARIABLE}")


def _tmux(_: Project) -> Iterator[DoctorFinding]:
    program, shown = installed()
    where = "inside tmux" if os.environ.get("TMUX") else "outside tmux: the team gets its own session"
    yield DoctorFinding("tmux", "ok", f"{shown or 'unknown version'} at {program}, {where}")


def _project(place: Project) -> Iterator[DoctorFinding]:
    if place.kind == "none":
        step = "run it in the directory where the team is to work"
        yield DoctorFinding(
            "project", "bad", f"{place.root} is / or the home directory: no agents are allowed here", step
        )
        return
    yield DoctorFinding("project", "ok", f"{place.root} (found by: {place.kind})")
    folder = place.root / ".agents"
    existing = folder if folder.exists() else place.root
    if os.access(existing, os.W_OK | os.X_OK):
        yield DoctorFinding(
            "files", "ok", f"{folder} " + ("is writable" if folder.exists() else "does not exist yet")
        )
    else:
        yield DoctorFinding("files", "bad", f"{existing} is not writable", "fix its owner or mode")


def _daemon(place: Project) -> Iterator[DoctorFinding]:
    directory = project_location.run_dir(place.root)
    yield DoctorFinding("run directory", "ok", str(directory))
    if project_location.word_of(directory) == lock_word.STATE:
        trouble = (
            project_location.trouble_of_first(place.root) or "the one in /tmp was not usable when the daemon started"
        )
        yield DoctorFinding("run directory", "note", f"the one in the state directory is used: {trouble}")
    link = daemon_if_any(place)
    if link is not None:
        with link:
            daemon_status = link.ask("orchestrator/status", {})
        yield DoctorFinding(
            "daemon",
            "ok",
            f"pid {daemon_status.get('pid')}, version {daemon_status.get('version')}, log {daemon_status.get('log')}",
        )
        if daemon_status.get("config_error"):
            error = daemon_status["config_error"]
            yield DoctorFinding(
                "daemon", "bad", f"runs with older settings: {error['message']}", error.get("next_step", "")
            )
        missing = daemon_status.get("missing")
        if missing:
            step = "restore them, or continue without them: orchestrator daemon restart"
            yield DoctorFinding("daemon", "bad", f"{len(missing)} logs are missing, the first: {missing[0]}", step)
        for note in daemon_status.get("notes") or []:
            yield DoctorFinding("daemon", "note", f"repaired at its start: {note}")
        return
    if os.environ.get("ORCHESTRATOR_AGENT_ID"):
        yield DoctorFinding("daemon", "note", "not checked: this runs inside an agent")
        return
    failed = failed_start(place)
    if failed is not None:
        yield of_error("daemon", failed)
    elif project_location.is_stopped(directory):
        yield DoctorFinding("daemon", "note", "stopped by the user", "start it: orchestrator daemon start")
    else:
        yield DoctorFinding("daemon", "note", "not running; it starts when needed")


def _config(place: Project) -> Iterator[DoctorFinding]:
    from orchestrator.config import keys, sources  # noqa: PLC0415  (loads pydantic)

    loaded = sources.load(place.root, os.environ)
    count = sum(source != sources.DEFAULT for source in loaded.sources.values())
    yield DoctorFinding("config", "ok", f"{count} of {len(loaded.sources)} settings given")
    known = {keys.env_name(key) for key in keys.KEYS}
    for name in sorted(os.environ):
        if name.startswith(keys.ENV_PREFIX) and name not in known | OWN_ENV:
            near = difflib.get_close_matches(name, known, n=1)
            step = f"did you mean {near[0]}?" if near else ""
            yield DoctorFinding("config", "note", f"{name} is set, but no setting has this name", step)


def _trust(place: Project) -> Iterator[DoctorFinding]:
    from orchestrator.project_trust import acting_files  # noqa: PLC0415  (loads much)

    pending = acting_files.pending_files(place.root)
    for file in pending.files:
        keys = output.short(", ".join(file.keys), 100)
        yield DoctorFinding(
            "trust", "note", f"{file.name} is not allowed: {keys}", "run: orchestrator trust", file.name
        )
    for problem in pending.problems:
        yield DoctorFinding("trust", "note", f"{problem.name} cannot be allowed: {problem.reason}", file=problem.name)
    if pending.left:
        yield DoctorFinding("trust", "note", f"{pending.left} more files are not allowed", "run: orchestrator trust")
    if not (pending.files or pending.problems):
        yield DoctorFinding("trust", "ok", "every acting file of the project is allowed")


def _logs(place: Project) -> Iterator[DoctorFinding]:
    from orchestrator.team.recovery import damage_report  # noqa: PLC0415
    from orchestrator.team.roster import offline_view  # noqa: PLC0415

    with lazy_imports.missing("rich"):  # for the colours of logs, and nothing is logged here
        from orchestrator.team.recovery import team_adoption  # noqa: PLC0415
    count = 0
    for row in offline_view.agents(place.root):
        count += 1
        error = damage_report.of_agent(place.root, row["agent_id"])
        if error is not None:
            yield of_error("logs", error)
    for run in _runs(place):
        count += 1
        try:
            offline_view.verify_broadcast(place.root, run)
            damage_report.check_run(place.root, run)
        except OrchestratorError as error:
            yield of_error("logs", error)
    foreign = team_adoption.foreign_names(place.root)
    if foreign:
        step = "review and allow it: orchestrator trust"
        yield DoctorFinding(
            "trust", "note", f"not written on this machine, so ignored: {', '.join(foreign[:20])}", step
        )
    yield DoctorFinding("logs", "ok", f"{count} agents and team runs checked")


def _runs(place: Project) -> list[str]:
    """Run ids by directory: an unreadable run.json must not hide its broadcast."""
    folder = place.root / ".agents" / "run"
    return (
        sorted(entry.name for entry in folder.iterdir() if (entry / "run.json").is_file()) if folder.is_dir() else []
    )


CHECKS: tuple[Callable[[Project], Iterator[DoctorFinding]], ...] = (
    _python, _system, _tmux, _project, _daemon, _config, _trust, doctor_clis.engines, doctor_clis.registrations,
    doctor_leftovers.permissions, doctor_leftovers.temporary, _logs, doctor_leftovers.leftovers,
)  # fmt: skip
