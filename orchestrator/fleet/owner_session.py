"""One session with the fleet's database for a command: as its owner or as a host, checked, closed at the end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from orchestrator.base.errors import Environment
from orchestrator.fleet import host_files
from orchestrator.fleet.driver_errors import connection_error, statement_error
from orchestrator.fleet.server_connection import check_direct, check_reached
from orchestrator.fleet.settings import TLS_STEP, tls_missing

Session = Connection[TupleRow]

CONNECT_S = 10


@contextlib.contextmanager
def session(dsn: str) -> Iterator[Session]:
    """One connection, each statement of which is committed by itself; every error has a code.

    Environment ``tls_required`` if the way to the server is not safe, ``pooler_refused`` if a pooler is between.
    """
    parts = host_files.parts_of(dsn)
    if parts.get("host") and (fault := tls_missing(dsn)):
        raise Environment("tls_required", fault, TLS_STEP)
    try:
        connection = psycopg.connect(
            dsn, autocommit=True, connect_timeout=CONNECT_S, application_name="orchestrator", client_encoding="UTF8"
        )
    except psycopg.Error as error:
        raise connection_error(error, dsn) from None
    try:
        check_reached(connection.info, connection.pgconn.info)
        row = connection.execute("select pg_backend_pid()").fetchone()
        check_direct(connection.info.backend_pid, row[0] if row else 0)
        yield connection
    except psycopg.Error as error:
        raise statement_error(error, dsn) from None
    finally:
        connection.close()


def reached_parts(connection: Session, dsn: str) -> dict[str, str]:
    """The parts of a DSN with the server that was reached, where the DSN leaves it to the environment."""
    info = connection.info
    there = {"host": info.host, "port": str(info.port), "dbname": info.dbname}
    return {**there, **{key: value for key, value in host_files.parts_of(dsn).items() if value}}
