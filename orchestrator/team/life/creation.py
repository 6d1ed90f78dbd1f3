"""Creates agents: intents, then all panes, then all programs in parallel; a re-sent call creates nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import BadRequest, Environment, OrchestratorError
from orchestrator.base.platform.processes import environ_of
from orchestrator.base.waiting import wait_until
from orchestrator.config.sources import PROJECT_FILE
from orchestrator.core import supervision
from orchestrator.core.attach_command import attach_command
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.core.state import ENDED_LIVES
from orchestrator.engines import table
from orchestrator.protocol.tool_calls import Tell
from orchestrator.roles import catalogue
from orchestrator.roles.catalogue import Role
from orchestrator.team.life import agent_worktrees, fleet_creation, launch_files
from orchestrator.team.life.agent_commands import end
from orchestrator.team.life.agent_plan import AgentSpec, planned
from orchestrator.team.life.supervisor import Supervisor
from orchestrator.team.panes import detached_session
from orchestrator.team.panes.detached_session import MasterWindow
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.agent_views import paths_of, status_of
from orchestrator.team.roster.broadcast import TeamRun
from orchestrator.team.roster.fleet_link import FleetCreation, FleetLink
from orchestrator.team.roster.roster import Roster
from orchestrator.team.wake.masters import master_of

Withheld = Mapping[str, Sequence[str]]
"""Project files and their keys that are ignored because the user has not allowed them."""


class Created(NamedTuple):
    """The answers of one call in input order, each an answer or that agent's error, and the ignored keys."""

    answers: list[dict[str, Any] | OrchestratorError]
    withheld: Withheld


async def create(
    supervisor: Supervisor,
    origin: ConnectionOrigin,
    specs: Sequence[AgentSpec],
    *,
    req: str,
    client_name: str,
    wait_s: float,
    tell: Tell,
    many: bool = False,
    only_missing: bool = False,
) -> Created:
    """Create agents: intents, panes, then all programs in parallel (R-AC1); answers in input order.

    Each entry is an answer or its own error. A re-sent call (same ``req``) creates nothing twice: it only waits for
    existing intents. ``ready`` is false if ``wait_s`` passed first. With ``only_missing`` an agent whose name is
    already in the window's run is not created but returned as ``existing``.
    """
    making = supervisor.making.get(req)  # a call re-sent to this daemon finds the first call still running
    if making is None:
        making = asyncio.get_running_loop().create_task(
            _make(supervisor, origin, specs, req=req, client_name=client_name, many=many, only_missing=only_missing)
        )
        supervisor.making[req] = making
        making.add_done_callback(lambda _done: supervisor.making.pop(req))
    # A client that disconnects must not leave half a team: creation continues, only the wait ends.
    made, withheld = await asyncio.shield(making)
    deadline = supervisor.roster.clock.monotonic() + wait_s
    return Created(
        await asyncio.gather(*(_answer(supervisor, outcome, deadline, tell) for outcome in made)), withheld
    )


async def _make(
    supervisor: Supervisor,
    origin: ConnectionOrigin,
    specs: Sequence[AgentSpec],
    *,
    req: str,
    client_name: str,
    many: bool,
    only_missing: bool,
) -> tuple[list[_Made], Withheld]:
    roster = supervisor.roster
    made: list[_Made | None] = []
    withheld: dict[str, list[str]] = {}
    plans: list[_PlannedAgent] = []
    posts: dict[int, FleetCreation] = {}
    inherited = environ_of(origin.pids[0]) if origin.pids else {}
    roles = (await asyncio.to_thread(catalogue.read, roster.root)).roles
    for at, spec in enumerate(specs):
        key = f"{req}#{at}" if many else req
        if spec.host is not None:
            made.append(None)
            try:
                _fleet_of(roster)
                posts[at] = fleet_creation.posted(roster, spec, key, client_name)
            except OrchestratorError as error:
                made[at] = error
            continue
        known = roster.agents[roster.by_req[key]] if key in roster.by_req else None
        made.append(known)
        role = roles.get(spec.role)
        try:
            fields = known.state.spec if known else planned(roster, spec, role, client_name, inherited)
            for file, setting in _withheld(roster, spec, role, fields["engine"], client_name):
                settings = withheld.setdefault(file, [])
                settings += [setting] if setting not in settings else []
            if known:
                continue
            if spec.worktree:
                await agent_worktrees.check(roster, fields)
            plans.append(_PlannedAgent(at, key, fields, spec))
        except OrchestratorError as error:
            made[at] = known or error
    if plans or posts:
        try:
            call = _CreationCall(origin, master_of(origin, client_name), inherited, only_missing)
            await _place(supervisor, call, plans, posts, made)
        except OrchestratorError as error:
            _refuse([*(plan.at for plan in plans), *posts], error, made)
    answered = [
        outcome if outcome is not None else Environment("internal", "an agent was neither made nor refused")
        for outcome in made
    ]
    return answered, withheld


