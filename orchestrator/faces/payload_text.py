"""Show a payload whole to people: texts as lines, objects as ``key: value``, nested parts indented. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

INDENT = "  "


def block(value: Any) -> list[str]:
    """The whole value as lines; nothing is cut."""
    return list(_lines(value))


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from _named(f"{key}:", part)
    elif isinstance(value, list) and value:
        for part in value:
            yield from _lines(part) if isinstance(part, str) else _named("-", part)
    else:
        yield from _text(value).split("\n")


def _named(name: str, value: Any) -> Iterator[str]:
    """``name value`` on one line if the value is a short one, else the name and the value indented below it."""
    lines = list(_lines(value))
    if len(lines) == 1 and not (isinstance(value, dict | list) and value):
        yield f"{name} {lines[0]}".rstrip()
    else:
        yield name
        yield from (INDENT + line for line in lines)


def _text(value: Any) -> str:
    return value.rstrip("\n") if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
