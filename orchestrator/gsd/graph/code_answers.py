"""The answers about code: what a query finds, what a change affects, what is usual. Pure over a snapshot."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.gsd.graph import advice, conventions_read
from orchestrator.gsd.graph.protocol import Affected, Node, Reached
from orchestrator.gsd.graph.words import MAX_QUERY, keywords
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.index.languages import PARSED, language_of

TYPES = ("service", "api", "util", "component", "model", "config")
"""The types of the document; what real trees have beside them is taken as well (issue 7)."""
_NAME = re.compile(r"[\w$]+(?:\.[\w$]+)*")
MAX_RESULTS = 100
MAX_DEPTH = 10
_INTEL = ".planning/intel"
_STORES = frozenset({
    _INTEL,
    ".agents/gsd/index.db", ".planning/intel/graph.db", ".planning/intel/index.json", ".planning/intel/files.json",
    ".planning/intel/file-roles.json", ".planning/intel/deps.json", ".planning/intel/dependency-graph.json",
})  # fmt: skip
_CONVENTIONS = f"{_INTEL}/conventions.json"
_ENTITIES = f"{_INTEL}/entities/"
FEW = 2
"""A graph with fewer edges than one for so many files does not tell who imports what."""
FEW_OWN = 10
"""The same of files whose imports our index has read: fewer, and those imports mean something it does not see."""
MAX_LISTED = 70
MAX_PURPOSE = 240
MAX_EXPORTS = 50
MAX_CONVENTIONS = 20_000  # characters of the file as written, and of each part of it
NO_FILES = "No file of the code is known. Run /gsd:analyze-codebase, or: orchestrator gsd index"
NO_SUMMARY = "No intelligence summary available. Run /gsd:analyze-codebase."


def query_intel(
    snapshot: Snapshot,
    *,
    query: str,
    include_purposes: bool = True,
    include_blast_radius: bool = False,
    include_exports: bool = False,
    max_results: int = 10,
    type_filter: str = "all",
) -> dict[str, Any]:
    """``{files: [{id, path, purpose?, type, exports?, directDependents?, score, why, sources}], total, keywords}``.

    First the type, then the limit (B3.8); ``total`` counts all that match. ``stale`` lists those of the files that
    have changed since our index was made; ``note`` says why there are none; ``notes`` names stores of the graph that
    could not be read, here and in the other answers about code. Raises BadRequest for a query without a
    word, or a type nobody has.
    """
    _range("max_results", max_results, 1, MAX_RESULTS)
    _text("query", query, MAX_QUERY)
    words = keywords(query)
    if not words:
        raise BadRequest("bad_argument", "query has no word to look for", "name what the files are about")
    hits, total = snapshot.graph.search_all(words, _types(snapshot, type_filter), max_results)
    files = []
    for hit in hits:
        found: dict[str, Any] = {"id": hit.node.id, "path": hit.node.path}
        if include_purposes:
            found["purpose"] = _short(hit.node.purpose)
        found["type"] = hit.node.type
        if include_exports:
            found["exports"] = list(hit.node.exports[:MAX_EXPORTS])
        if include_blast_radius:
            found["directDependents"] = hit.dependents
        files.append({**found, "score": hit.score, "why": list(hit.why), "sources": list(hit.node.sources)})
    answer = {"files": files, "total": total, "keywords": words}
    if not files:
        return answer | {"note": _why_none(snapshot, type_filter)} | _unread(snapshot)
    return answer | _unread(snapshot) | _stale(snapshot, [each["path"] for each in files])


def blast_radius(snapshot: Snapshot, *, file: str, max_depth: int = 3, change_type: str = "any") -> dict[str, Any]:
    """What depends on a file, in gsd-doc's keys (C22): counts, critical and test files, recommendation, details.

    Direct is depth 1, transitive deeper, up to ``max_depth`` (1 to 10); the file itself never counts. Lists are cut
    at `MAX_LISTED`, then ``truncated`` is true; counts are exact. ``known`` is false for a file no source tells of.
    """
    _range("max_depth", max_depth, 1, MAX_DEPTH)
    _one_of("change_type", change_type, advice.CHANGES)
    node, candidates = _located(snapshot, file)
    if node is None:
        return {
            "file": file, "directDependents": 0, "transitiveDependents": 0, "totalAffected": 0, "criticalFiles": [],
            "testFiles": [], "recommendation": advice.unknown(file, candidates),
            "details": {"directDependents": [], "transitiveDependents": []}, "known": False,
            "candidates": candidates, **_unread(snapshot),
        }  # fmt: skip
    found = snapshot.graph.affected(node.id, max_depth, MAX_LISTED)
    answer: dict[str, Any] = {
        "file": node.path,
        "directDependents": found.direct,
        "transitiveDependents": found.transitive,
        "totalAffected": found.direct + found.transitive,
        "criticalFiles": list(found.critical),
        "testFiles": list(found.tests),
        "recommendation": _advice(snapshot, node, found, change_type),
        "details": {
            "directDependents": [_detail(each) for each in found.nearest],
            "transitiveDependents": [_detail(each) for each in found.farther],
        },
        "known": True,
    }
    listed = (len(found.nearest), len(found.farther), len(found.critical), len(found.tests))
    if listed != (found.direct, found.transitive, found.critical_count, found.tests_count):
        answer["truncated"] = True
    shown = [node.path, *(each.node.path for each in (*found.nearest, *found.farther))]
    return answer | _unread(snapshot) | _stale(snapshot, shown)


def pre_edit_check(
    snapshot: Snapshot, *, file: str, planned_change: str = "", change_type: str = "any"
) -> dict[str, Any]:
    """``{safe, blast_radius, breaking_files, recommendation, example?}`` (A3, the sibling document).

    ``safe`` is false where something depends on the file, true only where nothing does, its importers would be
    known (`_followed`), no link may mean it or another, and every store and source file could be read, as of
    ``as_of``; else null, with ``notes``. ``blast_radius``
    counts all that is affected within ten steps, ``breaking_files`` are direct dependents, ``example`` one, with what
    it may use.
    """
    _text("planned_change", planned_change, MAX_QUERY)
    _one_of("change_type", change_type, advice.CHANGES)
    node, candidates = _located(snapshot, file)
    if node is None:
        return {
            "file": file, "safe": None, "blast_radius": 0, "breaking_files": [],
            "recommendation": advice.unknown(file, candidates), "known": False, "candidates": candidates,
            **_unread(snapshot),
        }  # fmt: skip
    unread = _unread(snapshot)
    found = snapshot.graph.affected(node.id, MAX_DEPTH, MAX_LISTED)
    unseen = [] if found.direct else _unparsed(snapshot, node)
    if not found.direct and snapshot.graph.may_be_meant(node.id):
        unread = {"notes": [*unread.get("notes", ()), advice.unclear(node.path)]}
    if unseen:
        unread = {"notes": [*unread.get("notes", ()), advice.unparsed(unseen)]}
    words = set(_NAME.findall(planned_change))
    named = [name for name in node.exports if name in words]
    answer: dict[str, Any] = {
        "file": node.path,
        "safe": False if found.direct else (True if not unread and _followed(snapshot, node) else None),
        "blast_radius": found.direct + found.transitive,
        "breaking_files": [each.node.path for each in found.nearest],
        "recommendation": _advice(snapshot, node, found, change_type),
        "known": True,
        "as_of": _as_of(snapshot, node),
    }
    if named:
        answer["named_exports"] = named[:MAX_EXPORTS]
    if found.nearest:
        first = next((each for each in found.nearest if each.node.path not in found.tests), found.nearest[0])
        answer["example"] = {"file": first.node.path, "purpose": _short(first.node.purpose), "via": first.via}
    if found.direct > len(found.nearest):
        answer["truncated"] = True
    return answer | unread | _stale(snapshot, [node.path, *answer["breaking_files"]])


def get_conventions(snapshot: Snapshot, *, type: str = "all", directory: str = "") -> dict[str, Any]:  # noqa: A002 (the tool's argument)
    """``{source, naming, directories, suffixes, imports, errors, other, raw}``, or those of ``type`` alone.

    Both dialects of ``conventions.json`` in one form, with the file as it is written in ``raw``; our own index's
    where the project has none. ``directory`` keeps what says something of that directory. ``source`` is empty where
    there are none; ``truncated`` is true where a part, or ``raw``, was too long and lost its last entries, or all.
    """
    _one_of("type", type, conventions_read.TYPES)
    _text("directory", directory, MAX_QUERY)
    intel = snapshot.intel
    found = conventions_read.normalise(intel.conventions)
    if directory.strip():
        found["directories"] = conventions_read.within(found["directories"], directory)
    if type != "all":
        found = {type: found[type]}
    kept = {name: _fitting(part) for name, part in found.items()}
    answer: dict[str, Any] = {"source": intel.conventions_from, **kept}
    if any(len(kept[name]) < len(part) for name, part in found.items()):
        answer["truncated"] = True
    if type == "all" and not directory.strip():
        answer["raw"] = dict(intel.conventions)
        if len(str(answer["raw"])) > MAX_CONVENTIONS:
            answer["raw"], answer["truncated"] = {}, True
    bad = [one for one in intel.troubles if one.kind == "unreadable" and one.file in {_INTEL, _CONVENTIONS}]
    if bad:
        answer["notes"] = [f"{one.file} could not be read: {one.what}" for one in bad]
    if not intel.conventions_from:
        answer["note"] = "No conventions are known. Run /gsd:analyze-codebase, or: orchestrator gsd index"
    return answer


def hotspots(snapshot: Snapshot, limit: int = 10) -> list[dict[str, Any]]:
    """The files most others depend on: ``[{id, path, purpose, type, dependents}]`` (B3.17)."""
    return [
        {
            "id": node.id,
            "path": node.path,
            "purpose": _short(node.purpose),
            "type": node.type,
            "dependents": count,
        }
        for node, count in snapshot.graph.hotspots(max(0, limit))
    ]


def hotspots_page(snapshot: Snapshot, limit: int = 10) -> str:
    """The hotspots as Markdown, most dependents first."""
    found = hotspots(snapshot, limit)
    if not found:
        return (
            "# Hotspots\n\nNo file is known on which others depend. "
            "Run /gsd:analyze-codebase, or: orchestrator gsd index\n"
        )
    lines = [
        f"{place}. `{each['path']}` — {each['dependents']} dependent{'s' * (each['dependents'] > 1)} [{each['type']}]"
        + (f": {each['purpose']}" if each["purpose"] else "")
        for place, each in enumerate(found, 1)
    ]
    return "\n".join(["# Hotspots", "", "Files with most dependents (change carefully):", "", *lines, ""])


def summary_page(snapshot: Snapshot) -> str:
    """The summary of the intel store, else of our index, else gsd-doc's sentence and how to make one (B3.21)."""
    if snapshot.intel.summary.strip():
        return snapshot.intel.summary
    return f"{NO_SUMMARY}\n\nOr let orchestrator read the code itself: orchestrator gsd index\n"


