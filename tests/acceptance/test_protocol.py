"""Every era of the protocol that the SDK serves: tools, resources, prompts, updates and progress are the same."""

import asyncio
import json

import jsonschema
import pytest

from tests.support.stage import until

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MASTER_TOOLS = [
    "agent_create", "agents_create", "agent_get", "agent_list", "agent_restart", "agent_delete",
    "task_enqueue", "task_cancel", "events_read", "broadcast_read", "list_roles", "start_squad_members",
]  # fmt: skip
SQUAD_TOOLS = {"list_roles", "start_squad_members"}  # test_squads.py holds what they answer
READ_ONLY = {"list_roles", "agent_get", "agent_list", "events_read", "broadcast_read", "wait_for_command"}


@pytest.fixture(scope="module")
def scene(shared_stage):
    """One agent that has run one task, which left a text and a binary artifact."""
    stage = shared_stage
    stage.boss = stage.begun()
    made = stage.boss.tool("agent_create", {"name": "a", "role": "builder"})
    stage.run_id = made["run_id"]
    command = (
        "cd .agents/agents/a/artifacts && mkdir deep && echo text > deep/one.txt && printf '\\377\\376' > two.bin"
    )
    task = {"task_id": "t", "payload": {"command": command}}
    stage.boss.tool("task_enqueue", {"agent_id": "a", "task": task})
    # As the daemon shows it: what stands in the outbox is shown, and told, once it is safe on the disk.
    until(lambda: any(event["type"] == "result" for event in stage.boss.tool("broadcast_read")["events"]))
    return stage


def uris(scene):
    return {
        "agent://a/outbox": "application/x-ndjson",
        "agent://a/outbox?tail=2": "application/x-ndjson",
        "agent://a/meta": "application/json",
        "agent://a/artifacts": "application/json",
        "agent://a/artifacts/deep/one.txt": "text/plain",
        "agent://a/artifacts/two.bin": "application/octet-stream",
        f"run://{scene.run_id}/broadcast?tail=1": "application/x-ndjson",
    }


def check_contents(scene, found):
    """``found``: uri -> (mime type, text or None, blob or None)."""
    outbox = [json.loads(line) for line in found["agent://a/outbox"][1].splitlines()]
    stored = scene.records("a")
    assert [record["seq"] for record in outbox] == [record["seq"] for record in stored]
    assert found["agent://a/outbox?tail=2"][1].splitlines() == found["agent://a/outbox"][1].splitlines()[-2:]
    assert json.loads(found["agent://a/meta"][1])["agent_id"] == "a"
    names = {row["name"] for row in json.loads(found["agent://a/artifacts"][1])}
    assert {"deep/one.txt", "two.bin"} <= names
    assert found["agent://a/artifacts/deep/one.txt"][1] == "text\n"
    assert found["agent://a/artifacts/two.bin"][2] == "//4="
    last = json.loads(found[f"run://{scene.run_id}/broadcast?tail=1"][1])
    assert (last["agent_id"], last["type"], last["task_id"], last["ref"]) == ("a", "result", "t", stored[-1]["seq"])
    assert {uri: what[0] for uri, what in found.items()} == uris(scene)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_each_handshake_version_is_spoken_with_all_that_is_offered(scene, version):
    wire = scene.wire()
    said = wire.begin(version)
    assert said["protocolVersion"] == version
    assert said["serverInfo"]["name"] == "orchestrator"
    assert said["instructions"]
    assert [tool["name"] for tool in wire.ask("tools/list")["result"]["tools"]] == MASTER_TOOLS
    listed = wire.answer(wire.start("agent_list"))["result"]
    assert [row["agent_id"] for row in listed["structuredContent"]["agents"]] == ["a"]
    assert json.loads(listed["content"][0]["text"]) == listed["structuredContent"], "one answer, in both forms"
    shown = wire.ask("resources/list")["result"]["resources"]
    assert {"agent://a/outbox", "agent://a/meta", "agent://a/artifacts"} <= {one["uri"] for one in shown}
    templates = [one["uriTemplate"] for one in wire.ask("resources/templates/list")["result"]["resourceTemplates"]]
    assert len(templates) == 5
    found = {}
    for uri in uris(scene):
        (one,) = wire.ask("resources/read", {"uri": uri})["result"]["contents"]
        found[uri] = (one["mimeType"], one.get("text"), one.get("blob"))
    check_contents(scene, found)
    prompts = [one["name"] for one in wire.ask("prompts/list")["result"]["prompts"]]
    assert prompts == ["lead_team", "agent"]
    text = wire.ask("prompts/get", {"name": "lead_team"})["result"]["messages"][0]["content"]["text"]
    assert str(scene.root) in text
    assert wire.ask("prompts/get", {"name": "none"})["error"]["code"] == -32602
    assert wire.ask("ping")["result"] == {}


