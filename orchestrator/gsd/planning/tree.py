"""A project's `.planning/` tree, read and kept: each file again only when it looks different. Reads only.

Regular files alone are opened, inside the project alone; what cannot be read is told as a Trouble, never raised.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from orchestrator.base.clock import Clock, SystemClock
from orchestrator.gsd.model import Planning, Trouble
from orchestrator.gsd.planning import (
    assembling,
    phase_files,
    project_file,
    roadmap,
    state_file,
    summary_file,
    verification_file,
)
from orchestrator.gsd.planning.assembling import Read
from orchestrator.gsd.planning.phase_files import Place

DIRECTORY = ".planning"
FILES_MAX = 20_000
FILE_MAX = 2 << 20
_DEPTH_MAX = 6
_TRIES = 3
_WALKED = frozenset({"phases", "milestones", "quick"})
# A file system stamps with a clock that ticks: what changed this recently may change again without looking different.
_SETTLED_NS = 2_000_000_000

_Parse = Callable[[str, str, Place], tuple[Any, tuple[Trouble, ...]]]


class _Gone(Exception):
    """The file is not there any more."""


class _Unreadable(Exception):
    """The file cannot be read; the message says why."""


class _Entry(NamedTuple):
    """A file found: its path from the `.planning/`, what it is, and where it really lies."""

    path: str
    place: Place
    real: str


@dataclass(frozen=True)
class _Kept:
    stamp: tuple[int, ...]
    settled: bool
    digest: bytes
    read: Read


class PlanningStore:
    """The planning of one project, for any number of threads."""

    def __init__(self, root: Path, clock: Clock | None = None) -> None:
        self._root = root
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self._listed: object = None
        self._planning: Planning | None = None

    def read(self) -> Planning | None:
        """What the tree says now; None where there is no `.planning/`.

        The very same object as before while nothing has changed. A file that vanishes meanwhile is as if it had not
        been there; one that changes while it is read is read again, and if that goes on, by the next call.
        """
        with self._lock:
            return self._read()

    def _read(self) -> Planning | None:
        base = self._root / DIRECTORY
        troubles: list[Trouble] = []
        inside = os.path.realpath(self._root)
        try:
            there = base.is_dir()
        except (OSError, ValueError):  # nobody may look into the root, or it has a NUL
            there = False
        if not there:
            self._kept, self._listed, self._planning = {}, None, None
            return None
        found = _Walk(str(base), inside, troubles)
        kept: dict[str, _Kept] = {}
        changed = False
        for entry in found.entries:
            try:
                one, new = self._file(entry)
            except _Gone:
                continue
            kept[entry.path] = one
            changed = changed or new
        listed = (tuple(kept), tuple(found.directories), tuple(troubles))
        self._kept = kept
        if changed or listed != self._listed or self._planning is None:
            self._listed = listed
            reads = [one.read for one in kept.values()]
            files = sum(all(odd.kind != "unreadable" for odd in one.troubles) for one in reads)
            self._planning = assembling.planning(reads, found.directories, troubles, files)
        return self._planning

    def _file(self, entry: _Entry) -> tuple[_Kept, bool]:
        """What is kept of a file, read again if it may have changed; whether it says anything else than before."""
        kept = self._kept.get(entry.path)
        try:
            if kept and kept.settled and kept.stamp == _stamp(Path(entry.real).stat()):
                return kept, False
        except FileNotFoundError as error:
            raise _Gone from error
        except OSError:
            pass  # opening it will say why
        file = f"{DIRECTORY}/{entry.path}"
        now = int(self._clock.now().timestamp() * 1e9)
        try:
            content, stamp, whole = _content(entry.real)
        except _Unreadable as error:
            content, stamp, whole = b"", (), False
            read = Read(file, entry.place, None, (Trouble(file, 0, str(error), "unreadable"),))
            digest = str(error).encode()
        else:
            digest = hashlib.blake2b(content, digest_size=16).digest()
            read = kept.read if kept and kept.digest == digest else parsed(content, file, entry.place)
        # ctime, which nobody can set: a file with a date in the future is as settled as any other.
        settled = whole and stamp[2] < now - _SETTLED_NS
        return _Kept(stamp, settled, digest, read), not (kept and kept.digest == digest)


class _Walk:
    """The files of a tree that are part of the planning, and the phases' directories, sorted by path."""

    def __init__(self, base: str, inside: str, troubles: list[Trouble]) -> None:
        self._base, self._inside, self._troubles = base, inside, troubles
        self._seen: set[tuple[int, int]] = set()
        self._left = FILES_MAX
        self.entries: list[_Entry] = []
        self.directories: list[tuple[str, str]] = []
        self._walk("", base, 0)
        if self._left < 0:
            troubles.append(
                Trouble(DIRECTORY, 0, f"more than {FILES_MAX} files: the rest was not read", "unreadable")
            )
        self.entries.sort()
        self.directories.sort()

    def _walk(self, path: str, real: str, depth: int) -> None:
        for name, entry in self._listed(path, real):
            if self._left < 0:
                return
            below = f"{path}/{name}" if path else name
            where = self._real(below, entry)
            if where is None:
                continue
            try:
                directory = entry.is_dir()
            except OSError:
                directory = False  # opening it will say why
            if not directory:
                self._left -= 1
                place = phase_files.place(below)
                if place and self._left >= 0:
                    self.entries.append(_Entry(below, place, where))
            elif depth < _DEPTH_MAX and (depth or name in _WALKED):
                tree = phase_files.phase_directory(below)
                if tree is not None:
                    self.directories.append((tree, f"{DIRECTORY}/{below}"))
                self._walk(below, where, depth + 1)

    def _listed(self, path: str, real: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        try:
            found = Path(real).stat()
            if (found.st_dev, found.st_ino) in self._seen:
                return  # a link leads back
            self._seen.add((found.st_dev, found.st_ino))
            if not path and not _within(os.path.realpath(real), self._inside):
                self._trouble("", "it is a link that leads out of the project; it was not followed")
                return
            with os.scandir(real) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except FileNotFoundError:
            return
        except OSError as error:
            self._trouble(path, f"the directory cannot be read: {error.strerror or error}")
            return
        for entry in entries:
            try:
                entry.name.encode()
            except UnicodeEncodeError:
                self._trouble(
                    path, f"a name is not UTF-8: {os.fsencode(entry.name).decode('utf-8', 'backslashreplace')}"
                )
                continue
            yield entry.name, entry

    def _real(self, path: str, entry: os.DirEntry[str]) -> str | None:
        """Where an entry really lies; None, with a Trouble, for a link out of the project or in a circle."""
        if not entry.is_symlink():
            return entry.path
        real = os.path.realpath(entry.path)
        if _within(real, self._inside):
            return real
        self._trouble(path, "a link leads out of the project, or in a circle; it was not followed")
        return None

    def _trouble(self, path: str, what: str) -> None:
        self._troubles.append(Trouble(f"{DIRECTORY}/{path}" if path else DIRECTORY, 0, what, "unreadable"))


def _within(real: str, inside: str) -> bool:
    return real == inside or real.startswith(inside.rstrip(os.sep) + os.sep)


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def _content(real: str) -> tuple[bytes, tuple[int, ...], bool]:
    """A file's bytes, its stamp from before it was read, and whether it stood still meanwhile."""
    for _ in range(_TRIES):
        try:
            descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _Gone from error
        except OSError as error:
            raise _Unreadable(f"it cannot be opened: {error.strerror}") from error
        try:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                raise _Unreadable("it is no regular file")
            if before.st_size > FILE_MAX:
                raise _Unreadable(f"it has {before.st_size} bytes; above {FILE_MAX} nothing of a file is read")
            content = b"".join(_chunks(descriptor))
            after = os.fstat(descriptor)
            if len(content) > FILE_MAX:
                raise _Unreadable(f"it has more than {FILE_MAX} bytes; nothing of it is read")
        except OSError as error:
            raise _Unreadable(f"it cannot be read: {error.strerror}") from error
        finally:
            os.close(descriptor)
        if _stamp(before) == _stamp(after) and len(content) == after.st_size:
            return content, _stamp(before), True
    return content, _stamp(before), False


def _chunks(descriptor: int) -> Iterator[bytes]:
    left = FILE_MAX + 1
    while left > 0 and (chunk := os.read(descriptor, left)):
        left -= len(chunk)
        yield chunk


def parsed(content: bytes, file: str, place: Place) -> Read:
    """What a file's bytes say; bytes that are not UTF-8 and NULs are replaced, and told with their line."""
    odd: list[Trouble] = []
    text = content.decode("utf-8", "replace")
    if "\ufffd" in text or "\0" in text:
        try:
            content.decode()
        except UnicodeDecodeError as error:
            odd.append(
                Trouble(file, content.count(b"\n", 0, error.start) + 1, "bytes that are not UTF-8 were replaced")
            )
        if "\0" in text:
            odd.append(Trouble(file, text.count("\n", 0, text.index("\0")) + 1, "NUL characters were left out"))
            text = text.replace("\0", "")
    if place.kind == "config":
        value, troubles = _config(text, file)
    elif place.kind in {"context", "research"}:
        value, troubles = None, ()
    else:
        value, troubles = _PARSERS[place.kind](text, file, place)
    return Read(file, place, value, (*odd, *troubles))


def _config(text: str, file: str) -> tuple[dict[str, Any], tuple[Trouble, ...]]:
    try:
        found = orjson.loads(text.removeprefix("\ufeff"))
    except orjson.JSONDecodeError as error:
        return {}, (Trouble(file, error.lineno, f"it is no JSON: {error.msg}", "unreadable"),)
    if not isinstance(found, dict):
        return {}, (Trouble(file, 1, "it is no JSON object", "unreadable"),)
    return found, ()


def _roadmap(text: str, file: str, _: Place) -> tuple[Any, tuple[Trouble, ...]]:
    found = roadmap.roadmap(text, file)
    return found, found.troubles


_PARSERS: dict[str, _Parse] = {
    "project": lambda text, file, _: project_file.project(text, file),
    "requirements": lambda text, file, _: project_file.requirements(text, file),
    "roadmap": _roadmap,
    "state": lambda text, file, _: state_file.state(text, file),
    "milestones": lambda text, file, _: roadmap.milestones(text, file),
    "plan": phase_files.plan,
    "summary": summary_file.summary,
    "verification": lambda text, file, _: verification_file.verification(text, file),
    "uat": lambda text, file, _: verification_file.uat(text, file),
}
