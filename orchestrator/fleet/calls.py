"""Asks another host what only it can answer, and answers such questions of others: screens, inbox answers, files.

Questions and answers pass through the database, which holds them for seconds. What a host answers is a table of its
verbs; the answer is JSON, an error travels with its code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
import structlog

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.errors import CODES, NotReady, OrchestratorError
from orchestrator.base.waiting import Signal, call_off
from orchestrator.fleet.database_functions import Ask, FleetDatabase
from orchestrator.team.roster.roster import Roster

log = structlog.get_logger()

LOOK_S = 1.0
"""Longest time between two looks for an answer, because news may be lost."""

Verb = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Answers a question of the host that is named first."""


class HostCalls:
    """The questions of one host and its answers. ``verbs`` are those that this host answers."""

    def __init__(self, database: FleetDatabase, roster: Roster, verbs: Mapping[str, Verb]) -> None:
        self._database = database
        self._roster = roster
        self._verbs = verbs
        self._answered = Signal()
        self._tasks = BackgroundTasks()
        self._taken: dict[tuple[int, str, str, bytes], None] = {}

    async def close(self) -> None:
        """Stop answering; the host that asks gets an error once its time is over."""
        await call_off(self._tasks)

    def news(self) -> None:
        """An answer may be there."""
        self._answered.notify()

    async def ask(self, host: str, verb: str, body: Mapping[str, Any], wait_s: float) -> Any:
        """The answer of a host; its own error, or NotReady ``host_away`` if none comes in time."""
        clock = self._roster.clock
        ask_id = await self._database.ask(host, verb, dict(body), wait_s)
        self._database.tell(host, "ask")
        deadline = clock.monotonic() + wait_s
        while True:
            waiting = self._answered.arm()
            try:
                done, answer = await self._database.answered(ask_id)
                if done:
                    return _opened(host, answer)
                if clock.monotonic() >= deadline:
                    raise NotReady("host_away", f"host {host} did not answer within {wait_s:g} s")
                timer = clock.timer(min(LOOK_S, deadline - clock.monotonic()), self._answered.notify)
                await waiting
                timer.cancel()
            finally:
                self._answered.disarm(waiting)

    def asked(self, asks: tuple[Ask, ...]) -> None:
        """Answer these questions, each once; a restored database gives their numbers again."""
        for ask in asks:
            key = ask.id, ask.by_host, ask.verb, orjson.dumps(ask.body, option=orjson.OPT_SORT_KEYS)
            if key not in self._taken:
                self._taken[key] = None
                self._tasks.start(self._answer(ask))
        while len(self._taken) > 1000:
            del self._taken[next(iter(self._taken))]

    def begin_anew(self) -> None:
        """The database was restored or has failed over: what was asked before is gone."""
        self._taken.clear()

    def look_soon(self) -> None:
        """Questions may be there."""
        self._tasks.start(self._look())

    async def _look(self) -> None:
        try:
            self.asked(tuple(await self._database.asks()))
        except OrchestratorError as error:
            log.debug("questions not read", **error.as_dict())

    async def _answer(self, ask: Ask) -> None:
        try:
            answer = await self._said(ask)
            await self._database.answer(ask.id, answer)
            self._database.tell(ask.by_host, "answer")
        except OrchestratorError as error:
            log.info("a question was not answered", host=ask.by_host, verb=ask.verb, **error.as_dict())
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("bug while answering another host", verb=ask.verb)

    async def _said(self, ask: Ask) -> dict[str, Any]:
        verb = self._verbs.get(ask.verb)
        try:
            if verb is None:
                raise NotReady("host_away", f"this host does not know {ask.verb!r}", "update orchestrator there")
            return {"answer": await verb(ask.by_host, ask.body)}
        except OrchestratorError as error:
            return {"error": error.as_dict()}


def _opened(host: str, answer: Any) -> Any:
    """The answer, or the error that the other host met."""
    error = answer.get("error") if isinstance(answer, dict) else None
    if isinstance(answer, dict) and "answer" in answer and error is None:
        return answer["answer"]
    if not isinstance(error, dict):
        raise NotReady("host_away", f"host {host} has answered what cannot be read here", "update orchestrator there")
    code = str(error.get("code"))
    known = code if code in CODES else "internal"
    kind: type[OrchestratorError] = CODES[known][0]
    facts = {str(key): value for key, value in error.items() if key not in ("kind", "code", "message", "next_step")}
    raise kind(known, f"host {host}: {error.get('message')}", str(error.get("next_step") or ""), **facts)
