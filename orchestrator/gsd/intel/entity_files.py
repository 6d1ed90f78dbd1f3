"""The directory of entity files: which have changed since last time, and what they say now. Reads only.

Up to `STAT_ALL` files each is looked at every time. Beyond that only the directory is: its listing tells of files
that came, went or were replaced, and whoever watches it tells of those that were written in place (``touch``).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from orchestrator.gsd.graph.foreign import Roots
from orchestrator.gsd.graph.said import Said
from orchestrator.gsd.graph.slugs import is_absolute
from orchestrator.gsd.intel import entities
from orchestrator.gsd.intel.files import Unreadable, inside, read, reason, relative, stamp, stamp_of
from orchestrator.gsd.model import Trouble

STAT_ALL = 3_000
MOST = 200_000
MAX_ID = 255
Mark = tuple[int, ...]


class EntityFiles:
    """The entities of a project. For one thread at a time."""

    def __init__(self, root: Path, directory: Path) -> None:
        """Take the project's root and the entities' directory; nothing is read yet."""
        self._root = root
        self._directory = directory
        self._where = relative(root, directory)
        self._marks: dict[str, Mark] = {}  # by file name
        self._directory_mark: Mark | None = None
        self._touched: set[str] = set()
        self._bad: dict[str, Trouble] = {}
        self._names: dict[str, str] = {}  # file name by id
        self.roots: Roots | None = None
        self.troubles: list[Trouble] = []

    def touch(self, name: str) -> None:
        """A file that has changed, by its name."""
        self._touched.add(name)

    def changes(self) -> dict[str, Said | None]:
        """What the entities that have changed since last time say now, by file name; None: it is gone."""
        mark = stamp(self._directory)
        if mark is None or not self._directory.is_dir() or not inside(self._root, self._directory):
            outside = mark is not None
            self.troubles = [Trouble(self._where, 0, "is no directory of this project", "unreadable")] * outside
            gone: dict[str, Said | None] = dict.fromkeys(self._marks)
            self._marks, self._names, self._directory_mark, self._bad = {}, {}, None, {}
            return gone
        many = len(self._marks) > STAT_ALL
        if many and mark == self._directory_mark:
            changed, removed = [name for name in self._touched if name in self._marks], list[str]()
        else:
            scanned = self._scanned(many)
            if scanned is None:  # for want of descriptors, say: the next look is for all of it
                self._directory_mark = None
                return {}
            changed, removed = scanned
        self._touched.clear()
        self._directory_mark = mark
        return self._read(changed, removed)

    def file(self, entity_id: str) -> str | None:
        """The name of the file of an id, case ignored."""
        return self._names.get(entity_id.lower())

    def ids(self) -> Iterable[str]:
        """The ids there are files for."""
        return self._names.keys()

    def _scanned(self, many: bool) -> tuple[list[str], list[str]] | None:
        """The names of the files that are new or have changed, and of those that have gone; None: nobody knows."""
        now: dict[str, Mark] = {}
        self.troubles = []
        try:
            with os.scandir(self._directory) as entries:
                for entry in entries:
                    if not entry.name.lower().endswith(".md") or entry.name.startswith("."):
                        continue
                    if not entry.name.isprintable():
                        name = os.fsencode(entry.name).decode(errors="replace")
                        self.troubles.append(Trouble(f"{self._where}/{name}", 0, "has a name that is not text"))
                        continue
                    if len(now) == MOST:
                        self.troubles.append(
                            Trouble(self._where, 0, f"has more than {MOST:,} files; some are left out")
                        )
                        break
                    mark = self._mark(entry, many)
                    if mark:
                        now[entry.name] = mark
        except OSError as error:
            self.troubles.append(Trouble(self._where, 0, f"cannot be listed: {reason(error)}", "unreadable"))
            return None
        if not many and len(now) > STAT_ALL:  # from now on only the inodes are compared
            before: dict[str, Mark] = {}
        else:
            before = self._marks
        changed = [name for name, mark in now.items() if before.get(name) != mark or name in self._touched]
        removed = [name for name in self._marks if name not in now]
        self._marks = {name: mark[:1] for name, mark in now.items()} if len(now) > STAT_ALL else now
        return changed, removed

    def _mark(self, entry: os.DirEntry[str], many: bool) -> Mark | None:
        try:
            if many and not entry.is_symlink():
                return (entry.inode(),)
            found = entry.stat()
        except OSError as error:
            if not isinstance(error, FileNotFoundError):  # gone meanwhile, or a link to nothing
                what = f"cannot be opened: {reason(error)}"
                self.troubles.append(Trouble(f"{self._where}/{entry.name}", 0, what, "unreadable"))
            return None
        if not stat.S_ISREG(found.st_mode):
            self.troubles.append(Trouble(f"{self._where}/{entry.name}", 0, "is not a regular file", "unreadable"))
            return None
        return stamp_of(found)

    def _read(self, changed: list[str], removed: list[str]) -> dict[str, Said | None]:
        parsed: dict[str, entities.Entity] = {}
        found: dict[str, Said | None] = {}
        for name in removed:
            found[name] = None
            self._bad.pop(name, None)
            if self._names.get(name[:-3].lower()) == name:
                del self._names[name[:-3].lower()]
        for name in self._marks if removed else ():  # another may differ from it by case alone
            if name not in self._bad:
                self._names.setdefault(name[:-3].lower(), name)
        for name in changed:
            try:
                content = read(self._root, self._directory / name, entities.MAX_BYTES)
            except Unreadable as error:
                self._bad[name] = Trouble(f"{self._where}/{name}"[:500], 0, error.what, "unreadable")
                found[name] = None
                continue
            self._bad.pop(name, None)
            if content is None:
                found[name] = None
                continue
            parsed[name] = entities.parse(content.data)
            self._names[name[:-3].lower()] = name
        self._know_roots(parsed)
        for name, entity in parsed.items():
            found[name] = self._said(name, entity)
        told = {bad.file for bad in self._bad.values()}
        self.troubles = [each for each in self.troubles if each.file not in told]
        self.troubles += self._bad.values()
        return found

    def _know_roots(self, parsed: dict[str, entities.Entity]) -> None:
        paths = [entity.path for entity in parsed.values() if is_absolute(entity.path)]
        if self.roots is None or any(not self.roots.relative(path) for path in paths):
            made = Roots(self._root, paths, self._names.keys())
            if self.roots is not None:
                made.known = list(dict.fromkeys([*self.roots.known, *made.known]))
            self.roots = made

    def _said(self, name: str, entity: entities.Entity) -> Said:
        assert self.roots is not None
        path = self.roots.relative(entity.path) if entity.path else ""
        return Said(
            "entity",
            name[:-3].lower(),
            path,
            entity.purpose,
            entity.type,
            entity.exports,
            entity.status,
            entity.links,
        )