def _withheld(
    roster: Roster, spec: AgentSpec, role: Role | None, engine: str, client_name: str
) -> Iterator[tuple[str, str]]:
    """The settings that the agent does not get because the user has not allowed them: (file, key)."""
    config = roster.withheld()
    there = bool(spec.engine) or "engine" not in config
    would_be = engine if there else table.default_engine(config["engine"], client_name)
    if would_be != engine:
        yield PROJECT_FILE, "engine"
    if "command" in config and would_be == "command" and not spec.command:
        yield PROJECT_FILE, "command"
    if not spec.approval and role is not None and role.withheld:
        yield from ((role.file, key) for key in role.withheld)
    elif not spec.approval and "approval" in config and (role is None or not role.approval):
        yield PROJECT_FILE, "approval"
    if "trust" in config and table.engine(would_be).program:
        yield PROJECT_FILE, "trust"


def _fleet_of(roster: Roster) -> FleetLink:
    """The project's fleet; BadRequest ``no_fleet`` if there is none."""
    if roster.fleet is None:
        raise BadRequest("no_fleet", "host was given, and this project belongs to no fleet")
    return roster.fleet


def _refuse(places: Iterable[int], error: OrchestratorError, made: list[_Made | None]) -> None:
    """Answer the agents at these places that have no answer yet with the error; a lack of room is explained once."""
    for at in places:
        if made[at] is None:
            made[at] = error
            if error.code == "no_room":
                error = Environment("no_room", "it does not fit either", "see the first agent that does not fit")


@dataclass(frozen=True)
class _Existing:
    """An agent that existed before the call."""

    entry: AgentEntry


@dataclass(frozen=True)
class _CreationCall:
    """The facts shared by all agents of one call."""

    origin: ConnectionOrigin
    master: dict[str, Any] | None  # the caller, if it is a CLI that leads
    inherited: dict[str, str]
    only_missing: bool


@dataclass(frozen=True)
class _PlannedAgent:
    """A checked agent of the call: its position in it, the key that makes it once, and what its spec will be."""

    at: int
    key: str
    fields: dict[str, Any]
    spec: AgentSpec


_Made = AgentEntry | _Existing | str | OrchestratorError  # str: the id of an agent that its host has still to make
_Plans = list[_PlannedAgent]


async def _place(
    supervisor: Supervisor,
    call: _CreationCall,
    plans: _Plans,
    posts: dict[int, FleetCreation],
    made: list[_Made | None],
) -> None:
    roster, team_panes = supervisor.roster, supervisor.team_panes
    if roster.root in (Path("/"), Path.home()):
        raise BadRequest("no_project", f"{roster.root} is no project")
    async with team_panes.placing:
        place = await team_panes.place_of(call.origin, make=True)
        assert place is not None
        here = await team_panes.run_at(place)
        if call.only_missing and here is not None:
            # Under the lock: a call that creates the same team at the same time, or was killed, has recorded it.
            plans = _missing(roster, here, plans, made)
            posts = {at: post for at, post in posts.items() if not _exists(roster, here, post, at, made)}
            if not (plans or posts):
                return
        try:
            run, entries = await _enter(supervisor, call, (place, here), plans, made)
            await _post(roster, run, posts, made)
        except OrchestratorError as error:
            # Made for this call, and no run is in it; but another daemon of the project would use it too.
            if place.made and error.code != "daemon_running":
                await team_panes.detached.end()
            raise
        if not entries:
            await team_panes.end_run_of_nobody(run)
            return
    await supervisor.launch(run, entries)


