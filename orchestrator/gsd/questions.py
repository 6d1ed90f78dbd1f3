"""What one connection asks of the reading process: about its own place, with its own roots and limits."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import mcp_types as types
import structlog
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.errors import OrchestratorError
from orchestrator.gsd.reader_process import Reader
from orchestrator.protocol.call_limits import answer_by_s
from orchestrator.protocol.tool_calls import Client

log = structlog.get_logger()

VARIABLE = "GSD_PROJECT_ROOT"
ANSWER_S = 60.0
"""How long a question may take, where its client does not allow less."""
ROOTS_S = 3.0
"""How long a client may take to name its roots; one that says nothing by then has none."""


class Questions:
    """What one connection asks: about its own place, with its own roots and limits.

    ``root`` is the project that it was last answered about; ``watching``: it wants to hear when that one changes.
    """

    def __init__(self, reader: Reader, client: Client) -> None:
        self.root = ""
        self.watching = False
        self._reader = reader
        self._client = client
        self._session: ServerSession | None = None
        self._roots: asyncio.Task[tuple[str, ...]] | None = None
        self._tasks = BackgroundTasks()

    async def ask(
        self,
        question: str,
        arguments: dict[str, Any],
        session: ServerSession | None,
        *,
        named: str = "",
        age_s: float = 0.0,
    ) -> dict[str, Any]:
        """The answer of the reading process; ``age_s``: how long the question has waited already.

        Raises what `Reader.ask` raises.
        """
        limit = min(ANSWER_S, answer_by_s(self._client) or ANSWER_S)
        place = {
            "cwd": self._client.origin.cwd,
            "named": named,
            "variable": self._client.env.get(VARIABLE, ""),
            "roots": await self._roots_of(session),
        }
        answer: dict[str, Any] = await self._reader.ask(question, place, arguments, max(1.0, limit - age_s))
        if not named and answer.get("project_root"):
            self.root = answer["project_root"]
        return answer

    def watch(self, session: ServerSession | None = None) -> None:
        """The client wants to hear when its project changes: have it read and watched, in the background."""
        self.watching = True
        self._session = session or self._session
        self._tasks.start(self._watch())

    def roots_changed(self) -> None:
        """The client has other roots now: it is asked again with the next question."""
        self._roots = None

    def close(self) -> None:
        """The connection is over."""
        self.watching = False
        self._tasks.cancel()

    async def _watch(self) -> None:
        with contextlib.suppress(OrchestratorError):  # no project yet, or none that can be read: nothing to watch
            await self.ask("watch", {}, self._session)

    async def _roots_of(self, session: ServerSession | None) -> tuple[str, ...]:
        """The client's roots, asked for once; none where it has not said that it has some, or does not answer."""
        capabilities = session.client_capabilities if session is not None else None
        if session is None or capabilities is None or capabilities.roots is None:
            return ()
        if self._roots is None:
            self._roots = self._tasks.start(_ask_roots(session))
        return await asyncio.shield(self._roots)  # several may wait for it, and one be canceled


class _Root(BaseModel):
    uri: str


class _Roots(BaseModel):
    roots: list[_Root]


async def _ask_roots(session: ServerSession) -> tuple[str, ...]:
    try:
        answer = await session.send_request(types.ListRootsRequest(), _Roots, request_read_timeout_seconds=ROOTS_S)
    except (MCPError, ValueError) as error:  # also a client of the era that cannot be asked, and nonsense
        log.debug("a client does not say which roots it has", error=str(error))
        return ()
    return tuple(root.uri for root in answer.roots)
