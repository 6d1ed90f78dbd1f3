"""The seals of spawn runs: which rows of a home this machine has written. Light: every daemon uses it at start.

A home may be in a cloned repository, or be overwritten by a pull or an archive. The request of a run, its plan and
its answers have MACs with the key of the home's identity, in the table ``seals``. A run without them is foreign.
Functions of a connection; touches the home's ``identity.json`` and the state directory.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.base.errors import Environment
from orchestrator.journal.project_files import failure
from orchestrator.spawn import ddl
from orchestrator.trust import identity
from orchestrator.trust.identity import DirectoryIdentity
from orchestrator.trust.seals import Seal
from orchestrator.trust.state_dir import StateDirUnsafe

if TYPE_CHECKING:
    from orchestrator.spawn.run_data import ArtifactRow

FOREIGN = "not of this machine: orchestrator trust lists what it would do and asks for your approval"
"""The text shown for a foreign run that has not ended."""
ASKED, PLAN = "asked", "plan"
_ASKED = (
    "id", "project", "req", "origin", "key_fp", "created_at", "estimated_steps", "task", "mode", "budget", "context",
    "params_json", "settings_json",
)  # fmt: skip
_NODE = ("id", "place", "kind", "wave", "depends_on_json", "task", "model", "meta_json", "role_json")


class HomeIdentity:
    """The identity of a home, as it is now: another daemon may give it one, a pull may take it away. Thread-safe."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._known: tuple[object, DirectoryIdentity] | None = None

    def recognize(self) -> DirectoryIdentity | None:
        """The identity that the home was given on this machine; None if it has none."""
        # A home may be a link of the user's: what counts is the directory.
        directory = Path(os.path.realpath(self._home))
        with self._lock:
            mark = _mark(directory)
            if self._known is not None and self._known[0] == mark:
                return self._known[1]
            directory_identity = identity.recognize(directory)
            self._known = None if directory_identity is None else (mark, directory_identity)
            return directory_identity

    def establish(self) -> DirectoryIdentity:
        """As `recognize`, with a new identity if there is none; the caller holds the home's lock.

        Environment ``state_dir_unsafe``, ``io_failed`` or ``disk_full`` if it cannot be stored.
        """
        directory_identity = self.recognize()
        if directory_identity is not None:
            return directory_identity
        directory = Path(os.path.realpath(self._home))
        try:
            return identity.establish(directory)
        except StateDirUnsafe as error:
            raise Environment("state_dir_unsafe", str(error)) from error
        except OSError as error:
            raise failure(directory, error) from error


def _mark(directory: Path) -> object:
    """What changes when the directory, or the identity in it, is another one."""
    try:
        home, file = directory.lstat(), (directory / identity.FILE).lstat()
    except OSError:
        return None
    return directory, home.st_ino, file.st_ino, file.st_mtime_ns, file.st_size


