"""The conventions of a project in one form, from every form in which they are written (A2). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TYPES = ("all", "naming", "directories", "suffixes", "imports", "errors")
_KEYS = {
    "naming": ("naming", "naming_conventions"),
    "directories": ("directories", "directory_patterns", "directory_structure"),
    "suffixes": ("suffixes", "file_patterns", "file_suffixes"),
    "imports": ("imports", "import_patterns", "import_conventions"),
    "errors": ("errors", "error_handling", "error_patterns"),
}
_HEAD = frozenset({"version", "updated", "generated", "project", "language"})


def normalise(raw: Mapping[str, Any]) -> dict[str, Any]:
    """``naming, directories, suffixes, imports, errors`` and ``other``; each an object, empty where nothing is said.

    What a directory or a suffix is for stands in ``purpose``, with ``files`` (how many) where that is known: GSD's
    own form (``directories: {lib: {purpose, files}}``) and the hand-made one (``directory_patterns: {"src/": "…"}``).
    """
    found: dict[str, Any] = {}
    used = set(_HEAD)
    for name, keys in _KEYS.items():
        merged: dict[str, Any] = {}
        for key in keys:
            value = raw.get(key)
            if value is None:
                continue
            used.add(key)
            merged |= value if isinstance(value, Mapping) else {key: value}
        found[name] = {key: _entry(value) for key, value in merged.items()} if name in _COUNTED else merged
    found["other"] = {key: value for key, value in raw.items() if key not in used}
    return found


_COUNTED = frozenset({"directories", "suffixes"})


def within(directories: Mapping[str, Any], wanted: str) -> dict[str, Any]:
    """Those that say something of a directory: the directory itself, one above or below it, or a part of its path."""
    wanted = wanted.strip().replace("\\", "/").removeprefix("./").strip("/").lower()
    parts = set(wanted.split("/"))
    found = {}
    for name, entry in directories.items():
        low = name.strip("/").lower()
        if low == wanted or low in parts or low.startswith(f"{wanted}/") or wanted.startswith(f"{low}/"):
            found[name] = entry
    return found


def _entry(value: object) -> dict[str, Any]:
    if isinstance(value, Mapping):
        entry = dict(value)
        if "files" not in entry and isinstance(entry.get("count"), int):
            entry["files"] = entry.pop("count")
        return entry
    return {"purpose": value if isinstance(value, str) else str(value)}
