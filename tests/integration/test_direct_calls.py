"""A call that goes directly looks to its client as one that the SDK's server serves: the same bytes, both ways."""

import asyncio
import json
import re
import socket
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from orchestrator.base.errors import BadRequest
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.daemon.message_loops import serve
from orchestrator.daemon.sessions import build
from orchestrator.protocol import traffic
from orchestrator.protocol.direct_calls import DirectCalls
from orchestrator.protocol.offers import Offer
from orchestrator.protocol.tool_calls import Arguments, Client, Tool
from orchestrator.protocol.traffic import Incoming, Stalled

BOUND_S = 60.0
INFO = {"name": "t", "version": "1"}
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": INFO}


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Given(Arguments):
    value: Any = None


class Answer(BaseModel):
    value: Any = None


async def echo(_call, given):
    return {"value": given.value, "nothing": None}


async def report(call, given):
    call.tell("half")
    for _ in range(50):  # until it has been sent, by whichever way
        await asyncio.sleep(0)
    return {"value": given.value}


async def refuse(_call, _given):
    raise BadRequest("bad_argument", "no «such» value\n")


async def fail(_call, _given):
    raise RuntimeError("a bug")


async def unwritable(_call, _given):
    return {"value": {1, 2}}


async def ask(call, _given):
    return {"value": call.session is not None}


async def who(call, _given):
    return {"value": [call.client.name, call.client.version, call.req, dict(call.meta).get("x")]}


TOOLS = {
    run.__name__: Tool(run.__name__, "T", "D.", Given, Answer, run, lenient=run is echo, asks_client=run is ask)
    for run in (echo, report, refuse, fail, unwritable, ask, who)
}


@pytest.fixture
def held(monkeypatch):
    """A tool "hold", which never ends by itself; the event: it has been called."""
    called = asyncio.Event()

    async def hold(_call, _given):
        called.set()
        await asyncio.Event().wait()

    monkeypatch.setitem(TOOLS, "hold", Tool("hold", "T", "D.", Given, Answer, hold))
    return called


@asynccontextmanager
async def connection(*, direct, version="2025-06-18", handshake=True):
    """A client's reader and writer on a connection that serves calls directly, or has the SDK's server do it."""
    client = Client(ConnectionOrigin("c", "/"), "relay", "master", ("team",))
    server, _, calls = build(client, [Offer(TOOLS)])
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours, limit=traffic.BUFFER)
    lines, asks = await asyncio.open_connection(sock=theirs, limit=1 << 26)
    serving = asyncio.create_task(
        serve(server, Incoming(reader, 1 << 26), writer, "boot", calls=calls if direct else None)
    )
    try:
        if handshake:
            say(asks, {"id": "init", "method": "initialize", "params": INITIALIZE | {"protocolVersion": version}})
            say(asks, {"method": "notifications/initialized"})
            assert "result" in json.loads(await lines.readline())
        yield lines, asks, serving
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        for end in (writer, asks):
            end.transport.abort()


def say(asks, message):
    asks.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


async def answers(raw_lines, **how):
    """What a client reads in answer to these requests, sent one after another; times are taken out."""
    read = []
    async with asyncio.timeout(BOUND_S), connection(**how) as (lines, asks, _):
        for raw in raw_lines:
            asks.write(raw + b"\n")
            while True:
                read.append(re.sub(rb'"progress":[0-9.e-]+', b'"progress":0', await lines.readline()))
                if b'"method":"notifications/progress"' not in read[-1]:
                    break
    return read


def both(raw_lines, **how):
    directly = asyncio.run(answers(raw_lines, direct=True, **how))
    by_the_sdk = asyncio.run(answers(raw_lines, direct=False, **how))
    assert directly == by_the_sdk
    return directly


