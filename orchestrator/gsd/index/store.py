"""Our own index of a project's code on disk: what each source file says, and since which generation. Read here.

Reads `.agents/gsd/index.db` alone; `writing` writes it. Knows nothing of how source files are read.

A finished ``index.db`` is never changed: a writer makes the next one beside it and renames it into place. So readers
take no lock, see the old index or the new one whole, and can read it where they may not write; a writer killed at any
moment leaves the old one. Writers keep each other out by an flock on ``lock``.

Generations grow: each run that changed anything takes the next one and stamps the rows it changed; a removed file
leaves a tombstone. An index made anew begins at the milliseconds of the clock, above whatever one before it had, so a
reader that remembers another index's generation is told everything instead of a difference that never was.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import orjson

from orchestrator.base.errors import Corrupt, Environment
from orchestrator.gsd.model import FileFacts, Trouble
from orchestrator.journal.project_files import failure

DIRECTORY = ".agents/gsd"
STORE = f"{DIRECTORY}/index.db"
LOCK = f"{DIRECTORY}/lock"
CONVENTIONS = f"{DIRECTORY}/conventions.json"
SUMMARY = f"{DIRECTORY}/summary.md"
VERSION = 1
"""Of the tables; also what ``PRAGMA user_version`` says."""
MAX_BYTES = 4 << 30
TABLES = (
    (
        "CREATE TABLE files (path TEXT PRIMARY KEY, generation INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, "
        "size INTEGER NOT NULL, digest BLOB NOT NULL, language TEXT NOT NULL, type TEXT NOT NULL, "
        "lines INTEGER NOT NULL, purpose TEXT NOT NULL, exports TEXT NOT NULL, imports TEXT NOT NULL, "
        "packages TEXT NOT NULL, kinds TEXT NOT NULL, raw TEXT NOT NULL, trouble TEXT NOT NULL) WITHOUT ROWID"
    ),
    "CREATE INDEX files_by_generation ON files (generation)",
    "CREATE INDEX files_in_trouble ON files (path) WHERE trouble <> ''",
    "CREATE TABLE removed (path TEXT PRIMARY KEY, generation INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
)
_SELECT_FACTS = (
    "SELECT path, type, purpose, exports, imports, packages, language, lines, mtime_ns, size "
    "FROM files WHERE generation > ?"
)
_BAD = (sqlite3.DatabaseError, UnicodeDecodeError, orjson.JSONDecodeError, TypeError, ValueError)
_REFUSED = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM})


@dataclass(frozen=True, slots=True)
class Row:
    """A file as the index keeps it: what is told to readers, and what the next run needs.

    ``digest`` is of the content; ``raw`` are the imports as written (`python_source`, `script_source` say how), so
    that they can be resolved again without reading the file; ``kinds`` has a letter for each export (`source`);
    ``trouble``: what of the file could not be read.
    """

    facts: FileFacts
    digest: bytes
    raw: tuple[str, ...] = ()
    kinds: str = ""
    trouble: Trouble | None = None


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells whether a file has changed since it was indexed."""

    mtime_ns: int
    size: int
    digest: bytes


@dataclass(frozen=True)
class Meta:
    """What the index says of itself. ``settings``: of what the resolving of imports depended on, beside the files."""

    generation: int
    floor: int
    built_at: str
    settings: str = ""
    conventions: str = ""
    summary: str = ""


@dataclass(frozen=True)
class IndexRead:
    """The answer of `read`.

    ``files`` are those that changed after the generation asked for, ``removed`` the project-relative paths of those
    that went since; with ``complete`` the reader must forget what it had: ``files`` is all there is, ``removed`` is
    empty. ``troubles`` are always all: files of the index that have no edges because they could not be read
    (``unreadable``), or maybe fewer than they should because a part was not understood (``odd``).
    The ``mtime_ns`` of a file is 0 when it could not tell a later change (`source_files`).
    ``conventions`` (JSON) and ``summary`` (Markdown) are of this very generation, unlike their copies beside it.
    """

    generation: int
    built_at: str
    files: list[FileFacts] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    complete: bool = True
    troubles: list[Trouble] = field(default_factory=list)
    conventions: str = ""
    summary: str = ""


def generation(root: Path) -> int | None:
    """The generation of the project's index, None without one; it changes whenever `read` would say otherwise.

    Costs an opening and one look-up. Raises Corrupt ``corrupt_index``, Environment ``io_failed``.
    """
    with _opened(root) as con:
        return None if con is None else meta_of(con).generation


