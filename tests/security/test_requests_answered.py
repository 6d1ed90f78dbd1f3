"""Every request is answered, once, whatever is wrong with it: real relay, real daemon, every answer counted."""

import contextlib
import itertools
import json
import os
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from orchestrator.edge.request_limits import ID_BITS, MAX_DEPTH, MAX_DIGITS, MAX_ID
from tests.support.stage import BOUND_S, until

COUNT = itertools.count(1)
NOTHING, NULL = object(), None
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}

# -- what is sent ---------------------------------------------------------------------------------------------------
# An id is made of a number that no other id has: (its JSON, what the answer bears).

GOOD_IDS = {
    "integer": str,
    "negative": lambda n: str(-n),
    "edge": lambda n: str((1 << ID_BITS - 1) - n),
    "string": lambda n: json.dumps(f"id-{n}"),
    "digits": lambda n: json.dumps(str(n)),
    "nul": lambda n: json.dumps(f"\0{n}"),
    "ä": lambda n: f'"ä\N{FOX FACE}{n}"',
    "escaped": lambda n: json.dumps(f"\N{FOX FACE}{n}"),
    "as the relay's": lambda n: json.dumps(f"relay#1.{n}"),
    "long": lambda n: json.dumps(f"{n}".rjust(MAX_ID, "x")),
}
BAD_IDS = {
    "fraction": lambda n: f"{n}.5",
    "float": lambda n: f"{n}.0",
    "exponent": lambda n: f"{n}e3",
    "65 bits": lambda n: str((1 << ID_BITS - 1) + n),
    "-65 bits": lambda n: str(-(1 << ID_BITS - 1) - n),
    "thousand digits": lambda n: f"{n}" + "0" * 1000,
    "half a character": lambda n: f'"\\ud83d-{n}"',
    "too long": lambda n: json.dumps(f"{n}".rjust(MAX_ID + 1, "x")),
    "very long": lambda n: json.dumps(f"{n}" * 100_000),
}
NO_IDS = [
    "null",
    "true",
    "false",
    "[]",
    "{}",
    '{"id":1}',
    "[7]",
    "1e400",
    "-1e400",
    "NaN",
    "Infinity",
    "9" * (MAX_DIGITS + 1),
]

METHODS = [
    "tools/call", "tools/list", "prompts/get", "prompts/list", "resources/read", "resources/list", "resources/subscribe",
    "resources/unsubscribe", "resources/templates/list", "logging/setLevel", "completion/complete", "initialize",
    "server/discover", "ping", "orchestrator/status", "orchestrator/stop", "notifications/initialized", "no/such", "",
    "\0", "rpc.discover",
]  # fmt: skip
TOOLS = [
    "agent_list",
    "agent_get",
    "events_read",
    "task_enqueue",
    "task_cancel",
    "agent_delete",
    "",
    "no_such",
    "\0",
    "agent_list\n",
]