def _missing(roster: Roster, run: TeamRun, plans: _Plans, made: list[_Made | None]) -> _Plans:
    """The plans whose names are not in the run yet; existing agents are put into ``made``."""
    living = _living(roster, run)
    for plan in plans:
        if plan.spec.name in living:
            made[plan.at] = _Existing(living[plan.spec.name])
    return [plan for plan in plans if plan.spec.name not in living]


def _living(roster: Roster, run: TeamRun) -> dict[str, AgentEntry]:
    """The agents of the run by name, without those that are ending."""
    members = (entry for entry in roster.members(run.run_id) if entry.live and not entry.state.stop_asked)
    return {entry.state.spec["name"]: entry for entry in members if entry.state.spec}


def _exists(roster: Roster, run: TeamRun, post: FleetCreation, at: int, made: list[_Made | None]) -> bool:
    existing = _living(roster, run).get(str(post.body["name"]))
    if existing is not None:
        made[at] = _Existing(existing)
    return existing is not None


async def _post(roster: Roster, run: TeamRun, posts: dict[int, FleetCreation], made: list[_Made | None]) -> None:
    """Create the agents that other hosts shall make, or this one for the fleet; their ids, or their errors."""
    if posts:
        answers = await _fleet_of(roster).create(run.run_id, list(posts.values()))
        for at, answer in zip(posts, answers, strict=True):
            made[at] = answer


async def _enter(
    supervisor: Supervisor,
    call: _CreationCall,
    where: tuple[MasterWindow, TeamRun | None],
    plans: _Plans,
    made: list[_Made | None],
) -> tuple[TeamRun, list[AgentEntry]]:
    """Write durable intents for the agents that fit into the master's window, in its run."""
    roster, team_panes = supervisor.roster, supervisor.team_panes
    place, here = where
    engines = [table.engine(plan.fields["engine"]) for plan in plans]
    fits, why = await team_panes.room(place, here, engines)
    if plans and not fits and not place.detached:
        raise Environment("no_room", why)  # before a run is made: nothing is written
    run = await team_panes.run_for(place, call.master)
    entries: list[AgentEntry] = []
    _refuse([plan.at for plan in plans[fits:]], Environment("no_room", why), made)
    for plan in plans[:fits]:
        whole = plan.fields
        try:
            agent_id = roster.new_id(plan.spec.name)
            if plan.spec.worktree:
                whole = await agent_worktrees.give(roster, agent_id, whole)
            draft = supervision.starting(
                agent_id, at=rfc3339(roster.clock.now()), req=plan.key, spec={**whole, "run_id": run.run_id}
            )
            prepare = partial(
                launch_files.write, roster, spec=whole, epoch=1, base=table.passed_on(call.inherited, plan.spec.env)
            )
            entry = await roster.create(agent_id, draft, prepare)
        except OrchestratorError as error:
            await agent_worktrees.take_back(roster, whole)
            made[plan.at] = error
            continue
        made[plan.at] = entry
        entries.append(entry)
    return run, entries


