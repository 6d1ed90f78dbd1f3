"""What a master's tools take and answer: the models behind their input and output schemas. No behaviour."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.protocol.tool_calls import Arguments, Untrusted

MAX_AGENTS_PER_CALL = 64

AgentId = Annotated[str, Field(min_length=1, max_length=128, description="the agent_id that agent_create returned")]
WaitMs = Annotated[
    int,
    Field(
        ge=0,
        le=600_000,
        description="wait up to so long for news instead of answering at once; cut to what your CLI lets a call last",
    ),
]
Cursor = Annotated[
    str | None, Field(max_length=64, description="with wait_ms: the cursor of the last answer, if it had one")
]
SinceSeq = Annotated[int, Field(ge=0, description="only records behind this seq; pass the last_seq you got")]
MaxEvents = Annotated[int, Field(ge=1, le=1000, description="at most so many records")]


class AgentPolicies(Arguments):
    """What differs for one agent from the configuration; each default is the setting of the same name."""

    restart: Annotated[
        Literal["on-failure", "never", "always"] | None, Field(description="when its CLI is launched again")
    ] = None
    max_restarts: Annotated[int | None, Field(ge=0, le=100, description="within restart_window_s, then failed")] = (
        None
    )
    restart_window_s: Annotated[float | None, Field(ge=1, le=31_536_000)] = None
    on_lost: Annotated[
        Literal["requeue", "fail"] | None, Field(description="the task it held when its CLI was lost")
    ] = None
    max_attempts: Annotated[int | None, Field(ge=1, le=100, description="lives one task may be handed to")] = None
    stall_after_s: Annotated[
        float | None, Field(ge=1, le=31_536_000, description="silence with a task before it is called stalled")
    ] = None


class NewAgent(Arguments):
    """One agent to create."""

    name: Annotated[str, Field(min_length=1, max_length=80, description="a short name; the agent_id is made of it")]
    role: Annotated[str, Field(min_length=1, max_length=80, description="what the agent is for, as shown to humans")]
    cwd: Annotated[str | None, Field(max_length=4096, description="working directory inside the project")] = None
    env: Annotated[dict[str, str] | None, Field(description="environment variables to add")] = None
    engine: Annotated[str | None, Field(max_length=64, description="which CLI to run; default: as configured")] = None
    model: Annotated[str | None, Field(max_length=200, description="model of that CLI; default: the CLI's own")] = (
        None
    )
    approval: Annotated[
        Literal["ask", "edits", "all"] | None,
        Field(description="what its CLI may do unasked: ask (default: as the user has it), edits, all"),
    ] = None
    command: Annotated[
        list[str] | None, Field(max_length=200, description="engine command: argv with {prompt} or {prompt_file}")
    ] = None
    worktree: Annotated[
        bool, Field(description="give it a git worktree and branch of its own, from the project's last commit")
    ] = False
    policies: Annotated[AgentPolicies | None, Field(description="what differs from the configuration")] = None


class CreateArguments(NewAgent):
    """Arguments of agent_create."""

    ready_wait_ms: Annotated[
        int | None, Field(ge=0, le=110_000, description="how long to wait for ready; default 45 s")
    ] = None


class CreateManyArguments(Arguments):
    """Arguments of agents_create."""

    agents: Annotated[list[NewAgent], Field(min_length=1, max_length=MAX_AGENTS_PER_CALL, description="the team")]
    only_missing: Annotated[
        bool, Field(description="make none whose name an agent of your window has already; its row says existing")
    ] = False
    ready_wait_ms: Annotated[
        int | None, Field(ge=0, le=110_000, description="how long to wait for ready; default 45 s")
    ] = None


class GetArguments(Arguments):
    """Arguments of agent_get."""

    agent_id: AgentId
    wait_ms: WaitMs = 0
    since_seq: Annotated[
        int | None, Field(ge=0, description="with wait_ms: return when last_event_seq passes this")
    ] = None
    cursor: Cursor = None


class ListArguments(Arguments):
    """Arguments of agent_list."""

    scope: Annotated[
        Literal["current_window", "run", "all"],
        Field(description="the agents of your tmux window, of one team run, or of the whole project"),
    ] = "current_window"
    run_id: Annotated[str | None, Field(max_length=128, description="with scope run: which one")] = None


class DeleteArguments(Arguments):
    """Arguments of agent_delete."""

    agent_id: AgentId
    force: Annotated[bool, Field(description="kill at once instead of asking it to stop")] = False
    confirm: Annotated[str | None, Field(max_length=128, description="with force: repeat the agent_id")] = None


class RestartArguments(Arguments):
    """Arguments of agent_restart."""

    agent_id: AgentId
    fresh: Annotated[bool, Field(description="do not go on with the session of its last life")] = False
    ready_wait_ms: Annotated[
        int | None, Field(ge=0, le=110_000, description="how long to wait for ready; default 45 s")
    ] = None


class NewTask(Arguments):
    """A task to queue."""

    task_id: Annotated[str | None, Field(max_length=128, description="your id for it; made up when left out")] = None
    payload: Annotated[Any, Field(description='any JSON; for the shell engine {"command": "..."}, seen in ps')] = None
    timeout_s: Annotated[
        float | None,
        Field(gt=0, le=31_536_000, description="from its delivery: then a soft cancel, then error with timed_out"),
    ] = None


class EnqueueArguments(Arguments):
    """Arguments of task_enqueue."""

    agent_id: AgentId
    task: NewTask


class CancelArguments(Arguments):
    """Arguments of task_cancel."""

    agent_id: AgentId
    task_id: Annotated[str, Field(min_length=1, max_length=128)]


class EventsArguments(Arguments):
    """Arguments of events_read."""

    agent_id: AgentId
    since_seq: SinceSeq = 0
    max_events: MaxEvents = 100
    wait_ms: WaitMs = 0
    cursor: Cursor = None


class BroadcastArguments(Arguments):
    """Arguments of broadcast_read."""

    run_id: Annotated[str | None, Field(max_length=128, description="default: the run of your window")] = None
    since_seq: SinceSeq = 0
    max_events: MaxEvents = 100
    wait_ms: WaitMs = 0
    cursor: Cursor = None


_NEXT = "of a call with wait_ms: pass it next time, for some CLIs stop a model that repeats a call"


class _Answer(BaseModel):
    model_config = ConfigDict(extra="allow")


class CreateAnswer(_Answer):
    """Answer of agent_create."""

    agent_id: str
    tmux_pane_id: str | None
    paths: dict[str, str]
    ready: Annotated[bool, Field(description="false: still starting; wait on with agent_get(wait_ms)")]
    status: str
    run_id: str
    epoch: int
    engine: str
    untrusted: Untrusted = None


class CreateManyAnswer(_Answer):
    """Answer of agents_create, in the order of the request; a failed one has `error`."""

    agents: list[dict[str, Any]]
    ready: int
    untrusted: Untrusted = None


class GetAnswer(_Answer):
    """Answer of agent_get."""

    meta: dict[str, Any]
    cursor: Annotated[str | None, Field(description=_NEXT)] = None


class ListAnswer(_Answer):
    """Answer of agent_list."""

    agents: list[dict[str, Any]]


class DeleteAnswer(_Answer):
    """Answer of agent_delete."""

    ok: bool
    agent_id: str
    status: str
    canceled_tasks: list[str]


class RestartAnswer(_Answer):
    """Answer of agent_restart."""

    agent_id: str
    epoch: int
    ready: Annotated[bool, Field(description="false: still starting, or it failed; see status and reason")]
    status: str
    reason: str


class EnqueueAnswer(_Answer):
    """Answer of task_enqueue."""

    position: Annotated[int, Field(description="1 = head of the agent's unfinished tasks")]
    task_id: str
    state: str
    duplicate: bool | None = None


class CancelAnswer(_Answer):
    """Answer of task_cancel."""

    ok: bool
    state: Literal["cancel_requested"]
    task_state: str


class PageAnswer(_Answer):
    """Answer of events_read and broadcast_read."""

    events: list[dict[str, Any]]
    last_seq: Annotated[int, Field(description="pass it as since_seq next time")]
    more: bool
    cursor: Annotated[str | None, Field(description=_NEXT)] = None