TEXT = st.text(st.characters(exclude_categories=()), max_size=20)  # with halves of characters
WORDS = st.sampled_from(
    ["agent_id", "task", "payload", "uri", "name", "_meta", "progressToken", "level", "cursor", "x"]
)
PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(1 << 70), 1 << 70), st.floats(), TEXT,
    st.sampled_from([1 << 63, 1 << 64, 10**30, 10**4000, "\ud83d", "a\0b", "\ufeff", -0.0, 1e308]),
)  # fmt: skip
ANY = st.recursive(
    PLAIN, lambda one: st.lists(one, max_size=4) | st.dictionaries(TEXT | WORDS, one, max_size=4), max_leaves=8
)
META = st.one_of(
    ANY,
    st.fixed_dictionaries({"progressToken": ANY}),
    st.just(MODERN),
    st.fixed_dictionaries({name: st.just(value) | ANY for name, value in MODERN.items()}),
)
PARAMS = st.one_of(
    ANY,
    st.dictionaries(WORDS | TEXT, ANY, max_size=4),
    st.fixed_dictionaries({"name": st.sampled_from(TOOLS) | ANY}, optional={"arguments": ANY, "_meta": META}),
    st.fixed_dictionaries(
        {"name": st.sampled_from(TOOLS), "arguments": st.dictionaries(WORDS, ANY, max_size=3)},
        optional={"_meta": META},
    ),
    st.just({"clientInfo": {}, **INITIALIZE}),
    st.fixed_dictionaries({"uri": TEXT | st.sampled_from(["agent://a/meta", "run://\ud83d/x", "file:///"])}),
)
# How a line is spoiled although its id can be read.
SPOILED = {
    "": lambda line: line,
    "deep": lambda line: line[:-1] + b',"x":' + b"[" * 300 + b"]" * 300 + b"}",
    "deep params": lambda line: line[:-1] + b',"params":{"a":' + b'{"a":' * 120 + b"1" + b"}" * 120 + b"}}",
    "bottomless": lambda line: line[:-1] + b',"params":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "list": lambda line: line[:-1] + b',"params":[]}',
    "string": lambda line: line[:-1] + b',"params":"x"}',
    "number": lambda line: line[:-1] + b',"params":7}',
    "true": lambda line: line[:-1] + b',"params":true}',
    "null": lambda line: line[:-1] + b',"params":null}',
    "NaN": lambda line: line[:-1] + b',"params":{"a":NaN}}',
    "1e400": lambda line: line[:-1] + b',"params":{"arguments":{"a":1e400}}}',
    "digits": lambda line: line[:-1] + b',"params":{"a":' + b"9" * (MAX_DIGITS + 1) + b"}}",
    "no utf-8": lambda line: line[:-1] + b',"params":{"a":"\xff\xed\xa0\xbd"}}',
    "half": lambda line: line[:-1] + b',"params":{"name":"\\ud83d","arguments":{"\\uDE00":"\\udc80"}}}',
    "control": lambda line: line[:-1] + b',"params":{"a":"\x01\t"}}',
    "mark": lambda line: b"\xef\xbb\xbf" + line,
    "space": lambda line: b" \t" + line + b" \r",
    "version": lambda line: line[:-1] + b',"jsonrpc":"1.0"}',
    "version 2": lambda line: line[:-1] + b',"jsonrpc":2.0}',
    "no method": lambda line: line[:-1] + b',"method":null}',
    "method": lambda line: line[:-1] + b',"method":["ping"]}',
    "error": lambda line: line[:-1] + b',"error":{"code":1,"message":"x"}}',
    "result": lambda line: line[:-1] + b',"result":{}}',
    "both": lambda line: line[:-1] + b',"params":[],"result":{},"error":{"code":1,"message":"x"}}',
    "twice": lambda line: line[:-1] + b',"method":"ping","method":"no/such"}',
    "quotes": lambda line: (
        line[:-1] + b',"params":{"a":"\\\\\\"[{\\\\","b":' + b"[" * 150 + b'"}]"' + b"]" * 150 + b"}}"
    ),
}
NO_REQUESTS = [
    (b"hello", NULL), (b"{", NULL), (b"[]", NULL), (b"3", NULL), (b'"id"', NULL), (b"null", NULL), (b"{}", NULL), (b"\xff\xfe", NULL),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', NULL), (b"[" * 100_000, NULL), (b'{"a":' * 100_000, NULL), (b"\0", NULL),
    (b'{"jsonrpc":"2.0"}', NULL), (b'{"jsonrpc":"2.0","method":1}', NULL), (b'{"jsonrpc":"2.0","id":1,"method":"ping"', NULL),
    (b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}', NOTHING),
    (b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}', NOTHING),
    (b'{"jsonrpc":"2.0","method":"notifications/cancelled"}', NOTHING),
    (b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"agent_list"}}', NOTHING),
    (b'{"jsonrpc":"2.0","method":"tools/call","params":[]}', NOTHING),
    (b'{"jsonrpc":"2.0","method":"ping","params":' + b"[" * 300 + b"]" * 300 + b"}", NOTHING),
    (b'{"jsonrpc":"2.0","method":"ping","params":{"a":NaN}}', NOTHING),
    (b'{"jsonrpc":"2.0","id":1,"result":{}}', NOTHING), (b'{"jsonrpc":"2.0","id":1.5,"result":{}}', NOTHING),
    (b'{"jsonrpc":"2.0","id":1,"result":3}', NOTHING), (b'{"jsonrpc":"2.0","id":"\\ud83d","error":{"code":1,"message":"x"}}', NOTHING),
    (b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}', NOTHING), (b'{"jsonrpc":"2.0","result":{}}', NOTHING),
    (b'{"id":1,"result":NaN}', NOTHING), (b'{"jsonrpc":"2.0","id":1,"error":' + b"[" * 300 + b"]" * 300 + b"}", NOTHING),
]  # fmt: skip


def nested(levels, key):
    """A request so many levels deep."""
    return f'{{"jsonrpc":"2.0","id":{key},"method":"ping","params":{{"a":{"[" * (levels - 2)}{"]" * (levels - 2)}}}}}'


def line_of(key, method, params, order=0):
    members = ['"jsonrpc":"2.0"', f'"id":{key}', f'"method":{json.dumps(method)}']
    if params is not NOTHING:
        members.append(f'"params":{json.dumps(params)}')  # with NaN and Infinity, as Python writes them
    members = members[order:] + members[:order]
    return "{" + ",".join(members) + "}"


