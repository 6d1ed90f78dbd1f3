"""Lets the waits of very many connections in one after another, so that all other requests pass them.

A wait is a request that is answered when there is news. Hundreds of them may come at once: from agents that were
started together, or after a restart of the daemon. Served side by side, they would hold up every other request until
all of them are under way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import mcp_types as types


def is_wait(message: Any) -> bool:
    """Whether a message only waits for new records, so that other requests may be served before it."""
    if not isinstance(message, types.JSONRPCRequest) or message.method != "tools/call":
        return False
    params = message.params or {}
    given = params.get("arguments")
    return params.get("name") == "wait_for_command" or (isinstance(given, dict) and bool(given.get("wait_ms")))


class WaitTurns:
    """One wait enters in each turn of the event loop; a wait that comes alone enters at once."""

    def __init__(self) -> None:
        self._taken = False  # by a wait that entered in this turn
        self._queue: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Return when this wait may enter, in the order of the calls."""
        loop = asyncio.get_running_loop()
        if not self._taken:
            self._taken = True
            loop.call_soon(self._next)
            return
        waiter: asyncio.Future[None] = loop.create_future()
        self._queue.append(waiter)
        await waiter

    def _next(self) -> None:
        while self._queue:
            waiter = self._queue.popleft()
            if not waiter.done():  # else its connection has ended
                waiter.set_result(None)
                asyncio.get_running_loop().call_soon(self._next)
                return
        self._taken = False
