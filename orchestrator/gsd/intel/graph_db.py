"""Reading GSD's ``graph.db``: the nodes and edges of v1 (JSON bodies) and of v2 (columns). Reads only.

The file is foreign: its schema is looked at first, only plain tables are read, no view, trigger or generated column
of it is executed, and nothing is ever created beside it. GSD writes it whole and in place (sql.js), so what was
caught in the middle is a trouble of the moment.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import orjson

from orchestrator.gsd.graph import said
from orchestrator.gsd.graph.foreign import Roots
from orchestrator.gsd.graph.said import Said, Told
from orchestrator.gsd.intel.files import Unreadable, inside, reason, relative
from orchestrator.gsd.model import Trouble

MAX_BYTES = 2 << 30
MAX_NODES = 500_000
MAX_EDGES = 4_000_000
MAX_BODY = 256 << 10
_LONGEST = 16 << 20
_STEPS = 100_000
_MAX_STEPS = 40_000  # times _STEPS: a database that makes a plain scan take longer is not one
_NOT_HERE = ".planning/intel/entities/"
"""GSD's hook gives a node whose entity names no file the path of that entity."""
_TABLES = frozenset({"sqlite_master", "nodes", "edges"})
_COLUMNS = ("id", "path", "type", "purpose", "status")


class Locked(Exception):
    """Somebody is writing it: the same reading may work in a moment."""


def read(root: Path, path: Path, *, wait_s: float = 1.0) -> Told:
    """What the database says. Raises `Locked` when it stays locked for ``wait_s``, `Unreadable` when it is none."""
    told = Told()
    where = relative(root, path)
    try:
        _check(root, path)
        with _opened(root, path, wait_s) as con:
            _trust(con)
            nodes = _nodes(con, where, told)
            targets = _edges(con, where, told)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            raise Locked(str(error)) from None
        raise Unreadable(f"cannot be read: {error}") from None
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        raise Unreadable(f"cannot be read: {error}") from None
    except OSError as error:
        raise Unreadable(f"cannot be read: {reason(error)}") from None
    roots = Roots(root, (node["path"] for node in nodes.values()), nodes.keys())
    for key, node in nodes.items():
        own = roots.relative(node["path"]) if node["path"] else ""
        told.files[key] = Said(
            "graph.db", key, "" if own.startswith(_NOT_HERE) else own, node["purpose"], node["type"], (),
            node["status"], tuple(targets.pop(key, ())),
        )  # fmt: skip
    if targets:
        lost = sum(map(len, targets.values()))
        told.troubles.append(Trouble(where, 0, f"{lost} edges begin at ids that are no nodes"))
    told.facts |= {"nodes": len(nodes), "roots": roots.known}
    return told


def _check(root: Path, path: Path) -> None:
    if not inside(root, path):
        raise Unreadable("is a link that leads out of the project")
    if not path.is_file():
        raise Unreadable("is not a regular file")
    size = path.stat().st_size
    if not size:
        raise Unreadable("is empty")
    if size > MAX_BYTES:
        raise Unreadable(f"has {size:,} bytes, more than the {MAX_BYTES:,} that are read")


@contextmanager
def _opened(root: Path, path: Path, wait_s: float) -> Iterator[sqlite3.Connection]:
    """A connection that can change nothing, neither in the database nor in its directory."""
    with path.open("rb") as file:
        head = file.read(20)
    if head[:16] != b"SQLite format 3\0":
        raise Unreadable("is not an SQLite database")
    if head[18:19] != b"\x02" and head[19:20] != b"\x02":
        with closing(_connect(path, "mode=ro", wait_s)) as con:
            yield con
        return
    # In WAL mode a reader makes -wal and -shm beside the database. What lies in a -wal is read from a copy of both.
    log = path.with_name(f"{path.name}-wal")
    if not log.exists() or not log.stat().st_size:
        with closing(_connect(path, "mode=ro&immutable=1", wait_s)) as con:
            yield con
        return
    _check(root, log)
    with tempfile.TemporaryDirectory(prefix="orchestrator-gsd-") as at:
        copy = Path(at) / "graph.db"
        shutil.copyfile(path, copy)
        shutil.copyfile(log, copy.with_name("graph.db-wal"))
        with closing(_connect(copy, "mode=rw", wait_s)) as con:
            yield con


def _connect(path: Path, mode: str, wait_s: float) -> sqlite3.Connection:
    uri = f"file:{quote(os.fsencode(path.absolute()))}?{mode}"
    con = sqlite3.connect(uri, uri=True, timeout=wait_s, isolation_level=None, check_same_thread=False)
    con.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    con.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    con.text_factory = lambda data: data.decode(errors="replace")
    steps = iter(range(_MAX_STEPS))
    con.set_progress_handler(lambda: int(next(steps, None) is None), _STEPS)
    for pragma in ("trusted_schema = OFF", "query_only = ON", "temp_store = MEMORY", "mmap_size = 0"):
        con.execute(f"PRAGMA {pragma}")
    return con


