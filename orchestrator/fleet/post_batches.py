"""Sends posts to the fleet's database: those that come while another is under way share one transaction.

Each commit waits for the server's disk. Under load one commit carries many posts. Their owners learn of them
together, and so take, sync and ship them together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.errors import OrchestratorError
from orchestrator.fleet.server_connection import ResultRow, ServerConnection

POSTS, BODY_CHARACTERS = 50, 1_000_000
"""Most posts of one transaction, and about how many characters their bodies have together; one may have more."""
BODY = 4
POST_ONE = "select * from orchestrator_fleet.post(%s, %s, %s, %s, %s, %s, %s)"
POST_SEVERAL = "select * from orchestrator_fleet.post_all(%s, %s, %s, %s, %s, %s, %s)"


class _Waiting(NamedTuple):
    values: ResultRow
    answer: asyncio.Future[ResultRow]


class PostBatches:
    """The posts of one host, sent on one connection in the order in which they come."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._waiting: deque[_Waiting] = deque()
        self._tasks = BackgroundTasks()
        self._sending = False

    async def send(self, values: ResultRow) -> ResultRow:
        """The answer to one post (the arguments of `post`); raises what `ServerConnection.call` does.

        If the caller is cancelled before the post is sent, it is not sent.
        """
        post = _Waiting(values, asyncio.get_running_loop().create_future())
        self._waiting.append(post)
        if not self._sending:
            self._sending = True
            self._tasks.start(self._send_waiting())
        return await post.answer

    async def _send_waiting(self) -> None:
        try:
            while batch := self._next():
                await self._sent(batch)
        finally:
            self._sending = False  # at once: who was answered may send the next post before this task counts as ended

    def _next(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        room = BODY_CHARACTERS
        while self._waiting and len(batch) < POSTS and (room > 0 or not batch):
            post = self._waiting.popleft()
            if not post.answer.done():
                batch.append(post)
                room -= len(post.values[BODY])
        return batch

    async def _sent(self, batch: Sequence[_Waiting]) -> None:
        try:
            if len(batch) == 1:
                rows = await self._connection.call(POST_ONE, batch[0].values)
            else:
                columns = [list(column) for column in zip(*(post.values for post in batch), strict=True)]
                rows = await self._connection.call(POST_SEVERAL, columns)
        except OrchestratorError as error:
            if len(batch) > 1 and error.code != "fleet_away":
                for post in batch:  # the server refuses one of them: the others shall not wait for it
                    await self._sent([post])
                return
            for post in batch:
                _answer(post, type(error)(error.code, error.message, error.next_step, **error.facts))
        except Exception as error:  # noqa: BLE001 - a bug: who waits gets it, and the next posts are sent
            for post in batch:
                _answer(post, error)
        else:
            for post, row in zip(batch, rows, strict=True):
                _answer(post, row)


def _answer(post: _Waiting, answer: ResultRow | Exception) -> None:
    if post.answer.done():  # the caller was cancelled
        return
    if isinstance(answer, Exception):
        post.answer.set_exception(answer)
    else:
        post.answer.set_result(answer)
