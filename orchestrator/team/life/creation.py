"""Creates agents: intents, then all panes, then all programs in parallel; a re-sent call creates nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import BadRequest, Environment, OrchestratorError
from orchestrator.base.platform.processes import environ_of
from orchestrator.base.waiting import wait_until
from orchestrator.config.sources import PROJECT_FILE
from orchestrator.core import supervision
from orchestrator.core.agent_ids import slug
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.core.state import ENDED_LIVES
from orchestrator.engines import table
from orchestrator.journal.project_files import confine
from orchestrator.protocol.tool_calls import Tell
from orchestrator.roles import catalogue
from orchestrator.roles.catalogue import Role
from orchestrator.team.life import agent_worktrees, launch_files
from orchestrator.team.life.agent_commands import end
from orchestrator.team.life.supervisor import Supervisor
from orchestrator.team.panes.run_windows import MasterWindow
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.agent_views import paths_of, status_of
from orchestrator.team.roster.broadcast import TeamRun
from orchestrator.team.roster.roster import Roster
from orchestrator.team.wake.masters import master_of
from orchestrator.trust.untrusted_settings import untrusted


@dataclass(frozen=True)
class AgentSpec:
    """The requested agent; ``cwd`` is relative to the project or inside it."""

    name: str
    role: str
    cwd: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    engine: str | None = None
    model: str | None = None
    approval: str | None = None
    command: tuple[str, ...] = ()
    policies: dict[str, Any] = field(default_factory=dict)  # values that differ from the configuration
    worktree: bool = False  # with its own git worktree


Withheld = Mapping[str, Sequence[str]]
"""Project files and their keys that are ignored because the user has not allowed them."""


class Created(NamedTuple):
    """The answers of one call in input order, each an answer or that agent's error, and the ignored keys."""

    answers: list[dict[str, Any] | OrchestratorError]
    withheld: Withheld


POLICIES = (
    "restart", "max_restarts", "restart_window_s", "on_lost", "on_pane_closed", "max_attempts", "stall_after_s",
)  # fmt: skip
"""Settings that are frozen into an agent's spec; a caller may give other values for one agent."""


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
    inherited = environ_of(origin.pids[0]) if origin.pids else {}
    roles = (await asyncio.to_thread(catalogue.read, roster.root)).roles
    for at, spec in enumerate(specs):
        key = f"{req}#{at}" if many else req
        known = roster.agents[roster.by_req[key]] if key in roster.by_req else None
        made.append(known)
        role = roles.get(spec.role)
        try:
            fields = known.state.spec if known else _planned(roster, spec, role, client_name, inherited)
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
    if plans:
        try:
            call = _CreationCall(origin, master_of(origin, client_name), inherited, only_missing)
            await _place(supervisor, call, plans, made)
        except OrchestratorError as error:
            _refuse(plans, error, made)
    answered = [
        outcome if outcome is not None else Environment("internal", "an agent was neither made nor refused")
        for outcome in made
    ]
    return answered, withheld


