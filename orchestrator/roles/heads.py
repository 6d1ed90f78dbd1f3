"""What a role's text says of itself: Markdown with frontmatter, or the TOML of a Codex agent, as plain values. Pure.

The texts come from anywhere, so nothing in them costs more than their length allows: no aliases, depth or objects.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

FRONTMATTER_MAX = 16 * 1024
DEPTH_MAX = 16
_LINE = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*))?")
_BLOCK = re.compile(r"[|>][+-]?")
# tomllib takes time in the square of a dotted key's parts: half a minute for the largest file.
_LONG_KEY = re.compile(r"""(?<![\w"'-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){20}""")


class UnusableRole(Exception):
    """The text or file cannot be a role; the message continues after the file's name (``is not UTF-8``)."""


@dataclass(frozen=True)
class RoleHead:
    """A role's text, taken apart.

    ``keys`` are plain values; of Markdown only texts, None, and lists and mappings of them, because only YAML reads
    ``no`` as false. ``by_line`` is why the frontmatter was read line by line; "" if it was YAML.
    """

    keys: Mapping[str, Any] = field(default_factory=dict)
    body: str = ""
    by_line: str = ""


def markdown(text: str) -> RoleHead:
    """A Markdown file's frontmatter and the rest, stripped; UnusableRole when that has no end or makes no sense.

    Frontmatter that is no YAML but lines of ``key: value`` is taken as that: real files have colons and examples in
    their descriptions, and the CLIs they were written for take them.
    """
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return RoleHead(body=text.strip())
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), 0)
    if not end:
        raise UnusableRole("has a frontmatter without an end: a second line --- is missing")
    head, body = "\n".join(lines[1:end]), "\n".join(lines[end + 1 :]).strip()
    if len(head.encode()) > FRONTMATTER_MAX:
        raise UnusableRole(f"has a frontmatter of {len(head.encode())} bytes; at most {FRONTMATTER_MAX} are read")
    from orchestrator.roles import frontmatter  # noqa: PLC0415 - YAML: a daemon starts without it

    try:
        return RoleHead(MappingProxyType(frontmatter.mapping(head)), body)
    except frontmatter.TooMuch as error:
        raise UnusableRole(str(error)) from error
    except frontmatter.NotYaml as error:
        return RoleHead(MappingProxyType(_by_line(lines[1:end], str(error))), body, str(error))


def toml(text: str) -> RoleHead:
    """A Codex agent: ``developer_instructions`` is the body, all else is a key; UnusableRole for no such file."""
    if _LONG_KEY.search(text):
        raise UnusableRole("is not valid TOML for us: a dotted name has more than 20 parts")
    try:
        keys = {key: _plain(value) for key, value in tomllib.loads(text).items()}
    except tomllib.TOMLDecodeError as error:
        raise UnusableRole(f"is not valid TOML: {error}") from error
    except (ValueError, RecursionError) as error:  # what tomllib leaves to Python: numbers and nesting without end
        raise UnusableRole(f"is not valid TOML: {type(error).__name__}") from error
    body = keys.pop("developer_instructions", "")
    if not isinstance(body, str) or "\0" in body:
        raise UnusableRole("has developer_instructions that are no text")
    return RoleHead(MappingProxyType(keys), body.strip())


def text_of(value: object) -> str:
    """A value of `RoleHead.keys` that is to be a text, stripped; empty for anything else."""
    return value.strip() if isinstance(value, str) else ""


def names_of(value: object) -> tuple[str, ...]:
    """A value of `RoleHead.keys` that is to be names: a list of texts, or a text with commas, also in brackets.

    The second form is a list in frontmatter that was read line by line. Items that are not text are left out.
    """
    parts = value if isinstance(value, list) else text_of(value).removeprefix("[").removesuffix("]").split(",")
    texts = (text_of(part).strip("'\"") for part in parts)
    return tuple(dict.fromkeys(name for name in texts if name))


def _by_line(lines: list[str], why: str) -> dict[str, Any]:
    """Lines ``key: value``; the first of a key counts. Other lines, and all in ``<example>``, continue a value."""
    out: dict[str, str] = {}
    key, first = "", False
    for line in lines:
        inside = out[key].count("<example>") > out[key].count("</example>") if key else False
        match = None if inside else _LINE.fullmatch(line.rstrip())
        if match:
            key, first = match[1], match[1] not in out
            out.setdefault(key, match[2] or "")
        elif first:
            out[key] += f"\n{line.strip()}"
        elif not key and line.strip() and not line.startswith("#"):
            raise UnusableRole(f"has a frontmatter that is neither YAML nor lines of `key: value` ({why})")
    return {name: _unquoted(value.strip()) for name, value in out.items()}


def _unquoted(value: str) -> str:
    first, _, rest = value.partition("\n")
    if rest and _BLOCK.fullmatch(first.strip()):
        return rest.strip()
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def _plain(value: Any, depth: int = 0) -> Any:
    """A value of TOML as JSON has it: dates, and numbers that JSON cannot say, as texts."""
    if depth > DEPTH_MAX:
        raise UnusableRole(f"is nested deeper than {DEPTH_MAX}")
    if isinstance(value, dict):
        return {key: _plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, depth + 1) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    small = isinstance(value, int) and abs(value) < 2**63
    return value if small or isinstance(value, str) else str(value)