def read(root: Path, since: int = 0) -> IndexRead:
    """What the index says; with ``since``, a generation read before, only what has changed after it if that is known.

    Paths are project-relative, with ``/``, never leading out of the project. Without an index: generation 0, no
    files, complete. Takes no lock, never waits for a writer, and never sees half of what one run changed. Raises
    Corrupt ``corrupt_index`` (broken, or of a newer version), Environment ``io_failed``.
    """
    with _opened(root) as con:
        if con is None:
            return IndexRead(0, "")
        meta = meta_of(con)
        complete = not meta.floor <= since <= meta.generation
        after = -1 if complete else since
        files = [_facts(row) for row in con.execute(_SELECT_FACTS, (after,))]
        removed: list[str] = []
        if not complete:
            found = con.execute("SELECT path FROM removed WHERE generation > ?", (since,))
            removed = [path_of(path) for (path,) in found]
        troubled = con.execute("SELECT path, trouble FROM files WHERE trouble <> '' ORDER BY path")
        troubles = [told for told in (trouble_of(*row) for row in troubled) if told is not None]
        return IndexRead(
            meta.generation, meta.built_at, files, removed, complete, troubles, meta.conventions, meta.summary
        )


def stamps(root: Path, paths: Collection[str]) -> dict[str, Stamp]:
    """What tells whether these files have changed; those the index does not know, and all without one, are left out.

    Raises like `read`.
    """
    found: dict[str, Stamp] = {}
    with _opened(root) as con:
        if con is not None:
            for path in paths:
                row = con.execute("SELECT mtime_ns, size, digest FROM files WHERE path = ?", (bindable(path),))
                for mtime_ns, size, digest in row:
                    found[path] = Stamp(int(mtime_ns), int(size), bytes(digest))
    return found


# -- rows -----------------------------------------------------------------------------------------------------------


def _facts(row: tuple[str, ...]) -> FileFacts:
    path, type_, purpose, exports, imports, packages, language, lines, mtime_ns, size = row
    return FileFacts(
        path_of(path), str(type_), str(purpose), _strings(exports), tuple(map(path_of, _strings(imports))),
        _strings(packages), str(language), int(lines), int(mtime_ns), int(size),
    )  # fmt: skip


def row_of(row: tuple[str, ...]) -> Row:
    digest, raw, kinds, trouble = row[10:]
    told = trouble_of(row[0], trouble)
    return Row(_facts(row[:10]), bytes(digest), _strings(raw), str(kinds), told)  # type: ignore[arg-type]  # a BLOB


def trouble_of(path: str, text: str) -> Trouble | None:
    if not text:
        return None
    line, what, kind = orjson.loads(text)
    return Trouble(path_of(path), int(line), str(what), "unreadable" if kind == "unreadable" else "odd")


def _strings(text: str) -> tuple[str, ...]:
    if text == "[]":
        return ()
    found = orjson.loads(text)
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError(f"{text[:80]!r} is no list of strings")
    return tuple(found)


def path_of(path: object) -> str:
    """The path, if it lies in the project: a repository may bring an index along that somebody else wrote."""
    if not isinstance(path, str) or not path or path[0] == "/" or "\0" in path or ".." in path.split("/"):
        raise ValueError(f"{path!r} is no path of a project")
    return path


def bindable(path: str) -> str:
    return path.encode(errors="replace").decode()


def meta_of(con: sqlite3.Connection) -> Meta:
    found = {str(key): str(value) for key, value in con.execute("SELECT key, value FROM meta")}
    try:
        return Meta(
            int(found["generation"]), int(found["floor"]), found["built_at"], found["settings"],
            found["conventions"], found["summary"],
        )  # fmt: skip
    except KeyError as error:
        raise ValueError(f"nothing says its {error}") from None


# -- opening --------------------------------------------------------------------------------------------------------


def present(root: Path) -> bool:
    """Whether there is an index; a link out of the project, or anything but a regular file, is none that we read."""
    path = root / STORE
    try:
        found = os.lstat(path)
        inside = path.parent.resolve().is_relative_to(root.resolve())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise failure(path, error) from error
    if not stat.S_ISREG(found.st_mode) or not inside or found.st_size > MAX_BYTES:
        raise Corrupt("corrupt_index", f"{path}: not a regular file of this project", file=str(path))
    return True


@contextlib.contextmanager
def _opened(root: Path) -> Iterator[sqlite3.Connection | None]:
    if not present(root):
        yield None
        return
    with blamed(root):
        # The file never changes, it is replaced: "immutable" needs no lock and nothing beside the file.
        uri = f"file:{quote(os.fsencode(root.absolute() / STORE))}?mode=ro&immutable=1"
        con = sqlite3.connect(uri, uri=True, isolation_level=None)
        try:
            checked(con)
            yield con
        finally:
            con.close()


def checked(con: sqlite3.Connection) -> None:
    con.execute("PRAGMA trusted_schema = OFF")
    ((version,),) = con.execute("PRAGMA user_version").fetchall()
    if version > VERSION:
        raise ValueError(f"it is of version {version}, this orchestrator knows {VERSION}")
    found = {sql for (sql,) in con.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    if version != VERSION or found != set(TABLES):
        raise ValueError("it has other tables than an index of ours")


@contextlib.contextmanager
def blamed(root: Path) -> Iterator[None]:
    """Whatever the file does wrong, as the error of who must act."""
    path = root / STORE
    try:
        yield
    except _BAD as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _REFUSED:
            raise Environment("io_failed", f"{path}: {error}", file=str(path)) from error
        raise Corrupt("corrupt_index", f"{path}: {error}", file=str(path)) from error
