"""Find and remove run directories of dead daemons. Touches only directories of this user.

A running daemon holds the lock in its directory. The removal holds the same lock, so that no daemon starts in the
directory meanwhile; a start that waited for the lock finds the directory gone and creates it again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import time
from pathlib import Path
from typing import Any

from orchestrator.base import failpoints
from orchestrator.base.errors import Environment
from orchestrator.edge import project_location
from orchestrator.edge.project_location import Project

_KNOWN = re.compile(
    rf"{project_location.LOCK}|{project_location.SOCKET}|{project_location.AGENT_SOCKET.pattern}|{project_location.LOG}(\.1)?|clean|{project_location.FAILED}(\.\d+)?|\.{project_location.SHOWN}\..+\.tmp"
)
_NAME = re.compile(r"[0-9a-f]{16}")


def collect(place: Project, age_s: float, *, apply: bool) -> list[dict[str, Any]]:
    """The run directories that no daemon of this user needs; removed with ``apply``. Rows as those of gc.

    Not removed: directories of a running daemon, directories changed within ``age_s`` or in the future, directories
    with the note that a daemon was stopped by hand or a window must be restored, and any with a file that is not
    ours.
    """
    here = project_location.run_dir(place.root)
    rows: list[dict[str, Any]] = []
    for directory in sorted(path for base in project_location.run_bases() for path in base.iterdir()):
        if directory == here or not _NAME.fullmatch(directory.name):
            continue
        lock = _claimed(directory)
        if lock is None:
            continue
        try:
            sizes = _unused(directory, age_s)
            if sizes is not None:
                rows.append(_removed_directory(directory, sizes, apply=apply))
        finally:
            os.close(lock)
    return rows


def _claimed(directory: Path) -> int | None:
    """The lock of a directory of ours without a living daemon; None when it is not, or has never had one."""
    try:
        directory_stat = directory.lstat()
        if not stat.S_ISDIR(directory_stat.st_mode) or directory_stat.st_uid != os.geteuid():
            return None
        lock = os.open(directory / project_location.LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def _unused(directory: Path, age_s: float) -> tuple[int, int] | None:
    """How many files and bytes it has, when all of them are known and old enough."""
    file_stats = []
    try:
        for path in directory.iterdir():
            if not _KNOWN.fullmatch(path.name) or path.is_dir():
                return None
            file_stats.append(path.lstat())
        # Not the directory's own time: a removal that was cut off has changed it.
        age = time.time() - max(file_stat.st_mtime for file_stat in file_stats)
    except OSError:
        return None
    if age < 0 or age < age_s:
        return None
    return len(file_stats), sum(file_stat.st_size for file_stat in file_stats)


def _removed_directory(directory: Path, sizes: tuple[int, int], *, apply: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "kind": "run directory", "name": str(directory), "why": "no daemon uses it", "files": sizes[0],
        "bytes": sizes[1], "note": "", "done": False,
    }  # fmt: skip
    if not apply:
        return row
    try:
        # The lock last: while it has its name, nobody else gets in.
        for path in sorted(directory.iterdir(), key=lambda path: path.name == project_location.LOCK):
            path.unlink()
            failpoints.passed("gc:run-directory-file")
        with contextlib.suppress(FileNotFoundError):
            directory.rmdir()
    except OSError as error:
        return row | {"error": Environment("io_failed", f"{directory}: {error.strerror}").as_dict()}
    return row | {"done": True}
