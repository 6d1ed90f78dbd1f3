"""The answer of ``gsd_codebase_patterns``: what a codebase does again and again, by code and planning. Reads only."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.model import Planning
from orchestrator.gsd.ranked.code_families import Family, families
from orchestrator.gsd.ranked.ranking import Sentence, bare, sentences, stems
from orchestrator.gsd.shown import asked, at, prose
from orchestrator.gsd.sources.text import Source

BEST = 15
_PAGES = ("CONVENTIONS", "TESTING", "ARCHITECTURE", "STRUCTURE", "STACK")
_FILES = 8
_DEEP = 4
_SAME = 0.8
_CONVENTIONS = 2000
"""So many of a file of conventions are looked at; no real one has more than some dozens."""
_COMPARED = 2000
_TOLD = 200
"""So many of the best are looked at for such as say the same, and each is held against so many others."""
_WEAK = 0.3
# Words that fit a row of conventions by what it is, not by what it is about.
_GENERIC = "file files class classes test tests directory directories naming name function module"
_GENERAL = "pattern convention style codebase code structure architecture general all common use"


@dataclass(frozen=True)
class Pattern:
    """A pattern with how often it was met; ``match`` is how much of the question it has (0..1)."""

    name: str
    frequency: int
    source: str
    match: float
    example: dict[str, Any] | None = None
    files: tuple[str, ...] = ()
    text: str = ""


def codebase_patterns(snapshot: Snapshot, *, query: str, include_examples: bool = True) -> dict[str, Any]:
    """The patterns of a codebase that fit a question (B3.15), at most 15, deterministic in order.

    ``{patterns: [{name, frequency, source, text?, example: {file, line, code}?, files?}], recommendation, query,
    searched}``. ``source``: ``code`` (families of names, file names and imports, known constructs), ``conventions``
    (the intel store's), ``summaries`` (patterns that past plans established; frequency: in how many), or the path
    of a `.planning/codebase/` page. Examples are real lines. BadRequest ``bad_argument``.
    """
    text = asked(query, "query")
    source = Source(snapshot.root)
    found = collect(snapshot, source, text)
    return {
        "patterns": [_shown(one, include_examples) for one in found[:BEST]],
        "total": len(found),
        "recommendation": _recommendation(found, text),
        "query": text,
        "searched": source.searched,
    }


def collect(snapshot: Snapshot, source: Source, query: str, *, code: bool = True) -> list[Pattern]:
    """Every pattern that fits the question, best first; ``code`` False leaves the source alone."""
    (wanted,) = sentences([query])
    wanted = _telling(wanted)
    said = [
        *islice(_of_conventions(snapshot.intel.conventions), _CONVENTIONS),
        *_of_summaries(snapshot.planning),
        *_of_pages(snapshot, source),
    ]
    every = _fitting(wanted, said)
    if code:
        every += [_of_code(one) for one in families(source, wanted.stems)]
    if not every and not wanted.stems:
        every = [replace(one, match=0.5) for one, _ in said]
    every.sort(key=lambda one: (-one.match, -one.frequency, one.source, one.name))
    return _merged(list({(one.source, one.name): one for one in reversed(every)}.values())[::-1])


def _merged(every: list[Pattern]) -> list[Pattern]:
    """Patterns of summaries that say nearly the same as one: the better one's words, the files of all."""
    kept: list[Pattern] = []
    told: list[tuple[int, frozenset[str]]] = []
    compared = every[:_COMPARED]
    known = sentences([one.name if one.source == "summaries" else "" for one in compared])
    for one, sentence in zip(compared, known, strict=True):
        own = frozenset(sentence.stems)
        same = next((at for at, other in told if own and len(own & other) >= _SAME * len(own | other)), None)
        if same is None:
            if own and len(told) < _TOLD:
                told.append((len(kept), own))
            kept.append(one)
        else:
            files = tuple(dict.fromkeys([*kept[same].files, *one.files]))[:_FILES]
            kept[same] = replace(kept[same], frequency=kept[same].frequency + one.frequency, files=files)
    return kept + every[_COMPARED:]


def _telling(wanted: Sentence) -> Sentence:
    kept = tuple(stem for stem in wanted.stems if stem not in stems(_GENERAL))
    return replace(wanted, stems=kept)


def _fitting(wanted: Sentence, said: list[tuple[Pattern, str]]) -> list[Pattern]:
    if not wanted.stems:
        return []
    known = sentences([text for _, text in said])
    found = []
    for (pattern, _), sentence in zip(said, known, strict=True):
        shared = set(wanted.stems) & set(sentence.stems)
        part = len(shared) / len(wanted.stems)
        if pattern.source == "conventions" and len(wanted.stems) > 1 and shared <= stems(_GENERIC):
            part = min(part, _WEAK)
        if part > 0 and part >= _WEAK:
            found.append(replace(pattern, match=round(part, 2)))
    return found


def _of_conventions(conventions: Mapping[str, Any]) -> Iterator[tuple[Pattern, str]]:
    """GSD's own keys, and whatever a hand-made file says, as far as it is words."""
    naming = conventions.get("naming")
    for key, value in naming.items() if isinstance(naming, Mapping) else ():
        if isinstance(value, Mapping) and value.get("dominant"):
            share = f", {value['percentage']} %" if value.get("percentage") is not None else ""
            name = f"{value['dominant']} for {key}{share}"
            yield (
                Pattern(prose(name, 120), _number(value.get("count")), "conventions", 0),
                f"naming convention {key} {name}",
            )
        elif isinstance(value, str):
            yield Pattern(prose(f"{value} for {key}", 120), 1, "conventions", 0), f"naming convention {key} {value}"
    for kind in ("directories", "suffixes"):
        entries = conventions.get(kind)
        for key, value in list(entries.items())[:200] if isinstance(entries, Mapping) else ():
            told = value if isinstance(value, Mapping) else {"purpose": value}
            count = _number(told.get("files") or told.get("count"))
            name = f"{key}/" if kind == "directories" else f"*{key}*"
            purpose = str(told.get("purpose") or "")
            yield Pattern(prose(f"{name}: {purpose}", 120), count, "conventions", 0), f"{kind} {key} {purpose}"
    for key, value in conventions.items():
        if key not in {"version", "updated", "naming", "directories", "suffixes", "generated", "project"}:
            for name, text in _leaves(str(key), value):
                yield Pattern(prose(name, 120), 1, "conventions", 0, text=prose(text)), f"{name} {text}"


def _leaves(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, list):
        yield name, ", ".join(str(one)[:100] for one in value[:20] if isinstance(one, str | int | float))
    elif isinstance(value, Mapping) and depth < _DEEP:
        for key, inner in list(value.items())[:100]:
            yield from _leaves(f"{name}: {key}", inner, depth + 1)


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 1


def _of_summaries(planning: Planning | None) -> Iterator[tuple[Pattern, str]]:
    where: dict[str, list[str]] = defaultdict(list)
    texts: dict[str, str] = {}
    for phase in [*planning.past, *planning.phases] if planning is not None else ():
        every = {
            one.file: one for one in [*(p.summary for p in phase.plans if p.summary is not None), *phase.summaries]
        }
        for summary in every.values():
            for text in dict.fromkeys(bare(one) for one in summary.patterns):
                key = " ".join(text.lower().split())
                if key:
                    texts.setdefault(key, text)
                    where[key].append(summary.file)
    for key, files in where.items():
        yield Pattern(prose(texts[key], 160), len(files), "summaries", 0, files=tuple(files[:_FILES])), texts[key]


def _of_pages(snapshot: Snapshot, source: Source) -> Iterator[tuple[Pattern, str]]:
    """The sections of `.planning/codebase/*.md`, which map-codebase writes."""
    if snapshot.planning is None:
        return
    for page in _PAGES:
        path = f"{snapshot.planning.directory}/codebase/{page}.md"
        text = source.text(path)
        head, line, body = "", 0, list[str]()
        for number, raw in enumerate([*text.raw.split("\n"), "## "] if text is not None else [], 1):
            found = re.match(r"#{2,3}(?:\s|$)(.{0,200})", raw)
            if found is None:
                body.append(raw)
                continue
            if head and any(one.strip() for one in body):
                told = " ".join(one.strip() for one in body if one.strip() and not one.startswith("```"))
                pattern = Pattern(prose(head, 120), 1, path, 0, at(path, line, f"## {head}"), text=prose(told))
                yield pattern, f"{head} {told[:1500]}"
            head, line, body = found[1].strip(), number, []


def _of_code(one: Family) -> Pattern:
    return Pattern(one.name, one.frequency, "code", one.match, one.example, one.files)


def _shown(one: Pattern, examples: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": one.name, "frequency": one.frequency, "source": one.source}
    if one.text:
        shown["text"] = one.text
    if examples and one.example is not None:
        shown["example"] = one.example
    if one.files:
        shown["files"] = list(one.files[:_FILES])
    return shown


def _recommendation(found: list[Pattern], query: str) -> str:
    if not found:
        return f"Neither code nor planning shows a pattern for {prose(query, 80)!r}: choose one, and write it down."
    best = found[0]
    where = Counter(one.source for one in found[:BEST])
    said = f"Follow {best.name!r}, met {best.frequency} times" if best.frequency > 1 else f"Follow {best.name!r}"
    if best.example is not None:
        said += f"; {best.example['file']}:{best.example['line']} shows it"
    if best.text:
        said += f": {prose(best.text, 160)}"
    return said.removesuffix(".") + (
        ". Past phases settled some of this: see those of source 'summaries'." if where["summaries"] else "."
    )
