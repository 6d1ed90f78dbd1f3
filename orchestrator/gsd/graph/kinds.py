"""Which files are critical and which are tests, by their paths alone (C22, B3.9). Pure."""

from __future__ import annotations

import re

_TEST = re.compile(
    r"\.(?:test|spec)\.|(?:^|/)(?:tests?|__tests__|spec)/|(?:^|/)(?:test_[^/]*|[^/]*_test|[^/]*_spec|conftest)\.[a-z]+$",
    re.IGNORECASE,
)


def is_critical(path: str) -> bool:
    """Whether the path names a service or an API: ``service`` or ``api`` anywhere in it (B3.9)."""
    low = path.lower()
    return "service" in low or "api" in low


def is_test(path: str) -> bool:
    """Whether the path is a test's: ``.test.``, ``.spec.`` (B3.9), and as Python, Go, Ruby and others name theirs."""
    return _TEST.search(path) is not None
