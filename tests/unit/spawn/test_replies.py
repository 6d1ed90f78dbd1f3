"""What a model's server can send, and what it is taken for."""

import json
import random
import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.spawn import replies
from orchestrator.spawn.run_data import Fault, Reply

NOW = 1_800_000_000.0
DATE = "Fri, 15 Jan 2027 08:00:30 GMT"  # NOW + 30 s
USAGE = {"prompt_tokens": 10, "completion_tokens": 20, "cost": 0.0012}


def body(content="yes", finish="stop", usage=USAGE, **more):
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content}}
    return {"id": "gen-1", "model": "a/b", "choices": [choice | more.pop("choice", {})], "usage": usage, **more}


def read(found, status=200, headers=None):
    data = found if isinstance(found, bytes) else json.dumps(found).encode()
    return replies.read_body(status, headers or {}, data, NOW)


def sse(*events, eol="\n"):
    return "".join(f"data: {e if isinstance(e, str) else json.dumps(e)}{eol}{eol}" for e in events).encode()


def delta(content=None, finish=None, **more):
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish}
    return {"id": "gen-1", "model": "a/b", "choices": [choice | more.pop("choice", {})], **more}


END = {"id": "gen-1", "choices": [], "usage": USAGE}


def streamed(data, cuts=None, headers=None, key=""):
    stream = replies.Stream(headers or {}, NOW, key)
    pieces = [data] if cuts is None else [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    for piece in pieces:
        stream.feed(piece)
    return stream.end()


# -- answers ----------------------------------------------------------------------------------------------------------


def test_a_whole_answer_is_a_reply_with_its_usage():
    assert read(body()) == Reply("yes", "stop", "a/b", 10, 20, Decimal("0.0012"))


def test_a_streamed_answer_is_the_same_reply():
    data = sse(delta("y"), delta("es"), delta("", "stop"), END, "[DONE]")
    assert streamed(data) == read(body())


@pytest.mark.parametrize("eol", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("seed", range(8))
def test_a_stream_reads_the_same_wherever_the_network_cut_it(eol, seed):
    text = "grüße 😀 \u2028 line"
    keep = f": OPENROUTER PROCESSING{eol}{eol}".encode()
    data = b"\xef\xbb\xbf" + keep + sse(delta(text), eol=eol) + keep + sse(delta("", "stop"), END, "[DONE]", eol=eol)
    rng = random.Random(seed)
    cuts = sorted(rng.sample(range(4, len(data)), 1 + seed * 5))
    assert streamed(data, cuts).text == text
    assert streamed(data, list(range(4, len(data)))).text == text


def test_a_stream_is_complete_at_done_and_minds_nothing_behind_it():
    stream = replies.Stream({}, NOW)
    stream.feed(sse(delta("yes", "stop")))
    assert (stream.decided, stream.complete) == (True, False)
    stream.feed(sse("[DONE]") + sse({"error": {"code": 500, "message": "late"}}))
    assert stream.complete
    assert stream.end().text == "yes"


def test_events_whose_blank_lines_are_missing_are_read_all_the_same():
    data = sse(delta("y"), delta("es", "stop"), END, "[DONE]").replace(b"\n\n", b"\n")
    assert streamed(data) == Reply("yes", "stop", "a/b", 10, 20, Decimal("0.0012"))


@pytest.mark.parametrize("eol", ["\n", "\r\n", "\r"])
def test_an_event_over_several_data_lines_is_one(eol):
    whole = json.dumps(delta("yes", "stop"), indent=1)
    lines = [*(f"data: {line}" for line in whole.split("\n")), "", "data: [DONE]", "", ""]
    data = eol.join(lines).encode()
    assert streamed(data).text == "yes"
    assert streamed(data, list(range(1, len(data)))).text == "yes"


def test_plain_json_behind_blanks_is_read_where_a_stream_was_asked_for():
    data = b" \n \n" * 50 + json.dumps(body()).encode()
    assert streamed(data) == read(body())
    assert streamed(data, list(range(1, len(data)))) == read(body())


def test_the_answer_of_another_choice_is_not_mixed_in():
    other = delta("no", choice={"index": 1})
    assert streamed(sse(delta("yes"), other, delta("", "stop"), "[DONE]")).text == "yes"


def test_names_of_the_wrong_type_are_left_out_and_the_answer_stands():
    found = read(body(id=7, model=["a"], finish=3))
    assert found == Reply("yes", "stop", "", 10, 20, Decimal("0.0012"))


def test_content_in_parts_is_joined():
    parts = [{"type": "text", "text": "one "}, {"type": "image_url", "image_url": {}}, "two", None, {"text": 3}]
    assert read(body(parts)).text == "one two"
    assert streamed(sse(delta(parts), delta("", "stop"), "[DONE]")).text == "one two"


def test_halves_of_a_character_that_two_chunks_brought_are_put_together():
    data = sse('{"choices":[{"delta":{"content":"\\ud83d"}}]}', '{"choices":[{"delta":{"content":"\\ude00"}}]}')
    assert streamed(data + sse(delta("", "stop"), "[DONE]")).text == "😀"
    assert streamed(sse('{"choices":[{"delta":{"content":"a\\ud83d"},"finish_reason":"stop"}]}')).text == "a\ufffd"


def test_an_answer_that_was_cut_at_its_length_is_a_truncated_reply():
    found = read(body(finish="length"))
    assert (found.text, found.truncated) == ("yes", True)


def test_an_answer_with_a_finish_reason_is_whole_also_without_done():
    found = streamed(sse(delta("yes"), delta("", "stop")))
    assert (found.text, found.cost) == ("yes", None)


# -- what an answer costs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "cost"),
    [
        ("0.1", "0.1"), ("0", "0"), ("1", "1"), ('"0.25"', "0.25"), ("1e-9", "1e-9"), ("0.10000000000000000001",) * 2,
        ("-1", None), ('"-1"', None), ("NaN", None), ('"NaN"', None), ("Infinity", None), ("-Infinity", None),
        ("1e9", None), ("10000", None), ("9999.99", "9999.99"), ("1" * 400, None), ("true", None), ("null", None),
        ('"free"', None), ("[1]", None), ("{}", None), ('"sNaN"', None),
    ],
)  # fmt: skip
def test_a_cost_is_taken_only_where_it_can_be_one(said, cost):
    data = json.dumps(body()).replace("0.0012", said).encode()
    assert read(data).cost == (None if cost is None else Decimal(cost))


@pytest.mark.parametrize("usage", [None, "no", [], {}, {"prompt_tokens": -1, "completion_tokens": 1.5}])
@pytest.mark.parametrize("tokens", [True, "7", 10**13])
def test_token_counts_that_cannot_be_are_not_taken(usage, tokens):
    found = read(body(usage=usage))
    assert (found.text, found.prompt_tokens, found.completion_tokens) == ("yes", None, None)
    assert read(body(usage={"prompt_tokens": tokens})).prompt_tokens is None


# -- faults in HTTP 200 -----------------------------------------------------------------------------------------------

ERROR = {"code": 502, "message": "Provider went away"}
HIDDEN = [
    json.dumps({"error": ERROR}).encode(),
    json.dumps({"error": ERROR, "choices": []}).encode(),
    json.dumps(body("half", "error", choice={"error": ERROR}, usage=None)).encode(),
    sse({"error": ERROR}),
    sse(delta("half"), delta("", "error", error=ERROR), "[DONE]"),
    sse(delta("half"), delta("", "error", choice={"error": ERROR}), "[DONE]"),
    sse(delta("half"), {"error": ERROR}),
]


@pytest.mark.parametrize("data", HIDDEN, ids=range(len(HIDDEN)))
def test_an_error_is_found_wherever_http_200_hides_it(data):
    assert streamed(data) == Fault("502", "Provider went away", retry=True)


def test_an_error_behind_an_answers_beginning_keeps_what_it_cost():
    found = streamed(sse(delta("half"), {"error": ERROR}, END, "[DONE]"))
    assert (found.code, found.cost, found.prompt_tokens) == ("502", Decimal("0.0012"), 10)
    assert found.reached


@pytest.mark.parametrize(
    ("code", "status", "retry"),
    [
        (429, "429", True), ("429", "429", True), (408, "408", True), (500, "500", True), (529, "529", True),
        (400, "400", False), (401, "401", False), (402, "402", False), (403, "403", False), (404, "404", False),
        (413, "413", False), ("rate_limit_exceeded", "429", True), ("server_error", "502", True),
        ("invalid_request_error", "400", False), ("insufficient_quota", "402", False), (None, "502", True),
        (200, "502", True), (99999, "502", True), ([], "502", True), (503.0, "503", True), (True, "502", True),
    ],
)  # fmt: skip
def test_the_code_of_an_error_says_whether_another_attempt_helps(code, status, retry):
    found = read({"error": {"code": code, "message": "m"}})
    assert (found.code, found.retry) == (status, retry)


def test_an_error_that_is_only_words_is_one():
    assert read({"error": "out of order"}) == Fault("502", "out of order", retry=True)
    assert read(body(finish="error")).code == "502"


@pytest.mark.parametrize("content", [None, "", " \n", []])
def test_an_empty_answer_is_worth_another_attempt_and_keeps_its_cost(content):
    for finish in ("stop", "length", "tool_calls", None):
        found = read(body(content, finish))
        assert (found.code, found.retry, found.reached, found.cost) == ("empty", True, True, Decimal("0.0012"))
    assert read(body(choices=[])).code == "empty"
    assert streamed(sse(delta(content, "stop"), END, "[DONE]")).cost == Decimal("0.0012")


def test_an_answer_the_filter_withheld_is_refused_for_good_and_the_beginning_of_one_is_a_reply():
    found = read(body("", "content_filter"))
    assert (found.code, found.retry) == ("refused", False)
    assert read(body("so far", "content_filter")) == Reply(
        "so far", "content_filter", "a/b", 10, 20, Decimal("0.0012")
    )
    refusal = body(None, choice={"message": {"content": None, "refusal": "I will not"}})
    assert (read(refusal).code, read(refusal).message) == ("refused", "I will not")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" \n ",
        b": OPENROUTER PROCESSING\n\n",
        b"data: ",
        sse(delta("half of it")),
        sse(delta("half of it"))[:-9],
        sse(delta("half of it")) + b'data: {"choi',
    ],
)
def test_a_stream_that_broke_off_is_a_network_fault_and_no_answer(data):
    found = streamed(data)
    assert (found.code, found.retry, found.reached) == ("network", True, True)


