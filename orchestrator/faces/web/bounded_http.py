"""uvicorn's HTTP protocol, with limits for connections that make no request.

The head of a request has a time limit. If few connections are left, the oldest without a request is closed.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

HEAD_S = 10.0
ROOM = 200
"""Number of connections that are kept free for new requests. More than the server accepts at once."""


class BoundedHttp(H11Protocol):
    """One connection: it is closed if the head of a request is not complete within ``HEAD_S`` seconds.

    The state of each request's scope has one dict under ``connection``, which all requests of the connection share.
    """

    _timer: asyncio.TimerHandle | None = None
    quiet_since = 0.0

    def __init__(self, config: Any, server_state: Any, app_state: dict[str, Any], _loop: Any = None) -> None:
        super().__init__(config, server_state, {**app_state, "connection": {}}, _loop)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.quiet_since = self.loop.time()
        self._wait_for_head()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """Take bytes; those of a head that is not complete do not make its time longer."""
        super().data_received(data)
        if self.is_answering():
            self._stop_waiting()
        elif self._timer is None:
            self._wait_for_head()

    def on_response_complete(self) -> None:
        """Wait for the next request of this connection."""
        self.quiet_since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        self._timer = self.loop.call_later(HEAD_S, self._close)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self._timer = None
        if not self.is_answering():
            self.transport.close()

    def _make_room(self) -> None:
        """If few connections are left, close the connection that has had no request for longest."""
        limit = self.limit_concurrency
        if limit is None or len(self.connections) <= limit - ROOM:
            return
        others = (each for each in self.connections if isinstance(each, BoundedHttp) and each is not self)
        quiet = [each for each in others if not each.is_answering() and not each.transport.is_closing()]
        if quiet:
            min(quiet, key=lambda each: each.quiet_since).transport.close()

    def is_answering(self) -> bool:
        """Whether a request is being answered; before the first one uvicorn has None, whatever its type says."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete
