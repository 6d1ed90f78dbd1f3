"""Slugs: the ids GSD gives to files, in the dialects that real trees have. Pure.

GSD's own rule (A2): drop a leading ``/`` and the extension, lower-case, every run of other characters becomes ``-``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from posixpath import basename, normpath

_OTHER = re.compile(r"[^a-z0-9]+")
_EXTENSION = re.compile(r"(?<=[^./])\.[A-Za-z][A-Za-z0-9]{0,9}$")
SCRIPT = frozenset({".js", ".ts", ".jsx", ".tsx", ".mjs", ".cjs", ".mts", ".cts"})
"""Endings that stand for each other: TypeScript is imported by the name of the JavaScript it becomes."""
ENDINGS = SCRIPT | {
    ".c", ".cc", ".cpp", ".cs", ".css", ".dart", ".ex", ".exs", ".go", ".h", ".hpp", ".html", ".java", ".json", ".kt",
    ".lua", ".md", ".php", ".pike", ".pl", ".prisma", ".proto", ".py", ".pyi", ".rb", ".rs", ".scala", ".scss", ".sh",
    ".sql", ".svelte", ".swift", ".toml", ".vue", ".yaml", ".yml", ".zig",
}  # fmt: skip
"""What counts as a file's ending where only the text tells: ``auth.service`` is a name, ``auth.py`` a file."""


def extension(path: str) -> str:
    """The path's ending with its dot (``.ts``), or ``""``: of its last part only, never the whole of a dotfile."""
    found = _EXTENSION.search(path)
    return found[0] if found else ""


def without_extension(path: str) -> str:
    """The path without its ending."""
    found = _EXTENSION.search(path)
    return path[: found.start()] if found else path


def slug(path: str) -> str:
    """GSD's id of a path: ``src/lib/db.ts`` → ``src-lib-db`` (A2). ``""`` for a path without letters and digits."""
    return _OTHER.sub("-", without_extension(path).lower()).strip("-")


def plain(text: str) -> str:
    """The slug of a text that is an id already: nothing is taken for an extension, any dialect's dashes are one."""
    return _OTHER.sub("-", text.lower()).strip("-")


def readings(text: str) -> Iterator[str]:
    """The slugs a text may stand for, the likeliest first: as an id, as a path, as the dialect ``a--b--C-tsx``."""
    found = plain(text)
    yield found
    if (as_path := slug(text)) != found:
        yield as_path
    stem, dash, ending = found.rpartition("-")
    if dash and f".{ending}" in ENDINGS:
        yield stem


def tails(found: str) -> Iterator[str]:
    """What the slug ends in, at its dashes, the longest first, itself left out: ``a-b-c`` → ``b-c``, ``c``."""
    at = found.find("-")
    while at >= 0:
        yield found[at + 1 :]
        at = found.find("-", at + 1)


def clean(path: str) -> str:
    """A project-relative path in its one form: ``/`` between parts, no ``./``; ``""`` if it leaves the project."""
    if "\0" in path or "\n" in path:
        return ""
    path = path.strip().replace("\\", "/")
    if not path or path[0] == "/" or (len(path) > 1 and path[1] == ":"):
        return ""
    if "//" in path or "./" in path or path.endswith(("/", "/.", "..", ".")):
        path = normpath(path)
    return "" if path in {".", ".."} or path.startswith("../") else path


def is_absolute(path: str) -> bool:
    r"""Whether the path is an absolute one of some machine: ``/home/x``, ``C:\x``."""
    return path.startswith(("/", "\\")) or (len(path) > 2 and path[1] == ":" and path[2] in "/\\")


def has_ending(path: str) -> bool:
    """Whether the text says by its ending that it is a file."""
    return extension(basename(path.replace("\\", "/"))).lower() in ENDINGS
