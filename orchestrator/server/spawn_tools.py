"""The smartspawn toolset: create, follow, read and cancel DAG runs of model calls. Parse, one service call, answer.

Names and shapes are those of the Smart Spawn design (B4.19 to B4.25); what is more than its is optional.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.errors import BadRequest
from orchestrator.roles.catalogue import directory_of
from orchestrator.roles.library import Library
from orchestrator.server.limits import answer_by_s
from orchestrator.server.toolset import Arguments, Call, Client, Tool
from orchestrator.spawn.model import Asked, MergeAsked, RoleAsked
from orchestrator.spawn.runs import LISTED_MAX, TASK_MAX, Request, Runs

POLL_S = 45.0
"""Longest wait of a client whose limit for one call is not known (design §5)."""
PEERS_MAX = 16

RunId = Annotated[str, Field(min_length=1, max_length=128, description="Of smartspawn_run_create")]
Wait = Annotated[int | None, Field(ge=0, le=86_400_000)]
Mode = Literal["single", "collective", "cascade", "plan", "swarm"]
Status = Literal["queued", "running", "completed", "failed", "canceled"]
Word = Annotated[str, Field(max_length=2000)]
Words = Annotated[list[Word], Field(max_length=50)]


class Role(Arguments):
    """Who is to answer."""

    persona: Annotated[str | None, Field(max_length=2000, description="A role's id (.agents/roles), or words")] = None
    stack: Words | None = None
    domain: Word | None = None
    format: Word | None = None
    guardrails: Words | None = None


class Merge(Arguments):
    """How answers are merged."""

    style: Literal["concise", "detailed", "decision"] | None = None
    model: Annotated[str | None, Field(max_length=200)] = None


class CreateArguments(Arguments):
    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)

    task: Annotated[str, Field(min_length=1, max_length=TASK_MAX, description="What is to be done; all it knows")]
    mode: Annotated[
        Mode,
        Field(
            description="single: one model; collective: several, merged; cascade: a cheap one, a better one if that "
            "will not do; plan: steps one by one; swarm: steps in parallel where they can be"
        ),
    ]
    budget: Annotated[
        Literal["low", "medium", "high", "any"] | None, Field(description="How dear models may be; default medium")
    ] = None
    context: Annotated[str | None, Field(max_length=TASK_MAX, description="What every node should know")] = None
    count: Annotated[
        int | None, Field(alias="collectiveCount", ge=1, le=100, description="Models of collective, 2..5; default 3")
    ] = None
    role: Role | None = None
    merge: Merge | None = None
    engine: Annotated[
        str | None,
        Field(
            max_length=400, description="Answered by squad members of these CLIs (a,b), not by models; needs no key"
        ),
    ] = None
    agent: Annotated[
        str | None, Field(max_length=400, description="Answered by these team agents (a,b); needs no key")
    ] = None


class StatusArguments(Arguments):
    run_id: RunId
    wait_ms: Annotated[Wait, Field(description="Answer once something has changed, or by then")] = None


class ResultArguments(Arguments):
    run_id: RunId
    include_raw: Annotated[bool, Field(description="Also each node's own answer, cut")] = False
    wait_ms: Annotated[Wait, Field(description="Answer once the run has ended, or by then")] = None


class CancelArguments(Arguments):
    run_id: RunId


class ListArguments(Arguments):
    status: Status | None = None
    limit: Annotated[int | None, Field(ge=1, le=LISTED_MAX, description="Default 20")] = None


class ArtifactArguments(Arguments):
    run_id: RunId
    node_id: Annotated[str, Field(min_length=1, max_length=256, description="A node's id, merged, or plan")]
    offset: Annotated[int | None, Field(ge=0, description="Characters to skip: next_offset of the last answer")] = (
        None
    )


class HealthArguments(Arguments):
    """Nothing."""


class _Answer(BaseModel):
    """Base of answers: keys that are not listed may be there too."""

    model_config = ConfigDict(extra="allow")


class CreateAnswer(BaseModel):
    run_id: str
    status: Literal["queued"]
    created_at: str
    estimated_steps: int


class Progress(BaseModel):
    total_nodes: int
    done_nodes: int
    running_nodes: int
    failed_nodes: int
    skipped_nodes: int = 0
    percent: int


class Cost(_Answer):
    """Dollars are null where the caller has no price."""

    usd: float | None = None
    reserved_usd: float | None = None
    limit_usd: float | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    sources: dict[str, int] = {}


class NodeAnswer(_Answer):
    node_id: str
    kind: str
    wave: int
    needs: list[str]
    model: str
    status: str
    attempts: int
    reruns: int
    usd: float | None = None
    cost_source: str = ""
    error: str = ""


class ModelAnswer(_Answer):
    model: str
    nodes: int
    usd: float | None = None
    prompt_tokens: int
    completion_tokens: int


class StatusAnswer(_Answer):
    run_id: str
    status: Status
    progress: Progress
    current_wave: int = 0
    last_event: str = ""
    updated_at: str
    mode: Mode
    elapsed_s: float
    eta_s: float = 0.0
    cost: Cost
    nodes: list[NodeAnswer]
    models: list[ModelAnswer]
    planner: str
    waiting_for_key: bool = False
    canceling: bool = False
    failure: Annotated[str, Field(description="why it failed")] = ""


class ResultCost(_Answer):
    prompt_tokens: int
    completion_tokens: int
    usd_estimate: float | None = None
    sources: dict[str, int] = {}


class ArtifactListed(BaseModel):
    node_id: str
    path: str
    model: str
    status: str
    type: str


class Raw(BaseModel):
    node_id: str
    output: str
    truncated: bool


class ResultAnswer(_Answer):
    run_id: str
    status: Status
    merged_output: str
    summary: str
    failure: Annotated[str, Field(description="why it failed: which node and model, and what to do")] = ""
    dissent: Annotated[str, Field(description="where the answers disagree")] = ""
    artifacts: list[ArtifactListed]
    cost: ResultCost
    planner: str
    raw_outputs: list[Raw] = []
    more: Annotated[bool, Field(description="merged_output is cut; smartspawn_artifact_get has the rest")] = False
    next_offset: int = 0


class CancelAnswer(BaseModel):
    status: Literal["canceling", "canceled"]


class RunRow(BaseModel):
    run_id: str
    task: str
    status: Status
    mode: Mode
    created_at: str
    updated_at: str


class ListAnswer(BaseModel):
    runs: list[RunRow]


class Metadata(BaseModel):
    model: str = ""
    created_at: str
    bytes: int
    sha256: str
    path: str


class ArtifactAnswer(BaseModel):
    artifact_type: Literal["raw", "merged", "plan", "log"]
    content: str
    metadata: Metadata
    next_offset: Annotated[int, Field(description="content goes on there")] = 0


class HealthAnswer(_Answer):
    openrouter_configured: bool
    smart_spawn_api_reachable: bool
    db_writable: bool
    artifact_storage_writable: bool
    worker_alive: bool
    planner: str = ""
    home: str = ""
    reasons: dict[str, str] = {}


@dataclass(frozen=True)
class Offer:
    """What the tools work with.

    ``check`` raises when a client cannot have its runs answered by these (``engine:claude``, ``agent:builder``); it
    gives what remembers, for a run's id, what the run's squad members need of that client.
    """

    runs: Runs
    library: Library
    check: Callable[[Client, tuple[str, ...]], Awaitable[Callable[[str], None]]]


def build(offer: Offer) -> dict[str, Tool]:
    """The toolset."""
    runs = offer.runs

    async def create(call: Call, given: CreateArguments) -> dict[str, Any]:
        asked = await asyncio.to_thread(_asked, offer, call.client, given)
        keep = await offer.check(call.client, asked.peers)
        return await runs.create(Request(asked, call.client.env, call.req, keep))

    async def status(call: Call, given: StatusArguments) -> dict[str, Any]:
        return await runs.status(call.client.env, given.run_id, _wait_s(call, given.wait_ms))

    async def result(call: Call, given: ResultArguments) -> dict[str, Any]:
        return await runs.result(
            call.client.env,
            given.run_id,
            _wait_s(call, given.wait_ms),
            include_raw=given.include_raw,
            tell=call.tell,
        )

    async def cancel(call: Call, given: CancelArguments) -> dict[str, Any]:
        return await runs.cancel(call.client.env, given.run_id)

    async def listed(call: Call, given: ListArguments) -> dict[str, Any]:
        return await runs.listed(call.client.env, given.status, given.limit)

    async def artifact(call: Call, given: ArtifactArguments) -> dict[str, Any]:
        return await runs.artifact(call.client.env, given.run_id, given.node_id, given.offset or 0)

    async def health(call: Call, _given: HealthArguments) -> dict[str, Any]:
        return await runs.health(call.client.env)

    tools = (
        Tool(
            "smartspawn_run_create",
            "Start a run of model calls",
            "Put a run in line and answer at once: a DAG of calls to models (or squad members, or agents), their "
            "answers merged into one. Follow it with smartspawn_run_result(wait_ms).",
            CreateArguments,
            CreateAnswer,
            create,
            open_world=True,
        ),
        Tool(
            "smartspawn_run_status",
            "How far a run is",
            "Progress, cost and nodes of a run. wait_ms waits for a change.",
            StatusArguments,
            StatusAnswer,
            status,
            read_only=True,
            idempotent=True,
        ),
        Tool(
            "smartspawn_run_result",
            "Get a run's answer",
            "The merged answer of a run, its summary, artifacts and cost. wait_ms waits for its end.",
            ResultArguments,
            ResultAnswer,
            result,
            read_only=True,
            idempotent=True,
        ),
        Tool(
            "smartspawn_run_cancel",
            "Cancel a run",
            "End a run: what is in flight is called off, what it has cost is kept.",
            CancelArguments,
            CancelAnswer,
            cancel,
            destructive=True,
        ),
        Tool(
            "smartspawn_run_list",
            "List runs",
            "The runs of the home, the newest first.",
            ListArguments,
            ListAnswer,
            listed,
            read_only=True,
            idempotent=True,
        ),
        Tool(
            "smartspawn_artifact_get",
            "Read an artifact",
            "One file of a run: a node's answer as JSON, merged, or plan.",
            ArtifactArguments,
            ArtifactAnswer,
            artifact,
            read_only=True,
            idempotent=True,
        ),
        Tool(
            "smartspawn_health",
            "Check spawn runs",
            "Whether runs can work here: key, planner, database, storage, worker; and why not.",
            HealthArguments,
            HealthAnswer,
            health,
            read_only=True,
            idempotent=True,
        ),
    )
    return {tool.name: tool for tool in tools}


def _asked(offer: Offer, client: Client, given: CreateArguments) -> Asked:
    """The arguments as a run keeps them; a persona that is a role's id brings that role's text."""
    engines, agents = _names(given.engine, "engine"), _names(given.agent, "agent")
    if engines and agents:
        raise BadRequest("bad_argument", "engine and agent are both given", "leave one of them out")
    if not given.task.strip():
        raise BadRequest("bad_argument", "the task is empty")
    role = given.role or Role()
    body = ""
    if role.persona:
        found = offer.library.found(directory_of(client.env)[0]).roles.get(role.persona)
        body = found.body if found is not None else ""
    merge = given.merge or Merge()
    return Asked(
        task=given.task,
        mode=given.mode,
        budget=given.budget or "medium",
        context=given.context or "",
        count=given.count or 3,
        role=RoleAsked(
            persona=role.persona or "",
            stack=tuple(role.stack or ()),
            domain=role.domain or "",
            format=role.format or "",
            guardrails=tuple(role.guardrails or ()),
        ),
        role_body=body,
        merge=MergeAsked(style=merge.style, model=merge.model or ""),
        engines=engines,
        agents=agents,
    )


def _names(text: str | None, what: str) -> tuple[str, ...]:
    names = tuple(one.strip() for one in (text or "").split(",") if one.strip())
    if len(names) > PEERS_MAX:
        raise BadRequest("bad_argument", f"{what} names more than {PEERS_MAX}")
    if text is not None and not names:
        raise BadRequest("bad_argument", f"{what} is empty", f"leave {what} out, or name one")
    return names


def _wait_s(call: Call, wait_ms: int | None) -> float:
    """How long this call may take from now on: not longer than its client allows one to."""
    if not wait_ms:
        return 0.0
    return max(0.0, min(wait_ms / 1000, answer_by_s(call.client) or POLL_S) - call.age_s)
