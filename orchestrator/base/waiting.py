"""The one place that waits: for a fact that somebody signals, for time to pass, for tasks to end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from orchestrator.base.clock import Clock, Timer

T = TypeVar("T")

AT_ONCE = 1
"""How many connections a server of asyncio accepts in one step; it calls this its backlog.

Without a descriptor it fails as often in one step, and each failure begins a timer that tries all of them again: with
more than one, a process without descriptors soon does nothing else.
"""


class Signal:
    """Wakes every waiter when something changed; carries no value, so a waiter re-reads the facts."""

    def __init__(self) -> None:
        self._waiters: dict[asyncio.Future[None], None] = {}  # in the order of `arm`: waiters are woken in it

    def notify(self) -> None:
        """Wake all current waiters; harmless without any."""
        if not self._waiters:
            return
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    def arm(self) -> asyncio.Future[None]:
        """A future the next ``notify`` completes: arm first, then look, then await (no lost wake-up)."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        return waiter

    def disarm(self, waiter: asyncio.Future[None]) -> None:
        self._waiters.pop(waiter, None)


async def elapse(seconds: float, clock: Clock) -> None:
    """Let ``seconds`` of that clock pass, where there is no fact to wait for."""
    await wait_until(lambda: None, Signal(), clock.monotonic() + seconds, clock)


async def give_way() -> None:
    """Let everything that is ready now run first: between the pieces of a long work on the event loop."""
    await asyncio.sleep(0)


async def wait_until(look: Callable[[], T | None], signal: Signal, deadline: float, clock: Clock) -> T | None:
    """The first value of ``look`` that is not None, or None once ``clock.monotonic()`` reaches ``deadline``.

    ``look`` is called at once, after every ``notify`` of ``signal`` and once more at the deadline.
    """
    while True:
        waiter = signal.arm()
        timer: Timer | None = None
        try:
            value = look()
            if value is not None:
                return value
            remaining_s = deadline - clock.monotonic()
            if remaining_s <= 0:
                return None

            def expire(w: asyncio.Future[None] = waiter) -> None:
                if not w.done():
                    w.set_result(None)

            timer = clock.timer(remaining_s, expire)
            await waiter
        finally:
            signal.disarm(waiter)
            if timer is not None:
                timer.cancel()


async def call_off(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until each has ended, however it did."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
