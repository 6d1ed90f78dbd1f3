"""The data of a spawn run: request, frozen settings, plan, rows, calls. Pure data.

Each JSON column of the database has a pydantic model here, so that one version can read what another wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from pydantic import BaseModel, ConfigDict

from orchestrator.spawn.modes.mode_names import SpawnModeName

RunBudget = Literal["low", "medium", "high", "any"]
MergeStyle = Literal["concise", "detailed", "decision"]
RunStatus = Literal["queued", "running", "completed", "failed", "canceled"]
NodeStatus = Literal["queued", "running", "retry_pending", "completed", "failed", "skipped", "canceled"]
NodeKind = Literal["task", "evaluate", "merge"]
PlannerName = Literal["smart-spawn-api", "local"]
CostSource = Literal["usage", "prices", "table", "reserved", "none"]
"""Where a cost comes from: the answer's usage.cost, the server's price list, the shipped conservative table, the
reservation of an attempt nobody knows the end of; none: its caller has no price."""

RUN_ENDED: frozenset[str] = frozenset({"completed", "failed", "canceled"})
NODE_ENDED: frozenset[str] = frozenset({"completed", "failed", "skipped", "canceled"})
MERGED = "merged"
"""Id of the node that merges, and of the artifact with the final answer, which every completed run has."""
CUT_OFF = frozenset({"length", "content_filter"})
"""The finish reasons of answers that have text, and not all of it."""
PLAN = "plan"
"""Id of the artifact with the plan."""


class StoredJson(BaseModel):
    """Base of the models of JSON columns; keys of a newer version are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class RequestedRole(StoredJson):
    """The role that answers: a role of the project by its id, or words from which the Smart Spawn API makes one."""

    persona: str = ""
    stack: tuple[str, ...] = ()
    domain: str = ""
    format: str = ""
    guardrails: tuple[str, ...] = ()


class RequestedMerge(StoredJson):
    """How answers are merged: the style, and the model that does it; empty: the mode's own, and the plan's best."""

    style: MergeStyle | None = None
    model: str = ""


class RunRequest(StoredJson):
    """The arguments of smartspawn_run_create; stored in ``params_json``.

    ``engines`` or ``agents`` name who answers instead of the model API, ``models`` which of its models answer; at
    most one of the three is not empty. ``role_body`` is the text of the project's role that ``role.persona`` named
    when the run was created.
    """

    task: str
    mode: SpawnModeName
    budget: RunBudget = "medium"
    context: str = ""
    count: int = 3
    role: RequestedRole = RequestedRole()
    role_body: str = ""
    merge: RequestedMerge = RequestedMerge()
    engines: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    models: tuple[str, ...] = ()

    @property
    def caller_kind(self) -> Literal["model", "engine", "agent"]:
        """Who answers its nodes."""
        return "engine" if self.engines else "agent" if self.agents else "model"

    @property
    def callers(self) -> tuple[str, ...]:
        """Who answers instead of the model API, as nodes name them: ``engine:claude``, ``agent:builder``."""
        return tuple(f"engine:{name}" for name in self.engines) + tuple(f"agent:{name}" for name in self.agents)

    @property
    def workers(self) -> tuple[str, ...]:
        """Who answers its task nodes in turn, if the call names them; a node's ``model`` is one of them."""
        return self.callers or self.models


class RunSettings(StoredJson):
    """The settings of one run, frozen when it is created; seconds, characters, dollars."""

    base_url: str = "https://openrouter.ai/api/v1"
    planner_url: str = "https://ss.deeflect.com/api"  # empty: the local planner only
    max_parallel_runs: int = 2
    max_parallel_nodes: int = 4
    max_usd: Decimal = Decimal(5)
    node_timeout_s: float = 180.0
    run_timeout_s: float = 1800.0
    max_prompt_chars: int = 200_000
    max_completion_tokens: int = 4096
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    evaluator: str = ""
    redact: bool = False
    retries: int = 2


@dataclass(frozen=True)
class Node:
    """One call of a plan.

    ``id`` is safe as a file name (`plan` ensures it). ``needs`` are the ids of the nodes whose answers it is given.
    ``model`` is who answers: a model's id, ``engine:<name>`` or ``agent:<id>``. ``tier`` marks the two answers of a
    cascade. ``system`` is its composed role.
    """

    id: str
    kind: NodeKind
    wave: int
    needs: tuple[str, ...]
    task: str
    model: str
    system: str = ""
    tier: Literal["", "cheap", "premium"] = ""
    reason: str = ""


@dataclass(frozen=True)
class RunPlan:
    """The nodes of a run, each after those that it needs; the merge node, if there is one, last.

    ``notes`` say what differs from the request: the API is down, a cycle became a chain, a model may not be used.
    """

    nodes: tuple[Node, ...]
    source: PlannerName
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Price:
    """The price of a model in dollars: per prompt token, per completion token, per request; and its source."""

    prompt: Decimal
    completion: Decimal
    request: Decimal = Decimal(0)
    source: Literal["prices", "table"] = "table"


# -- one call -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NodeCall:
    """One attempt at a node, as a caller gets it. ``token`` is the globally unique name of the attempt.

    ``req`` is the call that created the run, as in its row.
    """

    run_id: str
    node_id: str
    attempt: int
    token: str
    model: str
    system: str
    prompt: str
    max_tokens: int
    timeout_s: float
    base_url: str = ""
    key: str = field(default="", repr=False)
    req: str = ""


