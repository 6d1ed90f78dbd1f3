"""What of another host's logs was accepted here: per log the last seq and a digest, in the user's state directory.

Such lines carry the seal of the host that wrote them, which cannot be checked here. The digest takes its place: it is
stored when an agent is taken over, after the fence and what this host accepts were checked. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from orchestrator.trust import state_dir
from orchestrator.trust.identity import PROJECTS, DirectoryIdentity

ACCEPTED = "accepted"
LOGS = frozenset({"inbox", "outbox"})


class AcceptedPrefix(NamedTuple):
    """The accepted lines of a log: the first ``seq`` ones, and the digest of their bytes, each with its newline."""

    seq: int
    digest: str


class GrowingPrefix:
    """Makes the `AcceptedPrefix` of lines that come one after the other."""

    def __init__(self) -> None:
        self._seq = 0
        self._digest = blake2b(digest_size=32)

    def add(self, line: bytes) -> None:
        """Add the next line, given without its newline."""
        self._digest.update(line)
        self._digest.update(b"\n")
        self._seq += 1

    @property
    def prefix(self) -> AcceptedPrefix:
        """The prefix that ends with the last added line."""
        return AcceptedPrefix(self._seq, self._digest.hexdigest())


def prefix_of(lines: Iterable[bytes]) -> AcceptedPrefix:
    """The prefix that consists of these lines, given without their newlines."""
    growing = GrowingPrefix()
    for line in lines:
        growing.add(line)
    return growing.prefix


def stored(identity: DirectoryIdentity, scope: tuple[str, ...]) -> AcceptedPrefix | None:
    """What was accepted of the log with that scope; None if nothing was, as for every log of an own agent."""
    path = _path(identity, scope)
    if path is None:
        return None
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        content = json.loads(state_dir.read(path) or b"null")
        seq, digest = content["seq"], content["digest"]
        if content["v"] == 1 and type(seq) is int and seq > 0 and isinstance(digest, str):
            return AcceptedPrefix(seq, digest)
    return None


def store(identity: DirectoryIdentity, agent_id: str, log: str, prefix: AcceptedPrefix) -> None:
    """Accept that beginning of the agent's log instead of any earlier one; an empty one accepts nothing.

    Only for a takeover. Raises ``StateDirUnsafe`` and ``OSError``.
    """
    state_dir.private_dir(PROJECTS, identity.id, ACCEPTED)
    path = _path(identity, ("agent", agent_id, log))
    assert path is not None, "only an agent's logs are taken over"
    if prefix.seq:
        state_dir.write(path, json.dumps({"v": 1, **prefix._asdict()}).encode())
    else:
        path.unlink(missing_ok=True)


def forget(identity: DirectoryIdentity, agent_id: str) -> None:
    """Drop what was accepted of an agent whose data has been removed; raises ``OSError``."""
    for log in LOGS:
        path = _path(identity, ("agent", agent_id, log))
        assert path is not None
        path.unlink(missing_ok=True)


def _path(identity: DirectoryIdentity, scope: tuple[str, ...]) -> Path | None:
    match scope:
        case ("agent", agent_id, log) if log in LOGS:
            return identity.place / ACCEPTED / f"{agent_id}.{log}.json"
    return None