@pytest.mark.anyio
async def test_the_modern_era_is_spoken_with_all_that_is_offered(scene):
    async with scene.master() as client:
        assert client.protocol_version == "2026-07-28"
        assert [tool.name for tool in (await client.list_tools()).tools] == MASTER_TOOLS
        listed = (await client.call_tool("agent_list", {})).structured_content
        assert [row["agent_id"] for row in listed["agents"]] == ["a"]
        assert len((await client.list_resource_templates()).resource_templates) == 5
        found = {}
        for uri in uris(scene):
            (one,) = (await client.read_resource(uri)).contents
            found[uri] = (one.mime_type, getattr(one, "text", None), getattr(one, "blob", None))
        check_contents(scene, found)
        assert [one.name for one in (await client.list_prompts()).prompts] == ["lead_team", "agent"]
        assert (await client.get_prompt("agent")).messages[0].content.text.startswith("#")


def test_the_tools_are_described_so_that_every_client_can_use_them(scene):
    agent_env = json.loads((scene.root / ".agents/agents/a/engine/launch.json").read_text())["env"]
    agent = scene.begun(agent_env, "--agent")
    listed = [*scene.boss.ask("tools/list")["result"]["tools"], *agent.ask("tools/list")["result"]["tools"]]
    assert [tool["name"] for tool in listed] == [*MASTER_TOOLS, "wait_for_command", "emit_event"]
    for tool in listed:
        schema = tool["inputSchema"]
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert not {"anyOf", "oneOf", "allOf", "$ref", "$defs"} & schema.keys(), tool["name"]
        assert "anyOf" not in json.dumps(schema), "Gemini drops what it does not know"
        assert schema["additionalProperties"] is False
        assert "properties" in schema
        jsonschema.Draft202012Validator.check_schema(tool["outputSchema"])
        assert tool["outputSchema"]["type"] == "object"
        hints = tool["annotations"]
        assert hints["title"]
        assert hints["readOnlyHint"] is (tool["name"] in READ_ONLY)
        assert hints["destructiveHint"] is (tool["name"] in ("agent_delete", "agent_restart"))
        assert len(tool["description"]) > 40
    by_name = {tool["name"]: tool for tool in listed}
    for name in ("wait_for_command", "emit_event"):
        # Claude must not hide them behind a search; Codex asks no approval for what is closed and not destructive.
        assert by_name[name]["_meta"]["anthropic/alwaysLoad"] is True
        assert by_name[name]["annotations"]["openWorldHint"] is False
    agent.tool("emit_event", {"agent_id": "a", "type": "heartbeat"})


def test_what_the_tools_answer_is_what_their_output_schemas_say(scene):
    tools = {tool["name"]: tool for tool in scene.boss.ask("tools/list")["result"]["tools"]}
    seen = set()

    def check(name, arguments):
        answer = scene.boss.tool(name, arguments)
        assert "error" not in answer, answer
        jsonschema.validate(answer, tools[name]["outputSchema"])
        seen.add(name)
        return answer

    check("agent_create", {"name": "one", "role": "r"})
    check("agents_create", {"agents": [{"name": "two", "role": "r"}]})
    check("task_enqueue", {"agent_id": "one", "task": {"task_id": "t", "payload": {"command": "sleep 300"}}})
    check("task_enqueue", {"agent_id": "one", "task": {"task_id": "t", "payload": {"command": "sleep 300"}}})
    check("agent_get", {"agent_id": "one"})
    check("agent_list", {"scope": "all"})
    check("events_read", {"agent_id": "one"})
    check("broadcast_read", {})
    check("task_cancel", {"agent_id": "one", "task_id": "t"})
    check("agent_restart", {"agent_id": "two"})
    for agent_id in ("one", "two"):
        check("agent_delete", {"agent_id": agent_id})
    assert seen == tools.keys() - SQUAD_TOOLS


def test_progress_tells_what_happens_while_agents_start_and_only_rises(scene):
    key = scene.boss.start(
        "agents_create", {"agents": [{"name": "p1", "role": "r"}, {"name": "p2", "role": "r"}]}, progressToken="tok"
    )
    assert scene.boss.outcome(scene.boss.answer(key))["ready"] == 2
    told = [one["params"] for one in scene.boss.told("notifications/progress")]
    assert told
    assert {one["progressToken"] for one in told} == {"tok"}
    assert any("starting" in one.get("message", "") for one in told)
    values = [one["progress"] for one in told]
    assert values == sorted(values)
    for agent_id in ("p1", "p2"):
        scene.boss.tool("agent_delete", {"agent_id": agent_id})


QUIET = "agent://quiet/outbox"


