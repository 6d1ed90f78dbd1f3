"""Seals: what the daemon wrote itself carries a MAC with the key of its directory's identity.

A seal is of one scope (project, kind, owner, log), so that nothing sealed serves in another place. Pure computing,
standard library only.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

from orchestrator.trust.identity import DirectoryIdentity

KEY = "mac"
MAC_CHARS = 32


class Seal:
    """Makes and checks the MACs of one scope."""

    def __init__(self, identity: DirectoryIdentity, *scope: str) -> None:
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
