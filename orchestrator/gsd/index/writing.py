"""Writes the index of a project's code: one writer at a time, each index a file of its own that replaces the last.

Touches `.agents/gsd/` alone and, when it must be made, `.agents/` with its ``.gitignore``.
What the tables mean and how they are read stands in `store`.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

import orjson
from filelock import FileLock, Timeout

from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import BadRequest, NotReady
from orchestrator.gsd.index.store import (
    DIRECTORY,
    LOCK,
    STORE,
    TABLES,
    VERSION,
    Meta,
    Row,
    Stamp,
    bindable,
    blamed,
    checked,
    meta_of,
    path_of,
    present,
    row_of,
    trouble_of,
)
from orchestrator.gsd.model import Trouble
from orchestrator.journal.project_files import IGNORE, confine, failure, make_dir, replace

USERS = ".planning"
"""Below a directory of this name nothing is written, by whatever way it is reached: hooks of GSD users heed it."""
IGNORE_ALL = f"{DIRECTORY}/.gitignore"
TOMBSTONES = 10_000
"""So many removed files are remembered; of older ones a reader learns by being told everything."""
_SELECT_ROWS = (
    "SELECT path, type, purpose, exports, imports, packages, language, lines, mtime_ns, size, digest, raw, kinds, "
    "trouble FROM files"
)
_INSERT = (
    "INSERT OR REPLACE INTO files (path, type, purpose, exports, imports, packages, language, lines, mtime_ns, size, "
    "digest, raw, kinds, trouble, generation) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class Writing:
    """The index while its one writer works on it: what it says now, and ``save``; made by `writing`."""

    def __init__(self, root: Path, old: bytes | None) -> None:
        """Take the bytes of the index there is; None: a new one is to be made."""
        self.root = root
        self._old = old
        self.meta: Meta | None = None
        self._con = sqlite3.connect(":memory:", isolation_level=None)
        with blamed(root):
            if old is None:
                self._new()
            elif not old:
                raise ValueError("it is empty")  # for which SQLite has no word but "out of memory"
            else:
                self._con.deserialize(old)
                checked(self._con)
                self.meta = meta_of(self._con)

    def _new(self) -> None:
        for table in TABLES:
            self._con.execute(table)
        self._con.execute(f"PRAGMA user_version = {VERSION:d}")

    def stamps(self) -> dict[str, Stamp]:
        """Of all files, by path."""
        with blamed(self.root):
            found = self._con.execute("SELECT path, mtime_ns, size, digest FROM files")
            return {path_of(path): Stamp(int(at), int(size), bytes(digest)) for path, at, size, digest in found}

    def rows(self) -> dict[str, Row]:
        """All files, by path."""
        with blamed(self.root):
            return {row.facts.path: row for row in map(row_of, self._con.execute(_SELECT_ROWS))}

    def totals(self) -> tuple[dict[str, int], int, list[Trouble]]:
        """How many files there are of each language, how many edges, and what could not be read."""
        with blamed(self.root):
            counted = self._con.execute(
                "SELECT language, count(*), sum(json_array_length(imports)) FROM files "
                "GROUP BY language ORDER BY count(*) DESC, language"
            ).fetchall()
            troubled = self._con.execute("SELECT path, trouble FROM files WHERE trouble <> '' ORDER BY path")
            troubles = [told for told in (trouble_of(*row) for row in troubled) if told is not None]
        return {language: count for language, count, _ in counted}, sum(edges for *_, edges in counted), troubles

    def save(
        self,
        *,
        changed: Iterable[Row],
        touched: Mapping[str, tuple[int, int]],
        removed: Collection[str],
        at: datetime,
        settings: str,
        conventions: str,
        summary: str,
    ) -> Meta:
        """Put the next index in the place of this one, durably; what it says of itself now.

        ``changed`` are new rows or ones that say something else, ``touched`` gives the new mtime (ns) and size of
        files whose content is the same. Raises Environment ``disk_full`` or ``io_failed``; then the old index stays.
        """
        rows = list(changed)
        before = self.meta
        if before is None:
            number = floor = max(1, int(at.timestamp() * 1000))
        else:
            told = (before.settings, before.conventions, before.summary) != (settings, conventions, summary)
            number = before.generation + bool(rows or removed or told)
            floor = before.floor
        with blamed(self.root):
            self._con.execute("BEGIN")
            self._con.executemany(
                "UPDATE files SET mtime_ns = ?, size = ? WHERE path = ?",
                ((mtime_ns, size, path) for path, (mtime_ns, size) in touched.items()),
            )
            self._con.executemany(
                _INSERT,
                ((*_values(row), number) for row in rows),
            )
            self._con.executemany("DELETE FROM removed WHERE path = ?", ((row.facts.path,) for row in rows))
            self._con.executemany("DELETE FROM files WHERE path = ?", ((path,) for path in removed))
            self._con.executemany(
                "INSERT OR REPLACE INTO removed VALUES (?, ?)", ((path, number) for path in removed)
            )
            floor = self._forget(floor)
            self.meta = Meta(number, floor, rfc3339(at), settings, conventions, summary)
            self._con.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", _pairs(self.root, self.meta))
            self._con.execute("COMMIT")
            data = self._con.serialize()
        replace(self.root / STORE, data)
        return self.meta

    def _forget(self, floor: int) -> int:
        """Drop the oldest tombstones beyond `TOMBSTONES`; the least generation that can still be honoured."""
        for (last,) in self._con.execute(
            "SELECT generation FROM removed ORDER BY generation DESC LIMIT 1 OFFSET ?", (TOMBSTONES,)
        ).fetchall():
            self._con.execute("DELETE FROM removed WHERE generation <= ?", (last,))
            return max(floor, int(last))
        return floor

    def close(self) -> None:
        """Let go of the memory it took."""
        self._con.close()


@contextlib.contextmanager
def writing(root: Path, *, rebuild: bool = False) -> Iterator[Writing]:
    """Be the one writer of the project's index; makes `.agents/gsd/` when it is missing.

    ``rebuild``: what there is, however broken or new, is not read, and replaced when ``save`` is called. Raises
    NotReady ``index_busy`` at once while another process writes it, Corrupt ``corrupt_index``, BadRequest
    ``path_escape`` when `.agents` or `.agents/gsd` is a link out of the project, or would lie below a `.planning/`,
    Environment ``io_failed``.
    """
    _ensure(root)
    path = root / LOCK
    lock = FileLock(path, timeout=0, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        raise NotReady("index_busy", f"another process is making the index of {root}") from None
    except OSError as error:
        raise failure(path, error) from error
    try:
        for left in (root / DIRECTORY).glob(".*.tmp"):  # of a writer that was killed
            with contextlib.suppress(OSError):
                left.unlink()
        made = Writing(root, None if rebuild else _bytes(root))
        try:
            yield made
        finally:
            made.close()
    finally:
        lock.release()


def _ensure(root: Path) -> None:
    home = root / ".agents"
    if USERS in Path(os.path.realpath(root / DIRECTORY)).parts:
        message = f"{root / DIRECTORY} lies below a {USERS}/, where nothing is written"
        raise BadRequest("path_escape", message, "name a directory outside of it: orchestrator gsd index DIR")
    made = not os.path.lexists(home)
    for directory, mode in ((home, 0o755), (root / DIRECTORY, 0o755)):
        confine(root, str(directory.relative_to(root)), what=str(directory.relative_to(root)))
        make_dir(directory, mode)
    if os.path.lexists(home / ".gitignore"):
        return
    if made:
        replace(home / ".gitignore", IGNORE.encode())
    elif not os.path.lexists(root / IGNORE_ALL):  # other tools have an .agents/ too: only ours is kept out of git
        replace(root / IGNORE_ALL, b"*\n")


def _bytes(root: Path) -> bytes | None:
    if not present(root):
        return None
    path = root / STORE
    try:
        return path.read_bytes()
    except OSError as error:
        raise failure(path, error) from error


def _values(row: Row) -> tuple[object, ...]:
    facts = row.facts
    lists = (orjson.dumps(each).decode() for each in (facts.exports, facts.imports, facts.packages))
    return (
        facts.path, facts.type, facts.purpose, *lists, facts.language, facts.lines, facts.mtime_ns, facts.size,
        row.digest, orjson.dumps(row.raw).decode(), row.kinds, _written(row.trouble),
    )  # fmt: skip


def _written(trouble: Trouble | None) -> str:
    return "" if trouble is None else orjson.dumps([trouble.line, trouble.what, trouble.kind]).decode()


def _pairs(root: Path, meta: Meta) -> list[tuple[str, str]]:
    return [
        ("root", bindable(str(root))), ("generation", str(meta.generation)), ("floor", str(meta.floor)),
        ("built_at", meta.built_at), ("settings", meta.settings), ("conventions", meta.conventions),
        ("summary", meta.summary),
    ]  # fmt: skip
