"""Makes a project's host of a fleet: its row and role in the database, its password and configuration on this disk.

Each step is done before the next one needs it, and a repeated call goes on where the last one stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.base.errors import BadRequest, Conflict, Environment
from orchestrator.fleet import administration, host_files
from orchestrator.fleet.fleet_section import with_fleet
from orchestrator.fleet.owner_session import reached_parts, session

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import TupleRow


@dataclass(frozen=True)
class Membership:
    """What a host needs to join: how it connects without its password file, its names, and its password."""

    parts: dict[str, str]
    role: str
    password: str
    project: str
    host: str
    accepted: tuple[str, ...] = ()
    root_certificate: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As it travels to another machine."""
        return {
            "parts": self.parts,
            "role": self.role,
            "password": self.password,
            "project": self.project,
            "host": self.host,
            "accepted": list(self.accepted),
            "root_certificate": self.root_certificate,
        }


def registered(
    connection: Connection[TupleRow],
    dsn: str,
    project: str,
    host: str,
    *,
    repository: str,
    accepted: Sequence[str] = (),
) -> Membership:
    """The host's row and role, new. One that never joined is made anew: its password is known to nobody.

    Conflict ``host_exists`` if it has joined, ``project_taken`` if the project is of another ``repository``.
    """
    administration.check_repository(connection, project, repository)
    for row in administration.hosts(connection, project):
        if row.host == host:
            if row.lease_left_s is not None:
                raise Conflict("host_exists", f"{project} has a host {host} already")
            administration.remove_host(connection, project, host)
    made = administration.add_host(connection, project, host)
    parts = reached_parts(connection, dsn)
    certificate = ""
    if parts.get("sslrootcert", "").startswith("/"):
        try:
            certificate = Path(parts["sslrootcert"]).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            certificate = ""
    return Membership(parts, made.role, made.password, project, host, tuple(accepted), certificate)


def admitted(dsn: str) -> bool:
    """Whether the database lets a host in that has joined before: not one whose role was removed since."""
    try:
        _see(dsn)
    except (Environment, BadRequest) as error:
        if error.code not in ("fleet_denied", "host_unknown"):
            raise
        return False
    return True


def _see(dsn: str) -> None:
    with session(dsn) as connection:
        connection.execute("select * from orchestrator_fleet.ownership(array[]::text[])").fetchall()


def join(root: Path, membership: Membership) -> str:
    """Keep the password here, see that the database can be reached with it, and write and allow `[fleet]`; its DSN.

    If the database cannot be reached, nothing is left here.
    """
    project, host = membership.project, membership.host
    parts = dict(membership.parts)
    file = parts.get("sslrootcert", "")
    if file.startswith("/") and not Path(file).exists():
        if not membership.root_certificate:
            raise Environment("io_failed", f"the certificate {file} is not here", f"copy it there: {file}")
        parts["sslrootcert"] = str(host_files.root_certificate(project, membership.root_certificate))
    passfile = host_files.passfile_of(project, host)
    dsn = host_files.dsn_of_role(parts, membership.role, passfile)
    values = {"dsn": dsn, "project": project, "host": host}
    change = partial(with_fleet, values=values, accepted=membership.accepted)
    host_files.changed_text(root, change)  # what it refuses is known before anything is written
    host_files.write_passfile(project, host, membership.role, membership.password)
    try:
        _see(dsn)
    except BaseException:
        host_files.forget(project, host)
        raise
    host_files.write_config(root, change)
    return dsn