@st.composite
def requests(draw):
    """A line, and the id of its one answer."""
    make = draw(st.sampled_from([*GOOD_IDS.values(), *GOOD_IDS.values(), *BAD_IDS.values()]))
    key = make(next(COUNT) * 1000 + 7)
    method = draw(st.sampled_from(METHODS) | TEXT)
    params = draw(st.just(NOTHING) | PARAMS)
    line = line_of(key, method, params, draw(st.integers(0, 3))).encode()
    return draw(st.sampled_from([*SPOILED.values(), SPOILED[""]]))(line), json.loads(key)


@st.composite
def others(draw):
    """A line that is no request with an id that can be read, and what answers it."""
    if draw(st.booleans()):
        return draw(st.sampled_from(NO_REQUESTS))
    return line_of(
        draw(st.sampled_from(NO_IDS)), draw(st.sampled_from(METHODS)), draw(st.just(NOTHING) | PARAMS)
    ).encode(), NULL


class Sent(list):
    """Lines and what answers them; a failure shows their beginnings only, for some have 600,000 bytes."""

    def __repr__(self):
        return repr([(line[:200], str(key)[:40]) for line, key in self])


LINES = st.lists(requests() | others(), min_size=1, max_size=30).map(Sent)
# Without shrinking: an answer that does not come costs its whole bound, each time.
SOME = settings(max_examples=40, suppress_health_check=list(HealthCheck), database=None, phases=[Phase.generate])


class Direct:
    """A client of the daemon without a relay, as `stage.Wire` has the answers."""

    def __init__(self, stage):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(BOUND_S)
        self.sock.connect(str(stage.run_dir() / "socket"))
        said = {
            "proto": 1,
            "conn": os.urandom(8).hex(),
            "project": os.path.realpath(stage.root),
            "toolsets": ["team"],
        }
        self.sock.sendall(json.dumps({"hello": {**said, "kind": "relay"}}).encode() + b"\n")
        self.lines = self.sock.makefile("rb")
        assert "error" not in json.loads(self.lines.readline())["hello"]
        self.messages = []
        # Writes run beside the reading, because the daemon stops reading from a client that leaves its answers unread;
        # one thread for all of them keeps their order.
        self.writer = ThreadPoolExecutor(1)

    def close(self):
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)  # a write that still waits ends with it
        self.writer.shutdown()
        self.lines.close()
        self.sock.close()

    def write(self, data):
        self.writer.submit(self.sock.sendall, data)

    def answers(self, key):
        while not (found := [one for one in self.messages if one.get("id") == key and "method" not in one]):
            self.take()
        return found

    def take(self):
        line = self.lines.readline()
        assert line, "the daemon has ended the connection"
        self.messages.append(json.loads(line))


def same(one, other):
    return type(one) is type(other) and one == other


def count(wire, key):
    return sum("method" not in one and same(one.get("id", NOTHING), key) for one in list(wire.messages))


def check(wire, sent):
    """Send the lines and an ordinary request after them, and wait for the answers: each has come exactly once."""
    nulls = count(wire, None)
    last = f"ordinary-{next(COUNT)}"
    wire.write(
        b"".join(line + b"\n" for line, _ in sent) + line_of(json.dumps(last), "ping", NOTHING).encode() + b"\n"
    )
    wanted = Sent((line, key) for line, key in sent if key is not NOTHING and key is not NULL)
    try:
        until(lambda: wire.answers(last) and all(wire.answers(key) for _, key in wanted))
    except (OSError, AssertionError) as error:
        error.add_note(f"not answered: {Sent(one for one in wanted if not count(wire, one[1]))}")
        raise
    assert count(wire, None) - nulls == sum(key is NULL for _, key in sent)
    assert not Sent(one for one in wanted if count(wire, one[1]) != 1)
    return [key for _, key in wanted]


@pytest.fixture(scope="module")
def scene(shared_stage):
    shared_stage.boss = shared_stage.begun()
    shared_stage.asked = []
    return shared_stage


@given(sent=LINES)
@SOME
def test_every_request_through_a_relay_gets_exactly_one_answer_under_its_id(scene, sent):
    daemon = scene.daemon()
    scene.asked += check(scene.boss, sent)
    assert "result" in scene.boss.ask("tools/list")
    assert scene.daemon() == daemon


@given(sent=LINES)
@SOME
def test_every_request_without_a_relay_gets_exactly_one_answer_under_its_id(scene, sent):
    daemon = scene.daemon()
    with contextlib.closing(Direct(scene)) as wire:
        check(wire, sent)
    assert scene.daemon() == daemon


@given(sent=LINES)
@SOME
def test_every_request_of_a_modern_client_gets_exactly_one_answer_under_its_id(scene, sent):
    with contextlib.closing(Direct(scene)) as wire:
        wire.write(line_of(json.dumps("first"), "server/discover", {"_meta": MODERN}).encode() + b"\n")
        until(lambda: wire.answers("first"))
        check(wire, sent)


