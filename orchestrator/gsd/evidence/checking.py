"""Checks a plan's artifacts and key links against the source: exists, substantive, wired (A1). Reads only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.gsd.evidence import plan_pattern
from orchestrator.gsd.evidence.verify import artifact_status
from orchestrator.gsd.evidence.wiring import IMPORTED, uses, wired
from orchestrator.gsd.graph.protocol import Graph
from orchestrator.gsd.model import Artifact, KeyLink
from orchestrator.gsd.shown import at, prose
from orchestrator.gsd.sources.code import (
    LANGUAGES,
    LEAST,
    Text,
    definitions,
    ending,
    exported,
    exports,
    has_word,
    kind_of,
    stem,
    stubs,
)
from orchestrator.gsd.sources.text import Source

_SMALL = 60
"""Below so many lines of code a TODO says that the file itself is to be done."""


@dataclass(frozen=True)
class Checked:
    """What became of one artifact. A level is None where it cannot be told; ``evidence`` has the lines."""

    path: str
    exists: bool | None
    substantive: bool | None
    wired: bool | None
    issues: tuple[str, ...]
    evidence: tuple[dict[str, Any], ...]
    missing: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    line: int = 0

    @property
    def status(self) -> str:
        """MISSING, STUB, ORPHANED, VERIFIED or UNCERTAIN."""
        return artifact_status(self.exists, self.substantive, self.wired)

    def as_dict(self) -> dict[str, Any]:
        """Its wire form."""
        return {
            "path": self.path,
            "exists": self.exists,
            "substantive": self.substantive,
            "wired": self.wired,
            "status": self.status,
            "issues": [prose(issue) for issue in self.issues],
            **({"candidates": list(self.candidates)} if self.candidates else {}),
        }


def artifact(source: Source, graph: Graph, wanted: Artifact) -> Checked:
    """A file with what must be in it: least lines (the plan's, else by kind), a text it contains, names it exports.

    ``exists`` False means that nothing lies at that path; files of the same name elsewhere are ``candidates``.
    """
    try:
        path = source.relative(wanted.path)
    except BadRequest:
        return Checked(wanted.path, None, None, None, ("the path leaves the project",), ())
    if path.startswith(("~", "$")):
        return Checked(path, None, None, None, ("the path lies outside of the project",), ())
    if any(mark in path for mark in "*?{"):
        return Checked(path, None, None, None, ("the path is a pattern, not a file",), ())
    what = source.what(path)
    if what == "none":
        return Checked(
            path, False, False, False, ("no such file",), (), missing=(path,), candidates=namesakes(source, path)
        )
    if what != "file":
        found = True if what == "directory" else None
        issue = "a directory" if found else "behind a link, or not readable"
        return Checked(path, found, None, None, (issue,), ())
    text = source.text(path)
    if text is None:
        return Checked(
            path, True, None, None, ("binary, too large, or not readable: its text was not looked at",), ()
        )
    return _content(source, graph, wanted, text)


def namesakes(source: Source, path: str) -> tuple[str, ...]:
    """Other files of the same name, the nearest places first, at most five."""
    name = path.rpartition("/")[2]
    parts = set(path.split("/"))
    found = [other for other in source.listing if other.rpartition("/")[2] == name and other != path]
    return tuple(sorted(found, key=lambda other: (-len(parts & set(other.split("/"))), other))[:5])


def _content(source: Source, graph: Graph, wanted: Artifact, text: Text) -> Checked:
    located = graph.locate(text.path).node
    least = wanted.min_lines or LEAST[kind_of(text.path, located.type if located is not None else "")]
    issues: list[str] = []
    evidence: list[dict[str, Any]] = []
    missing: list[str] = []
    sound: list[bool | None] = [True]
    length = text.length if wanted.min_lines else text.lines
    if length < least:
        sound.append(False)
        issues.append(f"{length} lines{'' if wanted.min_lines else ' of code'}, fewer than {least}")
    names = definitions(text)
    first = min(names.values(), default=_first_line(text))
    for found in [
        *(export_of(text, name) for name in wanted.exports),
        *(_holds(text, demanded) for demanded in filter(None, dict.fromkeys([wanted.contains, *wanted.also]))),
    ]:
        sound.append(found.holds)
        issues += [found.issue] if found.issue else []
        missing += [found.missing] if found.missing else []
        if found.line:
            evidence.append(at(text.path, found.line, text.line(found.line)))
    bad = _stubbed(text)
    for line, what, _ in bad[:5]:
        issues.append(f"{what} at line {line}")
        evidence.append(at(text.path, line, text.line(line)))
    sound.append(not any(grave for _, _, grave in bad))
    substantive = False if False in sound else None if None in sound else True
    if not evidence and first:
        evidence.append(at(text.path, first, text.line(first)))
    use = wired(source, text)
    if use.used is not True:
        issues.append(use.why)
    return Checked(
        text.path,
        True,
        substantive,
        use.used,
        tuple(issues),
        (*evidence[:6], *use.evidence),
        tuple(missing),
        line=first,
    )


@dataclass(frozen=True)
class Held:
    """What became of one thing that a file must have; ``holds`` None: named, but not proven; ``issue``: why."""

    holds: bool | None
    line: int = 0
    issue: str = ""
    missing: str = ""


def export_of(text: Text, name: str) -> Held:
    """A name that a file must export: only an export counts, neither a use of it nor a text that has it."""
    bare = re.match(r"[\w$.]{1,120}", name.strip("`\"' "))
    last = bare[0].rstrip(".").rpartition(".")[2] if bare else name
    open_to_others, own = exports(text), definitions(text)
    if open_to_others is not None and last in open_to_others:
        return Held(True, open_to_others[last])
    if last in own:
        if open_to_others is None and (ending(text.path) in _BY_FILE or last in exported(text)):
            return Held(True, own[last])
        return Held(None, own[last], f"defines {last}, and no export of it was recognised")
    offset = has_word(text.code, last)
    if offset >= 0:
        line = text.line_of(offset)
        return Held(None, line, f"names {last} at line {line}, and no definition of it was recognised")
    passes = _REEXPORT if open_to_others is None else _PASSES.get(ending(text.path))
    if passes is not None and passes.search(text.code):
        return Held(None, 0, f"may pass {last} on from another file")
    return Held(False, 0, f"does not export {name}", f"{name} of {text.path}")


_BY_FILE = frozenset({".svelte", ".vue", ".astro"})
_REEXPORT = re.compile(r"\bexport\s{0,4}\*|\bmodule\.exports\s{0,4}=|\bimport\s{1,4}\*")
_PASSES = {
    ".py": re.compile(r"\bimport\s{1,4}\*|\bdef\s{1,4}__getattr__\b|\bglobals\s{0,4}\("),
    ".rs": re.compile(r"\buse\b[^;]{0,200}::\s{0,4}\*|\bmacro_rules!"),
}
"""Where a file of a language in which every definition is open may have names that are not written in it."""
_PROGRAM = re.compile(
    r"^(?:export|import|async|class|function|def|interface|type|const|let|fn|func|struct|enum|model|return|await|pub|use)\s|\w\(|\w\.\w+\b(?!/)|[;{}]|=>"
)


def _holds(text: Text, demanded: str) -> Held:
    """A text that a file must contain, outside of comments; what is program must stand outside of strings as well."""
    places = [found.start() for found in re.finditer(re.escape(demanded), text.code)][:200]
    if not places:
        where = "only in a comment" if demanded in text.raw else "nowhere"
        return Held(False, 0, f"contains {demanded!r} {where}")
    outside = next((at for at in places if not text.bare[at : at + len(demanded)].isspace()), None)
    if outside is None and _PROGRAM.search(demanded):
        return Held(None, text.line_of(places[0]), f"contains {demanded!r} only in a string")
    return Held(True, text.line_of(places[0] if outside is None else outside))


def _stubbed(text: Text) -> list[tuple[int, str, bool]]:
    """The signs of a stub with whether they make the file one.

    Grave ones always do. Others do in a small file: a TODO below 60 lines of code; empty bodies and returns where
    they are a fifth of the code. In a larger file they are told as issues: working code has them as well.
    """
    found = stubs(text)
    size = text.lines
    empty = sum(1 for stub in found if stub.what in {"empty return", "pass", "..."})
    return [
        (
            stub.line,
            stub.what,
            stub.grave or (empty * 5 >= size if stub.what in {"empty return", "pass", "..."} else size < _SMALL),
        )
        for stub in found
    ]


def _first_line(text: Text) -> int:
    return next((n for n, line in enumerate(text.code.split("\n"), 1) if line.strip()), 0)


@dataclass(frozen=True)
class Linked:
    """What became of one key link; None: which files it means cannot be told."""

    link: KeyLink
    verified: bool | None
    detail: str
    evidence: tuple[dict[str, Any], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Its wire form (A1)."""
        return {
            "from": self.link.source,
            "to": self.link.target,
            "via": prose(self.link.via),
            "verified": self.verified,
            "detail": prose(self.detail),
        }


def key_link(source: Source, link: KeyLink) -> Linked:
    """A link's pattern in its source, then in its target; without one the source must import or name the target.

    Comments do not count, and an import alone is no use. A target that is a file must be there. A source that is only
    a name (``+page.svelte``) is looked for in the whole project.
    """
    origin, why = _file(source, link.source)
    if origin is None:
        return Linked(link, None if why else False, why or f"{link.source} is not there")
    text = source.text(origin)
    if text is None:
        return Linked(link, None, f"{origin} cannot be read")
    target, unclear = _file(source, link.target)
    if target is None and not unclear and ending(link.target) in LANGUAGES:
        return Linked(link, False, f"{link.target} is not there")
    if link.pattern:
        return _by_pattern(link, text, source.text(target) if target and target != origin else None)
    return _by_name(link, text, target)


def _by_pattern(link: KeyLink, text: Text, target: Text | None) -> Linked:
    pattern = plan_pattern.safe(link.pattern)
    note = f" ({pattern.note})" if pattern.note else ""
    if pattern.found(""):
        return Linked(link, None, "the pattern is found in any text")
    about_imports = re.search(r"import|require|from|use ", link.pattern)
    imported: Linked | None = None
    for place in (text, target):
        for line in _matching_lines(place, pattern) if place is not None else ():
            assert place is not None
            shown = (at(place.path, line, place.line(line)),)
            if about_imports or not _IMPORT_LINE.match(place.line(line)):
                return Linked(link, True, f"pattern found in {place.path}{note}", shown)
            imported = imported or Linked(
                link, None, f"pattern found in {place.path} only where it is imported", shown
            )
    if imported is not None:
        return imported
    # A pattern that was searched as literal text, or that spans lines, may hold although no line has it.
    return Linked(link, None if note else False, f"pattern found neither in {text.path} nor in its target{note}")


def _by_name(link: KeyLink, text: Text, target: str | None) -> Linked:
    if target is not None and ending(target) in IMPORTED:
        used = uses(text, target)
        if used is not None and used.used is not None:
            return Linked(link, True if used.used else None, f"{text.path}: {used.why}", used.evidence)
    whole = has_word(text.code, link.target)
    if whole >= 0:
        line = text.line_of(whole)
        return Linked(link, True, f"{text.path} names {link.target}", (at(text.path, line, text.line(line)),))
    for name in dict.fromkeys([link.target.rpartition("/")[2], stem(link.target)]):
        offset = has_word(text.code, name) if name else -1
        if offset >= 0:
            line = text.line_of(offset)
            shown = (at(text.path, line, text.line(line)),)
            return Linked(link, None, f"{text.path} names {name}, which may be something else", shown)
    return Linked(link, False, f"{text.path} does not name {link.target}")


_IMPORT_LINE = re.compile(
    r"^\s{0,80}(?:import\b|from\s{1,4}[\w.]+\s{1,4}import\b|export\b[^=(]{0,200}\bfrom\b|(?:pub\s{1,4})?use\s"
    r"|(?:const|let|var)\b[^=]{1,200}=\s{0,4}require\s{0,4}\(|#include\b|require\b"
    r"|\}\s{0,4}from\b)"
)


def _matching_lines(text: Text, pattern: plan_pattern.Pattern) -> list[int]:
    return [n for n, line in enumerate(text.code.split("\n"), 1) if pattern.found(line)][:200]


def _file(source: Source, name: str) -> tuple[str | None, str]:
    """The file a link's end means, or None and, when it could be some file, why it cannot be told which."""
    try:
        path = source.relative(name)
    except BadRequest:
        return None, "it names no file of the project"
    what = source.what(path)
    if what == "file":
        return path, ""
    if what == "unknown":
        return None, f"{path} is behind a link, or not readable"
    found = [other for other in source.listing if other.endswith(f"/{path}")]
    if len(found) == 1:
        return found[0], ""
    if found:
        return None, f"{path} could be any of {len(found)} files"
    return None, "" if ending(path) and source.complete else f"{path} names no file"
