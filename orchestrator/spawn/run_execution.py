"""One run, executed: plan it, start what may start, until there is an end to write down.

Decides nothing (that is `scheduler`) and knows no caller (that is `attempts`). It holds the lease of its run and
writes under its token, so that a runner that has been replaced changes nothing any more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import TypeVar

import structlog

from orchestrator.base import failpoints
from orchestrator.base.errors import Corrupt, Environment, OrchestratorError
from orchestrator.base.waiting import call_off, wait_until
from orchestrator.spawn import artifacts, attempt_outcome, final_answer, owned_runs, queries, scheduler, transitions
from orchestrator.spawn.attempts import Attempts
from orchestrator.spawn.fenced_writes import Fenced
from orchestrator.spawn.modes.mode_table import mode_of
from orchestrator.spawn.replies import masked
from orchestrator.spawn.run_data import MERGED, PLAN, AttemptRow, NodeEnd, NodeRow, NodeStatus, RunOutcome, RunRow
from orchestrator.spawn.run_seals import Seals
from orchestrator.spawn.run_state import RunDeps, RunState
from orchestrator.spawn.scheduler import UncalledNode

log = structlog.get_logger()
T = TypeVar("T")


class RunExecution:
    """The execution of one run by the daemon that holds its lease."""

    def __init__(self, deps: RunDeps, run: RunRow, key: str, seals: Seals) -> None:
        self._state = RunState(deps, run, key, seals)
        self._attempts = Attempts(self._state)
        self._joined = False
        self._passed: bool | None = None

    def cancel(self) -> None:
        """Request that the run ends; calls in flight are canceled."""
        self._state.end_with("canceled")

    def active_s(self) -> float:
        """How long the run has been executed, by all daemons."""
        return self._state.active_s()

    async def run(self) -> None:
        """Execute the run to its end; returns also when another daemon has taken it over.

        Canceled, it leaves all as it is, for the next holder of the lease.
        """
        run_id = self._state.run.id
        try:
            await self._execute()
        except Fenced:
            log.warning("a spawn run has been taken over by another daemon", run=run_id)
        except OrchestratorError as error:
            await self._give_up(f"{error.message}; next: {error.next_step}")
        except Exception:
            log.exception("bug in a spawn run", run=run_id)
            await self._give_up("a bug in orchestrator; see the daemon's log")
        finally:
            await self._attempts.close()

    async def _execute(self) -> None:
        work = self._state
        run = work.run
        if run.request.caller_kind == "model":
            work.table = await self._unless_over(work.deps.table(run.settings.base_url, work.key)) or work.table
        await asyncio.to_thread(artifacts.clear, work.deps.home, run.id)
        if not run.planned and not run.cancel_requested:
            await self._make_plan()
        rows = await work.record.read(partial(owned_runs.nodes, seals=work.seals))
        if rows is None:
            raise Environment("foreign_data", "the nodes of the run are not those that were planned on this machine")
        work.plan(rows)
        for attempt in await work.record.read(queries.attempts):
            work.note(attempt)
        for file in await work.record.read(partial(owned_runs.answers, seals=work.seals)):
            work.files[file.node_id] = file
        failpoints.passed("spawn:loaded")
        await self._attempts.resume()
        if run.cancel_requested:
            work.end_with("canceled")
        while True:
            if self._attempts.trouble is not None:
                raise self._attempts.trouble
            if work.left_s() <= 0:
                work.end_with("timeout")
            await self._check_gate()
            work.news = False
            decision = work.scheduler.next_steps(
                due=work.ended_pauses(), passed=self._passed, stop=work.stop, joined=self._joined
            )
            await self._end_nodes(decision.uncalled)
            if decision.end is not None:
                await self._finish(decision.end)
                return
            if not await self._start(decision.start):
                await self._wait()

    async def _wait(self) -> None:
        """Wait until something has happened, a pause is over, or the run's time limit is reached."""
        work = self._state
        seconds = max(0.0, min(work.left_s(), work.next_pause_s()))
        if work.stopped:
            seconds = work.run.settings.run_timeout_s  # what is in flight is being called off
        await wait_until(lambda: work.news or None, work.wake, work.clock.monotonic() + seconds, work.clock)

    async def _unless_over(self, awaitable: Awaitable[T]) -> T | None:
        """The requests to other servers before the first node; None: the run was stopped or is out of time."""
        work = self._state
        task = asyncio.ensure_future(awaitable)
        task.add_done_callback(lambda _: work.wake.notify())
        try:
            deadline = work.clock.monotonic() + max(0.0, work.left_s())
            await wait_until(lambda: task.done() or work.stopped or None, work.wake, deadline, work.clock)
            return task.result() if task.done() else None
        finally:
            await call_off([task])

    async def _make_plan(self) -> None:
        work = self._state
        run = work.run
        plan = await self._unless_over(work.deps.plan(run.request, run.settings, work.table))
        if plan is None:
            return
        row = await work.record.store(
            f"{PLAN}.json",
            await asyncio.to_thread(attempt_outcome.plan_document, run, plan),
            PLAN,
            "plan",
            "",
            over=work.over,
        )
        failpoints.passed("spawn:planned")
        await work.record.write(owned_runs.store_plan, work.seals, plan, row)
        failpoints.passed("spawn:laid")

    async def _start(self, node_ids: tuple[str, ...]) -> bool:
        """Start nodes while the budget allows; whether there is something new to decide."""
        work = self._state
        for node_id in node_ids:
            row = work.rows[node_id]
            prepared = await self._attempts.prepared(row)
            if prepared.reserved and not self._fits(row, prepared.reserved):
                if work.scheduler.running:
                    return False  # those in flight may cost less than was reserved
                self._joined = row.node.kind == "merge"
                work.end_with("budget")
                await work.record.note(
                    "warning", f"MAX_USD_PER_RUN is reached: {node_id} would need {prepared.reserved}"
                )
                return True
            number = row.attempt + 1
            attempt = AttemptRow(
                node_id, number, attempt_outcome.new_token(), "running", prepared.reserved, model=row.node.model
            )
            self._attempts.begin(row, attempt, prepared, claimed=False)
        return False

    def _fits(self, row: NodeRow, reserved: Decimal) -> bool:
        """Whether the budget pays for this attempt and then for the merge."""
        work = self._state
        limit = work.run.settings.max_usd
        kept = Decimal(0)
        merge = work.scheduler.merge_to_call(joined=self._joined)
        if merge is not None and row.node.kind != "merge":
            kept = attempt_outcome.kept_for_merge(work.run, merge, work.table, limit)
        return work.spent + reserved + kept <= limit

    # -- what becomes of it -------------------------------------------------------------------------------------

    async def _check_gate(self) -> None:
        """Whether the cheap answer of a cascade passes, once that is known."""
        work = self._state
        if mode_of(work.run.request.mode).gated and self._passed is None:
            verdict = await asyncio.to_thread(
                attempt_outcome.verdict, work.deps.home, work.run, work.rows, work.files
            )
            if verdict is not None:
                self._passed = verdict.passed
                outcome = "passed" if verdict.passed else "not passed"
                await work.record.note("info", "; ".join((f"gate: {outcome}", *verdict.reasons)))

    async def _end_nodes(self, uncalled: tuple[UncalledNode, ...]) -> None:
        work = self._state
        if uncalled:
            ends = {node.node_id: _end_without_call(node.status, node.why) for node in uncalled}
            await work.record.write(transitions.end_nodes, ends, ("queued", "retry_pending"))
            failpoints.passed("spawn:uncalled")

    async def _finish(self, end: scheduler.RunEnd) -> None:
        work = self._state
        final, problem = None, ""
        try:
            final = await asyncio.to_thread(final_answer.final, work.deps.home, work.run, work.rows, work.files, end)
        except Corrupt as error:
            if end.status == "completed":
                raise
            problem = error.message
        merged = None
        if final is not None:
            data = final.text.encode()
            try:
                merged = await work.record.store(f"{MERGED}.md", data, MERGED, "merged", final.model, over=work.over)
            except Environment as error:
                problem = f"the final answer cannot be written: {error.message}"
                if end.status == "completed":
                    end = replace(end, status="failed", error=problem)
            failpoints.passed("spawn:merged")
        summary = "; ".join(filter(None, (end.summary, problem or (final.note if final is not None else ""))))
        dissent = final.dissent if final is not None else ""
        outcome = RunOutcome(end.status, summary, end.error or None, dissent, merged)
        await work.record.write(transitions.finish, outcome)
        failpoints.passed("spawn:finished")

    async def _give_up(self, why: str) -> None:
        """End a run that cannot continue: nothing of it may stay open."""
        work = self._state
        await self._attempts.close()
        with contextlib.suppress(Fenced):
            status = "canceled" if work.stop == "canceled" else "failed"
            await work.record.write(transitions.abandon, status, masked(why))


def _end_without_call(status: NodeStatus, why: str) -> NodeEnd:
    return NodeEnd(status, why, f"{status}: {why}", "error" if status == "failed" else "info")
