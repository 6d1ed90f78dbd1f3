"""The code graph as answers ask for it: who depends on what, how far a change reaches, what a word finds. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import islice
from typing import Self

from orchestrator.gsd.graph import locating, search
from orchestrator.gsd.graph.layers import Base, Layers
from orchestrator.gsd.graph.protocol import Affected, Hit, Located, Node, Reached, Via
from orchestrator.gsd.graph.reach import Reaching, levels_of
from orchestrator.gsd.graph.said import BY_PATH
from orchestrator.gsd.graph.slugs import slug, tails

_KEPT = 100  # answers about one file come in twos and threes: blast radius, check before an edit, entity
_WIDE = 12  # a twelfth of all nodes: so many are put in order by going through all paths, not by sorting theirs


class CodeGraph(Layers):
    """A `protocol.Graph`."""

    def __init__(self, base: Base, vias: list[Via], roots: Sequence[str] = ()) -> None:
        """Take a base with nothing changed."""
        super().__init__(base, vias, roots)
        self._reaching = Reaching()
        self._asked: dict[tuple[int, int, int], Affected] = {}  # what was asked for lately

    def draft(self) -> Self:
        """The next graph; what was found out about this one does not hold for it."""
        made = super().draft()
        made._reaching = Reaching()  # noqa: SLF001  (its own class)
        made._asked = {}  # noqa: SLF001
        return made

    # -- graph.Graph -------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Mapping[str, Node]:
        """All nodes by id."""
        return _ById(self)

    @property
    def edges(self) -> int:
        """How many edges there are between nodes."""
        return self.edge_count

    @property
    def dangling(self) -> int:
        """How many edges end in nothing that is known."""
        return self.dangling_count

    @property
    def types(self) -> Mapping[str, int]:
        """The types there are, each with how many nodes have it."""
        found = Counter({name: rows.bit_count() for name, rows in self.base.types.items()})
        for number, node in self.changed.items():
            if number < len(self.base.nodes):
                found[self.base.nodes[number].type] -= 1
            if node is not None:
                found[node.type] += 1
        return {name: count for name, count in sorted(found.items()) if count > 0}

    def locate(self, text: str) -> Located:
        """The node of an id or a path (relative, absolute, or a unique end of one; any slug dialect)."""
        return locating.locate(self, text)

    def dependents(self, node_id: str) -> Iterator[tuple[Node, Via]]:
        """The files that depend on it, one step away, by path."""
        number = self._number(node_id)
        for source in self._in_order(self.ins(number), self.total):
            yield self.known(source), self._via(source, number)

    def dependencies(self, node_id: str) -> Iterator[tuple[Node, Via]]:
        """The files it depends on, one step away, by path."""
        number = self._number(node_id)
        for target in self._in_order(self.outs(number), self.total):
            yield self.known(target), self._via(number, target)

    def dependents_count(self, node_id: str) -> int:
        """How many files depend on it, one step away."""
        return len(self.ins(self._number(node_id)))

    def may_be_meant(self, node_id: str) -> bool:
        """Whether there is an edge by name that may end in it, or as well in another file of such a name."""
        number = self._number(node_id)
        name = slug(self.known(number).path)
        if not self.unclear.isdisjoint((*tails(node_id), *tails(name))):
            return True
        other = self.named(name)
        if other is None or other == number:
            return False
        # Two files of one slug, say a.ts and a.py: a link of this name was given to the one of them.
        return any(not BY_PATH.issuperset(self._via(source, other).split(", ")) for source in self.ins(other))

    def reach(self, node_id: str, max_depth: int) -> list[Reached]:
        """The files that depend on it within so many steps, each once at its least depth, by depth and path."""
        levels = levels_of(self, self._number(node_id), max_depth)
        return [
            reached for depth in range(1, len(levels)) for reached in self._shown(levels, depth, len(levels[depth]))
        ]

    def affected(self, node_id: str, max_depth: int, limit: int) -> Affected:
        """What `reach` finds, counted, with the first ``limit`` of each kind."""
        asked = (self._number(node_id), max_depth, limit)
        found = self._asked.get(asked)
        if found is None:
            found = self._affected(*asked)
            if len(self._asked) >= _KEPT:  # the dear ones stay, unless they are most
                kept = {
                    key: old for key, old in list(self._asked.items()) if self._is_wide(old.direct + old.transitive)
                }
                self._asked = kept if len(kept) < _KEPT // 2 else {}
            self._asked[asked] = found
        return found

    def _affected(self, start: int, max_depth: int, limit: int) -> Affected:
        found = self._reaching.reach(self, start, max_depth, limit)
        levels = found.levels
        direct = len(levels[1]) if len(levels) > 1 else 0
        nearest = self._shown(levels, 1, limit) if direct else []
        farther: list[Reached] = []
        for depth in range(2, len(levels)):
            if len(farther) < limit:
                farther += self._shown(levels, depth, limit - len(farther))
        return Affected(
            direct, found.count - direct, tuple(nearest), tuple(farther),
            tuple(self.known(number).path for number in self._in_order(found.critical, limit)), len(found.critical),
            tuple(self.known(number).path for number in self._in_order(found.tests, limit)), len(found.tests),
        )  # fmt: skip

    def hotspots(self, limit: int) -> list[tuple[Node, int]]:
        """The files most others depend on, with how many, then by path; none that nobody depends on."""
        found = [number for number in self.touched if self.node(number) is not None and self.ins(number)]
        room = limit
        for number, ins in enumerate(self.base.ins):
            if not ins or not room:
                break
            if number not in self.touched:
                found.append(number)
                room -= 1
        best = sorted(found, key=lambda number: (-len(self.ins(number)), self.known(number).path))
        return [(self.known(number), len(self.ins(number))) for number in best[: max(0, limit)]]

    def search(self, keywords: Iterable[str], types: frozenset[str] = frozenset(), limit: int = 50) -> list[Hit]:
        """The best files for the keywords by A3's relevance score, best first, then by dependents and path."""
        return self.search_all(keywords, types, limit)[0]

    def search_all(self, keywords: Iterable[str], types: frozenset[str], limit: int) -> tuple[list[Hit], int]:
        """Like `search`, and how many files there are that match."""
        return search.search(self, list(keywords), types, limit)

    # -- steps -------------------------------------------------------------------------------------------------------

    def _shown(self, levels: list[set[int]], depth: int, limit: int) -> list[Reached]:
        nearer = levels[depth - 1]
        found = []
        for number in self._in_order(levels[depth], limit):
            through = min((each for each in self.outs(number) if each in nearer), key=lambda at: self.known(at).path)
            step = self.known(through).path if depth > 1 else ""
            found.append(Reached(self.known(number), depth, self._via(number, through), step))
        return found

    def _in_order(self, numbers: Collection[int], limit: int) -> list[int]:
        """The first ``limit`` of them by path."""
        count = len(self.base.nodes)
        if self._is_wide(len(numbers)) and isinstance(numbers, set):
            found = list(islice((number for number in self.base.by_path if number in numbers), limit))
        else:
            plain = [number for number in numbers if number < count] if self.total > count else numbers
            ranks = nsmallest(limit, map(self.base.path_rank.__getitem__, plain))
            found = list(map(self.base.by_path.__getitem__, ranks))
        if self.total > count:
            found += [number for number in numbers if number >= count]
            found.sort(key=lambda number: self.known(number).path)
        return found[:limit]

    def _is_wide(self, many: int) -> bool:
        return many * _WIDE > len(self.base.nodes)

    def _via(self, source: int, target: int) -> Via:
        kinds = self.new_kinds.get(source)
        kinds = self.base.kinds[source] if kinds is None else kinds
        return self.vias[kinds[self.outs(source).index(target)]]

    def _number(self, node_id: str) -> int:
        number = self.named(node_id)
        node = None if number is None else self.node(number)
        if number is None or node is None or node.id != node_id:
            raise KeyError(node_id)
        return number


class _ById(Mapping[str, Node]):
    def __init__(self, graph: CodeGraph) -> None:
        self._graph = graph

    def __getitem__(self, node_id: str) -> Node:
        return self._graph.known(self._graph._number(node_id))  # noqa: SLF001  (the same file)

    def __iter__(self) -> Iterator[str]:
        return (node.id for _, node in self._graph.every())

    def __len__(self) -> int:
        return self._graph.alive
