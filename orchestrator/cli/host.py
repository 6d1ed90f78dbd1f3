"""Commands about the hosts of the fleet: add one over ssh, list and check them, drain, remove, attach."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.base.errors import EXIT_CODES, BadRequest, Conflict, Environment, NotReady, OrchestratorError
from orchestrator.cli import fleet_session, options, output
from orchestrator.cli.fleet_session import OwnerDsn, confirm, show_hosts
from orchestrator.cli.options import Json
from orchestrator.edge import project_location

if TYPE_CHECKING:
    from orchestrator.fleet.settings import FleetSettings

ANSWERS_S = 60.0
"""Longest wait for a new host to answer, and for a lost host's agents to move."""
LOOK_AGAIN_S = 0.5
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the host in the fleet.")]

app = options.app("Add, list, check, drain and remove the machines of the fleet.")


@options.command(app, "add", "orchestrator host add me@box\norchestrator host add me@box --name gpu --path src/shop")
def add(
    *,
    address: Annotated[str, typer.Argument(metavar="[USER@]BOX", help="The machine, as your ssh names it.")],
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Its name in the fleet; default: made of BOX.")
    ] = "",
    path: Annotated[
        str, typer.Option("--path", metavar="DIR", help="Its checkout of this project; default: the same name.")
    ] = "",
    ssh: Annotated[
        str, typer.Option("--ssh", metavar="LINE", help="The ssh program with options; default: ssh.")
    ] = "",
    dsn: OwnerDsn = "",
    as_json: Json = False,
) -> None:
    """Add a machine to the fleet over your own ssh.

    Checks Python, tmux and git there, installs this version, clones the project, lets the machine into the fleet with
    a password of its own, makes it accept work of this host, and starts its daemon. A repeated call goes on where the
    last one stopped. Refused in a process started by an AI CLI.
    """
    place = fleet_session.project()
    fleet_session.refuse_all_but_humans(place)
    here = fleet_session.need_settings(place)
    if address.startswith("-"):
        raise BadRequest("bad_argument", f"{address!r} is no address of a machine")
    from orchestrator.fleet import host_files  # noqa: PLC0415  (loads pydantic)
    from orchestrator.fleet.remote_machine import RemoteMachine, root_commit  # noqa: PLC0415

    name = host_files.check_name("host", name or _name_of(address))
    if name == here.host:
        raise BadRequest("bad_argument", f"{name!r} is the name of this host", "give another one: --name")
    words = _ssh_words(ssh)
    machine = RemoteMachine(words, address)
    say = output.warn if as_json else output.say
    try:
        facts = machine.facts()
        say(f"{address}: Python {facts['python_version']}, {facts['tmux']}, {facts['git']}")
        if facts.get("version") != project_location.version():
            say(f"installing orchestrator {project_location.version()} there, which takes a while")
        program = machine.program(facts)
        say(f"orchestrator {project_location.version()}: {program}")
        checkout = machine.checkout(place.root, path or place.root.name, root_commit(place.root))
        say(f"project: {checkout}")
        host_files.keep_address(
            here.project, name, {"ssh": words, "address": address, "path": checkout, "program": program}
        )
        _register(partial(machine.orchestrator, program, checkout), checkout, here, name, dsn)
        say(f"host {name}: it is in the fleet and accepts work of {here.host}")
        machine.orchestrator(program, checkout, "daemon", "restart")
        say("its daemon runs")
    except OrchestratorError as error:
        raise _with_made(error, machine.made) from None
    answer = _first_answer(place, name)
    if as_json:
        output.print_json(
            {"ok": True, "host": name, "path": checkout, "program": program, "made": machine.made, **answer}
        )
    elif answer["round_trip_ms"] is not None:
        output.say(f"round trip: {answer['round_trip_ms']} ms")
    else:
        output.warn(f"no round trip yet: {answer['trouble']}")


