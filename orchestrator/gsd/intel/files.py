"""Reading the files of the intel store: regular ones of this project alone, with a limit. Reads only."""

from __future__ import annotations

import contextlib
import json as stdlib_json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

import orjson

from orchestrator.gsd.model import Trouble

Stamp = tuple[int, int, int, int]
"""Tells whether a file is still the same: inode, mtime and ctime (ns), size."""


@dataclass(frozen=True, slots=True)
class Content:
    """A file's bytes and the stamp they were read under."""

    data: bytes
    stamp: Stamp


class Unreadable(Exception):
    """A file that is there but cannot be used; ``what`` says why in a few words."""

    def __init__(self, what: str) -> None:
        """Take why, as a `Trouble` says it."""
        super().__init__(what)
        self.what = what


def stamp(path: Path) -> Stamp | None:
    """The file's stamp, links followed; None where there is nothing."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return stamp_of(found)


def stamp_of(found: os.stat_result) -> Stamp:
    """The stamp in what the system says of a file."""
    return (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)


def inside(root: Path, path: Path) -> bool:
    """Whether the path, its links resolved, lies in the project."""
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError):
        return False


def read(root: Path, path: Path, limit: int) -> Content | None:
    """The file's content; None where there is no file.

    Raises `Unreadable` for anything but a regular file in the project of at most ``limit`` bytes. Never waits: a FIFO
    is not opened for reading.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise Unreadable(f"cannot be opened: {reason(error)}") from None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise Unreadable("is not a regular file")
        if not inside(root, path):
            raise Unreadable("is a link that leads out of the project")
        if found.st_size > limit:
            raise Unreadable(f"has {found.st_size:,} bytes, more than the {limit:,} that are read")
        try:
            data = file.read(limit + 1)
        except OSError as error:
            raise Unreadable(f"cannot be read: {reason(error)}") from None
    if len(data) > limit:
        raise Unreadable(f"grew past {limit:,} bytes while it was read")
    return Content(data, stamp_of(found))


def reason(error: Exception) -> str:
    """Why, in the system's words, without the path."""
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)


def json(root: Path, path: Path, limit: int, troubles: list[Trouble]) -> object:
    """The value of a JSON file, None where there is none; what is wrong with it goes to ``troubles``, with a line."""
    where = relative(root, path)
    try:
        content = read(root, path, limit)
    except Unreadable as error:
        troubles.append(Trouble(where, 0, error.what, "unreadable"))
        return None
    if content is None:
        return None
    data = content.data.removeprefix(b"\xef\xbb\xbf")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if (
            "surrogate" in error.msg
        ):  # half a character, which other JSON readers let through; no answer could carry it
            with contextlib.suppress(ValueError, RecursionError):
                text = stdlib_json.dumps(stdlib_json.loads(data), ensure_ascii=False)
                return orjson.loads(text.encode(errors="replace"))
        troubles.append(Trouble(where, error.lineno, f"is not JSON: {error.msg}", "unreadable"))
        return None


def relative(root: Path, path: Path) -> str:
    """The path as troubles name it: relative to the project."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
