"""Creates agents of a fleet: what the caller's host posts, and what the owner makes of it.

The caller's host knows the call, the owner its own machine: each checks what it knows. Paths travel relative to the
project, of the environment only names, and of engine `command` only the name of a command that the owner defines.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import BadRequest, OrchestratorError
from orchestrator.core import supervision
from orchestrator.core.agent_ids import slug
from orchestrator.core.record_types import Draft
from orchestrator.engines import table
from orchestrator.journal.project_files import check_id, confine
from orchestrator.roles import catalogue
from orchestrator.team.life import agent_worktrees, launch_files
from orchestrator.team.life.agent_plan import POLICIES, AgentSpec, checked_env, planned
from orchestrator.team.life.supervisor import Supervisor
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.broadcast import TeamRun
from orchestrator.team.roster.fleet_link import FleetCreation
from orchestrator.team.roster.roster import Roster


def posted(roster: Roster, spec: AgentSpec, req: str, client_name: str) -> FleetCreation:
    """The post that creates this agent on its host; BadRequest if the call itself is wrong."""
    config = roster.config()
    engine = table.engine(spec.engine or table.default_engine(config.engine, client_name))
    checked_env(spec.env)
    cwd = confine(roster.root, spec.cwd or ".", what="cwd")
    policies = {name: getattr(config, name) for name in POLICIES} | spec.policies
    on_host_lost = str(policies.pop("on_host_lost", None) or config.fleet_on_host_lost)
    if engine.name == "command" and len(spec.command) != 1:
        raise BadRequest(
            "bad_argument",
            "with host, command names one command line of the host",
            "pass the name alone: command=['build'], defined there in [fleet.accept] commands",
        )
    body: dict[str, Any] = {
        "name": spec.name,
        "role": spec.role,
        "engine": engine.name,
        "cwd": str(cwd.relative_to(roster.root.resolve())),
        "env_names": sorted(spec.env),
        "worktree": spec.worktree,
        "policies": policies,
    }
    wishes = {"model": spec.model, "approval": spec.approval, "command_name": next(iter(spec.command), None)}
    body |= {key: value for key, value in wishes.items() if value is not None}
    return FleetCreation(slug(spec.name), str(spec.host), engine.name, on_host_lost, req, body)


@dataclass(frozen=True)
class PostedAgent:
    """An agent that this host shall make. ``agent_id`` is its id here; ``refuses`` says why a spec is not taken.

    ``membership`` is its place in the fleet; ``command`` is this host's command line for its ``command_name``.
    """

    agent_id: str
    body: Mapping[str, Any]
    membership: Mapping[str, Any]
    ref: int
    by_host: str
    req: str
    refuses: Callable[[Mapping[str, Any]], str]
    command: tuple[str, ...] = ()


def command_line_of(commands: Mapping[str, str], name: str) -> tuple[str, ...]:
    """The command line that this host has under that name; () if it has none, which `agent_plan.planned` refuses."""
    return launch_files.command_line((), commands[name]) if name in commands else ()


def _checked_body(body: Mapping[str, Any]) -> None:
    """Raise BadRequest ``bad_argument`` for a body that no orchestrator of this version posts."""
    texts = ("name", "role", "engine")
    if not all(isinstance(body.get(key), str) and body[key] for key in texts):
        raise BadRequest("bad_argument", f"the post that creates the agent has no {', '.join(texts)}")
    shapes = {"policies": dict, "env_names": list, "cwd": str, "model": str, "approval": str, "worktree": bool}
    if wrong := [key for key, kind in shapes.items() if body.get(key) is not None and type(body[key]) is not kind]:
        raise BadRequest("bad_argument", f"the post that creates the agent has a wrong {wrong[0]}")


def placed_spec(roster: Roster, wanted: Mapping[str, Any], command: Sequence[str]) -> dict[str, Any]:
    """The checked spec of an agent on this host, as `agent_plan.planned` makes it for a local one."""
    _checked_body(wanted)
    names = [name for name in wanted.get("env_names") or () if isinstance(name, str)]
    spec = AgentSpec(
        name=str(wanted["name"]),
        role=str(wanted["role"]),
        cwd=str(wanted.get("cwd") or "."),
        env={name: os.environ[name] for name in names if name in os.environ},
        engine=str(wanted["engine"]),
        model=wanted.get("model"),
        approval=wanted.get("approval"),
        command=tuple(command),
        policies=dict(wanted.get("policies") or {}),
        worktree=bool(wanted.get("worktree")),
    )
    role = catalogue.read(roster.root).roles.get(spec.role)
    daemon = f"the daemon on host {roster.fleet.host}" if roster.fleet is not None else "the daemon"
    return {**planned(roster, spec, role, "", os.environ, whose=daemon), "env_names": sorted(names)}


async def make(supervisor: Supervisor, run_id: str, home: str, agents: Sequence[PostedAgent]) -> list[AgentEntry]:
    """Make the agents of one run and launch them; each is recorded, also one that cannot be launched here.

    Returns once all intents are durable; the launch goes on. Raises Environment if the disk or tmux refuses all: the
    posts are then taken again later.
    """
    roster, team_panes = supervisor.roster, supervisor.team_panes
    for agent in agents:
        check_id(agent.agent_id, "agent_id")  # it comes from another host, and becomes a path
    run = await team_panes.run_of_fleet(run_id, home)
    entries: list[AgentEntry] = []
    async with team_panes.placing:
        for agent in agents:
            entry = roster.agents.get(agent.agent_id) or await _recorded(roster, run, agent)
            entries.append(entry)
    await supervisor.launch(run, [entry for entry in entries if entry.state.life == "starting" and not entry.pane_id])
    return entries


async def _recorded(roster: Roster, run: TeamRun, agent: PostedAgent) -> AgentEntry:
    """Write the intent, and why no launch follows if none does."""
    body, trouble = agent.body, agent.refuses(agent.body)
    code = supervision.REFUSED_BY_HOST
    whole: dict[str, Any] = {}
    if not trouble:
        try:
            whole = await asyncio.to_thread(placed_spec, roster, body, agent.command)
            # What the call left open, this host's settings and roles have decided: also that must be accepted.
            trouble = agent.refuses({**whole, "fleet": agent.membership})
            if body.get("worktree") and not trouble:
                await agent_worktrees.check(roster, whole)
                whole = await agent_worktrees.give(roster, agent.agent_id, {**whole, "fleet": agent.membership})
        except OrchestratorError as error:
            trouble, code = f"{error.message}: {error.next_step}", error.code
    if trouble:
        whole = _bare(roster.root, body)
    facts = {"run_id": run.run_id, "fleet": dict(agent.membership), "ref": agent.ref, "by_host": agent.by_host}
    at = rfc3339(roster.clock.now())
    draft = supervision.starting(agent.agent_id, at=at, req=agent.req, spec={**whole, **facts})
    base = table.passed_on(dict(os.environ), {})
    prepare = None if trouble else partial(launch_files.write, roster, spec=whole, epoch=1, base=base)
    try:
        entry = await roster.create(agent.agent_id, draft, prepare)
    except OrchestratorError:
        await agent_worktrees.take_back(roster, whole)
        raise
    if trouble:
        await roster.commit(entry, _failed(roster, entry, trouble, code))
    return entry


async def placed_anew(
    roster: Roster, entry: AgentEntry, fence: int, command_of: Callable[[str], tuple[str, ...]]
) -> dict[str, Any]:
    """Where a moved agent works on this host (`placed` of its `restarted`); raises why it cannot work here."""
    spec, membership = entry.state.spec, {**entry.state.fleet, "fence": fence}
    name = membership.get("command_name")
    wanted = {**spec, "cwd": membership.get("cwd") or ".", "worktree": "worktree" in spec}
    command = command_of(str(name)) if name else ()
    placed = await asyncio.to_thread(placed_spec, roster, wanted, command)
    if wanted["worktree"]:
        placed = await agent_worktrees.give(roster, entry.agent_id, {**placed, "fleet": membership})
    return {key: placed[key] for key in ("cwd", "worktree", "command") if placed.get(key) is not None}


def _failed(roster: Roster, entry: AgentEntry, reason: str, code: str) -> list[Draft]:
    return supervision.failed(entry.state, at=rfc3339(roster.clock.now()), reason=reason, code=code)


def _bare(root: Path, body: Mapping[str, Any]) -> dict[str, Any]:
    """What is recorded of an agent that is not launched here."""
    texts = {key: str(body.get(key) or "unknown")[:200] for key in ("name", "role", "engine")}
    policies = body.get("policies")
    return {**texts, "policies": policies if isinstance(policies, dict) else {}, "cwd": str(root)}
