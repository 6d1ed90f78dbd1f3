"""Reads a project's source files for evidence: bounded per call, inside the root, cached by stat. Reads only."""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Literal

from orchestrator.base.errors import BadRequest
from orchestrator.gsd.sources import walk
from orchestrator.gsd.sources.code import LANGUAGES, Text, ending

CALL_BYTES = 64 << 20
CALL_FILES = 20_000
CACHE_BYTES = 64 << 20
DATA_BYTES = 128 << 10
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_DIRECTORY = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY
_BINARY_BYTES = 8192
_NONE, _UNKNOWN = -1, -2

What = Literal["file", "directory", "none", "unknown"]

Mark = tuple[int, int, int, int]
"""What tells that a file has changed: device, inode, when, how long."""


class _Cache:
    """Texts by root and path while their file's mark is the same; the least used go first beyond 64 MiB."""

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._lock = threading.Lock()
        self._texts: OrderedDict[tuple[str, str], tuple[Mark, Text | None, int]] = OrderedDict()
        self._bytes = 0
        self._limit = limit

    def get(self, key: tuple[str, str], mark: Mark) -> tuple[Text | None, bool]:
        with self._lock:
            kept = self._texts.get(key)
            if kept is None or kept[0] != mark:
                return None, False
            self._texts.move_to_end(key)
            return kept[1], True

    def put(self, key: tuple[str, str], mark: Mark, text: Text | None) -> None:
        # A text is kept as written and, once looked at, without its comments and in lower case.
        cost = (sys.getsizeof(text.raw) * 3 if text else 0) + 500
        with self._lock:
            old = self._texts.pop(key, None)
            self._bytes -= old[2] if old else 0
            self._texts[key] = (mark, text, cost)
            self._bytes += cost
            while self._bytes > self._limit and self._texts:
                self._bytes -= self._texts.popitem(last=False)[1][2]


_CACHE = _Cache()