def _planned(
    roster: Roster, spec: AgentSpec, role: Role | None, client_name: str, inherited: dict[str, str]
) -> dict[str, Any]:
    """Check a spec completely, before anything is written.

    Values missing in the call come from the file of its ``role``, then from the configuration.
    """
    slug(spec.name)
    config = roster.config()
    row_ = (
        table.engine(spec.engine) if spec.engine else table.engine(table.default_engine(config.engine, client_name))
    )
    approval = spec.approval or (role.approval if role is not None else None) or config.approval
    model = spec.model or (role.model_for(row_) if role is not None and row_.models else None)
    command = launch_files.command_line(spec.command, config.command) if row_.name == "command" else ()
    if row_.name == "command" and not command and "command" in roster.withheld():
        raise untrusted({PROJECT_FILE: ["command"]})
    table.check_wishes(row_, model, approval, command)
    launch_files.check_program(row_, command, spec.env.get("PATH", inherited.get("PATH", "")))
    cwd = confine(roster.root, spec.cwd or ".", what="cwd")
    if not Path(cwd).is_dir():
        raise BadRequest("bad_argument", f"cwd {spec.cwd!r} is no directory")
    for name, value in spec.env.items():
        if not name or "=" in name or "\0" in name + value:
            raise BadRequest("bad_argument", f"{name!r} is no name of an environment variable")
        if name.startswith("ORCHESTRATOR_"):
            raise BadRequest("bad_argument", f"{name} is set by orchestrator itself")
    policies = {name: getattr(config, name) for name in POLICIES} | spec.policies
    if policies["on_pane_closed"] == "auto":
        policies["on_pane_closed"] = row_.on_pane_closed
    fields = {
        "name": spec.name,
        "role": spec.role,
        "engine": row_.name,
        "cwd": str(cwd),
        "policies": policies,
        "env_names": sorted(spec.env),
    }
    wishes = {"model": model, "command": list(command) or None}
    if role is not None and role.toolsets:
        wishes["toolsets"] = list(role.toolsets)
    if approval != "ask":
        wishes["approval"] = approval
    return fields | {name: value for name, value in wishes.items() if value is not None}


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


def _refuse(plans: _Plans, error: OrchestratorError, made: list[_Made | None]) -> None:
    """Answer the plans that have no answer yet with the error; a lack of room is explained once, by the first."""
    for plan in plans:
        if made[plan.at] is None:
            made[plan.at] = error
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


_Made = AgentEntry | _Existing | OrchestratorError
_Plans = list[_PlannedAgent]


async def _place(supervisor: Supervisor, call: _CreationCall, plans: _Plans, made: list[_Made | None]) -> None:
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
            if not plans:
                return
        try:
            run, entries = await _enter(supervisor, call, (place, here), plans, made)
        except OrchestratorError as error:
            # Made for this call, and no run is in it; but another daemon of the project would use it too.
            if place.made and error.code != "daemon_running":
                await team_panes.end_abandoned()
            raise
        if not entries:
            await team_panes.end_run_of_nobody(run)
            return
    await supervisor.launch(run, entries)


def _missing(roster: Roster, run: TeamRun, plans: _Plans, made: list[_Made | None]) -> _Plans:
    """The plans whose names are not in the run yet; existing agents are put into ``made``."""
    living = {
        entry.state.spec["name"]: entry
        for entry in roster.agents.values()
        if entry.run_id == run.run_id and entry.live and not entry.state.stop_asked
    }
    for plan in plans:
        if plan.spec.name in living:
            made[plan.at] = _Existing(living[plan.spec.name])
    return [plan for plan in plans if plan.spec.name not in living]


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
    if not fits and not place.detached:
        raise Environment("no_room", why)  # before a run is made: nothing is written
    run = await team_panes.run_for(place, call.master)
    entries: list[AgentEntry] = []
    _refuse(plans[fits:], Environment("no_room", why), made)
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
    if not ready:
        what = "still starting" if status == "starting" else f"{status}: {reason}"
        what += "; a person must look at its pane" if status == "blocked" else ""
        answer["note"] = f"{what}; wait with agent_get(agent_id={entry.agent_id!r}, wait_ms=45000)"
        if reason:
            answer["reason"] = reason
    run = roster.runs.get(entry.run_id)
    attach = supervisor.team_panes.attach_command(run) if run else None
    if attach:
        answer["attach"] = attach
    return answer


def _as_error(entry: AgentEntry, failure: dict[str, Any], last_lines: list[str]) -> OrchestratorError:
    code = failure.get("code", "launch_failed")
    code = code if code in ("no_room", "no_tmux", "tmux_failed", "not_ready") else "launch_failed"
    reason = failure.get("reason") or "it was deleted while it started"
    facts: dict[str, Any] = {"agent_id": entry.agent_id}
    if failure.get("cause"):
        facts["cause"] = failure["cause"]
    if last_lines:
        facts["last_lines"] = last_lines
    return Environment(code, f"agent {entry.agent_id} did not start: {reason}", **facts)
