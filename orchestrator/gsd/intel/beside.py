"""What the intel store says beside the graph: conventions, summary, endpoints. Reads only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.gsd.intel import files as intel_source
from orchestrator.gsd.intel.files import Unreadable, relative
from orchestrator.gsd.intel.index_json import entries
from orchestrator.gsd.model import Trouble

MAX_JSON = 16 << 20
MAX_TEXT = 1 << 20
CONVENTIONS = ("conventions.json",)
SUMMARIES = ("summary.md", "arch.md")
APIS = ("apis.json", "api-map.json")
STACK = ("stack.json", "arch-decisions.json")

DEEP = 100
"""Conventions are answered as they are written, and what writes JSON gives up at some 250 levels."""


@dataclass
class Beside:
    """What was found; each with the project-relative path it came from."""

    conventions: Mapping[str, Any] = field(default_factory=dict)
    conventions_from: str = ""
    summary: str = ""
    summary_from: str = ""
    apis: Mapping[str, Any] = field(default_factory=dict)
    found: dict[str, int] = field(default_factory=dict)  # files read: 1; for endpoints and stack, how many entries
    troubles: list[Trouble] = field(default_factory=list)


def read(root: Path, intel: Path) -> Beside:
    """All of them, from the directory of the intel store."""
    beside = Beside()
    for name in CONVENTIONS:
        value = intel_source.json(root, intel / name, MAX_JSON, beside.troubles)
        if isinstance(value, dict) and _too_deep(value):
            what = f"is nested deeper than {DEEP} levels"
            beside.troubles.append(Trouble(relative(root, intel / name), 0, what, "unreadable"))
        elif isinstance(value, dict):
            beside.conventions, beside.conventions_from = value, relative(root, intel / name)
            beside.found[name] = 1
        elif value is not None:
            beside.troubles.append(Trouble(relative(root, intel / name), 0, "is no JSON object", "unreadable"))
    for name in SUMMARIES:
        text = _text(root, intel / name, beside.troubles)
        if text is not None:
            beside.found[name] = 1
            if not beside.summary:
                beside.summary, beside.summary_from = text, relative(root, intel / name)
    apis: dict[str, Any] = {}
    for name in (*APIS, *STACK):
        value = intel_source.json(root, intel / name, MAX_JSON, beside.troubles)
        found = entries(value)
        if found is not None:
            beside.found[name] = len(found)
            if name in APIS:
                apis = {**found, **apis}
        elif value is not None:
            beside.troubles.append(Trouble(relative(root, intel / name), 0, "has no object of entries", "unreadable"))
    beside.apis = apis
    return beside


def _too_deep(value: object) -> bool:
    level = [value]
    for _ in range(DEEP):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)


def _text(root: Path, path: Path, troubles: list[Trouble]) -> str | None:
    try:
        content = intel_source.read(root, path, MAX_TEXT)
    except Unreadable as error:
        troubles.append(Trouble(relative(root, path), 0, error.what, "unreadable"))
        return None
    return None if content is None else content.data.decode(errors="replace").replace("\r\n", "\n")
