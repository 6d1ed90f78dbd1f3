"""What the user has allowed of a project's files: by the project's identity, the file's name and its exact content.

The store is in the user's state directory, so that no file of a repository can change it. A copy of each allowed
content is kept to show the difference when the file has changed. Standard library only.
"""
# os.path keeps names that are not UTF-8:
# ruff: noqa: PTH100

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from orchestrator.trust import identity, state_dir

Class = Literal["harmless", "acting", "own"]
"""What a key may do when a file of the project says it.

``harmless`` counts from anywhere. ``acting`` can run, permit or redirect something: it counts from a file of the
project only once the user has allowed exactly that content. ``own`` never counts from a project: it is the user's
word about trust itself, about who answers for the user, and how the user is notified. Keys that a project's files get
later and that must be acting: ``[fleet]``, tasks in team files, engine descriptions.
"""
CLASSES: tuple[Class, ...] = ("harmless", "acting", "own")

CONTENT_MAX = 128 * 1024
"""No larger file can be allowed: nobody reads more than that before an answer."""
FILES_MAX = 1000
"""As many files of one project may be allowed at once; the oldest give way, and are asked for again."""
_STORE = "allowed"
_HEAD_MAX = 16 * 1024


class AllowedFile(NamedTuple):
    """One allowed file: its name in the project, the hash of its content, and when it was allowed."""

    name: str
    sha256: str
    at: str


class Allowed:
    """What is allowed of the project at ``root`` now; each call reads the store, and nothing is kept in memory.

    A project whose `.agents/` was not made here (a clone, a copy) has nothing allowed.
    """

    def __init__(self, root: Path) -> None:
        directory_identity = identity.recognize(root / ".agents")
        self._place = None if directory_identity is None else directory_identity.place / _STORE

    def counts(self, name: str, content: bytes) -> bool:
        """Whether exactly this content was allowed for the file of that name."""
        return len(content) <= CONTENT_MAX and self.last(name) == content

    def last(self, name: str) -> bytes | None:
        """The content that was allowed last for the file of that name; None for none."""
        record = self._read(_file_of(name))
        return record[1] if record is not None and record[0].name == name else None

    def entries(self) -> list[AllowedFile]:
        """Every allowed file, by name."""
        return sorted(entry for _, entry in self._stored())

    def stamp(self) -> tuple[object, ...]:
        """Changes when something is allowed or revoked, without reading it."""
        if self._place is None:
            return ()
        try:
            directory_stat = self._place.lstat()
        except OSError:
            return (str(self._place),)
        return (str(self._place), directory_stat.st_ino, directory_stat.st_mtime_ns, directory_stat.st_ctime_ns)

    @property
    def place(self) -> Path | None:
        """The directory of the store; None for a project that was not made here. It may not exist yet."""
        return self._place

    def _stored(self) -> list[tuple[Path, AllowedFile]]:
        if self._place is None:
            return []
        try:
            names = sorted(os.listdir(self._place))  # noqa: PTH208 - names, and no Path for each
        except OSError:
            return []
        records = ((self._place / name, self._read(name)) for name in names if not name.startswith("."))
        return [(path, record[0]) for path, record in records if record is not None]

    def _read(self, file: str) -> tuple[AllowedFile, bytes] | None:
        data = None if self._place is None else state_dir.read(self._place / file, CONTENT_MAX + _HEAD_MAX)
        head, _, content = (data or b"").partition(b"\n")
        with contextlib.suppress(ValueError, LookupError, TypeError, RecursionError):
            fields: dict[str, Any] = json.loads(head)
            entry = AllowedFile(fields["name"], fields["sha256"], fields["at"])
            if all(isinstance(value, str) for value in entry) and entry.sha256 == digest(content):
                return entry, content
        return None


def allow(root: Path, files: Mapping[str, bytes], at: str) -> None:
    """Allow these contents of the project's files from now on; ``at`` is the time, RFC 3339.

    Gives `.agents/`, which must exist, an identity if it has none from here. A crash in the middle leaves some of the
    files allowed. Raises ``StateDirUnsafe``, ``OSError``, and ``ValueError`` for a content beyond `CONTENT_MAX`.
    """
    if any(len(content) > CONTENT_MAX for content in files.values()):
        raise ValueError("the content of a file is too large to be allowed")
    place = state_dir.private_dir(
        identity.PROJECTS, identity.establish(root / ".agents").id, _STORE
    )  # checked on its way down
    for name, content in files.items():
        head = {"v": 1, "name": name, "sha256": digest(content), "at": at}
        state_dir.write(place / _file_of(name), json.dumps(head).encode() + b"\n" + content)
    stored = Allowed(root)._stored()  # noqa: SLF001 - of this module
    for path, _ in sorted(stored, key=lambda pair: pair[1].at)[: max(0, len(stored) - FILES_MAX)]:
        path.unlink(missing_ok=True)


def revoke(root: Path, names: Collection[str] | None = None) -> list[str]:
    """Revoke what was allowed for these file names (None: all); returns the names that were allowed."""
    gone = []
    for path, entry in Allowed(root)._stored():  # noqa: SLF001 - of this module
        if names is None or entry.name in names:
            path.unlink(missing_ok=True)
            gone.append(entry.name)
    return sorted(gone)


def digest(content: bytes) -> str:
    """The hash by which a content is named: SHA-256, as hex digits."""
    return hashlib.sha256(content).hexdigest()


def name_of(root: Path, path: Path) -> str | None:
    """The name of a file in the project; None if it is outside, however its path is written.

    A link in the project that leads out counts as the project's, because the project chose its target.
    """
    bases = [os.path.abspath(root), os.path.realpath(root)]
    for whole in (os.path.abspath(path), os.path.realpath(path)):
        for base in bases:
            if whole.startswith(base.rstrip("/") + "/"):
                return os.path.relpath(whole, base)
    return None


def _file_of(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:40]