def _name_of(address: str) -> str:
    """The name in the fleet of the machine at an address; BadRequest ``bad_argument`` if none can be made of it."""
    from orchestrator.config.fleet_values import NAME  # noqa: PLC0415  (loads pydantic)

    machine = address.rpartition("@")[2].lower().replace("_", "-")
    by_number = re.fullmatch(r"[0-9.]+", machine) is not None  # its first part names many machines
    name = machine.replace(".", "-") if by_number else machine.partition(".")[0]
    if not NAME.fullmatch(name):
        raise BadRequest("bad_argument", f"of {address!r} no name of a host can be made", "give it one: --name NAME")
    return name


def _register(call: Callable[..., dict[str, Any]], checkout: str, here: FleetSettings, name: str, dsn: str) -> None:
    """Let the host into the fleet, unless its checkout is that host already; ``call`` runs our program there.

    One that was removed since is let in anew.
    """
    there = call("fleet", "member")
    same = there.get("host") == name and there.get("project") == here.project
    if same and there.get("admitted"):
        return
    if there.get("host") and not same:
        raise Conflict("other_fleet", f"{checkout} is host {there['host']!r} of the fleet {there['project']!r}")
    with fleet_session.owner(here.project, dsn) as (connection, known):
        from orchestrator.fleet import administration, joining  # noqa: PLC0415  (load psycopg)

        # The machine's checkout was compared with this one's.
        membership = joining.registered(connection, known, here.project, name, repository="", accepted=[here.host])
        try:
            given = json.dumps(membership.as_dict()).encode()
            call("fleet", "join", given=given)
        except OrchestratorError:
            administration.remove_host(connection, here.project, name)
            raise


def _with_made(error: OrchestratorError, made: list[str]) -> OrchestratorError:
    """The error, with what stays there."""
    if not made:
        return error
    message = f"{error.message}; made there so far: {'; '.join(made)}"
    return type(error)(error.code, message, error.next_step, **{**error.facts, "made": made})


def _first_answer(place: Any, name: str) -> dict[str, Any]:
    """How long the new host takes to answer, once it does."""
    end = time.monotonic() + ANSWERS_S
    while True:
        try:
            answer = fleet_session.asked(place, "fleet_ping", {"host": name}, wait_s=ANSWERS_S)
        except (NotReady, BadRequest, Environment) as error:
            if time.monotonic() >= end or error.code in ("no_fleet", "untrusted_setting"):
                return {"round_trip_ms": None, "trouble": error.message}
            time.sleep(LOOK_AGAIN_S)
        else:
            return {"round_trip_ms": answer["round_trip_ms"], "trouble": None}


@options.command(app, "list", "orchestrator host list --json | jq '.hosts[] | select(.state == \"live\")'")
def list_hosts(as_json: Json = False) -> None:
    """List the hosts: live, draining, away since when, or lost; their agents and places, version and engines."""
    place = fleet_session.project()
    fleet_session.need_settings(place)
    answer = fleet_session.asked(place, "fleet_hosts")
    if as_json:
        output.print_json(answer)
    else:
        show_hosts(answer["hosts"], answer["host"])


@options.command(app, "doctor", "orchestrator host doctor gpu")
def doctor(name: Name, as_json: Json = False) -> None:
    """Check one host: its lease, its version, whether it answers, and over ssh what the machine has.

    Exit 5 if something is wrong.
    """
    from orchestrator.cli import fleet_checks  # noqa: PLC0415

    place = fleet_session.project()
    here = fleet_session.need_settings(place)
    findings = list(fleet_checks.of_host(place, here, name))
    if fleet_checks.show(findings, as_json=as_json):
        raise typer.Exit(EXIT_CODES[Environment])


@options.command(app, "drain", "orchestrator host drain gpu\norchestrator host drain gpu --undo")
def drain(
    name: Name,
    undo: Annotated[bool, typer.Option("--undo", help="Let it get new agents again.")] = False,
    dsn: OwnerDsn = "",
    as_json: Json = False,
) -> None:
    """Let a host get no new agents; those that it has work on."""
    options.refuse_agents()
    here = fleet_session.need_settings(fleet_session.project())
    with fleet_session.owner(here.project, dsn) as (connection, _):
        from orchestrator.fleet import administration  # noqa: PLC0415  (loads psycopg)

        administration.drain(connection, here.project, name, draining=not undo)
    if as_json:
        output.print_json({"ok": True, "host": name, "draining": not undo})
    else:
        output.say(f"{name}: " + ("it gets new agents again" if undo else "it gets no new agents"))


