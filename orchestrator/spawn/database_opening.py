"""Opens a home's database safely, although anybody may have written it; also read-only, changing nothing.

A home may be in a cloned repository. Code in its schema is not executed; its rows are read as text.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

from orchestrator.base.errors import Corrupt, Environment, OrchestratorError
from orchestrator.journal.cache import COMPANION_SUFFIXES
from orchestrator.spawn import ddl

NAME = "db.sqlite"
_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")
"""A journal that ends with this names a further file, which SQLite reads and may remove."""


def check_files(path: Path) -> None:
    """Check that the database and the files next to it are safe for SQLite to open.

    Environment ``home_unusable`` if one is a link or not a regular file of the user's, Corrupt ``corrupt_home`` for a
    journal that names another file, because SQLite removes that file when it replays the journal. FileNotFoundError
    without a database.
    """
    for file in (path, *(path.with_name(path.name + suffix) for suffix in COMPANION_SUFFIXES)):
        try:
            file_stat = file.lstat()
        except FileNotFoundError:
            if file is path:
                raise
            continue
        if not stat.S_ISREG(file_stat.st_mode) or file_stat.st_uid != os.geteuid():
            raise Environment("home_unusable", f"{file} is no regular file of yours", file=str(file))
    journal = path.with_name(f"{path.name}-journal")
    with contextlib.suppress(FileNotFoundError), journal.open("rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - len(_NAMES_ANOTHER)))
        if opened.read() == _NAMES_ANOTHER:
            raise Corrupt("corrupt_home", f"{journal} names another file", file=str(journal))


def suspicious(con: sqlite3.Connection) -> None:
    """Let a connection read what anybody may have written: the schema may call nothing, all text can be read."""
    con.row_factory = sqlite3.Row
    con.text_factory = _text
    con.execute("PRAGMA trusted_schema = OFF")
    con.execute("PRAGMA cell_size_check = ON")


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


@contextlib.contextmanager
def looked_at(home: Path) -> Iterator[sqlite3.Connection | None]:
    """A connection that reads a database of our form; None if there is none that can be read.

    Makes and changes nothing except the ``-shm`` of a WAL without one. May raise sqlite3.Error while it is used.
    """
    path = home / NAME
    try:
        check_files(path)
    except (OSError, OrchestratorError):
        yield None
        return
    # Nobody has it open where it has no WAL; then it is read as it lies there, or SQLite would make one.
    how = "mode=ro" if path.with_name(f"{NAME}-wal").exists() else "immutable=1"
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?{how}", uri=True, isolation_level=None)) as con:
        yield con if _is_ours(con) else None


def _is_ours(con: sqlite3.Connection) -> bool:
    try:
        suspicious(con)
        (form,) = con.execute("PRAGMA user_version").fetchone()
        return form == ddl.VERSION and not ddl.strange(con)
    except sqlite3.Error:
        return False
