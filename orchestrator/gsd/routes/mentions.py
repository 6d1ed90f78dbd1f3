"""Where a word of a path is written outside of the routes that were read: what may serve it unseen. Pure.

The last net under a denial: an endpoint that no reader sees has its words in a string, a file's or directory's name,
or the name of a class, whatever framework serves it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from orchestrator.gsd.sources.code import LANGUAGES, Text, ending, words

MOST_PLACES = 3
_STRING = re.compile(r"\"([^\"\n]{1,300})\"|'([^'\n]{1,300})'|`([^`]{1,300})`|(?<![\w:]):([a-z]\w{1,60})\b")
_PIECE = re.compile(r"[A-Za-z0-9_~.-]{2,80}")
_PATH = re.compile(r"/[\w\-./:{}<>\[\]$*]{1,200}")
_BARE = re.compile(r"(?m)(?:^|[\s\"'=(,:])(/[\w\-./:{}<>\[\]$*]{1,200})")
_NAMED = re.compile(
    r"\b(?:class|def|func|fun|fn|function|const|object|module|defmodule|interface)\s{1,4}(?:\([^)\n]{0,80}\)\s{0,4})?[\w.]{0,80}?(?P<name>\w{2,80}?)"
    r"(?:Controller|ViewSet|View|Resource|Handler|Endpoint|Api|API|Router|Routes|Servlet|Resolver|Action|Page|_controller|_handler|_view|_router|_routes"
    r"|_api|_endpoint)s?\b"
)
_TELLING = re.compile(
    r"(?i)(?:openapi|swagger|routes?|routing|urls?|serverless|vercel|netlify|firebase|staticwebapp|gateway|nginx|caddy|_redirects|template|app\.ya?ml|\.proto"
    r"|web\.(?:xml|config)|ingress)"
)


def plain(word: str) -> str:
    """A word of a path as it is compared: in lower case, without separators, a file's ending or a plural's s."""
    bare = re.sub(r"\.(?:json|html?|xml|php|aspx?|jsp|do)$", "", word.lower())
    bare = re.sub(r"[^a-z0-9]", "", bare)
    return re.sub(r"(?:ies|y)$", "i", bare) if bare.endswith(("ies", "y")) else bare.rstrip("s") or bare


def in_source(text: Text) -> Iterator[tuple[str, int]]:
    """The words of a source file's strings that could be a path's, each with its line."""
    for found in _STRING.finditer(text.code):
        inner = found[1] or found[2] or found[3] or found[4] or ""
        line = 0
        for piece in _pieces(inner):
            line = line or text.line_of(found.start())
            yield piece, line


def _pieces(inner: str) -> Iterator[str]:
    # A sentence is no path; a path in one ("GET /users", a command line) is.
    parts = [inner] if not re.search(r"\s", inner.strip()) else _PATH.findall(inner)
    for part in parts:
        for piece in _PIECE.findall(part):
            if word := plain(piece):
                yield word


def in_names(text: Text) -> Iterator[tuple[str, int]]:
    """The words of classes and functions that are called like what serves (``UsersController``, ``user_view``)."""
    for found in _NAMED.finditer(text.code):
        parts = words(found["name"])
        line = text.line_of(found.start())
        for at in range(len(parts)):
            yield plain("".join(parts[at:])), line


def in_path(path: str) -> Iterator[str]:
    """The words of a file's own path: its directories and its name."""
    for part in path.split("/"):
        for piece in part.replace("$", ".").split("."):
            if word := plain(piece.strip("[]()+_@")):
                yield word


def in_data(path: str, data: str) -> Iterator[tuple[str, int]]:
    """The words of a file that is no source: of the paths in it, and of all of it where its name tells of routes."""
    number = 1
    told = is_telling(path)
    for line in data.split("\n"):
        for found in _BARE.findall(line[:20_000]):
            yield from ((word, number) for piece in _PIECE.findall(found) if (word := plain(piece)))
        if told:
            yield from ((word, number) for piece in _PIECE.findall(line[:2000]) if (word := plain(piece)))
        number += 1


def is_telling(path: str) -> bool:
    """Whether a file's name says that routes are written in it."""
    return bool(_TELLING.search(path))


_DOCS = frozenset({
    ".md", ".mdx", ".rst", ".txt", ".adoc", ".csv", ".tsv", ".log", ".svg", ".lock", ".map", ".snap", ".po", ".pot",
    ".ipynb", ".sum",
})  # fmt: skip


def may_tell(path: str) -> bool:
    """Whether a file that is no source may say what is served: configuration and data, not documents."""
    end = ending(path)
    return end not in LANGUAGES and end not in _DOCS
