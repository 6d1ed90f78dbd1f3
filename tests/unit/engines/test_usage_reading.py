"""What CLIs record of their model requests: the lines of their transcripts as they are, and as nobody should write them."""

import json
import math

import pytest

from orchestrator.core.model_usage import TOKENS_MAX, ModelRequest
from orchestrator.engines import usage_reading
from orchestrator.engines.usage_reading import UNNAMED, UsageLine

AT = "2026-11-26T19:43:15.740Z"
CLAUDE = {
    "type": "assistant", "timestamp": AT, "requestId": "req_1", "uuid": "u", "isSidechain": False,
    "message": {
        "id": "msg_1", "model": "claude-sonnet-4-5", "role": "assistant", "content": [],
        "usage": {
            "input_tokens": 3, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 11,
            "output_tokens_details": {"thinking_tokens": 4}, "service_tier": "standard",
        },
    },
}  # fmt: skip
CODEX = {
    "timestamp": AT, "type": "token_usage_record",
    "payload": {
        "response_id": "resp_1", "turn_id": "t",
        "usage": {
            "input_tokens": 100, "cached_input_tokens": 60, "cache_write_input_tokens": 10, "output_tokens": 10,
            "reasoning_output_tokens": 4, "total_tokens": 110,
        },
    },
}  # fmt: skip
GEMINI = {
    "id": "g1", "timestamp": AT, "type": "gemini", "model": "gemini-2.5-flash", "content": "",
    "tokens": {"input": 100, "output": 10, "cached": 30, "thoughts": 5, "tool": 2, "total": 117},
}  # fmt: skip
OPENCODE = {
    "id": "msg_o", "model": "big", "cost": 0.5, "at": AT,
    "tokens": {"input": 1, "output": 2, "reasoning": 3, "cache": {"read": 4, "write": 5}},
}  # fmt: skip


def changed(line, *path, to):
    """A copy of the line with one value changed."""
    copy = json.loads(json.dumps(line))
    place = copy
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = to
    return copy


def test_claude_counts_input_without_the_cache():
    wanted = ModelRequest("msg_1", "claude-sonnet-4-5", 3, 7, 5, 11, at=AT)
    assert usage_reading.claude_line(CLAUDE, "x") == UsageLine(wanted, "x")


def test_claude_writes_messages_of_its_own_that_no_model_made():
    own = changed(CLAUDE, "message", "model", to="<synthetic>")
    assert usage_reading.claude_line(own, "").request is None
    assert usage_reading.claude_line({**CLAUDE, "type": "user"}, "").request is None


def test_codex_counts_input_with_the_cache_and_names_the_model_in_another_line():
    turn = {"type": "turn_context", "payload": {"model": "gpt-5-codex", "cwd": "/p"}}
    assert usage_reading.codex_line(turn, UNNAMED) == UsageLine(None, "gpt-5-codex")
    wanted = ModelRequest("resp_1", "gpt-5-codex", 30, 60, 10, 10, at=AT)
    assert usage_reading.codex_line(CODEX, "gpt-5-codex") == UsageLine(wanted, "gpt-5-codex")
    assert usage_reading.codex_line({"type": "event_msg", "payload": CODEX["payload"]}, "m").request is None


def test_gemini_counts_input_with_the_cache_and_thoughts_apart():
    request = usage_reading.gemini_line(GEMINI, "").request
    assert request == ModelRequest("g1", "gemini-2.5-flash", 72, 30, 0, 15, at=AT)
    assert usage_reading.gemini_line({**GEMINI, "tokens": None}, "").request is None
    assert usage_reading.gemini_line({**GEMINI, "type": "user"}, "").request is None


def test_opencode_reports_its_cost_and_a_model_without_a_price_as_free():
    assert usage_reading.opencode_message(OPENCODE) == ModelRequest("msg_o", "big", 1, 4, 5, 5, 0.5, AT)
    free = usage_reading.opencode_message({**OPENCODE, "cost": 0})
    assert free is not None and free.cost is None


READS = {
    "claude": (
        CLAUDE,
        lambda line: usage_reading.claude_line(line, "m").request,
        ("message", "usage", "output_tokens"),
    ),
    "codex": (CODEX, lambda line: usage_reading.codex_line(line, "m").request, ("payload", "usage", "output_tokens")),
    "gemini": (GEMINI, lambda line: usage_reading.gemini_line(line, "m").request, ("tokens", "output")),
    "opencode": (OPENCODE, usage_reading.opencode_message, ("tokens", "output")),
}


@pytest.mark.parametrize("kind", READS)
@pytest.mark.parametrize("number", [-1, 1e300, math.nan, 1.5, True, "7", [], {}, TOKENS_MAX + 1])
def test_an_impossible_number_makes_no_request(kind, number):
    line, read, path = READS[kind]
    assert read(line) is not None
    wrong = changed(line, *path, to=0)
    place = wrong
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = number  # as JSON has no NaN
    assert read(wrong) is None


@pytest.mark.parametrize("kind", READS)
@pytest.mark.parametrize("value", [None, 1, "x", [], [{}]])
def test_anything_in_place_of_a_part_makes_no_request(kind, value):
    line, read, path = READS[kind]
    for depth in range(1, len(path)):
        assert read(changed(line, *path[:depth], to=value)) is None
    assert read(dict.fromkeys(line, value)) is None


@pytest.mark.parametrize(("cost", "known"), [(0.5, 0.5), (2, 2.0), (0, None), (-1, None), (math.nan, None), (True, None),
                                             (math.inf, None), (1e300, None), ("1", None), (None, None)])  # fmt: skip
def test_a_cost_is_a_possible_number(cost, known):
    assert usage_reading.opencode_message({**OPENCODE, "cost": cost}).cost == known


def test_names_and_times_are_cut_and_made_printable():
    line = changed(CLAUDE, "message", "model", to="a\x1b[31m\u202e" + "b" * 500)
    request = usage_reading.claude_line({**line, "timestamp": "yesterday"}, "").request
    assert request is not None and request.model.isprintable() and len(request.model) <= 100 and request.at == ""
    assert usage_reading.claude_line(changed(CLAUDE, "message", "model", to=7), "").request.model == UNNAMED
    long = usage_reading.claude_line(changed(CLAUDE, "message", "id", to="i" * 9999), "").request
    assert len(long.request_id) == usage_reading.ID_CHARS


def test_a_request_is_read_again_from_our_own_record():
    record = {"id": "a", "model": "m", "input": 1, "cached": 2, "cache_write": 3, "output": 4, "cost": 0.1, "at": AT}
    assert usage_reading.recorded_request(record) == ModelRequest("a", "m", 1, 2, 3, 4, 0.1, AT)
    assert usage_reading.recorded_request({**record, "input": -1}) is None


@pytest.mark.parametrize(
    "at", ["9999-99-99T99:99:99Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-02-30T00:00:00Z"]
)
def test_a_time_that_cannot_be_is_left_out_and_the_request_counts(at):
    line = {"id": "r1", "model": "m", "input": 1, "cached": 0, "cache_write": 0, "output": 1, "at": at}
    assert usage_reading.recorded_request(line).at == ""
    assert (
        usage_reading.recorded_request({**line, "at": "2026-02-03T00:00:00.5+01:00"}).at
        == "2026-02-03T00:00:00.5+01:00"
    )
