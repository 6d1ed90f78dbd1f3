"""What concrete thing a sentence names: an endpoint, a file, an export, a component, a test. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from orchestrator.gsd.routes import found as routes
from orchestrator.gsd.sources.code import LANGUAGES, ending

CHECK_TYPES = ("behavior", "endpoint", "artifact", "file", "export", "component", "test", "any")
Kind = Literal["behavior", "endpoint", "file", "export", "component", "test"]

_KNOWN = frozenset(
    {
        *LANGUAGES,
        ".json",
        ".md",
        ".yml",
        ".yaml",
        ".toml",
        ".css",
        ".txt",
        ".env",
        ".lock",
        ".xml",
        ".ini",
        ".cfg",
        ".svg",
        ".png",
    }
)
_PATH = re.compile(r"[\w.@~$+()\[\]-]{1,100}(?:/[\w.@~$+()\[\]-]{1,100}){0,20}")
_QUOTED = re.compile(r"`([^`\n]{1,300})`|\"([^\"\n]{1,300})\"")
_BEHIND = re.compile(r"(\.\w{1,6})(?:::?|#)(?=[A-Za-z_$])")
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]{0,120}")
_SHAPED = re.compile(
    r"^(?:[A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+|[a-z]+[a-z0-9]*(?:[A-Z][A-Za-z0-9]*)+|\w+_\w+|[A-Z][a-z]+[A-Za-z0-9]*)$"
)
_KINDS = frozenset({
    "a", "an", "the", "component", "export", "exported", "function", "class", "hook", "type", "interface",
    "endpoint", "route", "file", "module", "artifact", "must", "exist", "exists", "is", "should", "be", "in",
    "from", "test", "tests", "named", "called", "new", "method", "constant", "variable", "enum", "struct",
    "trait", "service", "page", "and", "with", "for",
})  # fmt: skip


@dataclass(frozen=True)
class Named:
    """What is asked for: its kind and its name (a path, an identifier; the sentence itself for a behaviour).

    An export or a component has no name where the text names no identifier.

    ``export``: that other files can import it is asked for, not only that it is there.
    """

    kind: Kind
    name: str
    export: bool = False


def named(text: str, check_type: str) -> Named:
    """What a text names; ``check_type`` ``any`` and ``artifact`` are decided from the text alone."""
    if check_type == "behavior":
        return Named("behavior", text)
    if check_type == "endpoint":
        return Named("endpoint", text)
    if check_type == "file":
        return Named("file", path_in(text) or text.strip("`\"' "))
    if check_type == "test":
        return Named("test", text)
    if check_type in {"export", "component"}:
        kind: Kind = "export" if check_type == "export" else "component"
        return Named(kind, identifier_in(text), kind == "export")
    if is_endpoint(text):
        return Named("endpoint", text)
    path = path_in(apart(text))
    if path:
        return Named("file", path)
    low = f" {text.lower()} "
    if re.search(r"\btests?\b", low) and not re.search(r"\btest\w*\s+(?:component|function|class)", low):
        return Named("test", text)
    name = identifier_in(text)
    if name:
        return Named("component" if " component" in low else "export", name, " export" in low)
    return Named("behavior", text)


def apart(text: str) -> str:
    """The text with a blank where a name stands right behind a file: ``tests/a.py::test_b``, ``src/a.ts:login``."""
    return _BEHIND.sub(r"\1 ", text)


def is_endpoint(text: str) -> bool:
    """Whether a text names an endpoint: a method and a path, or a path beside the word endpoint, route or API."""
    asked = routes.asked(text)
    if asked is None or (ending(asked.path) in _KNOWN and not asked.method):
        return False
    at = text.find(asked.path)
    outside = at <= 0 or not (text[at - 1].isalnum() or text[at - 1] in "._-@~$)]+")
    return outside and (
        bool(asked.method)
        or bool(re.search(r"\b(?:endpoint|route|api|handler)\b", text, re.IGNORECASE))
        or text.strip("`\"' ") == asked.path
    )


def path_in(text: str) -> str:
    """The first thing in a text that looks like a file: a known ending, or quoted with a slash; ``""``: none."""
    return next(iter(paths_in(text)), "")


def paths_in(text: str) -> list[str]:
    """All that looks like a file in a text, each once, at most eight; what is quoted comes first."""
    found: list[str] = []
    for quoted in _QUOTED.finditer(text):
        inner = (quoted[1] or quoted[2]).strip()
        if " " not in inner and not inner.startswith("/") and ("/" in inner or ending(inner) in _KNOWN):
            found.append(inner)
    for word in re.split(r"[\s,;\"'`]+", text):
        word = word[1:-1] if word[:1] == "(" and word[-1:] == ")" else word  # noqa: PLW2901
        bare = word.rstrip(".:!?)") if not word.endswith("]") else word
        if (
            _PATH.fullmatch(bare.lstrip("/")) and ending(bare) in _KNOWN and not re.fullmatch(r"[A-Z]\w*\.js", bare)
        ) or ("/" in bare.strip("/") and not bare.startswith("/") and text.strip() == word and _PATH.fullmatch(bare)):
            found.append(bare)
    return list(dict.fromkeys(found))[:8]


def is_shaped(text: str, name: str) -> bool:
    """Whether a name is certainly one of code: quoted in the text, all of it, or of several words run together."""
    quoted = {(one[1] or one[2]).strip().removesuffix("()") for one in _QUOTED.finditer(text)}
    return name in {text.strip(), *quoted} or "_" in name.strip("_") or bool(re.search(r"[a-z][A-Z]", name))


def identifier_in(text: str) -> str:
    """The identifier that a text names: quoted, else one that is shaped like one, else the only telling word."""
    for found in _QUOTED.finditer(text):
        inner = (found[1] or found[2]).strip().removesuffix("()")
        if _IDENTIFIER.fullmatch(inner):
            return inner
    alone = text.strip(" `'\".").removesuffix("()")
    if _IDENTIFIER.fullmatch(alone):
        return alone
    every = _IDENTIFIER.findall(text)
    telling = [word for word in every if word.lower() not in _KINDS]
    shaped = [word for word in telling if _SHAPED.match(word)]
    odd = [word for word in shaped if "_" in word or re.search(r"[a-z][A-Z]", word)]
    if odd:
        return str(odd[0])
    if len(telling) == 1:
        return str(telling[0])
    return str(shaped[0]) if len(shaped) == 1 and len(telling) <= 2 else ""
