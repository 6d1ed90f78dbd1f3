"""Arguments and answers of the master's tools: the models of their input and output schemas. No behavior."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.protocol.tool_calls import Arguments, Id, Untrusted

MAX_AGENTS_PER_CALL = 64

AgentId = Annotated[Id, Field(min_length=1, max_length=128, description="The `agent_id` that agent_create returned.")]
WaitMs = Annotated[
    int,
    Field(
        ge=0,
        le=600_000,
        description="Wait up to this many milliseconds for new records; 0 answers at once. "
        "Capped at your CLI's limit for one call.",
    ),
]
Cursor = Annotated[
    str | None, Field(max_length=64, description="With wait_ms: the `cursor` of the previous answer, if it had one.")
]
SinceSeq = Annotated[
    int,
    Field(
        ge=0,
        description="Return only records after this sequence number. Pass the `last_seq` of the previous answer.",
    ),
]
MaxEvents = Annotated[int, Field(ge=1, le=1000, description="Maximum number of records to return.")]


class AgentPolicies(Arguments):
    """Settings of one agent; each default is the configuration's setting of the same name."""

    restart: Annotated[
        Literal["on-failure", "never", "always"] | None, Field(description="When its CLI is restarted.")
    ] = None
    max_restarts: Annotated[
        int | None, Field(ge=0, le=100, description="Restarts within restart_window_s before it is failed.")
    ] = None
    restart_window_s: Annotated[float | None, Field(ge=1, le=31_536_000)] = None
    on_lost: Annotated[
        Literal["requeue", "fail"] | None, Field(description="What happens to its running task if its CLI dies.")
    ] = None
    on_pane_closed: Annotated[
        Literal["cancel", "requeue"] | None,
        Field(description="What happens to its running task if a human closes its pane."),
    ] = None
    max_attempts: Annotated[
        int | None, Field(ge=1, le=100, description="How often a task may be started before it ends in `error`.")
    ] = None
    on_host_lost: Annotated[
        Literal["wait", "move"] | None,
        Field(description="With host: wait for a lost host, or move to another one and run its task again."),
    ] = None
    stall_after_s: Annotated[
        float | None,
        Field(
            ge=1, le=31_536_000, description="Seconds of a task without a call or a change on its screen: `stalled`."
        ),
    ] = None


class NewAgent(Arguments):
    """One agent to create."""

    name: Annotated[
        str, Field(min_length=1, max_length=80, description="Short name. The `agent_id` is derived from it.")
    ]
    role: Annotated[
        str,
        Field(min_length=1, max_length=80, description="A label, or the id of a role, whose text joins its rules."),
    ]
    cwd: Annotated[str | None, Field(max_length=4096, description="Working directory inside the project.")] = None
    env: Annotated[dict[str, str] | None, Field(description="Environment variables to add.")] = None
    engine: Annotated[str | None, Field(max_length=64, description="CLI to run; default: as configured.")] = None
    model: Annotated[str | None, Field(max_length=200, description="Model for the CLI; default: the CLI's own.")] = (
        None
    )
    approval: Annotated[
        Literal["ask", "edits", "all"] | None,
        Field(
            description="What its CLI may do without asking: ask (what the user's settings allow), edits, all. "
            "Default: the role's, else as configured."
        ),
    ] = None
    command: Annotated[
        list[str] | None,
        Field(max_length=200, description="For engine `command`: argv with {prompt} or {prompt_file}."),
    ] = None
    worktree: Annotated[
        bool, Field(description="Give it its own git worktree and branch, from the project's last commit.")
    ] = False
    policies: Annotated[AgentPolicies | None, Field(description="Settings that differ from the configuration.")] = (
        None
    )
    host: Annotated[
        str | None,
        Field(
            max_length=63, description="Host of the fleet to run it on, or `any`. Default: this one, not in a fleet."
        ),
    ] = None


class CreateArguments(NewAgent):
    """Arguments of agent_create."""

    ready_wait_ms: Annotated[
        int | None, Field(ge=0, le=110_000, description="Time to wait for ready, in milliseconds; default 45000.")
    ] = None


class CreateManyArguments(Arguments):
    """Arguments of agents_create."""

    agents: Annotated[
        list[NewAgent], Field(min_length=1, max_length=MAX_AGENTS_PER_CALL, description="The agents to create.")
    ]
    only_missing: Annotated[
        bool, Field(description="Skip names that agents of your window already have; their rows have `existing`.")
    ] = False
    ready_wait_ms: Annotated[
        int | None, Field(ge=0, le=110_000, description="Time to wait for ready, in milliseconds; default 45000.")
    ] = None


class GetArguments(Arguments):
    """Arguments of agent_get."""

    agent_id: AgentId
    wait_ms: WaitMs = 0
    since_seq: Annotated[
        int | None, Field(ge=0, description="With wait_ms: return when `last_event_seq` passes this number.")
    ] = None
    cursor: Cursor = None


class ListArguments(Arguments):
    """Arguments of agent_list."""

    scope: Annotated[
        Literal["current_window", "run", "all"],
        Field(description="Agents of your tmux window, of one team run, or of the whole project."),
    ] = "current_window"
    run_id: Annotated[Id | None, Field(max_length=128, description="With scope run: the run to list.")] = None


class DeleteArguments(Arguments):
    """Arguments of agent_delete."""

    agent_id: AgentId
    force: Annotated[bool, Field(description="Kill it at once instead of asking it to stop.")] = False
    confirm: Annotated[Id | None, Field(max_length=128, description="With force: repeat the `agent_id`.")] = None


