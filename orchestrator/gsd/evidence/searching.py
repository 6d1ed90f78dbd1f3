"""Searches the source for the words of a sentence: places that have most, and tests that say it. Reads only."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from orchestrator.gsd.ranked.ranking import Sentence, covered, sentences, stems
from orchestrator.gsd.sources.cases import Case, cases
from orchestrator.gsd.sources.code import Text, is_aside, is_test, stem, words
from orchestrator.gsd.sources.text import Source

NEAR_LINES = 15
"""Words within so many lines below each other stand in one place."""
TEST_COVERS = 0.6
"""A test is evidence if its name has so much of the question's stems, at least two of them."""
_MOST = 200
_GENERIC = "user person people someone everyone system app application able allow work support"


@dataclass(frozen=True)
class Place:
    """Where code has words of the question: the line with most of them, and the part that its surroundings have.

    ``part`` counts all but comments; ``acted`` only what the program does: no strings of several words, no text
    between tags, nothing in examples and mocks.
    """

    text: Text
    line: int
    part: float
    acted: float


@dataclass(frozen=True)
class Tested:
    """A test whose name says what was asked, and how much of it."""

    text: Text
    case: Case
    part: float


@dataclass(frozen=True)
class Hits:
    """What a search found, the best first."""

    places: tuple[Place, ...]
    tests: tuple[Tested, ...]


def search(source: Source, question: str, first: list[str], limit: int = 5, demanded: Collection[str] = ()) -> Hits:
    """The places in code and the tests that have the question's words.

    ``first``: files to read before the others; ``demanded``: files that count as the product's even if they are
    tests, since a plan has them made. Words are compared by stem (porter) at the beginnings of identifiers' words;
    comments do not count.
    """
    (asked,) = sentences([question])
    asked = telling(asked)
    if not asked.stems:
        return Hits((), ())
    # A stem like "notifi" is not the beginning of "notify": one letter less is.
    heads = [word[: max(3, len(word) - 1)] for word in asked.stems]
    need = max(1, round(len(heads) * 0.5))
    places: list[Place] = []
    tests: list[tuple[Text, Case]] = []
    for text in source.texts(first):
        low = text.lowered
        if sum(1 for head in heads if head in low) < need:
            continue
        if is_test(text.path) or text.path.endswith(".rs"):
            tests += [(text, case) for case in cases(text)][:2000]
        if not is_test(text.path) or text.path in demanded:
            said = _best(text.code, heads)
            acted = None if is_aside(text.path) else _best(text.acting, heads)
            best = acted if acted and said and acted[1] >= said[1] else said
            if best is not None:
                places.append(Place(text, best[0], best[1], acted[1] if acted else 0.0))
    order = {path: index for index, path in enumerate(first)}
    places.sort(key=lambda one: (-one.acted, -one.part, order.get(one.text.path, len(order)), one.text.path))
    return Hits(tuple(places[:limit]), tuple(_saying(asked, tests)[:limit]))


def saying(question: str, tests: list[tuple[Text, Case]]) -> list[Tested]:
    """Those of some tests whose names say what is asked, the best first."""
    (asked,) = sentences([question])
    return _saying(telling(asked), tests)


def telling(sentence: Sentence) -> Sentence:
    """The sentence without the words that any sentence about a product may have; as it was if nothing is left."""
    kept = tuple(word for word in sentence.stems if word not in stems(_GENERIC))
    return replace(sentence, stems=kept) if kept else sentence


def _best(code: str, heads: list[str]) -> tuple[int, float] | None:
    """The window of lines that has most of the words: in it the line with most, and the part of them it has."""
    hits: list[tuple[int, frozenset[int]]] = []
    for number, line in enumerate(code.split("\n"), 1):
        low = line.lower()
        if any(head in low for head in heads):
            own = words(line[:2000])
            found = frozenset(i for i, head in enumerate(heads) if any(word.startswith(head) for word in own))
            if found:
                hits.append((number, found))
                if len(hits) >= _MOST:
                    break
    best: tuple[int, int, int] | None = None
    for index, (number, found) in enumerate(hits):
        seen = set(found)
        top = (len(found), number)
        for after, more in hits[index + 1 :]:
            if after - number > NEAR_LINES:
                break
            seen |= more
            if len(more) > top[0]:
                top = (len(more), after)
        if best is None or (len(seen), top[0]) > best[:2]:
            best = (len(seen), top[0], top[1])
    return (best[2], best[0] / len(heads)) if best else None


def _saying(asked: Sentence, tests: list[tuple[Text, Case]]) -> list[Tested]:
    known = sentences([f"{stem(text.path)} {case.description}" for text, case in tests])
    found = []
    for (text, case), sentence in zip(tests, known, strict=True):
        part = covered(asked, sentence)
        if (
            sentence.numbers <= asked.numbers
            and part >= TEST_COVERS
            and part * len(asked.stems) >= min(2, len(asked.stems))
        ):
            found.append(Tested(text, case, part))
    found.sort(key=lambda one: (one.case.skipped or one.case.hollow, -one.part, one.text.path, one.case.line))
    return found
