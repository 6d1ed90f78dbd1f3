"""Makes and renews the index of a project's code, so that every tool works on any repository. Opt-in.

Reads the project's source files (in processes of `parsing`) and settings, writes `.agents/gsd/` alone. Runs nothing
of the project. What a run costs follows what has changed: files are told apart by time and length first, by content
then, and an import is resolved again without its file being read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from orchestrator.base.clock import Clock, SystemClock
from orchestrator.base.errors import BadRequest, Environment
from orchestrator.gsd.index import conventions, project_settings
from orchestrator.gsd.index import store as index_store
from orchestrator.gsd.index.languages import language_of, type_of
from orchestrator.gsd.index.parsing import Looked, parse_files
from orchestrator.gsd.index.project_settings import Settings, is_settings, settings_of
from orchestrator.gsd.index.resolving import Resolver
from orchestrator.gsd.index.source_files import NotThere, read_file
from orchestrator.gsd.index.store import Row
from orchestrator.gsd.index.writing import Writing, writing
from orchestrator.gsd.model import FileFacts, Trouble
from orchestrator.gsd.sources import walk
from orchestrator.journal.project_files import failure
from orchestrator.journal.project_files import replace as replace_file

RULES = 2
"""Raised whenever the same file would be read into something else than before: then all are read again."""

Tell = Callable[[str, int, int], None]
"""Told how far a run is: the step (``walk``, ``parse``, ``resolve``, ``save``), how many are done, of how many."""


@dataclass(frozen=True)
class IndexDone:
    """What a run found and did.

    ``files`` are all of the index; ``changed``, ``added``, ``removed`` what this run changed of them. ``unreadable``:
    files that have no edges for they could not be read, or of which a part was not understood (kind ``odd``).
    ``edges`` are imports between files of the project, ``bytes`` what the index takes on disk.
    """

    files: int
    changed: int
    added: int
    removed: int
    edges: int
    generation: int
    seconds: float
    bytes: int
    unreadable: list[Trouble] = field(default_factory=list)
    languages: dict[str, int] = field(default_factory=dict)


def index(root: Path, *, rebuild: bool = False, tell: Tell | None = None, clock: Clock | None = None) -> IndexDone:
    """Bring the index of the project up to date, or make it; ``rebuild``: anew, whatever there is.

    Killed at any moment it leaves the old index. Raises BadRequest ``no_project`` (/, the home directory, no
    directory), ``path_escape``; NotReady ``index_busy`` when another process is at it; Corrupt ``corrupt_index``;
    Environment ``disk_full``, ``io_failed``, ``gsd_failed``.
    """
    clock = clock or SystemClock()
    began = clock.monotonic()
    place = _checked(root)
    with writing(place, rebuild=rebuild) as store:
        done = _run(place, store, tell or _silent, clock)
        try:
            size = (place / index_store.STORE).stat().st_size
        except OSError as error:
            raise failure(place / index_store.STORE, error) from error
    return replace(done, seconds=clock.monotonic() - began, bytes=size)


def _silent(_step: str, _done: int, _total: int) -> None:
    """Nobody wants to know."""


def _checked(root: Path) -> Path:
    try:
        place = root.resolve()
        home = Path.home().resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise BadRequest("no_project", f"{root}: {error}") from None
    if place in {home, Path(place.anchor)}:
        raise BadRequest("no_project", f"{place} is no project: it is / or the home directory")
    if not place.is_dir():
        raise BadRequest("no_project", f"{place} is no directory")
    return place


def _run(root: Path, store: Writing, tell: Tell, clock: Clock) -> IndexDone:
    tell("walk", 0, 0)
    try:
        found = {each.path: each for each in walk.files(root, also=is_settings)}
    except OSError as error:
        raise failure(root, error) from error
    settings = _settings(root, found)
    sources = [path for path in found if language_of(path)]
    tell("walk", len(sources), len(sources))

    fingerprint = f"{RULES}:{settings.digest}"
    before = store.meta
    same_rules = before is not None and before.settings.partition(":")[0] == str(RULES)
    stamps = store.stamps()
    touched: dict[str, tuple[int, int]] = {}
    due: list[str] = []
    for path in sources:
        stamp = stamps.get(path)
        now = (found[path].mtime_ns, found[path].size)
        if stamp is None or not same_rules:
            due.append(path)
        elif now != (stamp.mtime_ns, stamp.size):
            told = _touched(root, path, stamp.digest)
            if told is None:
                due.append(path)
            else:
                touched[path] = told
    touched = {path: told for path, told in touched.items() if told != (stamps[path].mtime_ns, stamps[path].size)}

    looked = _parsed(root, due, tell)
    gone = {path for path, one in looked.items() if one.parsed is None}
    removed = (stamps.keys() - set(sources)) | (gone & stamps.keys())
    added = looked.keys() - stamps.keys() - gone
    if before is not None and not (looked or removed or touched) and before.settings == fingerprint:
        _show(root, before.conventions, before.summary)  # the run before may have been killed behind its index
        languages, edges, troubles = store.totals()
        return IndexDone(sum(languages.values()), 0, 0, 0, edges, before.generation, 0.0, 0, troubles, languages)

    rows = store.rows()
    everything = bool(added or removed) or before is None or before.settings != fingerprint
    changed = _renewed(rows, looked, removed, touched, settings, everything=everything, tell=tell)
    newly = {row.facts.path for row in changed}
    touched |= {path: (one.mtime_ns, one.size) for path, one in looked.items() if path not in newly | removed}
    at = clock.now()
    told_before = ("", "") if before is None else (before.conventions, before.summary)
    now_rows = sorted(rows.values(), key=lambda row: row.facts.path)
    named = (conventions.Named(row.facts, row.kinds) for row in now_rows)
    said = conventions.dump(conventions.conventions(named, at), told_before[0])
    summary = conventions.summary((row.facts for row in now_rows), at, told_before[1])
    tell("save", 0, len(changed))
    meta = store.save(
        changed=changed, touched=touched, removed=removed, at=at, settings=fingerprint, conventions=said,
        summary=summary,
    )  # fmt: skip
    _show(root, said, summary)
    tell("save", len(changed), len(changed))
    languages, edges, troubles = store.totals()
    return IndexDone(
        len(rows), len(changed) - len(added), len(added), len(removed), edges, meta.generation, 0.0, 0, troubles,
        languages,
    )  # fmt: skip


def _settings(root: Path, found: Iterable[str]) -> Settings:
    read: dict[str, bytes] = {}
    for path in filter(is_settings, found):
        try:
            data = read_file(str(root), path, project_settings.MAX_BYTES).data
        except (NotThere, OSError):
            continue
        if data is not None:
            read[path] = data
    return settings_of(read)


def _touched(root: Path, path: str, digest: bytes) -> tuple[int, int] | None:
    """The new time and length of a file whose content is the one that was indexed; None when it is not."""
    try:
        content = read_file(str(root), path)
    except (NotThere, OSError):
        return None
    return (content.mtime_ns, content.size) if content.digest == digest else None


def _parsed(root: Path, due: list[str], tell: Tell) -> dict[str, Looked]:
    looked: dict[str, Looked] = {}
    for one in parse_files(root, due):
        looked[one.path] = one
        tell("parse", len(looked), len(due))
    return looked


def _renewed(
    rows: dict[str, Row],
    looked: dict[str, Looked],
    removed: Collection[str],
    touched: dict[str, tuple[int, int]],
    settings: Settings,
    *,
    everything: bool,
    tell: Tell,
) -> list[Row]:
    """Bring ``rows`` to what is now; those of them that say something else than before."""
    before = dict(rows)
    for path in removed:
        rows.pop(path, None)
    for path, (mtime_ns, size) in touched.items():
        rows[path] = replace(rows[path], facts=replace(rows[path].facts, mtime_ns=mtime_ns, size=size))
    for path, one in looked.items():
        if one.parsed is not None:
            rows[path] = _row(path, one)
    resolver = Resolver(rows.keys(), settings)
    again = list(rows) if everything else [path for path in looked if path in rows]
    for count, path in enumerate(again):
        row = rows[path]
        imports, packages = resolver.resolve(path, row.raw)
        if (imports, packages) != (row.facts.imports, row.facts.packages):
            rows[path] = replace(row, facts=replace(row.facts, imports=imports, packages=packages))
        if count % 1000 == 0:
            tell("resolve", count, len(again))
    return [rows[path] for path in again if path not in before or _said(rows[path]) != _said(before[path])]


def _row(path: str, one: Looked) -> Row:
    parsed = one.parsed
    assert parsed is not None
    facts = FileFacts(
        path, type_of(path), parsed.purpose, parsed.exports, language=language_of(path), lines=parsed.lines,
        mtime_ns=one.mtime_ns, size=one.size,
    )  # fmt: skip
    return Row(facts, one.digest, parsed.raw, parsed.kinds, parsed.trouble)


def _said(row: Row) -> Row:
    return replace(row, facts=replace(row.facts, mtime_ns=0, size=0))


def _show(root: Path, said: str, summary: str) -> None:
    """Put copies of both beside the index, for humans and other tools; the index has the ones that count."""
    for name, text in ((index_store.CONVENTIONS, said + "\n"), (index_store.SUMMARY, summary)):
        path = root / name
        try:
            old = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        except OSError:
            old = None
        if old != text.encode():
            try:
                replace_file(path, text.encode())
            except Environment as error:
                error.message = f"the index is made, its copy is not: {error.message}"
                raise
