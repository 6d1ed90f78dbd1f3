"""The master's MCP tools: create agents, queue tasks, read events, end agents.

Each tool parses its arguments, makes one service call and answers; the rules are in the other files of `team`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.config.keys import Config
from orchestrator.config.sources import PROJECT_FILE
from orchestrator.protocol.call_limits import answer_by_s
from orchestrator.protocol.tool_calls import Call, Client, Tool
from orchestrator.team.life import agent_commands, creation
from orchestrator.team.life.agent_plan import AgentSpec
from orchestrator.team.life.supervisor import Supervisor
from orchestrator.team.models import (
    BroadcastArguments,
    CancelAnswer,
    CancelArguments,
    CreateAnswer,
    CreateArguments,
    CreateManyAnswer,
    CreateManyArguments,
    DeleteAnswer,
    DeleteArguments,
    EnqueueAnswer,
    EnqueueArguments,
    EventsArguments,
    GetAnswer,
    GetArguments,
    ListAnswer,
    ListArguments,
    NewAgent,
    PageAnswer,
    RestartAnswer,
    RestartArguments,
)
from orchestrator.team.roster import delivery, offline_view
from orchestrator.team.wake.masters import MasterConnection, Masters
from orchestrator.trust.untrusted_settings import untrusted_note

INSTRUCTIONS = (
    "You can lead a team of sub-agents in panes of your tmux window. Create them with agents_create, give "
    "work with task_enqueue, follow with broadcast_read(wait_ms), end with agent_delete. See prompt lead_team."
)


def spec_of(new_agent: NewAgent) -> AgentSpec:
    """The arguments of one new agent, as the creation service takes them."""
    return AgentSpec(
        new_agent.name,
        new_agent.role,
        new_agent.cwd,
        dict(new_agent.env or {}),
        new_agent.engine,
        new_agent.model,
        new_agent.approval,
        tuple(new_agent.command or ()),
        new_agent.policies.model_dump(exclude_none=True) if new_agent.policies else {},
        new_agent.worktree,
        new_agent.host,
    )


def poll_cap_s(config: Config, client: Client) -> float:
    """The longest time in seconds that a call may wait for records: the client's own limit where it is known.

    ``poll_cap_ms`` applies if the limit is unknown, and to every client if the user has set it.
    """
    cap_s, known_s = config.poll_cap_ms / 1000, answer_by_s(client)
    if known_s is None:
        return cap_s
    return min(cap_s, known_s) if "poll_cap_ms" in config.model_fields_set else known_s


def build(supervisor: Supervisor, masters: Masters) -> dict[str, Tool]:
    """The master's toolset over one supervisor; the CLI that calls becomes the run's master (`masters`)."""

    async def leads(call: Call, run_id: str | None) -> None:
        await masters.used(
            MasterConnection(call.client.name, call.client.origin), supervisor.roster.runs.get(run_id or "")
        )

    async def leads_agent(call: Call, agent_id: str) -> None:
        # After the change of a call, never before: calls sent in a row must be carried out in that order.
        roster = supervisor.roster
        entry = roster.agents.get(agent_id) or roster.replicas.get(agent_id)
        await leads(call, entry.run_id if entry is not None else None)

    def poll(call: Call, wait_ms: int) -> float:
        return max(0.0, min(wait_ms / 1000, poll_cap_s(supervisor.roster.config(), call.client)) - call.age_s)

    def polled(answer: dict[str, Any], wait_ms: int) -> dict[str, Any]:
        return {**answer, "cursor": delivery.fresh_cursor()} if wait_ms else answer

    def ready_wait(call: Call, wait_ms: int | None) -> float:
        wanted = supervisor.roster.config().ready_wait_ms if wait_ms is None else wait_ms
        return max(0.0, wanted / 1000 - call.age_s)

    async def create(call: Call, arguments: CreateArguments) -> dict[str, Any]:
        (answer,), withheld = await creation.create(
            supervisor,
            call.client.origin,
            [spec_of(arguments)],
            req=call.req,
            client_name=call.client.name,
            wait_s=ready_wait(call, arguments.ready_wait_ms),
            tell=call.tell,
        )
        if isinstance(answer, Exception):
            raise answer
        return answer | untrusted_note(withheld)

    async def create_many(call: Call, arguments: CreateManyArguments) -> dict[str, Any]:
        answers, withheld = await creation.create(
            supervisor,
            call.client.origin,
            [spec_of(agent) for agent in arguments.agents],
            req=call.req,
            client_name=call.client.name,
            wait_s=ready_wait(call, arguments.ready_wait_ms),
            tell=call.tell,
            many=True,
            only_missing=arguments.only_missing,
        )
        rows = [
            {"name": agent.name, "error": answer.as_dict()} if isinstance(answer, Exception) else answer
            for agent, answer in zip(arguments.agents, answers, strict=True)
        ]
        ready = sum(1 for row in rows if row.get("ready"))
        return {"agents": rows, "ready": ready, **untrusted_note(withheld)}

    async def get(call: Call, arguments: GetArguments) -> dict[str, Any]:
        wait_s = poll(call, arguments.wait_ms)
        await leads_agent(call, arguments.agent_id)
        meta = await agent_commands.get(
            supervisor.roster, arguments.agent_id, wait_s=wait_s, since_seq=arguments.since_seq
        )
        return polled({"meta": meta}, arguments.wait_ms)

    async def list_(call: Call, arguments: ListArguments) -> dict[str, Any]:
        rows = await agent_commands.listed(supervisor, call.client.origin, arguments.scope, arguments.run_id)
        if arguments.scope == "current_window" and rows:
            await leads(call, rows[0]["run_id"])
        return {"agents": rows}

    async def delete(call: Call, arguments: DeleteArguments) -> dict[str, Any]:
        if arguments.force and arguments.confirm != arguments.agent_id:
            raise BadRequest(
                "confirm_needed",
                f"force ends {arguments.agent_id} at once and loses its work; confirm must repeat the id",
            )
        answer = await agent_commands.delete(
            supervisor, arguments.agent_id, force=arguments.force, req=call.req, tell=call.tell
        )
        await leads_agent(call, arguments.agent_id)
        return answer

    async def restart(call: Call, arguments: RestartArguments) -> dict[str, Any]:
        answer = await agent_commands.restart(
            supervisor,
            call.client.origin,
            arguments.agent_id,
            fresh=arguments.fresh,
            req=call.req,
            wait_s=ready_wait(call, arguments.ready_wait_ms),
            tell=call.tell,
        )
        await leads_agent(call, arguments.agent_id)
        # An agent's permissions are in its spec; the trust in its folder is checked again at each launch.
        trust = {PROJECT_FILE: ["trust"]} if "trust" in supervisor.roster.withheld() else {}
        return answer | untrusted_note(trust)

    async def enqueue(call: Call, arguments: EnqueueArguments) -> dict[str, Any]:
        answer = await delivery.enqueue(
            supervisor.roster,
            arguments.agent_id,
            task_id=arguments.task.task_id,
            payload=arguments.task.payload,
            req=call.req,
            timeout_s=arguments.task.timeout_s,
            title=arguments.task.title or "",
        )
        await leads_agent(call, arguments.agent_id)
        return answer

    async def cancel(call: Call, arguments: CancelArguments) -> dict[str, Any]:
        answer = await delivery.cancel(supervisor.roster, arguments.agent_id, task_id=arguments.task_id, req=call.req)
        await leads_agent(call, arguments.agent_id)
        return answer

    async def events(call: Call, arguments: EventsArguments) -> dict[str, Any]:
        if supervisor.roster.is_foreign(arguments.agent_id):
            page = await asyncio.to_thread(
                offline_view.events,
                supervisor.roster.root,
                arguments.agent_id,
                arguments.since_seq,
                arguments.max_events,
            )
            return polled(page, arguments.wait_ms)
        await leads_agent(call, arguments.agent_id)
        page = await delivery.events_read(
            supervisor.roster,
            arguments.agent_id,
            since_seq=arguments.since_seq,
            max_events=arguments.max_events,
            wait_s=poll(call, arguments.wait_ms),
        )
        run = supervisor.roster.runs.get((await supervisor.roster.reading(arguments.agent_id)).run_id)
        if run is not None and call.client.origin.leads:
            run.read_of[arguments.agent_id] = max(run.read_of.get(arguments.agent_id, 0), page["last_seq"])
        return polled(page, arguments.wait_ms)

    async def broadcast(call: Call, arguments: BroadcastArguments) -> dict[str, Any]:
        if arguments.run_id is not None and supervisor.roster.is_foreign(arguments.run_id):
            page = await asyncio.to_thread(
                offline_view.broadcast,
                supervisor.roster.root,
                arguments.run_id,
                arguments.since_seq,
                arguments.max_events,
            )
            return polled(page, arguments.wait_ms)
        run = await agent_commands.run_of(supervisor, call.client.origin, arguments.run_id)
        await leads(call, run.run_id)
        page = await delivery.broadcast_read(
            supervisor.roster,
            run,
            since_seq=arguments.since_seq,
            max_events=arguments.max_events,
            wait_s=poll(call, arguments.wait_ms),
            gen=arguments.gen,
        )
        if call.client.origin.leads:
            run.read = max(run.read, page["last_seq"])
        return polled(page, arguments.wait_ms)

    tools = (
        Tool(
            "agent_create",
            "Create an agent",
            "Split a pane in your tmux window, start a sub-agent in it and wait until it is ready for tasks. "
            "For several agents use agents_create: they start in parallel. ready=false means that the agent is still "
            "starting: you can enqueue tasks already, or wait with agent_get(wait_ms).",
            CreateArguments,
            CreateAnswer,
            create,
            open_world=True,
        ),
        Tool(
            "agents_create",
            "Create several agents",
            "Create a team: all panes first, then all programs start in parallel. A bad entry does not stop the "
            "others; its row has `error`.",
            CreateManyArguments,
            CreateManyAnswer,
            create_many,
            open_world=True,
        ),
        Tool(
            "agent_get",
            "Get one agent",
            "Return one agent's status and its reason, queue, running task, counts, file paths and worktree. With "
            "wait_ms, return when the agent is ready (or passes since_seq), or after that time; pass the returned "
            "cursor to the next call.",
            GetArguments,
            GetAnswer,
            get,
            read_only=True,
            idempotent=True,
        ),
        Tool(
            "agent_list",
            "List agents",
            "List the agents of your window, of a run or of the project: status, queue depth, running task, last "
            "event.",
            ListArguments,
            ListAnswer,
            list_,
            read_only=True,
            idempotent=True,
        ),
        Tool(
            "agent_restart",
            "Restart an agent",
            "End the agent's program if it runs and start it again; works for a failed agent too. Its queue is "
            "kept. Its running task is delivered again (attempt + 1) or ends in error, depending on its policy "
            "on_lost.",
            RestartArguments,
            RestartAnswer,
            restart,
            destructive=True,
            open_world=True,
        ),
        Tool(
            "agent_delete",
            "End an agent",
            "Ask the agent to stop, end its program and close its pane. Its unfinished tasks end as canceled; its "
            "files and worktree stay. force (with confirm = the agent_id) ends it without asking.",
            DeleteArguments,
            DeleteAnswer,
            delete,
            destructive=True,
            idempotent=True,
        ),
        Tool(
            "task_enqueue",
            "Give an agent a task",
            "Queue a task and return its position. An agent works on one task at a time, first in, first out. Every "
            "task ends in exactly one result, error or canceled: read it with broadcast_read or events_read "
            "(wait_ms).",
            EnqueueArguments,
            EnqueueAnswer,
            enqueue,
            open_world=True,
            limits=lambda: {"max_payload_bytes": supervisor.roster.config().max_payload_bytes},
        ),
        Tool(
            "task_cancel",
            "Cancel a task",
            "Cancel a task softly: a queued task ends at once, a running task when its agent reaches a safe point. "
            "Nothing is killed.",
            CancelArguments,
            CancelAnswer,
            cancel,
            idempotent=True,
        ),
        Tool(
            "events_read",
            "Read an agent's events",
            "Return one agent's events after since_seq: ready, delivered, ack, progress, result, error, canceled and "
            "more. Pass the returned last_seq and cursor to the next call; wait_ms waits for new events.",
            EventsArguments,
            PageAnswer,
            events,
            read_only=True,
            idempotent=True,
        ),
        Tool(
            "broadcast_read",
            "Read the team's digest",
            "Return the team's events after since_seq: every ended task, and when an agent gets ready, is blocked, "
            "stalls, exits, is restarted or fails. The cheapest way to follow a team. Pass the returned last_seq and "
            "cursor to the next call; wait_ms waits for new events.",
            BroadcastArguments,
            PageAnswer,
            broadcast,
            read_only=True,
            idempotent=True,
        ),
    )
    return {tool.name: tool for tool in tools}
