"""One connection: socket lines to the SDK's streams, and the SDK server made for that client.

The low-level `Server` is used because the high-level one masks errors, ignores unknown arguments and JSON-parses
strings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from inspect import signature
from secrets import compare_digest
from typing import Any

import anyio
import mcp_types as types
import structlog
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from pydantic import ConfigDict

from orchestrator.base.clock import call_off
from orchestrator.base.errors import OrchestratorError
from orchestrator.base.package_data import prompt
from orchestrator.core.prompts import queries_rule, render, worktree_rule
from orchestrator.core.toolsets import tools_of
from orchestrator.daemon.resources import Events, Resources
from orchestrator.edge import project_location
from orchestrator.edge.request_limits import BUSY, INVALID_REQUEST, RefusedLine
from orchestrator.edge.wire_format import rpc_error
from orchestrator.gsd import spawn_prompts
from orchestrator.gsd.wiring import TOOLSET, Questions
from orchestrator.protocol.sdk_messages import read, written
from orchestrator.protocol.tool_calls import Client, Tool, call_tool
from orchestrator.protocol.traffic import Incoming, TooLong, Traffic, drained
from orchestrator.protocol.wait_turns import WaitTurns, is_wait
from orchestrator.team.roster.roster import Roster

log = structlog.get_logger()
Context = ServerRequestContext[Any, Any]

INSTRUCTIONS = {
    "master": (
        "You can lead a team of sub-agents in panes of your tmux window. Create them with agents_create, give "
        "work with task_enqueue, follow with broadcast_read(wait_ms), end with agent_delete. See prompt lead_team."
    ),
    "squad": (
        "start_squad_members runs one-shot CLI members with roles (list_roles) in parallel and gives their output: "
        "for work that needs no conversation."
    ),
    "smartspawn": (
        "smartspawn_run_create starts a DAG of model calls and answers at once; smartspawn_run_result(wait_ms) gives "
        "the merged answer."
    ),
    "gsd": (
        "gsd_* tools answer from the project's .planning/ and code graph, read-only: gsd_query_intel finds files, "
        "gsd_blast_radius tells what a change affects, gsd_phase_status where the work stands."
    ),
    "agent": "You are a sub-agent. Call wait_for_command, do what it says, report with emit_event, call it again.",
    "reader": (
        "This connection can only read, because its process may come from an agent. To lead a team, "
        "start the CLI in a terminal."
    ),
    "refused": "This connection offers no tools.",
}
PROMPTS = {
    "lead_team": "How to lead a team of agents with these tools",
    "agent": "The loop a sub-agent follows",
}

IDENTITY = ("orchestrator", project_location.VERSION, "orchestrator")
GSD_IDENTITY = ("gsd", "1.0.0", "GSD Codebase Intelligence Server")
"""Name, version and title of who offers the gsd toolset alone, as its document has them (B3.7)."""


class AdminParams(types.RequestParams):
    """Parameters of the command line's own methods: the keyword arguments of what serves them."""

    model_config = ConfigDict(extra="allow")


Admin = Callable[..., Awaitable[dict[str, Any]]]


