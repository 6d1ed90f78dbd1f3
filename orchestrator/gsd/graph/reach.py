"""How far a change reaches: level by level, or at once by what is known of the files most others depend on. Pure.

Where files depend on each other in circles, whatever reaches far comes to the few that very many depend on, the hubs,
and one step or two later to all that depends on them, the core. It is known how near a file is to a hub: once a walk,
still narrow, is near enough to each, all of the core is reached, and what is left to walk lies beside it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from heapq import nlargest
from itertools import chain, compress, islice, repeat
from operator import not_

from orchestrator.gsd.graph.kinds import is_critical, is_test
from orchestrator.gsd.graph.layers import Layers, Numbers

DEEPEST = 10
"""A core of files farther apart than that is none: questions hardly go farther."""
_HUBS = 8
_NEAR = 4  # so many steps before a hub it is known who comes to it
_WIDE = 20  # a twentieth of all nodes: who has seen more would be answered sooner by the core


@dataclass(frozen=True, slots=True)
class Reach:
    """What depends on a node, itself left out: how many there are, and which of them are critical or tests.

    ``levels`` are the numbers at each depth, from 0 (the node itself) on, no empty one; the farthest may be missing,
    and of the last one given some nodes.
    """

    levels: list[set[int]]
    count: int
    critical: set[int]
    tests: set[int]


@dataclass(frozen=True, slots=True)
class _Core:
    """Some hubs with all that depend on them, which is no more than ``depth`` steps from the nearest of them.

    ``nearby`` are for each hub the nodes that are within 0, 1, ... steps before it. No hubs: there is no core.
    """

    nearby: list[list[set[int]]]
    depth: int = 0
    members: set[int] = field(default_factory=set)
    critical: set[int] = field(default_factory=set)
    tests: set[int] = field(default_factory=set)

    def within(self, levels: list[set[int]], max_depth: int) -> bool:
        """Whether so many steps reach all of it: whether each hub is reached ``depth`` steps before the last."""
        steps = max_depth - self.depth
        return bool(self.nearby) and all(
            any(
                not level.isdisjoint(near[min(steps - at, len(near) - 1)])
                for at, level in enumerate(levels[: max(0, steps + 1)])
            )
            for near in self.nearby
        )


class Reaching:
    """What is learned of one state of a graph while it is asked; threads may share it, and at worst both learn it."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._core: _Core | None = None
        self._asked = False

    def reach(self, graph: Layers, start: int, max_depth: int, limit: int) -> Reach:
        """What depends on a node within some steps.

        Of its levels depth 1 is whole; of those beyond it has at least the first ``limit`` by depth and path.
        """
        walk = _Walk(graph, {start})
        core = self._core
        whole = wide = False  # whether all of the core is reached; whether so much is seen that it should be known
        beyond = 0
        ahead: set[int] = set()
        while walk.depth < max_depth:
            if not wide and sum(map(len, walk.levels)) * _WIDE > graph.total:
                wide = True
                core = core or self._learned(graph)
            whole = whole or (core is not None and core.within(walk.levels, max_depth))
            if whole and walk.depth > 0:
                ahead = walk.ahead(limit - beyond)
                if beyond >= limit or ahead:
                    break
            if not walk.step():
                break
            if walk.depth > 1:
                beyond += len(walk.levels[-1])
        if core is not None and whole:
            found = _through(core, graph, walk, max_depth)
            return replace(found, levels=[*found.levels, ahead]) if ahead else found
        return walk.reached()

    def _learned(self, graph: Layers) -> _Core | None:
        """The core. It costs about a walk, so the first who would need it does without: often there is no second."""
        if self._asked:
            self._core = _core(graph)
        self._asked = True
        return self._core


def levels_of(graph: Layers, start: int, max_depth: int) -> list[set[int]]:
    """What depends on a node within some steps, at each depth from 0 (the node itself) on, no empty one."""
    walk = _Walk(graph, {start})
    while walk.depth < max_depth and walk.step():
        pass
    return walk.levels


