"""The merged code graph: files and who depends on whom, with where each edge was learned. Pure.

An edge goes from a file to what it depends on; its dependents are the sources of the edges that end in it (A2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

Via = str
"""Where an edge was learned: ``graph.db``, ``entity``, ``index.json``, ``files.json``, ``index`` (our own).

With ``+suffix`` behind it when its end was found by a unique suffix of the id, not by the id itself. An edge that
several sources know names them all: ``graph.db+suffix, index.json``.
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A file, or what an entity stands for. ``path`` is project-relative if it could be mapped, else as written."""

    id: str
    path: str
    purpose: str = ""
    type: str = "unknown"
    exports: tuple[str, ...] = ()
    status: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reached:
    """A file that depends on another, ``depth`` steps away, through ``through`` (the file one step nearer)."""

    node: Node
    depth: int
    via: Via
    through: str = ""


@dataclass(frozen=True, slots=True)
class Affected:
    """What `reach` finds, counted: for answers that show the first of very many.

    ``direct`` (depth 1) and ``transitive`` (deeper) are disjoint; ``nearest`` and ``farther`` are the first of each,
    by depth and path. ``critical`` and ``tests`` are the first paths of such files, with how many there are.
    """

    direct: int
    transitive: int
    nearest: tuple[Reached, ...] = ()
    farther: tuple[Reached, ...] = ()
    critical: tuple[str, ...] = ()
    critical_count: int = 0
    tests: tuple[str, ...] = ()
    tests_count: int = 0


@dataclass(frozen=True, slots=True)
class Hit:
    """A file that a search found; ``why`` names what matched (``path: auth``, ``purpose: login``)."""

    node: Node
    score: int
    dependents: int
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Located:
    """What a text that names a file stands for: one node, or None and what it could have meant."""

    node: Node | None
    candidates: tuple[str, ...] = ()


class Graph(Protocol):
    """What answers may ask of a code graph. Ids in arguments must be those of nodes; KeyError otherwise."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        """All nodes by id."""

    @property
    def edges(self) -> int:
        """How many edges there are between nodes."""

    @property
    def dangling(self) -> int:
        """How many edges end in nothing that is known."""

    def locate(self, text: str) -> Located:
        """The node of an id or a path (relative, absolute, or a unique end of one; any slug dialect)."""

    def dependents(self, node_id: str) -> Iterator[tuple[Node, Via]]:
        """The files that depend on it, one step away, itself left out."""

    def dependencies(self, node_id: str) -> Iterator[tuple[Node, Via]]:
        """The files it depends on, one step away, itself left out."""

    def dependents_count(self, node_id: str) -> int:
        """How many files depend on it, one step away."""

    def may_be_meant(self, node_id: str) -> bool:
        """Whether there is an edge by name that may end in it, or as well in another file of such a name."""

    def reach(self, node_id: str, max_depth: int) -> list[Reached]:
        """The files that depend on it within so many steps, each once at its least depth, by depth and path."""

    def affected(self, node_id: str, max_depth: int, limit: int) -> Affected:
        """What `reach` finds, counted, with the first ``limit`` of each kind."""

    def hotspots(self, limit: int) -> list[tuple[Node, int]]:
        """The files most others depend on, with how many; none that nobody depends on."""

    def search(self, keywords: Iterable[str], types: frozenset[str] = frozenset(), limit: int = 50) -> list[Hit]:
        """The best files for the keywords by A3's relevance score, best first, then by dependents and path.

        ``types``: only nodes of one of these types; empty: all.
        """

    def search_all(self, keywords: Iterable[str], types: frozenset[str], limit: int) -> tuple[list[Hit], int]:
        """Like `search`, and how many files there are that match."""

    @property
    def types(self) -> Mapping[str, int]:
        """The types there are, each with how many nodes have it."""