def call_line(key=1, name="echo", arguments=None, **more):
    params = {"name": name, "arguments": arguments, **more}
    return json.dumps({"jsonrpc": "2.0", "id": key, "method": "tools/call", "params": params}).encode()


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=12
)
names = st.sampled_from([*TOOLS, "unknown", ""]) | scalars
arguments = st.fixed_dictionaries({"value": values}) | st.dictionaries(text, values, max_size=3) | scalars
tokens = st.sampled_from(["t", 7, 0, "", True, 1.5, None, [], {}])
metas = (
    st.fixed_dictionaries({"progressToken": tokens})
    | st.dictionaries(
        st.sampled_from(["progress_token", "progressToken", "x", "io.modelcontextprotocol/x", "threadId"]),
        values,
        max_size=3,
    )
    | scalars
)
params = st.fixed_dictionaries(
    {"name": names, "arguments": arguments},
    optional={"_meta": metas, "task": values, "inputResponses": values, "x": values},
) | st.dictionaries(st.sampled_from(["name", "arguments", "_meta"]), values, max_size=3)
keys = st.integers(-(2**63), 2**63 - 1) | text


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(keys, params), min_size=1, max_size=4))
def test_whatever_a_client_asks_it_reads_the_same_bytes_both_ways(asked):
    both(
        [
            json.dumps({"jsonrpc": "2.0", "id": key, "method": "tools/call", "params": given}).encode()
            for key, given in asked
        ]
    )


@pytest.mark.parametrize(
    "number", ["1e400", "-1e400", "1e16", "1e-7", "-0.0", "1.0", "123456789012345678901234567890"]
)
def test_numbers_of_any_size_come_back_alike(number):
    raw = call_line(arguments={"value": 0}).replace(b'"value": 0', b'"value": ' + number.encode())
    assert len(both([raw])) == 1


@pytest.mark.parametrize("name", [*TOOLS, "unknown"])
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_every_kind_of_tool_answers_alike_in_every_version_with_a_handshake(name, version):
    raw = call_line(
        name=name, arguments={"value": "«\x7f\x00\u2028😀/<"}, _meta={"progressToken": "p", "x": [1, None]}
    )
    assert len(both([raw], version=version)) == (2 if name == "report" else 1)


@pytest.mark.parametrize("token", ["p", "", 7, 0, True, False, 1.5, None, [], {}])
@pytest.mark.parametrize("key", ["progressToken", "progress_token"])
def test_only_a_real_progress_token_is_told_of_progress(key, token):
    both([call_line(name="report", _meta={key: token})])


@pytest.mark.anyio
@pytest.mark.parametrize("handshake", [True, False])
async def test_a_call_without_a_handshake_or_of_the_other_era_is_the_sdks(handshake, monkeypatch):
    monkeypatch.setattr(DirectCalls, "start", None)
    modern = {
        "_meta": {
            types.PROTOCOL_VERSION_META_KEY: "2026-07-28",
            types.CLIENT_INFO_META_KEY: INFO,
            types.CLIENT_CAPABILITIES_META_KEY: {},
        }
    }
    async with asyncio.timeout(BOUND_S), connection(direct=True, handshake=handshake) as (lines, asks, _):
        asks.write(call_line(**(modern if handshake else {})) + b"\n")
        assert "error" in json.loads(await lines.readline())


@pytest.mark.anyio
@pytest.mark.parametrize("direct", [True, False])
async def test_a_canceled_call_is_not_answered(direct, held):
    async with asyncio.timeout(BOUND_S), connection(direct=direct) as (lines, asks, _):
        asks.write(call_line(7, "hold") + b"\n")
        await held.wait()
        say(asks, {"method": "notifications/cancelled", "params": {"requestId": 7}})
        asks.write(call_line(8) + b"\n")
        assert json.loads(await lines.readline())["id"] == 8
        asks.write(call_line(7) + b"\n")  # its id is free again
        assert "result" in json.loads(await lines.readline())


@pytest.mark.anyio
async def test_plain_calls_do_go_directly_and_questions_to_the_client_do_not(monkeypatch):
    started = []
    start = DirectCalls.start

    def counted(self, request, *rest):
        started.append(request.params["name"])
        start(self, request, *rest)

    monkeypatch.setattr(DirectCalls, "start", counted)
    for name in TOOLS:
        await answers([call_line(name=name)], direct=True)
    assert started == [name for name in TOOLS if name != "ask"]


@pytest.mark.anyio
@pytest.mark.parametrize("handshake", [True, False])
async def test_calls_begin_in_the_order_in_which_they_came_whichever_way_they_go(handshake, monkeypatch):
    begun = []

    async def note(_call, given):
        begun.append(given.value)
        return {"value": given.value}

    monkeypatch.setitem(TOOLS, "note", Tool("note", "T", "D.", Given, Answer, note))
    monkeypatch.setitem(TOOLS, "note_by_sdk", Tool("note_by_sdk", "T", "D.", Given, Answer, note, asks_client=True))
    async with asyncio.timeout(BOUND_S), connection(direct=True, handshake=handshake) as (lines, asks, _):
        if not handshake:
            say(asks, {"id": "init", "method": "initialize", "params": INITIALIZE})
            say(asks, {"method": "notifications/initialized"})
        for part in range(3):
            for number in range(10 * part, 10 * part + 10):
                name = "note_by_sdk" if handshake and not number % 4 else "note"
                asks.write(call_line(number, name, {"value": number}) + b"\n")
            await lines.readline()  # as a relay that has its daemon's first answers and goes on sending
        while len(begun) < 30:
            await lines.readline()
        assert begun == list(range(30))


