"""A Markdown text taken apart: frontmatter, headings, tables, lists and fields, each with its line. Pure.

Lines count from 1. Nothing inside a code fence is a heading, a table or an item. Every rule is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from orchestrator.gsd.planning import frontmatter
from orchestrator.gsd.planning.frontmatter import Odd

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*)")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,4}[.)])[ \t]+(?:\[([ xX~-])\][ \t]*)?(\S.*)")
_FIELD = re.compile(
    r"[ \t]*(?:[-*+][ \t]+)?\**([A-Za-z](?:[\w /&-]{0,59}[\w/&-])?)"
    r"(?: *\*+)?[ \t]*(?:\([^()]{0,80}\)[ \t]*)?:\**(.*)"
)
_DASHES = re.compile(r"[ \t:|-]+")
LINES_MAX = 50_000
CLIPPED = 10_000
"""A longer line is cut: nobody wrote it, and patterns are spared it."""
COLUMNS_MAX = 50
"""A table's rows are padded to its head: without a bound a head of one long line would be multiplied by them."""


class Line(NamedTuple):
    """A line with its number."""

    number: int
    text: str


class Item(NamedTuple):
    """An item of a list; ``checked`` is None where it has no checkbox; ``text`` joins its indented lines."""

    line: int
    checked: bool | None
    text: str
    indent: int


class Table(NamedTuple):
    """A table; ``names`` are its head's cells in lower case; rows are padded or cut to the head's length."""

    line: int
    names: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it up to the next heading of its level or a higher one.

    ``own`` ends at the next heading of any level; ``level`` 0 is what stands before the first heading.
    """

    title: str
    level: int
    line: int
    lines: tuple[Line, ...]
    own: tuple[Line, ...]

    @property
    def text(self) -> str:
        """What stands below the heading, as written, without blank lines around it."""
        return joined(self.lines)


@dataclass(frozen=True)
class Page:
    """A Markdown text. ``front`` is its frontmatter, ``odd`` what of it was no YAML."""

    front: Mapping[str, Any]
    body: tuple[Line, ...]
    sections: tuple[Section, ...]
    odd: tuple[Odd, ...] = ()
    fenced: frozenset[int] = field(default_factory=frozenset)

    @property
    def title(self) -> str:
        """The first heading of level 1, empty without one."""
        return next((one.title for one in self.sections if one.level == 1), "")

    def section(self, *titles: str, level: int = 0) -> Section | None:
        """The first section with one of these titles, those named first first; in any letter case."""
        for title in titles:
            for one in self.sections:
                if one.title.casefold() == title.casefold() and one.level and level in {0, one.level}:
                    return one
        return None


def read(text: str) -> Page:
    """A text taken apart; any text at all gives a page. Ends of lines may be of any system; `LINES_MAX` are read."""
    lines = lines_of(text, LINES_MAX + 1)
    odd: tuple[Odd, ...] = ()
    if len(lines) > LINES_MAX + 1:
        odd = ((LINES_MAX + 1, f"it has more than {LINES_MAX} lines: what follows was left out"),)
        del lines[LINES_MAX:]
    head = frontmatter.head(lines)
    body = tuple(Line(at + 1, lines[at][:CLIPPED]) for at in range(head.end, len(lines)))
    fenced = frozenset(_fenced(body))
    return Page(head.keys, body, _sections(body, fenced), (*head.odd, *odd), fenced)


def lines_of(text: str, most: int) -> list[str]:
    """A text's lines, with ends of any system; behind as many as ``most`` the rest is one."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n", most)


def _fenced(body: tuple[Line, ...]) -> Iterator[int]:
    fence = ""
    for number, text in body:
        mark = text.lstrip()
        if not fence:
            if mark.startswith(("```", "~~~")):
                fence = mark[: len(mark) - len(mark.lstrip(mark[0]))]
                yield number
            continue
        yield number
        if mark.startswith(fence) and not mark.strip().strip(fence[0]):
            fence = ""


def _sections(body: tuple[Line, ...], fenced: frozenset[int]) -> tuple[Section, ...]:
    heads: list[tuple[int, int, str, int]] = []  # where, level, title, line
    for at, (number, text) in enumerate(body):
        if "#" in text[:4] and number not in fenced:
            found = _HEADING.match(text)
            if found:
                heads.append((at, len(found[1]), found[2].rstrip("# \t") or found[2].strip(), number))
    out = [
        Section("", 0, 0, body[: heads[0][0] if heads else len(body)], body[: heads[0][0] if heads else len(body)])
    ]
    ends = [len(body)] * len(heads)
    still: list[int] = []  # the headings that have no end yet, of rising level
    for index, (at, level, _, _) in enumerate(heads):
        while still and heads[still[-1]][1] >= level:
            ends[still.pop()] = at
        still.append(index)
    for index, (at, level, title, number) in enumerate(heads):
        following = heads[index + 1][0] if index + 1 < len(heads) else len(body)
        out.append(Section(title, level, number, body[at + 1 : ends[index]], body[at + 1 : following]))
    return tuple(out)