def build(
    client: Client,
    roster: Roster,
    tools: Mapping[str, Tool],
    admin: Mapping[str, Admin],
    *,
    events: Events | None = None,
    questions: Questions | None = None,
) -> tuple[Any, Any]:
    """The SDK server for one client, and its resources (None for agents).

    ``events``: of spawn runs; ``questions``: about the project; each only with its toolset.
    """
    listing = client.listing
    resources = Resources(client, roster, events, questions) if client.rights in ("master", "reader") else None
    identity = IDENTITY if questions is None or set(client.toolsets) != {TOOLSET} else GSD_IDENTITY

    own = {"agent": PROMPTS["agent"]}
    if identity is GSD_IDENTITY:
        own = {}
    elif client.rights in ("master", "reader"):
        own = PROMPTS

    async def list_tools(ctx: Context, _params: Any) -> types.ListToolsResult:
        listing.add(ctx.request_id)
        return types.ListToolsResult(tools=[tool.listed for tool in tools.values() if not tool.barred])

    async def call(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return await call_tool(tools, client, ctx, params)

    async def list_prompts(_ctx: Context, _params: Any) -> types.ListPromptsResult:
        found = [types.Prompt(name=name, description=about) for name, about in own.items()]
        return types.ListPromptsResult(prompts=[*found, *(spawn_prompts.listed() if questions is not None else ())])

    async def get_prompt(ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        name = params.name
        if questions is not None and name in spawn_prompts.PROMPTS:
            try:
                return await spawn_prompts.get(questions, ctx.session, name, params.arguments or {})
            except OrchestratorError as error:
                raise invalid_params(error.message, error) from None
        if name not in own:
            offered = [*own, *(spawn_prompts.PROMPTS if questions is not None else ())]
            raise invalid_params(f"no prompt is called {name!r}; there are: {', '.join(offered)}")
        return prompt_text(client, roster, name)

    served: dict[str, Any] = {
        "on_list_tools": list_tools,
        "on_call_tool": call,
        "on_list_prompts": list_prompts,
        "on_get_prompt": get_prompt,
    }
    if resources is not None:
        served |= resources.served()
    server: Server[Any] = Server(
        identity[0],
        version=identity[1],
        title=identity[2],
        instructions=instructions_for(client),
        **served,
    )
    if questions is not None:
        server.add_notification_handler(
            "notifications/roots/list_changed", types.NotificationParams, _roots_changed(questions)
        )
    for name, run in admin.items():
        server.add_request_handler(f"orchestrator/{name}", AdminParams, _admin_call(run))
    return server, resources


def instructions_for(client: Client) -> str:
    """The instructions of the server for a client, by its toolsets."""
    if client.rights != "master":
        return INSTRUCTIONS[client.rights]
    told = {"team": INSTRUCTIONS["master"]} | {name: INSTRUCTIONS[name] for name in ("squad", "smartspawn", TOOLSET)}
    return " ".join(text for toolset, text in told.items() if toolset in client.toolsets)


def _roots_changed(questions: Questions) -> Callable[[Context, Any], Awaitable[None]]:
    async def changed(_ctx: Context, _params: Any) -> None:
        questions.roots_changed()

    return changed


def _admin_call(run: Admin) -> Callable[[Context, AdminParams], Awaitable[dict[str, Any]]]:
    async def handle(_ctx: Context, params: AdminParams) -> dict[str, Any]:
        given = params.model_extra or {}
        try:
            signature(run).bind(**given)
            return await run(**given)
        except TypeError as error:
            raise invalid_params(str(error)) from None
        except OrchestratorError as error:
            raise invalid_params(error.message, error) from None

    return handle


def prompt_text(client: Client, roster: Roster, name: str) -> types.GetPromptResult:
    """One of `PROMPTS` with its names filled in."""
    values = {"project": str(roster.root), "agent_id": client.agent_id or "<agent_id>", "role": "", "artifacts": ""}
    entry = roster.agents.get(client.agent_id or "")
    if entry is not None:
        values["role"] = str(entry.state.spec.get("role", ""))
        values["artifacts"] = str(roster.paths.artifacts(entry.agent_id))
    text = render(prompt(name), values)
    tree = entry.state.spec.get("worktree") if entry is not None and name == "agent" else None
    if tree:
        text = f"{text.rstrip()}\n\n{worktree_rule(tree['path'], tree['branch'])}\n"
    queries = tools_of(entry.state.spec.get("toolsets") or ()) if entry is not None and name == "agent" else ()
    if queries:
        text = f"{text.rstrip()}\n\n{queries_rule(queries)}\n"
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.GetPromptResult(description=PROMPTS[name], messages=[message])


def invalid_params(message: str, error: OrchestratorError | None = None) -> Exception:
    """The JSON-RPC error of a failure outside a tool: -32602 with our code in ``data``."""
    from mcp.shared.exceptions import MCPError  # noqa: PLC0415

    return MCPError(types.INVALID_PARAMS, message, error.as_dict() if error else None)


def note_listed(client: Client, roster: Roster, answered: Any) -> None:
    """Once an agent's CLI has been sent our tools, its first prompt may go (`team.wake.parking`)."""
    entry = roster.agents.get(client.agent_id or "")
    if answered in client.listing and entry is not None and client.rights == "agent":
        client.listing.discard(answered)
        if entry.secret is not None and compare_digest(entry.secret, client.secret):
            entry.listed_epoch = client.epoch
            entry.changed.notify()


async def serve(
    server: Any,
    incoming: Incoming,
    writer: asyncio.StreamWriter,
    boot_id: str,
    sent: Callable[[Any], None] = lambda _key: None,
    *,
    turns: WaitTurns | None = None,
) -> None:
    """Serve one connection until it ends; ``sent`` gets the id of each request when its answer is being sent.

    ``turns`` is shared by all connections: their waits enter one after another.

    Ids of our own requests contain the daemon's boot id, because the SDK counts from 1 at every start: the answer to
    a request of a dead daemon must not be taken for the answer to a new one. ``Stalled`` if the client
    does not read.
    """
    into, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](64)
    write_stream, outof = anyio.create_memory_object_stream[SessionMessage | bytes](64)
    traffic = Traffic()

    async def receive() -> None:
        async with into:
            while True:
                await traffic.room()
                try:
                    line = await incoming.line()
                except TooLong as error:
                    await write_stream.send(rpc_error(None, INVALID_REQUEST, str(error)))
                    return
                if line is None:
                    return
                if not line.strip():
                    continue
                try:
                    message = read(line)
                except RefusedLine as refused:
                    if refused.kind == "request":
                        key = None if traffic.holds(refused.key) else refused.key
                        await write_stream.send(rpc_error(key, refused.code, refused.reason))
                    if refused.kind != "response":
                        continue
                    told = types.ErrorData(code=refused.code, message=refused.reason)
                    message = types.JSONRPCError(jsonrpc="2.0", id=str(refused.key), error=told)
                if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
                    own = str(message.id).removeprefix(f"{boot_id}:")
                    if own == str(message.id) or not own.isdecimal():
                        continue
                    message.id = int(own)
                if isinstance(message, types.JSONRPCRequest) and traffic.holds(message.id):
                    await write_stream.send(rpc_error(None, INVALID_REQUEST, BUSY))
                    continue
                if turns is not None and is_wait(message):
                    await turns.turn()
                metadata = ServerMessageMetadata(request_context=traffic.register(message))
                await into.send(SessionMessage(message, metadata))

    async def send() -> None:
        async with outof:
            async for item in outof:
                message = None if isinstance(item, bytes) else item.message
                if isinstance(message, types.JSONRPCRequest):
                    message.id = f"{boot_id}:{message.id}"
                with traffic.taking(message):
                    writer.write(item if isinstance(item, bytes) else written(item.message))
                    await drained(writer)
                if isinstance(message, types.JSONRPCResponse):
                    sent(message.id)

    receiving, sending = asyncio.create_task(receive()), asyncio.create_task(send())
    serving = asyncio.create_task(_run(server, read_stream, write_stream))
    try:
        await asyncio.wait([serving, sending], return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            await serving
        await sending  # what was answered last, or why nothing more can be
        await serving
    finally:
        await call_off([receiving, sending, serving])
        for stream in (into, read_stream, write_stream, outof):
            stream.close()


async def _run(server: Any, read_stream: Any, write_stream: Any) -> None:
    options = server.create_initialization_options(
        NotificationOptions(resources_changed=True, tools_changed=True, prompts_changed=False)
    )
    try:
        await server.run(read_stream, write_stream, options)
    except* (ConnectionError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass
