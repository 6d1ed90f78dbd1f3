"""Arguments and answers of the smartspawn tools, in the form of the Smart Spawn design (B4.19 to B4.25).

Additions to the design are optional; dollars are null if the node caller has no price.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.protocol.tool_calls import Arguments, Id, Untrusted
from orchestrator.spawn.modes.mode_names import MODES, SpawnModeName
from orchestrator.spawn.modes.mode_table import mode_of
from orchestrator.spawn.run_data import RunStatus
from orchestrator.spawn.runs import LISTED_MAX, TASK_MAX

SpawnRunId = Annotated[Id, Field(min_length=1, max_length=128, description="Of smartspawn_run_create")]
Wait = Annotated[int | None, Field(ge=0, le=86_400_000)]
Word = Annotated[str, Field(max_length=2000)]
Words = Annotated[list[Word], Field(max_length=50)]


class SpawnRole(Arguments):
    """Who is to answer."""

    persona: Annotated[str | None, Field(max_length=2000, description="A role's id (.agents/roles), or words")] = None
    stack: Words | None = None
    """Technologies it knows."""
    domain: Word | None = None
    """Its field."""
    format: Word | None = None
    """The form of the answer; the gate of a cascade looks for the sections that it names."""
    guardrails: Words | None = None
    """What it must keep to."""


class Merge(Arguments):
    """How answers are merged."""

    style: Literal["concise", "detailed", "decision"] | None = None
    """Default: the style of the mode."""
    model: Annotated[str | None, Field(max_length=200)] = None
    """The model that merges."""


class RunCreateArguments(Arguments):
    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)

    task: Annotated[
        str,
        Field(min_length=1, max_length=TASK_MAX, description="The task; besides `context`, all that the models know"),
    ]
    mode: Annotated[
        SpawnModeName,
        Field(description="; ".join(f"{name}: {mode_of(name).words}" for name in MODES)),
    ]
    budget: Annotated[
        Literal["low", "medium", "high", "any"] | None, Field(description="Price class of the models; default medium")
    ] = None
    context: Annotated[str | None, Field(max_length=TASK_MAX, description="What every node should know")] = None
    count: Annotated[
        int | None,
        Field(
            alias="collectiveCount",
            ge=1,
            le=100,
            description="Number of models, 2 to 5, in a mode that asks several the whole task; default 3",
        ),
    ] = None
    role: SpawnRole | None = None
    merge: Merge | None = None
    models: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=200)]] | None,
        Field(
            min_length=1,
            max_length=16,
            description="Ids of the models that answer, in turn; in a cascade the first is the cheap one, the last "
            "the premium one. Default: chosen by budget",
        ),
    ] = None
    engine: Annotated[
        str | None,
        Field(
            max_length=400, description="Answered by squad members of these CLIs (a,b), not by models; needs no key"
        ),
    ] = None
    agent: Annotated[
        str | None, Field(max_length=400, description="Answered by these team agents (a,b); needs no key")
    ] = None


class RunStatusArguments(Arguments):
    run_id: SpawnRunId
    wait_ms: Annotated[Wait, Field(description="Longest wait for a change; 0 answers at once")] = None


class RunResultArguments(Arguments):
    run_id: SpawnRunId
    include_raw: Annotated[bool, Field(description="Also each node's own answer, cut")] = False
    wait_ms: Annotated[Wait, Field(description="Longest wait for the end; 0 answers at once")] = None


class RunCancelArguments(Arguments):
    run_id: SpawnRunId


class RunListArguments(Arguments):
    status: RunStatus | None = None
    """List only runs with this status."""
    limit: Annotated[int | None, Field(ge=1, le=LISTED_MAX, description="Default 20")] = None


class RunArtifactArguments(Arguments):
    run_id: SpawnRunId
    node_id: Annotated[Id, Field(min_length=1, max_length=256, description="A node's id, merged, or plan")]
    offset: Annotated[int | None, Field(ge=0, description="Characters to skip: next_offset of the last answer")] = (
        None
    )


class HealthArguments(Arguments):
    """Nothing."""


class _RunAnswer(BaseModel):
    """Base of answers: keys that are not listed may be there too."""

    model_config = ConfigDict(extra="allow")


class RunCreateAnswer(BaseModel):
    run_id: Annotated[str, Field(description="the spawn run")]
    status: Literal["queued"]
    """Of the run."""
    created_at: str
    """When the run was created."""
    estimated_steps: int
    """How many nodes the local planner would make."""
    untrusted: Untrusted = None


class RunProgress(BaseModel):
    total_nodes: int
    done_nodes: int
    running_nodes: int
    failed_nodes: int
    skipped_nodes: int = 0
    percent: int


MaybeCharged = Annotated[float, Field(description="reservations of ended calls whose cost nobody reported")]
Notes = Annotated[list[str], Field(description="what differs from the request, and what is not known of its models")]
Dollars = Annotated[float | None, Field(json_schema_extra={"type": ["number", "null"]})]
"""Some clients check answers against the schema, which leaves null out elsewhere."""


class Cost(_RunAnswer):
    """Dollars are null where the node caller has no price."""

    usd: Dollars = None
    maybe_charged_usd: MaybeCharged = 0.0
    reserved_usd: Dollars = None
    limit_usd: Dollars = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    sources: dict[str, int] = {}


class NodeAnswer(_RunAnswer):
    node_id: str
    """The node; or merged, or plan."""
    kind: str
    """Task, evaluate or merge."""
    wave: int
    """From 0; a node's wave comes after those of all that it needs."""
    needs: list[str]
    """The nodes whose answers it gets."""
    model: Annotated[str, Field(description="who answered, or will")]
    status: Annotated[str, Field(description="of the node; of merged and plan: of the run")]
    attempts: int
    """How many there were."""
    reruns: int
    """Attempts made again because a daemon died during one."""
    usd: Dollars = None
    """Dollars; null: its model has no price."""
    maybe_charged_usd: MaybeCharged = 0.0
    cost_source: str = ""
    """Where the cost is from: usage, prices, table, reserved, or none."""
    error: Annotated[str, Field(description="why it failed, or is tried again")] = ""