def test_after_all_of_it_and_a_kill_nothing_is_sent_again_and_nothing_answered_twice(scene):
    before = len(scene.boss.messages)
    scene.kill_daemon()
    assert "result" in scene.boss.ask("tools/list")
    scene.kill_daemon()
    assert "result" in scene.boss.ask("tools/list")
    told = [one for one in scene.boss.messages[before:] if "method" not in one]
    assert len(told) == 2, told


def test_a_request_that_is_refused_leaves_its_connection_usable_for_a_client_without_a_relay(scene):
    with contextlib.closing(Direct(scene)) as wire:
        wire.write(line_of("0", "initialize", INITIALIZE).encode() + b"\n")
        until(lambda: wire.answers(0))
        for line, key in (
            (nested(MAX_DEPTH + 1, 1), 1),
            (line_of("2", "ping", []), 2),
            (line_of("3.5", "ping", NOTHING), 3.5),
        ):
            wire.write(line.encode() + b"\n")
            assert "error" in until(lambda key=key: wire.answers(key))[0]
        wire.write(line_of("4", "tools/list", NOTHING).encode() + b"\n")
        assert "result" in until(lambda: wire.answers(4))[0]


def test_a_second_request_of_an_open_id_is_not_run_and_not_answered_under_it(scene):
    scene.boss.tool("agent_create", {"name": "d", "role": "r"})
    waiting = {"name": "events_read", "arguments": {"agent_id": "d", "wait_ms": 60_000}}
    second = {"name": "task_enqueue", "arguments": {"agent_id": "d", "task": {"task_id": "never", "payload": None}}}
    first = {
        "name": "task_enqueue",
        "arguments": {"agent_id": "d", "task": {"task_id": "once", "payload": {"command": "true"}}},
    }
    until(lambda: "ready" in scene.types("d"))
    seq = len(scene.records("d"))
    waiting["arguments"]["since_seq"] = seq
    with contextlib.closing(Direct(scene)) as direct:
        for number, (wire, key) in enumerate(((scene.boss, "twice"), (direct, "twice too")), 1):
            if wire is direct:
                wire.write(line_of("0", "initialize", INITIALIZE).encode() + b"\n")
                until(lambda wire=wire: wire.answers(0))
                waiting["arguments"]["since_seq"] = len(scene.records("d"))
                first["arguments"]["task"]["task_id"] = "once-more"
            nulls = count(wire, None)
            wire.write(line_of(json.dumps(key), "tools/call", waiting).encode() + b"\n")
            wire.write(line_of(json.dumps(key), "tools/call", second).encode() + b"\n")
            until(lambda wire=wire, nulls=nulls: wire.answers(None) and count(wire, None) == nulls + 1)
            wire.write(line_of(json.dumps("first " + key), "tools/call", first).encode() + b"\n")
            answers = until(lambda wire=wire, key=key: wire.answers(key))
            assert "events" in answers[0]["result"]["structuredContent"]
            until(lambda wire=wire, key=key: wire.answers("first " + key))
            assert count(wire, key) == 1
            # No record of this round may end the wait of the next.
            until(lambda number=number: scene.types("d").count("result") == number)
    assert not [r for r in scene.records("d", "inbox") if r.get("task_id") == "never"]


def test_what_stands_at_the_limits_is_kept_and_comes_back_whole(scene):
    scene.boss.tool("agent_create", {"name": "l", "role": "r"})
    payload = 1
    for _ in range(MAX_DEPTH - 4):  # message, params, arguments, task
        payload = [payload]
    key = json.dumps("k" * MAX_ID)
    task = {"agent_id": "l", "task": {"task_id": "deep", "payload": payload}}
    line = line_of(key, "tools/call", {"name": "task_enqueue", "arguments": task})
    assert line.count("{") + line.count("[") == MAX_DEPTH
    scene.boss.write(line.encode() + b"\n")
    assert not until(lambda: scene.boss.answers("k" * MAX_ID))[0]["result"].get("isError")
    scene.kill_daemon()
    [record] = [r for r in scene.records("l", "inbox") if r.get("task_id") == "deep"]
    assert record["payload"] == payload
    until(lambda: "error" in scene.types("l"))  # it has reached the worker, whom it tells nothing to run


@pytest.mark.parametrize("number", [1 << 63, 1 << 64, -(1 << 70), 10**4000])
def test_an_integer_that_no_record_can_hold_is_an_error_with_a_code(scene, number):
    scene.boss.tool("agent_create", {"name": "n", "role": "r"})
    answer = scene.boss.tool("task_enqueue", {"agent_id": "n", "task": {"payload": {"n": number}}})
    assert "position" in answer if number == 1 << 63 else answer["error"]["code"] == "bad_argument"
