"""Arguments and answers of the smartspawn tools, in the form of the Smart Spawn design (B4.19 to B4.25).

Additions to the design are optional; dollars are null if the caller has no price.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.protocol.tool_calls import Arguments, Untrusted
from orchestrator.spawn.modes.mode_table import mode_of
from orchestrator.spawn.modes.names import MODES, Mode
from orchestrator.spawn.run_data import RunStatus
from orchestrator.spawn.runs import LISTED_MAX, TASK_MAX

RunId = Annotated[str, Field(min_length=1, max_length=128, description="Of smartspawn_run_create")]
Wait = Annotated[int | None, Field(ge=0, le=86_400_000)]
Word = Annotated[str, Field(max_length=2000)]
Words = Annotated[list[Word], Field(max_length=50)]


class SpawnRole(Arguments):
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


class RunCreateArguments(Arguments):
    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)

    task: Annotated[str, Field(min_length=1, max_length=TASK_MAX, description="What is to be done; all it knows")]
    mode: Annotated[
        Mode,
        Field(description="; ".join(f"{name}: {mode_of(name).words}" for name in MODES)),
    ]
    budget: Annotated[
        Literal["low", "medium", "high", "any"] | None, Field(description="How dear models may be; default medium")
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
    run_id: RunId
    wait_ms: Annotated[Wait, Field(description="Answer once something has changed, or by then")] = None


class RunResultArguments(Arguments):
    run_id: RunId
    include_raw: Annotated[bool, Field(description="Also each node's own answer, cut")] = False
    wait_ms: Annotated[Wait, Field(description="Answer once the run has ended, or by then")] = None


class RunCancelArguments(Arguments):
    run_id: RunId


class RunListArguments(Arguments):
    status: RunStatus | None = None
    limit: Annotated[int | None, Field(ge=1, le=LISTED_MAX, description="Default 20")] = None


class RunArtifactArguments(Arguments):
    run_id: RunId
    node_id: Annotated[str, Field(min_length=1, max_length=256, description="A node's id, merged, or plan")]
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
    created_at: str
    estimated_steps: int
    untrusted: Untrusted = None


class RunProgress(BaseModel):
    total_nodes: int
    done_nodes: int
    running_nodes: int
    failed_nodes: int
    skipped_nodes: int = 0
    percent: int


Dollars = Annotated[float | None, Field(json_schema_extra={"type": ["number", "null"]})]
"""Some clients check answers against the schema, which leaves null out elsewhere."""


class Cost(_RunAnswer):
    """Dollars are null where the caller has no price."""

    usd: Dollars = None
    reserved_usd: Dollars = None
    limit_usd: Dollars = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    sources: dict[str, int] = {}


class NodeAnswer(_RunAnswer):
    node_id: str
    kind: str
    wave: int
    needs: list[str]
    model: Annotated[str, Field(description="who answered, or will")]
    status: Annotated[str, Field(description="of the node; of merged and plan: of the run")]
    attempts: int
    reruns: int
    usd: Dollars = None
    cost_source: str = ""
    error: Annotated[str, Field(description="why it failed, or is tried again")] = ""


class ModelAnswer(_RunAnswer):
    model: Annotated[str, Field(description="who answered, or will")]
    nodes: int
    usd: Dollars = None
    prompt_tokens: int
    completion_tokens: int


class RunStatusAnswer(_RunAnswer):
    run_id: Annotated[str, Field(description="the spawn run")]
    status: Annotated[RunStatus, Field(description="of the run")]
    progress: RunProgress
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
    foreign: Annotated[bool, Field(description="not of this machine: nothing is done with it")] = False


class ResultCost(_RunAnswer):
    prompt_tokens: int
    completion_tokens: int
    usd_estimate: Dollars = None
    sources: dict[str, int] = {}


class ArtifactListed(BaseModel):
    node_id: str
    path: str
    model: Annotated[str, Field(description="who answered, or will")]
    status: Annotated[str, Field(description="of the node; of merged and plan: of the run")]
    type: str


class Raw(BaseModel):
    node_id: str
    output: str
    truncated: bool


class RunResultAnswer(_RunAnswer):
    run_id: Annotated[str, Field(description="the spawn run")]
    status: Annotated[RunStatus, Field(description="of the run")]
    merged_output: str
    summary: str
    failure: Annotated[str, Field(description="why it failed: which node and model, and what to do")] = ""
    foreign: Annotated[bool, Field(description="not of this machine: nothing is done with it")] = False
    dissent: Annotated[str, Field(description="where the answers disagree")] = ""
    artifacts: list[ArtifactListed]
    cost: ResultCost
    planner: str
    raw_outputs: list[Raw] = []
    more: Annotated[bool, Field(description="merged_output is cut; smartspawn_artifact_get has the rest")] = False
    next_offset: int = 0


class RunCancelAnswer(BaseModel):
    status: Literal["canceling", "canceled"]


class RunSummary(BaseModel):
    run_id: Annotated[str, Field(description="the spawn run")]
    task: str
    status: Annotated[RunStatus, Field(description="of the run")]
    mode: Mode
    created_at: str
    updated_at: str
    foreign: Annotated[bool, Field(description="not of this machine: nothing is done with it")] = False


class RunListAnswer(BaseModel):
    runs: list[RunSummary]


class Metadata(BaseModel):
    model: Annotated[str, Field(description="who answered")] = ""
    created_at: str
    bytes: int
    sha256: str
    path: str


class RunArtifactAnswer(BaseModel):
    artifact_type: Literal["raw", "merged", "plan", "log"]
    content: str
    metadata: Metadata
    next_offset: Annotated[int, Field(description="content continues at this offset")] = 0


class HealthAnswer(_RunAnswer):
    openrouter_configured: bool
    smart_spawn_api_reachable: bool
    db_writable: bool
    artifact_storage_writable: bool
    worker_alive: bool
    planner: str = ""
    home: str = ""
    reasons: dict[str, str] = {}