@pytest.mark.anyio
async def test_after_an_answer_of_the_sdk_calls_go_directly_again(monkeypatch):
    started = []
    start = DirectCalls.start

    def counted(self, request, *rest):
        started.append(request.id)
        start(self, request, *rest)

    monkeypatch.setattr(DirectCalls, "start", counted)
    async with asyncio.timeout(BOUND_S), connection(direct=True) as (lines, asks, _):
        say(asks, {"id": "list", "method": "tools/list"})
        asks.write(call_line(1) + b"\n")
        assert {json.loads(await lines.readline())["id"] for _ in range(2)} == {"list", 1}
        say(asks, {"id": "list", "method": "tools/list"})
        say(asks, {"method": "notifications/cancelled", "params": {"requestId": "list"}})
        asks.write(call_line(2) + b"\n")
        assert json.loads(await lines.readline())["id"] == 2
        assert started == [2]


@pytest.mark.anyio
async def test_a_handshake_anew_names_the_client_of_the_calls_that_follow():
    async with asyncio.timeout(BOUND_S), connection(direct=True) as (lines, asks, _):
        for name in ("t", "second"):
            asks.write(call_line(name="who") + b"\n")
            assert json.loads(await lines.readline())["result"]["structuredContent"]["value"][0] == name
            say(
                asks,
                {
                    "id": "again",
                    "method": "initialize",
                    "params": INITIALIZE | {"clientInfo": {"name": "second", "version": "2"}},
                },
            )
            await lines.readline()


@pytest.mark.anyio
@pytest.mark.parametrize("direct", [True, False])
async def test_a_client_that_sends_nothing_more_is_answered_that_its_connection_is_closed(direct, held):
    async with asyncio.timeout(BOUND_S), connection(direct=direct) as (lines, asks, _):
        asks.write(call_line(7, "hold") + b"\n")
        await held.wait()
        asks.write_eof()
        assert await lines.readline() == (
            b'{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"Connection closed"}}\n'
        )


@pytest.mark.anyio
@pytest.mark.parametrize("direct", [True, False])
async def test_a_call_canceled_while_its_progress_waits_for_the_client_leaves_the_way_free(direct, monkeypatch):
    told, ended = asyncio.Event(), asyncio.Event()

    async def tell_much(call, _given):
        call.tell("x" * (8 << 20))
        for _ in range(50):  # until it is being sent, by whichever way
            await asyncio.sleep(0)
        told.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setitem(TOOLS, "tell_much", Tool("tell_much", "T", "D.", Given, Answer, tell_much))
    async with asyncio.timeout(BOUND_S), connection(direct=direct) as (lines, asks, _):
        asks.transport.pause_reading()
        asks.write(call_line(1, "tell_much", _meta={"progressToken": 1}) + b"\n")
        await told.wait()
        say(asks, {"method": "notifications/cancelled", "params": {"requestId": 1}})
        await ended.wait()
        asks.transport.resume_reading()
        assert json.loads(await lines.readline())["method"] == "notifications/progress"
        asks.write(call_line(2) + b"\n")
        assert json.loads(await lines.readline())["id"] == 2


@pytest.mark.anyio
async def test_a_client_that_calls_and_does_not_read_is_not_read_and_then_dropped(monkeypatch):
    monkeypatch.setattr(traffic, "STALL_S", 0.5)
    called = []

    async def much(_call, _given):
        called.append(1)
        return {"value": "x" * 100_000}

    monkeypatch.setitem(TOOLS, "much", Tool("much", "T", "D.", Given, Answer, much))
    async with asyncio.timeout(BOUND_S), connection(direct=True) as (_, asks, serving):
        asks.transport.pause_reading()
        asks.write(b"".join(call_line(key, "much") + b"\n" for key in range(20_000)))
        with pytest.raises(Stalled):
            await serving
    assert len(called) <= traffic.MAX_OPEN + 128, "what it asks waits on its side"
