"""The queue and the delivery protocol: enqueue, cancel, wait_for_command, emit_event, and reading the logs.

Serves the master's and the agents' tools. It must never import, even transitively, code that creates or kills agents:
the agents' side of the server loads only this file.
"""

from __future__ import annotations

import asyncio
import hmac
from typing import Any

import structlog

from orchestrator.base import entropy
from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import BadRequest, Conflict, OrchestratorError
from orchestrator.base.final_states import TERMINAL
from orchestrator.base.waiting import elapse, wait_until
from orchestrator.core import blocked, decisions, supervision, turn_end
from orchestrator.core.prompts import reminder
from orchestrator.core.record_types import Draft
from orchestrator.core.task_words import title_of
from orchestrator.journal.log import Journal
from orchestrator.journal.project_files import check_id, list_artifacts
from orchestrator.team.roster.agent_entry import AgentEntry, WaitUnderWay
from orchestrator.team.roster.agent_views import PAGE_BYTES, record_view
from orchestrator.team.roster.broadcast import TeamRun
from orchestrator.team.roster.roster import Roster, payload_bytes

log = structlog.get_logger()

LEFT_FILES = 20
"""Maximum number of file names of a lost attempt that the next attempt is given."""

SUSPENDED_S = 1.0
"""After this time an owner that was not permitted to hand out work asks again."""
ASKS_FIRST: dict[str, Any] = {"kind": "none"}
"""A command is due, and the fleet has to say first whether this host still owns the agent."""


def fresh_cursor() -> str:
    """A new cursor for an answer, because CLIs stop a model that repeats identical calls (Gemini at the fifth)."""
    return entropy.token_hex(6)


def limits(roster: Roster) -> decisions.QueueLimits:
    """The bounds of the current configuration."""
    config = roster.config()
    return decisions.QueueLimits(config.max_unfinished_tasks, config.redeliver_after_s, config.max_redeliveries)


def _now(roster: Roster) -> str:
    return rfc3339(roster.clock.now())


# -- the master's side ------------------------------------------------------------------------------------------


async def enqueue(
    roster: Roster,
    agent_id: str,
    *,
    task_id: str | None,
    payload: Any,
    req: str,
    timeout_s: float | None = None,
    title: str = "",
) -> dict[str, Any]:
    """Queue a task for an agent; ``{position, task_id, state, duplicate?}`` once it is durable (R-Q3).

    ``timeout_s`` bounds each attempt, counted from its delivery. Without a ``title`` the task gets the first words of
    its payload.
    """
    payload_bytes(payload, roster.config().max_payload_bytes)
    task_id = task_id if task_id is not None else decisions.task_id_from(req)
    if (fleet := roster.posted(agent_id)) is not None:
        return await fleet.enqueue(
            agent_id,
            task_id=decisions.check_task_id(task_id),
            payload=payload,
            req=req,
            timeout_s=timeout_s,
            title=title_of(payload, title),
        )
    entry = roster.entry(agent_id)
    with roster.naming_successor(entry):
        decision = decisions.enqueue(
            entry.state,
            task_id=task_id,
            payload=payload,
            stored=stored_payload(entry, task_id),
            limits=limits(roster),
            req=req,
            at=_now(roster),
            timeout_s=timeout_s,
            title=title_of(payload, title),
        )
    await roster.commit(entry, decision.drafts)
    return decision.answer


def stored_payload(entry: AgentEntry, task_id: str) -> Any:
    """The payload that is stored under the id of a task; None if there is no such task."""
    task = entry.state.unfinished.get(task_id)
    if task is not None:
        return task.payload
    ended = entry.state.ended(task_id)
    if ended is None:
        return None
    records, _ = entry.inbox.since(ended.seq - 1, 1, 1)
    return records[0].get("payload") if records else None


async def cancel(roster: Roster, agent_id: str, *, task_id: str, req: str) -> dict[str, Any]:
    """Cancel a task softly; ``{ok, state: "cancel_requested", task_state}``, visible at once (R-C1, AC4)."""
    if (fleet := roster.posted(agent_id)) is not None:
        return await fleet.cancel(agent_id, task_id=task_id, req=req)
    entry = roster.entry(agent_id)
    decision = decisions.cancel(entry.state, task_id=task_id, req=req, at=_now(roster))
    await roster.commit(entry, decision.drafts)
    task = entry.state.unfinished.get(task_id)
    ended = entry.state.ended(task_id)
    return {**decision.answer, "task_state": task.state if task else ended.outcome if ended else "unknown"}


