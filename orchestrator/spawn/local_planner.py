"""The local splitter: a task's text into parts, and which part waits for which (A4). Pure.

It replaces the Smart Spawn API's splitter, with the same rules, tried in this order until one gives two parts:

1. a numbered list (``1.`` or ``1)``), 2. bullets (``-``, ``*``, ``•``): only items with the least indent count, and
the text before the first is an introduction, not a part; 3. words that give an order: ``then``, ``after that``,
``afterwards``, ``lastly``, and, where a clause begins, ``next`` and ``finally``; not the ``then`` of ``if … then`` or
``since then``; 4. semicolons; 5. paragraphs between blank lines.

Code between backticks is never split. Numbers and words that give an order mean that parts follow each other. Other
parts are ordered by phase (design, set up, build, connect, test, release) and, within a phase, by the kind of thing
they are about (schema, api, component, config, test, docs): the later part waits for the earlier.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.spawn.run_data import RunBudget, RunRequest

Category = Literal["coding", "reasoning", "creative", "research", "general", "fast-cheap", "vision"]

PLAN_PARTS = 50
SWARM_PARTS = 200
ANSWER_COUNTS = (2, 5)
"""Fewest and most answers of a collective."""

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.DOTALL)
_NUMBER = re.compile(r"^([ \t]*)\d{1,4}[.)][ \t]+", re.MULTILINE)
_BULLET = re.compile(r"^([ \t]*)[-*\u2022][ \t]+", re.MULTILINE)
_ORDER = re.compile(
    r"(?:\band[ \t]+)?\b(?:then|after that|afterwards|lastly)\b,?"
    r"|(?:\A|(?<=[,;.:!?\n])|\band\b)[ \t]*(?:and[ \t]+)?\b(?:next|finally)\b,?(?=[ \t])",
    re.IGNORECASE,
)
_NO_ORDER = re.compile(
    r"\b(?:if|when|whenever|unless|once)\b[^.!?;\n]*\Z|\b(?:since|until|till|by|even|just|now and)[ \t]+\Z",
    re.IGNORECASE,
)
_SENTENCE = 200
"""How many characters before a ``then`` are searched for its ``if``."""
_PARAGRAPH = re.compile(r"\n(?:[ \t\r]*\n)+")
_FIRST = re.compile(r"\A(?:first|second|third)(?:ly)?,[ \t]*", re.IGNORECASE)
_JOINED = re.compile(r"\s(?:and|or|but)\Z", re.IGNORECASE)
_BETWEEN = " \t\r\n,;:"

_KEYWORDS: dict[Category, str] = {
    "coding": "code coding program debug fix implement refactor typescript python javascript rust golang java sql "
    "api endpoint function class test bug compile build deploy docker git schema database db review",
    "reasoning": "reason analyze analyse analysis think logic math calculate prove deduce evaluate compare decision "
    "decide strategy plan architecture design",
    "creative": "creative write story poem essay blog content marketing copy brainstorm idea name slogan narrative "
    "fiction script",
    "research": "research search find investigate survey summarize summarise report literature paper study document "
    "look_up learn_about",
    "fast-cheap": "quick fast cheap simple brief short classify label tag extract parse format convert",
    "vision": "image picture photo screenshot diagram chart visual look_at ocr",
}
_CHEAPER = "simple quick boilerplate trivial basic straightforward easy"
_DEARER = "critical complex architecture security performance optimize optimise core"
_PHASES = (
    "design plan architect architecture schema spec define model structure",
    "set_up setup configure scaffold initialize initialise bootstrap",
    "implement build create develop code write",
    "integrate connect wire hook_up combine",
    "test verify validate check qa",
    "deploy release publish ship docs document documentation",
)
_USUAL_PHASE = 2
_THINGS = (
    "schema model entity table",
    "api endpoint route rest graphql",
    "component widget page view layout ui",
    "config configuration setting settings env environment",
    "test spec fixture mock",
    "docs documentation readme guide",
)


def _words(listed: str) -> re.Pattern[str]:
    """Whole words, in their usual endings: never ``ui`` in ``build``."""
    stems = "|".join(re.escape(word).replace("_", r"\s{1,4}") for word in listed.split())
    return re.compile(rf"\b(?:{stems})(?:s|es|d|ed|ing|r|er)?\b", re.IGNORECASE)


_CATEGORY = {name: _words(listed) for name, listed in _KEYWORDS.items()}
_PHASE = [_words(listed) for listed in _PHASES]
_THING = [_words(listed) for listed in _THINGS]
_DOWN, _UP = _words(_CHEAPER), _words(_DEARER)


@dataclass(frozen=True)
class Split:
    """The parts of a task, at least two, or none if it cannot be split; and whether the task gives their order."""

    parts: tuple[str, ...]
    ordered: bool = False


def split(task: str, limit: int = PLAN_PARTS) -> Split:
    """The parts of a task by the rules above, at most ``limit``; the last part contains the rest."""
    text = task.strip()
    # A stand-in of the same length, so that what is found in it can be cut out of the text.
    plain = _CODE.sub(lambda match: "x" * len(match[0]), text)
    for spans, ordered in (
        (_items(_NUMBER, plain), True),
        (_items(_BULLET, plain), False),
        (_between(_orders(plain), plain), True),
        (_between([match.span() for match in re.finditer(";", plain)], plain), False),
        (_between([match.span() for match in _PARAGRAPH.finditer(plain)], plain), False),
    ):
        parts = [part for begin, end in spans if re.search(r"\w", part := _clean(text[begin:end]))]
        if len(parts) >= 2:
            kept = parts if len(parts) <= limit else [*parts[: limit - 1], "\n".join(parts[limit - 1 :])]
            return Split(tuple(kept), ordered)
    return Split(())


def dependencies(task_split: Split) -> list[tuple[int, ...]]:
    """For each part, the places of the parts it waits for; without those that others wait for already (A4)."""
    count = len(task_split.parts)
    if task_split.ordered:
        return [(at - 1,) if at else () for at in range(count)]
    phases = [phase(part) for part in task_split.parts]
    things = [{at for at, kind in enumerate(_THING) if kind.search(part)} for part in task_split.parts]
    present = sorted(set(phases))
    before = {number: present[at - 1] for at, number in enumerate(present) if at}
    wanted = [
        [
            other
            for other in range(count)
            if phases[other] == before.get(phases[at])
            or (other < at and phases[other] <= phases[at] and things[other] & things[at])
        ]
        for at in range(count)
    ]
    return _reduced(wanted, sorted(range(count), key=lambda at: (phases[at], at)))


def phase(text: str) -> int:
    """0 design, 1 set up, 2 build, 3 connect, 4 test, 5 release: most keywords win, then the first in the text."""
    hits = [[match.start() for match in kind.finditer(text)] for kind in _PHASE]
    best = max(range(len(hits)), key=lambda at: (len(hits[at]), -hits[at][0] if hits[at] else 0))
    return best if hits[best] else _USUAL_PHASE


def category(text: str) -> Category:
    """The kind of work in a text, by the number of different keywords (A4); general without any."""
    best: Category = "general"
    most = 0
    for name, words in _CATEGORY.items():
        count = len({keyword.lower() for keyword in words.findall(text)})
        if count > most:
            best, most = name, count
    return best


def adjusted_budget(text: str, budget: RunBudget) -> RunBudget:
    """The budget of one part: a tier lower for a simple part, a tier higher for a critical one (A4)."""
    tiers: tuple[RunBudget, ...] = ("low", "medium", "high")
    if budget not in tiers:
        return budget
    step = bool(_UP.search(text)) - bool(_DOWN.search(text))
    return tiers[min(2, max(0, tiers.index(budget) + step))]


def answer_count(request: RunRequest) -> int:
    """How many answers a collective has: the requested number, limited to 2 to 5 (A4)."""
    return min(ANSWER_COUNTS[1], max(ANSWER_COUNTS[0], request.count))


def _items(mark: re.Pattern[str], plain: str) -> list[tuple[int, int]]:
    marks = list(mark.finditer(plain))
    if not marks:
        return []
    least = min(len(item[1].expandtabs(4)) for item in marks)
    marks = [item for item in marks if len(item[1].expandtabs(4)) <= least + 1]
    ends = [*(item.start() for item in marks[1:]), len(plain)]
    return [(item.end(), end) for item, end in zip(marks, ends, strict=True)]


def _orders(plain: str) -> list[tuple[int, int]]:
    return [
        match.span()
        for match in _ORDER.finditer(plain)
        if not _NO_ORDER.search(plain, max(0, match.start() - _SENTENCE), match.start())
    ]


def _between(borders: Iterable[tuple[int, int]], plain: str) -> list[tuple[int, int]]:
    spans, begin = [], 0
    for start, end in borders:
        spans.append((begin, start))
        begin = end
    return [*spans, (begin, len(plain))]


def _clean(part: str) -> str:
    text = _FIRST.sub("", part.strip(_BETWEEN), count=1).rstrip(_BETWEEN)
    joined = _JOINED.search(text, max(0, len(text) - 4))
    return text[: joined.start()].rstrip(_BETWEEN) if joined else text


def _reduced(wanted: Sequence[Sequence[int]], order: Sequence[int]) -> list[tuple[int, ...]]:
    """``order`` has each part after those that it needs; bit n of a number is part n."""
    above = [0] * len(wanted)
    for at in order:
        for other in wanted[at]:
            above[at] |= above[other] | 1 << other
    reduced = []
    for needs in wanted:
        through = 0
        for other in needs:
            through |= above[other]
        reduced.append(tuple(other for other in needs if not through >> other & 1))
    return reduced
