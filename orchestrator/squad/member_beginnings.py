"""Let members of one CLI start one after the other, each once the one before it has begun. Reads the CLI's files.

Gemini CLI deletes, each time it starts, the chats of the same folder that have no message yet. Two opencode that open
their database at the same moment do not wait for each other, and one of them fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Hashable
from pathlib import Path

from orchestrator.base.clock import Clock
from orchestrator.base.waiting import call_off, elapse
from orchestrator.engines.definition import RunRecord
from orchestrator.squad import squad_files
from orchestrator.squad.member_process import StopRequest
from orchestrator.squad.member_turns import MemberTurns

LOOK_S = 0.1


class MemberBeginnings:
    """The members that are just beginning, at most one for each key."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turns = MemberTurns()

    @contextlib.asynccontextmanager
    async def of(self, key: Hashable, record: RunRecord | None, stop: StopRequest) -> AsyncIterator[None]:
        """Inside, a member may start. The next may once this one's ``record`` has a new message, or it has ended.

        Without a ``record`` nobody waits.
        """
        if record is None:
            yield
            return
        async with contextlib.AsyncExitStack() as turn:
            await turn.enter_async_context(self._turns.of(key, stop))
            before = await asyncio.to_thread(_sizes, record)
            recorded = asyncio.get_running_loop().create_task(self._recorded(record, before, turn))
            try:
                yield
            finally:
                await call_off([recorded])

    async def _recorded(self, record: RunRecord, before: dict[Path, int], turn: contextlib.AsyncExitStack) -> None:
        deadline = self._clock.monotonic() + record.bound_s
        while self._clock.monotonic() < deadline and not await asyncio.to_thread(_has_message, record, before):
            await elapse(LOOK_S, self._clock)
        await turn.aclose()


def _sizes(record: RunRecord) -> dict[Path, int]:
    return {path: squad_files.size(path) for path in Path(record.folder).glob(record.files)}


def _has_message(record: RunRecord, before: dict[Path, int]) -> bool:
    paths = Path(record.folder).glob(record.files)
    return any(re.search(record.message.encode(), _end(path, before.get(path, 0))) for path in paths)


def _end(path: Path, start: int) -> bytes:
    """What a file holds from that byte on; nothing if it is gone."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read()
    except OSError:
        return b""
