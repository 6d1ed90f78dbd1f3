"""Commands about the fleet: make its database, show and check it, take a run, leave."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from orchestrator.base.errors import EXIT_CODES, BadRequest, Environment, OrchestratorError
from orchestrator.cli import fleet_session, options, output
from orchestrator.cli.options import Json
from orchestrator.faces.daemon_client import DaemonClient

TAKE_S = 60.0

app = options.app("One team on several machines: its database, and this host.")


@options.command(
    app,
    "init",
    "orchestrator fleet init --dsn 'postgresql://fleet@db/fleet?sslmode=verify-full' --project shop --host laptop",
)
def init(
    *,
    dsn: fleet_session.OwnerDsn = "",
    fleet_project: Annotated[
        str, typer.Option("--project", metavar="NAME", help="Name of this project in the fleet.")
    ] = "",
    host: Annotated[str, typer.Option("--host", metavar="NAME", help="Name of this host in the fleet.")] = "",
    as_json: Json = False,
) -> None:
    """Make this project the first host of a fleet, or upgrade the fleet's database.

    Makes or upgrades the tables, gives this host a role with a password of its own, writes [fleet] into
    .agents/config.toml and allows it. The owner's DSN and the passwords are kept in your state directory. Refused in
    a process started by an AI CLI.
    """
    place = fleet_session.project()
    fleet_session.refuse_all_but_humans(place)
    fleet_session.need_driver()
    from orchestrator.fleet import host_files, joining, migrations  # noqa: PLC0415  (load pydantic and psycopg)
    from orchestrator.fleet.remote_machine import root_commit  # noqa: PLC0415

    here = fleet_session.settings_here(place)
    fleet_project = host_files.check_name("project", fleet_project or (here.project if here else ""))
    host = host_files.check_name("host", host or (here.host if here else ""))
    if here is not None and (here.project, here.host) != (fleet_project, host):
        raise fleet_session.other_fleet(here)
    with fleet_session.owner(fleet_project, dsn) as (connection, known):
        before, now = migrations.migrate(connection)
        host_files.keep_owner_dsn(fleet_project, known)
        joined = here is not None and joining.admitted(
            here.dsn
        )  # not if the host was removed, or its database is new
        if not joined:
            joining.join(
                place.root,
                joining.registered(connection, known, fleet_project, host, repository=root_commit(place.root)),
            )
    facts = {
        "project": fleet_project,
        "host": host,
        "schema": now,
        "schema_before": before,
        "joined": not joined,
        "config": str(place.root / ".agents" / "config.toml"),
    }
    if as_json:
        output.print_json({"ok": True, **facts})
        return
    output.say(
        f"database: schema {now}, " + ("made" if not before else "unchanged" if before == now else f"it was {before}")
    )
    output.say(
        f"host {host} of {fleet_project}: " + ("it is one already" if joined else f"written into {facts['config']}")
    )
    if not joined:
        output.say("next: orchestrator daemon restart, then orchestrator host add user@box")


@options.command(app, "join", "orchestrator fleet join < membership.json", hidden=True)
def join(as_json: Json = False) -> None:
    """Make this project a host, as `host add` on another host has registered it; reads JSON from stdin."""
    place = fleet_session.project()
    fleet_session.refuse_all_but_humans(place)
    fleet_session.need_driver()
    from orchestrator.fleet import joining  # noqa: PLC0415  (loads pydantic and psycopg)

    try:
        fields = json.loads(sys.stdin.read())
        membership = joining.Membership(**{**fields, "accepted": tuple(fields["accepted"])})
    except (ValueError, TypeError, LookupError):
        raise BadRequest("bad_argument", "stdin has no membership", "use: orchestrator host add") from None
    here = fleet_session.settings_here(place)
    if here is not None and (here.project, here.host) != (membership.project, membership.host):
        raise fleet_session.other_fleet(here)
    joining.join(place.root, membership)
    answer = {"ok": True, "project": membership.project, "host": membership.host, "root": str(place.root)}
    output.print_json(answer) if as_json else output.say(f"host {membership.host} of {membership.project}")


@options.command(app, "member", "orchestrator fleet member --json", hidden=True)
def member(as_json: Json = False) -> None:
    """Print which host of which fleet this project is, and whether the database still lets it in."""
    here = fleet_session.settings_here(fleet_session.project())
    facts: dict[str, Any] = {"project": None, "host": None, "admitted": False}
    if here is not None:
        fleet_session.need_driver()
        from orchestrator.fleet import joining  # noqa: PLC0415  (loads psycopg)

        facts = {"project": here.project, "host": here.host, "admitted": joining.admitted(here.dsn)}
    output.print_json(facts) if as_json else output.say(f"{facts['host'] or '-'} of {facts['project'] or '-'}")


@options.command(app, "status", "orchestrator fleet status --json | jq '.hosts[] | {host, state}'")
def status(dsn: fleet_session.OwnerDsn = "", as_json: Json = False) -> None:
    """Show the fleet: its hosts, and on the host of fleet init also its database."""
    place = fleet_session.project()
    here = fleet_session.need_settings(place)
    with DaemonClient(place, start=True) as link:
        own = link.ask("orchestrator/status", {}).get("fleet")
        hosts = link.ask("orchestrator/fleet_hosts", {})["hosts"] if own and "host" in own else []
    database, trouble = _database(here.project, dsn)
    answer = {
        "project": here.project,
        "host": here.host,
        "own": own,
        "hosts": hosts,
        "database": database,
        "trouble": trouble,
    }
    if as_json:
        output.print_json(answer)
        return
    output.say(f"project {here.project}, host {here.host}")
    if own is None:
        output.warn("the daemon runs without the fleet; run: orchestrator daemon restart")
    elif "host" not in own:
        output.warn(f"{own['trouble']['message']}\n  {own['trouble']['next_step']}")
    else:
        show_own(own)
        fleet_session.show_hosts(hosts, here.host)
    if database is not None:
        dead = sum(database["dead_rows"].values())
        output.say(
            f"database: schema {database['schema']}, {database['posts']} posts, {database['lines']} lines,"
            f" {output.space(database['bytes'])}, {dead} dead rows,"
            f" oldest transaction {database['oldest_transaction_s']:.0f} s"
        )
    elif trouble is not None:
        output.warn(f"database: {trouble['message']}")


def _database(fleet_project: str, dsn: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The whole database as its owner sees it, else the error that hides it; neither without an owner's DSN."""
    from orchestrator.fleet import host_files  # noqa: PLC0415  (loads pydantic)

    if not (dsn or host_files.owner_dsn(fleet_project)):
        return None, None
    try:
        with fleet_session.owner(fleet_project, dsn) as (connection, _):
            from orchestrator.fleet import administration  # noqa: PLC0415  (loads psycopg)

            state = administration.state(connection)
    except OrchestratorError as error:
        return None, error.as_dict()
    return {
        **state._asdict(),
        "hosts": [row._asdict() for row in state.hosts],
        "standbys": [row._asdict() for row in state.standbys],
    }, None


