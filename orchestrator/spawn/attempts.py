"""Attempts at the nodes of one run: claimed before they are paid, stored before they are ended, ended once.

Touches the callers, and the home through the run's record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from orchestrator.base import failpoints
from orchestrator.base.errors import Environment
from orchestrator.base.waiting import call_off
from orchestrator.spawn import artifacts, attempt_outcome, owned_runs, transitions
from orchestrator.spawn.attempt_outcome import PreparedAttempt
from orchestrator.spawn.callers import caller_kind
from orchestrator.spawn.fenced_writes import Fenced
from orchestrator.spawn.run_data import (
    ArtifactRow,
    AttemptRow,
    EndedAttempt,
    Fault,
    NodeCall,
    NodeRow,
    NodeStatus,
    Reply,
)
from orchestrator.spawn.run_state import RunState

log = structlog.get_logger()
LONG_CHARS = 100_000
"""A longer answer is made ready for the disk in a thread; for others the way into a thread takes longer."""
RERUNS = 1
"""How often a node that was in flight when its daemon died is run again."""


class Attempts:
    """The attempts of one run that are in flight. ``trouble`` is what ended one that was not to end."""

    def __init__(self, work: RunState) -> None:
        self._work = work
        self._tasks: set[asyncio.Task[None]] = set()
        self.trouble: BaseException | None = None

    async def close(self) -> None:
        """Call off whatever is in flight, and leave it as it is written."""
        await call_off([*self._work.calls.values(), *self._tasks])

    async def prepared(self, row: NodeRow) -> PreparedAttempt:
        """What a node is asked, and what must be reserved for it."""
        work = self._work
        make = partial(
            attempt_outcome.prepared, work.deps.home, work.run, row, work.rows, work.files, table=work.table
        )
        return await asyncio.to_thread(make) if row.node.needs else make()  # the answers it needs are in files

    async def resume(self) -> None:
        """Settle the attempts that were in flight when an earlier daemon died: each is paid once at most."""
        work = self._work
        for attempt in [attempt for attempt in work.attempts.values() if attempt.state == "running"]:
            row = work.rows[attempt.node_id]
            document = await asyncio.to_thread(self._unrecorded_answer, attempt.node_id)
            if document is not None and document.get("token") == attempt.token:
                await self._record_document(row, attempt, document)
            elif work.deps.callers[caller_kind(row.node.model)].resumes:
                prepared = await self.prepared(row)
                self.begin(row, attempt, prepared, claimed=True)
            else:
                again = row.reruns < RERUNS
                message = "the daemon ended during the call; its whole reservation counts"
                message += "; it is run once more" if again else "; it was run again already"
                await work.record.write(transitions.lose_attempt, attempt, again, message)
                status: NodeStatus = "queued" if again else "failed"
                ended = replace(row, status=status, reruns=row.reruns + 1, error=None if again else message)
                work.put(ended, replace(attempt, state="lost"))

    def _unrecorded_answer(self, node_id: str) -> dict[str, Any] | None:
        work = self._work
        return artifacts.unrecorded_answer(
            work.deps.home, work.run.id, node_id, work.seals.seal(work.run.id, f"answer:{node_id}")
        )

    async def _record_document(self, row: NodeRow, attempt: AttemptRow, document: Mapping[str, Any]) -> None:
        """An answer that reached the disk and not the database."""
        work = self._work
        ended = attempt_outcome.recovered(row, attempt, document, work.record.at())
        stored = ArtifactRow(
            row.node.id,
            "raw",
            document["path"],
            document["bytes"],
            document["sha256"],
            work.record.at(),
            ended.attempt.model,
        )
        await self._record(ended, stored)

    def begin(self, row: NodeRow, attempt: AttemptRow, prepared: PreparedAttempt, *, claimed: bool) -> None:
        running = replace(row, status="running", attempt=attempt.attempt, retry_at=None)
        self._work.put(running, attempt)
        task = asyncio.get_running_loop().create_task(self._attempt(running, attempt, prepared, claimed=claimed))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.trouble = self.trouble or task.exception()
        self._work.notify()

    async def _attempt(self, row: NodeRow, attempt: AttemptRow, prepared: PreparedAttempt, *, claimed: bool) -> None:
        work = self._work
        if not claimed and not await self._claim(row, attempt):
            return
        settings = work.run.settings
        ask = NodeCall(
            run_id=work.run.id,
            node_id=row.node.id,
            attempt=attempt.attempt,
            token=attempt.token,
            model=row.node.model,
            system=row.node.system,
            prompt=prepared.prompt,
            max_tokens=settings.max_completion_tokens,
            timeout_s=max(0.0, min(settings.node_timeout_s, work.left_s())),
            base_url=settings.base_url,
            key=work.key,
            req=work.run.req,
        )
        outcome = await self._answer(ask)
        failpoints.passed("spawn:answered")
        stored = None
        if isinstance(outcome, Reply):
            make = partial(
                attempt_outcome.document,
                work.run,
                row,
                attempt,
                outcome,
                key=work.key,
                at=work.record.at(),
                price=prepared.price,
            )
            long = work.run.settings.redact or len(outcome.text) > LONG_CHARS
            data = await asyncio.to_thread(make) if long else make()
            seal = work.seals.seal(work.run.id, f"answer:{row.node.id}")
            data = data if seal is None else artifacts.sealed(data, seal)
            try:
                stored = await work.record.store(
                    f"{row.node.id}.json", data, row.node.id, "raw", outcome.model or row.node.model, over=work.over
                )
            except Environment as error:
                outcome = Fault("storage", f"its answer cannot be written: {error.message}", retry=False,
                                cost=outcome.cost, prompt_tokens=outcome.prompt_tokens,
                                completion_tokens=outcome.completion_tokens)  # fmt: skip
            failpoints.passed("spawn:stored")
        await self._end(row, attempt, outcome, stored)
        failpoints.passed("spawn:settled")

    async def _claim(self, row: NodeRow, attempt: AttemptRow) -> bool:
        """Write the attempt and its reservation down; False when the run has been canceled meanwhile."""
        work = self._work
        try:
            await work.record.write(transitions.claim_attempt, attempt)
        except Fenced:
            if not await work.record.is_ours():
                raise
            work.forget(row.node.id, attempt.attempt)
            work.take(replace(row, status="queued", attempt=attempt.attempt - 1))
            work.end_with("canceled")
            return False
        failpoints.passed("spawn:claimed")
        return True

    async def _answer(self, ask: NodeCall) -> Reply | Fault:
        """The caller's answer; a call that was called off, or has a bug, is a fault too."""
        work = self._work
        if work.stopped:
            return Fault("canceled", "the run was stopped before the call", retry=False, reached=False)
        caller = work.deps.callers[caller_kind(ask.model)]
        call = asyncio.get_running_loop().create_task(caller.call(ask))
        work.calls[ask.node_id] = call
        try:
            await asyncio.wait({call})
        finally:
            work.calls.pop(ask.node_id, None)
            await call_off([call])
        if call.cancelled():
            return Fault("canceled", "the run was stopped while it was in flight", retry=False)
        if (error := call.exception()) is not None:
            log.error("bug in a caller", run=ask.run_id, node=ask.node_id, exc_info=error)
            return Fault("internal", "a bug in orchestrator; see the daemon's log", retry=False)
        reply = call.result()
        if isinstance(reply, Reply) and not reply.text.strip():
            return Fault("empty", "the answer is empty", retry=True, cost=reply.cost,
                         prompt_tokens=reply.prompt_tokens, completion_tokens=reply.completion_tokens)  # fmt: skip
        return reply

    async def _end(
        self, row: NodeRow, attempt: AttemptRow, outcome: Reply | Fault, stored: ArtifactRow | None
    ) -> None:
        """Record how an attempt has ended, its cost, and the new state of its node."""
        work = self._work
        left_s = 0.0 if work.stopped else work.left_s()
        ended = attempt_outcome.ended(
            work.run, row, attempt, outcome, table=work.table, left_s=left_s, now=work.clock.now()
        )
        await self._record(ended, stored)

    async def _record(self, ended: EndedAttempt, stored: ArtifactRow | None) -> None:
        work = self._work
        await work.record.write(owned_runs.end_attempt, work.seals, ended, stored)
        work.put(ended.row, ended.attempt)
        if stored is not None:
            work.files[stored.node_id] = stored
        work.notify()
