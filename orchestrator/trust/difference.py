"""What has changed between two contents of a file, as lines for a human. Pure, standard library only."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

CONTEXT_LINES = 3
LINES_COMPARED = 400
"""Beyond this many changed lines the old ones are listed, then the new ones: to match them could take for ever."""


def difference(old: bytes | None, new: bytes) -> str:
    """The lines that are new (`+`), removed (`-`) and around those (a blank); without ``old`` all lines are new.

    Bytes that are not UTF-8 become escapes. Control characters do not: the caller makes them visible.
    """
    before, after = _lines(old) if old is not None else [], _lines(new)
    if before == after:
        return ""
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    left, right = before[start : len(before) - end], after[start : len(after) - end]
    lines = [f" {line}" for line in before[max(0, start - CONTEXT_LINES) : start]]
    if len(left) > LINES_COMPARED or len(right) > LINES_COMPARED:
        lines += [f"-{line}" for line in left] + [f"+{line}" for line in right]
    else:
        lines += _matched(left, right)
    tail = before[len(before) - end :] if end else []
    return "\n".join([*lines, *(f" {line}" for line in tail[:CONTEXT_LINES])])


def _lines(content: bytes) -> list[str]:
    return content.decode("utf-8", "backslashreplace").split("\n")


def _common(lines: list[str], other: list[str]) -> int:
    """How many lines both begin with."""
    pairs = zip(lines, other, strict=False)
    return next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(lines), len(other)))


def _matched(left: list[str], right: list[str]) -> Iterator[str]:
    for word, a, b, c, d in difflib.SequenceMatcher(None, left, right, autojunk=True).get_opcodes():
        if word == "equal":
            same = left[a:b]
            cut = len(same) > 2 * CONTEXT_LINES
            yield from (f" {line}" for line in (same[:CONTEXT_LINES] if cut else same))
            if cut:
                yield "…"
                yield from (f" {line}" for line in same[-CONTEXT_LINES:])
        else:
            yield from (f"-{line}" for line in left[a:b])
            yield from (f"+{line}" for line in right[c:d])