def entity_page(snapshot: Snapshot, entity_id: str) -> str:
    """The entity file of an id as written; without one what the graph knows; else gsd-doc's sentence (B3.24)."""
    found = snapshot.entity(entity_id)
    if found is not None:
        return found
    node = snapshot.graph.nodes.get(entity_id)
    if node is None:
        return f"Entity not found: {entity_id}"
    lists = (
        ("Exports", [f"`{name}`" for name in node.exports[:MAX_EXPORTS]]),
        ("Dependencies", [f"[[{each.id}]] — {via}" for each, via in snapshot.graph.dependencies(node.id)]),
        ("Used By", [f"[[{each.id}]] — {via}" for each, via in snapshot.graph.dependents(node.id)]),
    )
    lines = [
        "---", f"path: {node.path}", f"type: {node.type}", f"sources: {', '.join(node.sources)}", "---", "",
        f"# {node.path.rpartition('/')[2]}", "", "## Purpose", "", node.purpose or "Not known.",
    ]  # fmt: skip
    for name, every in lists:
        more = [f"- and {len(every) - MAX_LISTED} more"] if len(every) > MAX_LISTED else []
        lines += ["", f"## {name}", "", *([f"- {each}" for each in every[:MAX_LISTED]] or ["None known."]), *more]
    return "\n".join([*lines, ""])


