"""The arguments of all tools: which integers are ids, what is ignored, and what the schemas say."""

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.protocol import tool_calls
from orchestrator.protocol.tool_calls import Arguments, Client, Id, request_key
from tools import docs

TOOLS = docs.master() | docs.agent() | docs.squad() | docs.smartspawn() | docs.gsd()
IDS = frozenset({"confirm", "phase"})
"""Arguments that are ids, besides those whose name ends so."""


def ids_of(schema, path=()):
    """The paths of all ids in a schema."""
    for name, parameter in schema.get("properties", {}).items():
        if name.lower().endswith("id") or name in IDS:
            yield (*path, name), parameter
        yield from ids_of(parameter.get("items", parameter), (*path, name))


ALL_IDS = [(tool, *found) for tool in TOOLS.values() for found in ids_of(tool.listed.input_schema)]


def wrong(tool, path, value):
    """What is said of that argument if it has that value and every other is missing."""
    given = value
    for name in reversed(path):
        given = {name: [given] if name in ("members", "agents") else given}
    try:
        tool_calls.checked(tool.arguments, given)
    except BadRequest as error:
        return [part for part in error.message.split("; ") if part.split(":")[0].endswith(path[-1])]
    return []


@pytest.mark.parametrize(("tool", "path", "schema"), ALL_IDS, ids=[f"{row[0].name}-{row[1][-1]}" for row in ALL_IDS])
def test_every_id_of_every_tool_may_be_an_integer_and_its_schema_is_a_string(tool, path, schema):
    assert schema["type"] == "string"
    assert wrong(tool, path, 5) == []
    for value in (True, 5.0, [5], 10**128):
        assert wrong(tool, path, value) != []


def test_all_toolsets_have_ids():
    assert {row[0].name for row in ALL_IDS} >= {
        "agent_get", "task_enqueue", "agent_delete", "broadcast_read", "wait_for_command", "emit_event",
        "start_squad_members", "smartspawn_run_result", "smartspawn_artifact_get", "gsd_phase_status",
    }  # fmt: skip


class Loose(Arguments):
    agent_id: Id
    count: int = 0


@pytest.mark.parametrize(("given", "taken"), [(5, "5"), ("5", "5"), (0, "0"), (-5, "-5"), (10**127, "1" + "0" * 127)])
def test_an_integer_and_the_string_of_its_digits_are_one_id(given, taken):
    assert tool_calls.checked(Loose, {"agent_id": given}).agent_id == taken


def test_what_a_lenient_tool_does_not_know_is_left_out_and_named():
    arguments, ignored = tool_calls.checked_leniently(Loose, {"agent_id": 5, "x": 1, "wait_for_previous": True})
    assert (arguments, ignored) == (Loose(agent_id="5"), ("x",))
    with pytest.raises(BadRequest) as refused:
        tool_calls.checked_leniently(Loose, {"agentId": 5, "count": "many", "x" * 500: 1})
    assert "did you mean agent_id?" in refused.value.message
    assert len(refused.value.message) < 500
    with pytest.raises(BadRequest):
        tool_calls.checked(Loose, {"agent_id": "a", "x": 1})


@pytest.mark.parametrize(
    ("name", "known"),
    [("payloud", "payload"), ("taskId", "task_id"), ("timeout", "timeout_ms"), ("zebra", ""), ("", ""), ("id", "")],
)
def test_which_argument_a_misspelt_one_means(name, known):
    assert tool_calls.meant(name, ["agent_id", "payload", "task_id", "timeout_ms"]) == known


def test_the_key_of_a_request_is_short_and_its_own_whatever_id_the_client_gives():
    client = Client(ConnectionOrigin("c", "/"), "relay", "master", ("team",))
    ids = [1, "1", "x" * 98, "x" * 99, "x" * 100_000, "x" * 99_999, "é" * 80]
    keys = [request_key(client, request_id) for request_id in ids]
    assert keys[:3] == ["c:1", 'c:"1"', 'c:"' + "x" * 98 + '"']
    assert len(set(keys)) == len(keys)
    assert max(map(len, keys)) <= 102
    assert keys == [request_key(client, request_id) for request_id in ids]