class _Walk:
    """From some nodes to those that depend on them, one level with each step.

    Followed are the edges into the last level, or those out of the nodes not seen yet, of whichever there are fewer:
    it is soon found whether any edge out of one ends in a wide level. From there on it is kept what is left to see.
    """

    def __init__(self, graph: Layers, start: set[int]) -> None:
        self._graph = graph
        self.levels = [start]
        self._seen = start.copy()
        self._left: list[int] | None = None

    @property
    def depth(self) -> int:
        """How many steps were taken."""
        return len(self.levels) - 1

    def step(self) -> bool:
        """Take one more; False where it would lead nowhere."""
        nearer = self.levels[-1]
        if self._left is None and len(nearer) >= self._graph.total - len(self._seen):
            self._left = [number for number in range(self._graph.total) if number not in self._seen]
        if self._left is None:
            found = _towards(self._graph, nearer)
            found -= self._seen
            self._seen |= found
        elif len(nearer) < len(self._left):
            found = _towards(self._graph, nearer).intersection(self._left)
            self._left = [number for number in self._left if number not in found]
        else:
            apart = _apart(self._graph, self._left, nearer)
            found = set(compress(self._left, map(not_, apart)))
            self._left = list(compress(self._left, apart))
        if found:
            self.levels.append(found)
        return bool(found)

    def ahead(self, limit: int) -> set[int]:
        """Of the next level so many, the first by path, if the last is so wide that they are soon met; else none."""
        base, nearer, found = self._graph.base, self.levels[-1], set[int]()
        if limit > 0 and self._left is None and len(nearer) * _WIDE > self._graph.total:
            unseen = (number for number in base.by_path if number not in self._seen)
            outs = self._graph.outs
            found.update(islice((number for number in unseen if not nearer.isdisjoint(outs(number))), limit))
            if len(found) < limit:
                return set()
            fresh = set(range(len(base.nodes), self._graph.total)) - self._seen
            found.update(number for number in fresh if not nearer.isdisjoint(outs(number)))
        return found

    def seen(self) -> set[int]:
        """The nodes of all levels."""
        return self._seen if self._left is None else set(range(self._graph.total)).difference(self._left)

    def reached(self) -> Reach:
        """All that was found from one node; of what is left, where that is known, it is soon told what it leaves."""
        if self._left is None:
            count, (critical, tests) = len(self._seen), _marked(self._graph, self._seen)
        else:
            count, base = self._graph.total - len(self._left), self._graph.base
            fresh = set(range(len(base.nodes), self._graph.total)).difference(self._left)
            critical, tests = _marked(self._graph, fresh)
            critical |= base.critical.difference(self._left)
            tests |= base.tests.difference(self._left)
        return Reach(self.levels, count - 1, critical - self.levels[0], tests - self.levels[0])


def _core(graph: Layers) -> _Core:
    """The core around the file most others depend on: further hubs are those that surely depend on it themselves."""
    count = min(_HUBS, graph.total)
    most = nlargest(count, {*range(count), *graph.touched}, key=lambda number: len(graph.ins(number)))
    first = {most[0], *graph.ins(most[0])}
    enough = len(first) // 4
    nearby = {number: _nearby(graph, number) for number in most if len(graph.ins(number)) >= enough}
    nearby = {number: near for number, near in nearby.items() if not near[-1].isdisjoint(first)}
    walk = _Walk(graph, set(nearby))
    while walk.step():
        if walk.depth > DEEPEST:
            return _Core([])
    members = walk.seen()
    return _Core(list(nearby.values()), walk.depth, members, *_marked(graph, members))


def _nearby(graph: Layers, hub: int) -> list[set[int]]:
    """The nodes from which it is within 0, 1, ... steps to the hub, as long as they are few."""
    found = [{hub}]
    while len(found) <= _NEAR and len(found[-1]) * _WIDE <= graph.total:
        found.append(found[-1].union(*map(graph.outs, found[-1])))
    return found


def _through(core: _Core, graph: Layers, walk: _Walk, max_depth: int) -> Reach:
    """What is reached by a walk that comes to the hubs in time: the core, and what is found beside it.

    Whatever depends on one of the core is of the core itself: a way to what is beside it never leads through it.
    """
    beside = walk.seen() - core.members
    last = walk.levels[-1] - core.members
    for _ in range(walk.depth, max_depth):
        if not last:
            break
        last = _towards(graph, last) - core.members
        last -= beside
        beside |= last
    (start,) = walk.levels[0]
    critical, tests = _marked(graph, beside)
    critical |= core.critical
    tests |= core.tests
    critical.discard(start)
    tests.discard(start)
    return Reach(walk.levels, len(core.members) + len(beside) - 1, critical, tests)


def _towards(graph: Layers, nearer: set[int]) -> set[int]:
    """The dependents of some nodes, by their edges in."""
    new = graph.new_ins
    plain = nearer.difference(new) if new else nearer
    found: set[int] = set().union(*map(graph.base.ins.__getitem__, plain))
    if len(plain) < len(nearer):
        found.update(*(new[number] for number in nearer.intersection(new)))
    return found


def _apart(graph: Layers, some: list[int], level: set[int]) -> list[bool]:
    """Of each of some nodes, in order of their numbers, whether it depends on none of a level."""
    known = some[: bisect_left(some, len(graph.base.nodes))]
    outs: Iterable[Numbers] = map(graph.base.outs.__getitem__, known)
    if graph.new_outs:
        outs = map(graph.new_outs.get, some, chain(outs, repeat(())))
    return list(map(level.isdisjoint, outs))


def _marked(graph: Layers, some: set[int]) -> tuple[set[int], set[int]]:
    """Those of some nodes whose paths make them critical, and tests: a path never changes while its number lives."""
    count = len(graph.base.nodes)
    critical, tests = some & graph.base.critical, some & graph.base.tests
    if graph.total > count:
        fresh = [(number, graph.known(number).path) for number in some if number >= count]
        critical.update(number for number, path in fresh if is_critical(path))
        tests.update(number for number, path in fresh if is_test(path))
    return critical, tests
