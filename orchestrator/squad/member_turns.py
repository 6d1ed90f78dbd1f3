"""Let members use a shared resource one at a time, in order of arrival. Touches nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Hashable
from typing import Any
from weakref import WeakValueDictionary

from orchestrator.base.waiting import call_off
from orchestrator.squad.member_process import StopRequest


class MemberTurns:
    """The owners and waiters of exclusive things; unused things take no memory."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def of(self, key: Hashable | None, stop: StopRequest) -> AsyncIterator[None]:
        """Hold what ``key`` names inside the block; None: nothing is needed. After a ``stop`` nothing is awaited."""
        if key is None:
            yield
            return
        lock = self._locks.get(key) or self._locks.setdefault(key, asyncio.Lock())
        getting = asyncio.get_running_loop().create_task(lock.acquire())
        try:
            await self._either(getting, stop)
            yield
        finally:
            await call_off([getting])
            if not getting.cancelled():
                lock.release()

    @staticmethod
    async def _either(getting: asyncio.Future[Any], stop: StopRequest) -> None:
        while not (getting.done() or stop.why):
            asked = stop.changed.arm()
            try:
                await asyncio.wait([getting, asked], return_when=asyncio.FIRST_COMPLETED)
            finally:
                stop.changed.disarm(asked)
