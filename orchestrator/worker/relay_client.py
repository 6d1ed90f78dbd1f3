"""The worker's MCP client: calls tools through its own relay, and starts a new relay if it is lost.

Standard library only, like the relay: the SDK would cost each agent of the `shell` engine a second at its start and
40 MB of memory, for one handshake and two tools of our own.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from orchestrator.edge.project_location import VERSION
from orchestrator.edge.wire_format import WireLines, encode

CALL_LIMIT_S = 180.0
CLOSE_S = 2.0
FIRST_PAUSE_S, LAST_PAUSE_S = 1.0, 10.0
MCP_VERSION = "2025-11-25"
"""The newest MCP version with one handshake at the start; the relay repeats it to a new daemon."""
READ = 1 << 16
DECLINED_MAX = 3
"""How often a declined call is repeated, each time through a new server."""
WRONG = frozenset({-32700, -32600, -32601, -32602})
"""JSON-RPC codes for a wrong request. A new server helps only if the handshake was lost."""

# Error codes that end the worker, and its exit code. `agent_ended` is what the master asked for; after the others
# this process should not run.
ENDINGS = {"agent_ended": 0, "replaced": 3, "not_an_agent": 3}


class WorkerEnded(Exception):
    """The worker is to exit with ``code``; the text is its last line in the pane."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class CallRefused(Exception):
    """The daemon refuses this call for good; other calls may work."""


class ServerLost(Exception):
    """The server has ended, sent something invalid, or not answered in time: a new one is needed."""


class RequestDeclined(ServerLost):
    """The server has answered that the request itself is wrong."""


class RelayClient:
    """Calls tools through a server process; a server that dies is replaced, and calls wait for the new one."""

    def __init__(self, server: Sequence[str], say: Callable[[str], None]) -> None:
        self._server = list(server)
        self._say = say
        self._open: Connection | None = None
        self._changed = asyncio.Event()
        self._lost = asyncio.Event()

    async def keep(self) -> None:
        """Keep a connection open until canceled; waits 1 to 10 s before it opens the next."""
        pause = FIRST_PAUSE_S
        while True:
            self._lost.clear()
            try:
                async with connected(self._server) as connection:
                    self._open, pause = connection, FIRST_PAUSE_S
                    self._changed.set()
                    await self._lost.wait()
            except Exception as error:  # noqa: BLE001 whatever ended the connection, a new one is opened
                self._say(f"orchestrator: no connection ({_first_line(error)}); trying again")
            self._open = None
            self._changed.clear()
            await asyncio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE_S)

    async def opened(self) -> None:
        """Wait until a connection is open."""
        while self._open is None:
            await self._changed.wait()

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The tool's structured answer; waits for the daemon without a limit.

        Raises ``WorkerEnded`` if this worker must exit, ``CallRefused`` if repeating the call cannot help.
        """
        pause, declined = FIRST_PAUSE_S, 0
        while True:
            await self.opened()
            connection = self._open
            assert connection is not None
            try:
                answer = await connection.request("tools/call", {"name": tool, "arguments": arguments})
            except ServerLost as error:
                declined += isinstance(error, RequestDeclined)
                if declined > DECLINED_MAX:
                    raise CallRefused(_first_line(error)) from error
                if connection is self._open:
                    self._open = None
                    self._changed.clear()
                    self._lost.set()
                self._say(f"orchestrator: the connection was lost ({_first_line(error)}); trying again")
                continue
            structured = _object(answer.get("structuredContent"))
            if not answer.get("isError"):
                return structured
            facts = _object(structured.get("error"))
            code, kind = str(facts.get("code", "")), facts.get("kind")
            message = str(facts.get("message") or f"{tool} failed")
            if code in ENDINGS:
                raise WorkerEnded(message, ENDINGS[code])
            if kind == "Corrupt":
                raise WorkerEnded(message, 6)
            if kind not in {"NotReady", "Environment"}:
                raise CallRefused(f"{code}: {message}")
            self._say(f"orchestrator: {message}; trying again")
            await asyncio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE_S)


class Connection:
    """Requests to one server process, answered in any order."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._into, self._out = process.stdin, process.stdout
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._over: str | None = None
        self.reading = asyncio.create_task(self._read())

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result; raises ``ServerLost`` for an error answer, and if there is no answer within 180 s."""
        key = next(self._ids)
        answer = self._waiting[key] = asyncio.get_running_loop().create_future()
        try:
            await self.send({"id": key, "method": method, "params": params})
            async with asyncio.timeout(CALL_LIMIT_S):
                response = await answer
        except TimeoutError as error:
            raise ServerLost(f"no answer to {method} within {CALL_LIMIT_S:.0f} s") from error
        finally:
            del self._waiting[key]
        result = response.get("result")
        if not isinstance(result, dict):
            refusal = _object(response.get("error"))
            text = str(refusal.get("message") or "an answer without a result")
            raise RequestDeclined(text) if refusal.get("code") in WRONG else ServerLost(text)
        return result

    async def send(self, message: dict[str, Any]) -> None:
        """Write one message; raises ``ServerLost``."""
        if self._over is not None:
            raise ServerLost(self._over)
        try:
            self._into.write(encode({"jsonrpc": "2.0", **message}))
            await self._into.drain()
        except (ConnectionError, RuntimeError) as error:  # RuntimeError: the pipe was closed on our side
            raise ServerLost(str(error) or "the server has ended") from error

    async def _read(self) -> None:
        lines, why = WireLines(), "the server has ended"
        try:
            while data := await self._out.read(READ):
                for line in lines.feed(data):
                    await self._take(json.loads((line if isinstance(line, bytes) else b"") or b"null"))
        except (ValueError, RecursionError, ServerLost) as error:
            why = f"the server sent a line that is not MCP ({error})"
        finally:
            self._over = why
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(ServerLost(why))

    async def _take(self, message: Any) -> None:
        fields = _object(message)
        key = fields.get("id")
        if "method" not in fields:
            answer = self._waiting.get(key) if isinstance(key, int) else None
            if answer is not None and not answer.done():
                answer.set_result(fields)
        elif key is not None and fields["method"] == "ping":
            await self.send({"id": key, "result": {}})
        elif key is not None:
            await self.send({"id": key, "error": {"code": -32601, "message": "not offered by this client"}})


@contextlib.asynccontextmanager
async def connected(server: Sequence[str]) -> AsyncIterator[Connection]:
    """A server process after the handshake; it ends with the block. Raises ``ServerLost``, or OSError at start."""
    # A session of its own: Ctrl-C in the pane is meant for the command.
    process = await asyncio.create_subprocess_exec(
        *server, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    connection = Connection(process)
    try:
        info = {"name": "orchestrator-worker", "version": VERSION}
        params = {"protocolVersion": MCP_VERSION, "capabilities": {}, "clientInfo": info}
        await connection.request("initialize", params)
        await connection.send({"method": "notifications/initialized"})
        await connection.request("tools/list", {})
        yield connection
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(CLOSE_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        finally:
            connection.reading.cancel()


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
