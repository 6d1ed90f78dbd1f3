"""What the driver and the server report, as errors of the product: one table. No password is in any of them."""

from __future__ import annotations

import contextlib

import psycopg
from psycopg.conninfo import conninfo_to_dict

from orchestrator.base.errors import BadRequest, Conflict, Environment, NotReady, OrchestratorError

SQLSTATES: dict[str, tuple[type[OrchestratorError], str]] = {
    # Of the functions themselves.
    "OF001": (BadRequest, "host_unknown"),
    "OF002": (Conflict, "host_taken"),
    "OF003": (Conflict, "project_taken"),
    "OF004": (Environment, "schema_newer"),
    "OF005": (Environment, "schema_older"),
    "OF006": (Conflict, "not_home"),
    "OF007": (Conflict, "host_alive"),
    "OF008": (NotReady, "too_early"),
    "OF009": (BadRequest, "unknown_run"),
    "OF010": (BadRequest, "bad_argument"),
    # A wrong way to the right thing: nothing but a change of the database or of the configuration helps.
    "28": (Environment, "fleet_denied"),
    "42501": (Environment, "fleet_denied"),
    "3D000": (Environment, "fleet_unreachable"),
    "3F000": (Environment, "schema_missing"),
    "42883": (Environment, "schema_older"),
    "42P01": (Environment, "schema_older"),
    "53100": (Environment, "fleet_full"),
    # Over when the server, a lock or a standby is: the same call may work later.
    "08": (NotReady, "fleet_away"),
    "25006": (NotReady, "fleet_away"),
    "40": (NotReady, "fleet_away"),
    "53": (NotReady, "fleet_away"),
    "55P03": (NotReady, "fleet_away"),
    "57": (NotReady, "fleet_away"),
    "58": (NotReady, "fleet_away"),
}
"""SQLSTATEs and their classes (two characters); the longer one counts. Everything else is ``fleet_failed``."""

SENTENCES = {
    "57014": "a statement in the fleet's database took too long",
    "25006": "the fleet's database takes no writes: it is a standby",
}

# A failed connection has no SQLSTATE, only words of libpq and the server; in another language it is `fleet_away`.
CONNECTING: tuple[tuple[str, type[OrchestratorError], str], ...] = (
    ("password authentication failed", Environment, "fleet_denied"),
    ("no password supplied", Environment, "fleet_denied"),
    ("authentication failed", Environment, "fleet_denied"),
    ("no pg_hba.conf entry", Environment, "fleet_denied"),
    ("is not permitted to log in", Environment, "fleet_denied"),
    ("permission denied for database", Environment, "fleet_denied"),
    ('role "', Environment, "fleet_denied"),
    ('database "', Environment, "fleet_unreachable"),
    ("failed to resolve host", Environment, "fleet_unreachable"),
    ("could not translate host name", Environment, "fleet_unreachable"),
    ("certificate", Environment, "fleet_unreachable"),
    ("does not support SSL", Environment, "fleet_unreachable"),
    ("unsupported startup parameter", Environment, "pooler_refused"),
)


def statement_error(error: psycopg.Error, dsn: str) -> OrchestratorError:
    """The error of a statement that failed."""
    state = error.sqlstate
    if state is None:  # the connection was lost, or the driver refused a value
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return away(f"the connection to the fleet's database was lost: {sentence(error, dsn)}")
        return Environment(
            "fleet_failed", f"the fleet's database was sent what it cannot take: {sentence(error, dsn)}"
        )
    kind, code = SQLSTATES.get(state) or SQLSTATES.get(state[:2]) or (Environment, "fleet_failed")
    said = SENTENCES.get(state) or f"the fleet's database answers: {sentence(error, dsn)}"
    return kind(code, said, sqlstate=state)


def connection_error(error: psycopg.Error, dsn: str) -> OrchestratorError:
    """The error of a connection that was not made."""
    said = sentence(error, dsn)
    if isinstance(error, psycopg.ProgrammingError):  # its words repeat parts of the DSN
        return BadRequest("bad_config", "fleet_dsn is no connection string of PostgreSQL", key="fleet_dsn")
    for words, kind, code in CONNECTING:
        if words in said:
            return kind(code, f"no connection to the fleet's database: {said}")
    if error.pgconn is not None and error.pgconn.needs_password:
        return Environment("fleet_denied", f"no connection to the fleet's database: {said}")
    return away(f"no connection to the fleet's database: {said}")


def away(said: str) -> NotReady:
    """The database does not answer now."""
    return NotReady("fleet_away", said)


def sentence(error: psycopg.Error, dsn: str) -> str:
    """What libpq or the server say, in one line and without the password."""
    primary = error.diag.message_primary or str(error) or type(error).__name__
    said = " ".join(primary.split())[:500]
    with contextlib.suppress(psycopg.Error):
        password = conninfo_to_dict(dsn).get("password")
        if password:
            said = said.replace(str(password), "***")
    return said
