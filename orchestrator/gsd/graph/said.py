"""What one source says of one file, before the sources are merged; and what reading a source gives. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from orchestrator.gsd.model import Trouble

SOURCES = ("graph.db", "entity", "index.json", "files.json", "index")
"""Where facts come from, the one that wins first (issue 7)."""
RANK: Mapping[str, int] = {source: rank for rank, source in enumerate(SOURCES)}
BY_PATH = frozenset({"index.json", "files.json", "index"})
"""Those that say by path what a file depends on; the others by name."""

MAX_PURPOSE = 4_000
MAX_NAME = 1_000  # characters of an id or a path
MAX_EXPORTS = 5_000  # of one file
MAX_TARGETS = 20_000  # of one file


class Said(NamedTuple):
    """What a source says of a file. ``path`` is project-relative, or ``""`` where the source names none.

    ``targets`` are what it depends on: paths where ``by_path``, else ids or links as written.
    """

    source: str
    id: str
    path: str
    purpose: str = ""
    type: str = ""
    exports: tuple[str, ...] = ()
    status: str = ""
    targets: tuple[str, ...] = ()
    by_path: bool = False


@dataclass
class Told:
    """What a source gave when it was read: its files by a key of its own, and what could not be read."""

    files: dict[str, Said] = field(default_factory=dict)
    troubles: list[Trouble] = field(default_factory=list)
    updated: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


def text(value: object, limit: int = MAX_NAME) -> str:
    """The value if it is a text, cut to the limit and made of characters that can be sent; ``""`` otherwise."""
    if not isinstance(value, str):
        return ""
    value = value.strip()[:limit]
    return value if value.isascii() else value.encode(errors="replace").decode()


def texts(value: object, limit: int) -> tuple[str, ...]:
    """The texts in a list, each once, in order; nothing where there is no list."""
    if not isinstance(value, list | tuple):
        return ()
    return tuple(dict.fromkeys(each for each in map(text, value[:limit]) if each))


def exports(value: object) -> tuple[str, ...]:
    """The exports in a list, without what the hook took for a name.

    That is ``async`` of ``export default async function`` (A2), and the first word of ``export { type X }``.
    """
    found = (each.removeprefix("type ").lstrip() for each in texts(value, MAX_EXPORTS) if each != "async")
    return tuple(dict.fromkeys(each for each in found if each))


def at_most(troubles: Iterable[Trouble], limit: int = 50) -> list[Trouble]:
    """The first of them, and one more that says how many were left out."""
    every = list(troubles)
    if len(every) <= limit:
        return every
    last = every[limit]
    return [*every[:limit], Trouble(last.file, 0, f"{len(every) - limit} more like these", last.kind)]