def _away(own: dict[str, Any]) -> bool:
    """Whether the database does not answer; one that refuses this host is not away."""
    return bool(own["away"]) and (own.get("trouble") or {"code": "fleet_away"})["code"] == "fleet_away"


def show_own(own: dict[str, Any]) -> None:
    """What this host's daemon says of itself in the fleet."""
    renewed = own.get("renewed_s")
    unshipped = own["unshipped"]
    lag = "never" if renewed is None else f"{renewed} s ago"
    output.say(
        f"lease renewed: {lag}{', the database is away' * _away(own)};"
        f" not shipped yet: {output.counted(unshipped['records'], 'records')}, {output.space(unshipped['bytes'])}"
    )
    if unshipped["bytes"] > fleet_session.UNSHIPPED_BYTES:
        output.warn(f"{output.space(unshipped['bytes'])} are on this host only; see: orchestrator fleet doctor")
    if own.get("trouble"):
        output.warn(f"{own['trouble']['message']}\n  {own['trouble']['next_step']}")


@options.command(app, "doctor", "orchestrator fleet doctor --json | jq '.findings[] | select(.level == \"bad\")'")
def doctor(dsn: fleet_session.OwnerDsn = "", as_json: Json = False) -> None:
    """Check what the fleet needs on this host.

    Checks the connection and its protection, the password file, the clock, the server and its standbys, the versions
    and leases of all hosts, and what was not shipped yet. Exit 5 if something is wrong.
    """
    place = fleet_session.project()
    here = fleet_session.need_settings(place)
    fleet_session.need_driver()
    from orchestrator.cli import fleet_checks  # noqa: PLC0415  (loads psycopg)

    if fleet_checks.show(list(fleet_checks.of_fleet(place, here, dsn)), as_json=as_json):
        raise typer.Exit(EXIT_CODES[Environment])


@options.command(app, "restore", "orchestrator fleet restore --yes")
def restore(
    dsn: fleet_session.OwnerDsn = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """After the database was restored from a backup: skip all numbers that may have been used since that backup.

    Call it before hosts connect again, or at once after that; each host then ships what the backup lacks.
    """
    place = fleet_session.project()
    options.refuse_agents()
    here = fleet_session.need_settings(place)
    fleet_session.confirm(f"Was the database of {here.project} restored from a backup?", yes=yes, as_json=as_json)
    with fleet_session.owner(here.project, dsn) as (connection, _):
        from orchestrator.fleet import administration  # noqa: PLC0415  (loads psycopg)

        incarnation = administration.restore(connection)
    if as_json:
        output.print_json({"ok": True, "incarnation": incarnation})
    else:
        output.say(f"the database is incarnation {incarnation}; its hosts ship what it lacks")


@options.command(app, "take-run", "orchestrator fleet take-run run-20261127-101500-a1b2c3")
def take_run(run_id: Annotated[str, typer.Argument(metavar="RUN")], as_json: Json = False) -> None:
    """Make this host the home of a team run: its master is here from now on, and reads its broadcast here."""
    options.refuse_agents()
    answer = fleet_session.asked(fleet_session.project(), "fleet_take_run", {"run_id": run_id}, wait_s=TAKE_S)
    if as_json:
        output.print_json(answer)
    else:
        output.say(f"this host is the home of {answer['run_id']}; read its broadcast from the beginning")


@options.command(app, "leave", "orchestrator fleet leave")
def leave(as_json: Json = False) -> None:
    """Take [fleet] out of the project's configuration; agents, records and the database stay as they are.

    Remove the host from the fleet afterwards, on another host: orchestrator host remove NAME.
    """
    place = fleet_session.project()
    fleet_session.refuse_all_but_humans(place)
    here = fleet_session.need_settings(place)
    from orchestrator.fleet import host_files  # noqa: PLC0415  (loads pydantic)
    from orchestrator.fleet.fleet_section import without_fleet  # noqa: PLC0415

    if not host_files.write_config(place.root, without_fleet):
        source = "the environment or your own configuration"
        raise BadRequest(
            "no_fleet", f"[fleet] is not in the project's configuration, but in {source}", "take it out there"
        )
    host_files.forget(here.project, here.host)
    if as_json:
        output.print_json({"ok": True, "project": here.project, "host": here.host})
    else:
        output.say(f"{place.root} is no longer host {here.host} of {here.project}")
        output.say("next: orchestrator daemon restart; on another host: orchestrator host remove " + here.host)