async def events_read(
    roster: Roster, agent_id: str, *, since_seq: int, max_events: int, wait_s: float
) -> dict[str, Any]:
    """The outbox records after ``since_seq`` (R-E3): ``{agent_id, events, last_seq, more}``.

    Pass ``last_seq`` to the next call. If there is no record, waits up to ``wait_s`` for the first. ``provisional``
    is there, and True, if the loss of this host could undo the last of them: the agent may then move.
    """
    entry = await roster.reading(agent_id)
    page = await _page(roster, entry.outbox, since_seq, max_events, wait_s)
    uncertain = bool(page["events"]) and page["last_seq"] > roster.certain_seq(entry)
    return {"agent_id": agent_id, **page, **({"provisional": True} if uncertain else {})}


async def broadcast_read(
    roster: Roster, run: TeamRun, *, since_seq: int, max_events: int, wait_s: float, gen: int | None = None
) -> dict[str, Any]:
    """The broadcast records of a run after ``since_seq`` (R-E2); with the fleet's ``gen`` of the broadcast, if any.

    Conflict ``not_home`` and ``cursor_old`` as `FleetLink.check_cursor`.
    """
    fleet = roster.fleet
    if fleet is not None:
        fleet.check_cursor(run.run_id, since_seq, gen)
    kept = fleet.gen(run.run_id) if fleet is not None else None  # of this journal: during the wait another may begin
    page = await _page(roster, run.journal, since_seq, max_events, wait_s)
    return {"run_id": run.run_id, **page, **({"gen": kept} if kept is not None else {})}


async def _page(roster: Roster, journal: Journal, since_seq: int, max_events: int, wait_s: float) -> dict[str, Any]:
    if since_seq > journal.last_seq:
        raise BadRequest(
            "bad_argument",
            f"since_seq {since_seq} is beyond the end: the last seq is {journal.last_seq}",
            "pass the last_seq of the previous answer, or 0",
            last_seq=journal.last_seq,
        )
    if wait_s > 0 and journal.visible_seq <= since_seq:
        await journal.wait_for(since_seq, roster.clock.monotonic() + wait_s, roster.clock)
    records, more = journal.since(since_seq, max_events, PAGE_BYTES)
    last = records[-1]["seq"] if records else since_seq
    return {"events": [record_view(record) for record in records], "last_seq": last, "more": more}


# -- the agent's side -------------------------------------------------------------------------------------------


async def wait_for_command(
    roster: Roster,
    agent_id: str,
    epoch: int,
    *,
    timeout_s: float,
    age_s: float,
    req: str,
    parks: bool = False,
) -> dict[str, Any]:
    """Long-poll for the next command (R-L1); returns within ``timeout_s``, counted from the first sending.

    ``{status: "command", command, cursor, reminder}`` or ``{status: "timeout", cursor, reminder, park?}``. A second
    concurrent wait of the agent ends the first with a timeout. A client that disconnects consumes nothing: the lease
    stays, and the next wait gets the same task again. ``parks``: the engine can be woken; then, once its hook has
    sent a message in this epoch, a series of empty waits ends with ``park: true``, which asks for the end of the
    turn.
    """
    entry = roster.entry(agent_id)
    _check_life(entry, epoch, "wait_for_command")
    clock = roster.clock
    began = clock.monotonic() - age_s
    if entry.waiting is not None:
        entry.waiting.superseded = True
    call = entry.waiting = WaitUnderWay()
    entry.called(clock)
    try:
        at = _now(roster)
        first = decisions.ready(
            entry.state, at=at, req=None, session=entry.session, wakes=entry.hook_epoch == entry.state.epoch
        )
        await roster.commit(entry, [*first, *_goes_on(entry, at)])
        command = await _next(roster, entry, call, epoch, began=began, deadline=began + timeout_s, req=req)
    finally:
        if entry.waiting is call:
            entry.waiting = None
        entry.touch(clock)
    cursor = fresh_cursor()
    if command is None:
        entry.empty_waits += not call.superseded
        if parks and not call.superseded and _may_park(roster, entry):
            text = reminder(entry.agent_id, None, False, park=True)
            return {"status": "timeout", "cursor": cursor, "park": True, "reminder": text}
        return {"status": "timeout", "cursor": cursor, "reminder": _reminder(entry)}
    entry.empty_waits = 0
    if command["kind"] == "stop":
        entry.told_stop = True
    elif command["kind"] == "task":
        command = await _handed_out(roster, entry, command)
    return {"status": "command", "command": command, "cursor": cursor, "reminder": _reminder(entry)}