@options.command(app, "remove", "orchestrator host remove gpu\norchestrator host remove gpu --lost")
def remove(
    name: Name,
    lost: Annotated[
        bool, typer.Option("--lost", help="It is gone for good: its agents move, or end with their tasks canceled.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    dsn: OwnerDsn = "",
    as_json: Json = False,
) -> None:
    """Remove a host that has no agents; with --lost one whose lease has expired, with its agents.

    With --lost agents made with on_host_lost "move" go to other hosts, the others end, their tasks canceled.
    """
    options.refuse_agents()
    here = fleet_session.need_settings(fleet_session.project())
    if name == here.host:
        raise BadRequest(
            "bad_argument", f"{name} is this host", "call it on another host, after: orchestrator fleet leave"
        )
    if lost:
        confirm(
            f"Give up {name}? Its agents move to other hosts, or end with their tasks canceled.",
            yes=yes,
            as_json=as_json,
        )
    from orchestrator.fleet import host_files  # noqa: PLC0415  (loads pydantic)

    with fleet_session.owner(here.project, dsn) as (connection, _):
        from orchestrator.fleet import administration  # noqa: PLC0415  (loads psycopg)

        before = {row.host: row.agents for row in administration.hosts(connection, here.project)}
        if lost:
            administration.give_up(connection, here.project, name)
        end = time.monotonic() + (ANSWERS_S if lost else 0)
        while True:
            try:
                administration.remove_host(connection, here.project, name)
                break
            except Conflict as error:
                if error.code != "host_has_agents" or time.monotonic() >= end:
                    raise
                time.sleep(LOOK_AGAIN_S)
    host_files.keep_address(here.project, name, None)
    if as_json:
        output.print_json({"ok": True, "host": name, "lost": lost, "agents": before.get(name, 0)})
    else:
        output.say(
            f"{name} is removed" + (f"; its {output.counted(before.get(name, 0), 'agents')} were given up" * lost)
        )
        output.say(f"next, if {name} still runs: on it, orchestrator fleet leave and orchestrator daemon restart")


@options.command(app, "attach", "orchestrator host attach gpu\norchestrator host attach gpu builder")
def attach(
    name: Name,
    agent: Annotated[str, typer.Argument(metavar="[AGENT]", help="The agent whose pane to zoom.")] = "",
    as_json: Json = False,
) -> None:
    """Attach to the team's tmux on another host over ssh; with --json only print the command."""
    options.refuse_agents()
    here = fleet_session.need_settings(fleet_session.project())
    from orchestrator.fleet import host_files  # noqa: PLC0415  (loads pydantic)

    known = host_files.addresses(here.project).get(name)
    if known is None:
        raise BadRequest(
            "host_unknown",
            f"how {name} is reached was not kept here",
            f"ssh -t BOX, then: orchestrator attach {agent or 'AGENT'}",
        )
    words = [known["program"], "-C", known["path"], "attach", agent] if agent else ["tmux", "-u", "attach"]
    command = [*known["ssh"], "-t", known["address"], shlex.join(words)]
    if as_json:
        output.print_json({"host": name, "command": command})
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadRequest("bad_argument", "attach needs a terminal", "orchestrator peek AGENT prints a screen")
    sys.stdout.flush()
    try:
        os.execvp(command[0], command)  # noqa: S606  (an argv list)
    except OSError as error:
        raise Environment("ssh_failed", f"{command[0]} cannot be started: {error.strerror}") from error


def _ssh_words(line: str) -> list[str]:
    from orchestrator.fleet.remote_machine import VARIABLE  # noqa: PLC0415

    return options.words(line or os.environ.get(VARIABLE, ""), "--ssh") or ["ssh"]
