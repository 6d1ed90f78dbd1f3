"""The arguments of a call in a program's text, of any language with brackets and quotes. Pure, bounded."""

from __future__ import annotations

import re

CALL_CHARS = 4000
_PAIRS = {"(": re.compile(r"[()]"), "[": re.compile(r"[\[\]]"), "{": re.compile(r"[{}]")}
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_TOKEN = re.compile(
    r"""\"(?:[^"\\\n]|\\[\s\S])*+"?|'(?:[^'\\\n]|\\[\s\S])*+'?|`(?:[^`\\]|\\[\s\S])*+`?|[()\[\]{},]"""
)
_LITERAL = re.compile(r"""^[rRbBuU]?(?P<mark>[fF]?)[rR]?(?P<q>["'`])(?P<text>.*)(?P=q)$""", re.DOTALL)
_FILLED = re.compile(r"[$#]\{|\$[A-Za-z_]")
_OBJECT_KEY = r"""["']?{key}["']?\s{{0,8}}[:=]\s{{0,8}}(["'`])([^"'`\n]{{0,300}})\1"""


def arguments(code: str, opening: int) -> list[str]:
    """The arguments of the call whose bracket opens there, trimmed; what is behind 4,000 characters is lost."""
    found: list[str] = []
    depth = 0
    start = opening + 1
    end = min(len(code), start + CALL_CHARS)
    stop = end
    for token in _TOKEN.finditer(code, start, end):
        char = token[0]
        if char in _OPENING:
            depth += 1
        elif char in _CLOSING:
            if depth == 0:
                stop = token.start()
                break
            depth -= 1
        elif char == "," and depth == 0:
            found.append(code[start : token.start()].strip())
            start = token.end()
    last = code[start:stop].strip()
    return [*found, last] if last else found


def closing(code: str, opening: int, most: int = 200_000) -> int:
    """The offset of the bracket that closes the one at ``opening``; quotes are not looked at; -1 beyond ``most``."""
    mark = code[opening]
    depth = 0
    for found in _PAIRS[mark].finditer(code, opening, min(len(code), opening + most)):
        depth += 1 if found[0] == mark else -1
        if depth == 0:
            return found.start()
    return -1


def literal(argument: str) -> str | None:
    """The text of a string argument; None when it is none, or put together from pieces."""
    found = _LITERAL.match(argument)
    if found is None:
        return None
    text = found["text"]
    if found["q"] in text.replace("\\" + found["q"], "") or (found["q"] == "`" and "${" in text):
        return None
    if (found["mark"] and "{" in text) or (found["q"] == '"' and _FILLED.search(text)):
        return None  # Python's f"{x}", PHP's and Kotlin's "$x", Ruby's "#{x}"
    return text


def keyword(argument: str, key: str) -> str | None:
    """The string behind ``key:`` or ``key=`` in an object literal or a keyword argument; None without one."""
    found = re.search(r"(?<!\w)" + _OBJECT_KEY.format(key=key), argument[:CALL_CHARS])
    return found[2] if found else None


def name_of(argument: str) -> str:
    """How middleware is shown: a name or a call (``requireAuth``, ``validate(schema)``), short; ``""`` for a body."""
    text = " ".join(argument.split())
    if re.match(r"^(?:async\b|function\b|\(|\w+\s*=>|fn\b|func\b|lambda\b|\||move\b)", text):
        return ""
    return text if len(text) <= 80 else text[:79] + "…"
