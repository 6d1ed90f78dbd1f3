"""The ``pattern`` of a plan's key link, made safe: searched in single lines, never slower than their length. Pure.

Plans hold regular expressions, written for JavaScript. Known here is a part of them whose cost is bounded whatever
pattern and line are: literals, escapes, classes, ``.``, groups and alternatives, and quantifiers on single
characters. A ``.*`` outside of groups separates pieces that must follow each other; any other unbounded quantifier
stops at 200 characters. Everything else (a quantified group, a look-around, a back reference, over 200 characters)
is searched as literal text, and the answer says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PATTERN_CHARS = 200
LINE_CHARS = 2000
_REPEATS = 200
_QUANTIFIERS = 4
_CHOICES = 64
_ATOM = re.compile(
    r"(?P<gap>(?:\.|\[\\s\\S\]|\[\\S\\s\])[*+]\??)"
    r"|(?P<atom>\\[swdSWDbnt]|\\[^\w\s]|\[\^?\]?(?:[^\]\\]|\\.){0,100}\]|[^\\\[\](){}*+?|^$])"
    r"(?P<times>[*+]\??|\?\??|\{\d{1,3}(?:,\d{0,3})?\}\??)?"
    r"|(?P<open>\((?:\?:)?)|(?P<close>\))(?P<maybe>\?\??)?|(?P<or>\|)|(?P<end>[\^$])|(?P<brace>[{}])"
)


@dataclass(frozen=True)
class Pattern:
    """A pattern ready to search. ``note``: why it is searched as literal text; ``""`` when it is not."""

    alternatives: tuple[tuple[re.Pattern[str], ...], ...]
    note: str = ""

    def found(self, line: str) -> bool:
        """Whether a line, or its first 2,000 characters, has the pattern."""
        line = line[:LINE_CHARS]
        return any(_follow(pieces, line) for pieces in self.alternatives)


def _follow(pieces: tuple[re.Pattern[str], ...], line: str) -> bool:
    at = 0
    for piece in pieces:
        found = piece.search(line, at)
        if found is None:
            return False
        at = found.end()
    return True


def safe(pattern: str) -> Pattern:
    """The pattern, or its literal text with a note when it is not of the known kind."""
    if len(pattern) > PATTERN_CHARS:
        return _literal(pattern[:LINE_CHARS], f"longer than {PATTERN_CHARS} characters")
    alternatives = _parsed(pattern)
    if alternatives is None:
        return _literal(pattern, "not a pattern whose cost is bounded")
    try:
        return Pattern(tuple(tuple(re.compile(piece) for piece in pieces if piece) for pieces in alternatives))
    except re.error:
        return _literal(pattern, "not a regular expression")


def _literal(text: str, why: str) -> Pattern:
    return Pattern(((re.compile(re.escape(text)),),), f"searched as literal text: {why}")


def _parsed(pattern: str) -> list[list[str]] | None:
    """The pieces of each alternative, rewritten with bounds; None when the pattern is not of the known kind."""
    alternatives: list[list[str]] = [[""]]
    groups: list[int] = []
    at = repeated = 0
    choices = 1
    while at < len(pattern):
        found = _ATOM.match(pattern, at)
        if found is None:
            return None
        at = found.end()
        here = alternatives[-1]
        times = (found["times"] or (found["gap"] or "")[-2:]).lstrip("].").rstrip("?")
        if found["gap"] and not groups:
            here[-1] += "." if "+" in times else ""
            here.append("")
        elif times[:1] in {"*", "+"} or "," in times:
            atom = found["atom"] or "."
            parts = _parts(atom, pattern[at:])
            repeated += 1 if parts else _QUANTIFIERS
            least, most = _bounds(times)
            if groups or least > most or repeated > _QUANTIFIERS + parts * _QUANTIFIERS:
                return None
            here[-1] += f"{atom}{{{least},{most}}}" + ("+" if parts else "?")
        elif found["open"]:
            groups.append(1)
            here[-1] += "(?:"
        elif found["close"]:
            if not groups or pattern[at : at + 1] in {"*", "+", "{"}:
                return None
            choices *= groups.pop() * (2 if found["maybe"] else 1)
            here[-1] += found[0]
        elif found["or"] and not groups:
            alternatives.append([""])
            repeated = 0
        else:
            if found["or"]:
                groups[-1] += 1
            choices *= 2 if (found["times"] or "").startswith("?") else 1
            here[-1] += re.escape(found[0]) if found["brace"] else found[0]
        if choices > _CHOICES:
            return None
    return None if groups else alternatives


def _bounds(times: str) -> tuple[int, int]:
    if not times.startswith("{"):
        return int("+" in times), _REPEATS
    least, _, most = times[1:-1].partition(",")
    return int(least), min(int(most or _REPEATS), _REPEATS)


def _parts(atom: str, rest: str) -> bool:
    """Whether what follows a repeated atom cannot be of it, so that the repetition never has to give back."""
    following = rest[:2] if rest[:1] == "\\" else rest[:1]
    if (
        not following
        or (len(following) == 2 and following[1].isalnum())
        or following in {"(", "[", ".", "|", ")", "{"}
    ):
        return False
    if len(rest) > len(following) and rest[len(following)] in "*?{":
        return False
    try:
        return re.fullmatch(atom, following[-1]) is None
    except re.error:
        return False
