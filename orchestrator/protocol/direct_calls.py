"""The direct way of tools/call: from a client's message to the tool, and from its result to the client's line.

For each call, the SDK's server costs nearly as much time as all the rest together. It serves every other request, and
also a call that comes without a handshake or has more than plain parameters. A client cannot see which way its call
went: the bytes are the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import anyio
import mcp_types as types
import orjson

from orchestrator.base.waiting import call_off
from orchestrator.edge.wire_format import rpc_error
from orchestrator.protocol.tool_calls import Client, Tool, ToolAnswer, ToolRequest, run_tool
from orchestrator.protocol.traffic import PendingCall

Send = Callable[[bytes, Any], Awaitable[None]]
"""Sends a line to the client and waits until it has taken it; the second is the id of the request that it answers."""

PLAIN_PARAMS = frozenset({"name", "arguments", "_meta"})
RESERVED_META = "io.modelcontextprotocol/"
"""Keys by which a request belongs to another protocol era, or asks the SDK for more than the call."""


class DirectCalls:
    """The calls of one connection that go past the SDK's server."""

    def __init__(self, tools: Mapping[str, Tool], client: Client) -> None:
        self._tools = tools
        self._client = client
        self._open = False
        self._running: dict[asyncio.Task[None], anyio.CancelScope] = {}

    def shake_hands(self, params: Mapping[str, Any]) -> None:
        """The SDK has accepted a handshake with these parameters: from now on calls may come directly."""
        info = params["clientInfo"]
        self._client.name, self._client.version = info["name"], info["version"]
        self._open = True

    def takes(self, request: types.JSONRPCRequest) -> bool:
        """Whether a request is a call that can go directly."""
        params = request.params
        if not self._open or request.method != "tools/call" or params is None or not params.keys() <= PLAIN_PARAMS:
            return False
        name, arguments, meta = params.get("name"), params.get("arguments"), params.get("_meta")
        if type(name) is not str or not isinstance(arguments, dict | None) or not isinstance(meta, dict | None):
            return False
        if meta and any(not _is_plain(key, value) for key, value in meta.items()):
            return False
        tool = self._tools.get(name)
        return tool is None or not tool.asks_client

    def start(self, request: types.JSONRPCRequest, asked: PendingCall, send: Send) -> None:
        """Run a call that `takes` has agreed to; it is answered by ``send``, unless the client cancels it before."""
        scope = anyio.CancelScope()  # as the SDK's: it ends the call however often the call tries to go on
        asked.end = scope.cancel
        task = asyncio.create_task(self._serve(request, asked, scope, send))
        self._running[task] = scope
        task.add_done_callback(self._running.pop)

    async def close(self) -> None:
        """The client sends nothing more: end what runs, and answer that its connection is closed."""
        for scope in self._running.values():
            scope.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def abort(self) -> None:
        """The connection or the daemon ends: end what runs, and answer nothing."""
        await call_off(self._running)

    async def _serve(
        self, request: types.JSONRPCRequest, asked: PendingCall, scope: anyio.CancelScope, send: Send
    ) -> None:
        params = request.params or {}
        meta = params.get("_meta") or {}
        token = meta.get("progressToken")
        report = None if token is None else partial(_report, send, token)
        given = ToolRequest(request.id, params["name"], params.get("arguments"), meta, asked, report)
        line = b""
        with scope:
            line = answer_line(request.id, await run_tool(self._tools, self._client, given))
        if not asked.canceled:
            asked.end = None
            await send(line or rpc_error(request.id, types.CONNECTION_CLOSED, "Connection closed"), request.id)


def _is_plain(key: str, value: Any) -> bool:
    """Whether the SDK would make nothing of an entry of `_meta` but what it is."""
    if key == "progressToken":
        return type(value) in {str, int}
    return not key.startswith(RESERVED_META)


async def _report(send: Send, token: str | int, progress: float, message: str | None) -> None:
    params: dict[str, Any] = {"progressToken": token, "progress": progress}
    if message is not None:
        params["message"] = message
    await send(_line({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}), None)


def answer_line(key: str | int, answer: ToolAnswer) -> bytes:
    content = [{"text": answer.text.decode(), "type": "text"}]
    result = {"content": content, "isError": answer.error, "structuredContent": orjson.Fragment(answer.text)}
    return _line({"jsonrpc": "2.0", "id": key, "result": result})


def _line(message: dict[str, Any]) -> bytes:
    return orjson.dumps(message) + b"\n"
