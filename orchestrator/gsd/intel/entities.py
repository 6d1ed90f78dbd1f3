"""Reading an entity file of GSD's intel store: what a language model wrote about one source file. Pure.

All that real trees have is taken (A2): frontmatter with ``path:`` or ``source:``, none at all, a ``**File**:`` line,
exports as a list or a table, links anywhere in the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from orchestrator.gsd.graph import said

MAX_BYTES = 256 << 10
_FRONT = re.compile(r"(?:\ufeff)?---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[\[([^\[\]\n]{1,300})\]\]")
_FILE = re.compile(
    r"^[ \t]*(?:[-*][ \t]+)?\*\*(?:File|Path|Directory|Location|Source)(?::\*\*|\*\*[ \t]{0,9}:)([^\n]{1,1000})",
    re.MULTILINE | re.IGNORECASE,
)
_HEADING = re.compile(r"^##[ \t]+([^\n]*)", re.MULTILINE)
_MARKED = re.compile(r"^[ \t]*(?:[-*+]|\d+\.|\|)[ \t]*(?:`([^`\n]{1,500})`|\*\*([^*\n]{1,500})\*\*)")
_NAME = re.compile(r"(?:(?:export|default|async|function|class|const|let|var|type|interface|def|pub|fn|struct)\s+)*"
                   r"([^\W\d][\w$]*(?:\.[^\W\d][\w$]*)*)")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity as written. ``path`` may be absolute, of another machine; ``links`` are lower-cased, each once."""

    path: str = ""
    purpose: str = ""
    type: str = ""
    status: str = ""
    exports: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


def parse(data: bytes) -> Entity:
    """What the file says; whatever it lacks is empty. Invalid UTF-8 is replaced, line ends are of any kind."""
    content = data.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    front: dict[str, str] = {}
    found = _FRONT.match(content)
    if found:
        for line in found[1].splitlines():
            key, colon, value = line.partition(":")
            if colon:
                front.setdefault(key.strip().lower(), value.strip().strip("\"'"))
        content = content[found.end() :]
    path = front.get("path") or front.get("source") or front.get("file") or ""
    if not path and (named := _FILE.search(content)):
        path = named[1].strip().strip("`")
    sections = _sections(content)
    links = (link.partition("|")[0].partition("#")[0].strip().lower() for link in _LINK.findall(content))
    return Entity(
        said.text(path), said.text(" ".join(sections.get("purpose", "").split()), said.MAX_PURPOSE),
        said.text(front.get("type", "").lower(), 60), said.text(front.get("status", ""), 60),
        _exports(sections.get("exports", "")),
        tuple(dict.fromkeys(said.text(link) for link in links if link))[: said.MAX_TARGETS],
    )  # fmt: skip


def _sections(content: str) -> dict[str, str]:
    """The text below each heading of level 2, by its lower-cased name; the first of a name counts."""
    heads = list(_HEADING.finditer(content))
    ends = [*(head.start() for head in heads[1:]), len(content)]
    found: dict[str, str] = {}
    for head, end in zip(heads, ends, strict=False):  # no heading: no end is needed
        found.setdefault(head[1].strip(" \t#").lower(), content[head.end() : end].strip())
    return found


def _exports(section: str) -> tuple[str, ...]:
    names = []
    for line in section.splitlines()[: said.MAX_EXPORTS]:
        marked = _MARKED.match(line)
        name = _NAME.match(marked[1] or marked[2]) if marked else None
        if name:
            names.append(name[1])
    return said.exports(names)