def _check_life(entry: AgentEntry, epoch: int, what: str, task_id: str | None = None) -> None:
    """Refuse a call of an ended launch; this is logged but not recorded."""
    try:
        decisions.check_epoch(entry.state, epoch)
    except Conflict as refused:
        log.info("refused a call of an ended launch", agent=entry.agent_id, life=epoch, what=what, task=task_id,
                 code=refused.code)  # fmt: skip
        raise


def _goes_on(entry: AgentEntry, at: str) -> list[Draft]:
    """The records that follow from a call: the agent is not blocked, not parked, not stalled."""
    agent, why = entry.state, "it called"
    drafts = [*blocked.called(agent, at=at), *turn_end.woken(agent, at=at, reason=why)]
    return [*drafts, *supervision.recovered(agent, at=at, reason=why)]


async def _handed_out(roster: Roster, entry: AgentEntry, command: dict[str, Any]) -> dict[str, Any]:
    """The task's command with its artifacts directory; a later attempt also gets the files of the lost attempt."""
    command = {**command, "artifacts": entry.artifacts}
    task = entry.state.lease
    if task is None or task.attempt < 2 or command.get("redelivered"):
        return command
    names: list[str] = []
    try:
        files = await asyncio.to_thread(list_artifacts, roster.paths.artifacts(entry.agent_id))
        names = [file["name"] for file in files if file["modified_at"] >= (task.began or "")]
    except OrchestratorError as error:
        log.info("the artifacts of a lost attempt were not listed", agent=entry.agent_id, **error.as_dict())
    lost = {
        "attempt": task.attempt - 1,
        "lost": task.lost_why,
        "artifacts": entry.artifacts,
        "files": names[:LEFT_FILES],
    }
    note = (
        f"attempt {task.attempt}: the previous one was lost ({task.lost_why}); check what it did before you redo it"
    )
    if task.late:  # a lost host has returned and reported how the task ended there
        lost["late"] = record_view(task.late)
        note += "; previous.late is what its host reported too late: it is not the outcome, and may be wrong"
    return {**command, "previous": lost, "note": note}


def _may_park(roster: Roster, entry: AgentEntry) -> bool:
    """Whether the agent may end its turn: it can be woken, and no command waits for it."""
    proven = max(entry.hook_epoch, entry.state.wake_epoch)  # wake_epoch survives a restart of the daemon
    return proven == entry.state.epoch and turn_end.may_park(
        entry.state,
        visible_inbox=entry.inbox.last_seq,
        empty_waits=entry.empty_waits,
        park_after=roster.config().park_after,
    )


async def _next(
    roster: Roster, entry: AgentEntry, call: WaitUnderWay, epoch: int, *, began: float, deadline: float, req: str
) -> dict[str, Any] | None:
    clock, fleet = roster.clock, roster.fleet
    look_at = deadline
    permitted = not entry.state.fleet

    def look() -> dict[str, Any] | None:
        nonlocal look_at
        look_at = deadline
        if call.superseded:
            return {}
        decisions.check_epoch(entry.state, epoch)
        key = _lease_key(entry)
        times = entry.handed_out[1] if entry.handed_out is not None and entry.handed_out[0] == key else 0
        offer = decisions.next_command(
            entry.state,
            visible_inbox=entry.inbox.visible_seq,
            waited_s=clock.monotonic() - began,
            handed_out=times,
            limits=limits(roster),
            at=_now(roster),
            req=req,
        )
        if offer.command is not None and not permitted:
            return ASKS_FIRST
        if offer.drafts:
            roster.write(entry, list(offer.drafts))
        if offer.command is not None:
            key = _lease_key(entry)
            if key is not None:
                entry.handed_out = (key, times + 1)
        elif offer.look_again_s is not None:
            look_at = clock.monotonic() + offer.look_again_s
        return offer.command

    while True:
        # `look` may ask to be called again before the deadline: then the wait ends early and starts again.
        command = look()
        if command is None and clock.monotonic() < deadline:
            first = min(look_at, deadline)
            command = await wait_until(look, entry.changed, first, clock)
        if command is ASKS_FIRST:
            # Decided again after the look at the owner, which must begin after the decision: another may hold it now.
            permitted = fleet is not None and await fleet.may_deliver(entry)
            command = look() if permitted else None
            if not permitted:
                await elapse(max(0.0, min(SUSPENDED_S, deadline - clock.monotonic())), clock)
            permitted = False
        if command is not None:
            return command or None
        if clock.monotonic() >= deadline:
            return None


