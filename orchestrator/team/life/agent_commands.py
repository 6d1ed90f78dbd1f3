"""Agent commands except creation: get, list, restart, delete."""

from __future__ import annotations

import asyncio
from typing import Any

from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import BadRequest, Environment
from orchestrator.base.waiting import wait_until
from orchestrator.core import decisions, state, supervision
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.core.state import ENDED_LIVES
from orchestrator.protocol.tool_calls import Tell
from orchestrator.team.life import agent_worktrees
from orchestrator.team.life.supervisor import Supervisor
from orchestrator.team.roster import offline_view
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.agent_views import meta_of, row, row_of, status_of
from orchestrator.team.roster.broadcast import TeamRun
from orchestrator.team.roster.roster import Roster


async def end(supervisor: Supervisor, entry: AgentEntry, *, force: bool, req: str | None, reason: str = "") -> None:
    """Write the stop record (with a ``reason`` if no caller asked) and let the supervisor carry it out.

    The stop of a fleet's agent is posted to its owner.
    """
    roster = supervisor.roster
    if (fleet := roster.posted(entry.agent_id)) is not None:
        call = req or f"{fleet.host}:stop:{entry.agent_id}"
        await fleet.stop(entry.agent_id, force=force, req=call, reason=reason)
        return
    at = rfc3339(roster.clock.now())
    roster.write(entry, decisions.stop(entry.state, force=force, req=req, at=at, reason=reason))
    supervisor.tend(entry)  # before the first await: a caller that disconnects there must not prevent the end
    await roster.durable(entry)


async def restart(
    supervisor: Supervisor,
    origin: ConnectionOrigin,
    agent_id: str,
    *,
    fresh: bool,
    req: str,
    wait_s: float,
    tell: Tell,
) -> dict[str, Any]:
    """Restart an agent, also after it has failed; ``{agent_id, epoch, ready, status, reason}``.

    A running CLI is ended first; its task is handled by the agent's ``on_lost``. The queue stays. ``fresh``: do not
    resume the old session. A run whose window is gone continues in the caller's window. A re-sent call restarts once.
    """
    roster, clock = supervisor.roster, supervisor.roster.clock
    fleet, host_state = roster.posted(agent_id), ""
    if fleet is not None:
        entry = await roster.reading(agent_id)
        before = entry.state.epoch
        await fleet.restart(agent_id, fresh=fresh, req=req)
        host_state = fleet.host_state(agent_id)
    else:
        entry = roster.entry(agent_id)
        before = 0
        await _request_restart(supervisor, origin, entry, fresh=fresh, req=req)
    tell(f"{agent_id}: restart requested")

    def look() -> bool | None:
        agent = entry.state
        over = agent.life in ENDED_LIVES and entry.agent_id not in supervisor.tending
        again = agent.life == "ready" and not agent.restart_due and agent.epoch > before
        return True if again or over or agent.stop_asked or host_state else None

    await wait_until(look, entry.changed, clock.monotonic() + wait_s, clock)
    await roster.durable(entry)
    status, reason = status_of(entry, clock)
    answer = {
        "agent_id": agent_id,
        "epoch": entry.state.epoch,
        "ready": entry.state.life == "ready" and not entry.state.restart_due,
        "status": status,
        "reason": reason,
        "tmux_pane_id": entry.pane_id,
    }
    if host_state:
        answer["host_state"] = host_state
    failure = entry.state.failure or {}
    if entry.state.life == "failed" and failure.get("last_lines"):
        answer["last_lines"] = failure["last_lines"]
    return answer


async def _request_restart(
    supervisor: Supervisor, origin: ConnectionOrigin, entry: AgentEntry, *, fresh: bool, req: str
) -> None:
    roster, clock = supervisor.roster, supervisor.roster.clock
    with roster.naming_successor(entry):
        drafts = supervision.restart(entry.state, fresh=fresh, req=req, at=rfc3339(clock.now()))
    run = roster.runs.get(entry.run_id)
    if run is None:
        raise roster.corrupt.get(entry.run_id) or BadRequest("unknown_run", f"{entry.agent_id}'s team run is gone")
    if drafts:
        await supervisor.team_panes.go_on_at(run, origin)
        drafts = supervision.restart(entry.state, fresh=fresh, req=req, at=rfc3339(clock.now()))
        roster.write(entry, drafts)
    supervisor.tend(entry)  # before the first await: a caller that disconnects there must not prevent the restart
    await roster.durable(entry)


async def delete(supervisor: Supervisor, agent_id: str, *, force: bool, req: str, tell: Tell) -> dict[str, Any]:
    """End an agent (R-AC2): graceful by default, its unfinished tasks end in `canceled`, its files stay.

    Returns once the agent is deleted; repeated or re-sent calls wait for the same end. If its host is away, the end
    is accepted and ``host_state`` says so.
    """
    roster, clock = supervisor.roster, supervisor.roster.clock
    entry = await roster.reading(agent_id)
    before = 0 if entry.state.stop_asked else entry.outbox.last_seq
    if entry.state.life != "deleted":
        tell(f"{agent_id}: asked to stop")
        await end(supervisor, entry, force=force, req=req)
    away = roster.fleet.host_state(agent_id) if roster.fleet is not None and entry.state.life != "deleted" else ""
    if away:
        return {"ok": True, "agent_id": agent_id, "status": "stopping", "canceled_tasks": [], "host_state": away}
    config = roster.config()
    graces = config.stop_grace_s + config.quit_grace_s + config.kill_grace_s
    deadline = clock.monotonic() + graces + 20.0
    await wait_until(lambda: True if entry.state.life == "deleted" else None, entry.changed, deadline, clock)
    if entry.state.life != "deleted":
        raise entry.trouble or Environment(
            "tmux_failed", f"agent {agent_id} could not be ended in time", "see orchestrator agent show"
        )
    await supervisor.settled(entry, deadline)  # the window of the last agent is restored before the answer
    await roster.durable(entry)
    canceled = _canceled_since_stop(entry, before)
    answer = {"ok": True, "agent_id": agent_id, "status": "deleted", "canceled_tasks": canceled}
    return answer | await agent_worktrees.left_behind(roster, entry)


def _canceled_since_stop(entry: AgentEntry, seq: int) -> list[str]:
    """The tasks that ended in `canceled` after ``seq`` and since the stop: the same for a re-sent call."""
    (stop,), _ = entry.inbox.since(entry.state.stop_asked - 1, 1, 1)
    canceled: list[str] = []
    more = True
    while more:
        records, more = entry.outbox.since(seq, 1000, 1 << 20)
        canceled += [r["task_id"] for r in records if r["type"] == "canceled" and r["at"] >= stop["at"]]
        seq = records[-1]["seq"] if records else seq
    return canceled


async def get(roster: Roster, agent_id: str, *, wait_s: float, since_seq: int | None) -> dict[str, Any]:
    """The agent's meta; waits up to ``wait_s`` until it has left `starting`, or has passed ``since_seq``.

    For a foreign agent it returns at once, from the agent's files.
    """
    if roster.is_foreign(agent_id):
        return await asyncio.to_thread(offline_view.agent, roster.root, agent_id)
    entry = await roster.reading(agent_id)

    def look() -> bool | None:
        if since_seq is not None:
            return True if entry.outbox.visible_seq > since_seq else None
        return True if entry.state.life != "starting" else None

    if wait_s > 0:
        await wait_until(look, entry.changed, roster.clock.monotonic() + wait_s, roster.clock)
    return meta_of(roster, entry) | {"worktree": await agent_worktrees.seen(roster, entry)}


async def listed(
    supervisor: Supervisor, origin: ConnectionOrigin, scope: str, run_id: str | None
) -> list[dict[str, Any]]:
    """The rows of agent_list; ``current_window`` is the run of the caller's tmux window."""
    roster = supervisor.roster
    entries = [*roster.agents.values(), *roster.replicas.values()]
    if scope != "all" or run_id is not None:
        if scope == "run" and run_id is None:
            raise BadRequest("bad_argument", "scope run needs run_id", "agent_list(scope='all') shows every run_id")
        try:
            run = await run_of(supervisor, origin, run_id)
        except BadRequest:
            if run_id is not None:
                raise
            return []
        entries = [entry for entry in entries if entry.run_id == run.run_id]
    if scope != "all":
        entries = [entry for entry in entries if entry.live]
    unreadable = [
        await asyncio.to_thread(offline_view.row, roster.paths, name)
        if roster.is_foreign(name)
        else row_of(state.Agent(name), ("failed", error.message), None, 0)
        for name, error in roster.corrupt.items()
        if roster.paths.agent_dir(name).is_dir()
    ]
    return [row(roster, entry) for entry in entries] + unreadable


async def run_of(supervisor: Supervisor, origin: ConnectionOrigin, run_id: str | None) -> TeamRun:
    """The named run, else the live run of the caller's window, else the newest run of that window."""
    roster = supervisor.roster
    if run_id is not None:
        named_run = roster.runs.get(run_id)
        if named_run is None:
            raise BadRequest("unknown_run", f"no team run is called {run_id!r}")
        return named_run
    try:
        place = await supervisor.team_panes.place_of(origin, make=False)
    except Environment:
        place = None
    if place is not None:
        runs = await supervisor.team_panes.runs_at(place)
        if runs:
            return max(runs, key=lambda run: (run.live, str(run.file["created_at"])))
    raise BadRequest("unknown_run", "there is no team run in this window", "create an agent first, or pass run_id")
