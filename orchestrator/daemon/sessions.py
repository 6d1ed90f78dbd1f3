"""What serves one connection: the SDK server made for that client, its resources, and its direct tool calls.

The low-level `Server` is used because the high-level one masks errors, ignores unknown arguments and JSON-parses
strings.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from pydantic import ConfigDict

from orchestrator.base.errors import OrchestratorError
from orchestrator.daemon.resources import Context, Resources
from orchestrator.protocol.direct_calls import DirectCalls
from orchestrator.protocol.offers import OWN_IDENTITY, AdminMethods, Offer
from orchestrator.protocol.tool_calls import Client, Tool, ToolRequest, only_reading, request_key, run_tool
from orchestrator.protocol.traffic import PendingCall

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


def build(
    client: Client, offers: Sequence[Offer], admin: AdminMethods | None = None
) -> tuple[Any, Resources | None, DirectCalls]:
    """What serves one client, of what the features offer it: the SDK server, its resources, and the direct calls."""
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
        return await _sdk_call(tools, client, ctx, params)

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
    return server, resources, DirectCalls(tools, client)


async def _sdk_call(
    tools: Mapping[str, Tool], client: Client, ctx: Context, params: types.CallToolRequestParams
) -> types.CallToolResult:
    """One tools/call that came by the SDK's server."""
    if ctx.session.client_params is not None:
        client.name = ctx.session.client_params.client_info.name
        client.version = ctx.session.client_params.client_info.version
    meta: Mapping[str, Any] = ctx.meta or {}

    async def report(progress: float, message: str | None) -> None:
        await ctx.session.report_progress(progress, None, message)

    reports = None if meta.get("progress_token") is None else report
    asked = ctx.request or PendingCall()
    asked.begun = True
    given = ToolRequest(ctx.request_id, params.name, params.arguments, meta, asked, reports, ctx.session)
    answer = await run_tool(tools, client, given)
    content = types.TextContent(type="text", text=answer.text.decode())
    return types.CallToolResult(content=[content], structured_content=answer.structured, is_error=answer.error)


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
