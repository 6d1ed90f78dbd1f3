"""Hundreds of agents ask to wait at once, and the report of another one does not stand behind them.

Counts what is served before the report, never how long that takes.
"""

import asyncio
import contextlib
import json
import socket

import mcp_types as types
import pytest

from orchestrator.core.connection import ConnectionOrigin
from orchestrator.daemon.message_loops import serve
from orchestrator.daemon.sessions import build
from orchestrator.protocol import traffic
from orchestrator.protocol.offers import Offer
from orchestrator.protocol.tool_calls import Client
from orchestrator.protocol.traffic import Incoming
from orchestrator.protocol.wait_turns import WaitTurns, is_wait
from orchestrator.team import agent_tools
from orchestrator.team.roster import delivery
from tests.support.team import Team, settle

pytestmark = pytest.mark.anyio
BOUND_S = 60.0
PASSED = 20
"""More waits than enter while one request goes through the server, however many there are."""


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Line:
    """An agent's connection, served as the daemon serves it."""

    def __init__(self, team, agent_id, turns):
        client = Client(ConnectionOrigin(agent_id, "/"), "relay", "agent", (), agent_id=agent_id, epoch=1, secret="s")
        self.agent_id, self.turns = agent_id, turns
        self.server, _, self.calls = build(client, [Offer(agent_tools.build(team.roster))])

    async def open(self, stack):
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=ours, limit=traffic.BUFFER)
        self.answers, self.asks = await asyncio.open_connection(sock=theirs)
        serving = asyncio.create_task(
            serve(self.server, Incoming(reader, 1 << 20), writer, "boot", calls=self.calls, turns=self.turns)
        )
        stack.push_async_callback(self.close, serving, writer)
        who = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        self.say({"id": 0, "method": "initialize", "params": who})
        await self.answer()
        self.say({"method": "notifications/initialized"})

    async def close(self, serving, writer):
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        writer.transport.abort()
        self.asks.transport.abort()

    def say(self, message):
        self.asks.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def call(self, tool, **arguments):
        arguments["agent_id"] = self.agent_id
        self.say({"id": tool, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})

    async def answer(self):
        line = await asyncio.wait_for(self.answers.readline(), BOUND_S)
        return json.loads(line)


async def entered_before_a_report(root, waiting, turns, monkeypatch):
    """How many of the waits are under way when the report, which came right after them, is answered; and at last."""
    under_way = []
    wait = delivery.wait_for_command

    async def counted(roster, agent_id, *given, **more):
        under_way.append(agent_id)
        return await wait(roster, agent_id, *given, **more)

    monkeypatch.setattr(delivery, "wait_for_command", counted)
    team = Team(root)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(team.close)
        names = ["reporter", *(f"a{n}" for n in range(waiting))]
        lines = {}
        for name in names:
            await team.agent(name)
            lines[name] = Line(team, name, turns)
            await lines[name].open(stack)
        reporter = lines.pop("reporter")
        await delivery.enqueue(team.roster, "reporter", task_id="t1", payload=1, req="m:1")
        reporter.call("wait_for_command", timeout_ms=1000)
        assert not (await reporter.answer())["result"].get("isError")
        under_way.clear()
        for line in lines.values():
            line.call("wait_for_command", timeout_ms=45_000)
        reporter.call("emit_event", type="ack")
        assert not (await reporter.answer())["result"].get("isError")
        before = len(under_way)
        while len(under_way) < waiting:
            await settle()
        assert sorted(under_way) == sorted(lines), "each of them waits in the end, once"
        return before


@pytest.mark.parametrize("waiting", [60, 240])
async def test_a_report_passes_the_waits_however_many_there_are(tmp_path, monkeypatch, waiting):
    assert await entered_before_a_report(tmp_path, waiting, WaitTurns(), monkeypatch) <= PASSED


async def test_without_turns_it_would_stand_behind_all_of_them(tmp_path, monkeypatch):
    """Else the test above could not fail."""
    assert await entered_before_a_report(tmp_path, 60, None, monkeypatch) == 60


async def test_waits_enter_in_the_order_in_which_they_came_and_one_that_is_alone_at_once():
    turns, entered = WaitTurns(), []

    async def enter(name):
        await turns.turn()
        entered.append(name)

    alone = enter("alone")
    with pytest.raises(StopIteration):
        alone.send(None)  # it does not even leave its turn
    many = [asyncio.create_task(enter(n)) for n in range(5)]
    await asyncio.wait_for(asyncio.gather(*many), BOUND_S)
    assert entered == ["alone", *range(5)]


async def test_a_connection_that_ends_in_the_queue_holds_up_nobody():
    turns, entered = WaitTurns(), []

    async def enter(name):
        await turns.turn()
        entered.append(name)

    many = [asyncio.create_task(enter(n)) for n in range(6)]
    await asyncio.sleep(0)  # not a wait: now they stand in the queue
    for n in (1, 2, 5):
        many[n].cancel()
    await asyncio.wait_for(asyncio.gather(*many, return_exceptions=True), BOUND_S)
    assert entered == [0, 3, 4]
    await asyncio.wait_for(turns.turn(), BOUND_S)


@pytest.mark.parametrize(
    ("method", "params", "waits"),
    [
        ("tools/call", {"name": "wait_for_command", "arguments": {}}, True),
        ("tools/call", {"name": "wait_for_command"}, True),
        ("tools/call", {"name": "broadcast_read", "arguments": {"wait_ms": 45_000}}, True),
        ("tools/call", {"name": "broadcast_read", "arguments": {"wait_ms": 0}}, False),
        ("tools/call", {"name": "broadcast_read", "arguments": {}}, False),
        ("tools/call", {"name": "emit_event", "arguments": {"wait_ms": None}}, False),
        ("tools/call", {"name": "emit_event", "arguments": ["wait_ms"]}, False),
        ("tools/call", {"name": ["wait_for_command"]}, False),
        ("tools/call", None, False),
        ("tools/list", {"name": "wait_for_command"}, False),
    ],
)
async def test_what_asks_for_news_is_a_wait(method, params, waits):
    assert is_wait(types.JSONRPCRequest(jsonrpc="2.0", id=1, method=method, params=params)) is waits


async def test_what_is_no_request_is_no_wait():
    params = {"name": "wait_for_command"}
    assert not is_wait(types.JSONRPCNotification(jsonrpc="2.0", method="tools/call", params=params))
