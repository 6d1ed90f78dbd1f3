"""Time at the edge: the clock that is read once per call, and timers. Loads no event loop: the command line uses it.

Everything below the surfaces gets ``at`` or a ``Clock`` passed in; tests pass a ``FakeClock`` of their own
that implements the same four methods and fires timers by hand.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from orchestrator.base.platform import boot_clock

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
    """Wall time for stamps, monotonic seconds for durations, timers for waits.

    ``awake`` counts seconds while the machine sleeps too, as ``monotonic`` may not: for what others count on.
    """

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...
    def awake(self) -> float: ...
    def timer(self, delay: float, callback: Callable[[], None]) -> Timer: ...


class SystemClock:
    """The real clock; ``timer`` needs a running event loop."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def awake(self) -> float:
        return boot_clock.seconds()

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