class Seals:
    """The seals of a home's rows under one identity; without one nothing is of this machine."""

    def __init__(self, own: DirectoryIdentity | None) -> None:
        self._own = own

    # -- what is of this machine ------------------------------------------------------------------------------------

    def run_is_own(self, con: sqlite3.Connection, run_id: str) -> bool:
        """Whether the run was requested on this machine, and its nodes, if it has any, were planned on it."""
        row = con.execute(with_mac("id = ?"), (run_id,)).fetchone()
        return row is not None and self.request_fits(row) and self.plan_fits(con, run_id)

    def request_fits(self, row: sqlite3.Row) -> bool:
        """Whether a row of runs, with the column ``mac`` of `with_mac`, was requested on this machine."""
        return self._fits(row["id"], ASKED, [row[name] for name in _ASKED], row["mac"])

    def plan_fits(self, con: sqlite3.Connection, run_id: str) -> bool:
        """Whether the run's nodes were planned here; so are those of a run that has neither a plan nor nodes."""
        nodes = _nodes(con, run_id)
        run = con.execute("SELECT planned FROM runs WHERE id = ?", (run_id,)).fetchone()
        if run is None or not run["planned"]:
            return not nodes
        return self._fits(run_id, PLAN, nodes, _mac(con, run_id, PLAN))

    def file_fits(self, con: sqlite3.Connection, run_id: str, file: ArtifactRow) -> bool:
        """Whether that file is an answer that was written here, as the database has it."""
        what = _file(file)
        return self._fits(run_id, what, _of_file(file), _mac(con, run_id, what))

    def _fits(self, run_id: object, what: str, content: list[object], mac: object) -> bool:
        body = _body(content)
        return body is not None and (seal := self.seal(str(run_id), what)) is not None and seal.fits(body, mac)

    def seal(self, run_id: str, what: str) -> Seal | None:
        """The seal of one thing of a run; None without an identity."""
        return None if self._own is None else Seal(self._own, "spawn", run_id, what)

    def open_runs(self, con: sqlite3.Connection) -> Iterator[str]:
        """The ids of the unfinished runs that were requested on this machine, in the order of the queue."""
        for row in con.execute(with_mac(f"status IN {ddl.OPEN} AND number IS NOT NULL ORDER BY number")):
            if self.request_fits(row):
                yield row["id"]

    # -- giving seals, in the transaction that writes what they hold ------------------------------------------------

    def seal_request(self, con: sqlite3.Connection, run_id: str) -> None:
        """Vouch for what the run was asked, as it is stored."""
        row = con.execute(with_mac("id = ?"), (run_id,)).fetchone()
        self._put(con, run_id, ASKED, [row[name] for name in _ASKED])

    def seal_plan(self, con: sqlite3.Connection, run_id: str) -> None:
        """Vouch for the run's nodes, as they are stored."""
        self._put(con, run_id, PLAN, _nodes(con, run_id))

    def seal_file(self, con: sqlite3.Connection, run_id: str, file: ArtifactRow) -> None:
        """Vouch for a node's answer."""
        self._put(con, run_id, _file(file), _of_file(file))

    def _put(self, con: sqlite3.Connection, run_id: str, what: str, content: list[object]) -> None:
        seal, body = self.seal(run_id, what), _body(content)
        if seal is None:
            raise Environment("foreign_data", f"the home of the run {run_id} is not of this machine")
        if body is None:
            raise Environment("foreign_data", f"run {run_id} has a value of an unexpected type")
        con.execute(
            "INSERT OR REPLACE INTO seals (run_id, what, mac) VALUES (?, ?, ?)", (run_id, what, seal.mac(body))
        )


def with_mac(which: str) -> str:
    """The SQL that reads rows of runs, each with the MAC of its request; ``which`` follows its WHERE."""
    mac = "(SELECT mac FROM seals WHERE run_id = runs.id AND what = 'asked') AS mac"
    return f"SELECT *, {mac} FROM runs WHERE {which}"  # noqa: S608 (our own words)


def digest_of(con: sqlite3.Connection, run_id: str) -> bytes:
    """What the seals of the run would vouch for, as bytes that change with it."""
    row = con.execute("SELECT * FROM runs WHERE id = ?", (run_id,)).fetchone()
    files = con.execute("SELECT path, sha256 FROM artifacts WHERE run_id = ? ORDER BY rowid", (run_id,)).fetchall()
    return repr([[row[name] for name in _ASKED], _nodes(con, run_id), [tuple(file) for file in files]]).encode()


def _nodes(con: sqlite3.Connection, run_id: str) -> list[object]:
    rows = con.execute(
        f"SELECT {', '.join(_NODE)} FROM nodes WHERE run_id = ? ORDER BY place, rowid",  # noqa: S608 (our own words)
        (run_id,),
    )
    return [list(row) for row in rows]


def _mac(con: sqlite3.Connection, run_id: str, what: str) -> object:
    row = con.execute("SELECT mac FROM seals WHERE run_id = ? AND what = ?", (run_id, what)).fetchone()
    return None if row is None else row["mac"]


def _file(file: ArtifactRow) -> str:
    return f"file:{file.node_id}"


def _of_file(file: ArtifactRow) -> list[object]:
    return [file.node_id, file.type, file.path, file.bytes, file.sha256, file.model]


def _body(content: Iterable[object]) -> bytes | None:
    """The content in one form; None for what no row of ours holds, such as a blob."""
    try:
        return json.dumps(content, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError):
        return None
