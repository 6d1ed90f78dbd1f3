"""Makes and upgrades the schema of a fleet's database. Loads no driver: a psycopg connection is given to it.

The files of `schema/` are named `<version>_<part>_<name>.sql`. Files of one version are applied in the order of their
names; migrations only add, so that programs of an older version can go on. Everything is one transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from orchestrator.base.errors import Environment

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import TupleRow

OLDEST_SERVER = 15
MIN_PROGRAM = 1
"""The oldest version of the schema whose programs can use this one."""
_MARK = "orchestrator fleet"
"""Comment of the schema: it is ours, and not another program's of the same name."""
_LOCK = 7021622_022
"""Advisory lock of whoever migrates: one at a time per database."""


class Migration(NamedTuple):
    """One file of the schema."""

    version: int
    name: str
    sql: str


def migrations() -> list[Migration]:
    """All files in their order."""
    return sorted(_files())


def _files() -> Iterator[Migration]:
    for file in files("orchestrator.fleet").joinpath("schema").iterdir():
        if file.name.endswith(".sql"):
            yield Migration(int(file.name.split("_", 1)[0]), file.name, file.read_text(encoding="utf-8"))


SCHEMA = 1
"""The version of the schema that this program knows; a test compares it with the files."""


def migrate(connection: Connection[TupleRow]) -> tuple[int, int]:
    """Bring the schema to `SCHEMA`; the version before (0: there was none) and now. Repeatable, also in parallel.

    Environment ``server_unsupported`` for a server before PostgreSQL 15 or an encoding other than UTF8,
    ``schema_foreign`` if another program has a schema of this name, ``schema_newer`` if a newer version upgraded it.
    """
    with connection.transaction():
        _check_server(connection)
        connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK])
        before = version(connection)
        if before > SCHEMA:
            raise Environment("schema_newer", f"the schema of the fleet is {before}, this program has {SCHEMA}")
        if before == 0:
            connection.execute("create schema orchestrator_fleet")
            connection.execute(f"comment on schema orchestrator_fleet is '{_MARK}'")
        connection.execute("set local search_path = orchestrator_fleet, pg_temp")
        for migration in migrations():
            if migration.version > before:
                connection.execute(migration.sql.encode())  # bytes: psycopg wants a literal otherwise
        if before == 0:
            connection.execute(
                "insert into meta (schema, min_program, timeline) values (%s, %s, server_timeline())",
                [SCHEMA, MIN_PROGRAM],
            )
        elif before < SCHEMA:
            connection.execute("update meta set schema = %s, min_program = %s", [SCHEMA, MIN_PROGRAM])
            connection.execute("select grant_host(role) from host")
    return before, SCHEMA


def version(connection: Connection[TupleRow]) -> int:
    """The version of the schema, 0 without one; Environment ``schema_foreign`` if it is another program's."""
    row = connection.execute(
        "select obj_description(oid, 'pg_namespace') from pg_namespace where nspname = 'orchestrator_fleet'"
    ).fetchone()
    if row is None:
        return 0
    if row[0] != _MARK:
        raise Environment("schema_foreign", "the database has a schema orchestrator_fleet that is not the fleet's")
    row = connection.execute("select schema from orchestrator_fleet.meta").fetchone()
    assert row is not None
    return int(row[0])


def _check_server(connection: Connection[TupleRow]) -> None:
    number, encoding = connection.info.server_version, connection.info.parameter_status("server_encoding")
    if number // 10_000 < OLDEST_SERVER:
        raise Environment(
            "server_unsupported", f"the server is PostgreSQL {number // 10_000}, not {OLDEST_SERVER} or newer"
        )
    if encoding != "UTF8":
        raise Environment("server_unsupported", f"the database has the encoding {encoding}, not UTF8")