def test_a_subscriber_hears_of_changes_and_once_after_a_restart(stage):
    wire = stage.begun(version="2025-11-25")
    made = wire.tool("agents_create", {"agents": [{"name": "a", "role": "r"}, {"name": "quiet", "role": "r"}]})
    assert made["ready"] == 2
    wanted = ["agent://a/outbox", f"run://{made['agents'][0]['run_id']}/broadcast", QUIET]
    for uri in wanted:
        assert "result" in wire.ask("resources/subscribe", {"uri": uri})

    def updated():
        return [one["params"]["uri"] for one in wire.told("notifications/resources/updated")]

    wire.tool("task_enqueue", {"agent_id": "a", "task": {"payload": {"command": "true"}}})
    until(lambda: set(updated()) == set(wanted[:2]))
    assert "result" in wire.ask("resources/unsubscribe", {"uri": wanted[1]})
    stage.hold("quiet")  # nothing happens to it but the restart
    stage.kill_daemon()
    until(lambda: QUIET in updated())
    wire.tool("agent_create", {"name": "b", "role": "r"})
    until(lambda: wire.told("notifications/resources/list_changed"))


@pytest.mark.anyio
async def test_a_listener_of_the_modern_era_hears_of_changes_and_once_after_a_restart(stage):
    async with stage.master() as client:
        team = [{"name": "a", "role": "r"}, {"name": "quiet", "role": "r"}]
        made = (await client.call_tool("agents_create", {"agents": team})).structured_content
        assert made["ready"] == 2
        async with client.listen(resource_subscriptions=["agent://a/outbox"]) as changes:
            events = aiter(changes)
            await client.call_tool("task_enqueue", {"agent_id": "a", "task": {"payload": {"command": "true"}}})
            assert (await asyncio.wait_for(anext(events), 30)).uri == "agent://a/outbox"
        stage.hold("quiet")
        async with client.listen(resource_subscriptions=[QUIET]) as changes:
            news = asyncio.ensure_future(anext(aiter(changes)))
            listed = (await client.call_tool("agent_list", {})).structured_content
            assert [row["agent_id"] for row in listed["agents"]] == ["a", "quiet"]
            assert not news.done()
            await asyncio.to_thread(stage.kill_daemon)
            assert (await asyncio.wait_for(news, 30)).uri == QUIET


def test_long_polls_of_the_master_return_with_news_or_by_their_time(scene):
    wire = scene.boss
    last = wire.tool("events_read", {"agent_id": "a"})["last_seq"]
    empty = wire.tool("events_read", {"agent_id": "a", "since_seq": last, "wait_ms": 100})
    assert (empty["events"], empty["last_seq"], empty["more"]) == ([], last, False)
    polls = [
        ("events_read", {"agent_id": "a", "since_seq": last}),
        ("broadcast_read", {}),
        ("agent_get", {"agent_id": "a"}),
    ]
    cursors = [empty["cursor"]]
    for name, given in polls:
        # No two calls of a model that passes it on are the same.
        cursors.append(wire.tool(name, {**given, "wait_ms": 100, "cursor": cursors[-1]})["cursor"])
        assert "cursor" not in wire.tool(name, given)
    assert len(set(cursors)) == 4
    assert (
        wire.tool("agent_get", {"agent_id": "a", "since_seq": last, "wait_ms": 100})["meta"]["last_event_seq"] == last
    )
    read = wire.start("events_read", {"agent_id": "a", "since_seq": last, "wait_ms": 45_000})
    told = wire.tool("broadcast_read", {})["last_seq"]
    heard = wire.start("broadcast_read", {"since_seq": told, "wait_ms": 45_000})
    got = wire.start("agent_get", {"agent_id": "a", "since_seq": last, "wait_ms": 45_000})
    assert wire.answers(read) == wire.answers(heard) == wire.answers(got) == []
    wire.tool("task_enqueue", {"agent_id": "a", "task": {"task_id": "news", "payload": {"command": "true"}}})
    assert wire.outcome(wire.answer(read))["events"][0]["task_id"] == "news"
    assert wire.outcome(wire.answer(got))["meta"]["last_event_seq"] > last
    assert wire.outcome(wire.answer(heard))["events"][0]["task_id"] == "news"


def test_answers_to_models_are_paged_by_size_and_a_large_payload_is_cut(scene):
    wire = scene.boss
    wire.tool("agent_create", {"name": "wordy", "role": "r"})
    agent = scene.puppet("wordy")
    wire.tool("task_enqueue", {"agent_id": "wordy", "task": {"task_id": "t", "payload": None}})
    agent.tool("wait_for_command", {"agent_id": "wordy"})
    for number in range(12):
        agent.tool("emit_event", {"agent_id": "wordy", "type": "progress", "payload": f"{number:04}" * 500})
    agent.tool("emit_event", {"agent_id": "wordy", "type": "result", "payload": "y" * 200_000})
    seen, seq, more, pages = [], 0, True, 0
    while more:
        page = wire.tool("events_read", {"agent_id": "wordy", "since_seq": seq})
        assert len(json.dumps(page)) < 25_000
        seen += page["events"]
        seq, more, pages = page["last_seq"], page["more"], pages + 1
    assert pages > 2
    assert [event["seq"] for event in seen] == list(range(1, len(seen) + 1))
    (result,) = [event for event in seen if event["type"] == "result"]
    assert result["payload"]["cut"] is True
    (record,) = [record for record in scene.records("wordy") if record["type"] == "result"]
    assert record["payload"] == "y" * 200_000, "the file has all of it"
