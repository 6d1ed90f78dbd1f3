"""Regular looks while a face is open, and single looks for callers that open no face."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.clock import Clock, Rounds, Timer
from orchestrator.base.waiting import call_off

GLANCE_S = 2.0
"""Maximum time of a single look, in seconds. The next look shows what was not ready by then."""


class WatchedRounds:
    """Calls ``look`` at once when a face opens, and then every ``every_s`` until the last one closes.

    ``tasks`` are what looks have started; `close` ends them.
    """

    def __init__(self, clock: Clock, every_s: float, look: Callable[[], None]) -> None:
        self._look = look
        self._rounds = Rounds(clock, every_s)
        self._due: Timer | None = None
        self.is_open = False
        self._glances = 0
        self.tasks = BackgroundTasks()

    def watched(self, is_open: bool) -> None:
        """Whether a face is open."""
        self.is_open = is_open
        if not is_open and self._due is not None:
            self._due.cancel()
            self._due = None
        elif is_open and self._due is None:
            self._tick()

    @property
    def anybody_looks(self) -> bool:
        """Whether a face is open, or a single look is running."""
        return self.is_open or self._glances > 0

    async def glance(self) -> None:
        """Look once, and wait for the tasks that the look has started."""
        self._glances += 1
        try:
            self._look()
            if running := list(self.tasks):
                await asyncio.wait(running, timeout=GLANCE_S)
        finally:
            self._glances -= 1

    async def close(self) -> None:
        """Stop looking."""
        self.watched(False)
        await call_off(self.tasks)

    def _tick(self) -> None:
        self._due = self._rounds.begin(self._tick) if self.is_open else None
        self._look()
