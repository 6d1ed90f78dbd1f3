"""What one connection may cost: lines that end somewhere, answers that somebody takes, and a client that does neither."""

import asyncio
import errno
import json
import socket
from contextlib import asynccontextmanager

import mcp_types as types
import pytest
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from orchestrator.base.waiting import Signal
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.daemon.message_loops import serve
from orchestrator.daemon.resources import Resources
from orchestrator.faces.web import web_server
from orchestrator.protocol import traffic
from orchestrator.protocol.tool_calls import Client
from orchestrator.protocol.traffic import Incoming, Stalled, TooLong, Traffic, drained
from orchestrator.team.team_resources import TeamResources
from tests.support.team import Team, feed_of, settle

pytestmark = pytest.mark.anyio
BOUND_S = 60.0
INITIALIZE = {
    "jsonrpc": "2.0", "id": 0, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip


@pytest.fixture
def anyio_backend():
    return "asyncio"


@asynccontextmanager
async def ends():
    """Both ends of a connection: the daemon's streams, and the client's socket."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=ours, limit=traffic.BUFFER)
    theirs.setblocking(False)
    try:
        yield reader, writer, theirs
    finally:
        writer.transport.abort()
        theirs.close()


async def send(sock, data):
    await asyncio.get_running_loop().sock_sendall(sock, data)


class Full(socket.socket):
    """A socket at which somebody always waits, and no descriptor is left to accept them."""

    asked = 0

    def accept(self):
        self.asked += 1
        raise OSError(errno.EMFILE, "Too many open files")


async def served_by_asyncio(sock):
    return await traffic.listen(lambda _reader, _writer: None, sock, 512)


async def served_by_uvicorn(sock):
    config = web_server.WebServer(None, None, sock, answers=False)._config(lambda: None)
    server = web_server._Server(config, lambda: None)
    server.lifespan = config.lifespan_class(config)
    await server.startup([sock])
    return server.servers[0]


@pytest.mark.parametrize(
    ("family", "begun"), [(socket.AF_UNIX, served_by_asyncio), (socket.AF_INET, served_by_uvicorn)]
)
async def test_without_a_descriptor_a_server_tries_once_and_not_ever_more(family, begun, tmp_path, monkeypatch):
    monkeypatch.setattr("asyncio.constants.ACCEPT_RETRY_DELAY", 0.0)
    failures, loop = Signal(), asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, _facts: failures.notify())
    with Full(family) as sock, socket.socket(family) as waiting:
        sock.bind(str(tmp_path / "socket") if family == socket.AF_UNIX else ("127.0.0.1", 0))
        sock.setblocking(False)
        server = await begun(sock)
        waiting.connect(sock.getsockname())
        for rounds in range(1, 6):
            await failures.arm()
            assert sock.asked <= 2 * rounds
        server.close()


async def test_lines_come_whole_in_order_and_the_last_one_without_its_newline():
    async with ends() as (reader, _, theirs):
        incoming = Incoming(reader, 1 << 20)
        sending = asyncio.create_task(send(theirs, b"one\n\ntwo\n" + b"x" * 1_000_000 + b"\nlast"))
        assert [await incoming.line() for _ in range(4)] == [b"one", b"", b"two", b"x" * 1_000_000]
        await sending
        theirs.shutdown(socket.SHUT_WR)
        assert await incoming.line() == b"last"
        assert await incoming.line() is None
        assert await incoming.line() is None


@pytest.mark.parametrize("tail", [b"", b"\nnext\n"])
async def test_a_line_is_too_long_as_soon_as_it_is(tail):
    async with ends() as (reader, _, theirs):
        incoming = Incoming(reader, 1000)
        sending = asyncio.create_task(send(theirs, b"x" * 1001 + tail))
        with pytest.raises(TooLong):
            await incoming.line()
        await sending


async def test_a_limit_may_be_raised_between_lines():
    async with ends() as (reader, _, theirs):
        incoming = Incoming(reader, 10)
        await send(theirs, b"hello\n")
        assert await incoming.line() == b"hello"
        incoming.limit = 1000
        await send(theirs, b"x" * 500 + b"\n")
        assert await incoming.line() == b"x" * 500


async def test_a_client_that_takes_nothing_is_stalled_and_one_that_takes_slowly_is_not(monkeypatch):
    monkeypatch.setattr(traffic, "STALL_S", 1.0)
    loop = asyncio.get_running_loop()
    async with ends() as (_, writer, theirs):
        writer.write(b"x" * (8 << 20))
        slow = asyncio.create_task(drained(writer))
        got = 0
        while not slow.done():
            got += len(await loop.sock_recv(theirs, 1 << 16))
        await slow
        writer.write(b"x" * (8 << 20))
        with pytest.raises(Stalled):
            await drained(writer)


def flooding(size):
    """A server whose one tool answers with so many bytes, and the requests it was given."""
    given = []

    async def call(ctx, params):
        given.append(ctx.request_id)
        return types.CallToolResult(content=[types.TextContent(type="text", text="x" * size)])

    return Server("t", on_call_tool=call), given


async def test_a_client_that_asks_and_does_not_read_is_not_read_and_then_dropped(monkeypatch):
    monkeypatch.setattr(traffic, "STALL_S", 0.5)
    server, given = flooding(100_000)
    async with ends() as (reader, writer, theirs):
        serving = asyncio.create_task(serve(server, Incoming(reader, 1 << 20), writer, "boot"))
        call = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "t", "arguments": {}}}
        lines = [INITIALIZE, {"jsonrpc": "2.0", "method": "notifications/initialized"}]
        lines += [{**call, "id": number} for number in range(1, 20_000)]
        sending = asyncio.create_task(send(theirs, b"".join(json.dumps(one).encode() + b"\n" for one in lines)))
        with pytest.raises(Stalled):
            await asyncio.wait_for(serving, BOUND_S)
        assert len(given) <= traffic.MAX_OPEN + 128, "what it asks waits on its side"
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def test_an_answer_that_cannot_be_written_costs_neither_the_connection_nor_the_next_answer():
    async def call(_ctx, params):
        text = "\udcff" if params.name == "half" else "whole"
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    async with ends() as (reader, writer, theirs):
        serving = asyncio.create_task(
            serve(Server("t", on_call_tool=call), Incoming(reader, 1 << 20), writer, "boot")
        )
        for key, name in enumerate(("half", "whole"), 1):
            asked = {"jsonrpc": "2.0", "id": key, "method": "tools/call", "params": {"name": name, "arguments": {}}}
            await send(
                theirs, b"".join(json.dumps(one).encode() + b"\n" for one in ([INITIALIZE] * (key == 1) + [asked]))
            )
        got = b""
        async with asyncio.timeout(BOUND_S):
            while got.count(b"\n") < 3:
                got += await asyncio.get_running_loop().sock_recv(theirs, 1 << 16)
        answers = {one["id"]: one for one in map(json.loads, got.splitlines())}
        assert "error" in answers[1]
        assert answers[2]["result"]["content"][0]["text"] == "whole"
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_a_question_whose_answer_is_malformed_is_an_error_to_who_asked():
    async def call(ctx, _params):
        try:
            await ctx.session.send_request(types.PingRequest(), types.EmptyResult)
        except MCPError as error:
            return types.CallToolResult(content=[types.TextContent(type="text", text=f"told {error.error.code}")])
        return types.CallToolResult(content=[])

    async with ends() as (reader, writer, theirs):
        serving = asyncio.create_task(
            serve(Server("t", on_call_tool=call), Incoming(reader, 1 << 20), writer, "boot")
        )
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t", "arguments": {}}}
        await send(theirs, b"".join(json.dumps(one).encode() + b"\n" for one in (INITIALIZE, asked)))
        got, answered = b"", False
        async with asyncio.timeout(BOUND_S):
            while b"told -32600" not in got:
                got += await asyncio.get_running_loop().sock_recv(theirs, 1 << 16)
                if not answered and b'"ping"' in got:
                    answered = True
                    await send(theirs, b'{"jsonrpc":"2.0","id":"boot:1","result":3}\n')
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_open_requests_are_bounded_and_answers_and_cancels_make_room():
    one = Traffic()

    def request(key, method="tools/call"):
        return types.JSONRPCRequest(jsonrpc="2.0", id=key, method=method)

    for key in range(traffic.MAX_OPEN - 1):
        one.opened(request(key))
    for key in range(1000):
        one.opened(request(f"listen-{key}", "subscriptions/listen"))
    await asyncio.wait_for(one.room(), BOUND_S)
    one.opened(request("last"))
    waiting = asyncio.create_task(one.room())
    await settle()
    assert not waiting.done()
    with one.taking(0):
        await settle()
        assert not waiting.done()
    await asyncio.wait_for(waiting, BOUND_S)
    one.opened(request("again"))
    one.canceled(types.JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 5}))
    await asyncio.wait_for(one.room(), BOUND_S)


async def test_a_subscriber_that_does_not_read_costs_one_cue_however_much_changes(tmp_path, monkeypatch):
    from orchestrator.daemon import resources

    monkeypatch.setattr(resources, "EVERY_S", 0.0)
    team = Team(tmp_path)
    entry = await team.agent()
    taken, told = Signal(), []

    class Session:
        async def send_resource_updated(self, uri):
            told.append(uri)
            if len(told) == 1:
                await taken.arm()

    client = Client(ConnectionOrigin("c", "/", None, None, None, ()), "relay", "master", ("team",))
    one = Resources(client, [TeamResources(team.roster, feed_of(team))])
    one._subscribed["agent://a1/outbox"] = Session()
    for _ in range(200):
        for listener in team.roster.listeners:
            listener(entry)
        await settle()
    assert len(told) == 1
    assert len(one._sending) == 1
    taken.notify()
    await settle()
    assert len(told) == 2, "what changed meanwhile is one cue more"
    one.close()
    team.close()
