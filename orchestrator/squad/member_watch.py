"""Show members to the user: report a member's process to a viewer whose failure does not affect the member.

The daemon passes in the viewer; squads know no panes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from orchestrator.base.clock import Clock
from orchestrator.base.waiting import wait_until
from orchestrator.squad.member_process import StopRequest

log = structlog.get_logger()


@dataclass(frozen=True)
class WatchedProcess:
    """What is needed to watch a member: its name, its process, and where its output goes."""

    member_id: str
    title: str
    pid: int
    start: int
    outputs: tuple[Path, Path]


Show = Callable[[WatchedProcess], Awaitable[Callable[[], Awaitable[None]]]]
"""Shows a member, and gives what hides it again."""


READ_S = 5.0
"""How long what a member said last can still be read behind its end."""


async def shown_as(show: Show, seen: WatchedProcess) -> Callable[[], Awaitable[None]]:
    """Show a member; returns a function that hides it again, and does nothing if it could not be shown."""
    try:
        return await show(seen)
    except Exception:
        log.exception("a member could not be shown", member=seen.member_id)
        return _nothing


async def hidden(task: asyncio.Task[Callable[[], Awaitable[None]]], clock: Clock, closing: StopRequest) -> None:
    """Hide a member that has ended, once it could be read, or as soon as the daemon ends."""
    hide = await task
    until = clock.monotonic() + READ_S
    await wait_until(lambda: closing.why or None, closing.changed, until, clock)
    try:
        await hide()
    except Exception:
        log.exception("a member's pane could not be closed")


async def _nothing() -> None:
    """Nothing was shown."""
