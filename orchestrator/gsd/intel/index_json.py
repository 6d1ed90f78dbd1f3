"""Reading what GSD indexed of source files: ``index.json`` of v1, ``files.json`` and its kin of v3. Reads only."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator.base.clock import rfc3339
from orchestrator.gsd.graph import said
from orchestrator.gsd.graph.foreign import Roots
from orchestrator.gsd.graph.said import Said, Told
from orchestrator.gsd.intel import files as intel_source
from orchestrator.gsd.intel.files import relative
from orchestrator.gsd.intel.import_names import Names
from orchestrator.gsd.model import Trouble

MAX_BYTES = 256 << 20
MAX_FILES = 500_000


def read(root: Path, path: Path) -> Told:
    """The files of ``index.json``: by absolute path of any machine or by relative path, with what they import."""
    told = Told()
    value = intel_source.json(root, path, MAX_BYTES, told.troubles)
    if value is None:
        return told
    where = relative(root, path)
    files = value.get("files") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(files, dict):
        told.troubles.append(Trouble(where, 0, "has no object of files", "unreadable"))
        return told
    told.updated = moment(value.get("updated") or value.get("generated"))
    _fill(told, root, (where, "index.json"), files, said.text(value.get("project")))
    return told


def read_v3(root: Path, files: Path, deps: Path | None) -> Told:
    """The files of v3's ``files.json`` (or ``file-roles.json``), and the files its dependency graph has edges for."""
    told = Told()
    value = intel_source.json(root, files, MAX_BYTES, told.troubles)
    found = entries(value)
    if value is not None and found is None:
        told.troubles.append(Trouble(relative(root, files), 0, "has no object of entries", "unreadable"))
    if isinstance(value, dict) and isinstance(meta := value.get("_meta"), dict):
        told.updated = moment(meta.get("updated_at"))
    merged: dict[str, Any] = dict(found or {})
    if deps is not None:
        value = intel_source.json(root, deps, MAX_BYTES, told.troubles)
        edges = entries(value) or {}
        if value is not None and entries(value) is None:
            told.troubles.append(Trouble(relative(root, deps), 0, "has no object of entries", "unreadable"))
        told.facts["packages"] = sum(1 for key in edges if "/" not in key or key.startswith("@"))
        for key, entry in edges.items():
            ends = next((each for name in ("imports", "depends_on", "dependencies")
                         if isinstance(entry, dict) and isinstance(each := entry.get(name), list)), None)  # fmt: skip
            if ends is not None and key in merged and isinstance(merged[key], dict):
                own = merged[key].get("imports")
                merged[key] = {**merged[key], "imports": [*(own if isinstance(own, list) else ()), *ends]}
    _fill(told, root, (relative(root, files), "files.json"), merged, "")
    return told


def entries(value: object) -> dict[str, Any] | None:
    """The entries of a v3 file: below ``entries``, or the object itself without its ``_meta``."""
    if not isinstance(value, dict):
        return None
    found = value.get("entries", value)
    return {key: each for key, each in found.items() if key != "_meta"} if isinstance(found, dict) else None


def moment(value: object) -> str:
    """A date as RFC 3339, or as written where it is a text of its own; ``""`` where there is none."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e14:
        return rfc3339(datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC))
    return said.text(value, 60)


def _fill(told: Told, root: Path, what: tuple[str, str], files: dict[str, Any], project: str) -> None:
    where, source = what
    roots = Roots(root, files)
    told.facts["roots"] = roots.known
    found: dict[str, dict[str, Any]] = {}
    bad = outside = 0
    for key, entry in files.items():
        path = roots.relative(said.text(key)) if len(key) <= said.MAX_NAME else ""
        if not path:
            outside += 1
        elif not isinstance(entry, dict):
            bad += 1
        elif path in found:  # of two machines, say: the one that looked last knows what is there
            found[path] = max(entry, found[path], key=_indexed)
        elif len(found) < MAX_FILES:
            found[path] = entry
    if len(files) > MAX_FILES:
        told.troubles.append(Trouble(where, 0, f"has more than {MAX_FILES:,} files; the rest was left out"))
    if outside:
        told.troubles.append(Trouble(where, 0, f"{outside} paths are not of this project, as far as can be told"))
    if bad:
        told.troubles.append(Trouble(where, 0, f"{bad} files have no object for what is known of them"))
    names = Names(found.keys(), project or root.name)
    for path, entry in found.items():
        purpose = entry.get("purpose") or entry.get("description") or entry.get("summary")
        told.files[path] = Said(
            source, "", path, said.text(purpose, said.MAX_PURPOSE), said.text(entry.get("type"), 60).lower(),
            said.exports(entry.get("exports")), "", _targets(names, path, entry.get("imports")), by_path=True,
        )  # fmt: skip


def _indexed(entry: dict[str, Any]) -> float:
    when = entry.get("indexed")
    return float(when) if isinstance(when, int | float) else 0.0


def _targets(names: Names, path: str, imports: object) -> tuple[str, ...]:
    found: Iterable[str | None] = (names.resolve(path, each) for each in said.texts(imports, said.MAX_TARGETS))
    return tuple(dict.fromkeys(each for each in found if each and each != path))
