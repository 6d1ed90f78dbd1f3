"""The smartspawn toolset: create, follow, read and cancel DAG runs of model calls. Parse, one service call, answer.

Names and forms are those of the Smart Spawn design (B4.19 to B4.25); additions are optional.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.config.sources import PROJECT_FILE
from orchestrator.protocol.call_limits import answer_by_s
from orchestrator.protocol.tool_calls import Call, Client, Tool
from orchestrator.roles.catalogue import directory_of
from orchestrator.roles.library import RoleLibrary
from orchestrator.spawn.models import (
    HealthAnswer,
    HealthArguments,
    Merge,
    RunArtifactAnswer,
    RunArtifactArguments,
    RunCancelAnswer,
    RunCancelArguments,
    RunCreateAnswer,
    RunCreateArguments,
    RunListAnswer,
    RunListArguments,
    RunResultAnswer,
    RunResultArguments,
    RunStatusAnswer,
    RunStatusArguments,
    SpawnRole,
)
from orchestrator.spawn.run_data import RequestedMerge, RequestedRole, RunRequest
from orchestrator.spawn.runs import RunCreation, SpawnRuns
from orchestrator.trust.untrusted_settings import untrusted_note

POLL_S = 45.0
"""Longest wait of a client whose limit for one call is not known."""
CALLERS_MAX = 16
OF_MEMBERS = ("approval", "trust")
"""Settings that say what the squad members who answer a run's nodes may do."""


@dataclass(frozen=True)
class SpawnToolDeps:
    """What the tools work with.

    ``check`` raises when a client cannot have its runs answered by these (``engine:claude``, ``agent:builder``); it
    gives what remembers, for a run's id, what the run's squad members need of that client. ``withheld`` is what the
    project's configuration file says that does not count.
    """

    runs: SpawnRuns
    library: RoleLibrary
    check: Callable[[Client, tuple[str, ...]], Awaitable[Callable[[str], None]]]
    withheld: Callable[[], Mapping[str, Any]] = dict


def build(offer: SpawnToolDeps) -> dict[str, Tool]:
    """The toolset."""
    runs = offer.runs

    async def create(call: Call, given: RunCreateArguments) -> dict[str, Any]:
        request = await asyncio.to_thread(_run_request, offer, call.client, given)
        keep = await offer.check(call.client, request.callers)
        answer = await runs.create(RunCreation(request, call.client.env, call.req, keep))
        keys = [key for key in OF_MEMBERS if request.engines and key in offer.withheld()]
        return answer | untrusted_note({PROJECT_FILE: keys} if keys else {})

    async def status(call: Call, given: RunStatusArguments) -> dict[str, Any]:
        return await runs.status(call.client.env, given.run_id, _wait_s(call, given.wait_ms))

    async def result(call: Call, given: RunResultArguments) -> dict[str, Any]:
        return await runs.result(
            call.client.env,
            given.run_id,
            _wait_s(call, given.wait_ms),
            include_raw=given.include_raw,
            tell=call.tell,
        )

    async def cancel(call: Call, given: RunCancelArguments) -> dict[str, Any]:
        return await runs.cancel(call.client.env, given.run_id)

    async def listed(call: Call, given: RunListArguments) -> dict[str, Any]:
        return await runs.listed(call.client.env, given.status, given.limit)

    async def artifact(call: Call, given: RunArtifactArguments) -> dict[str, Any]:
        return await runs.artifact(call.client.env, given.run_id, given.node_id, given.offset or 0)

    async def health(call: Call, _given: HealthArguments) -> dict[str, Any]:
        return await runs.health(call.client.env)

    tools = (
        Tool(
            "smartspawn_run_create",
            "Start a run of model calls",
            "Queue a run and return its id at once: a DAG of calls to models (or squad members, or agents) whose "
            "answers are merged into one. Follow it with smartspawn_run_result(wait_ms).",
            RunCreateArguments,
            RunCreateAnswer,
            create,
            open_world=True,
        ),
        Tool(
            "smartspawn_run_status",
            "Show the progress of a run",
            "Progress, cost and nodes of a run. wait_ms waits for a change.",
            RunStatusArguments,
            RunStatusAnswer,
            status,
            read_only=True,
            opens=True,
            idempotent=True,
        ),
        Tool(
            "smartspawn_run_result",
            "Get a run's answer",
            "The merged answer of a run, its summary, artifacts and cost. wait_ms waits for its end.",
            RunResultArguments,
            RunResultAnswer,
            result,
            read_only=True,
            opens=True,
            idempotent=True,
        ),
        Tool(
            "smartspawn_run_cancel",
            "Cancel a run",
            "End a run: calls in flight are canceled; their cost is kept.",
            RunCancelArguments,
            RunCancelAnswer,
            cancel,
            destructive=True,
        ),
        Tool(
            "smartspawn_run_list",
            "List runs",
            "The runs of the home, the newest first.",
            RunListArguments,
            RunListAnswer,
            listed,
            read_only=True,
            opens=True,
            idempotent=True,
        ),
        Tool(
            "smartspawn_artifact_get",
            "Read an artifact",
            "One file of a run: a node's answer as JSON, merged, or plan.",
            RunArtifactArguments,
            RunArtifactAnswer,
            artifact,
            read_only=True,
            opens=True,
            idempotent=True,
        ),
        Tool(
            "smartspawn_health",
            "Check spawn runs",
            "Whether runs can work here: key, planner, database, storage, run queue; and why not.",
            HealthArguments,
            HealthAnswer,
            health,
            read_only=True,
            opens=True,
            idempotent=True,
        ),
    )
    return {tool.name: tool for tool in tools}


