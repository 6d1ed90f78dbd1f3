"""One connection to the fleet's database: opened when it is used, replaced when it is lost, one statement at a time.

A statement that was begun is brought to its end, even if the caller is cancelled meanwhile: no connection is used in
the middle of something.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence
from typing import Any

import orjson
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import ConninfoOption
from psycopg.types.json import set_json_loads

from orchestrator.base import entropy
from orchestrator.base.clock import Clock
from orchestrator.base.errors import Environment, OrchestratorError
from orchestrator.fleet.driver_errors import away, connection_error, statement_error
from orchestrator.fleet.settings import TLS_STEP, check_connection, reached_unsafely, tls_missing

STATEMENT_S = 5
GIVEN_UP_S = STATEMENT_S + 1.0
"""When a statement whose server says nothing more is given up."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 3.0
CLOSING_S = 1.0
PARAMETERS = {
    "connect_timeout": "3",
    "keepalives": "1",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "6000",
    # A standby is behind: what was accepted may not be there yet.
    "target_session_attrs": "read-write",
}
"""Of each connection, where the DSN does not say otherwise."""

ResultRow = tuple[Any, ...]
AsyncConnection = psycopg.AsyncConnection[ResultRow]


class Reconnection:
    """When the connections to one server may be tried again: after a pause that grows, each host's another one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._next_at = 0.0
        self._error: OrchestratorError | None = None

    def check(self) -> None:
        """Raise the last error again while it is too early for another try."""
        if self._error is not None and self._clock.monotonic() < self._next_at:
            error = self._error
            raise type(error)(error.code, error.message, error.next_step, **error.facts)

    @property
    def failing(self) -> bool:
        """Whether the last try failed."""
        return self._error is not None

    @property
    def pause_s(self) -> float:
        """Seconds until the next try."""
        return max(0.0, self._next_at - self._clock.monotonic())

    def failed(self, error: OrchestratorError) -> None:
        """Note a try that failed."""
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**self._failures)
        share = int(entropy.token_hex(2), 16) / 0xFFFF
        self._failures = min(self._failures + 1, 16)
        self._next_at = self._clock.monotonic() + pause * (0.5 + share / 2)
        self._error = error

    def succeeded(self) -> None:
        """Note that the server answers."""
        self._failures, self._error = 0, None


class ServerConnection:
    """One connection; ``purpose`` is its name at the server.

    ``synchronous`` says whether commits wait for the disk of the server.
    """

    def __init__(
        self, dsn: str, purpose: str, clock: Clock, reconnection: Reconnection, *, synchronous: bool = True
    ) -> None:
        self._dsn = dsn
        self._purpose = purpose
        self._clock = clock
        self._reconnection = reconnection
        self._synchronous = synchronous
        self._connection: AsyncConnection | None = None
        self._lock = asyncio.Lock()
        self._connecting = False
        self._closed = False
        self._work: asyncio.Task[list[ResultRow]] | None = None

    async def call(self, query: str, values: Sequence[Any] = ()) -> list[ResultRow]:
        """The rows of one statement, which is one transaction; `fleet_away` at once while the server is away."""
        if self._connecting and self._reconnection.failing:
            self._reconnection.check()
            raise away("the fleet's database is away; another connection is being tried")
        await self._lock.acquire()
        self._work = asyncio.get_running_loop().create_task(self._call(query, values))
        self._work.add_done_callback(self._over)
        return await asyncio.shield(self._work)

    def _over(self, work: asyncio.Task[list[ResultRow]]) -> None:
        self._work = None
        self._lock.release()
        if not work.cancelled():
            work.exception()  # whoever called may be gone

    async def _call(self, query: str, values: Sequence[Any]) -> list[ResultRow]:
        connection = self._connection
        if connection is None:
            connection = self._connection = await self.open()
        timer = self._clock.timer(GIVEN_UP_S, lambda: hang_up(connection))
        try:
            cursor = await connection.execute(query.encode(), values, prepare=True)
            return await cursor.fetchall()
        except psycopg.Error as error:
            failure = statement_error(error, self._dsn)
            if connection.closed:
                self._connection = None
                failure.facts["sent"] = True  # whether it was committed is not known
            raise failure from None
        finally:
            timer.cancel()

    async def open(self) -> AsyncConnection:
        """A new connection, checked and set up; raises what `Reconnection.check` and the server say."""
        if self._closed:
            raise away("this connection to the fleet's database was closed")
        self._reconnection.check()
        self._check()
        self._connecting = True
        try:
            connection = await self._opened()
        except OrchestratorError as error:
            self._reconnection.failed(error)
            raise
        finally:
            self._connecting = False
        self._reconnection.succeeded()
        return connection

    def _check(self) -> None:
        try:
            conninfo_to_dict(self._dsn)
        except psycopg.Error as error:
            raise connection_error(error, self._dsn) from None
        if fault := tls_missing(self._dsn):
            raise Environment("tls_required", fault, TLS_STEP)
        check_connection(self._dsn)

    async def _opened(self) -> AsyncConnection:
        try:
            given = conninfo_to_dict(self._dsn)
            parameters = {name: value for name, value in PARAMETERS.items() if name not in given}
            # Not that of PGHOSTADDR or a service: it would be another server than the DSN names.
            parameters["hostaddr"] = str(given.get("hostaddr") or "")
            parameters |= {"application_name": f"orchestrator {self._purpose}", "client_encoding": "UTF8"}
            connection = await psycopg.AsyncConnection.connect(
                make_conninfo(self._dsn, **parameters), autocommit=True
            )
        except psycopg.Error as error:
            raise connection_error(error, self._dsn) from None
        set_json_loads(orjson.loads, connection)
        timer = self._clock.timer(GIVEN_UP_S, lambda: hang_up(connection))
        try:
            check_reached(connection.info, connection.pgconn.info)
            cursor = await connection.execute(
                "select pg_backend_pid(), set_config('statement_timeout', %s, false),"
                " set_config('synchronous_commit', %s, false), set_config('datestyle', 'ISO', false),"
                # The functions wait for a lock and then read what its holder has committed.
                " set_config('default_transaction_isolation', 'read committed', false)",
                [f"{STATEMENT_S}s", "on" if self._synchronous else "off"],
            )
            ((serving, *_),) = await cursor.fetchall()
            check_direct(connection.info.backend_pid, serving)
        except psycopg.Error as error:
            await connection.close()
            raise statement_error(error, self._dsn) from None
        except BaseException:
            await connection.close()
            raise
        finally:
            timer.cancel()
        return connection

    async def close(self) -> None:
        """End the connection; a statement that is under way gets a moment to end."""
        self._closed = True
        if self._work is not None:
            await asyncio.wait([self._work], timeout=CLOSING_S)
        if self._work is not None:
            if self._connection is not None:
                hang_up(self._connection)
            else:
                self._work.cancel()
            await asyncio.wait([self._work])
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def check_reached(info: psycopg.ConnectionInfo, options: Sequence[ConninfoOption]) -> None:
    """Raise Environment ``tls_required`` if another server could pass for the one that was reached."""
    mode = next((option.val for option in options if option.keyword == b"sslmode"), None) or b""
    if fault := reached_unsafely(info.host, info.hostaddr, mode.decode()):
        raise Environment("tls_required", fault, TLS_STEP)


def check_direct(greeted: int, serving: int) -> None:
    """Raise Environment ``pooler_refused`` if another process serves a session than the one that greeted it.

    A pooler lends its connections by the transaction: it would never deliver news.
    """
    if greeted != serving:
        raise Environment("pooler_refused", "a pooler stands between this host and the fleet's database")


def hang_up(connection: AsyncConnection) -> None:
    """Break a connection, so that who waits for its server gets an error; the driver still owns its descriptor."""
    with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)