def joined(lines: tuple[Line, ...] | list[Line]) -> str:
    """Lines as one text, without blank lines around it."""
    return "\n".join(text for _, text in lines).strip("\n").rstrip()


def tables(lines: tuple[Line, ...], fenced: frozenset[int] = frozenset()) -> list[Table]:
    """The tables in some lines: rows of cells with a rule of dashes below the first."""
    out: list[Table] = []
    run: list[Line] = []
    for line in (*lines, Line(0, "")):
        if line.text.lstrip().startswith("|") and line.number not in fenced:
            run.append(line)
            continue
        if len(run) > 1 and _DASHES.fullmatch(run[1].text.strip()) and "-" in run[1].text:
            names = tuple(plain(cell).casefold() for cell in _cells(run[0].text)[:COLUMNS_MAX])
            rows = tuple((one.number, _padded(_cells(one.text), len(names))) for one in run[2:])
            out.append(Table(run[0].number, names, rows))
        run = []
    return out


def _cells(text: str) -> tuple[str, ...]:
    inner = text.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return tuple(cell.replace("\0", "|").strip() for cell in inner.replace("\\|", "\0").split("|"))


def _padded(cells: tuple[str, ...], length: int) -> tuple[str, ...]:
    return cells[:length] + ("",) * (length - len(cells))


def cell(table: Table, cells: tuple[str, ...], *names: str) -> str:
    """The cell of a row below the first of these heads that the table has; empty without one."""
    for name in names:
        if name in table.names:
            return cells[table.names.index(name)]
    return ""


def items(lines: tuple[Line, ...], fenced: frozenset[int] = frozenset()) -> list[Item]:
    """The items of all lists in some lines, nested ones too, each with the indented lines that go on with it."""
    out: list[Item] = []
    more: list[str] = []

    def close() -> None:
        if more and out:
            last = out[-1]
            out[-1] = last._replace(text=" ".join([last.text, *more]))
        more.clear()

    open_item = False
    for number, text in lines:
        found = _ITEM.fullmatch(text) if number not in fenced else None
        if found:
            close()
            checked = None if found[1] is None else found[1] in "xX"
            out.append(Item(number, checked, found[2].rstrip(), len(text) - len(text.lstrip())))
            open_item = True
        elif not text.strip() or number in fenced or not text[:1].isspace():
            open_item = False
        elif open_item and len(more) < 50:
            more.append(text.strip())
    close()
    return out


def fields(lines: tuple[Line, ...], fenced: frozenset[int] = frozenset()) -> dict[str, tuple[int, str]]:
    """Lines ``Name: value``, ``**Name:** value``, ``**Name**: value`` and ``**Name** (note): value``, by name.

    Keys are in lower case, the first of a name counts; values are stripped, and may be empty.
    """
    out: dict[str, tuple[int, str]] = {}
    for number, text in lines:
        found = _FIELD.fullmatch(text) if ":" in text and number not in fenced else None
        if found:
            out.setdefault(found[1].casefold(), (number, found[2].strip()))
    return out


def plain(text: str) -> str:
    """A text without bold, code marks and spaces around it."""
    return text.replace("**", "").replace("`", "").strip()


def tagged(text: str, name: str) -> str:
    """What stands between the first ``<name>`` and its end; empty without one."""
    start = text.find(f"<{name}>")
    end = text.find(f"</{name}>", start)
    return text[start + len(name) + 2 : end].strip() if -1 < start < end else ""


def texts(found: Any) -> tuple[str, ...]:
    """A value of a frontmatter that is to be a list of texts: a list, or one text with commas between.

    A mapping in a list (``- Key: value`` without quotes) counts as the text it was.
    """
    if isinstance(found, str):
        inner = found.strip().removeprefix("[").removesuffix("]")
        parts: list[Any] = inner.split(",") if "\n" not in inner else inner.split("\n")
        return tuple(part for part in (one.strip().strip("'\"") for one in parts) if part and part.lower() != "none")
    if isinstance(found, Mapping):
        return tuple(f"{key}: {text_of(one)}" if text_of(one) else str(key) for key, one in found.items())
    if isinstance(found, list):
        return tuple(part for part in (text_of(one) for one in found) if part)
    return ()


def text_of(found: Any) -> str:
    """A value of a frontmatter as one text: a mapping as ``key: value; …``, a list with commas, None as nothing."""
    if isinstance(found, str):
        return found.strip()
    if isinstance(found, Mapping):
        return "; ".join(f"{key}: {text_of(one)}" if text_of(one) else str(key) for key, one in found.items())
    if isinstance(found, list):
        return ", ".join(part for part in (text_of(one) for one in found) if part)
    return ""
