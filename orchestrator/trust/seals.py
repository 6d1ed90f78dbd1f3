"""Seals: what the daemon wrote itself carries a MAC with the key of its directory's identity.

A seal is of one scope (project, kind, owner, log), so that nothing sealed serves in another place. Pure computing,
standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from itertools import islice
from typing import Any

from orchestrator.trust.accepted_logs import AcceptedPrefix, prefix_of
from orchestrator.trust.identity import DirectoryIdentity

KEY = "mac"
MAC_CHARS = 32


class Seal:
    """Makes and checks the MACs of one scope.

    The seal of a log that was taken over from another host also knows what was ``accepted`` of it. Those lines need
    no MAC once the log was found to begin with them: up to ``trusted_seq``, None while nobody has looked.
    """

    def __init__(self, identity: DirectoryIdentity, *scope: str, accepted: AcceptedPrefix | None = None) -> None:
        self.accepted = accepted
        self.trusted_seq: int | None = 0 if accepted is None else None
        self._begun = blake2b(key=identity.key, digest_size=MAC_CHARS // 2)
        self._begun.update("\0".join((identity.id, *scope)).encode(errors="surrogateescape") + b"\0")

    def mac(self, body: bytes) -> str:
        """The MAC of some bytes in this scope: keyed BLAKE2b (RFC 7693) of 128 bits, as 32 hex digits."""
        digest = self._begun.copy()
        digest.update(body)
        return digest.hexdigest()

    def fits(self, body: bytes, mac: object) -> bool:
        """Whether that is the MAC of those bytes."""
        return mac == self.mac(body)

    def accepts(self, seq: int) -> bool:
        """Whether the line of that seq may be one of those that were accepted instead of sealed."""
        return self.accepted is not None and seq <= self.accepted.seq

    def accepted_count(self, lines: Iterable[bytes]) -> int:
        """How many of a log's first lines, without newlines, need no MAC: exactly the accepted ones, or none."""
        if self.accepted is None or prefix_of(islice(lines, self.accepted.seq)) != self.accepted:
            return 0
        return self.accepted.seq

    def number(self, body: bytes) -> int:
        """The MAC of some bytes as a number of 63 bits, for a column of a database."""
        return int(self.mac(body)[:16], 16) >> 1

    def sealed(self, content: dict[str, Any]) -> dict[str, Any]:
        """The content of a JSON file with its MAC, under the key ``mac``; how it is laid out later does not count."""
        plain = {key: value for key, value in content.items() if key != KEY}
        return {**plain, KEY: self.mac(_canonical(plain))}

    def holds(self, content: Any) -> bool:
        """Whether the content of a JSON file is sealed in this scope."""
        if not isinstance(content, dict):
            return False
        plain = {key: value for key, value in content.items() if key != KEY}
        try:
            return self.fits(_canonical(plain), content.get(KEY))
        except (TypeError, ValueError, RecursionError):
            return False


def _canonical(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
