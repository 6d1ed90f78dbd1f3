"""The key of the model API: where it comes from, and how a run knows it again without storing it.

Reads ``<home>/openrouter.key``, makes ``<home>/salt``. No error of this module carries anything of a key.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from orchestrator.base.errors import Environment
from orchestrator.journal.project_files import failure, replace
from orchestrator.spawn.database import prepare_home
from orchestrator.spawn.home_location import DEFAULT_HOME

VARIABLE = "OPENROUTER_API_KEY"
FILE = "openrouter.key"
SALT = "salt"
KEY_MAX = 4096
SALT_BYTES = 32


def key_of(env: Mapping[str, str], home: Path, project: str = "") -> str:
    """The key of the connection's environment, else of the home's file; empty when there is none.

    Environment ``key_unsafe`` when the file is not a regular one of this user that nobody else may touch, or holds
    no key, or when the home lies in a repository or in ``project``; ``home_unusable`` when it is no directory.
    """
    if given := brought(env):
        return given
    path = home / FILE
    try:
        data = _private(path, KEY_MAX + 1)
    except FileNotFoundError:
        return ""
    if _comes_along(home, project):
        # Whose key it is pays, and can read what is asked: a stranger's must not be taken for the user's.
        told = f"{path} lies in a repository or project: it may be somebody else's key"
        raise Environment("key_unsafe", told, f"set {VARIABLE}, or move the home", file=str(path))
    try:
        return _checked(data.decode("ascii").strip(), str(path))
    except UnicodeDecodeError:
        raise Environment("key_unsafe", f"{path} holds no key", "put the key alone into it", file=str(path)) from None


def brought(env: Mapping[str, str]) -> str:
    """The key of the connection's environment alone; empty without one. Environment ``key_unsafe`` as `key_of`."""
    given = env.get(VARIABLE, "").strip()
    return _checked(given, VARIABLE) if given else ""


def fingerprint(home: Path, key: str) -> str:
    """What a run pins of its key: HMAC-SHA256 with the home's salt, in hex; empty for no key.

    Raises Environment ``home_unusable``, ``io_failed`` or ``disk_full``, ``key_unsafe`` for a salt others may read.
    """
    return hmac.new(_salt(home), key.encode(), hashlib.sha256).hexdigest() if key else ""


def _comes_along(home: Path, project: str) -> bool:
    """Whether the files of the home may have come with a clone or an archive; the usual home is the user's own."""
    real = Path(os.path.realpath(home))
    with contextlib.suppress(RuntimeError):
        if real == Path(os.path.realpath(Path(DEFAULT_HOME).expanduser())):
            return False
    if project and real.is_relative_to(os.path.realpath(project)):
        return True
    return any(os.path.lexists(place / ".git") for place in (real, *real.parents))


def _checked(key: str, where: str) -> str:
    # It becomes a header of HTTP.
    if len(key) > KEY_MAX or not key.isascii() or not key.isprintable() or " " in key:
        raise Environment("key_unsafe", f"{where} holds no key", "set it to the key alone")
    return key


def _private(path: Path, limit: int) -> bytes:
    """The beginning of a file that only its owner may touch.

    Raises FileNotFoundError, Environment ``key_unsafe``, or ``home_unusable`` when the home is no directory.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
        with os.fdopen(fd, "rb") as file:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
                raise Environment("key_unsafe", f"{path} is not yours alone", f"chmod 600 {path}", file=str(path))
            return file.read(limit)
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:
        raise Environment("home_unusable", f"{path.parent} is no directory", file=str(path.parent)) from error
    except OSError as error:
        raise Environment("key_unsafe", f"{path}: {error.strerror}", file=str(path)) from error


def _salt(home: Path) -> bytes:
    """The home's salt, made once: of two processes that make it at once, the first one's counts."""
    path = home / SALT
    with contextlib.suppress(FileNotFoundError):
        return _proven(path)
    prepare_home(home)
    # Synced under a name of its own first, so that whoever finds the salt finds all of it, also after a power cut.
    own = home / f".{SALT}.{secrets.token_hex(8)}"
    try:
        replace(own, secrets.token_bytes(SALT_BYTES), mode=0o600)
        with contextlib.suppress(FileExistsError):
            os.link(own, path, follow_symlinks=False)
        own.unlink()
        fd = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        with contextlib.suppress(OSError):
            own.unlink(missing_ok=True)
        raise failure(path, error) from error
    return _proven(path)


def _proven(path: Path) -> bytes:
    salt = _private(path, SALT_BYTES + 1)
    if len(salt) != SALT_BYTES:
        raise Environment("key_unsafe", f"{path} is no salt", "remove it: waiting runs will not know their key again")
    return salt
