"""What the commands `fleet` and `host` share: who may call them, the fleet here, its owner's session, its hosts."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.base.errors import BadRequest, Conflict, Environment
from orchestrator.base.platform import process_facts
from orchestrator.cli import options, output, trust
from orchestrator.edge.project_location import Project
from orchestrator.faces.daemon_client import DaemonClient, error_from, project_here

if TYPE_CHECKING:
    from orchestrator.fleet.owner_session import Session
    from orchestrator.fleet.settings import FleetSettings

UNSHIPPED_BYTES = 64 << 20
"""More than this that other hosts cannot see yet is worth a warning."""
OwnerDsn = Annotated[
    str,
    typer.Option("--dsn", metavar="DSN", help="DSN of the database's owner; default: as fleet init kept it here."),
]


def refuse_all_but_humans(place: Project) -> None:
    """BadRequest unless a human at a terminal calls: what follows decides whose work this host carries out.

    ``trust_by_digest`` in the user's own configuration lets a script do it, as for `orchestrator trust`. A session of
    ssh needs no terminal.
    """
    options.refuse_agents()
    trust.refuse_others()
    if process_facts.has_terminal(os.getpid()) or os.environ.get("SSH_CONNECTION"):
        return
    from orchestrator.config import sources  # noqa: PLC0415  (loads pydantic)

    if not sources.load(place.root, os.environ).config.trust_by_digest:
        step = "run it in a terminal, or set trust_by_digest = true in your own configuration"
        raise BadRequest("trust_refused", "the process has no terminal, so no human can have asked", step)


def need_driver() -> None:
    """Environment ``fleet_driver`` without psycopg."""
    if find_spec("psycopg") is None:
        raise Environment("fleet_driver", "psycopg, the driver of PostgreSQL, is not installed")


def project() -> Project:
    """The project here; BadRequest ``no_project`` in / and the home directory."""
    place = project_here()
    if place.kind == "none":
        raise BadRequest("no_project", f"{place.root} is / or the home directory")
    return place


def settings_here(place: Project) -> FleetSettings | None:
    """`[fleet]` of the project as it counts; None without one."""
    from orchestrator.config import sources  # noqa: PLC0415  (loads pydantic)
    from orchestrator.fleet.settings import settings_of  # noqa: PLC0415

    loaded = sources.load(place.root, os.environ)
    if not loaded.config.in_fleet and "fleet_dsn" in loaded.withheld:
        raise Environment(
            "untrusted_setting",
            "[fleet] does not count, because nobody has allowed it",
            "run orchestrator trust in a terminal",
        )
    return settings_of(loaded.config)


def need_settings(place: Project) -> FleetSettings:
    """As `settings_here`; BadRequest ``no_fleet`` without a fleet."""
    settings = settings_here(place)
    if settings is None:
        raise BadRequest(
            "no_fleet", "this project belongs to no fleet", "make one: orchestrator fleet init --dsn DSN"
        )
    return settings


@contextlib.contextmanager
def owner(fleet_project: str, dsn: str = "") -> Iterator[tuple[Session, str]]:
    """A session of the owner of the fleet's database, and its DSN: that given, or that kept by `fleet init` here."""
    need_driver()
    from orchestrator.fleet import host_files, owner_session  # noqa: PLC0415  (load pydantic and psycopg)

    known = dsn or host_files.owner_dsn(fleet_project)
    if not known:
        raise BadRequest(
            "owner_needed",
            "this host does not know how the owner of the fleet's database connects",
            "call it on the host of fleet init, or add --dsn DSN with the owner's DSN",
        )
    with owner_session.session(known) as connection:
        yield connection, known


def asked(
    place: Project, method: str, params: dict[str, Any] | None = None, *, wait_s: float = 0.0
) -> dict[str, Any]:
    """An answer of the daemon as a host of the fleet; BadRequest ``no_fleet`` if it is none yet."""
    with DaemonClient(place, start=True) as link:
        own = link.ask("orchestrator/status", {}).get("fleet")
        if own is not None and "host" not in own:
            raise error_from(own["trouble"])
        if own is None:
            need_settings(place)
            raise BadRequest("no_fleet", "the daemon runs without the fleet", "run: orchestrator daemon restart")
        return link.ask(f"orchestrator/{method}", params or {}, wait_s=wait_s)


def other_fleet(here: FleetSettings) -> Conflict:
    """The project is another host already."""
    return Conflict("other_fleet", f"this project is host {here.host!r} of the fleet {here.project!r}")


def show_hosts(hosts: list[dict[str, Any]], here: str) -> None:
    """The hosts as a table."""
    output.table(
        ["HOST", "STATE", "AGENTS", "PLACES", "VERSION", "ENGINES"],
        [
            [
                row["host"] + (" (here)" if row["host"] == here else ""),
                row["state"],
                str(row["agents"]),
                str(row["places"]),
                row["version"] or "-",
                ", ".join(row["engines"] or []) or "-",
            ]
            for row in hosts
        ],
        empty="no host is known yet: this one has not reached the database",
    )


def confirm(question: str, *, yes: bool, as_json: bool) -> None:
    """Ask, unless ``yes``; BadRequest ``confirm_needed`` where nobody can be asked."""
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise BadRequest("confirm_needed", question, "add --yes")
    if not typer.confirm(question, err=True):
        raise typer.Abort
