"""The two loops of one connection: a client's lines to what serves them, and what is sent back to the client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import NotificationOptions
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from orchestrator.base.waiting import call_off
from orchestrator.edge.request_limits import BUSY, INVALID_REQUEST, RefusedLine
from orchestrator.edge.wire_format import rpc_error
from orchestrator.protocol.direct_calls import DirectCalls
from orchestrator.protocol.sdk_messages import read, written
from orchestrator.protocol.traffic import Incoming, PendingCall, Stalled, TooLong, Traffic, drained
from orchestrator.protocol.wait_turns import WaitTurns, is_wait

QUEUE = 64
"""Messages between the loops and the SDK's server."""


async def serve(
    server: Any,
    incoming: Incoming,
    writer: asyncio.StreamWriter,
    boot_id: str,
    sent: Callable[[Any], None] = lambda _key: None,
    *,
    calls: DirectCalls | None = None,
    turns: WaitTurns | None = None,
) -> None:
    """Serve one connection until it ends; ``sent`` gets the id of each request when the SDK's answer has been sent.

    ``calls`` takes the tool calls that need nothing of the SDK's server; ``turns`` is shared by all connections:
    their waits enter one after another. ``Stalled`` if the client does not read.
    """
    loops = _MessageLoops(incoming, writer, boot_id, sent=sent, calls=calls, turns=turns)
    await loops.run(server)


class _MessageLoops:
    def __init__(
        self,
        incoming: Incoming,
        writer: asyncio.StreamWriter,
        boot_id: str,
        *,
        sent: Callable[[Any], None],
        calls: DirectCalls | None,
        turns: WaitTurns | None,
    ) -> None:
        self._incoming = incoming
        self._writer = writer
        self._boot_id = boot_id
        self._sent = sent
        self._calls = calls
        self._turns = turns
        self._into, self._read = anyio.create_memory_object_stream[SessionMessage | Exception](QUEUE)
        self._write, self._outof = anyio.create_memory_object_stream[SessionMessage | bytes](QUEUE)
        self._traffic = Traffic()
        self._writing = asyncio.Lock()
        self._broken: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._handshakes: dict[Any, dict[str, Any]] = {}  # the parameters of each that has no answer yet
        self._at_sdk: list[PendingCall] = []  # requests that the SDK's server has, unless they have begun

    async def run(self, server: Any) -> None:
        receiving, sending = asyncio.create_task(self._receive()), asyncio.create_task(self._send())
        serving = asyncio.create_task(_serve_by_sdk(server, self._read, self._write))
        ends: list[asyncio.Future[Any]] = [serving, sending, self._broken]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                await serving
            await asyncio.wait(ends[1:], return_when=asyncio.FIRST_COMPLETED)  # what was answered last is sent
            if self._broken.done():
                raise self._broken.result()
            await sending
            await serving
        finally:
            await call_off([receiving, sending, serving])
            if self._calls is not None:
                await self._calls.abort()
            for stream in (self._into, self._read, self._write, self._outof):
                stream.close()

    # -- from the client ----------------------------------------------------------------------------------------

    async def _receive(self) -> None:
        async with self._into:
            while (line := await self._line()) is not None:
                if line.strip():
                    await self._take(line)
            if self._calls is not None:
                await self._calls.close()

    async def _line(self) -> bytes | None:
        """The next line; None at the end, or where nothing more can be read."""
        await self._traffic.room()
        try:
            return await self._incoming.line()
        except TooLong as error:
            await self._write.send(rpc_error(None, INVALID_REQUEST, str(error)))
            return None

    async def _take(self, line: bytes) -> None:
        try:
            message = read(line)
        except RefusedLine as refused:
            if refused.kind == "request":
                key = None if self._traffic.holds(refused.key) else refused.key
                await self._write.send(rpc_error(key, refused.code, refused.reason))
            if refused.kind != "response":
                return
            error_data = types.ErrorData(code=refused.code, message=refused.reason)
            message = types.JSONRPCError(jsonrpc="2.0", id=str(refused.key), error=error_data)
        if isinstance(message, types.JSONRPCRequest):
            await self._take_request(message)
        elif isinstance(message, types.JSONRPCNotification):
            canceled = self._traffic.canceled(message)
            if canceled is not None and canceled.end is not None:
                canceled.end()
            else:
                await self._into.send(SessionMessage(message))
        elif (own_id := self._own_id(message.id)) is not None:
            message.id = own_id
            await self._into.send(SessionMessage(message))

    async def _take_request(self, request: types.JSONRPCRequest) -> None:
        if self._traffic.holds(request.id):
            await self._write.send(rpc_error(None, INVALID_REQUEST, BUSY))
            return
        if self._turns is not None and is_wait(request):
            await self._turns.turn()
        call = self._traffic.opened(request)
        self._at_sdk = [earlier for earlier in self._at_sdk if not earlier.begun]
        # A direct call would overtake requests that wait in the SDK's server. Tasks that a relay sends again after
        # its handshake would then be queued in another order.
        if self._calls is not None and not self._at_sdk and self._calls.takes(request):
            self._calls.start(request, call, self._deliver)
            return
        if self._traffic.holds(request.id):
            self._at_sdk.append(call)
        if request.method == "initialize":
            self._handshakes[request.id] = request.params or {}
        await self._into.send(SessionMessage(request, ServerMessageMetadata(request_context=call)))

    # -- to the client ------------------------------------------------------------------------------------------

    async def _send(self) -> None:
        async with self._outof:
            async for item in self._outof:
                if isinstance(item, bytes):
                    await self._deliver(item)
                else:
                    await self._send_message(item.message)

    async def _send_message(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCRequest):
            message.id = f"{self._boot_id}:{message.id}"
        answer = message if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) else None
        await self._deliver(written(message), answer.id if answer is not None else None)
        if answer is not None:
            handshake = self._handshakes.pop(answer.id, None)
            if handshake is not None and self._calls is not None and isinstance(answer, types.JSONRPCResponse):
                self._calls.shake_hands(handshake)
        if isinstance(message, types.JSONRPCResponse):
            self._sent(message.id)

    async def _deliver(self, line: bytes, answered: Any = None) -> None:
        """Send a line behind those that wait already; if the client cannot be reached, the connection ends."""
        try:
            async with self._writing:
                with self._traffic.taking(answered):
                    self._writer.write(line)
                    await drained(self._writer)
        except (OSError, Stalled) as error:
            if not self._broken.done():
                self._broken.set_result(error)

    def _own_id(self, key: Any) -> int | None:
        """Which of our requests an answer belongs to; None: of another daemon, or of nobody.

        Our ids contain the daemon's boot id, because the SDK counts from 1 at every start: the answer to a request
        of a dead daemon must not be taken for the answer to a new one.
        """
        own = str(key).removeprefix(f"{self._boot_id}:")
        return int(own) if own != str(key) and own.isdecimal() else None


async def _serve_by_sdk(server: Any, read_stream: Any, write_stream: Any) -> None:
    options = server.create_initialization_options(
        NotificationOptions(resources_changed=True, tools_changed=True, prompts_changed=False)
    )
    try:
        await server.run(read_stream, write_stream, options)
    except* (ConnectionError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass
