"""Edits JSON with comments as text: finds values, adds and removes one member. Pure.

Every byte outside the member stays unchanged, and `remove` undoes `add` exactly, from the text alone. That needs one
rule of form: a container that was made for our member begins with white space after its bracket; a member that was
put into an empty container of the user's does not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

JsonKey = str | int

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
      | (?P<comment>//[^\r\n]*|/\*.*?\*/)
      | (?P<string>"(?:[^"\\\x00-\x1f]|\\.)*")
      | (?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
      | (?P<word>true|false|null)(?![A-Za-z0-9_])
      | (?P<mark>[{}\[\],:])""",
    re.DOTALL | re.VERBOSE,
)


class Unreadable(Exception):
    """The text is not what its name says; ``line`` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


@dataclass
class _JsonNode:
    """A value and its place, ``start`` to ``end``; a container has items, and ``last`` before its bracket."""

    start: int
    end: int
    value: Any = None
    items: list[_Item] = field(default_factory=list)
    last: int = 0  # end of the last comment, comma, item or bracket before the closing bracket


@dataclass
class _Item:
    """A member of an object, or an element of an array (``key`` is its index then)."""

    key: JsonKey
    start: int
    before: int  # end of the comment, comma, item or bracket before it
    node: _JsonNode
    comma: int | None = None  # offset of the comma that follows


def read(text: str) -> Any:
    """The value; comments and trailing commas are allowed. Raises ``Unreadable``."""
    return _parse(text).value


def add(text: str, path: Sequence[str], value: Any, *, element: bool = False) -> str:
    """Add a member at ``path``, which must not exist; with ``element``, append to the array at ``path``.

    Missing containers are made; an empty text becomes an object. Raises ``Unreadable``, also if a container on the
    path is of another kind.
    """
    if not text:
        return _lines(_nested(path, value, element), "", "  ", "\n")
    node = _parse(text)
    for depth, key in enumerate(path):
        _want(text, node, dict)
        item = _find(node, key)
        if item is None:
            return _insert(text, node, key, _nested(path[depth + 1 :], value, element))
        node = item.node
    _want(text, node, list)
    return _insert(text, node, None, value)


def replace(text: str, path: Sequence[JsonKey], value: Any) -> str:
    """Give the existing member at ``path`` another value, on one line if the old one is."""
    node = _chain(_parse(text), path)[-1].node
    if "\n" in text[node.start : node.end]:
        new = _lines(value, _indent_of(text, node.start), _unit(text), _newline(text))
    else:
        new = _line(value)
    return text[: node.start] + new + text[node.end :]


def remove(text: str, path: Sequence[JsonKey]) -> str | None:
    """Take the existing member at ``path`` out, with the containers made for it; None: the file was made for it."""
    root = _parse(text)
    chain = _chain(root, path)
    while _made_for_one(text, _holder(root, chain)):
        chain.pop()
        if not chain:
            return None if text.endswith("\n") else ""
    item, siblings = chain[-1], _holder(root, chain).items
    at = next(number for number, sibling in enumerate(siblings) if sibling is item)
    if item.comma is not None:
        rest = text[item.comma + 1 :]
        return text[: item.before] + (rest.lstrip(" \t\r\n") if item.before == item.start else rest)
    head, comma = text[: item.before], siblings[at - 1].comma if at else None
    if comma is not None:
        head = head[:comma] + head[comma + 1 :]
    return head + text[item.node.end :]


def commented(text: str, path: Sequence[JsonKey]) -> bool:
    """Whether the existing member at ``path`` contains a comment."""
    node = _chain(_parse(text), path)[-1].node
    return any(token.lastgroup == "comment" for token in _TOKEN.finditer(text, node.start, node.end))


# -- reading ----------------------------------------------------------------------------------------------------


def _parse(text: str) -> _JsonNode:
    try:
        return _Reader(text).whole()
    except RecursionError:
        raise Unreadable(1, "it is nested too deeply") from None


class _Reader:
    """Goes through the text token by token; ``kind`` and ``word`` are what comes next, kind "" at the end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.kind = self.word = ""
        self.start = self.at = 0  # of the next token
        self.seen = 0  # end of what was last passed, comments included
        self._advance()

    def whole(self) -> _JsonNode:
        node = self._value()
        if self.kind:
            raise self._wrong("the end of the file")
        return node

    def _advance(self) -> None:
        while True:
            self.start = self.at
            if self.at >= len(self.text):
                self.kind = self.word = ""
                return
            match = _TOKEN.match(self.text, self.at)
            if match is None:
                raise self._wrong("JSON")
            self.at, self.kind, self.word = match.end(), str(match.lastgroup), match.group()
            if self.kind == "comment":
                self.seen = self.at
            elif self.kind != "space":
                return

    def _pass(self) -> None:
        self.seen = self.at
        self._advance()

    def _wrong(self, wanted: str) -> Unreadable:
        line = self.text.count("\n", 0, self.start) + 1
        excerpt = self.text[self.start : self.start + 12].partition("\n")[0]
        return Unreadable(line, f"expected {wanted}, found {excerpt!r}" if excerpt else f"expected {wanted}")

    def _value(self) -> _JsonNode:
        node = _JsonNode(self.start, self.at)
        if self.kind in ("string", "number", "word"):
            try:
                node.value = json.loads(self.word)
            except ValueError:
                raise self._wrong("a valid string") from None
            self._pass()
        elif self.word == "{":
            node.value = {}
            self._items(node, "}")
        elif self.word == "[":
            node.value = []
            self._items(node, "]")
        else:
            raise self._wrong("a value")
        return node

    def _items(self, node: _JsonNode, close: str) -> None:
        self._pass()
        while self.word != close:
            start, before = self.start, self.seen
            key: JsonKey = len(node.items)
            if close == "}":
                if self.kind != "string":
                    raise self._wrong("a name in double quotes")
                key = self._value().value
                if self.word != ":":
                    raise self._wrong("':'")
                self._pass()
            item = _Item(key, start, before, self._value())
            node.items.append(item)
            if isinstance(node.value, dict):
                node.value[key] = item.node.value
            else:
                node.value.append(item.node.value)
            if self.word == ",":
                item.comma = self.start
                self._pass()
            elif self.word != close:
                raise self._wrong(f"',' or {close!r}")
        node.last, node.end = self.seen, self.at
        self._pass()


def _want(text: str, node: _JsonNode, kind: type) -> None:
    if not isinstance(node.value, kind):
        what = "an object" if kind is dict else "an array"
        raise Unreadable(text.count("\n", 0, node.start) + 1, f"{what} is wanted here")


def _find(node: _JsonNode, key: JsonKey) -> _Item | None:
    """The item a reader of the whole takes: of two members of one name, the last."""
    return next((item for item in reversed(node.items) if item.key == key), None)


def _chain(root: _JsonNode, path: Sequence[JsonKey]) -> list[_Item]:
    """The items from the root to the existing member at ``path``."""
    chain: list[_Item] = []
    for key in path:
        item = _find(chain[-1].node if chain else root, key)
        if item is None:
            raise KeyError(key)
        chain.append(item)
    return chain


def _holder(root: _JsonNode, chain: list[_Item]) -> _JsonNode:
    return chain[-2].node if len(chain) > 1 else root


def _made_for_one(text: str, node: _JsonNode) -> bool:
    """Whether the container has the form of one that `add` made, and nothing but one item in it."""
    if len(node.items) != 1:
        return False
    item = node.items[0]
    lead = text[node.start + 1 : item.start]
    return bool(lead) and lead.isspace() and not text[item.node.end : node.end - 1].strip()


# -- writing ----------------------------------------------------------------------------------------------------


def _nested(path: Sequence[str], value: Any, element: bool) -> Any:
    """The value inside the containers of the rest of a path."""
    out = [value] if element else value
    for key in reversed(path):
        out = {key: out}
    return out


def _insert(text: str, node: _JsonNode, key: str | None, value: Any) -> str:
    """A new last item of a container, in the form the container has."""
    newline, unit = _newline(text), _unit(text)
    tall = "\n" in text[node.last : node.end]  # the closing bracket stands on a line of its own
    name = "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
    if node.last == node.start + 1:  # empty: no white space before it, see the head
        shown = _lines(value, _indent_of(text, node.start), unit, newline)
        return text[: node.last] + name + shown + text[node.last :]
    indent = _indent_of(text, node.start) + unit
    if node.items and text[node.items[-1].before : node.items[-1].start].count("\n"):
        indent = _indent_of(text, node.items[-1].start)
    shown = newline + indent + name + _lines(value, indent, unit, newline) if tall else " " + name + _line(value)
    if not node.items:
        return text[: node.last] + shown + text[node.last :]
    if node.items[-1].comma is not None:
        return text[: node.last] + shown + "," + text[node.last :]
    end = node.items[-1].node.end
    return text[:end] + "," + text[end : node.last] + shown + text[node.last :]


def _lines(value: Any, indent: str, unit: str, newline: str) -> str:
    """A value over several lines, the first without indentation; with a newline at the end if it is a whole file."""
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", newline + indent)


def _line(value: Any) -> str:
    """A value on one line, with white space inside its brackets (see the head)."""
    if isinstance(value, dict) and value:
        inside = (f"{json.dumps(key, ensure_ascii=False)}: {_line(member)}" for key, member in value.items())
        return "{ " + ", ".join(inside) + " }"
    if isinstance(value, list) and value:
        return "[ " + ", ".join(map(_line, value)) + " ]"
    return json.dumps(value, ensure_ascii=False)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _unit(text: str) -> str:
    """One step of indentation, as the first indented line has it."""
    match = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return match[1] if match else "  "


def _indent_of(text: str, at: int) -> str:
    """The white space at the start of the line of an offset."""
    match = re.match(r"[ \t]*", text[text.rfind("\n", 0, at) + 1 : at])
    return match[0] if match else ""
