"""Collects the agents that a part of the fleet has work for, and does that work in a loop that survives errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import structlog

from orchestrator.base.clock import Clock
from orchestrator.base.errors import OrchestratorError
from orchestrator.base.waiting import Signal, call_off, elapse, wait_until

log = structlog.get_logger()

AGAIN_S = 1.0
"""Pause after work that the disk, tmux or the database refused, and after a bug."""
LOOK_S = 3600.0
"""Longest wait for a signal; nothing depends on it."""


class DueNames:
    """The agents for which one part of the fleet has work, in the order in which it learned of them.

    ``work`` gets all of them at once, possibly none. It runs once at a time; names that are added meanwhile wait for
    its next call. If it finds the database away, its names are dropped: the next renewal shows them again. After any
    other refusal they are tried again. After a bug they are dropped too, so that one agent cannot hold up the others
    for good. ``doing`` says in the daemon's log what failed.
    """

    def __init__(self, work: Callable[[list[str]], Awaitable[None]], doing: str, clock: Clock) -> None:
        self._work = work
        self._doing = doing
        self._clock = clock
        self._names: dict[str, None] = {}
        self._woken = False
        self._stirred = Signal()
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Work from now on."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop, also in the middle of the work."""
        if self._task is not None:
            await call_off([self._task])

    def add(self, names: Iterable[str]) -> None:
        """There is work for these agents."""
        self._names |= dict.fromkeys(names)
        if self._names:
            self._stirred.notify()

    def wake(self) -> None:
        """There is work that is not about an agent."""
        self._woken = True
        self._stirred.notify()

    async def _run(self) -> None:
        def look() -> bool | None:
            return True if self._names or self._woken else None

        while True:
            await wait_until(look, self._stirred, self._clock.monotonic() + LOOK_S, self._clock)
            names, self._names = self._names, {}
            self._woken = False
            try:
                await self._work(list(names))
            except OrchestratorError as error:
                if error.code == "fleet_away":
                    continue
                log.warning("refused, tried again", doing=self._doing, agents=len(names), **error.as_dict())
                await elapse(AGAIN_S, self._clock)
                self._names = names | self._names
            except Exception:
                log.exception("bug", doing=self._doing, agents=len(names))
                await elapse(AGAIN_S, self._clock)
