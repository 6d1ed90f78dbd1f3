"""How a client's line is judged: what is passed on, whose id a refusal bears, and where the limits are."""

import json

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.edge import request_limits as judging
from orchestrator.edge.request_limits import (
    ID_BITS,
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_ID,
    MAX_LINE,
    RefusedLine,
    is_deep,
    is_id,
    read_client,
    read_cut,
)
from orchestrator.edge.wire_format import KEPT, WireLines
from orchestrator.protocol.sdk_messages import read, written
from orchestrator.protocol.traffic import MAX_LINE as DAEMON_MAX_LINE

JUDGES = [read_client, read]


def request(key: str = "1", more: str = "") -> bytes:
    return f'{{"jsonrpc":"2.0","id":{key},"method":"ping"{more}}}'.encode()


def nested(levels: int) -> bytes:
    """A request so many levels deep."""
    return request(more=f',"params":{{"a":{"[" * (levels - 2)}{"]" * (levels - 2)}}}')


def refused(line: bytes, judge=read_client) -> RefusedLine:
    with pytest.raises(RefusedLine) as caught:
        judge(line)
    return caught.value


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize(
    "line",
    [
        request(),
        request(str((1 << ID_BITS - 1) - 1)),
        request(str(-(1 << ID_BITS - 1))),
        request(json.dumps("x" * MAX_ID)),
        request(json.dumps("\N{FOX FACE}" * MAX_ID)),
        request('""'),
        request("-0"),
        request('"\\u0000"'),
        request(more=',"params":null'),
        request(more=',"params":{"n":' + "9" * MAX_DIGITS + "}"),
        request(more=',"result":null,"error":null'),
        request(more=',"params":{"a":"' + "[{" * 1000 + '"}'),
        request(more=',"params":{"a":[' + ",".join(["{}"] * 1000) + "]}"),
        nested(MAX_DEPTH),
        b" \t" + request() + b"\r",
    ],
)
def test_a_line_within_the_limits_is_passed_on(judge, line):
    judge(line)


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize(
    ("line", "key", "code"),
    [
        (nested(MAX_DEPTH + 1), 1, -32600),
        (nested(200), 1, -32600),
        (nested(100_000), 1, -32600),
        (request(str(1 << ID_BITS - 1)), 1 << ID_BITS - 1, -32600),
        (request(str(-(1 << ID_BITS - 1) - 1)), -(1 << ID_BITS - 1) - 1, -32600),
        (request(json.dumps("x" * (MAX_ID + 1))), "x" * (MAX_ID + 1), -32600),
        (request('"\\ud83d"'), "\ud83d", -32600),
        (request("1.5"), 1.5, -32600),
        (request("1.0"), 1.0, -32600),
        (request("9" * (MAX_DIGITS + 1)), None, -32700),
        (request("1e400"), None, -32600),
        (request("NaN"), None, -32700),
        (request("null"), None, -32600),
        (request("true"), None, -32600),
        (request('{"id":2}'), None, -32600),
        (request(more=',"params":[]'), 1, -32602),
        (request(more=',"params":"x"'), 1, -32602),
        (request(more=',"params":0'), 1, -32602),
        (request(more=',"params":{"n":' + "9" * (MAX_DIGITS + 1) + "}"), 1, -32700),
        (request(more=',"error":{"code":1,"message":"x"}'), 1, -32600),
        (request(more=',"method":7'), 1, -32600),
        (request(more=',"jsonrpc":"1.0"'), 1, -32600),
        (request(more=',"id":2,"params":[]'), 2, -32602),
        (b"\xef\xbb\xbf" + request(), 1, -32700),
        (b'{"jsonrpc":"2.0","id":"\xff","method":"ping"}', None, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xff"}}', 1, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"p\ting"}', 1, -32700),
        (b'{"jsonrpc":"2.0","id":1}', 1, -32600),
        (request() + request(), None, -32700),
        (request()[:-1], None, -32700),
        (b"[" * 100_000, None, -32700),
        (b'{"a":"' + b"\\" * 100_001, None, -32700),
        (b'\\"' * 100_000, None, -32700),
        (b"[" + request() + b"]", None, -32600),
        (b"null", None, -32600),
        (b'{"jsonrpc":"2.0","method":1}', None, -32600),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_refused_request_is_answered_under_its_id_as_it_was_read(judge, line, key, code):
    found = refused(line, judge)
    assert (found.kind, found.key, type(found.key), found.code) == ("request", key, type(key), code)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_is_no_json_is_refused_by_the_relay_and_taken_by_the_daemon(number):
    line = request(more=f',"params":{{"n":{number}}}')
    assert (refused(line).key, refused(line).code) == (1, -32700)
    assert read(line).id == 1


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize(
    ("line", "kind", "key"),
    [
        (b'{"jsonrpc":"2.0","method":"x","params":[]}', "notification", None),
        (b'{"method":"x"}', "notification", None),
        (b'{"jsonrpc":"2.0","method":"x","params":' + b"[" * 300 + b"]" * 300 + b"}", "notification", None),
        (b'{"jsonrpc":"2.0","method":"x","params":{"n":NaN,}}', "notification", None),
        (b'{"jsonrpc":"2.0","id":1.5,"result":{}}', "response", 1.5),
        (b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 300 + b"]" * 300 + b"}", "response", 1),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}', "response", None),
        (b'{"jsonrpc":"2.0","result":{}}', "response", None),
    ],
)
def test_what_asks_for_nothing_is_refused_as_what_it_is(judge, line, kind, key):
    found = refused(line, judge)
    assert (found.kind, found.key) == (kind, key)


def test_half_a_character_becomes_a_question_mark_also_where_the_relay_keeps_it():
    message, line = read_client(request(more=',"params":{"\\ud83d":"a\\uDE00"}'))
    assert message["params"] == {"?": "a?"}
    assert json.loads(line) == message


@pytest.mark.parametrize(
    ("head", "tail", "kind", "key"),
    [
        (b'{"jsonrpc":"2.0","id":5,"method":"x","params":{"a":"', b'"}}', "request", 5),
        (b'{"method":"x","params":{"a":"', b'"},"jsonrpc":"2.0","id":5}', "request", 5),
        (b'{"method":"x","params":{"a":"', b'"},"id":"a\\"b","jsonrpc":"2.0" } ', "request", 'a"b'),
        (b'{"params":{"a":"', b'"},"id":5,"method":"x"}', "request", 5),
        (b'{"method":"x","params":{"a":"', b'"},"id":5,"more":{}}', "request", None),
        (b'{"method":"x","params":{"a":"', b'\\",\\"id\\":5}"}}', "request", None),
        (b'{"jsonrpc":"2.0","method":"x","params":{"id":5,"a":"', b'","id":6}}', "request", None),
        (b'{"jsonrpc":"2.0","id":5,"result":{"a":"', b'"}}', "response", 5),
        (b'{"result":{"a":"', b'"},"jsonrpc":"2.0","id":5}', "response", 5),
        (b'{"a":"', b'","id":5}', "request", None),
        (b"x", b"x", "request", None),
        (b"[{", b',"id":5}]', "request", None),
    ],
)
@pytest.mark.parametrize("step", [1 << 20, 1000])
def test_the_id_of_a_line_over_the_limit_is_read_at_its_ends(head, tail, kind, key, step):
    lines, data, cut = WireLines(50_000), head + b"x" * 60_000 + tail + b"\n", []
    for at in range(0, len(data), step):
        cut += lines.feed(data[at : at + step])
    found = read_cut(cut[0])
    assert (found.kind, found.key, found.code) == (kind, key, -32600)
    assert len(cut[0].head) == len(cut[0].tail) == KEPT


def test_a_line_that_grows_over_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(judging, "MAX_LINE", 10_000)
    grows = request(more=',"params":{"a":"\\ud83d","b":[' + ",".join(["1e15"] * 1000) + "]}")
    assert len(grows) < judging.MAX_LINE
    assert (refused(grows).kind, refused(grows).key) == ("request", 1)


JSON = st.recursive(
    st.none() | st.integers(0, 9) | st.text('[]{}"\\a', max_size=5),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text('[{"\\', max_size=2), one, max_size=3),
    max_leaves=200,
)


def depth(value) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max((depth(one) for one in (value.values() if isinstance(value, dict) else value)), default=0)


@given(
    value=JSON, more=st.integers(0, 2 * MAX_DEPTH), copies=st.integers(1, 100), space=st.sampled_from(["", " ", "\t"])
)
def test_depth_is_counted_exactly(value, more, copies, space):
    for level in range(more):
        value = [value] if level % 3 else {"a": value, "},{": "],["}
    value = [value] * copies
    line = json.dumps(value, separators=(f",{space}", ":")).encode()
    assert is_deep(line, value) == (depth(value) > MAX_DEPTH)


@given(
    params=JSON,
    key=st.integers() | st.text(st.characters(exclude_categories=()), max_size=5),
    order=st.integers(0, 3),
)
def test_the_id_is_read_wherever_it_stands_and_whatever_stands_beside_it(params, key, order):
    members = ['"jsonrpc":"2.0"', f'"id":{json.dumps(key)}', '"method":"x"', f'"params":{json.dumps(params)}']
    line = "{" + ",".join(members[order:] + members[:order]) + ',"deep":' + "[" * 500 + "]" * 500 + "}"
    found = refused(line.encode())
    assert (found.kind, found.key) == ("request", key)


def test_the_limits_fit_each_other():
    assert 2 * MAX_LINE <= DAEMON_MAX_LINE, "the daemon ends a connection for a line over its own limit"
    assert is_id("x" * MAX_ID) and not is_id(True) and not is_id(None)


def test_an_answer_that_cannot_be_written_becomes_an_error_under_its_id():
    text = {"text": "\udcff"}
    told = json.loads(written(types.JSONRPCResponse(jsonrpc="2.0", id="a", result=text)))
    assert (told["id"], told["error"]["code"]) == ("a", -32603)
    failed = types.JSONRPCError(jsonrpc="2.0", id=1, error=types.ErrorData(code=-32602, message="\udcff"))
    assert json.loads(written(failed))["id"] == 1
    assert written(types.JSONRPCNotification(jsonrpc="2.0", method="x", params=text)) == b""