@dataclass(frozen=True)
class Reply:
    """An answer. ``cost`` None: the caller gave no cost; ``model`` is the one that actually answered."""

    text: str
    finish_reason: str = "stop"
    model: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: Decimal | None = None

    @property
    def truncated(self) -> bool:
        """Whether the model had more to say than it was allowed to."""
        return self.finish_reason in CUT_OFF


@dataclass(frozen=True)
class Fault:
    """An attempt that gave no answer.

    ``retry``: whether another attempt can help; not before ``retry_after_s``, if the server gave one. ``reached``:
    the request may have been processed; then an unknown ``cost`` counts as the whole reservation. ``code`` is stable:
    the HTTP status, or one of ``timeout``, ``network``, ``empty``, ``nonsense``, ``refused``, ``engine``, ``agent``,
    ``canceled``, ``storage``, ``internal``. ``next_step`` is what a user can do, if that is more specific than the
    code's.
    """

    code: str
    message: str
    retry: bool
    retry_after_s: float | None = None
    reached: bool = True
    cost: Decimal | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    next_step: str = ""


# -- rows -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunOwner:
    """A daemon that may execute runs: its host, and its process, boot and start time."""

    host: str
    boot_id: str
    pid: int
    start: int


@dataclass(frozen=True)
class RunRow:
    """A run as it is stored. ``number`` is its place in the queue of all runs of the home; times are RFC 3339 UTC.

    ``token`` rises with each change of the owner: whoever writes for a run must know the current one. ``active``:
    it holds one of the places of MAX_PARALLEL_RUNS. ``active_s`` is how long it has been executed, waits for a key
    left out. ``waiting``: its owner, if any, has no key for it. ``foreign``: it has not ended, and is not of this
    machine (only `owned_runs.with_foreign_mark` says so).
    """

    id: str
    number: int
    request: RunRequest
    settings: RunSettings
    status: RunStatus
    created_at: str
    updated_at: str
    started_at: str | None = None
    finished_at: str | None = None
    error: str | None = None
    project: str = ""
    req: str = ""
    origin: str = ""
    key_fp: str = ""
    estimated_steps: int = 0
    owner: RunOwner | None = None
    token: int = 0
    active: bool = False
    waiting: bool = False
    active_s: float = 0.0
    cancel_requested: bool = False
    planned: bool = False
    plan_source: str = ""
    summary: str = ""
    dissent: str = ""
    foreign: bool = False


@dataclass(frozen=True)
class NodeRow:
    """A node as it is stored, in the order of the plan. ``attempt`` is the number of its last attempt, 0 before."""

    node: Node
    status: NodeStatus
    attempt: int = 0
    retry_count: int = 0
    reruns: int = 0  # attempts that a daemon's death cut off, and that were made again
    retry_at: str | None = None
    error: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    finish_reason: str = ""
    answered_by: str = ""  # the model that really answered


AttemptState = Literal["running", "done", "failed", "lost", "canceled"]


@dataclass(frozen=True)
class AttemptRow:
    """One attempt and its cost: ``cost`` once it is known, until then all of ``reserved`` counts.

    ``cost`` None with ``cost_source`` none: its caller has no price (squad, team).
    """

    node_id: str
    attempt: int
    token: str
    state: AttemptState
    reserved: Decimal
    cost: Decimal | None = None
    cost_source: CostSource = "reserved"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    model: str = ""
    started_at: str = ""
    finished_at: str | None = None
    error: str | None = None

    @property
    def spent(self) -> Decimal:
        """What counts against MAX_USD_PER_RUN."""
        return self.reserved if self.cost is None and self.cost_source == "reserved" else self.cost or Decimal(0)

    @property
    def reported(self) -> Decimal:
        """What it has cost by its provider's report of cost or tokens; 0 before its end and without a report."""
        return Decimal(0) if self.cost_source == "reserved" else self.cost or Decimal(0)

    @property
    def maybe_charged(self) -> Decimal:
        """Its reservation, if it has ended and nobody reported what it cost; else 0."""
        return self.spent if self.state != "running" and self.cost_source == "reserved" else Decimal(0)


EventLevel = Literal["info", "warning", "error"]


@dataclass(frozen=True)
class Event:
    """Something that happened with a run; ``seq`` is dense from 1 in each run."""

    seq: int
    node_id: str | None
    level: EventLevel
    message: str
    ts: str


@dataclass(frozen=True)
class EndedAttempt:
    """How an attempt ended: the attempt and its node as they are then, and the event that records it."""

    attempt: AttemptRow
    row: NodeRow
    level: EventLevel
    message: str


@dataclass(frozen=True)
class NodeEnd:
    """How nodes end without an answer: their state and error, and the event that records it."""

    status: NodeStatus
    error: str
    message: str
    level: EventLevel


ArtifactType = Literal["raw", "merged", "plan", "log"]


@dataclass(frozen=True)
class ArtifactRow:
    """A file of a run. ``path`` is relative to the home; ``node_id`` is a node's own id, ``merged`` or ``plan``."""

    node_id: str
    type: ArtifactType
    path: str
    bytes: int
    sha256: str
    created_at: str
    model: str = ""


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended. ``merged`` is the file of its final answer; ``dissent`` says where the answers disagree."""

    status: RunStatus
    summary: str
    error: str | None = None
    dissent: str = ""
    merged: ArtifactRow | None = None