def _run_request(offer: SpawnToolDeps, client: Client, arguments: RunCreateArguments) -> RunRequest:
    """The arguments as a run keeps them; a persona that is a role's id brings that role's text."""
    engines, agents = _names(arguments.engine, "engine"), _names(arguments.agent, "agent")
    models = tuple(name.strip() for name in arguments.models or ())
    given = [name for name, names in (("engine", engines), ("agent", agents), ("models", models)) if names]
    if len(given) > 1:
        raise BadRequest("bad_argument", f"{given[0]} and {given[1]} are both given", "leave one of them out")
    if not all(models):
        raise BadRequest("bad_argument", "an id in models is empty")
    if not arguments.task.strip():
        raise BadRequest("bad_argument", "the task is empty")
    role = arguments.role or SpawnRole()
    body = ""
    if role.persona:
        library_role = offer.library.listing(directory_of(client.env)[0]).roles.get(role.persona)
        body = library_role.body if library_role is not None else ""
    merge = arguments.merge or Merge()
    return RunRequest(
        task=arguments.task,
        mode=arguments.mode,
        budget=arguments.budget or "medium",
        context=arguments.context or "",
        count=arguments.count or len(models) or 3,
        role=RequestedRole(
            persona=role.persona or "",
            stack=tuple(role.stack or ()),
            domain=role.domain or "",
            format=role.format or "",
            guardrails=tuple(role.guardrails or ()),
        ),
        role_body=body,
        merge=RequestedMerge(style=merge.style, model=merge.model or ""),
        engines=engines,
        agents=agents,
        models=models,
    )


def _names(text: str | None, what: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    if len(names) > CALLERS_MAX:
        raise BadRequest("bad_argument", f"{what} names more than {CALLERS_MAX}")
    if text is not None and not names:
        raise BadRequest("bad_argument", f"{what} is empty", f"leave {what} out, or name one")
    return names


def _wait_s(call: Call, wait_ms: int | None) -> float:
    """How long this call may take from now on: not longer than its client allows one to."""
    if not wait_ms:
        return 0.0
    return max(0.0, min(wait_ms / 1000, answer_by_s(call.client) or POLL_S) - call.age_s)
