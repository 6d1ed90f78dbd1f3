"""The master's tools: make agents, give them work, see what happens, end them.

Parse, one service call, answer: the rules are in `team`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.errors import BadRequest
from orchestrator.server.toolset import Arguments, Call, Tool
from orchestrator.team import agents, tasks
from orchestrator.team.supervisor import Supervisor

MAX_AGENTS_PER_CALL = 64

AgentId = Annotated[str, Field(min_length=1, max_length=128, description="the agent_id that agent_create returned")]
WaitMs = Annotated[
    int,
    Field(ge=0, le=600_000, description="wait up to so long for news instead of answering at once (at most 45 s)"),
]
SinceSeq = Annotated[int, Field(ge=0, description="only records behind this seq; pass the last_seq you got")]
MaxEvents = Annotated[int, Field(ge=1, le=1000, description="at most so many records")]


class NewAgent(Arguments):
    """One agent to create."""

    name: Annotated[str, Field(min_length=1, max_length=80, description="a short name; the agent_id is made of it")]
    role: Annotated[str, Field(min_length=1, max_length=80, description="what the agent is for, as shown to humans")]
    cwd: Annotated[str | None, Field(max_length=4096, description="working directory inside the project")] = None
    env: Annotated[dict[str, str] | None, Field(description="environment variables to add")] = None
    engine: Annotated[str | None, Field(max_length=64, description="which CLI to run; default: as configured")] = None


class CreateArguments(NewAgent):
    """Arguments of agent_create."""

    ready_wait_ms: Annotated[
        int | None, Field(ge=0, le=110_000, description="how long to wait for ready; default 45 s")
    ] = None


class CreateManyArguments(Arguments):
    """Arguments of agents_create."""

    agents: Annotated[list[NewAgent], Field(min_length=1, max_length=MAX_AGENTS_PER_CALL, description="the team")]
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


class NewTask(Arguments):
    """A task to queue."""

    task_id: Annotated[str | None, Field(max_length=128, description="your id for it; made up when left out")] = None
    payload: Annotated[Any, Field(description='any JSON; for the shell engine {"command": "..."}')] = None


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


class BroadcastArguments(Arguments):
    """Arguments of broadcast_read."""

    run_id: Annotated[str | None, Field(max_length=128, description="default: the run of your window")] = None
    since_seq: SinceSeq = 0
    max_events: MaxEvents = 100
    wait_ms: WaitMs = 0


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


class CreateManyAnswer(_Answer):
    """Answer of agents_create, in the order of the request; a failed one has `error`."""

    agents: list[dict[str, Any]]
    ready: int


class GetAnswer(_Answer):
    """Answer of agent_get."""

    meta: dict[str, Any]


class ListAnswer(_Answer):
    """Answer of agent_list."""

    agents: list[dict[str, Any]]


class DeleteAnswer(_Answer):
    """Answer of agent_delete."""

    ok: bool
    agent_id: str
    status: str
    canceled_tasks: list[str]


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


def spec_of(given: NewAgent) -> agents.Spec:
    """The arguments as the service takes them."""
    return agents.Spec(given.name, given.role, given.cwd, dict(given.env or {}), given.engine)


def build(supervisor: Supervisor) -> dict[str, Tool]:
    """The master's toolset over one supervisor."""

    def poll(call: Call, wait_ms: int) -> float:
        return max(0.0, min(wait_ms, call.roster.config().poll_cap_ms) / 1000 - call.age_s)

    def ready_wait(call: Call, wait_ms: int | None) -> float:
        wanted = call.roster.config().ready_wait_ms if wait_ms is None else wait_ms
        return max(0.0, wanted / 1000 - call.age_s)

    async def create(call: Call, given: CreateArguments) -> dict[str, Any]:
        (answer,) = await agents.create(
            supervisor,
            call.client.origin,
            [spec_of(given)],
            req=call.req,
            client_name=call.client.name,
            wait_s=ready_wait(call, given.ready_wait_ms),
            tell=call.tell,
        )
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def create_many(call: Call, given: CreateManyArguments) -> dict[str, Any]:
        answers = await agents.create(
            supervisor,
            call.client.origin,
            [spec_of(one) for one in given.agents],
            req=call.req,
            client_name=call.client.name,
            wait_s=ready_wait(call, given.ready_wait_ms),
            tell=call.tell,
            many=True,
        )
        rows = [
            {"name": one.name, "error": answer.as_dict()} if isinstance(answer, Exception) else answer
            for one, answer in zip(given.agents, answers, strict=True)
        ]
        return {"agents": rows, "ready": sum(1 for row in rows if row.get("ready"))}

    async def get(call: Call, given: GetArguments) -> dict[str, Any]:
        wait_s = poll(call, given.wait_ms)
        return {"meta": await agents.get(call.roster, given.agent_id, wait_s=wait_s, since_seq=given.since_seq)}

    async def list_(call: Call, given: ListArguments) -> dict[str, Any]:
        return {"agents": await agents.listed(supervisor, call.client.origin, given.scope, given.run_id)}

    async def delete(call: Call, given: DeleteArguments) -> dict[str, Any]:
        if given.force and given.confirm != given.agent_id:
            raise BadRequest("confirm_needed", f"force ends {given.agent_id} at once; its work is lost")
        return await agents.delete(supervisor, given.agent_id, force=given.force, req=call.req, tell=call.tell)

    async def enqueue(call: Call, given: EnqueueArguments) -> dict[str, Any]:
        return await tasks.enqueue(
            call.roster, given.agent_id, task_id=given.task.task_id, payload=given.task.payload, req=call.req
        )

    async def cancel(call: Call, given: CancelArguments) -> dict[str, Any]:
        return await tasks.cancel(call.roster, given.agent_id, task_id=given.task_id, req=call.req)

    async def events(call: Call, given: EventsArguments) -> dict[str, Any]:
        return await tasks.events_read(
            call.roster,
            given.agent_id,
            since_seq=given.since_seq,
            max_events=given.max_events,
            wait_s=poll(call, given.wait_ms),
        )

    async def broadcast(call: Call, given: BroadcastArguments) -> dict[str, Any]:
        run = await agents.run_of(supervisor, call.client.origin, given.run_id)
        return await tasks.broadcast_read(
            call.roster,
            run,
            since_seq=given.since_seq,
            max_events=given.max_events,
            wait_s=poll(call, given.wait_ms),
        )

    tools = (
        Tool(
            "agent_create",
            "Create an agent",
            "Split a pane in your own tmux window, start a sub-agent in it and wait until it is ready for tasks. "
            "Several agents start faster together: agents_create. With ready=false the agent is still starting: "
            "enqueue anyway, or wait with agent_get(wait_ms).",
            CreateArguments,
            CreateAnswer,
            create,
            open_world=True,
        ),
        Tool(
            "agents_create",
            "Create several agents",
            "Create a team: first all panes, then all programs start in parallel. One bad entry fails alone; its row "
            "has error.",
            CreateManyArguments,
            CreateManyAnswer,
            create_many,
            open_world=True,
        ),
        Tool(
            "agent_get",
            "Look at one agent",
            "One agent's status with its reason, queue, running task, counts and file paths. With wait_ms: returns "
            "when it is ready (or passes since_seq), or after that time.",
            GetArguments,
            GetAnswer,
            get,
            read_only=True,
            idempotent=True,
        ),
        Tool(
            "agent_list",
            "List agents",
            "The agents of your window (or of a run, or all): status, queue depth, running task, last event.",
            ListArguments,
            ListAnswer,
            list_,
            read_only=True,
            idempotent=True,
        ),
        Tool(
            "agent_delete",
            "End an agent",
            "Ask the agent to stop, end its program, close its pane; its unfinished tasks end as canceled, its files "
            "stay. force (with confirm = the agent_id) skips the asking.",
            DeleteArguments,
            DeleteAnswer,
            delete,
            destructive=True,
            idempotent=True,
        ),
        Tool(
            "task_enqueue",
            "Give an agent a task",
            "Queue a task; the agent works on one at a time, first in, first out. Returns its position. Every task "
            "ends in exactly one result, error or canceled: follow with broadcast_read or events_read (wait_ms).",
            EnqueueArguments,
            EnqueueAnswer,
            enqueue,
            open_world=True,
        ),
        Tool(
            "task_cancel",
            "Cancel a task",
            "Ask for a soft cancel: a queued task ends at once, a running one when its agent reaches a safe point. "
            "Nothing is killed.",
            CancelArguments,
            CancelAnswer,
            cancel,
            idempotent=True,
        ),
        Tool(
            "events_read",
            "Read an agent's events",
            "What happened with one agent behind since_seq: ready, delivered, ack, progress, result, error, canceled "
            "and more. Pass the returned last_seq next time; wait_ms waits for news.",
            EventsArguments,
            PageAnswer,
            events,
            read_only=True,
            idempotent=True,
        ),
        Tool(
            "broadcast_read",
            "Read the team's digest",
            "What ended and what changed in the whole team behind since_seq: the cheapest way to follow it. Pass the "
            "returned last_seq next time; wait_ms waits for news.",
            BroadcastArguments,
            PageAnswer,
            broadcast,
            read_only=True,
            idempotent=True,
        ),
    )
    return {tool.name: tool for tool in tools}
