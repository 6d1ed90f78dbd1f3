"""Seals: what the daemon wrote itself carries a MAC with the key of its directory's identity.

A seal is of one scope (project, kind, owner, log), so that nothing sealed serves in another place. Pure computing,
standard library only.
"""

from __future__ import annotations

import hmac
import json
from typing import Any

from orchestrator.trust.identity import Identity

KEY = "mac"
MAC_CHARS = 32


class Seal:
    """Makes and checks the MACs of one scope."""

    def __init__(self, identity: Identity, *scope: str) -> None:
        self._key = identity.key
        self._scope = "\0".join((identity.id, *scope)).encode(errors="surrogateescape") + b"\0"

    def mac(self, body: bytes) -> str:
        """The MAC of some bytes in this scope: HMAC-SHA-256, the first 128 bits, as 32 hex digits."""
        return hmac.digest(self._key, self._scope + body, "sha256")[: MAC_CHARS // 2].hex()

    def fits(self, body: bytes, mac: object) -> bool:
        """Whether that is the MAC of those bytes."""
        return isinstance(mac, str) and hmac.compare_digest(mac.encode(errors="replace"), self.mac(body).encode())

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
