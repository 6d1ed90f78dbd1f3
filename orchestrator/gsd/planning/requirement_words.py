"""Ids and states of requirements as people write them. Pure (seed-systems A1, C21)."""

from __future__ import annotations

import re

from orchestrator.gsd.model import Status

ID = r"[A-Z][A-Z0-9]*-[A-Za-z0-9_-]{1,64}"
_ID = re.compile(ID)
_WORD = re.compile(rf"(?<![A-Za-z0-9_-]){ID}", re.IGNORECASE)
_LEADING = re.compile(rf"[\[(*`\s]*({ID})")
_RANGE = re.compile(
    r"([A-Z][A-Z0-9-]{0,30}-)(\d{1,4})[ \t]*(?:to|through|thru|\.\.\.?|\u2013|—)[ \t]*"
    r"([A-Z][A-Z0-9-]{0,30}-)?(\d{1,4})"
)
_OUTER = re.compile(r"\([^()]*\)")
_COUNT = re.compile(r"(\d{1,4})\s*/\s*(\d{1,4})")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_RANGE_MAX = 200
_DENIED = re.compile(
    r"\b(?:not|never|cannot|(?:to|will|must|should)[ -]+be|\w+n['\u2019]t)[ -]+"
    r"(?:(?:yet|been|be|fully|entirely|all)[ -]+)*\Z"
)
_DENIED_MAX = 60  # characters before a word in which it may be denied
_MARKS = " *_`-—\u2013✗✘❌⚠\ufe0f?!"

_OPEN = ("not ", "incomplete", "pending", "planned", "todo", "to do", "tbd", "unmapped")
_STATES: tuple[tuple[Status, tuple[str, ...]], ...] = (
    ("deferred", ("deferred", "postponed", "dropped", "abandoned", "out of scope", "cancelled", "canceled",
                  "future")),
    ("blocked", ("blocked", "⛔", "🚫")),
    ("in_progress", ("in progress", "in_progress", "in-progress", "partial", "ongoing", "wip", "executing", "started",
                     "nearly", "almost", "mostly", "🚧", "🔄", "🟡")),
    ("completed", ("complete", "done", "shipped", "satisfied", "verified", "validated", "implemented", "✓", "✔", "✅",
                   "☑", "[x]")),
)  # fmt: skip


def is_id(text: str) -> bool:
    """Whether the whole text is a requirement's id."""
    return bool(_ID.fullmatch(text))


def status_of(text: str) -> Status | None:
    """What a status as written means; None where it says nothing that is known (C21).

    A date stands for completed, ``2/3`` for in progress, ``3/3`` for completed.
    """
    low = text.casefold().strip(_MARKS)
    if not low:
        return None
    for status, words in _STATES[:2]:
        if any(says(low, word) for word in words):
            return status
    if low.startswith(_OPEN):
        return "pending"
    for status, words in _STATES[2:]:
        said = [one for word in words if (one := says(low, word)) is not None]
        if said:
            return status if any(said) else "pending"
    count = _COUNT.search(low)
    if count:
        done, total = int(count[1]), int(count[2])
        return "completed" if done >= total > 0 else "in_progress" if done else "pending"
    return "completed" if _DATE.search(low) else None


def says(low: str, word: str) -> bool | None:
    """Whether a text in lower case says a word, as the beginning of one of its own; False: only that it is not so.

    ``abandoned`` and ``unverified`` do not say ``done`` and ``verified``; ``not yet done`` and ``to be done`` deny
    it. None: it has no such word.
    """
    found = None
    at = low.find(word)
    while at > -1:
        if not (word[0].isalpha() and low[at - 1 : at].isalpha()):
            if not _DENIED.search(low[max(0, at - _DENIED_MAX) : at]):
                return True
            found = False
        at = low.find(word, at + len(word))
    return found


def listed_ids(text: str) -> tuple[str, ...]:
    """The ids of a list as ROADMAP.md has it: ``[A-01, A-02]``, ``INT-01 (Embedded Server), …``, ``A-01 to A-05``.

    What stands in round brackets is no id.
    """
    outer = _OUTER.sub(" ", text)
    out: dict[str, None] = {}
    for found in _RANGE.finditer(outer):
        first, last = int(found[2]), int(found[4])
        if (found[3] or found[1]) == found[1] and first <= last < first + _RANGE_MAX:
            out.update((f"{found[1]}{number:0{len(found[2])}d}", None) for number in range(first, last + 1))
    for part in re.split(r"[,;/&]|\band\b", outer):
        leading = _LEADING.match(part)
        if leading:
            out.setdefault(leading[1].rstrip("-_"), None)
    return tuple(out)


def words(text: str) -> frozenset[str]:
    """Everything in a text that could be an id, in upper case: what an id is looked up in, whole words alone.

    ``REQ-1`` is not found in ``REQ-10``, nor in ``PRE-REQ-1``.
    """
    return frozenset(found.rstrip("-_").upper() for found in _WORD.findall(text))
