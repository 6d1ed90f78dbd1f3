"""What `fleet doctor` and `host doctor` check: connection, clock, server, standbys, hosts, and a machine over ssh."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from orchestrator.base.errors import OrchestratorError
from orchestrator.cli import fleet_session, output
from orchestrator.cli.doctor_finding import DoctorFinding, of_error
from orchestrator.cli.fleet_session import UNSHIPPED_BYTES
from orchestrator.edge import project_location
from orchestrator.edge.project_location import Project
from orchestrator.fleet.settings import FleetSettings, passfile_unusable, tls_missing

CLOCK_S = 5.0
OLD_TRANSACTION_S = 300.0


def show(findings: list[DoctorFinding], *, as_json: bool) -> bool:
    """Print them; whether one is bad."""
    bad = [finding for finding in findings if finding.level == "bad"]
    if as_json:
        output.print_json({"ok": not bad, "findings": [asdict(finding) for finding in findings]})
        return bool(bad)
    for finding in findings:
        output.say(f"{ {'ok': '✓', 'note': '·', 'bad': '✕'}[finding.level] } {finding.check}: {finding.message}")
        if finding.next_step and finding.level != "ok":
            output.say(f"    {finding.next_step}")
    output.say("no problems" if not bad else output.counted(len(bad), "problems"))
    return bool(bad)


def of_fleet(place: Project, here: FleetSettings, dsn: str) -> Iterator[DoctorFinding]:
    """The findings about the fleet as this host sees it."""
    fault = tls_missing(here.dsn)
    step = "add sslmode=verify-full to fleet_dsn"
    yield (
        DoctorFinding("protection", "bad", fault, step)
        if fault
        else DoctorFinding("protection", "ok", "verify-full, or on this machine")
    )
    fault = passfile_unusable(here.dsn)
    yield (
        DoctorFinding("password", "bad", fault, "chmod 600 that file, or add the host again")
        if fault
        else DoctorFinding("password", "ok", "its file is yours alone")
    )
    try:
        yield from _of_server(here)
    except OrchestratorError as error:
        yield of_error("database", error)
    yield from _of_database(here, dsn)
    yield from _of_daemon(place)


def _of_server(here: FleetSettings) -> Iterator[DoctorFinding]:
    from orchestrator.fleet import owner_session  # noqa: PLC0415  (loads psycopg)
    from orchestrator.fleet.migrations import OLDEST_SERVER  # noqa: PLC0415

    with owner_session.session(here.dsn) as connection:
        begin = datetime.now(UTC)
        row = connection.execute("select clock_timestamp(), pg_is_in_recovery()").fetchone()
        end = datetime.now(UTC)
        assert row is not None
        version = connection.info.server_version // 10_000
        level = "ok" if version >= OLDEST_SERVER else "bad"
        took = (end - begin).total_seconds() * 1000
        yield DoctorFinding(
            "database", level, f"PostgreSQL {version}, it answers in {took:.1f} ms", "use 15 or newer"
        )
        if row[1]:
            yield DoctorFinding(
                "database", "bad", "it is a standby and takes no writes", "let fleet_dsn name the primary"
            )
        skew = (row[0] - begin).total_seconds()
        yield DoctorFinding(
            "clock",
            "ok" if abs(skew) < CLOCK_S else "note",
            f"this host's clock differs by {abs(skew):.1f} s from the database's",
            "set it: times in records are each host's own; leases use the database's",
        )


def _of_database(here: FleetSettings, dsn: str) -> Iterator[DoctorFinding]:
    from orchestrator.fleet import host_files  # noqa: PLC0415

    if not (dsn or host_files.owner_dsn(here.project)):
        yield DoctorFinding("standbys", "note", "not checked: this host has no owner's DSN", "add --dsn DSN")
        return
    try:
        with fleet_session.owner(here.project, dsn) as (connection, _):
            from orchestrator.fleet import administration, migrations  # noqa: PLC0415  (load psycopg)

            state = administration.state(connection)
    except OrchestratorError as error:
        yield of_error("owner", error)
        return
    level = "ok" if state.schema == migrations.SCHEMA else "bad"
    yield DoctorFinding("schema", level, f"version {state.schema}", "upgrade it: orchestrator fleet init")
    if state.oldest_transaction_s > OLD_TRANSACTION_S:
        yield DoctorFinding(
            "transactions",
            "note",
            f"one is open for {state.oldest_transaction_s:.0f} s, so dead rows stay",
            "end it: select pid, query from pg_stat_activity order by xact_start",
        )
    loose = [standby.name for standby in state.standbys if standby.sync_state == "async"]
    hidden = [standby.name for standby in state.standbys if not standby.sync_state]
    if hidden:
        yield DoctorFinding(
            "standbys",
            "note",
            f"there are {len(hidden)}, and the owner of the database may not see whether they are synchronous",
            "as a superuser of the database: grant pg_monitor to its owner",
        )
    elif loose:
        yield DoctorFinding(
            "standbys",
            "note",
            f"asynchronous: {', '.join(loose)}; what was accepted last is lost if one is promoted",
            "set synchronous_standby_names, and after a promotion: orchestrator fleet restore",
        )
    else:
        yield DoctorFinding("standbys", "ok", f"{len(state.standbys)}, none asynchronous")


def _of_daemon(place: Project) -> Iterator[DoctorFinding]:
    from orchestrator.faces.daemon_client import DaemonClient  # noqa: PLC0415

    try:
        with DaemonClient(place, start=True) as link:
            own = link.ask("orchestrator/status", {}).get("fleet")
            hosts = link.ask("orchestrator/fleet_hosts", {})["hosts"] if own and "host" in own else []
    except OrchestratorError as error:
        yield of_error("daemon", error)
        return
    if own is None:
        yield DoctorFinding("daemon", "bad", "it runs without the fleet", "run: orchestrator daemon restart")
        return
    if own.get("trouble"):
        yield DoctorFinding("daemon", "bad", own["trouble"]["message"], own["trouble"]["next_step"])
        if "host" not in own:
            return
    else:
        yield DoctorFinding("daemon", "ok", f"host {own['host']}, lease renewed {own['renewed_s']} s ago")
    unshipped = own["unshipped"]["bytes"]
    yield DoctorFinding(
        "unshipped",
        "bad" if unshipped > UNSHIPPED_BYTES else "ok",
        f"{output.space(unshipped)} are on this host only",
        "other hosts cannot see them: the database is away, too slow or full",
    )
    for row in hosts:
        yield _of_row(row)


def _of_row(row: dict[str, Any]) -> DoctorFinding:
    engines = ", ".join(row["engines"] or []) or "unknown"
    what = f"{row['state']}, version {row['version'] or 'unknown'}, engines {engines}"
    check, name = f"host {row['host']}", row["host"]
    if row["state"] not in ("live", "draining"):
        return DoctorFinding(check, "note", what, f"see: orchestrator host doctor {name}")
    if row["version"] != project_location.version():
        step = f"install {project_location.version()} there: orchestrator host add"
        return DoctorFinding(check, "note", what, step)
    return DoctorFinding(check, "ok", what)


def of_host(place: Project, here: FleetSettings, name: str) -> Iterator[DoctorFinding]:
    """The findings about one host."""
    from orchestrator.fleet import host_files  # noqa: PLC0415
    from orchestrator.fleet.remote_machine import RemoteMachine  # noqa: PLC0415

    rows = {row["host"]: row for row in fleet_session.asked(place, "fleet_hosts")["hosts"]}
    if name not in rows:
        yield DoctorFinding(
            "fleet", "bad", f"the fleet has no host {name!r}", "orchestrator host list shows the hosts"
        )
        return
    yield _of_row(rows[name])
    try:
        answer = fleet_session.asked(place, "fleet_ping", {"host": name}, wait_s=20.0)
        yield DoctorFinding("answer", "ok", f"round trip {answer['round_trip_ms']} ms")
    except OrchestratorError as error:
        yield of_error("answer", error)
    known = host_files.addresses(here.project).get(name)
    if known is None:
        yield DoctorFinding("machine", "note", "not looked at: how it is reached was not kept here")
        return
    machine = RemoteMachine(known["ssh"], known["address"])
    try:
        facts = machine.facts()
        yield DoctorFinding("machine", "ok", f"Python {facts['python_version']}, {facts['tmux']}, {facts['git']}")
        daemon = machine.orchestrator(known["program"], known["path"], "daemon", "status")
        if daemon.get("running") is False:
            step = f"ssh {known['address']} {known['program']} -C {known['path']} daemon start"
            yield DoctorFinding("its daemon", "bad", "it does not run", step)
    except OrchestratorError as error:
        yield of_error("machine", error)
