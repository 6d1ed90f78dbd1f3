"""The key of the model API: where it is read from, and its fingerprint, which a run stores instead.

Reads ``<home>/openrouter.key`` and creates ``<home>/salt``. No error of this file contains any part of a key.
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
    """The key of the connection's environment, else of the home's file; empty if neither has one.

    Raises Environment ``key_unsafe`` if the file is not a regular file that only this user may access, if it holds no
    key, or if the home is in a repository or in ``project``; ``home_unusable`` if the home is not a directory.
    """
    if key := brought(env):
        return key
    path = home / FILE
    try:
        data = _private(path, KEY_MAX + 1)
    except FileNotFoundError:
        return ""
    if _comes_along(home, project):
        # The owner of the key pays and can read the prompts: a stranger's key must not be used as the user's.
        message = f"{path} is in a repository or project, so it may be another user's key"
        raise Environment("key_unsafe", message, f"set {VARIABLE}, or move the home", file=str(path))
    try:
        return _checked(data.decode("ascii").strip(), str(path))
    except UnicodeDecodeError:
        raise Environment("key_unsafe", f"{path} holds no key", "put the key alone into it", file=str(path)) from None


def brought(env: Mapping[str, str]) -> str:
    """The key of the connection's environment alone; empty if it has none. Raises ``key_unsafe`` as `key_of` does."""
    key = env.get(VARIABLE, "").strip()
    return _checked(key, VARIABLE) if key else ""


def fingerprint(home: Path, key: str) -> str:
    """The part of its key that a run keeps: HMAC-SHA256 with the home's salt, in hex; empty for an empty key.

    Raises Environment ``home_unusable``, ``io_failed``, ``disk_full``; ``key_unsafe`` for a salt others may read.
    """
    return hmac.new(_salt(home), key.encode(), hashlib.sha256).hexdigest() if key else ""


def _comes_along(home: Path, project: str) -> bool:
    """Whether the files of the home may have come with a clone or an archive; never for the default home."""
    real = Path(os.path.realpath(home))
    with contextlib.suppress(RuntimeError):
        if real == Path(os.path.realpath(Path(DEFAULT_HOME).expanduser())):
            return False
    if project and real.is_relative_to(os.path.realpath(project)):
        return True
    return any(os.path.lexists(place / ".git") for place in (real, *real.parents))


def _checked(key: str, where: str) -> str:
    # The key is sent as an HTTP header.
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
            file_stat = os.fstat(fd)
            if not stat.S_ISREG(file_stat.st_mode) or file_stat.st_uid != os.geteuid() or file_stat.st_mode & 0o077:
                raise Environment("key_unsafe", f"{path} is not yours alone", f"chmod 600 {path}", file=str(path))
            return file.read(limit)
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:
        raise Environment("home_unusable", f"{path.parent} is no directory", file=str(path.parent)) from error
    except OSError as error:
        raise Environment("key_unsafe", f"{path}: {error.strerror}", file=str(path)) from error


def _salt(home: Path) -> bytes:
    """The home's salt, created once; if two processes create it at the same time, the first salt is kept."""
    path = home / SALT
    with contextlib.suppress(FileNotFoundError):
        return _proven(path)
    prepare_home(home)
    # Synced under a temporary name first, so that the salt is never seen incomplete, also after a power cut.
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
        raise Environment(
            "key_unsafe", f"{path} is not a salt", "remove it; waiting runs will no longer recognize their key"
        )
    return salt
