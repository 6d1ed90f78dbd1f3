"""Tasks that run beside their caller: kept until they end, because the event loop alone may lose them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


class BackgroundTasks:
    """The tasks of one object that have not ended yet, in order of their starts; iterate over it to wait for them.

    An error stays in its task: asyncio logs it if nobody reads it.
    """

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[Any], None] = {}  # in the order of their starts

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(list(self._running))

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run the coroutine in the running event loop."""
        task = asyncio.get_running_loop().create_task(work)
        self._running[task] = None
        task.add_done_callback(self._running.pop)
        return task

    def cancel(self) -> None:
        """Cancel all tasks and return at once; `clock.call_off` also waits for their ends."""
        for task in self:
            task.cancel()
