"""The settings of one host of a fleet, and whether its connection to the database is safe. Loads no driver."""

from __future__ import annotations

import ipaddress
import stat
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.base.errors import BadRequest
from orchestrator.config.fleet_values import FleetAcceptance, dsn_parts
from orchestrator.config.keys import Config
from orchestrator.fleet.database_functions import OnHostLost

TLS_STEP = "add sslmode=verify-full to fleet_dsn, and sslrootcert=PATH if its certificate is of your own authority"


@dataclass(frozen=True)
class FleetSettings:
    """`[fleet]` of one host; immutable."""

    dsn: str
    project: str
    host: str
    places: int = 8
    on_host_lost: OnHostLost = "wait"
    push: str = ""
    accept: FleetAcceptance = field(default_factory=FleetAcceptance)


def settings_of(config: Config) -> FleetSettings | None:
    """The fleet's settings; None if the configuration names no fleet."""
    if not config.in_fleet:
        return None
    return FleetSettings(
        dsn=config.fleet_dsn,
        project=config.fleet_project,
        host=config.fleet_host,
        places=config.fleet_places,
        on_host_lost=config.fleet_on_host_lost,
        push=config.fleet_push,
        accept=FleetAcceptance.model_validate(config.fleet_accept),
    )


def check_connection(dsn: str) -> None:
    """Raise BadRequest ``bad_config`` if others could read its password, or read or forge what the database gets."""
    if fault := tls_missing(dsn):
        raise BadRequest("bad_config", fault, TLS_STEP, key="fleet_dsn")
    if fault := passfile_unusable(dsn):
        step = f"write host:port:database:user:password into that file, then: chmod 600 {dsn_parts(dsn)['passfile']}"
        raise BadRequest("bad_config", fault, step, key="fleet_dsn")


def tls_missing(dsn: str) -> str:
    """Why the way to this database is not safe, in a sentence; "" with ``verify-full`` or on this machine."""
    parts = dsn_parts(dsn)
    if parts.get("sslmode") == "verify-full":
        return ""
    hosts, addresses = parts.get("host", "").split(","), parts.get("hostaddr", "").split(",")
    width = max(len(hosts), len(addresses))
    hosts, addresses = (names + [""] * (width - len(names)) for names in (hosts, addresses))
    # As for libpq, an address is where it connects, and the host then only a name.
    far = [name for host, address in zip(hosts, addresses, strict=True) if not _local(name := address or host)]
    if not far:
        return ""
    mode = parts.get("sslmode") or "prefer"
    return f"with sslmode={mode} another server could pass for the fleet's database at {far[0]!r}"


def reached_unsafely(host: str, address: str, sslmode: str) -> str:
    """Why the server that was reached is not safe, in a sentence; "" if it is.

    libpq takes what the DSN leaves open from its variables and from service files.
    """
    if sslmode == "verify-full" or host.startswith(("/", "@")) or _local(address):
        return ""
    return f"with sslmode={sslmode or 'prefer'} another server could pass for the fleet's database at {address!r}"


def passfile_unusable(dsn: str) -> str:
    """Why the password file that the DSN names cannot be used, in a sentence; "" if it can or none is named."""
    name = dsn_parts(dsn).get("passfile", "")
    if not name:
        return ""
    if not name.startswith("/"):
        return f"the password file {name!r} is no absolute path"
    try:
        facts = Path(name).stat()
    except OSError as error:
        return f"the password file {name} cannot be read: {error.strerror}"
    if not stat.S_ISREG(facts.st_mode):
        return f"the password file {name} is not a regular file"
    if facts.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return f"the password file {name} is open to others (mode {stat.S_IMODE(facts.st_mode):04o})"
    return ""


def _local(host: str) -> bool:
    """Whether a host of a DSN is this machine: a directory of a socket, an abstract socket, a loopback address."""
    if host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
