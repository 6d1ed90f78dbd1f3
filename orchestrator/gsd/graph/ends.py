"""Finding the node in which an edge ends: by exact id, by path, beside the file, or by a suffix of one alone. Pure.

Keeps in mind what was looked for by name, so that it can be told whose edges a new name, or one that goes, changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from posixpath import basename, dirname, join, normpath
from typing import Protocol

from orchestrator.gsd.graph.protocol import Node, Via
from orchestrator.gsd.graph.said import RANK, Said
from orchestrator.gsd.graph.slugs import SCRIPT, extension, plain, readings, slug, tails, without_extension
from orchestrator.gsd.graph.words import fold

End = tuple[int, int]
"""The number of a node, and of how it is known that an edge ends there."""
_AMBIGUOUS, _UNKNOWN = -1, -2
_PLAIN = SCRIPT | {""}
_FEW = 40
_SIGNS = re.compile(r"[\W_]+")
_ANYWHERE = frozenset({"index", "index-md", "init", "mod"})
"""Names that a file may have in any directory: that one lies beside does not tell that it is meant."""


class _Imports:
    """What a file imports by path: the nodes, and the names of those of which nothing is known.

    A link of such a name means that file, and no other that is called alike.
    """

    def __init__(self) -> None:
        self.met: set[int] = set()
        self.unmet: set[str] = set()
        self.unclear: set[str] = set()  # names of links that fit several nodes


class Known(Protocol):
    """What ends are looked for among: a graph, or the nodes it is being made of."""

    def node(self, number: int) -> Node | None:
        """The node of a number."""

    def named(self, name: str) -> int | None:
        """The number of the node that is called so."""

    def at(self, path: str) -> int | None:
        """The number of the node of a path."""

    def all_names(self) -> Iterable[tuple[str, int]]:
        """Whatever a node is called, with its number."""


class Rough:
    """Nodes by number before there is a graph."""

    def __init__(self, nodes: Sequence[Node], names: Mapping[str, int]) -> None:
        """Take the nodes and what they are called."""
        self._names = names
        self.node = nodes.__getitem__
        self.named = names.get
        self.at = {node.path: number for number, node in enumerate(nodes)}.get

    def all_names(self) -> Iterable[tuple[str, int]]:
        """Whatever a node is called, with its number."""
        return self._names.items()


class Ends:
    """What has been found out about the ends of edges. ``vias`` are what the numbers of vias mean."""

    def __init__(self, vias: list[Via]) -> None:
        """Begin with nothing known; ``vias`` is appended to."""
        self.vias = vias
        self._via_numbers = {via: number for number, via in enumerate(vias)}
        self._wanted: dict[str, set[int]] = {}  # who looks for what, beyond exact names
        self._suffixes: dict[str, int] = {}  # what a suffix means: a number, ambiguous, unknown
        self._missing: set[str] = set()  # suffixes of which that is not known yet
        self._dangling: dict[int, int] = {}
        self._unclear: dict[int, set[str]] = {}

    @property
    def dangling(self) -> int:
        """How many edges end in nothing that is known."""
        return sum(self._dangling.values())

    @property
    def unclear(self) -> frozenset[str]:
        """The ends of ids by which links name several nodes, so that each of those may be meant."""
        return frozenset().union(*self._unclear.values())

    def of(self, known: Known, said: Mapping[int, Sequence[Said]]) -> dict[int, list[End]]:
        """The ends of the edges of some nodes, by what is said of each."""
        ends = {number: self._resolved(known, number, each) for number, each in said.items()}
        if self._missing:
            again = {number for word in self._missing for number in self._wanted.get(word, ())}
            self._learn(known)
            ends |= {number: self._resolved(known, number, said[number]) for number in again if number in said}
        return ends

    def concerned(self, names: Iterable[str], path: str) -> set[int]:
        """Those whose edges may end elsewhere now that a node takes or gives up these names, or its path."""
        found = set(self._wanted.get(f"/{path}", ()))
        for name in names:
            for word in (name, *tails(name)):
                self._suffixes.pop(word, None)
                found |= self._wanted.get(word, set())
        return found

    def forget(self, number: int) -> None:
        """A node that is gone."""
        self._dangling.pop(number, None)
        self._unclear.pop(number, None)

    def renumber(self, new: Sequence[int]) -> None:
        """The nodes have other numbers now."""
        self._dangling = {new[old]: times for old, times in self._dangling.items()}
        self._unclear = {new[old]: words for old, words in self._unclear.items()}
        self._wanted = {word: {new[old] for old in who} for word, who in self._wanted.items()}
        self._suffixes = {word: new[old] if old >= 0 else old for word, old in self._suffixes.items()}

    def _resolved(self, known: Known, number: int, said: Sequence[Said]) -> list[End]:
        found: dict[int, dict[str, bool]] = {}
        lost: set[str] = set()
        imports = _Imports()
        for each in sorted(said, key=_by_path_first):
            for target in each.targets:
                end, by_suffix = known.at(target) if each.by_path else None, False
                if end is None and each.by_path:
                    end = self._by_path(known, number, target)
                elif end is None:
                    end, by_suffix = self._by_name(known, number, target, imports)
                    if end is not None and not target.isascii() and not _spelled(known.node(end), target):
                        end = None
                if end is None:
                    if each.by_path:
                        imports.unmet.add(slug(basename(target)))
                        lost.add(slug(target))
                    elif imports.unmet.isdisjoint(readings(target)):  # else it is counted already
                        lost.add(plain(target))
                elif end != number:
                    if each.by_path:
                        imports.met.add(end)
                    ways = found.setdefault(end, {})
                    ways[each.source] = ways.get(each.source, True) and by_suffix
        if lost:
            self._dangling[number] = len(lost)
        else:
            self._dangling.pop(number, None)
        if imports.unclear:
            self._unclear[number] = imports.unclear
        else:
            self._unclear.pop(number, None)
        return [(end, self._via(ways)) for end, ways in found.items()]

    def _by_path(self, known: Known, number: int, target: str) -> int | None:
        """The node of a path that is not there as it is written: ``x.js`` or ``x`` for ``x.ts``."""
        name = slug(target)
        for word in (name, f"/{target}"):
            self._wanted.setdefault(word, set()).add(number)
        end = known.named(name)
        node = None if end is None else known.node(end)
        if node is None or extension(target) not in _PLAIN or extension(node.path) not in SCRIPT:
            return None
        return end if without_extension(node.path) == without_extension(target) else None

    def _by_name(self, known: Known, number: int, target: str, imports: _Imports) -> tuple[int | None, bool]:
        """The node that a link means, and whether only the end of its id told."""
        end = known.named(target.lower())
        if end is not None:
            return end, False
        node = known.node(number)
        at = dirname(node.path) if node is not None else ""
        exact = list(dict.fromkeys(word for word in readings(target) if word))
        if target.startswith(("./", "../")):
            joined = slug(normpath(join(at, target)))
            exact = [joined, f"{joined}-index", *exact]
        beside = [f"{plain(at)}-{word}" for word in exact if word not in _ANYWHERE] if at else []
        for word in (*exact, *beside):
            self._wanted.setdefault(word, set()).add(number)
        for word in exact:
            if (end := known.named(word)) is not None:
                return end, False
        for word in beside:
            if (end := known.named(word)) is not None:
                return end, True
        ends = {end for end in imports.met for word in exact if _ends_in(known.node(end), word)}
        if len(ends) == 1:
            return ends.pop(), True
        for word in exact if imports.unmet.isdisjoint(exact) else ():
            meant = self._suffixes.get(word)
            if meant is None:
                self._missing.add(word)
            elif meant >= 0:
                return meant, True
            elif meant == _AMBIGUOUS:
                imports.unclear.add(word)
        return None, False

    def _learn(self, known: Known) -> None:
        """Find out what the missing suffixes mean, all in one go over the names."""
        missing, self._missing = self._missing, set()
        found: dict[str, int] = {}
        few = tuple(f"-{word}" for word in missing) if len(missing) <= _FEW else ()
        for name, end in known.all_names():
            if few and not name.endswith(few):
                continue
            for tail in tails(name):
                if tail in missing and found.setdefault(tail, end) != end:
                    found[tail] = _AMBIGUOUS
        for word in missing:
            self._suffixes[word] = found.get(word, _UNKNOWN)

    def _via(self, ways: dict[str, bool]) -> int:
        if len(ways) == 1:
            ((source, by_suffix),) = ways.items()
            if not by_suffix and source in self._via_numbers:
                return self._via_numbers[source]
        names = sorted(ways, key=RANK.__getitem__)
        via = ", ".join(f"{source}+suffix" if ways[source] else source for source in names)
        number = self._via_numbers.get(via)
        if number is None:
            number = self._via_numbers[via] = len(self.vias)
            self.vias.append(via)
        return number


def _ends_in(node: Node | None, word: str) -> bool:
    """Whether the node's id ends in the word; the directory's name stands for its index."""
    return node is not None and node.id.endswith((f"-{word}", f"-{word}-index"))


def _spelled(node: Node | None, target: str) -> bool:
    """Whether the node's path or id ends in a name that is not ASCII: its slug has lost what tells it from others."""
    wanted = _SIGNS.sub("-", fold(without_extension(target))).strip("-")
    names = (node.id, _SIGNS.sub("-", fold(without_extension(node.path))).strip("-")) if node is not None else ()
    return any(f"-{name}".endswith(f"-{wanted}") for name in names)


def _by_path_first(said: Said) -> bool:
    return not said.by_path
