"""Merging what the sources say into one graph, and keeping it merged while they change. Pure.

One file is one node: by its path, else by its id. Each field comes from the first source that has it, in the order of
`said.SOURCES`; exports from all of them. An edge's end is found by the exact id, by the path it names, by what the
file itself imports under that name, by a neighbour so called in the same directory, or by a suffix that one node has
alone (A2); an end that fits several, or none, dangles.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cache

from orchestrator.gsd.graph.codegraph import CodeGraph
from orchestrator.gsd.graph.ends import Ends, Rough
from orchestrator.gsd.graph.kinds import is_test
from orchestrator.gsd.graph.layers import Base
from orchestrator.gsd.graph.protocol import Node
from orchestrator.gsd.graph.said import RANK, SOURCES, Said
from orchestrator.gsd.graph.slugs import SCRIPT, extension, plain, slug

Change = tuple[str, str, Said | None]
"""Source, the source's key of the file, what it says of it now (None: nothing more)."""
_LARGE = 10_000
MOST_CHANGED = 10_000
"""Of so many changed nodes the graph is built anew: a search looks at each of them."""


class Merging:
    """The sources and the graph they make. For one thread at a time; graphs it has given out are not touched."""

    def __init__(self) -> None:
        """Begin with no source."""
        self._files: dict[str, dict[str, Said]] = {source: {} for source in SOURCES}
        self._roots: dict[str, Sequence[str]] = {}
        self._vias: list[str] = []
        self._clear()
        self.graph = self._build()

    def replace(self, source: str, files: Mapping[str, Said], roots: Sequence[str] = ()) -> CodeGraph:
        """All that a source says now."""
        before = self._files[source]
        changes: list[Change] = [(source, key, each) for key, each in files.items() if before.get(key) != each]
        changes += [(source, key, None) for key in before if key not in files]
        self.know_roots(source, roots)
        return self.change(changes)

    def know_roots(self, source: str, roots: Sequence[str]) -> None:
        """Where the project's root lay on the machines that wrote a source's paths."""
        if list(self._roots.get(source, ())) != list(roots):
            self._roots[source] = list(roots)
            draft = self.graph.draft()
            draft.roots = self._all_roots()
            self.graph = draft

    def said(self, source: str) -> int:
        """Of how many files a source says something."""
        return len(self._files[source])

    def called(self, node_id: str, source: str) -> list[str]:
        """What a source calls the node of an id, or of another name."""
        number = self.graph.named(node_id.lower())
        return [each.id for each in self._members.get(-1 if number is None else number, ()) if each.source == source]

    def change(self, changes: Sequence[Change]) -> CodeGraph:
        """Some files of which the sources say something else now; the graph with that, whole."""
        changes = [each for each in changes if self._files[each[0]].get(each[1]) != each[2]]
        if not changes:
            return self.graph
        few = len(changes) <= min(MOST_CHANGED, max(20, self.graph.total // 10))
        applied = few and self._apply(changes)
        if not applied:
            for source, key, now in changes:
                self._put(source, key, now)
            self.graph = self._build()
        return self.graph

    def _put(self, source: str, key: str, now: Said | None) -> None:
        if now is None:
            self._files[source].pop(key, None)
        else:
            self._files[source][key] = now

    def _all_roots(self) -> list[str]:
        return list(dict.fromkeys(root for source in SOURCES for root in self._roots.get(source, ())))

    def _clear(self) -> None:
        self._members: dict[int, tuple[Said, ...]] = {}  # by the node's number, in order of sources
        self._ends = Ends(self._vias)
        self._pathless: set[str] = set()  # ids, and their slugs, of what is said without a path
        self._contested: set[str] = set()  # names that several nodes lay claim to

    # -- all at once -------------------------------------------------------------------------------------------------

    def _build(self) -> CodeGraph:
        collecting = gc.isenabled()
        gc.disable()  # millions of objects are made, none of them garbage
        try:
            graph = self._built()
        finally:
            if collecting:
                gc.enable()
        if graph.total > _LARGE:
            gc.freeze()  # nor will they make any: without this, every full collection would go over all of them
        return graph

    def _built(self) -> CodeGraph:
        self._clear()
        homes, names, groups = self._grouped()
        nodes = [_node(home, groups[home], node_id) for home, node_id in homes.items()]
        self._members = dict(enumerate(groups.values()))
        return self._ordered(nodes, names, self._ends.of(Rough(nodes, names), self._members))

    def _grouped(self) -> tuple[dict[str, str], dict[str, int], dict[str, tuple[Said, ...]]]:
        """The nodes' homes (path, or NUL and id) with their ids, all names, and what is said of each."""
        groups: dict[str, tuple[Said, ...]] = {}
        claims: dict[str, str] = {}
        loose: list[Said] = []
        for source in SOURCES:
            for each in self._files[source].values():
                if each.path:
                    found = groups.get(each.path)
                    groups[each.path] = (each,) if found is None else (*found, each)
                    if each.id and claims.setdefault(each.id.lower(), each.path) != each.path:
                        self._contested.add(each.id.lower())
                elif each.id:
                    loose.append(each)
        homes, names = self._ids(groups, claims)
        order = list(homes)
        for each in loose:
            low = each.id.lower()
            self._pathless |= {low, plain(low)}
            number = names.get(low, names.get(plain(low)))
            home = claims.get(low) or (f"\0{low}" if number is None else order[number])
            found = groups.get(home, ())
            groups[home] = tuple(sorted((*found, each), key=lambda one: RANK[one.source]))
            if home not in homes:
                names[self._free(low, "", names.get)] = len(order)
                order.append(home)
                homes[home] = low
        numbers = {home: number for number, home in enumerate(homes)}
        for home in homes:
            for each in groups[home]:
                if each.id and names.setdefault(each.id.lower(), numbers[home]) != numbers[home]:
                    self._contested.add(each.id.lower())
        return homes, names, {home: groups[home] for home in homes}

    def _ids(self, groups: Iterable[str], claims: Mapping[str, str]) -> tuple[dict[str, str], dict[str, int]]:
        """An id for each path: its slug; for a second of one slug with its ending (``a-py``), then a number."""
        homes: dict[str, str] = {}
        names: dict[str, int] = {}
        for number, path in enumerate(sorted(groups, key=lambda path: _first(path, claims))):
            homes[path] = self._free(slug(path), path, names.get)
            names[homes[path]] = number
        return homes, names

    def _free(self, wanted: str, path: str, taken: Callable[[str], int | None]) -> str:
        """An id that nobody has; those that others have are contested from now on: who comes first gets them."""
        wanted = wanted or "file"
        if taken(wanted) is None:
            return wanted
        self._contested.add(wanted)
        if ending := extension(path):
            wanted = f"{wanted}-{ending[1:].lower()}"
        found, times = wanted, 1
        while taken(found) is not None:
            self._contested.add(found)
            times += 1
            found = f"{wanted}-{times}"
        return found

    def _ordered(self, nodes: list[Node], names: dict[str, int], ends: dict[int, list[tuple[int, int]]]) -> CodeGraph:
        """The graph with its nodes in the order of hotspots; everything that holds numbers is told the new ones."""
        count = len(nodes)
        degree = [0] * count
        for found in ends.values():
            for target, _ in found:
                degree[target] += 1
        order = sorted(range(count), key=lambda number: (-degree[number], nodes[number].path))
        numbers = list(range(count))  # one object for each number, shared by all edges
        new = [0] * count
        for number, old in zip(numbers, order, strict=True):
            new[old] = number
        ins: list[list[int]] = [[] for _ in order]
        outs: list[tuple[int, ...]] = []
        kinds: list[bytes] = []
        one: dict[bytes, bytes] = {}
        for number, old in zip(numbers, order, strict=True):
            found = ends[old]
            outs.append(tuple(numbers[new[target]] for target, _ in found))
            kind = bytes(via for _, via in found)
            kinds.append(one.setdefault(kind, kind))
            for target in outs[-1]:
                ins[target].append(number)
        for name, old in names.items():
            names[name] = numbers[new[old]]
        self._members = {new[old]: each for old, each in self._members.items()}
        self._ends.renumber(new)
        graph = CodeGraph(
            Base([nodes[old] for old in order], outs, kinds, [tuple(each) for each in ins], names),
            self._vias, self._all_roots(),
        )  # fmt: skip
        graph.set_dangling(self._ends.dangling, self._ends.unclear)
        return graph

    # -- a few at a time ---------------------------------------------------------------------------------------------

    def _apply(self, changes: Sequence[Change]) -> bool:
        """Make the next graph out of this one; False, with nothing done, where only building it anew is right."""
        pairs = [(self._files[source].get(key), now) for source, key, now in changes]
        changed = {each.path for pair in pairs for each in pair if each is not None}
        if any(self._moves(before, now, changed) for before, now in pairs):
            return False
        draft = self.graph.draft()
        edited: dict[str, list[Said]] = {}
        for source, key, now in changes:
            before = self._files[source].get(key)
            for each, gone in ((before, True), (now, False)):
                if each is None:
                    continue
                home = each.path or self._home(draft, each.id)
                if home not in edited:
                    number = draft.at(home)
                    edited[home] = [] if number is None else list(self._members[number])
                if not gone:
                    edited[home].append(each)
                elif each in edited[home]:
                    edited[home].remove(each)
                else:
                    return False  # an id that several call their own: it had gone to another
        for source, key, now in changes:
            self._put(source, key, now)
        again: set[int] = set()
        claims = {each.id.lower(): path for path, said in edited.items() for each in said if each.id}
        for path in sorted(edited, key=lambda path: _first(path, claims)):
            said = edited[path]
            again |= self._edit(draft, path, sorted(said, key=lambda one: RANK[one.source]))
        said_again = {number: self._members[number] for number in again if draft.node(number) is not None}
        for number, found in self._ends.of(draft, said_again).items():
            draft.set_outs(number, found)
        draft.set_dangling(self._ends.dangling, self._ends.unclear)
        if len(draft.touched) > max(MOST_CHANGED, draft.total // 5):
            self.graph = self._build()
        else:
            self.graph = draft
        return True

    def _moves(self, before: Said | None, now: Said | None, changed: Container[str]) -> bool:
        """Whether the change could make one node of two or two of one, through names beyond its path."""
        if before is not None and now is not None and (before.id, before.path) == (now.id, now.path):
            return False
        for each in (before, now):
            if each is None:
                continue
            low = each.id.lower()
            if not each.path or low in self._contested or low in self._pathless or slug(each.path) in self._pathless:
                return True
            called = self.graph.named(low) if low else None
            if called is not None and self.graph.known(called).path != each.path:
                return True
            if self._takes_id(each.path, changed):
                return True
        return False

    def _takes_id(self, path: str, changed: Container[str]) -> bool:
        """Whether a file that comes or goes changes the id of another: who comes first by `_first` has it."""
        wanted, number = slug(path) or "file", self.graph.at(path)
        if number is not None:
            return wanted in self._contested or self.graph.known(number).id in self._contested
        holder = self.graph.named(wanted)
        if holder is None:
            return False
        node = self.graph.known(holder)
        claims = {each.id.lower(): node.path for each in self._members[holder]}
        return node.id != wanted or node.path in changed or _first(path, claims) < _first(node.path, claims)

    def _home(self, graph: CodeGraph, node_id: str) -> str:
        """The path of the node to which what is said without one was given; `_moves` has seen that it stays there."""
        low = node_id.lower()
        number = graph.named(low)
        number = graph.named(plain(low)) if number is None else number
        node = None if number is None else graph.node(number)
        assert node is not None, "what was said has a node"
        return node.path

    def _edit(self, draft: CodeGraph, path: str, said: list[Said]) -> set[int]:
        """Put what is said of a path now into the draft; the nodes whose edges must be looked at again."""
        number = draft.at(path)
        before = None if number is None else draft.node(number)
        node_id = before.id if before is not None else self._free(slug(path), path, draft.named)
        if number is None or before is None:
            number = draft.put(None, path, _node(path, said, node_id))
        old = {node_id, *(each.id.lower() for each in self._members.get(number, ()) if each.id)} if before else set()
        names = {node_id, *(each.id.lower() for each in said if each.id)} if said else set()
        again = {number} if said else set()
        for name in old - names:
            if draft.named(name) == number:
                draft.new_names[name] = None
        for name in names - old:
            if draft.named(name) is None:
                draft.new_names[name] = number
            else:
                self._contested.add(name)
        if old != names:
            again |= set(draft.ins(number)) | self._ends.concerned(old ^ names, path)
        if said:
            self._members[number] = tuple(said)
            draft.put(number, path, _node(path, said, node_id))
        else:
            self._members.pop(number, None)
            self._ends.forget(number)
            draft.remove(number, path)
        return again


def _node(home: str, said: Sequence[Said], node_id: str) -> Node:
    """The node of a home. Where no source knows its type, that it is a test is told by its path."""
    known = (each.type for each in said if each.type and each.type != "unknown")
    return Node(
        node_id,
        home if home[0] != "\0" else node_id,
        next((each.purpose for each in said if each.purpose), ""),
        next(known, "test" if is_test(home) else "unknown"),
        _exports(said),
        next((each.status for each in said if each.status), ""),
        _one(tuple(dict.fromkeys(each.source for each in said))),
    )


def _exports(said: Sequence[Said]) -> tuple[str, ...]:
    """What any source says that a file exports, the first one's first: entities often name only the main one."""
    every = [each.exports for each in said if each.exports]
    if len(every) < 2:
        return every[0] if every else ()
    merged = tuple(dict.fromkeys(name for names in every for name in names))
    return every[0] if len(merged) == len(every[0]) else merged


@cache
def _one(sources: tuple[str, ...]) -> tuple[str, ...]:
    return sources  # one object for all nodes that have the same


def _first(path: str, claims: Mapping[str, str]) -> tuple[bool, bool, str]:
    """Who of one slug has it: whom a source calls so, then a script, as GSD would have it, then by path."""
    return (claims.get(slug(path)) != path, extension(path) not in SCRIPT, path)
