"""The folders of roles, and one of their files as text. Reads only.

Nothing here waits for a pipe, opens a device or reads more than the maximum size of a role.
"""
# os.path keeps names that are not UTF-8 and answers where Path raises:
# ruff: noqa: PTH111, PTH112, PTH116, PTH118, PTH121, PTH123

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orchestrator.base import package_data
from orchestrator.base.errors import BadRequest
from orchestrator.engines.table import ENGINES
from orchestrator.roles.heads import UnusableRole

OWN = ".agents/roles"
_OF_CLIS = sorted(
    (row.role_folder for row in ENGINES.values() if row.role_folder is not None),
    key=lambda folder: (folder.ending, folder.path),  # Markdown before TOML
)
FOLDERS = {OWN: ".md", "agents": ".md"} | dict(_OF_CLIS)
"""The project's folders, nearest first, and how the names of their files end."""
SHIPPED = "shipped"
ROLE_MAX = 64 * 1024
"""Bytes of a role's file: it is a part of every conversation with its model, and of one CLI's command line."""


@dataclass(frozen=True)
class Folder:
    """One folder of roles: its name, its path, how its files' names end.

    ``within``: its files must be in this real directory; "": the user chose the folder, and its files may be
    anywhere.
    """

    label: str
    path: str
    ending: str
    within: str = ""

    def shown(self, name: str) -> str:
        """How a file of it is called before humans."""
        return f"{self.path if self.label == SHIPPED else self.label}/{printable(name)}"


def folders(root: Path, directory: str = "") -> tuple[Folder, ...]:
    """Where to look for roles, nearest first; a given ``directory`` is the only place.

    BadRequest ``bad_config`` when the given directory is none, or cannot be read.
    """
    if directory:
        return (_given(root, directory),)
    real = os.path.realpath(root)
    own = (Folder(label, os.path.join(root, label), ending, real) for label, ending in FOLDERS.items())
    return (*own, Folder(SHIPPED, str(package_data.roles()), ".md"))


def _given(root: Path, directory: str) -> Folder:
    path = os.path.join(root, os.path.expanduser(directory))
    try:
        os.scandir(path).close()
        for label, ending in FOLDERS.items():
            if os.path.isdir(os.path.join(root, label)) and os.path.samefile(path, os.path.join(root, label)):
                return Folder(label, path, ending)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise BadRequest(
            "bad_config",
            f"the directory of roles {printable(directory)[:300]!r} cannot be read: {why}",
            "set AGENTS_DIRECTORY_PATH (or --dir) to a directory with a Markdown file per role, or leave it out",
            directory=printable(directory),
            why=why,
        ) from error
    plain = os.path.normpath(path)
    ending = next((folder.ending for folder in _OF_CLIS if plain.endswith(f"/{folder.path}")), ".md")
    return Folder(directory.rstrip("/") or "/", path, ending)


def names(folder: Folder) -> list[str]:
    """The names of a folder's role files, sorted, whatever they are; none without the folder. OSError as it comes."""
    try:
        with os.scandir(folder.path) as entries:
            return sorted(
                entry.name
                for entry in entries
                if entry.name.endswith(folder.ending) and not entry.name.startswith(".")
            )
    except (FileNotFoundError, NotADirectoryError):
        return []


def content(folder: Folder, name: str) -> bytes:
    """The bytes of one file; UnusableRole if it is not a file of at most `ROLE_MAX` bytes.

    FileNotFoundError if it was removed after it was listed.
    """
    path = os.path.join(folder.path, name)
    try:
        real = os.path.realpath(path, strict=True)
        if folder.within and not Path(real).is_relative_to(folder.within):
            raise UnusableRole("leads out of the project")
        return _bytes(real)
    except OSError as error:
        if not os.path.lexists(path):
            raise FileNotFoundError(path) from error
        raise UnusableRole(f"cannot be read: {error.strerror}") from error


def text(content: bytes) -> str:
    """The bytes of a file as text, with plain line ends; UnusableRole if they are not text."""
    try:
        string = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnusableRole("is not UTF-8") from error
    if "\0" in string:
        raise UnusableRole("is no text: there is a NUL in it")
    return string.replace("\r\n", "\n")


def _bytes(path: str) -> bytes:
    status = os.stat(path)  # before it is opened: to open some devices is to use them
    if stat.S_ISREG(status.st_mode):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if stat.S_ISREG(status.st_mode):
                content = file.read(ROLE_MAX + 1)
                size = max(status.st_size, len(content))
                if size > ROLE_MAX:
                    raise UnusableRole(f"has {size} bytes; a role has at most {ROLE_MAX}")
                return content
    kind = "a directory" if stat.S_ISDIR(status.st_mode) else "no regular file"
    raise UnusableRole(f"cannot be read: it is {kind}")


def fingerprint(places: tuple[Folder, ...]) -> tuple[tuple[object, ...], int]:
    """What changes when a role does, without reading it; and when the youngest of it changed, ns since the epoch."""
    out: list[object] = []
    youngest = 0
    for path in _paths(places):
        try:
            status = os.stat(path)
        except OSError as error:
            out.append((path, error.errno))
            continue
        youngest = max(youngest, status.st_ctime_ns)
        out.append((path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    return tuple(out), youngest


def _paths(places: tuple[Folder, ...]) -> Iterator[str]:
    for folder in places:
        yield folder.path
        try:
            files = names(folder)
        except OSError:
            continue
        yield from (os.path.join(folder.path, name) for name in files)


def printable(name: str) -> str:
    """A name from the file system as text; bytes that are not UTF-8 become escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
