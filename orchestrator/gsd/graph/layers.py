"""The merged code graph as numbers: a compact base, and over it what has changed since it was built. Pure.

A graph is never changed once it is given out: a change makes the next one, which shares the base, so a reader sees
one state however long it reads. Nodes have numbers; those of the base are in the order of hotspots (most dependents
first, then by path), which makes the lowest number the one that wins a tie.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Self

from orchestrator.gsd.graph.kinds import is_critical, is_test
from orchestrator.gsd.graph.protocol import Node, Via
from orchestrator.gsd.graph.text_index import Names, Runs, bits
from orchestrator.gsd.graph.words import fold

Numbers = tuple[int, ...]
KEPT = 200
"""Of so many words what they match is kept: some 40 KB each for 100,000 files."""


class Base:
    """The graph as it was built; nothing of it changes.

    ``outs[i]`` are what node ``i`` depends on, ``kinds[i]`` the number of each edge's via; ``ins[i]`` its dependents.
    ``names`` are the nodes' ids and all others by which a source calls them.
    """

    def __init__(
        self, nodes: list[Node], outs: list[Numbers], kinds: list[bytes], ins: list[Numbers], names: dict[str, int]
    ) -> None:
        """Take nodes and edges already in the order of hotspots."""
        self.nodes = nodes
        self.outs = outs
        self.kinds = kinds
        self.ins = ins
        self.names = names
        count = len(nodes)
        self.paths = {node.path: number for number, node in enumerate(nodes)}
        self.by_path = array("I", sorted(range(count), key=lambda number: nodes[number].path))
        self.path_rank = array("I", bytes(4 * count))
        for rank, number in enumerate(self.by_path):
            self.path_rank[number] = rank
        self.critical = frozenset(number for number, node in enumerate(nodes) if is_critical(node.path))
        self.tests = frozenset(number for number, node in enumerate(nodes) if is_test(node.path))
        of_type: dict[str, list[int]] = {}
        for number, node in enumerate(nodes):
            of_type.setdefault(node.type, []).append(number)
        self.types = {name: bits(count, (rows,)) for name, rows in of_type.items()}
        self.over_10 = sum(1 for each in ins if len(each) > 10)
        self.over_20 = sum(1 for each in ins if len(each) > 20)
        self.degrees = array("I", map(len, ins))
        self.path_texts = Runs([node.path for node in nodes], fold)
        self.purposes = Runs([node.purpose for node in nodes], fold)
        self.exports = Names([node.exports for node in nodes], fold)
        self._matched: dict[str, tuple[int, int, list[int]]] = {}

    def matching(self, word: str) -> tuple[int, int, list[int]]:
        """The rows whose path, and whose purpose, contain a folded word, as bits; and the counts of such exports.

        What was found is kept for the next query: words come again, and nothing here changes.
        """
        found = self._matched.get(word)
        if found is None:
            if len(self._matched) >= KEPT:
                self._matched.clear()
            found = (self.path_texts.matching(word), self.purposes.matching(word), self.exports.counts(word))
            self._matched[word] = found
        return found


class Layers:
    """The base and what has changed since. Whoever drafts the next one is `merging`, alone."""

    def __init__(self, base: Base, vias: list[Via], roots: Sequence[str] = ()) -> None:
        """Take a base with nothing changed. ``vias``: what the numbers of vias mean, only ever appended to."""
        self.base = base
        self.vias = vias
        self.roots = roots  # where the project's root lay on the machines that wrote its paths
        self.total = len(base.nodes)  # numbers given out
        self.alive = self.total
        self.changed: dict[int, Node | None] = {}
        self.new_outs: dict[int, Numbers] = {}
        self.new_kinds: dict[int, bytes] = {}
        self.new_ins: dict[int, Numbers] = {}
        self.new_names: dict[str, int | None] = {}
        self.new_paths: dict[str, int | None] = {}
        self.touched: set[int] = set()
        self.edge_count = sum(map(len, base.outs))
        self.dangling_count = 0
        self.unclear: frozenset[str] = frozenset()

    def draft(self) -> Self:
        """The next graph, to be changed by `merging` before it is given out; the same base below it."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        for name in ("changed", "new_outs", "new_kinds", "new_ins", "new_names", "new_paths", "touched"):
            setattr(made, name, getattr(self, name).copy())
        return made

    # -- by number ---------------------------------------------------------------------------------------------------

    def node(self, number: int) -> Node | None:
        """The node of a number; None once it is gone."""
        if number in self.changed:
            return self.changed[number]
        return self.base.nodes[number]

    def outs(self, number: int) -> Numbers:
        """What it depends on."""
        found = self.new_outs.get(number)
        return self.base.outs[number] if found is None else found

    def ins(self, number: int) -> Numbers:
        """What depends on it."""
        found = self.new_ins.get(number)
        return self.base.ins[number] if found is None else found

    def named(self, name: str) -> int | None:
        """The number of the node that a source calls so."""
        return self.new_names[name] if name in self.new_names else self.base.names.get(name)

    def at(self, path: str) -> int | None:
        """The number of the node of a path."""
        return self.new_paths[path] if path in self.new_paths else self.base.paths.get(path)

    def every(self) -> Iterator[tuple[int, Node]]:
        """All nodes with their numbers."""
        for number in range(self.total):
            node = self.node(number)
            if node is not None:
                yield number, node

    def all_names(self) -> Iterator[tuple[str, int]]:
        """Whatever a node is called, with its number."""
        for name, number in self.base.names.items():
            if name not in self.new_names:
                yield name, number
        for name, changed in self.new_names.items():
            if changed is not None:
                yield name, changed

    def known(self, number: int) -> Node:
        """The node of a number that an edge ends at."""
        node = self.node(number)
        assert node is not None, "an edge ends at a node that is gone"
        return node

    # -- drafting, before it is given out ----------------------------------------------------------------------------

    def put(self, number: int | None, path: str, node: Node) -> int:
        """What a node says now; its number, a new one where it had none."""
        if number is None:
            number = self.total
            self.total += 1
            self.alive += 1
            self.new_outs[number], self.new_kinds[number], self.new_ins[number] = (), b"", ()
        self.changed[number] = node
        self.new_paths[path] = number
        self.touched.add(number)
        return number

    def remove(self, number: int, path: str) -> None:
        """Take a node away; whoever depended on it must be told what it depends on now."""
        self.set_outs(number, [])
        self.changed[number] = None
        self.new_paths[path] = None
        self.alive -= 1
        self.touched.add(number)

    def set_outs(self, number: int, ends: Sequence[tuple[int, int]]) -> None:
        """What a node depends on now, each with the number of its via."""
        before, now = self.outs(number), tuple(end for end, _ in ends)
        for end in set(before).difference(now):
            left = list(self.ins(end))
            left.remove(number)
            self.new_ins[end] = tuple(left)
            self.touched.add(end)
        for end in set(now).difference(before):
            self.new_ins[end] = (*self.ins(end), number)
            self.touched.add(end)
        self.new_outs[number], self.new_kinds[number] = now, bytes(via for _, via in ends)
        self.edge_count += len(now) - len(before)
        self.touched.add(number)

    def set_dangling(self, count: int, unclear: frozenset[str]) -> None:
        """How many edges end in nothing that is known, and the ends of ids that name several nodes."""
        self.dangling_count, self.unclear = count, unclear
