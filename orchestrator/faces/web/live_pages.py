"""Pages that follow the team: the newest snapshot, the content of each page that somebody looks at, and the streams.

All streams of one page share its content and its messages, so that a thousand clients cost little more than one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol

from orchestrator.base.clock import Clock
from orchestrator.base.errors import NotReady, OrchestratorError
from orchestrator.base.waiting import Signal, elapse, wait_until
from orchestrator.faces.web.bug_lines import BugLines
from orchestrator.faces.web.html_elements import NOTHING
from orchestrator.faces.web.page_content import PageContent, PageRequest, event
from orchestrator.faces.web.page_parts import WAITING, failure_page

MOST_STREAMS = 1000
MOST_PAGES = 200
EVERY_S = 0.5
"""No page is sent more often."""
KEEP_S = 15.0
"""A silent stream says after this time that it lives."""
SETTLED_S = 5.0
"""Seconds after the last change until a page is made again: it may have been made too early to show the change."""


class FollowedSnapshot(Protocol):
    """What follows the snapshot: `faces.snapshot_client.SnapshotClient`."""

    def latest(self) -> dict[str, Any] | None: ...
    def wait(self, number: int, timeout_s: float) -> int: ...


class PageSource(Protocol):
    """Makes the content of pages. ``depends_on`` is cheap; ``content`` may block."""

    def depends_on(self, request: PageRequest, snapshot: dict[str, Any], now: float) -> object: ...
    def content(self, request: PageRequest, snapshot: dict[str, Any]) -> PageContent: ...


class _KeptPage:
    """One page: its newest content, and what it was made of."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.key: object = None
        self.content = PageContent(NOTHING, {})


class LivePages:
    """The pages of one server. `follow` runs until the server ends."""

    def __init__(self, snapshots: FollowedSnapshot, source: PageSource, clock: Clock, bugs: BugLines) -> None:
        self._snapshots, self._source, self._clock, self._bugs = snapshots, source, clock, bugs
        self._moved = Signal()
        self._number = 0
        self._pages: OrderedDict[PageRequest, _KeptPage] = OrderedDict()
        self._ended = False
        self.streams = 0

    async def follow(self) -> None:
        """Take each new snapshot as it comes."""
        while not self._ended:
            number = await asyncio.to_thread(self._snapshots.wait, self._number, 1.0)
            if number != self._number:
                self._number = number
                self._moved.notify()

    def end(self) -> None:
        """End all streams: the server stops."""
        self._ended = True
        self._moved.notify()

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """One place for a stream; NotReady ``web_busy`` if all are taken."""
        if self.streams >= MOST_STREAMS:
            raise NotReady("web_busy", f"{MOST_STREAMS} pages are open already", "close a page, then try again")
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    async def messages(self, request: PageRequest) -> AsyncIterator[bytes]:
        """The messages of a page as long as somebody reads them, until `end`."""
        sent: PageContent | None = None
        quiet_since, moved = self._clock.monotonic(), True
        while not self._ended:
            number = self._number
            content = await self._content(request)
            message = content.message_after(sent) if content is not sent else b""
            sent = content
            if message:
                yield message
                quiet_since = self._clock.monotonic()
            elif self._clock.monotonic() - quiet_since >= KEEP_S:
                yield b": still here\n\n"
                quiet_since = self._clock.monotonic()
            await elapse(EVERY_S, self._clock)
            wait_s = 1.0 - EVERY_S if request.view == "agent" else SETTLED_S if moved else KEEP_S
            moved = await self._news(number, wait_s)

    async def _news(self, number: int, seconds: float) -> bool:
        def moved() -> bool | None:
            return True if self._number != number or self._ended else None

        return bool(await wait_until(moved, self._moved, self._clock.monotonic() + seconds, self._clock))

    async def _content(self, request: PageRequest) -> PageContent:
        snapshot = self._snapshots.latest()
        if snapshot is None:
            return WAITING
        page = self._page(request)
        key = self._source.depends_on(request, snapshot, self._clock.monotonic())
        if page.key == key:
            return page.content
        async with page.lock:
            if page.key != key:
                made = await self._made(request, snapshot)
                if made.frame != page.content.frame or made.slots != page.content.slots:
                    page.content = made
                page.key = key
        return page.content

    async def _made(self, request: PageRequest, snapshot: dict[str, Any]) -> PageContent:
        try:
            return await asyncio.to_thread(self._source.content, request, snapshot)
        except OrchestratorError as error:
            return failure_page(snapshot, error)
        except Exception as error:  # noqa: BLE001  (a page with a bug says so, and the others go on)
            return failure_page(snapshot, self._bugs.note(error))

    def _page(self, request: PageRequest) -> _KeptPage:
        page = self._pages.pop(request, None) or _KeptPage()
        self._pages[request] = page
        while len(self._pages) > MOST_PAGES:
            self._pages.popitem(last=False)
        return page


def access_message(scope: str) -> bytes:
    """The first event of a stream: what the token of this page allows."""
    return event("access", {"scope": scope})