def _lease_key(entry: AgentEntry) -> tuple[int, str, bool] | None:
    lease = entry.state.lease
    return None if lease is None else (entry.state.epoch, lease.task_id, lease.cancel_requested)


async def emit_event(
    roster: Roster,
    agent_id: str,
    epoch: int,
    *,
    kind: str,
    task_id: str | None,
    payload: Any,
    done: bool | None,
    req: str,
) -> dict[str, Any]:
    """Record an agent's report (R-L2); ``{ok, seq?, duplicate?, cancel_requested, reminder}`` once durable.

    Exactly one terminal event per task is stored (R-Q2); a second one is answered as a duplicate.
    """
    entry = roster.entry(agent_id)
    if payload is not None:
        step = f"write it to a file in {entry.artifacts}, and report with the path of that file as the payload"
        payload_bytes(payload, roster.config().max_payload_bytes, step)
    _check_life(entry, epoch, kind, task_id)
    entry.called(roster.clock)
    at = _now(roster)
    decision = decisions.emit(
        entry.state,
        kind=kind,
        task_id=task_id,
        payload=payload,
        done=done,
        req=req,
        at=at,
        session=entry.session,
    )
    if decision.answer.get("duplicate") and kind in TERMINAL:
        log.info("a late end was not stored: the task has ended", agent=agent_id, task=task_id, type=kind)
    records = roster.write(entry, [*decision.drafts, *_goes_on(entry, at)])
    answer = dict(decision.answer)
    for record in records:
        if record["type"] == kind:
            answer["seq"] = record["seq"]
    await roster.durable(entry)
    fleet = roster.fleet if "seq" in answer and kind in TERMINAL and entry.state.fleet else None
    if fleet is not None and not await fleet.kept(entry, answer["seq"]):
        answer["provisional"] = True
    lease = entry.state.lease
    answer["cancel_requested"] = bool(lease and lease.cancel_requested)
    answer["reminder"] = _reminder(entry)
    return answer


def query(roster: Roster, agent_id: str, epoch: int, what: str) -> AgentEntry:
    """Check a read-only call of a live agent and note that it is working; returns its entry.

    Raises BadRequest and Conflict as the agent's own tools do. The only record is `recovered`, if the agent was
    stalled; a full disk does not prevent the answer.
    """
    entry = roster.entry(agent_id)
    _check_life(entry, epoch, what)
    entry.queried(roster.clock)
    drafts = supervision.recovered(entry.state, at=_now(roster), reason="it called")
    try:
        if drafts:
            roster.write(entry, drafts)
    except OrchestratorError as error:
        log.warning("not recorded", agent=agent_id, **error.as_dict())
    return entry


def _reminder(entry: AgentEntry) -> str:
    lease = entry.state.lease
    if lease is None:
        return reminder(entry.agent_id, None, False)
    return reminder(entry.agent_id, lease.task_id, lease.cancel_requested)


def check_identity(roster: Roster, agent_id: str, *, claimed: str, secret: str) -> AgentEntry:
    """The entry of the calling agent: its id must match the connection's and its epoch's secret must prove it."""
    check_id(agent_id, "agent_id")
    if agent_id != claimed:
        raise BadRequest("not_an_agent", f"this connection speaks for {claimed!r}, not for {agent_id!r}")
    entry = roster.entry(agent_id)
    if entry.secret is None or not hmac.compare_digest(entry.secret, secret):
        if entry.state.epoch > 0:
            log.info("refused a call with the secret of another launch", agent=agent_id)
            raise Conflict("replaced", f"the secret does not belong to the current launch of {agent_id}")
        raise BadRequest("not_an_agent", f"the secret does not belong to {agent_id}")
    return entry
