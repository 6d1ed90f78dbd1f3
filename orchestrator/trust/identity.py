"""The identity of a directory of team data: made with it, stored in it and in the user's state directory.

The content of a directory counts only on the machine where it was made. The identity's key signs what the daemon
writes, so that a file from ``git pull`` or ``tar`` is not mistaken for ours. Standard library only: the launch stub
uses it.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.base.platform import file_births
from orchestrator.trust import state_dir
from orchestrator.trust.state_dir import StateDirUnsafe

FILE = "identity.json"
"""The identity's name in the directory that it identifies."""
PROJECTS = "projects"
_ID = re.compile(r"[0-9a-f]{32}")
KEY_BYTES = 32


class DirectoryIdentity(NamedTuple):
    """A directory that was made here: its random id, its key, and the place of its facts in the state directory."""

    id: str
    key: bytes
    place: Path


class Birth(NamedTuple):
    """What distinguishes a directory from a copy; the device number does not count: it changes with a reboot."""

    inode: int
    born_ns: int | None  # None where the file system does not tell

    def same(self, other: Birth) -> bool:
        """Whether both are of one directory, as far as both are known."""
        known = self.born_ns is not None and other.born_ns is not None
        return self.inode == other.inode and (not known or self.born_ns == other.born_ns)


def recognize(directory: Path) -> DirectoryIdentity | None:
    """The identity of the directory if it was given here; None for one that came from elsewhere, or has none.

    A directory that was moved is recognized (same inode), a copied or restored one is not.
    """
    claimed = _claimed(directory)
    if claimed is None:
        return None
    try:
        base = state_dir.state_dir()
        place = base / PROJECTS / claimed
        for step in (base, base / PROJECTS, place):
            state_dir.check(step, step.lstat())
        birth = birth_of(directory)
    except (OSError, StateDirUnsafe):
        return None
    facts, key = _json(state_dir.read(place / FILE)), key_of(claimed)
    if key is None or not isinstance(facts, dict) or facts.get("id") != claimed:
        return None
    inode, born = facts.get("inode"), facts.get("born_ns")
    if not isinstance(inode, int) or not (born is None or isinstance(born, int)):
        return None
    return DirectoryIdentity(claimed, key, place) if Birth(inode, born).same(birth) else None


def establish(directory: Path) -> DirectoryIdentity:
    """The identity of the directory; a new one if it has none from this machine.

    Raises ``StateDirUnsafe`` and ``OSError``. A crash leaves at most an unused entry.
    """
    identity = recognize(directory)
    if identity is not None:
        return identity
    new_id = secrets.token_hex(16)
    place = state_dir.private_dir(PROJECTS, new_id)
    key = secrets.token_bytes(KEY_BYTES)
    birth = birth_of(directory)
    facts = {
        "v": 1,
        "id": new_id,
        "inode": birth.inode,
        "born_ns": birth.born_ns,
        "path": os.fsencode(directory).hex(),
    }
    state_dir.write(place / "key", key.hex().encode())
    state_dir.write(place / FILE, json.dumps(facts).encode())
    state_dir.write(directory / FILE, json.dumps({"v": 1, "id": new_id}).encode() + b"\n")
    return DirectoryIdentity(new_id, key, place)


def key_of(identity: str) -> bytes | None:
    """The key of an identity made here; None when there is none."""
    if not _ID.fullmatch(identity):
        return None
    with suppress(StateDirUnsafe, ValueError):
        text = state_dir.read(state_dir.state_dir() / PROJECTS / identity / "key", 4096)
        key = bytes.fromhex((text or b"").decode())
        return key if len(key) == KEY_BYTES else None
    return None


def birth_of(directory: Path) -> Birth:
    """Inode and birth time of a directory; raises ``OSError``."""
    directory_stat = directory.lstat()
    return Birth(directory_stat.st_ino, file_births.born_ns(directory))


def _claimed(directory: Path) -> str | None:
    # Not private: a project may be shared, and the file is no secret. Only its form is insisted on.
    with suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
        fd = os.open(directory / FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            claimed = json.loads(os.read(fd, 4096))["id"]
        finally:
            os.close(fd)
        if isinstance(claimed, str) and _ID.fullmatch(claimed):
            return claimed
    return None


def _json(data: bytes | None) -> Any:
    with suppress(ValueError, RecursionError):
        return json.loads(data or b"null")
    return None
