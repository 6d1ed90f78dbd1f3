"""How a project names and places its code: ``conventions.json`` and ``summary.md`` as GSD has them (A2). Pure.

``conventions.json`` is of version 1 as GSD's own tools write it, so that whatever reads theirs reads ours. Beyond it
goes ``naming_by_language``: the case of functions, classes, types and values, each for itself, for in Python these
differ on purpose and together dominate nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from orchestrator.gsd.model import FileFacts

LEAST = 5
"""So many names must be of some known case before one is called dominant; so many files before a suffix is one."""
DOMINANT = 70
"""Percent of them."""
DIRECTORIES = {
    "components": "UI components", "hooks": "Hooks", "utils": "Utility functions", "lib": "Library code",
    "services": "Service layer", "api": "API layer", "routes": "Route definitions", "types": "Type definitions",
    "models": "Data models", "tests": "Test files", "__tests__": "Test files", "test": "Test files",
    "spec": "Test files", "controllers": "Controllers", "middleware": "Middleware", "config": "Configuration",
    "constants": "Constants", "assets": "Static assets", "styles": "Stylesheets", "pages": "Pages", "views": "Views",
}  # fmt: skip
SUFFIXES = {
    "test": "Test files", "spec": "Test files", "config": "Configuration", "d": "Type declarations",
    "stories": "Component stories", "service": "Service layer", "module": "Modules", "types": "Type definitions",
    "svelte": "Svelte state modules", "server": "Server side", "client": "Client side", "model": "Data models",
    "schema": "Schemas", "controller": "Controllers", "component": "UI components", "hook": "Hooks",
    "mock": "Test doubles", "e2e": "Test files", "util": "Utility functions", "utils": "Utility functions",
}  # fmt: skip
_SUFFIX = re.compile(r"\.([a-z]+)\.(js|ts|jsx|tsx|mjs|cjs)$")
_CASES = (
    ("SCREAMING_SNAKE", re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")),
    ("snake_case", re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")),
    ("kebab-case", re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+")),
    ("PascalCase", re.compile(r"[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)*")),
    ("camelCase", re.compile(r"[a-z][a-z0-9]*(?:[A-Z][a-z0-9]+)*")),
    ("SCREAMING_SNAKE", re.compile(r"[A-Z][A-Z0-9]+")),
)
_KINDS = {"f": "functions", "c": "classes", "t": "types", "v": "values"}
_WORD = re.compile(r"[a-z][a-z0-9]*")
_HOTSPOTS = 5
_UPDATED = re.compile(r"\*\*Last updated:\*\* [^\n]*")


@dataclass(frozen=True)
class Named:
    """What counts of a file: its facts and the kind of each export (`source`)."""

    facts: FileFacts
    kinds: str


def case_of(name: str) -> str:
    """The case of a name by A2's rules; ``""`` for one that has none of them.

    One lower-case word is camelCase, one of capitals SCREAMING_SNAKE.
    """
    return next((case for case, form in _CASES if form.fullmatch(name)), "")


def conventions(files: Iterable[Named], at: datetime) -> dict[str, Any]:
    """What ``conventions.json`` says; ``updated`` are milliseconds since 1970."""
    every: list[str] = []
    by_language: dict[str, dict[str, list[str]]] = {}
    directories: Counter[str] = Counter()
    suffixes: Counter[tuple[str, str]] = Counter()
    for file in files:
        facts = file.facts
        *parts, name = facts.path.split("/")
        directories.update({part for part in parts if part in DIRECTORIES})
        if found := _SUFFIX.search(name):
            suffixes[found[0], found[1]] += 1
        every += facts.exports
        for export, kind in zip(facts.exports, file.kinds, strict=False):
            if kind in _KINDS:
                # One word is no camelCase where the rest is snake_case.
                name = f"{export}_x" if facts.language == "python" and _WORD.fullmatch(export) else export
                by_language.setdefault(facts.language, {}).setdefault(_KINDS[kind], []).append(name)
    exports = _dominant(every)
    naming = {
        language: {kind: told for kind, names in sorted(kinds.items()) if (told := _dominant(names))}
        for language, kinds in sorted(by_language.items())
    }
    return {
        "version": 1,
        "updated": int(at.timestamp() * 1000),
        "naming": {"exports": exports} if exports else {},
        "directories": {part: {"purpose": DIRECTORIES[part], "files": count} for part, count in _ranked(directories)},
        "suffixes": {
            suffix: {"purpose": SUFFIXES.get(word, f"{word.capitalize()} files"), "count": count}
            for (suffix, word), count in _ranked(suffixes)
            if count >= LEAST
        },
        "naming_by_language": {language: kinds for language, kinds in naming.items() if kinds},
    }


def _ranked(counted: Counter[Any]) -> list[tuple[Any, int]]:
    return sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))


def _dominant(names: Iterable[str]) -> dict[str, Any]:
    """``{dominant, count, percentage}`` when one case is; ``{}`` otherwise. ``default`` is nobody's choice."""
    cases = Counter(case for name in names if name != "default" and (case := case_of(name)))
    total = cases.total()
    if total < LEAST:
        return {}
    case, count = _ranked(cases)[0]
    percentage = round(count * 100 / total)
    return {"dominant": case, "count": count, "percentage": percentage} if count * 100 >= DOMINANT * total else {}


def dump(told: Mapping[str, Any], before: str) -> str:
    """Its JSON; the text there was ``before`` when nothing but the time differs."""
    with_time = orjson.dumps(told, option=orjson.OPT_INDENT_2).decode()
    try:
        old = orjson.loads(before)
    except orjson.JSONDecodeError:
        return with_time
    if isinstance(old, dict) and {**old, "updated": 0} == {**told, "updated": 0}:
        return before
    return with_time


def summary(files: Iterable[FileFacts], at: datetime, before: str) -> str:
    """``summary.md`` in the form of GSD's graph: entities, hotspots, types, relationships; at most some 500 tokens.

    The text there was ``before`` when nothing but the date differs.
    """
    types: Counter[str] = Counter()
    dependents: Counter[str] = Counter()
    kind: dict[str, str] = {}
    edges = 0
    for facts in files:
        types[facts.type] += 1
        kind[facts.path] = facts.type
        dependents.update(facts.imports)
        edges += len(facts.imports)
    lines = ["# Codebase Intelligence", "", f"**Indexed entities:** {types.total()}"]
    lines += [f"**Last updated:** {at:%Y-%m-%d}", ""]
    hot = _ranked(dependents)[:_HOTSPOTS]
    if hot:
        lines += ["## Dependency Hotspots", "", "Files with most dependents (change carefully):"]
        lines += [f"1. `{_shown(path)}` ({count} dependents) [{kind.get(path, 'module')}]" for path, count in hot]
        lines.append("")
    if types:
        lines += ["## Module Types", ""]
        lines += [f"- **{name.capitalize()}**: {count} files" for name, count in _ranked(types)]
        lines.append("")
    lines += [f"**Relationships tracked:** {edges}", ""]
    text = "\n".join(lines)
    return before if _UPDATED.sub("", before, count=1) == _UPDATED.sub("", text, count=1) else text


def _shown(path: str) -> str:
    """A path as a line of Markdown can carry it, and not longer than an answer should be."""
    clean = "".join(char if char.isprintable() and char != "`" else "?" for char in path)
    return clean if len(clean) <= 200 else "…" + clean[-199:]
