"""The values of `[fleet]`: the database's DSN, names of hosts and projects, and what a host accepts. Pure."""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Any, Literal
from urllib.parse import unquote

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from orchestrator.engines.table import ENGINES

ANY = "*"
FLEET = ("fleet_dsn", "fleet_project", "fleet_host")
"""The keys that stand together: with all of them this daemon is a host of a fleet."""
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
SECRETS = ("password", "sslpassword")
_REMOTE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")
_COMMAND_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_URI = re.compile(r"postgres(?:ql)?://")
_HOST_AND_PORT = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::(\d*))?")
_PAIR = re.compile(r"\s*(\w+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'(?=\s|$)|((?:[^\s'\\]|\\.)(?:[^\s\\]|\\.)*|))")


def dsn_parts(dsn: str) -> dict[str, str]:
    """The parameters of a libpq connection string, URI or ``key=value``; the last of a name counts, as for libpq.

    ValueError if it is neither; its text holds nothing of the string.
    """
    if not dsn.isprintable():
        raise ValueError("it has a character that cannot be printed")
    parts = _of_uri(dsn) if _URI.match(dsn) else _of_pairs(dsn)
    if parts.pop("ssl", "") == "true":  # libpq's other word for it, in URIs of JDBC
        parts["sslmode"] = "require"
    return parts


def _of_pairs(dsn: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    at, end = 0, len(dsn.rstrip())
    while at < end:
        pair = _PAIR.match(dsn, at)
        if pair is None:
            raise ValueError("it is neither postgresql://HOST/DATABASE nor a list of key=value")
        value = pair[2] if pair[2] is not None else pair[3]
        parts[pair[1]] = re.sub(r"\\(.)", r"\1", value)
        at = pair.end()
    return parts


def _of_uri(dsn: str) -> dict[str, str]:
    """The parts of a URI, read in libpq's order: user up to the first @ before a /, hosts, database, parameters."""
    if " " in dsn:
        raise ValueError("it has a space; write %20")
    rest = dsn[dsn.index("://") + 3 :]
    parts: dict[str, str] = {}
    if "@" in rest.partition("/")[0]:
        user, _, rest = rest.partition("@")
        parts["user"], colon, password = user.partition(":")
        if colon:
            parts["password"] = password
    rest, _, query = rest.partition("?")
    hosts, _, parts["dbname"] = rest.partition("/")
    matches = [_HOST_AND_PORT.fullmatch(host) for host in hosts.split(",")]
    if not all(matches):
        raise ValueError("its host and port cannot be read")
    parts["host"] = ",".join(match[1].removeprefix("[").removesuffix("]") for match in matches if match)
    parts["port"] = ",".join(match[2] or "" for match in matches if match)
    for pair in query.split("&") if query else ():
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError("a parameter after ? has no value")
        parts[unquote(key)] = value
    return {key: unquote(value) for key, value in parts.items()}


def _dsn(value: str) -> str:
    if not value:
        return value
    parts = dsn_parts(value)
    if any(parts.get(key) for key in SECRETS):
        raise ValueError("it has a password; leave it out, and name a file that has it: passfile=PATH (mode 0600)")
    if parts.get("service"):
        raise ValueError("it names a service; write the host, port and database of it here")
    if not all(host.strip() for host in (parts.get("host") or parts.get("hostaddr") or "").split(",")):
        raise ValueError("it names no host; give host=, which may be the directory of a local socket")
    return value


def _name(value: str) -> str:
    if value and not NAME.fullmatch(value):
        raise ValueError("a name has 1 to 63 lower-case letters, digits and dashes, and begins with no dash")
    return value


def _remote(value: str) -> str:
    if value and not _REMOTE.fullmatch(value):
        raise ValueError("it is the name of a remote of git, as git remote lists it")
    return value


def _host(value: str) -> str:
    return value if value == ANY else _name(value)


def _engine(value: str) -> str:
    if value != ANY and value not in ENGINES:
        raise ValueError(f"no engine is called {value!r}; there are: {', '.join(sorted(ENGINES))}")
    return value


def _commands(value: dict[str, str]) -> dict[str, str]:
    for name, line in value.items():
        if not _COMMAND_NAME.fullmatch(name):
            raise ValueError(f"{name[:100]!r} is no name: letters, digits, dot, dash and underscore")
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        if not words:
            raise ValueError(f"{name}: the command line is empty")
    return value


Word = Annotated[str, Field(min_length=1, max_length=128)]


class FleetAcceptance(BaseModel):
    """What this host takes from other hosts, `[fleet.accept]`; its own calls it always takes. Immutable."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", title="fleet.accept")

    hosts: list[Annotated[Word, AfterValidator(_host)]] = []
    """Hosts that may give work to this one; `*`: each of the fleet."""
    engines: list[Annotated[Word, AfterValidator(_engine)]] = [ANY]
    """Engines that they may start here."""
    roles: list[Word] = [ANY]
    """Roles that they may start here."""
    approval: Literal["ask", "edits", "all"] = "ask"
    """The most that an agent of theirs may do without asking."""
    peek: bool = True
    """Whether they may look at the screens of agents."""
    commands: Annotated[dict[str, str], AfterValidator(_commands)] = {}
    """Command lines of the engine `command`, by the name that a call gives."""


def _accept(value: dict[str, Any]) -> dict[str, Any]:
    try:
        FleetAcceptance.model_validate(value)
    except ValidationError as error:
        reasons = [
            f"{'.'.join(map(str, item['loc']))}: {str(item['msg']).removeprefix('Value error, ')}"
            for item in error.errors(include_url=False)
        ]
        raise ValueError("; ".join(reasons)) from None
    return value


Dsn = Annotated[str, AfterValidator(_dsn)]
Name = Annotated[str, AfterValidator(_name)]
Remote = Annotated[str, AfterValidator(_remote)]
AcceptTable = Annotated[dict[str, Any], AfterValidator(_accept)]
"""A plain table, checked as `FleetAcceptance` and kept as written: so it is shown as the user knows it."""