def _trust(con: sqlite3.Connection) -> None:
    """Let the connection do what reading needs and nothing else.

    The schema of GSD's own databases has ``json_extract`` in a generated column, which older SQLite refuses to load
    from a schema that is not trusted. So it is trusted where it must be, generated columns are never asked
    for, and the authorizer knows only the tables, pragmas and functions that are needed here.
    """
    try:
        con.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        if "unsafe use" not in str(error):
            raise
        con.execute("PRAGMA trusted_schema = ON")
    con.set_authorizer(_allowed)


def _allowed(action: int, first: str | None, second: str | None, _database: str | None, inner: str | None) -> int:
    if inner is not None:  # a view's or a trigger's doing
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_READ:
        known = str(first).lower() in _TABLES
    elif action == sqlite3.SQLITE_FUNCTION:
        known = second in {"length", "count"}
    elif action == sqlite3.SQLITE_PRAGMA:
        known = first == "table_xinfo"
    else:
        known = action == sqlite3.SQLITE_SELECT
    return sqlite3.SQLITE_OK if known else sqlite3.SQLITE_DENY


def _columns(con: sqlite3.Connection, table: str) -> list[str]:
    """The stored columns of a plain table, by its own schema; empty without one (a view, a virtual table: none)."""
    plain = con.execute(
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ? AND rootpage > 0", (table,)
    ).fetchone()[0]
    if not plain:
        return []
    found = con.execute(f"PRAGMA table_xinfo({table})")  # a name of ours
    return [str(row[1]).lower() for row in found if row[6] == 0]  # hidden: generated, or a virtual table's


def _nodes(con: sqlite3.Connection, where: str, told: Told) -> dict[str, dict[str, str]]:
    columns = _columns(con, "nodes")
    if "body" in columns:
        rows = _bodies(con, where, told)
    elif "id" in columns:
        rows = _rows(con, columns)
    else:
        raise Unreadable("has no table of nodes that is known")
    nodes: dict[str, dict[str, str]] = {}
    nameless = 0
    for number, row in enumerate(rows):
        if number >= MAX_NODES:
            told.troubles.append(Trouble(where, 0, f"has more than {MAX_NODES:,} nodes; the rest was left out"))
            break
        node = {
            key: said.text(row.get(key), said.MAX_PURPOSE if key == "purpose" else said.MAX_NAME) for key in _COLUMNS
        }
        if node["id"]:
            nodes[node["id"].lower()] = node
        else:
            nameless += 1
    if nameless:
        told.troubles.append(Trouble(where, 0, f"{nameless} nodes have no id"))
    return nodes


def _bodies(con: sqlite3.Connection, where: str, told: Told) -> Iterator[dict[str, object]]:
    """The JSON bodies of v1, without the generated column: one bad body would end the whole reading."""
    bad = 0
    found = con.execute(
        "SELECT CASE WHEN length(body) <= ? THEN body END FROM nodes LIMIT ?", (MAX_BODY, MAX_NODES + 1)
    )
    for (body,) in found:
        try:
            value = orjson.loads(body) if isinstance(body, str | bytes) else None
        except orjson.JSONDecodeError:
            value = None
        if isinstance(value, dict):
            yield value
        else:
            bad += 1
    if bad:
        told.troubles.append(Trouble(where, 0, f"{bad} nodes have no JSON object for a body, or one too long"))


def _rows(con: sqlite3.Connection, columns: list[str]) -> Iterator[dict[str, object]]:
    """The columns of v2. Their names come from `_COLUMNS`, never from the file."""
    names = [name for name in _COLUMNS if name in columns]
    fields = ", ".join(f"CASE WHEN length({name}) <= ? THEN {name} END" for name in names)
    found = con.execute(f"SELECT {fields} FROM nodes LIMIT ?", (*[MAX_BODY] * len(names), MAX_NODES + 1))  # noqa: S608 (names of ours)
    for row in found:
        yield dict(zip(names, row, strict=True))


def _edges(con: sqlite3.Connection, where: str, told: Told) -> dict[str, list[str]]:
    if not {"source", "target"} <= set(_columns(con, "edges")):
        told.troubles.append(Trouble(where, 0, "has no table of edges that is known"))
        return {}
    targets: dict[str, list[str]] = {}
    bad = count = 0
    longest = said.MAX_NAME
    for source, target in con.execute(
        "SELECT CASE WHEN length(source) <= ? THEN source END, CASE WHEN length(target) <= ? THEN target END "
        "FROM edges LIMIT ?",
        (longest, longest, MAX_EDGES + 1),
    ):
        count += 1
        if not isinstance(source, str) or not isinstance(target, str) or not source or not target:
            bad += 1
            continue
        targets.setdefault(source.lower(), []).append(said.text(target))
    if count > MAX_EDGES:
        told.troubles.append(Trouble(where, 0, f"has more than {MAX_EDGES:,} edges; the rest was left out"))
    if bad:
        told.troubles.append(Trouble(where, 0, f"{bad} edges have no texts for their ends"))
    told.facts["edges"] = count
    return {source: list(dict.fromkeys(ends)) for source, ends in targets.items()}
