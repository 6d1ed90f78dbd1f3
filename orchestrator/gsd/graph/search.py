"""Ranking files for the words of a query by GSD's relevance score (A3). Pure.

Per keyword +10 if the path contains it, +15 if the purpose does, +5 for each export that does; then +3 for a file
that depends on one whose keywords alone score more than 10, +2 with more than 10 dependents, +3 more with more than
20. A file that no keyword matches is not found, whatever it depends on. Contains: anywhere, case ignored, as ``LIKE``
would. A plural that no file contains stands for its singular, so that no score of a word that is there changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from orchestrator.gsd.graph.layers import Layers
from orchestrator.gsd.graph.protocol import Hit, Node
from orchestrator.gsd.graph.text_index import Sums, bits, numbers
from orchestrator.gsd.graph.words import fold, singular

PATH, PURPOSE, EXPORT = 10, 15, 5
NEAR, OVER_10, OVER_20 = 3, 2, 3
WELL = 11
"""A file scoring so much, more than 10, lends `NEAR` to those that depend on it."""
_UNITE = 20_000
"""Up to so many dependents of well-scoring files are gathered at once; beyond, candidates are asked one by one."""


def search(graph: Layers, keywords: list[str], types: frozenset[str], limit: int) -> tuple[list[Hit], int]:
    """The best ``limit`` files for the keywords, best first, then by dependents and path; and how many match."""
    words = list(dict.fromkeys(_there(graph, word) for word in map(fold, keywords) if word))
    found = _Found(graph, words, types)
    best = sorted(
        [*found.changed(), *found.unchanged(limit)],
        key=lambda each: (-each[0], -len(graph.ins(each[1])), each[2].path),
    )[: max(0, limit)]
    hits = [Hit(node, score, len(graph.ins(number)), why(node, words)) for score, number, node in best]
    return hits, found.total


def own_score(node: Node, words: Iterable[str]) -> int:
    """What the keywords alone give to a file."""
    path, purpose = fold(node.path), fold(node.purpose)
    exports = [fold(name) for name in node.exports]
    return sum(
        PATH * (word in path) + PURPOSE * (word in purpose) + EXPORT * sum(word in name for name in exports)
        for word in words
    )


def why(node: Node, words: Iterable[str]) -> tuple[str, ...]:
    """What matched, a few words each: ``path: auth``, ``purpose: login``, ``exports: loginUser (login)``."""
    path, purpose = fold(node.path), fold(node.purpose)
    found = []
    for word in words:
        if word in path:
            found.append(f"path: {word}")
        if word in purpose:
            found.append(f"purpose: {word}")
        named = list(islice((name for name in node.exports if word in fold(name)), 4))
        if named:
            found.append(f"exports: {', '.join(named[:3])}{', …' if len(named) > 3 else ''} ({word})")
    return tuple(found)


def _there(graph: Layers, word: str) -> str:
    """The word, or its singular where the word itself stands nowhere."""
    other = singular(word)
    if other == word:
        return word
    base, count = graph.base, len(graph.base.nodes)
    in_path, in_purpose, in_exports = base.matching(word)
    rows = in_path | in_purpose
    for plane in in_exports:
        rows |= plane
    if rows & ~bits(count, ((number for number in graph.touched if number < count),)):
        return word
    changed = filter(None, map(graph.node, graph.touched))
    return word if any(own_score(node, [word]) for node in changed) else other


class _Found:
    """The matches of one query: those of the base as bits, those that have changed since one by one."""

    def __init__(self, graph: Layers, words: list[str], types: frozenset[str]) -> None:
        base = graph.base
        self._graph = graph
        self._types = types
        count = len(base.nodes)
        kept = (1 << count) - 1
        if graph.touched:
            kept ^= bits(count, ((number for number in graph.touched if number < count),))
        units = Sums()  # of 5 points
        for word in words:
            in_path, in_purpose, in_exports = base.matching(word)
            units.add(in_path, PATH // EXPORT)
            units.add(in_purpose, PURPOSE // EXPORT)
            for shift, rows in enumerate(in_exports):
                units.add(rows, 1 << shift)
        self._units = units
        self._scores: dict[int, tuple[int, Node]] = {}
        for number in graph.touched:
            node = graph.node(number)
            score = own_score(node, words) if node is not None else 0
            if node is not None and score:
                self._scores[number] = (score, node)
        self._well = units.at_least(-(-WELL // EXPORT)) & kept
        self._well_text = f"{self._well:b}"[::-1]
        self._well_touched = {number for number, (score, _) in self._scores.items() if score >= WELL}
        if types:
            kept &= sum(rows for name, rows in base.types.items() if name in types)
        self._matched = units.at_least(1) & kept
        self._near = self._near_rows()
        self.total = self._matched.bit_count() + sum(1 for _ in self.changed())

    def changed(self) -> Iterator[tuple[int, int, Node]]:
        """The matches among what has changed since the base was built."""
        for number, (score, node) in self._scores.items():
            if not self._types or node.type in self._types:
                dependents = len(self._graph.ins(number))
                hub = OVER_10 * (dependents > 10) + OVER_20 * (dependents > 20)
                yield score + hub + NEAR * self._is_near(number), number, node

    def unchanged(self, limit: int) -> Iterator[tuple[int, int, Node]]:
        """Of all others, at least the best ``limit``: groups of one score, the best first, in the order of ties."""
        sums = Sums()
        for shift, plane in enumerate(self._units.planes):
            sums.add(plane & self._matched, EXPORT << shift)
        base = self._graph.base
        sums.add(self._matched & ((1 << base.over_10) - 1), OVER_10)
        sums.add(self._matched & ((1 << base.over_20) - 1), OVER_20)
        if self._near is not None:
            sums.add(self._matched & self._near, NEAR)
        possible = NEAR if self._near is None else 0
        best: list[int] = []
        for score, rows in sums.descending(self._matched):
            best.sort(reverse=True)
            if len(best) >= limit and best[limit - 1] > score + possible:
                return
            plain = near = 0
            for row in numbers(rows):
                is_near = bool(possible) and self._is_near(row)
                if is_near or plain < limit:
                    plain += not is_near
                    near += is_near
                    best.append(score + NEAR * is_near)
                    yield best[-1], row, base.nodes[row]
                if near >= limit or (not possible and plain >= limit):
                    break

    def _near_rows(self) -> int | None:
        """The rows that depend on a well-scoring file, as bits; None where that would take too long to gather."""
        base = self._graph.base
        count = len(base.nodes)
        if not self._well and not self._well_touched:
            return 0
        if self._well.bit_count() > _UNITE:
            return None
        well = list(numbers(self._well))
        if sum(map(base.degrees.__getitem__, well)) > _UNITE:
            return None
        fresh = self._graph.new_ins
        ins = [fresh[number] if number in fresh else base.ins[number] for number in (*well, *self._well_touched)]
        if fresh:
            ins = [tuple(number for number in each if number < count) for each in ins]
        return bits(count, ins)

    def _is_near(self, number: int) -> bool:
        text, last = self._well_text, len(self._well_text)
        return any(
            (target < last and text[target] == "1") or target in self._well_touched
            for target in self._graph.outs(number)
        )
