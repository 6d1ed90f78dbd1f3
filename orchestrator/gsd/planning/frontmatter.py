"""The YAML head of a planning file, as plain texts, lists and mappings: tolerant, bounded by its text. Pure.

Files are written by people and models: what is no YAML is read piece by piece, so that one bad line costs that line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

FRONTMATTER_MAX = 256 * 1024
DEPTH_MAX = 16
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_KEY = re.compile(r"""["']?([A-Za-z_][\w .-]{0,80})["']?[ \t]*:(?:[ \t]+(.*))?""", re.DOTALL)
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

Odd = tuple[int, str]
"""A line, counted from 1, and a sentence about it."""


class Head(NamedTuple):
    """``keys`` of the head; ``end``: how many lines it takes, 0 without one; ``odd``: what of it was no YAML."""

    keys: dict[str, Any]
    end: int
    odd: tuple[Odd, ...] = ()


class _NotYaml(Exception):
    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line, self.why = line, why


def head(lines: list[str]) -> Head:
    """The frontmatter of a file's lines; without one, or without an end of it, nothing.

    Values are texts as written (``01`` stays ``01``), None, lists and mappings of them, never deeper than
    `DEPTH_MAX`; of a key that stands there twice the first counts.
    """
    first = next((at for at, line in enumerate(lines[:20]) if line.strip()), -1)
    if first < 0 or lines[first].rstrip() != "---":
        return Head({}, 0)
    end = next((at for at in range(first + 1, len(lines)) if lines[at].rstrip() == "---"), 0)
    if not end:
        return Head({}, 0, ((first + 1, "the frontmatter has no end: a second line --- is missing"),))
    inside = lines[first + 1 : end]
    if sum(map(len, inside)) > FRONTMATTER_MAX:
        return Head({}, end + 1, ((first + 1, f"the frontmatter is longer than {FRONTMATTER_MAX} characters"),))
    odd: list[Odd] = []
    found = value(inside, first + 2, odd)
    if not isinstance(found, dict):
        if found is not None:
            odd.append((first + 2, "the frontmatter is no mapping of keys to values"))
        found = {}
    return Head(found, end + 1, tuple(odd))


def value(lines: list[str], line: int, odd: list[Odd]) -> Any:
    """What a block of YAML says, of which the first line has this number; where it is none, piece by piece.

    A piece that is no YAML counts as the text that stands there, and is told in ``odd``.
    """
    try:
        return _strict(lines, line, odd)
    except _NotYaml as error:
        odd.append((error.line, f"no YAML, read piece by piece: {error.why}"))
        return _pieces(lines, 0)


def _strict(lines: list[str], line: int, odd: list[Odd] | None = None) -> Any:
    doubled: list[Odd] = []
    try:
        found = _built(_LOADER("\n".join(lines)), line, doubled)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = mark.line if mark else 0
        raise _NotYaml(line + at, error.problem or error.context or "no YAML") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # characters and escapes that do not exist
        raise _NotYaml(line, str(error).partition("\n")[0]) from error
    if odd is not None:
        odd += doubled
    return found


def _built(loader: Any, line: int, odd: list[Odd]) -> Any:
    """The first document of a stream of events; built without recursion, so no text can nest us to death."""
    stack: list[tuple[Any, list[Any]]] = []  # (a mapping or None for a list, its items so far)
    try:
        while loader.check_event():
            event = loader.get_event()
            at = line + event.start_mark.line
            if getattr(event, "anchor", None) is not None:
                raise _NotYaml(at, "anchors and aliases (& and *) are not read")
            if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                if len(stack) >= DEPTH_MAX:
                    raise _NotYaml(at, f"nested deeper than {DEPTH_MAX}")
                stack.append(({} if isinstance(event, yaml.MappingStartEvent) else None, []))
                continue
            if isinstance(event, yaml.ScalarEvent):
                done: Any = _scalar(event)
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                mapping, items = stack.pop()
                done = items if mapping is None else mapping
            else:
                continue
            if not stack:
                return done
            mapping, items = stack[-1]
            items.append(done)
            if mapping is not None and len(items) == 2:
                key = items[0] if isinstance(items[0], str) else "" if items[0] is None else str(items[0])
                if key in mapping:
                    odd.append((at, f"the key {key[:80]!r} stands there twice"))
                else:
                    mapping[key] = done
                items.clear()
    finally:
        loader.dispose()
    return None


def _scalar(event: yaml.ScalarEvent) -> str | None:
    if event.implicit[0] and event.value in _NULLS:  # plain, by either parser
        return None
    text = str(event.value)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _pieces(lines: list[str], depth: int) -> Any:
    """A block that is no YAML: each key or item of its outermost level by itself."""
    if depth >= DEPTH_MAX:
        return _bare(lines)
    inside = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not inside:
        return None
    margin = min(len(line) - len(line.lstrip()) for line in inside)
    if inside[0][margin:].startswith("- "):
        return [_item(part, margin, depth) for part in _parts(inside, margin, "-")]
    out: dict[str, Any] = {}
    for part in _parts(inside, margin, ""):
        found = _KEY.fullmatch(part[0][margin:].rstrip())
        if found:
            out.setdefault(found[1], _one(part, [found[2] or "", *part[1:]], found[1], depth))
    return out or _bare(inside)


def _parts(lines: list[str], margin: int, sign: str) -> Iterator[list[str]]:
    """Runs of lines that begin at the margin (with the sign), each with what is indented below it."""
    part: list[str] = []
    for line in lines:
        text = line[margin:]
        begins = not text[:1].isspace() and (text.startswith("- ") or text == "-") == bool(sign)
        if begins and part:
            yield part
            part = []
        part.append(line)
    if part:
        yield part


def _one(part: list[str], rest: list[str], key: str, depth: int) -> Any:
    """The value of one key."""
    try:
        found = _strict(part, 1)
    except _NotYaml:
        below = [line for line in rest[1:] if line.strip()]
        return _bare(rest) if rest[0].strip() or not below else _pieces(below, depth + 1)
    return found.get(key) if isinstance(found, dict) else found


def _item(part: list[str], margin: int, depth: int) -> Any:
    """One item of a list."""
    try:
        found = _strict(part, 1)
    except _NotYaml:
        first = part[0][margin + 1 :]
        inner = [" " * (margin + 1) + first, *part[1:]]
        return _pieces(inner, depth + 1) if len(part) > 1 and _KEY.fullmatch(first.strip()) else _bare(inner)
    return found[0] if isinstance(found, list) and found else found


def _bare(lines: list[str]) -> Any:
    """What stands there as a text without its quotes, or as a list where it is ``[a, b]``."""
    text = "\n".join(line.strip() for line in lines).strip()
    if text.startswith("[") and text.endswith("]"):
        return [part for part in (_unquoted(one.strip()) for one in text[1:-1].split(",")) if part]
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 1 and all(_unquoted(part) != part for part in parts):  # "a", "b"
        return [_unquoted(part) for part in parts]
    return _unquoted(text)


def _unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text
