"""The tokens of the web pages, and the one-time codes for another device: made here, kept as hashes in memory only.

No I/O: a token that was forgotten cannot be read from any file, and ends with the process.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Literal, NamedTuple

Scope = Literal["read", "approve"]
"""``read``: may look at everything; ``approve``: may also answer what waits for a human."""
TOKEN_BYTES = 32
CODE_LENGTH = 10
CODE_ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
"""No character that looks like another one."""
CODE_S = 600.0
CODE_TRIES = 5


class _OneTimeCode(NamedTuple):
    digest: bytes
    scope: Scope
    until: float


class AccessTokens:
    """Who may come in: each token has a scope. A code can be exchanged for a token once, and soon."""

    def __init__(self) -> None:
        self._scopes: dict[bytes, Scope] = {}
        self._code: _OneTimeCode | None = None
        self._tries = 0

    def issue(self, scope: Scope) -> str:
        """A new token of 256 random bits; only its hash is kept."""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        self._scopes[_digest(token)] = scope
        return token

    def scope_of(self, token: str) -> Scope | None:
        """What the token allows; None if it is none of ours."""
        # The hash of a guess says nothing about how near it was, so its comparison needs no constant time.
        return self._scopes.get(_digest(token))

    def issue_code(self, scope: Scope, now: float) -> str:
        """A new one-time code in place of the previous one, for ``CODE_S`` seconds and ``CODE_TRIES`` tries."""
        code = "".join(secrets.choice(CODE_ALPHABET) for _ in range(CODE_LENGTH))
        self._code, self._tries = _OneTimeCode(_digest(code), scope, now + CODE_S), 0
        return code

    def exchange(self, code: str, now: float) -> str | None:
        """A new token for the code, which is void from then on; None if it is wrong, late or used."""
        if self._code is None:
            return None
        self._tries += 1
        typed = code.upper().replace("-", "").replace(" ", "")
        right = secrets.compare_digest(self._code.digest, _digest(typed)) and now < self._code.until
        scope = self._code.scope
        if right or self._tries >= CODE_TRIES or now >= self._code.until:
            self._code = None
        return self.issue(scope) if right else None


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
