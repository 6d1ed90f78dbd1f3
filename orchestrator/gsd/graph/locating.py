"""Which file a text means: an id, a path of this or another machine, or the end of one. Pure: no file is opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from unicodedata import normalize

from orchestrator.gsd.graph.foreign import posix
from orchestrator.gsd.graph.layers import Layers
from orchestrator.gsd.graph.protocol import Located, Node
from orchestrator.gsd.graph.slugs import (
    SCRIPT,
    clean,
    extension,
    has_ending,
    is_absolute,
    plain,
    readings,
    without_extension,
)
from orchestrator.gsd.graph.text_index import numbers
from orchestrator.gsd.graph.words import fold

MAX_CANDIDATES = 10
MAX_TEXT = 4_000


def locate(graph: Layers, text: str) -> Located:
    """The one file that the text means; else none, with at most ten paths that it could have meant.

    A text with a file's ending never means a file of another ending (but for ``x.js``, how TypeScript's ``x.ts`` is
    imported): asked for what it has not got, a graph must not speak of something else.
    """
    text = text.strip().strip("`\"'")
    if not text or len(text) > MAX_TEXT or "\0" in text:
        return Located(None)
    path = _relative(graph, text)
    # One machine composes an accented letter, the next takes it apart.
    forms = [path] if path.isascii() else [path, normalize("NFC", path), normalize("NFD", path)]
    for number in (*map(graph.at, forms), graph.named(text), graph.named(text.lower())):
        if number is not None:
            return Located(graph.node(number))
    wanted = path or posix(text).lstrip("/")
    if not path and ".." in wanted.split("/"):
        return Located(None)  # outside of the project, or relative to a place that nobody knows
    near: list[int] = []
    for reading in readings(wanted):
        number = graph.named(reading)
        if number is not None:
            if _fits(graph, number, wanted):
                return Located(graph.node(number))
            near.append(number)
    ends = _ending_in(graph, wanted)
    if len(ends) == 1:
        return Located(graph.node(ends[0]))
    found = list(dict.fromkeys([*near, *ends])) or _similar(graph, wanted)
    paths = [node.path for number in found if (node := graph.node(number)) is not None]
    return Located(None, tuple(paths[:MAX_CANDIDATES]))


def _relative(graph: Layers, text: str) -> str:
    """The text as a project-relative path: of one of the known roots, or the longest end of it that is a node."""
    if not is_absolute(text):
        return clean(text)
    path = posix(text)
    for root in graph.roots:
        if path.startswith(root):
            return clean(path[len(root) :])
    at = path.find("/")
    while at >= 0:
        if graph.at(path[at + 1 :]) is not None:
            return path[at + 1 :]
        at = path.find("/", at + 1)
    return ""


def _fits(graph: Layers, number: int, wanted: str) -> bool:
    """Whether the node of such a slug may be meant: a slug drops what many a path differs in."""
    node = graph.node(number)
    assert node is not None
    is_id = has_ending(wanted) and graph.named(without_extension(wanted).lower()) == number
    if "/" in wanted or not wanted.isascii() or (has_ending(wanted) and not is_id):
        stem, there = (f"/{fold(without_extension(each))}" for each in (wanted, node.path))
        if node.path != node.id and not (stem.endswith(there) or there.endswith(stem)):
            return False
        if node.path == node.id and not wanted.isascii():
            return False
    if not has_ending(wanted):
        return True
    asked, there = extension(wanted).lower(), extension(node.path).lower()
    return asked == there or not there or (asked in SCRIPT and there in SCRIPT)


def _ending_in(graph: Layers, wanted: str) -> list[int]:
    """The files whose path ends in the text, or else whose id does; more than one: it is ambiguous."""
    exact = f"/{wanted}"
    low = exact.lower()
    stem = without_extension(low)
    alike = list(_with(graph, [stem[1:]]))
    found = [number for number, node in alike if node.path.endswith(exact)]
    if found:
        return found
    if has_ending(wanted):
        scripts = tuple(stem + each for each in SCRIPT) if extension(low) in SCRIPT else ()
        return [number for number, node in alike if node.path.lower().endswith((low, *scripts))]
    tail = f"-{plain(wanted)}"
    if len(tail) < 2:
        return []
    return [number for number, node in _with(graph, tail.split("-")) if node.id.endswith(tail)]


def _similar(graph: Layers, wanted: str) -> list[int]:
    """Files that are called alike: the last name of the text lies in theirs."""
    name = without_extension(wanted.rstrip("/").rpartition("/")[2]).lower()
    if len(name) < 3:
        return []
    alike = (number for number, node in _with(graph, [name]) if name in fold(node.path.rpartition("/")[2]))
    return list(islice(alike, MAX_CANDIDATES))


def _with(graph: Layers, words: Iterable[str]) -> Iterator[tuple[int, Node]]:
    """The nodes whose path contains all of these words."""
    folded = [fold(word) for word in words if word]
    rows = -1
    for word in folded:
        rows &= graph.base.path_texts.matching(word)
    for number in numbers(rows) if folded else ():
        if number not in graph.touched:
            yield number, graph.base.nodes[number]
    for number in graph.touched:
        node = graph.node(number)
        if node is not None and all(word in fold(node.path) for word in folded):
            yield number, node