async def _answer(
    supervisor: Supervisor, made: _Made, deadline: float, tell: Tell
) -> dict[str, Any] | OrchestratorError:
    if isinstance(made, OrchestratorError):
        return made
    if isinstance(made, str):
        there = await _fleet_of(supervisor.roster).created(made, deadline)
        if there is None:
            return _accepted(supervisor.roster, made)
        made = there
    roster, clock, existing = supervisor.roster, supervisor.roster.clock, isinstance(made, _Existing)
    entry = made.entry if isinstance(made, _Existing) else made

    def look() -> bool | None:
        life = entry.state.life
        return True if life == "ready" or life in ENDED_LIVES or entry.state.stop_asked else None

    tell(f"{entry.agent_id}: starting {entry.state.spec['engine']} in pane {entry.pane_id}")
    await wait_until(look, entry.changed, deadline, clock)
    agent = entry.state
    if agent.life == "failed" and not existing:
        failure, ended = agent.failure or {}, agent.exited or {}
        error = _as_error(entry, failure, failure.get("last_lines") or ended.get("last_lines", []))
        await end(supervisor, entry, force=True, req=None)
        return error
    if agent.life in ("stopped", "deleted") and agent.ready_at is None and not existing:
        return _as_error(entry, agent.failure or {}, (agent.exited or {}).get("last_lines", []))
    await roster.durable(entry)
    ready = agent.life == "ready"
    status, reason = status_of(entry, clock)
    tell(f"{entry.agent_id}: {'ready' if ready else 'still starting'}")
    answer = {
        "agent_id": entry.agent_id,
        "tmux_pane_id": entry.pane_id,
        "paths": paths_of(roster.paths, entry.agent_id),
        "ready": ready,
        "status": status,
        "run_id": entry.run_id,
        "epoch": agent.epoch,
        "engine": agent.spec["engine"],
    }
    if "worktree" in agent.spec:
        answer["worktree"] = {key: value for key, value in agent.spec["worktree"].items() if key != "tree"}
    if existing:
        answer["existing"] = True
    if agent.fleet:
        answer["host"] = roster.fleet.host_of(entry.agent_id) if roster.fleet is not None else None
    if not ready:
        what = "still starting" if status == "starting" else f"{status}: {reason}"
        what += "; a person must look at its pane" if status == "blocked" else ""
        answer["note"] = f"{what}; wait with agent_get(agent_id={entry.agent_id!r}, wait_ms=45000)"
        if reason:
            answer["reason"] = reason
    run = roster.runs.get(entry.run_id)
    if entry.remote is not None:
        answer["attach"] = attach_command(entry.agent_id, entry.remote.host)
    elif run is not None and (attach := detached_session.attach_command(run)):
        answer["attach"] = attach
    return answer


def _accepted(roster: Roster, agent_id: str) -> dict[str, Any]:
    """The answer for an agent whose host has recorded nothing of it yet."""
    fleet = _fleet_of(roster)
    state = fleet.host_state(agent_id)
    note = f"accepted; its host {fleet.host_of(agent_id)} has not made it yet" + (f": {state}" if state else "")
    return {
        "agent_id": agent_id,
        "tmux_pane_id": None,
        "paths": paths_of(roster.paths, agent_id),
        "ready": False,
        "status": "starting",
        "run_id": fleet.run_of(agent_id),
        "epoch": 0,
        "engine": "",
        "host": fleet.host_of(agent_id),
        "note": f"{note}; wait with agent_get(agent_id={agent_id!r}, wait_ms=45000)",
        **({"host_state": state} if state else {}),
    }


def _as_error(entry: AgentEntry, failure: dict[str, Any], last_lines: list[str]) -> OrchestratorError:
    code = failure.get("code", "launch_failed")
    reason = failure.get("reason") or "it was deleted while it started"
    facts: dict[str, Any] = {"agent_id": entry.agent_id}
    if failure.get("cause"):
        facts["cause"] = failure["cause"]
    if last_lines:
        facts["last_lines"] = last_lines
    if code == supervision.REFUSED_BY_HOST:
        message = f"agent {entry.agent_id} did not start: host {entry.state.host} says: {reason}"
        return BadRequest(code, message, **facts)
    code = code if code in ("no_room", "no_tmux", "tmux_failed", "not_ready") else "launch_failed"
    if not entry.state.fleet:
        return Environment(code, f"agent {entry.agent_id} did not start: {reason}", **facts)
    step = "" if last_lines else "repair the named cause on that host, then create the agent again"
    message = f"agent {entry.agent_id} did not start on host {entry.state.host}: {reason}"
    return Environment(code, message, step, **facts)