class Source:
    """The source files of one project during one call.

    ``complete`` turns False when a file that could have held evidence was not looked at: over the budget (64 MiB or
    20,000 files), over 1 MiB, unreadable, behind a link that leaves the project's own files, in a repository inside
    it, or the walk failed. Only a complete search may deny anything (C26).
    """

    def __init__(self, root: Path, *, budget: int = CALL_BYTES, files: int = CALL_FILES) -> None:
        self._root = root
        self._budget = budget
        self._most = files
        self._listing: dict[str, walk.Found] | None = None
        self._read: dict[str, Text | None] = {}
        self._refused: set[str] = set()
        self._all = False
        self._recalled = 0
        self.complete = True

    @property
    def listing(self) -> dict[str, walk.Found]:
        """Every file of the project by path, also those that are no source; sorted."""
        if self._listing is None:
            try:
                unseen: list[str] = []
                self._listing = {found.path: found for found in walk.files(self._root, unseen=unseen)}
                self.complete = self.complete and not any(self._hides(path) for path in unseen)
            except OSError:
                self._listing = {}
                self.complete = False
        return self._listing

    def _hides(self, path: str) -> bool:
        """Whether what was not looked into may hold source that is not read by another path."""
        name = path.rstrip("/").rpartition("/")[2]
        if name in walk.SKIPPED:
            return False
        there = self._root / path
        link = there.is_symlink()
        try:
            real = there.resolve(strict=True)
        except (OSError, RuntimeError):
            return not link  # a link to nothing hides nothing
        if link and ending(path) not in {"", *LANGUAGES}:
            return False
        if not link or not real.is_relative_to(self._root.resolve()):
            return True
        return not walk.SKIPPED.isdisjoint(real.relative_to(self._root.resolve()).parts)

    @property
    def root_name(self) -> str:
        """The project's root, as text."""
        return str(self._root)

    @cached_property
    def paths(self) -> list[str]:
        """The paths of the files that count as source, sorted."""
        return [path for path in self.listing if ending(path) in LANGUAGES]

    @property
    def searched(self) -> dict[str, object]:
        """How much source was looked at: ``{files, of, complete}``; where ``complete``, both numbers are the same.

        ``of``: the files that had to be looked at. All of the project's, unless the answer was there before, as when
        a file is asked for by its path.
        """
        of = len({*self.paths, *self._seen}) if self._all else len(self._seen | self._refused)
        return {"files": of if self.complete else self.looked_at, "of": of, "complete": self.complete}

    @property
    def looked_at(self) -> int:
        """How many source files were looked at until now."""
        return max(len(self._seen), self._recalled)

    @property
    def _seen(self) -> set[str]:
        return {path for path in self._read if ending(path) in LANGUAGES and path not in self._refused}

    def recall(self, files: int) -> None:
        """Count so many files as looked at: what all of the source said is remembered, and none has changed since."""
        self._all, self._recalled = True, files

    def texts(self, first: Iterable[str] = ()) -> Iterator[Text]:
        """Every source file's text, those of ``first`` before the others; a vanished one is left out."""
        listing = self.listing
        for path in dict.fromkeys([*(path for path in first if path in listing), *self.paths]):
            if ending(path) in LANGUAGES:
                text = self.text(path)
                if text is not None:
                    yield text
        self._all = True

    def relative(self, path: str) -> str:
        """A path as project-relative; BadRequest ``path_escape`` when it leaves the project or cannot be one."""
        plain = path.replace("\\", "/").strip()
        if plain.startswith("/"):
            root = f"{self._root}/"
            if not plain.startswith(root):
                raise BadRequest("path_escape", f"{plain[:200]} lies outside of the project.")
            plain = plain[len(root) :]
        parts = [part for part in plain.split("/") if part not in {"", "."}]
        if ".." in parts or "\0" in plain or not parts:
            raise BadRequest("path_escape", f"{plain[:200]!r} leaves the project, or is no path.")
        return "/".join(parts)

    def what(self, path: str) -> What:
        """What lies at a project-relative path, also one that git ignores; ``unknown`` behind a link or a refusal."""
        fd = self._open(path)
        if fd < 0:
            return "none" if fd == _NONE else "unknown"
        try:
            mode = os.fstat(fd).st_mode
        finally:
            os.close(fd)
        return "file" if stat.S_ISREG(mode) else "directory" if stat.S_ISDIR(mode) else "none"

    def text(self, path: str) -> Text | None:
        """A file's text; None when it is none, binary, gone, over 1 MiB, or the call's budget is spent."""
        if path not in self._read:
            self._read[path] = self._load(path)
        return self._read[path]

    def data(self, path: str, telling: bool = False) -> str | None:
        """The text of a file that is no source, when it is no longer than 128 KiB (``telling``: than 1 MiB)."""
        if not telling and self.listing[path].size > DATA_BYTES:
            return None
        text = self.text(path)
        return text.raw if text is not None else None

    def _load(self, path: str) -> Text | None:
        if self._most <= 0 or self._budget <= 0:
            self._refuse(path)
            return None
        fd = self._open(path)
        if fd < 0:
            if fd != _NONE and path in self.listing:
                self._refuse(path)
            return None
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            os.close(fd)
            return None
        with os.fdopen(fd, "rb") as file:
            if found.st_size > walk.MAX_BYTES:
                self._refuse(path)
                return None
            self._most -= 1
            self._budget -= found.st_size
            mark = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
            key = (str(self._root), path)
            text, known = _CACHE.get(key, mark)
            if known:
                return text
            try:
                data = file.read(walk.MAX_BYTES + 1)
            except OSError:
                self._refuse(path)
                return None
        if len(data) > walk.MAX_BYTES:
            self._refuse(path)
            return None
        text = None
        if b"\0" not in data[:_BINARY_BYTES]:
            text = Text(path, data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n"))
        _CACHE.put(key, mark, text)
        return text

    def _refuse(self, path: str) -> None:
        """Note that a file was not looked at that could have held evidence."""
        self.complete = False
        if ending(path) in LANGUAGES:
            self._refused.add(path)

    def _open(self, path: str) -> int:
        """A descriptor of what lies below the root, no link on the way; _NONE: nothing; _UNKNOWN: cannot be told."""
        at = -1
        try:
            at = os.open(self._root, _DIRECTORY)
            *directories, name = path.split("/")
            for part in directories:
                below = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
                os.close(at)
                at = below
            return os.open(name, _FLAGS, dir_fd=at)
        except (FileNotFoundError, ValueError):
            return _NONE
        except OSError as error:
            return _NONE if error.errno == errno.ENAMETOOLONG else _UNKNOWN
        finally:
            if at >= 0:
                os.close(at)
