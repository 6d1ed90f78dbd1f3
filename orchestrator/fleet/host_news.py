"""News between hosts: notifications of PostgreSQL, a channel for each host. The beat finds what a lost one said.

Nothing is notified inside a transaction that writes: each such commit would wait for all others of the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any, get_args

import psycopg
import structlog

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.clock import Clock, Timer
from orchestrator.base.errors import Environment, OrchestratorError
from orchestrator.base.waiting import Signal, call_off, elapse, wait_until
from orchestrator.fleet.database_functions import News, NewsKind
from orchestrator.fleet.driver_errors import statement_error
from orchestrator.fleet.server_connection import AsyncConnection, ServerConnection

log = structlog.get_logger()

TOGETHER_S = 0.005
"""News to the same host within this time go together."""
PAYLOAD_BYTES = 7000
"""PostgreSQL takes less than 8000 bytes."""
SILENT_S = 10.0
"""A listener that has heard nothing for so long is replaced."""
CALL_ITSELF_S = 3.0
"""A host that has heard nothing for so long tells itself something, at its next beat."""
PAUSE_S = 1.0

KINDS: tuple[NewsKind, ...] = get_args(NewsKind)
NOTIFY = (
    "select pg_notify(news.channel, news.payload)"
    " from unnest(%s::text[], %s::text[]) with ordinality as news (channel, payload, n) order by n"
)


def channel_of(project: str, host: str) -> str:
    """The name of a host's channel: an identifier of any project's and host's names."""
    return "fleet_" + hashlib.sha256(f"{project}\0{host}".encode()).hexdigest()[:32]


def payload_of(news: dict[NewsKind, dict[str, None] | None]) -> str:
    """What one notification carries: kinds with their agents, without names if those are too many."""
    payload = json.dumps({kind: list(agents or ()) for kind, agents in news.items()}, separators=(",", ":"))
    if len(payload) > PAYLOAD_BYTES:
        payload = json.dumps({kind: [] for kind in news}, separators=(",", ":"))
    return payload


def news_of(payload: str) -> list[News]:
    """What a notification says; nothing of what no host of ours would send, for everybody may notify."""
    try:
        news = json.loads(payload)
    except ValueError:
        return []
    if not isinstance(news, dict):
        return []
    return [
        News(kind, tuple(name for name in news[kind] if isinstance(name, str)))
        for kind in KINDS
        if isinstance(news.get(kind), list)
    ]


