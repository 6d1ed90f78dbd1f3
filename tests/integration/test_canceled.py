"""What a tool learns of its call's end: that the client itself canceled it, or that only the connection has gone."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager

import mcp_types as types
import pytest
from pydantic import BaseModel

from orchestrator.base.waiting import Signal
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.daemon.message_loops import serve
from orchestrator.daemon.sessions import build
from orchestrator.protocol import traffic
from orchestrator.protocol.offers import Offer
from orchestrator.protocol.tool_calls import Arguments, Client, Tool
from orchestrator.protocol.traffic import Incoming, Traffic
from orchestrator.team.team_resources import TeamResources
from tests.support.team import Team, feed_of

pytestmark = pytest.mark.anyio
BOUND_S = 60.0
INFO = {"name": "t", "version": "1"}
MODERN = {
    types.PROTOCOL_VERSION_META_KEY: "2026-07-28",
    types.CLIENT_INFO_META_KEY: INFO,
    types.CLIENT_CAPABILITIES_META_KEY: {},
}
ERAS = ["handshake", "modern"]


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Given(Arguments):
    name: str
    hold: bool = True


class Answer(BaseModel):
    pass


class Conversation:
    """A client on a socket, and a server whose one tool holds its calls and tells how each of them ended."""

    def __init__(self, era, theirs, lines, serving, ended, changed):
        self.era, self._theirs, self._lines, self.serving = era, theirs, lines, serving
        self._ended, self._changed = ended, changed

    async def send(self, *messages):
        data = b"".join(json.dumps({"jsonrpc": "2.0", **one}).encode() + b"\n" for one in messages)
        await asyncio.get_running_loop().sock_sendall(self._theirs, data)

    def asking(self, key, name, *, hold=True):
        params = {"name": "hold", "arguments": {"name": name, "hold": hold}}
        if self.era == "modern":
            params["_meta"] = MODERN
        return {"id": key, "method": "tools/call", "params": params}

    @staticmethod
    def cancel(key):
        return {"method": "notifications/cancelled", "params": {"requestId": key, "reason": "enough"}}

    async def ask(self, key, name, *, hold=True):
        """Send a call; once this returns it is held, or answered."""
        await self.send(self.asking(key, name, hold=hold))
        if hold:
            await self.until(name, None)
        else:
            await self.answer(key)

    async def answer(self, key):
        while (said := json.loads(await asyncio.wait_for(self._lines.readline(), BOUND_S))).get("id") != key:
            pass
        assert "result" in said, said

    async def until(self, name, fact):
        """Wait until the call is held (None), or has ended, canceled (True) or not."""
        async with asyncio.timeout(BOUND_S):
            while name not in self._ended or (fact is not None and self._ended[name] is None):
                await self._changed.arm()
        assert self._ended[name] is fact

    async def hang_up(self):
        self._theirs.shutdown(socket.SHUT_WR)
        await asyncio.wait_for(self.serving, BOUND_S)


@asynccontextmanager
async def talking(era, tmp_path):
    ended, changed = {}, Signal()

    async def run(call, given):
        if not given.hold:
            return {}
        ended[given.name] = None
        changed.notify()
        try:
            await asyncio.Event().wait()
        finally:
            ended[given.name] = call.canceled()
            changed.notify()

    tool = Tool("hold", "Hold", "Holds.", Given, Answer, run)
    team = Team(tmp_path)
    client = Client(ConnectionOrigin("c", "/"), "relay", "master", ("team",))
    server, resources, calls = build(
        client, [Offer({"hold": tool}, resources=TeamResources(team.roster, feed_of(team)))]
    )
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=ours, limit=traffic.BUFFER)
    lines, other = await asyncio.open_connection(sock=theirs.dup())
    serving = asyncio.create_task(serve(server, Incoming(reader, 1 << 20), writer, "boot", calls=calls))
    one = Conversation(era, theirs, lines, serving, ended, changed)
    if era == "handshake":
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": INFO}
        await one.send({"id": "init", "method": "initialize", "params": params})
        await one.answer("init")
        await one.send({"method": "notifications/initialized"})
    try:
        yield one
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        writer.transport.abort()
        other.transport.abort()
        theirs.close()
        resources.close()
        team.close()


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("key", "told"), [(7, 7), ("seven", "seven"), (7, "7"), ("7", 7)])
async def test_a_call_that_its_client_cancels_knows_it_and_no_other_does(era, key, told, tmp_path):
    async with talking(era, tmp_path) as one:
        await one.ask(key, "first")
        await one.ask(8, "second")
        await one.send(one.cancel(told))
        await one.until("first", True)
        await one.hang_up()
        await one.until("second", False)


@pytest.mark.parametrize("era", ERAS)
async def test_a_connection_that_ends_cancels_nothing(era, tmp_path):
    async with talking(era, tmp_path) as one:
        await one.ask(1, "held")
        await one.hang_up()
        await one.until("held", False)


@pytest.mark.parametrize("era", ERAS)
async def test_a_daemon_that_ends_cancels_nothing(era, tmp_path):
    async with talking(era, tmp_path) as one:
        await one.ask(1, "held")
        one.serving.cancel()
        await one.until("held", False)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("late", [1, "1", 5, None, True, [1]])
async def test_a_cancel_of_what_is_not_open_hits_no_later_call_of_the_same_id(era, late, tmp_path):
    async with talking(era, tmp_path) as one:
        await one.ask(1, "quick", hold=False)
        await one.send(one.cancel(late))
        await one.ask(1, "again")
        await one.ask(5, "other")
        await one.hang_up()
        await one.until("again", False)
        await one.until("other", False)


@pytest.mark.parametrize("era", ERAS)
async def test_a_cancel_is_known_even_before_its_call_has_begun(era, tmp_path):
    async with talking(era, tmp_path) as one:
        await one.send(one.asking(1, "early"), one.cancel(1), one.asking(2, "quick", hold=False))
        await one.answer(2)
        await one.until("early", True)


async def test_nothing_is_remembered_of_what_is_over():
    one = Traffic()

    def cancel(key):
        message = {"method": "notifications/cancelled", "params": {"requestId": key}}
        return one.canceled(types.JSONRPCNotification(jsonrpc="2.0", **message))

    for key in range(100):
        asked = one.opened(types.JSONRPCRequest(jsonrpc="2.0", id=key, method="tools/call"))
        if key % 2:
            assert cancel(key) is asked
        else:
            with one.taking(key):
                pass
        assert asked.canceled is bool(key % 2)
        assert cancel(key) is None
        assert asked.canceled is bool(key % 2)
        assert cancel(f"never-{key}") is None
    assert one._open == {}
