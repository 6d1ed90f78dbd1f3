"""Translates errors of SQLite and of the disk into the product's error codes. Reads only the free space."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from orchestrator.base.errors import Corrupt, Environment, OrchestratorError
from orchestrator.journal.project_files import failure

_REFUSED = frozenset({
    sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL,
})  # fmt: skip


def translated(path: Path, error: BaseException) -> BaseException:
    """The error in the product's words where file or machine are to blame; else itself, for it is the caller's."""
    if isinstance(error, OSError):
        refusal: OrchestratorError | None = failure(path, error)
    elif isinstance(error, sqlite3.Error):
        refusal = _by_code(path, error)
    else:
        refusal = None
    if refusal is None:
        return error
    refusal.__cause__ = error
    return refusal


def _by_code(path: Path, error: sqlite3.Error) -> OrchestratorError | None:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT):
        return Corrupt("corrupt_home", f"{path}: {error}", file=str(path))
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _no_room(path)):
        return Environment("disk_full", f"{path}: {error}", file=str(path))
    if code in _REFUSED:
        return Environment("io_failed", f"{path}: {error}", file=str(path))
    return None


def _no_room(path: Path) -> bool:
    try:
        return os.statvfs(path.parent).f_bavail == 0
    except OSError:
        return False