class NewsSender:
    """Sends news on a connection of their own: the first to a host at once, what follows together."""

    def __init__(self, connection: ServerConnection, project: str, clock: Clock) -> None:
        self._connection = connection
        self._project = project
        self._clock = clock
        self._waiting: dict[str, dict[NewsKind, dict[str, None] | None]] = {}
        self._next_at: dict[str, float] = {}
        self._timer: Timer | None = None
        self._tasks = BackgroundTasks()
        self._closed = False

    def tell(self, host: str, kind: NewsKind | None, agents: Iterable[str] = ()) -> None:
        """Send soon; kind None says nothing but that the way is open."""
        news = self._waiting.setdefault(host, {})
        if kind is not None:
            names = dict.fromkeys(agents)
            before = news.get(kind, {})
            news[kind] = {**before, **names} if names and before is not None else None
        self._send()

    async def close(self) -> None:
        """Send nothing more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        await call_off(self._tasks)

    def _send(self) -> None:
        """Send what is due, if nothing is being sent; else what ends then sends it."""
        if self._closed or list(self._tasks):
            return
        now = self._clock.monotonic()
        self._next_at = {host: at for host, at in self._next_at.items() if at > now}
        due = {host: news for host, news in self._waiting.items() if host not in self._next_at}
        if due:
            for host in due:
                del self._waiting[host]
                self._next_at[host] = now + TOGETHER_S
            self._tasks.start(self._sent(due)).add_done_callback(lambda _: self._send())
        elif self._waiting and self._timer is None:
            soonest = min(self._next_at[host] for host in self._waiting)
            self._timer = self._clock.timer(soonest - now, self._again)

    def _again(self) -> None:
        self._timer = None
        self._send()

    async def _sent(self, due: dict[str, dict[NewsKind, dict[str, None] | None]]) -> None:
        channels = [channel_of(self._project, host) for host in due]
        with contextlib.suppress(OrchestratorError):  # news may be lost
            await self._connection.call(NOTIFY, [channels, [payload_of(news) for news in due.values()]])


class NewsListener:
    """Listens to the channel of one host for as long as it runs, and replaces its connection when that is silent."""

    def __init__(
        self, connection: ServerConnection, channel: str, clock: Clock, heard: Callable[[News], None]
    ) -> None:
        self._connection = connection
        self._channel = channel
        self._clock = clock
        self._heard = heard
        self._heard_at = clock.monotonic()
        self._lost = False
        self._stirred = Signal()
        self._task: asyncio.Task[None] | None = None
        self.listening = False
        self.trouble: OrchestratorError | None = None

    def begin(self) -> None:
        """Listen from now on; again and again, it does nothing more."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop listening."""
        if self._task is not None:
            await call_off([self._task])

    @property
    def silent_s(self) -> float:
        """Seconds since something was heard."""
        return self._clock.monotonic() - self._heard_at

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
                self.trouble = None
            except OrchestratorError as error:
                if self.trouble is None or self.trouble.code != error.code:
                    log.warning("this host hears no news of the fleet", **error.as_dict())
                self.trouble = error
                await elapse(PAUSE_S, self._clock)
            except Exception:
                log.exception("bug while listening to the fleet")
                await elapse(PAUSE_S, self._clock)

    async def _listen(self) -> None:
        """Listen until the connection is lost or silent."""
        self._lost = False
        connection = await self._connection.open()
        loop, descriptor = asyncio.get_running_loop(), connection.fileno()
        try:
            connection.add_notify_handler(lambda notify: self._notified(notify.payload))
            try:
                await connection.execute(f'listen "{self._channel}"'.encode())
                cursor = await connection.execute("select pg_listening_channels()")
                check_listening(self._channel, [name for (name,) in await cursor.fetchall()])
            except psycopg.Error as error:
                raise statement_error(error, "") from None
            self._heard_at, self.listening = self._clock.monotonic(), True
            # Not `notifies()`, which wakes up ten times a second and holds the connection.
            loop.add_reader(descriptor, self._readable, connection, descriptor)
            self._readable(connection, descriptor)
            while not self._lost and self.silent_s < SILENT_S:
                deadline = self._heard_at + SILENT_S
                await wait_until(lambda: True if self._lost else None, self._stirred, deadline, self._clock)
            log.info("the listener to the fleet's news is replaced", lost=self._lost)
        finally:
            self.listening = False
            if not self._lost:
                loop.remove_reader(descriptor)
            await connection.close()

    def _readable(self, connection: AsyncConnection, descriptor: int) -> None:
        try:
            connection.pgconn.consume_input()
            while (notify := connection.pgconn.notifies()) is not None:
                self._notified(notify.extra.decode("utf-8", "replace"))
        except psycopg.Error:
            # At once: libpq has closed the descriptor, whose number may be another file's soon.
            asyncio.get_running_loop().remove_reader(descriptor)
            self._lost = True
            self._stirred.notify()

    def _notified(self, payload: str) -> None:
        self._heard_at = self._clock.monotonic()
        for news in news_of(payload):
            self._heard(news)


def check_listening(channel: str, channels: Iterable[Any]) -> None:
    """Raise Environment ``pooler_refused`` if the session that asks is not the one that listens."""
    if channel not in channels:
        raise Environment("pooler_refused", "a pooler stands between this host and the fleet's database")
