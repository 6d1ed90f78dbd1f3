"""The one source of random bytes for names, secrets and cursors, which a simulation replaces with a seeded one.

What must not be guessed is made from it too: by default it is `secrets`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

_source: Callable[[int], bytes] = secrets.token_bytes


def token_hex(count: int) -> str:
    """``count`` random bytes as hexadecimal digits."""
    return _source(count).hex()


def uuid4() -> str:
    """A random UUID."""
    return str(UUID(bytes=_source(16), version=4))


@contextmanager
def replaced(source: Callable[[int], bytes]) -> Iterator[None]:
    """Take the bytes from ``source`` meanwhile; for tests alone."""
    global _source  # noqa: PLW0603 - one source of the process is what this module is
    before, _source = _source, source
    try:
        yield
    finally:
        _source = before
