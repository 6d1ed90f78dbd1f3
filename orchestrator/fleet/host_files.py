"""What a host keeps on its disk: passwords and addresses in the state directory, `[fleet]` in the project.

Loads no driver. What it writes into the project's configuration it also allows: callers see to it that a human asked.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from orchestrator.base.clock import SystemClock, rfc3339
from orchestrator.base.errors import BadRequest, Environment
from orchestrator.config import sources
from orchestrator.config.fleet_values import NAME, dsn_parts
from orchestrator.journal.project_files import Paths, ensure_agents_dir, failure, replace
from orchestrator.trust import allowed, state_dir
from orchestrator.trust.allowed import Allowed
from orchestrator.trust.state_dir import StateDirUnsafe
from orchestrator.trust.untrusted_settings import untrusted

_OWN_LOGIN = ("user", "password", "passfile", "sslcert", "sslkey", "sslpassword", "service")
"""Parts of a DSN that say who connects."""


def check_name(what: str, name: str) -> str:
    """The name of a project or host of a fleet; BadRequest ``bad_argument``."""
    if not NAME.fullmatch(name):
        raise BadRequest(
            "bad_argument",
            f"{name!r} is no name of a {what}",
            "use 1 to 63 lower-case letters, digits and dashes, the first no dash",
        )
    return name


def parts_of(dsn: str) -> dict[str, str]:
    """The parts of a connection string; BadRequest ``bad_argument`` if it is none."""
    try:
        return dsn_parts(dsn)
    except ValueError as error:
        raise BadRequest(
            "bad_argument", f"the DSN cannot be read: {error}", "give postgresql://USER@HOST/DATABASE"
        ) from None


def dsn_text(parts: Mapping[str, str]) -> str:
    """The parts as ``key=value``, quoted where libpq wants it."""
    return " ".join(f"{key}={_quoted(value)}" for key, value in parts.items() if value)


def _quoted(value: str) -> str:
    if re.fullmatch(r"[^\s'\\]+", value):
        return value
    return "'" + re.sub(r"(['\\])", r"\\\1", value) + "'"


def dsn_of_role(owner: Mapping[str, str], role: str, passfile: Path) -> str:
    """How a host connects, from how the owner does: the same server, by a user and password of its own."""
    parts = {key: value for key, value in owner.items() if key not in _OWN_LOGIN}
    return dsn_text({**parts, "user": role, "passfile": str(passfile)})


# -- the state directory ------------------------------------------------------------------------------------------


def passfile_of(project: str, host: str) -> Path:
    """Where the password of a host is."""
    return _private(f"{project}.{host}.pgpass")


def write_passfile(project: str, host: str, role: str, password: str) -> Path:
    """Keep the password of a host, for whatever server its DSN names; the file's path."""
    path = passfile_of(project, host)
    _write(path, f"*:*:*:{role}:{password}\n".encode())
    return path


def owner_dsn(project: str) -> str | None:
    """The owner's DSN of a project, if this host has made or joined its fleet with it."""
    content = state_dir.read(_private(f"{project}.owner"))
    return None if content is None else content.decode().strip()


def keep_owner_dsn(project: str, dsn: str) -> None:
    """Keep the owner's DSN, with its password, for `host add` and the like."""
    _write(_private(f"{project}.owner"), f"{dsn}\n".encode())


def addresses(project: str) -> dict[str, dict[str, Any]]:
    """How hosts that were added from here are reached: ``{ssh, address, path, program}`` by name."""
    content = state_dir.read(_private(f"{project}.hosts"))
    try:
        known = json.loads(content or b"{}")
    except ValueError:
        return {}
    return known if isinstance(known, dict) else {}


def keep_address(project: str, host: str, address: Mapping[str, Any] | None) -> None:
    """Keep how a host is reached; None forgets it."""
    known = addresses(project)
    known.pop(host, None)
    if address is not None:
        known[host] = dict(address)
    _write(_private(f"{project}.hosts"), json.dumps(known, indent=1).encode() + b"\n")


def forget(project: str, host: str) -> None:
    """Remove the password of a host."""
    passfile_of(project, host).unlink(missing_ok=True)


def root_certificate(project: str, content: str) -> Path:
    """Keep the certificate of the database's authority, as another host has sent it; its path."""
    path = _private(f"{project}.root.crt")
    _write(path, content.encode())
    return path


def _private(name: str) -> Path:
    try:
        return state_dir.private_dir("fleet") / name
    except StateDirUnsafe as error:
        raise Environment("state_dir_unsafe", str(error)) from error


def _write(path: Path, data: bytes) -> None:
    try:
        state_dir.write(path, data)
    except OSError as error:
        raise failure(path, error) from error


# -- the project's configuration ----------------------------------------------------------------------------------


def changed_text(root: Path, change: Callable[[str], str]) -> tuple[bytes, bytes]:
    """The project's configuration file now and as ``change`` makes it, checked; writes nothing.

    Environment ``untrusted_setting`` if it says something that acts and that nobody has allowed: that would be
    allowed with the rest. What ``change`` raises.
    """
    file = sources.project_file(root)
    old = sources.content_of(file) or b""
    try:
        new = change(old.decode()).encode()
    except UnicodeDecodeError:
        raise BadRequest("bad_config", f"{file} is not UTF-8", file=str(file)) from None
    last = Allowed(root).last(sources.PROJECT_FILE)
    acting = sources.acting_of(file, old)
    if acting and last not in (old, new):
        raise untrusted({sources.PROJECT_FILE: list(acting)})
    return old, new


def write_config(root: Path, change: Callable[[str], str]) -> bool:
    """Change the project's configuration file and allow its new content; False if nothing had to be changed."""
    if root in (Path("/"), Path.home()):
        raise BadRequest("no_project", f"{root} is no project")
    old, new = changed_text(root, change)
    paths = Paths(root)
    ensure_agents_dir(paths)
    file = sources.project_file(root)
    try:
        # Allowed first: a crash in between leaves the old file, and the same call goes on.
        allowed.allow(root, {sources.PROJECT_FILE: new}, rfc3339(SystemClock().now()))
        if new != old:
            replace(file, new, mode=stat.S_IMODE(file.stat().st_mode) if file.exists() else 0o644)
    except StateDirUnsafe as error:
        raise Environment("state_dir_unsafe", str(error)) from error
    except OSError as error:
        raise failure(file, error) from error
    return new != old