NONSENSE = [
    b"<html><h1>Hello</h1></html>",
    b"Internal server error",
    b"{nonsense}",
    b"[]",
    b"7",
    b"null",
    b'"text"',
    b"{}",
    b'{"choices":7}',
    b'{"choices":[7]}',
    b'{"choices":[{"message":{"content":{"a":1}},"finish_reason":"stop"}]}',
    b'{"id":7,"choices":[{"message":{"content":7},"finish_reason":3}],"usage":"no","model":[]}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"choices":[],"n":' + b"1" * 10_000 + b"}",
    bytes(range(256)),
    b"data: {nonsense}\n\ndata: [DONE]\n\n",
    b"data: []\n\ndata: [DONE]\n\n",
]


@pytest.mark.parametrize("data", NONSENSE, ids=range(len(NONSENSE)))
def test_nonsense_is_a_fault_that_no_other_attempt_helps(data):
    for found in (read(data), streamed(data, [len(data) // 2])):
        assert (found.code, found.retry, found.reached) == ("nonsense", False, True)
        assert len(found.message) <= replies.MESSAGE_CHARS


CUT = [
    b"{",
    b'{"choices":[{"message":{"content":"half',
    b'{"choices":[{"message":{"content":"half a {brace}',
    b'{"choices":[{"message":{"content":"whole"}}],"usage":{}',
    b'{"choices":[{"message":{"content":"whole"},"index":tru',
    b'{"choices":[{"message":{"content":"whole \\u00',
    b'data: {"choices":[{"delta":{"content":"half\n\ndata: [DONE]\n\n',
]


@pytest.mark.parametrize("data", CUT, ids=range(len(CUT)))
def test_json_that_ends_in_its_middle_is_worth_another_attempt(data):
    for found in (read(data), streamed(data, [len(data) // 2])):
        assert (found.code, found.retry, found.reached) == ("nonsense", True, True)


@pytest.mark.parametrize("status", [400, 429, 500])
def test_a_refusal_that_reports_what_it_cost_is_charged_with_that(status):
    body = {"error": {"code": status, "message": "no"}, "usage": {"prompt_tokens": 7, "cost": 0.25}}
    found = read(json.dumps(body).encode(), status)
    assert (found.cost, found.prompt_tokens, found.completion_tokens) == (Decimal("0.25"), 7, None)


def test_a_stream_that_is_not_read_to_its_end_keeps_what_it_reported():
    stream = replies.Stream({}, 0.0)
    stream.feed(b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\ndata: {"cho')
    found = stream.broken_off(Fault("timeout", "too slow", retry=True))
    assert (found.code, found.prompt_tokens, found.completion_tokens, found.cost) == ("timeout", 3, 4, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "error", "message", "delta", "content", "code", "metadata", "headers", "usage", "cost"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON, st.sampled_from([200, 204, 302, 400, 402, 408, 429, 500, 599]))
def test_nothing_a_server_can_say_raises(found, status):
    one = read(found, status)
    other = streamed(sse(found, delta(found, "stop"), "[DONE]"))
    for each in (one, other):
        assert isinstance(each, Reply | Fault)
        json.dumps(each.text if isinstance(each, Reply) else each.message).encode()


@given(st.binary(max_size=200))
def test_no_bytes_raise(data):
    assert isinstance(read(data), Reply | Fault)
    assert isinstance(streamed(b"data: " + data + b"\n\n" + data), Reply | Fault)


# -- faults of HTTP ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "retry"),
    [
        (400, False), (401, False), (402, False), (403, False), (404, False), (405, False), (413, False), (422, False),
        (408, True), (429, True), (500, True), (502, True), (503, True), (524, True), (529, True),
        (301, False), (307, False),
    ],
)  # fmt: skip
def test_a_status_says_whether_another_attempt_helps_and_that_nothing_was_generated(status, retry):
    found = read({"error": {"code": status, "message": "no"}}, status)
    assert found == Fault(str(status), "no", retry, None, reached=False)


def test_402_is_worth_another_attempt_only_with_a_retry_after():
    found = read({"error": {"code": 402, "message": "no"}}, 402, {"Retry-After": "3"})
    assert (found.retry, found.retry_after_s) == (True, 3.0)


@pytest.mark.parametrize(
    ("status", "reached"), [(401, False), (413, False), (408, True), (502, True), (504, True), (307, False)]
)
def test_an_error_page_of_somebody_in_between_does_not_say_that_nothing_was_generated(status, reached):
    found = read(b"<html>Bad gateway</html>", status)
    assert found.reached is reached
    assert "Bad gateway" in found.message
    assert read(b"", status).message == f"the server answered with status {status}"


META = {"retry_after_seconds": 7, "headers": {"Retry-After": "8"}}


@pytest.mark.parametrize(
    ("headers", "metadata", "after"),
    [
        ({"retry-after": "5"}, META, 5.0),
        ({"RETRY-AFTER": "1.5"}, {}, 1.5),
        ({"Retry-After": DATE}, META, 30.0),
        ({"Retry-After": "Fri, 15 Jan 2021 08:00:30 GMT"}, {}, 0.0),
        ({}, META, 7.0),
        ({}, {"headers": {"rEtry-aFter": "8"}}, 8.0),
        ({}, {"headers": {"Retry-After": DATE}}, 30.0),
        ({"Retry-After": "soon"}, META, 7.0),
        ({"Retry-After": "-4"}, {}, 0.0),
        ({"Retry-After": "inf"}, {}, None),
        ({"Retry-After": "Mon, 99 Foo 99999999999999999999 99:99:99 GMT"}, {}, None),
        ({"Retry-After": "Mon, 01 Jan 99999999999999 00:00:00 GMT"}, {}, None),
        ({"X-RateLimit-Reset": str(int(NOW * 1000) + 12_000)}, {}, 12.0),
        ({"X-RateLimit-Reset": "1"}, {}, 0.0),
        ({}, {"headers": {"x-ratelimit-reset": str(int(NOW * 1000) + 2000)}}, 2.0),
        ({"X-RateLimit-Reset": "9" * 400}, {}, None),
        ({}, {"headers": "no", "retry_after_seconds": []}, None),
        ({}, [], None),
    ],
)
def test_when_to_come_back_is_found_wherever_it_was_said(headers, metadata, after):
    found = {"error": {"code": 429, "message": "slow", "metadata": metadata}}
    assert read(found, 429, headers).retry_after_s == after
    assert read(found, 200, headers).retry_after_s == after


def test_the_end_of_a_rate_limits_window_counts_for_429_only():
    reset = {"X-RateLimit-Reset": str(int(NOW * 1000) + 12_000)}
    assert read({"error": {"code": 503, "message": ""}}, 503, reset).retry_after_s is None
    assert read({"error": {"code": 402, "message": ""}}, 402, reset).retry is False


def test_the_message_tells_what_the_provider_said():
    error = {
        "code": 429,
        "message": "Provider returned error",
        "metadata": {"provider_name": "P", "raw": "too\nmany"},
    }
    assert read({"error": error}, 429).message == "Provider returned error: P: too many"


# -- secrets and waits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "key sk-or-v1-0123456789abcdef is wrong",
        '{"Authorization": "Bearer abc.def-123456"}',
        "authorization: Basic dXNlcjpwYXNz",
        "Authorization=0123456789",
        "bearer 0123456789abcdef",
        "ghp_0123456789abcdef and github_pat_0123456789",
        "AKIA0123456789ABCDEF",
    ],
)
def test_secrets_are_masked(text):
    found = replies.masked(text)
    assert "…" in found
    assert not re.search(r"0123|abc\.def|dXNl", found)
    assert replies.masked(found) == found


@pytest.mark.parametrize("text", ["task-force and risk-free", "The bearer of it", "no authorization", "desk-lamp-x"])
def test_words_that_only_look_alike_are_left(text):
    assert replies.masked(text) == text


@pytest.mark.parametrize("filler", ["", "x" * 280])
def test_a_key_of_any_form_is_in_no_message(filler):
    key = "my own key"
    error = {"error": {"code": 401, "message": f"{filler} bad key: {key}"}}
    found = replies.read_body(401, {}, json.dumps(error).encode(), NOW, key)
    assert "my own" not in found.message
    assert len(found.message) <= replies.MESSAGE_CHARS
    data = sse(error) if filler else sse("{" + filler + key)
    assert "my own" not in streamed(data, key=key).message


def test_the_wait_doubles_up_to_its_limit_is_jittered_and_never_below_what_the_server_said():
    assert [replies.backoff_s(n, 0.0) for n in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert replies.backoff_s(10_000, 1.0) == 15
    assert replies.backoff_s(1, 1.0) == 1
    assert replies.backoff_s(0, 0.5, 40.0) == 40
    assert replies.backoff_s(5, 0.0, 1.0) == 30
