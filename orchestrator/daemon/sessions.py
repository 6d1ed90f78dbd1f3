"""One connection: socket lines to the SDK's streams, and the SDK server made for that client.

The low-level `Server` is used because the high-level one masks errors, ignores unknown arguments and JSON-parses
strings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from inspect import signature
from typing import Any

import anyio
import mcp_types as types
import structlog
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from pydantic import ConfigDict

from orchestrator.base.clock import call_off
from orchestrator.base.errors import OrchestratorError
from orchestrator.daemon.resources import Context, Resources
from orchestrator.edge.request_limits import BUSY, INVALID_REQUEST, RefusedLine
from orchestrator.edge.wire_format import rpc_error
from orchestrator.protocol.offers import OWN_IDENTITY, AdminMethods, Offer
from orchestrator.protocol.sdk_messages import read, written
from orchestrator.protocol.tool_calls import Client, call_tool, only_reading, request_key
from orchestrator.protocol.traffic import Incoming, TooLong, Traffic, drained
from orchestrator.protocol.wait_turns import WaitTurns, is_wait

log = structlog.get_logger()

INSTRUCTIONS = {
    "reader": (
        "This connection can only read, because its process may come from an agent. To lead a team, "
        "start the CLI in a terminal."
    ),
    "refused": "This connection offers no tools.",
}
"""In place of the features' instructions, for a connection with fewer rights."""


class AdminParams(types.RequestParams):
    """Parameters of the command line's own methods: the keyword arguments of what serves them."""

    model_config = ConfigDict(extra="allow")


def build(client: Client, offers: Sequence[Offer], admin: AdminMethods | None = None) -> tuple[Any, Any]:
    """The SDK server for one client, of what the features offer it, and its resources (None if it has none)."""
    listing = client.listing
    tools = {name: tool for offer in offers for name, tool in offer.tools.items()}
    if client.rights == "reader":
        tools = only_reading(tools)
    prompts = [offer.prompts for offer in offers if offer.prompts is not None]
    sources = [offer.resources for offer in offers if offer.resources is not None]
    resources = Resources(client, sources) if sources else None

    async def list_tools(ctx: Context, _params: Any) -> types.ListToolsResult:
        listing.add(ctx.request_id)
        return types.ListToolsResult(tools=[tool.listed for tool in tools.values() if not tool.barred])

    async def call(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return await call_tool(tools, client, ctx, params)

    async def list_prompts(_ctx: Context, _params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[prompt for source in prompts for prompt in source.listed()])

    async def get_prompt(ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        name = params.name
        for source in prompts:
            if name in source.names:
                try:
                    return await source.get(name, params.arguments or {}, ctx.session)
                except OrchestratorError as error:
                    raise invalid_params(error.message, error) from None
        offered = [name for source in prompts for name in source.names]
        raise invalid_params(f"no prompt is called {name!r}; there are: {', '.join(offered)}")

    served: dict[str, Any] = {
        "on_list_tools": list_tools,
        "on_call_tool": call,
        "on_list_prompts": list_prompts,
        "on_get_prompt": get_prompt,
    }
    if resources is not None:
        served |= resources.served()
    identity = offers[0].identity if len(offers) == 1 else OWN_IDENTITY
    server: Server[Any] = Server(
        identity.name,
        version=identity.version,
        title=identity.title,
        instructions=INSTRUCTIONS.get(client.rights) or " ".join(filter(None, (o.instructions for o in offers))),
        **served,
    )
    for roots_changed in filter(None, (offer.roots_changed for offer in offers)):
        server.add_notification_handler(
            "notifications/roots/list_changed", types.NotificationParams, _roots_changed(roots_changed)
        )
    for name, run in (admin or {}).items():
        server.add_request_handler(f"orchestrator/{name}", AdminParams, _admin_call(client, run))
    return server, resources


def _roots_changed(hear: Callable[[], None]) -> Callable[[Context, Any], Awaitable[None]]:
    async def changed(_ctx: Context, _params: Any) -> None:
        hear()

    return changed


def _admin_call(
    client: Client, run: Callable[..., Awaitable[dict[str, Any]]]
) -> Callable[[Context, AdminParams], Awaitable[dict[str, Any]]]:
    """The handler of a method. If ``run`` takes ``req``, it gets the request's key, never a value of the client."""
    parameters = signature(run).parameters

    async def handle(ctx: Context, params: AdminParams) -> dict[str, Any]:
        given = dict(params.model_extra or {})
        if "req" in parameters:
            given["req"] = request_key(client, ctx.request_id)
        try:
            signature(run).bind(**given)
            return await run(**given)
        except TypeError as error:
            raise invalid_params(str(error)) from None
        except OrchestratorError as error:
            raise invalid_params(error.message, error) from None

    return handle


def invalid_params(message: str, error: OrchestratorError | None = None) -> Exception:
    """The JSON-RPC error of a failure outside a tool: -32602 with our code in ``data``."""
    from mcp.shared.exceptions import MCPError  # noqa: PLC0415

    return MCPError(types.INVALID_PARAMS, message, error.as_dict() if error else None)


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
                    error_data = types.ErrorData(code=refused.code, message=refused.reason)
                    message = types.JSONRPCError(jsonrpc="2.0", id=str(refused.key), error=error_data)
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
