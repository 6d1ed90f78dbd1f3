"""TOML as text: one table, or one element of an array of tables, put in at the end and taken out. Pure.

Every other byte stays as it is, and what `add` did `remove` undoes to the byte. A file that writes the outer table
inline (``mcp_servers = {...}``) cannot be extended this way and is refused.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.setup.jsonc import JsonKey, Unreadable

_WIDTH = 100


def read(text: str) -> dict[str, Any]:
    """The document; raises ``Unreadable``."""
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"at line (\d+)", str(error))
        line = int(place[1]) if place else text.count("\n") + 1
        raise Unreadable(line, re.sub(r" \(at .*\)$", "", str(error))) from None
    except RecursionError:
        raise Unreadable(1, "it is nested too deeply") from None


def add(text: str, path: Sequence[str], value: Mapping[str, Any], *, element: bool = False) -> str:
    """Append the table ``path``, which must not exist; with ``element``, one more ``[[path]]``.

    Values are strings, booleans, numbers, arrays of strings, and tables' arrays of such tables. An empty text
    gets the table alone. Raises ``Unreadable`` where the file's own form does not allow it.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    block = newline.join(_block(path, value, element))
    if not text:
        return block
    ends = text.endswith("\n")
    new = text + (newline if ends else newline * 2) + block + (newline if ends else "")
    try:
        read(new)
    except Unreadable as error:
        line = next((n for n, at in enumerate(_rows(text), 1) if _opens(at, path)), error.line)
        raise Unreadable(line, f"{path[0]} is written inline; write it as [{'.'.join(path)}]") from None
    return new


def remove(text: str, path: Sequence[JsonKey]) -> str | None:
    """Take the table at ``path`` out, or the element whose index ends ``path``; None: the file was made for it.

    Takes the lines from its header to the first blank line, comment or foreign header: what `add` writes has
    none of these inside. Raises ``Unreadable`` where the table is not written under a header of its own.
    """
    names = [part for part in path if isinstance(part, str)]
    wanted = next((part for part in path if isinstance(part, int)), 0)
    lines = _rows(text)
    kind = names, isinstance(path[-1], int)
    heads = [at for at, line in enumerate(lines) if _header(line) == kind and _whole("".join(lines[:at]))]
    if wanted >= len(heads):
        raise Unreadable(1, f"{'.'.join(names)} is not written under a header of its own; take it out by hand")
    first = heads[wanted]
    last = first + 1
    while last < len(lines) and not _ends(lines[last], names):
        last += 1
    head, tail = lines[:first], lines[last:]
    if head and not head[-1].strip():
        head.pop()
    elif not head and tail and not tail[0].strip():
        tail.pop(0)
    if not tail and head and not text.endswith("\n"):
        head[-1] = head[-1].rstrip("\r\n")
    return "".join(head + tail) or (None if text.endswith("\n") else "")


def _rows(text: str) -> list[str]:
    """The lines with their ends; only what TOML takes for an end is one."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _block(path: Sequence[str], value: Mapping[str, Any], element: bool) -> list[str]:
    name = ".".join(path)
    out = [f"[[{name}]]" if element else f"[{name}]"]
    inner = []
    for key, item in value.items():
        if isinstance(item, list) and item and isinstance(item[0], dict):
            for table in item:
                inner += _block([*path, key], table, element=True)
        else:
            out += _pair(key, item)
    return out + inner


def _pair(key: str, value: Any) -> list[str]:
    whole = f"{key} = {_text(value)}"
    if len(whole) <= _WIDTH or not isinstance(value, list):
        return [whole]
    rows = [""]
    for item in value:
        rows += [""] if len(rows[-1]) + len(_text(item)) > _WIDTH - 10 else []
        rows[-1] += f"{' ' if rows[-1] else ''}{_text(item)},"
    return [f"{key} = [", *(f"    {row}" for row in rows), "]"]


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)  # strings, booleans and numbers look the same in TOML


def _header(line: str) -> tuple[list[str], bool] | None:
    """The names of a header line, and whether it is one of an array of tables."""
    match = re.match(r"\s*(\[\[?)([^\[\]]+)\]\]?\s*(?:#.*)?$", line)
    if match is None:
        return None
    try:
        doc: Any = tomllib.loads(f"[{match[2]}]")
    except tomllib.TOMLDecodeError:
        return None
    names = []
    while isinstance(doc, dict) and doc:
        names += list(doc)
        doc = doc[names[-1]]
    return names, match[1] == "[["


def _whole(text: str) -> bool:
    """Whether the text ends outside any string: what follows is a line of its own."""
    try:
        read(text)
    except Unreadable:
        return False
    return True


def _ends(line: str, names: list[str]) -> bool:
    """Whether the line no longer belongs to the table with the header ``names``."""
    if not line.strip() or line.lstrip().startswith("#"):
        return True
    header = _header(line)
    return header is not None and (header[0][: len(names)] != names or len(header[0]) == len(names))


def _opens(line: str, path: Sequence[str]) -> bool:
    return re.match(rf"\s*(\[?{re.escape(path[0])}\b)", line) is not None
