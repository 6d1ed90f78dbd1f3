"""The bytes of one connection, limited in both directions: lines in, and answers that the client must read.

A client may send anything and read nothing; neither may use more than a known share of the daemon's memory. Touches
the two streams that it is given.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp.shared.dispatcher import as_request_id, coerce_request_id

from orchestrator.base.waiting import AT_ONCE, Signal
from orchestrator.edge.wire_format import Cut, WireLines

MAX_LINE = 64 << 20
"""Above the relay's own limit, which refuses a longer line with an answer before it gets here."""
BUFFER = 256 << 10
"""How much of what a client sends is held beside its unfinished line."""
STALL_S = 120.0
"""A client that takes nothing for so long, while answers wait for it, is dropped; a relay comes back by itself."""

MAX_OPEN = 256
"""Unanswered requests of one connection, behind which it is not read: with the largest answers, 64 MiB."""
ENDLESS = frozenset({"subscriptions/listen"})
"""Requests that stay unanswered as long as they work; the SDK bounds them."""


Accept = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def listen(accept: Accept, sock: socket.socket, backlog: int) -> asyncio.Server:
    """Accept connections on a bound Unix socket. Closing the server leaves the socket's path in place.

    From Python 3.13 on, asyncio would remove the path, by which a daemon recognizes until its last step that it is
    still the project's. ``backlog`` is how many connections the system holds meanwhile.
    """
    keep_path: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
    server = await asyncio.start_unix_server(accept, sock=sock, limit=BUFFER, backlog=AT_ONCE, **keep_path)
    sock.listen(backlog)
    return server


class TooLong(Exception):
    """A line is longer than it may be; what follows it cannot be placed any more."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a line has more than {limit} bytes")


class Stalled(Exception):
    """The client has taken nothing for `STALL_S`."""


class Incoming:
    """The lines of a connection, none longer than ``limit`` bytes, which may be changed at any time."""

    def __init__(self, reader: asyncio.StreamReader, limit: int) -> None:
        self._reader = reader
        self._lines = WireLines(limit)
        self._ready: deque[bytes | Cut] = deque()

    @property
    def limit(self) -> int:
        return self._lines.limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._lines.limit = limit

    async def line(self) -> bytes | None:
        """The next line without its newline; None after the client's last line. ``TooLong`` as soon as a line is."""
        while not self._ready:
            if self._lines.size > self.limit:
                raise TooLong(self.limit)
            data = await self._reader.read(BUFFER)
            if not data and not self._lines.size:
                return None
            self._ready.extend(self._lines.feed(data or b"\n"))  # a last line need not be terminated
        line = self._ready.popleft()
        if isinstance(line, Cut):
            raise TooLong(self.limit)
        return line


async def drained(writer: asyncio.StreamWriter) -> None:
    """Wait until the client has read nearly all that was written; ``Stalled`` if it reads nothing."""
    if not waiting(writer) and not writer.transport.is_closing():
        return
    while True:
        left = waiting(writer)
        try:
            async with asyncio.timeout(STALL_S):
                await writer.drain()
            return
        except TimeoutError:
            # A daemon that stood still itself finds its timers due, and the client as ready as ever.
            if waiting(writer) >= left:
                raise Stalled from None


def waiting(writer: asyncio.StreamWriter) -> int:
    """How many bytes wait for the client beyond what the system holds for it."""
    return writer.transport.get_write_buffer_size()


@dataclass(eq=False)
class PendingCall:
    """One request of a client. ``canceled``: the client has canceled this request while it was open.

    ``begun``: what it does has begun, or it has an answer; so a later call no longer overtakes it. The code that
    serves the request holds the object; so nothing is kept of an answered request, and a later request with the same
    id is a different one.
    """

    canceled: bool = False
    begun: bool = False
    end: Callable[[], None] | None = None  # ends the call, if the SDK's server does not know it


class Traffic:
    """The open requests of one connection and its unread answers, which together are its memory.

    The daemon stops reading from a client that does not read its answers, so that further requests wait on its side.
    """

    def __init__(self) -> None:
        self._open: dict[Any, PendingCall] = {}
        self._blocked = False
        self._changed = Signal()

    def opened(self, request: types.JSONRPCRequest) -> PendingCall:
        """Register a request that has arrived, before it is served: a cancel must be known when it takes effect."""
        call = PendingCall()
        if request.method not in ENDLESS:
            self._open[request.id] = call
        return call

    def holds(self, key: Any) -> bool:
        """Whether a request of this id has no answer yet; those of `ENDLESS` do not count."""
        return key in self._open

    def canceled(self, message: types.JSONRPCNotification) -> PendingCall | None:
        """The open request that a notification cancels, which is then not answered.

        Some clients cancel requests that are answered already. The id is compared as the SDK does, which ends its
        calls: 7 and "7" are the same id.
        """
        if message.method != "notifications/cancelled":
            return None
        key = as_request_id((message.params or {}).get("requestId"))
        if key is None:
            return None
        for open_id in reversed(self._open):
            if coerce_request_id(open_id) == coerce_request_id(key):
                call = self._open.pop(open_id)
                call.canceled = call.begun = True
                return call
        return None

    @contextlib.contextmanager
    def taking(self, answered: Any = None) -> Iterator[None]:
        """While the client takes a message of ours; ``answered``: the id of the request that it answers."""
        self._blocked = True
        try:
            yield
            if answered is not None and (call := self._open.pop(answered, None)) is not None:
                call.begun = True
        finally:
            self._blocked = False
            self._changed.notify()

    async def room(self) -> None:
        """Wait until the client has taken enough for the next of its messages."""
        while self._blocked or len(self._open) >= MAX_OPEN:
            await self._changed.arm()