# -- steps ----------------------------------------------------------------------------------------------------------


def _located(snapshot: Snapshot, file: str) -> tuple[Node | None, list[str]]:
    _text("file", file, MAX_QUERY)
    if not file.strip():
        raise BadRequest("bad_argument", "file is empty", "give a path or an id, such as src/lib/db.ts")
    found = snapshot.graph.locate(file)
    return found.node, list(found.candidates)


def _as_of(snapshot: Snapshot, node: Node) -> str:
    """When the youngest of the stores that tell of the file was written; empty where none says.

    What a store says itself counts before the time of its file, which is that of a checkout as often as not.
    """
    stores = [snapshot.intel.sources.get(one, {}) for one in node.sources]
    told = [one for one in stores if one.get("stated")] or stores
    return max((str(one.get("updated", "")) for one in told), default="")


def _followed(snapshot: Snapshot, node: Node) -> bool:
    """Whether somebody who imports the file would be known: the graph has edges, and its language is followed.

    A hand-made store may list every file and next to no import, and imports of a package whose directory has another
    name end nowhere in our index: that nobody is listed says nothing there. Nor does it of a file that only our index
    knows, by its name alone, however many edges others have.
    """
    if _named_only(node):
        return False
    few = FEW_OWN if "index" in node.sources and language_of(node.path) in PARSED else FEW
    return snapshot.graph.edges * few >= len(snapshot.graph.nodes)


