"""Time at the edge: the clock that is read once per call, and the one place that waits.

Everything below the surfaces gets ``at`` or a ``Clock`` passed in; tests pass a ``FakeClock`` of their own
that implements the same three methods and fires timers by hand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio  # loaded by what runs an event loop; the command line only needs the time

T = TypeVar("T")
FOR_EVER_S = 10 * 365 * 86_400.0
"""A limit that no wait of ours reaches, for what takes a number."""
MISSED_S = 1.0


def rfc3339(at: datetime) -> str:
    """An instant as RFC 3339 UTC with milliseconds, the form of every ``at`` on disk."""
    utc = at if at.tzinfo is UTC else at.astimezone(UTC)
    return utc.isoformat(timespec="milliseconds")[:-6] + "Z"


class Timer(Protocol):
    """A pending callback; ``cancel`` is idempotent."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Wall time for stamps, monotonic seconds for durations, timers for waits."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...
    def timer(self, delay: float, callback: Callable[[], None]) -> Timer: ...


class SystemClock:
    """The real clock; ``timer`` needs a running event loop."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def timer(self, delay: float, callback: Callable[[], None]) -> Timer:
        from asyncio import get_running_loop  # noqa: PLC0415

        return get_running_loop().call_later(max(0.0, delay), callback)


class Rounds:
    """Rounds that follow each other every few seconds, and notice when this process has stood still in between.

    After this process or the machine was suspended, messages of others may still be unread: nobody may be judged by
    the time that has passed.
    """

    def __init__(self, clock: Clock, every_s: float) -> None:
        self._clock = clock
        self._every_s = every_s
        self._due = 0.0

    def begin(self, callback: Callable[[], None]) -> Timer:
        """The timer of the next round."""
        self._due = self._clock.monotonic() + self._every_s
        return self._clock.timer(self._every_s, callback)

    def missed_s(self) -> float:
        """Asked as the round begins: how long nothing was seen before it; 0 when it comes about in time."""
        late = self._clock.monotonic() - self._due
        return late if late > max(MISSED_S, self._every_s) else 0.0


class Signal:
    """Wakes every waiter when something changed; carries no value, so a waiter re-reads the facts."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

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
        from asyncio import get_running_loop  # noqa: PLC0415

        waiter: asyncio.Future[None] = get_running_loop().create_future()
        self._waiters.add(waiter)
        return waiter

    def disarm(self, waiter: asyncio.Future[None]) -> None:
        self._waiters.discard(waiter)


async def elapse(seconds: float, clock: Clock) -> None:
    """Let ``seconds`` of that clock pass, where there is no fact to wait for."""
    await wait_until(lambda: None, Signal(), clock.monotonic() + seconds, clock)


async def give_way() -> None:
    """Let everything that is ready now run first: between the pieces of a long work on the event loop."""
    from asyncio import sleep  # noqa: PLC0415

    await sleep(0)


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
    from asyncio import gather  # noqa: PLC0415

    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await gather(*tasks, return_exceptions=True)