class RestartArguments(Arguments):
    """Arguments of agent_restart."""

    agent_id: AgentId
    fresh: Annotated[bool, Field(description="Start a new session instead of resuming the last one.")] = False
    ready_wait_ms: Annotated[
        int | None, Field(ge=0, le=110_000, description="Time to wait for ready, in milliseconds; default 45000.")
    ] = None


class NewTask(Arguments):
    """A task to queue."""

    task_id: Annotated[Id | None, Field(max_length=128, description="Your id for the task; default: generated.")] = (
        None
    )
    title: Annotated[
        str | None,
        Field(max_length=200, description="Short title for people, at most 80 characters; default: the first words."),
    ] = None
    payload: Annotated[
        Any,
        Field(
            description='Any JSON, such as {"task": "<words>"}; for engine shell {"command": "..."}, visible in ps. '
            "At most {max_payload_bytes} bytes: write more to a file, pass its path."
        ),
    ] = None
    timeout_s: Annotated[
        float | None,
        Field(
            gt=0,
            le=31_536_000,
            description="Seconds from its delivery to a soft cancel; if that fails, it ends in error with timed_out.",
        ),
    ] = None


class EnqueueArguments(Arguments):
    """Arguments of task_enqueue."""

    agent_id: AgentId
    task: NewTask


class CancelArguments(Arguments):
    """Arguments of task_cancel."""

    agent_id: AgentId
    task_id: Annotated[Id, Field(min_length=1, max_length=128)]
    """The task."""


class EventsArguments(Arguments):
    """Arguments of events_read."""

    agent_id: AgentId
    since_seq: SinceSeq = 0
    max_events: MaxEvents = 100
    wait_ms: WaitMs = 0
    cursor: Cursor = None


class BroadcastArguments(Arguments):
    """Arguments of broadcast_read."""

    run_id: Annotated[Id | None, Field(max_length=128, description="Default: the run of your window.")] = None
    since_seq: SinceSeq = 0
    max_events: MaxEvents = 100
    wait_ms: WaitMs = 0
    cursor: Cursor = None
    gen: Annotated[int | None, Field(ge=1, description="`gen` of the previous answer, if it had one.")] = None


_NEXT = "Only with wait_ms. Pass it to the next call: some CLIs stop a model that repeats a call."


class _ToolAnswer(BaseModel):
    model_config = ConfigDict(extra="allow")


class CreateAnswer(_ToolAnswer):
    """Answer of agent_create."""

    agent_id: str
    """The agent."""
    tmux_pane_id: str | None
    """The agent's pane."""
    paths: dict[str, str]
    """Absolute paths: meta, inbox, outbox, artifacts."""
    ready: Annotated[bool, Field(description="false: still starting; wait with agent_get(wait_ms).")]
    status: str
    """One of the statuses of lifecycle.md."""
    run_id: str
    """The team run."""
    epoch: int
    """Number of the agent's launch."""
    engine: str
    """Which CLI runs in the pane."""
    untrusted: Untrusted = None


class CreateManyAnswer(_ToolAnswer):
    """Answer of agents_create, in the order of the request; the row of a failed entry has `error`."""

    agents: list[dict[str, Any]]
    """One entry per agent."""
    ready: int
    """How many are ready for tasks."""
    untrusted: Untrusted = None


class GetAnswer(_ToolAnswer):
    """Answer of agent_get."""

    meta: dict[str, Any]
    """See the table below."""
    cursor: Annotated[str | None, Field(description=_NEXT)] = None


class ListAnswer(_ToolAnswer):
    """Answer of agent_list."""

    agents: list[dict[str, Any]]
    """One entry per agent."""


class DeleteAnswer(_ToolAnswer):
    """Answer of agent_delete."""

    ok: bool
    """Always true; a failure is an error."""
    agent_id: str
    """The agent."""
    status: str
    """One of the statuses of lifecycle.md."""
    canceled_tasks: list[str]
    """The tasks that this call ended."""


class RestartAnswer(_ToolAnswer):
    """Answer of agent_restart."""

    agent_id: str
    """The agent."""
    epoch: int
    """Number of the agent's new launch."""
    ready: Annotated[bool, Field(description="false: still starting or failed; see status and reason.")]
    status: str
    """One of the statuses of lifecycle.md."""
    reason: str
    """Why it has this status."""


class EnqueueAnswer(_ToolAnswer):
    """Answer of task_enqueue."""

    position: Annotated[int, Field(description="1 = first of the agent's unfinished tasks.")]
    task_id: str
    """The task."""
    state: str
    """The task's state."""
    duplicate: bool | None = None
    """True: already stored, nothing was added."""


class CancelAnswer(_ToolAnswer):
    """Answer of task_cancel."""

    ok: bool
    """Always true; a failure is an error."""
    state: Literal["cancel_requested"]
    """That the cancel is stored."""
    task_state: str
    """The task's state after the call."""


class PageAnswer(_ToolAnswer):
    """Answer of events_read and broadcast_read."""

    events: list[dict[str, Any]]
    """The records, without v, crc and req."""
    last_seq: Annotated[int, Field(description="Pass it as since_seq to the next call.")]
    more: bool
    """True: there is more, read on at once."""
    provisional: Annotated[
        bool | None,
        Field(description="True: the last of them is not in the fleet's database yet, and may be undone."),
    ] = None
    cursor: Annotated[str | None, Field(description=_NEXT)] = None
