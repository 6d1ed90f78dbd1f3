"""A project's intel store and our own index as one graph, read anew only where something has changed. Reads only.

Each read looks at the files (`files.stamp`); what has not changed is not read again. A store that cannot be
read any more, because it is locked or was caught while it was written, keeps what it last said, with a trouble that
says so.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson

from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import OrchestratorError
from orchestrator.gsd.graph.merging import Change, Merging
from orchestrator.gsd.graph.protocol import Graph
from orchestrator.gsd.graph.said import Said, Told, at_most
from orchestrator.gsd.index import store as index_store
from orchestrator.gsd.intel import beside as intel_files
from orchestrator.gsd.intel import entities, graph_db, index_json
from orchestrator.gsd.intel import files as intel_source
from orchestrator.gsd.intel.entity_files import MAX_ID, EntityFiles
from orchestrator.gsd.intel.files import Stamp, Unreadable
from orchestrator.gsd.model import FileFacts, Intel, Trouble

INTEL = ".planning/intel"
ENTITIES = f"{INTEL}/entities"
LOCKED_S = 1.0
"""How long the first reading of a locked database waits; the next ones do not."""
_FILES_V3 = ("files.json", "file-roles.json")
_DEPS_V3 = ("deps.json", "dependency-graph.json")
_BESIDE = (*intel_files.CONVENTIONS, *intel_files.SUMMARIES, *intel_files.APIS, *intel_files.STACK)
_NEVER: tuple[Stamp | None, ...] = ()


class IntelStore:
    """All that is known of a project's code. Thread-safe; a graph once given out stays as it is."""

    def __init__(self, root: Path) -> None:
        """Take the project's root; nothing is read yet."""
        self._root = root
        self._intel_at = root / INTEL
        self._lock = threading.Lock()
        self._merging = Merging()
        self._stamps: dict[str, tuple[Stamp | None, ...]] = {}
        self._told: dict[str, Told] = {}
        self._troubles: dict[str, list[Trouble]] = {}
        self._entities = EntityFiles(root, root / ENTITIES)
        self._beside = intel_files.Beside()
        self._index = index_store.IndexRead(0, "")
        self._intel = Intel()

    def read(self) -> tuple[Graph, Intel]:
        """The graph and what else is known, as the files are now. Never raises for what a file says."""
        with self._lock:
            changed = [
                self._look(),
                self._whole("graph.db", ("graph.db", "graph.db-wal"), self._read_graph_db),
                self._read_entities(),
                self._whole("index.json", ("index.json",), self._read_index_json),
                self._whole("files.json", (*_FILES_V3, *_DEPS_V3), self._read_v3),
                self._read_beside(),
                self._read_index(),
            ]
            if any(changed):
                self._intel = self._made()
            return self._merging.graph, self._intel

    def entity(self, entity_id: str) -> str | None:
        """The text of an entity file by its id or by the id of its file's node, case ignored; None without one.

        Ids with ``/``, ``..`` or control characters, links out of the project, and files over 256 KiB are none.
        """
        if not entity_id or len(entity_id) > MAX_ID or "/" in entity_id or "\\" in entity_id or ".." in entity_id:
            return None
        if not entity_id.isprintable():
            return None
        self.read()
        with self._lock:
            name = self._entities.file(entity_id.removesuffix(".md"))
            for other in self._merging.called(entity_id, "entity") if name is None else ():
                name = name or self._entities.file(other)
        if name is None:
            return None
        try:
            content = intel_source.read(self._root, self._root / ENTITIES / name, entities.MAX_BYTES)
        except Unreadable:
            return None
        return None if content is None else content.data.decode(errors="replace")

    def touched(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        """Files that have changed, absolute or project-relative, as whoever watches the project saw it."""
        base = os.path.join(self._root, ENTITIES)  # noqa: PTH118  (many paths, as strings)
        with self._lock:
            for path in paths:
                directory, name = os.path.split(os.path.join(self._root, os.fspath(path)))  # noqa: PTH118
                if directory == base:
                    self._entities.touch(name)

    def _look(self) -> bool:
        """Whether it has changed that nobody may look into the store: without a word it would seem empty."""
        before = self._troubles.get("", [])
        self._troubles[""] = []
        try:
            os.stat(os.path.join(self._intel_at, "."))  # noqa: PTH116, PTH118  (a Path drops the dot)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            what = f"cannot be opened: {intel_source.reason(error)}"
            self._troubles[""] = [Trouble(INTEL, 0, what, "unreadable")]
        return self._troubles[""] != before

    # -- the stores that are written whole ---------------------------------------------------------------------------

    def _whole(self, source: str, names: tuple[str, ...], read: Callable[[], Told | None]) -> bool:
        stamps = tuple(intel_source.stamp(self._intel_at / name) for name in names)
        if self._stamps.get(source) == stamps:
            return False
        if not any(stamps):
            told: Told | None = Told()
        else:
            try:
                told = read()
            except graph_db.Locked:
                again = self._troubles.get(source, [])
                self._stamps[source] = _NEVER  # so that the next read tries again, without waiting
                self._troubles[source] = [self._kept(source, names[0], "is locked by whoever writes it")]
                return again != self._troubles[source]
            except Unreadable as error:
                self._stamps[source] = stamps
                self._troubles[source] = [self._kept(source, names[0], error.what)]
                return True
        self._stamps[source] = stamps
        if told is None:
            told = Told()
        if not told.files and any(each.kind == "unreadable" for each in told.troubles):
            self._troubles[source] = [self._kept(source, names[0], each.what, each) for each in told.troubles]
            return True
        self._told[source] = told
        self._troubles[source] = at_most(told.troubles)
        self._merging.replace(source, told.files, told.facts.get("roots", ()))
        return True

    def _kept(self, source: str, name: str, what: str, where: Trouble | None = None) -> Trouble:
        kept = "; what it said before is used" if self._told.get(source, Told()).files else ""
        file, line = (where.file, where.line) if where else (f"{INTEL}/{name}", 0)
        return Trouble(file, line, what + kept, "unreadable")

    def _read_graph_db(self) -> Told:
        first = self._stamps.get("graph.db") != _NEVER
        return graph_db.read(self._root, self._intel_at / "graph.db", wait_s=LOCKED_S if first else 0)

    def _read_index_json(self) -> Told:
        return index_json.read(self._root, self._intel_at / "index.json")

    def _read_v3(self) -> Told | None:
        files, deps = (
            next((path for name in names if intel_source.stamp(path := self._intel_at / name)), None)
            for names in (_FILES_V3, _DEPS_V3)
        )
        return None if files is None else index_json.read_v3(self._root, files, deps)

    def _read_beside(self) -> bool:
        stamps = tuple(intel_source.stamp(self._intel_at / name) for name in _BESIDE)
        if self._stamps.get("beside") == stamps:
            return False
        self._stamps["beside"] = stamps
        self._beside = intel_files.read(self._root, self._intel_at) if any(stamps) else intel_files.Beside()
        return True

    # -- the stores that change a little at a time -------------------------------------------------------------------

    def _read_entities(self) -> bool:
        before = self._entities.troubles
        changes = self._entities.changes()
        if not changes and before == self._entities.troubles:
            return False
        roots = self._entities.roots.known if self._entities.roots is not None else ()
        self._merging.change([("entity", name, said) for name, said in changes.items()])
        self._merging.know_roots("entity", roots)
        self._troubles["entity"] = at_most(self._entities.troubles)
        return True

    def _read_index(self) -> bool:
        stamps = (intel_source.stamp(self._root / index_store.STORE),)
        if self._stamps.get("index") == stamps:
            return False
        try:
            found = index_store.read(self._root, self._index.generation if self._index.built_at else 0)
        except OrchestratorError as error:
            self._stamps["index"] = stamps
            what = error.message.removeprefix(f"{self._root / index_store.STORE}: ")
            self._troubles["index"] = [Trouble(index_store.STORE, 0, f"{what}; {error.next_step}", "unreadable")]
            return True
        self._stamps["index"] = stamps
        self._index = index_store.IndexRead(
            found.generation, found.built_at, troubles=found.troubles,
            conventions=found.conventions, summary=found.summary,
        )  # fmt: skip
        self._troubles["index"] = at_most(found.troubles)
        if found.complete:
            one = {each.path: each.path for each in found.files}
            self._merging.replace("index", {each.path: _indexed(each, one) for each in found.files})
        else:
            changes: list[Change] = [("index", each.path, _indexed(each, {})) for each in found.files]
            self._merging.change([*changes, *(("index", path, None) for path in found.removed)])
        return True

    # -- what is told ------------------------------------------------------------------------------------------------

    def _made(self) -> Intel:
        beside = self._beside
        conventions: Mapping[str, Any] = beside.conventions
        conventions_from = beside.conventions_from
        if not conventions_from and self._index.conventions:
            try:
                own = orjson.loads(self._index.conventions)
            except orjson.JSONDecodeError:
                own = None
            if isinstance(own, dict):
                conventions, conventions_from = own, index_store.CONVENTIONS
        summary, summary_from = beside.summary, beside.summary_from
        if not summary and self._index.summary:
            summary, summary_from = self._index.summary, index_store.SUMMARY
        troubles = [each for found in self._troubles.values() for each in found] + beside.troubles
        return Intel(
            MappingProxyType(dict(conventions)), conventions_from, summary, summary_from,
            MappingProxyType(dict(beside.apis)), self._sources(), tuple(troubles),
        )  # fmt: skip

    def _sources(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for source, place in (
            ("graph.db", "graph.db"), ("entity", "entities"), ("index.json", "index.json"), ("files.json", ""),
        ):  # fmt: skip
            files = self._merging.said(source)
            path = self._intel_at / (
                place or next((n for n in _FILES_V3 if intel_source.stamp(self._intel_at / n)), "files.json")
            )
            mark = intel_source.stamp(path)
            if mark is None and not files:
                continue
            told = self._told.get(source)
            stated = told.updated if told else ""
            updated = stated or (_moment(mark[1]) if mark else "")
            facts = {key: value for key, value in (told.facts if told else {}).items() if key != "roots"}
            found[source] = {
                "files": files,
                "updated": updated,
                "stated": bool(stated),
                "from": intel_source.relative(self._root, path),
                **facts,
            }
        for name, entries in self._beside.found.items():
            mark = intel_source.stamp(self._intel_at / name)
            own = self._beside.conventions if name in intel_files.CONVENTIONS else {}
            updated = index_json.moment(own.get("updated") or own.get("generated"))
            updated = updated or (_moment(mark[1]) if mark else "")
            found[name] = {"files": entries, "updated": updated, "from": f"{INTEL}/{name}"}
        if self._index.built_at:
            found["index"] = {
                "files": self._merging.said("index"), "updated": self._index.built_at, "stated": True,
                "from": index_store.STORE,
            }  # fmt: skip
        return found


def _moment(mtime_ns: int) -> str:
    try:
        return rfc3339(datetime.fromtimestamp(mtime_ns / 1e9, UTC))
    except (OverflowError, ValueError, OSError):
        return ""


def _indexed(facts: FileFacts, one: Mapping[str, str]) -> Said:
    """What our index says; ``one`` gives the one text for a path that stands in many places."""
    targets = tuple(one.get(path, path) for path in facts.imports)
    return Said("index", "", facts.path, facts.purpose, facts.type, facts.exports, "", targets, by_path=True)