def _named_only(node: Node) -> bool:
    """Whether nobody but our index tells of the file, and that does not read imports of its language."""
    return tuple(node.sources) == ("index",) and language_of(node.path) not in PARSED


def _advice(snapshot: Snapshot, node: Node, found: Affected, change_type: str) -> str:
    if not found.direct and _named_only(node):
        return advice.unread(node.path, language_of(node.path))
    if not found.direct and not _followed(snapshot, node):
        return advice.unfollowed(node.path, snapshot.graph.edges, len(snapshot.graph.nodes))
    return advice.recommend(change_type, found.direct, found.transitive, found.tests, found.tests_count)


def _detail(each: Reached) -> dict[str, Any]:
    detail = {
        "id": each.node.id, "path": each.node.path, "purpose": _short(each.node.purpose), "depth": each.depth,
        "via": each.via,
    }  # fmt: skip
    return detail | ({"through": each.through} if each.through else {})


def _why_none(snapshot: Snapshot, type_filter: str) -> str:
    types = snapshot.graph.types
    if not types:
        return NO_FILES
    if type_filter.strip().lower() != "all":
        return f"No file of type {type_filter.strip()} matches. There are: {', '.join(list(types)[:MAX_LISTED])}."
    return "No file has any of these words in its path, its purpose or its exports."


def _types(snapshot: Snapshot, type_filter: str) -> frozenset[str]:
    wanted = type_filter.strip().lower()
    if wanted == "all":
        return frozenset()
    there = snapshot.graph.types
    if wanted not in TYPES and wanted not in there:
        every = ", ".join(["all", *dict.fromkeys([*TYPES, *list(there)[:MAX_LISTED]])])
        raise BadRequest("bad_argument", f"type_filter {type_filter[:80]!r} is none of: {every}", "take one of these")
    return frozenset({wanted})


def _unread(snapshot: Snapshot) -> dict[str, Any]:
    """``notes`` on the stores of the graph that are there and could not be read; nothing where all could."""
    found = [
        f"{one.file} could not be read: {one.what}"
        for one in snapshot.intel.troubles
        if one.kind == "unreadable" and one.file in _STORES
    ]
    entities = [
        one for one in snapshot.intel.troubles if one.kind == "unreadable" and f"{one.file}/".startswith(_ENTITIES)
    ]
    if entities:
        more = f", and {len(entities) - 1} more like it" if len(entities) > 1 else ""
        found.append(f"{entities[0].file} could not be read: {entities[0].what}{more}")
    return {"notes": found} if found else {}


def _unparsed(snapshot: Snapshot, node: Node) -> list[str]:
    """Other source files that our index could not parse, so that nobody knows what they import."""
    return sorted(
        {
            one.file
            for one in snapshot.intel.troubles
            if one.kind == "unreadable" and one.file != node.path and language_of(one.file) in PARSED
        }
    )


def _stale(snapshot: Snapshot, paths: list[str]) -> dict[str, Any]:
    found = snapshot.stale(paths)
    return {"stale": found} if found else {}


def _fitting(part: Mapping[str, Any]) -> dict[str, Any]:
    """The first entries of a part of the conventions that there is room for."""
    room = MAX_CONVENTIONS
    kept = {}
    for key, value in part.items():
        room -= len(key) + len(str(value))
        if room < 0:
            break
        kept[key] = value
    return kept


def _short(text: str) -> str:
    return text if len(text) <= MAX_PURPOSE else f"{text[: MAX_PURPOSE - 1].rstrip()}…"


def _range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise BadRequest("bad_argument", f"{name} is {value}; it goes from {least} to {most}")


def _text(name: str, value: str, most: int) -> None:
    if len(value) > most:
        raise BadRequest(
            "bad_argument",
            f"{name} has {len(value):,} characters, more than {most:,}",
            "ask for one thing at a time",
        )


def _one_of(name: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise BadRequest("bad_argument", f"{name} {value[:80]!r} is none of: {', '.join(known)}")
