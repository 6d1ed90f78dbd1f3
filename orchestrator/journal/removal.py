"""Removes our files and measures them; never follows a link, and makes the removal durable.

Raises ``Environment`` if the system refuses; a file that does not exist is no error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from orchestrator.journal.project_files import failure
from orchestrator.journal.syscalls import REAL, SysIO


def files_below(path: Path) -> Iterator[os.stat_result]:
    """The stat of every file at or below ``path``, links as themselves, directories left out."""
    try:
        file_stat = path.lstat()
        if not os.path.isdir(path) or path.is_symlink():  # noqa: PTH112  (never raises)
            yield file_stat
            return
        for entry in sorted(path.iterdir()):
            yield from files_below(entry)
    except FileNotFoundError:
        return
    except OSError as error:
        raise failure(path, error) from error


def measure(path: Path) -> tuple[int, int]:
    """How many files there are at or below ``path``, and how many bytes they hold."""
    sizes = [file_stat.st_size for file_stat in files_below(path)]
    return len(sizes), sum(sizes)


def remove(path: Path, io: SysIO = REAL) -> None:
    """Remove a file, a link, or a directory with all that is in it."""
    try:
        _remove(path, io)
        io.fsync_dir(path.parent)
    except FileNotFoundError:
        return
    except OSError as error:
        raise failure(path, error) from error


def _remove(path: Path, io: SysIO) -> None:
    if path.is_dir() and not path.is_symlink():
        for entry in path.iterdir():
            _remove(entry, io)
        path.rmdir()
    else:
        io.unlink(path)


def chmod_private(path: Path) -> None:
    """Make a file the user's alone; a link is left as it is."""
    try:
        if not path.is_symlink():
            path.chmod(0o600)
    except OSError as error:
        raise failure(path, error) from error