class ModelAnswer(_RunAnswer):
    model: Annotated[str, Field(description="who answered, or will")]
    nodes: int
    """How many nodes it answered."""
    usd: Dollars = None
    """Dollars; null: it has no price."""
    maybe_charged_usd: MaybeCharged = 0.0
    prompt_tokens: int
    """As its answers report them."""
    completion_tokens: int
    """As its answers report them."""


class RunStatusAnswer(_RunAnswer):
    run_id: Annotated[str, Field(description="the spawn run")]
    status: Annotated[RunStatus, Field(description="of the run")]
    progress: RunProgress
    """How many nodes are done."""
    current_wave: int = 0
    """The wave that is running."""
    last_event: str = ""
    """Message of the last event."""
    updated_at: str
    """When the run last changed."""
    mode: SpawnModeName
    """As given to run_create."""
    elapsed_s: float
    """How long it has been running, without the time it waited for a key."""
    eta_s: float = 0.0
    """About how much longer it takes; known once a node has ended."""
    cost: Cost
    """What it has cost; dollars are null where a node caller has no price."""
    nodes: list[NodeAnswer]
    """One entry per node, in the order of the plan."""
    models: list[ModelAnswer]
    """One entry per model."""
    planner: str
    """Smart-spawn-api or local; empty: not planned yet."""
    waiting_for_key: bool = False
    """No running daemon has its API key."""
    canceling: bool = False
    """Its cancel was requested."""
    notes: Notes = []
    failure: Annotated[str, Field(description="why it failed")] = ""
    foreign: Annotated[bool, Field(description="not of this machine: nothing is done with it")] = False


class ResultCost(_RunAnswer):
    prompt_tokens: int
    completion_tokens: int
    usd_estimate: Dollars = None
    maybe_charged_usd: MaybeCharged = 0.0
    sources: dict[str, int] = {}


class ArtifactListed(BaseModel):
    node_id: str
    """The node; or merged, or plan."""
    path: str
    """Path of the file."""
    model: Annotated[str, Field(description="who answered, or will")]
    status: Annotated[str, Field(description="of the node; of merged and plan: of the run")]
    type: str
    """Raw, merged or plan."""


class Raw(BaseModel):
    node_id: str
    """The node."""
    output: str
    """The first 12,000 characters of its answer."""
    truncated: bool
    """Whether there is more."""


class RunResultAnswer(_RunAnswer):
    run_id: Annotated[str, Field(description="the spawn run")]
    status: Annotated[RunStatus, Field(description="of the run")]
    merged_output: str
    """The final answer; of a failed run, what there is."""
    summary: str
    """How it came about: which nodes failed, what was cut, whether the budget ended it."""
    notes: Notes = []
    failure: Annotated[str, Field(description="why it failed: which node and model, and what to do")] = ""
    foreign: Annotated[bool, Field(description="not of this machine: nothing is done with it")] = False
    dissent: Annotated[str, Field(description="where the answers disagree")] = ""
    artifacts: list[ArtifactListed]
    """The run's files."""
    cost: ResultCost
    """What it has cost; dollars are null where a node caller has no price."""
    planner: str
    """Smart-spawn-api or local; empty: not planned yet."""
    raw_outputs: list[Raw] = []
    """The answer of each node."""
    more: Annotated[bool, Field(description="merged_output is cut; smartspawn_artifact_get has the rest")] = False
    next_offset: int = 0
    """Where to read on."""


class RunCancelAnswer(BaseModel):
    status: Literal["canceling", "canceled"]
    """Canceling: attempts are still being ended."""


class RunSummary(BaseModel):
    run_id: Annotated[str, Field(description="the spawn run")]
    task: str
    """The first 200 characters of its task."""
    status: Annotated[RunStatus, Field(description="of the run")]
    mode: SpawnModeName
    """As given to run_create."""
    created_at: str
    """When the run was created."""
    updated_at: str
    """When the run last changed."""
    foreign: Annotated[bool, Field(description="not of this machine: nothing is done with it")] = False


class RunListAnswer(BaseModel):
    runs: list[RunSummary]
    """The newest first."""


class Metadata(BaseModel):
    model: Annotated[str, Field(description="who answered")] = ""
    created_at: str
    bytes: int
    sha256: str
    path: str


class RunArtifactAnswer(BaseModel):
    artifact_type: Literal["raw", "merged", "plan", "log"]
    """Raw, merged or plan."""
    content: str
    """At most 60,000 characters of the file."""
    metadata: Metadata
    """Of the whole file."""
    next_offset: Annotated[int, Field(description="content continues at this offset")] = 0


class HealthAnswer(_RunAnswer):
    openrouter_configured: bool
    """There is an API key."""
    smart_spawn_api_reachable: bool
    """Whether that API answers; if not, the local planner plans."""
    db_writable: bool
    """The home's database can be written."""
    artifact_storage_writable: bool
    """The home's files can be written."""
    worker_alive: bool
    """This daemon executes runs."""
    planner: str = ""
    """Who would plan a run: smart-spawn-api or local."""
    home: str = ""
    """The spawn home of this connection."""
    reasons: dict[str, str] = {}
    """Why one of these is false."""
