"""Bad input to every tool: a coded error that says what is wrong, and not a byte of the project changed."""

import json

import pytest

from tests.support.stage import lines_of, tree, until

A = {"agent_id": "a"}
TASK = {"payload": 1}
NEW = {"name": "new", "role": "r"}
HUGE = "x" * 300_000
IDS = ("a/b", "../a", "..", ".", "a\0b", "\N{FOX FACE}", " a", "a b", "-a")

MASTER = [
    ("agent_create", {}, "bad_argument"),
    ("agent_create", {"name": "x"}, "bad_argument"),
    ("agent_create", NEW | {"name": 7}, "bad_argument"),
    ("agent_create", NEW | {"name": ""}, "bad_argument"),
    ("agent_create", NEW | {"name": "x" * 81}, "bad_argument"),
    ("agent_create", NEW | {"name": "///"}, "bad_id"),
    ("agent_create", NEW | {"name": ".."}, "bad_id"),
    ("agent_create", NEW | {"name": "\N{FOX FACE}"}, "bad_id"),
    ("agent_create", NEW | {"name": "\0"}, "bad_id"),
    ("agent_create", NEW | {"role": None}, "bad_argument"),
    ("agent_create", NEW | {"nmae": "x"}, "bad_argument"),
    ("agent_create", NEW | {"env": {"A": 1}}, "bad_argument"),
    ("agent_create", NEW | {"env": {"A=B": "1"}}, "bad_argument"),
    ("agent_create", NEW | {"env": {"A": "1\0"}}, "bad_argument"),
    ("agent_create", NEW | {"env": {"": "1"}}, "bad_argument"),
    ("agent_create", NEW | {"env": {"ORCHESTRATOR_AGENT_ID": "a"}}, "bad_argument"),
    ("agent_create", NEW | {"engine": "nosuch"}, "unknown_engine"),
    ("agent_create", NEW | {"cwd": "/"}, "path_escape"),
    ("agent_create", NEW | {"cwd": "/etc"}, "path_escape"),
    ("agent_create", NEW | {"cwd": "../.."}, "path_escape"),
    ("agent_create", NEW | {"cwd": "inner/../../.."}, "path_escape"),
    ("agent_create", NEW | {"cwd": "way-out"}, "path_escape"),
    ("agent_create", NEW | {"cwd": "way-out/deeper"}, "path_escape"),
    ("agent_create", NEW | {"cwd": "a\0b"}, "path_escape"),
    ("agent_create", NEW | {"cwd": "no-such-place"}, "bad_argument"),
    ("agent_create", NEW | {"cwd": "plain-file"}, "bad_argument"),
    ("agent_create", NEW | {"ready_wait_ms": -1}, "bad_argument"),
    ("agent_create", NEW | {"ready_wait_ms": "5"}, "bad_argument"),
    ("agent_create", NEW | {"ready_wait_ms": True}, "bad_argument"),
    ("agents_create", {}, "bad_argument"),
    ("agents_create", {"agents": []}, "bad_argument"),
    ("agents_create", {"agents": NEW}, "bad_argument"),
    ("agents_create", {"agents": [NEW, "x"]}, "bad_argument"),
    ("agents_create", {"agents": [NEW | {"rle": "x"}]}, "bad_argument"),
    ("agents_create", {"agents": [NEW] * 65}, "bad_argument"),
    ("agent_get", {}, "bad_argument"),
    ("agent_get", {"agent_id": 7}, "unknown_agent"),
    ("agent_get", {"agent_id": 7.0}, "bad_argument"),
    ("agent_get", {"agent_id": True}, "bad_argument"),
    ("agent_get", {"agent_id": -7}, "bad_id"),
    ("agent_get", {"agent_id": 10**200}, "bad_argument"),
    ("agent_get", {"agent_id": None}, "bad_argument"),
    ("agent_get", {"agent_id": "nobody"}, "unknown_agent"),
    ("agent_get", A | {"wait_ms": -1}, "bad_argument"),
    ("agent_get", A | {"wait_ms": 1.5}, "bad_argument"),
    ("agent_get", A | {"since_seq": -1}, "bad_argument"),
    ("agent_get", A | {"verbose": True}, "bad_argument"),
    ("agent_list", {"scope": "everything"}, "bad_argument"),
    ("agent_list", {"scope": "run"}, "bad_argument"),
    ("agent_list", {"scope": "run", "run_id": "run-none"}, "unknown_run"),
    ("agent_list", {"scope": "run", "run_id": 7}, "unknown_run"),
    ("agent_restart", {"agent_id": "nobody"}, "unknown_agent"),
    ("agent_restart", A | {"fresh": "yes"}, "bad_argument"),
    ("agent_restart", A | {"ready_wait_ms": -1}, "bad_argument"),
    ("agent_create", NEW | {"policies": {"restart": "sometimes"}}, "bad_argument"),
    ("agent_create", NEW | {"policies": {"max_restart": 1}}, "bad_argument"),
    ("task_enqueue", A | {"task": TASK | {"timeout_s": 0}}, "bad_argument"),
    ("task_enqueue", A | {"task": TASK | {"timeout_s": "soon"}}, "bad_argument"),
    ("agent_delete", {"agent_id": "nobody"}, "unknown_agent"),
    ("agent_delete", A | {"force": "yes"}, "bad_argument"),
    ("agent_delete", A | {"force": True}, "confirm_needed"),
    ("agent_delete", A | {"force": True, "confirm": "b"}, "confirm_needed"),
    ("task_enqueue", A, "bad_argument"),
    ("task_enqueue", A | {"task": "run"}, "bad_argument"),
    ("task_enqueue", A | {"task": TASK | {"priority": 1}}, "bad_argument"),
    ("task_enqueue", {"agent_id": "nobody", "task": TASK}, "unknown_agent"),
    ("task_enqueue", A | {"task": TASK | {"task_id": 7.0}}, "bad_argument"),
    ("task_enqueue", A | {"task": TASK | {"task_id": False}}, "bad_argument"),
    ("task_enqueue", A | {"task": TASK | {"task_id": -7}}, "bad_id"),
    ("task_cancel", A | {"task_id": 7}, "unknown_task"),
    ("task_enqueue", A | {"task": TASK | {"task_id": ""}}, "bad_id"),
    ("task_enqueue", A | {"task": TASK | {"task_id": "x" * 129}}, "bad_argument"),
    ("task_enqueue", A | {"task": {"payload": HUGE}}, "payload_too_large"),
    ("task_enqueue", A | {"task": {"payload": {"deep": [HUGE]}}}, "payload_too_large"),
    ("task_enqueue", A | {"task": {"task_id": "held", "payload": "other"}}, "task_exists"),
    ("task_cancel", A, "bad_argument"),
    ("task_cancel", A | {"task_id": "none"}, "unknown_task"),
    ("task_cancel", A | {"task_id": "ended"}, "task_finished"),
    ("task_cancel", {"agent_id": "nobody", "task_id": "held"}, "unknown_agent"),
    ("events_read", {}, "bad_argument"),
    ("events_read", {"agent_id": "nobody"}, "unknown_agent"),
    ("events_read", A | {"since_seq": -1}, "bad_argument"),
    ("events_read", A | {"since_seq": 10**9}, "bad_argument"),
    ("events_read", A | {"since_seq": 10**30}, "bad_argument"),
    ("events_read", A | {"max_events": 0}, "bad_argument"),
    ("events_read", A | {"max_events": 1001}, "bad_argument"),
    ("events_read", A | {"wait_ms": -5}, "bad_argument"),
    ("broadcast_read", {"run_id": "run-none"}, "unknown_run"),
    ("broadcast_read", {"since_seq": -1}, "bad_argument"),
    ("broadcast_read", {"since_seq": 10**9}, "bad_argument"),
    ("broadcast_read", {"since": 1}, "bad_argument"),
    ("no_such_tool", {}, "unknown_tool"),
    ("wait_for_command", A, "unknown_tool"),
    ("emit_event", A | {"type": "ack"}, "unknown_tool"),
    *(("agent_get", {"agent_id": bad}, "bad_id") for bad in IDS),
    *(("agent_delete", {"agent_id": bad, "force": True, "confirm": bad}, "bad_id") for bad in IDS),
    *(("task_enqueue", {"agent_id": bad, "task": TASK}, "bad_id") for bad in IDS),
    *(("task_enqueue", A | {"task": TASK | {"task_id": bad}}, "bad_id") for bad in IDS),
    *(("task_cancel", {"agent_id": bad, "task_id": "held"}, "bad_id") for bad in IDS),
    *(("events_read", {"agent_id": bad}, "bad_id") for bad in IDS),
]
AGENT = [
    ("wait_for_command", {}, "bad_argument"),
    ("wait_for_command", A | {"timeout_ms": -1}, "bad_argument"),
    ("wait_for_command", A | {"timeout_ms": "5"}, "bad_argument"),
    ("wait_for_command", A | {"cursor": 7}, "bad_argument"),
    ("wait_for_command", {"agentid": "a"}, "bad_argument"),
    ("wait_for_command", {"agent_id": "b"}, "not_an_agent"),
    ("wait_for_command", {"agent_id": "nobody"}, "not_an_agent"),
    ("emit_event", A, "bad_argument"),
    ("emit_event", A | {"type": "done"}, "bad_argument"),
    ("emit_event", A | {"type": 7}, "bad_argument"),
    ("emit_event", A | {"type": "progress", "done": True}, "bad_event"),
    ("emit_event", A | {"type": "result", "done": "yes"}, "bad_argument"),
    ("emit_event", A | {"type": "result", "task_id": "queued"}, "not_your_task"),
    ("emit_event", A | {"type": "result", "task_id": "none"}, "not_your_task"),
    ("emit_event", A | {"type": "progress", "payload": HUGE}, "payload_too_large"),
    ("emit_event", A | {"kind": "result"}, "bad_argument"),
    ("emit_event", A | {"type": "result", "task_id": 7}, "not_your_task"),
    *(("emit_event", A | {"type": kind, "payloud": {"n": 1}}, "bad_argument") for kind in ("result", "error", "canceled")),
    *(("emit_event", A | {"type": "result", name: {"n": 1}}, "bad_argument") for name in ("output", "Payload", "x", "taskId")),
    *(
        ("emit_event", A | {"type": "result", "payload": {"n": 1}, name: value}, "bad_argument")
        for name, value in (("taskId", "queued"), ("task", "queued"), ("is_done", False), ("Done", False), ("final", False))
    ),
    ("emit_event", A | {"type": "result", "task_id": "held", "payload": None, "result": {"n": 1}}, "bad_argument"),
    ("emit_event", {"agent_id": "b", "type": "ack"}, "not_an_agent"),
    *((name, {"agent_id": bad} | more, "bad_id") for bad in IDS for name, more in (("wait_for_command", {}), ("emit_event", {"type": "ack"}))),
    *(("emit_event", A | {"type": "result", "task_id": bad}, "not_your_task") for bad in IDS),
    ("agent_create", NEW, "unknown_tool"),
    ("agents_create", {"agents": [NEW]}, "unknown_tool"),
    ("agent_delete", {"agent_id": "b"}, "unknown_tool"),
    ("agent_restart", {"agent_id": "b"}, "unknown_tool"),
    ("task_enqueue", {"agent_id": "b", "task": TASK}, "unknown_tool"),
    ("events_read", A, "unknown_tool"),
]  # fmt: skip


@pytest.fixture(scope="module")
def scene(shared_stage):
    """Agent `a`, for whom the test speaks: one task ended, one held and acked, one queued; nobody else writes."""
    stage = shared_stage
    (stage.root / "inner").mkdir()
    (stage.root / "plain-file").write_text("x")
    (stage.root / "way-out").symlink_to("..")
    (stage.base / "deeper").mkdir()
    stage.boss = stage.begun()
    made = stage.boss.tool("agents_create", {"agents": [{"name": "a", "role": "r"}, {"name": "b", "role": "r"}]})
    assert made["ready"] == 2
    stage.agent = stage.puppet("a")
    for task_id in ("ended", "held", "queued"):
        stage.boss.tool("task_enqueue", A | {"task": {"task_id": task_id, "payload": None}})
    assert stage.agent.tool("wait_for_command", A)["command"]["task_id"] == "ended"
    stage.agent.tool("emit_event", A | {"type": "result"})
    assert stage.agent.tool("wait_for_command", A)["command"]["task_id"] == "held"
    stage.agent.tool("emit_event", A | {"type": "ack"})

    def settled():
        meta = stage.boss.ask("resources/read", {"uri": "agent://a/meta"})["result"]["contents"][0]["text"]
        cached = stage.root / ".agents/agents/a/meta.json"
        return len(lines_of(cached.with_name("outbox.jsonl"))) and '"running_task_id": "held"' in meta and (
            cached.exists() and '"running_task_id": "held"' in cached.read_text() and '"state": "running"' in cached.read_text()
        )  # fmt: skip

    until(settled)
    stage.settle("a", "b")  # both are written in one go, one after the other
    return stage


def case(row):
    text = f"{row[0]}-{row[1]!r}"
    return text if len(text) < 90 else text[:90] + "..."


@pytest.mark.parametrize(("tool", "arguments", "code"), MASTER, ids=map(case, MASTER))
def test_a_masters_bad_call_gets_a_coded_error_and_nothing_is_written(scene, tool, arguments, code):
    refused(scene, scene.boss, tool, arguments, code)


@pytest.mark.parametrize(("tool", "arguments", "code"), AGENT, ids=map(case, AGENT))
def test_an_agents_bad_call_gets_a_coded_error_and_nothing_is_written(scene, tool, arguments, code):
    refused(scene, scene.agent, tool, arguments, code)


SAYS = ("agent_id", "epoch", "tasks", "finished", "running_task_id", "policies", "cwd")
SEEN = {"blocked", "unblocked"}  # of the agent whose relay stands still: what the daemon sees of it by itself


def facts(root):
    """Every file of the project; of meta.json what it takes from the records, for the rest is presence.

    Without cache.sqlite, which is written when there is time and says nothing new, and without what is `SEEN`.
    """
    found = {name: kept for name, kept in tree(root).items() if "/cache.sqlite" not in name}
    # A meta that is just being replaced: what is in it is compared by its own name.
    found = {name: kept for name, kept in found.items() if "/.meta.json." not in name}
    for name in [name for name in found if name.endswith("/meta.json")]:
        mode, content = found[name]
        meta = json.loads(content)
        found[name] = (mode, {key: meta.get(key) for key in SAYS})
    for name in [name for name in found if name.endswith(".jsonl")]:
        mode, content = found[name]
        found[name] = (mode, [line for line in content.splitlines() if json.loads(line)["type"] not in SEEN])
    return found


def refused(scene, wire, tool, arguments, code):
    before = facts(scene.root)
    answer = wire.answer(wire.start(tool, arguments))
    error = wire.outcome(answer)["error"]
    assert error["code"] == code, error
    assert {"kind", "code", "message", "next_step"} <= error.keys()
    assert error["message"]
    assert error["next_step"]
    assert "Traceback" not in answer["result"]["content"][0]["text"]
    assert facts(scene.root) == before


def test_a_misspelt_argument_is_named_with_the_one_that_may_be_meant(scene):
    for wire, tool, arguments, said in (
        (scene.boss, "agent_list", {"scop": "all"}, "did you mean scope?"),
        (scene.boss, "agent_list", {"zebra": 1}, "zebra: no such argument"),
        (scene.agent, "emit_event", A | {"type": "result", "payloud": 1}, "did you mean payload?"),
        (scene.agent, "emit_event", A | {"type": "result", "output": 1}, "did you mean payload?"),
        (scene.agent, "emit_event", A | {"type": "result", "payload": 1, "taskId": "x"}, "did you mean task_id?"),
        (scene.agent, "emit_event", A | {"type": "result", "payload": 1, "is_done": False}, "did you mean done?"),
        (scene.agent, "emit_event", A | {"typ": "ack"}, "did you mean type?"),
    ):
        assert said in wire.tool(tool, arguments)["error"]["message"]


def test_too_large_a_payload_is_told_its_size_the_limit_and_the_place_for_it(scene):
    error = scene.agent.tool("emit_event", A | {"type": "result", "payload": HUGE})["error"]
    assert error["code"] == "payload_too_large"
    assert "300002 bytes" in error["message"]
    assert "262144" in error["message"]
    assert str(scene.root / ".agents/agents/a/artifacts") in error["next_step"]


def test_the_limit_of_a_payload_is_in_the_schemas_before_anybody_exceeds_it(scene):
    for wire, name in ((scene.agent, "emit_event"), (scene.boss, "task_enqueue")):
        (tool,) = [tool for tool in wire.ask("tools/list")["result"]["tools"] if tool["name"] == name]
        assert "262144 bytes" in json.dumps(tool["inputSchema"])
        assert "{max" not in json.dumps(tool["inputSchema"])


@pytest.mark.parametrize("arguments", [[], "x", 7])
def test_arguments_that_are_no_object_are_an_error_of_the_protocol(scene, arguments):
    before = facts(scene.root)
    answer = scene.boss.ask("tools/call", {"name": "agent_list", "arguments": arguments})
    assert answer["error"]["code"] == -32602
    assert facts(scene.root) == before


def test_every_tool_drops_the_argument_that_gemini_adds_to_all_calls(scene):
    extra = {"wait_for_previous": True}
    for tool, arguments in (
        ("agent_list", {}),
        ("agent_get", A),
        ("events_read", A),
        ("broadcast_read", {}),
    ):
        assert "error" not in scene.boss.tool(tool, arguments | extra)
    assert "error" not in scene.agent.tool("emit_event", A | {"type": "heartbeat"} | extra)
    assert "error" in scene.boss.tool("task_enqueue", A | {"task": TASK | extra}), "dropped at the top only"


@pytest.mark.parametrize(
    "uri",
    [
        "agent://nobody/meta",
        "agent://a/secret",
        "agent://a/engine/launch.json",
        "agent://a/artifacts/../outbox.jsonl",
        "agent://a/artifacts/%2e%2e/engine/launch.json",
        "agent://a/artifacts/none",
        "agent://../meta",
        "agent://a%00b/meta",
        "agent://a/outbox?tail=0",
        "agent://a/outbox?tail=-5",
        "agent://a/outbox?tail=x",
        "run://run-none/broadcast",
        "run://../broadcast",
        "file:///etc/passwd",
        "",
        "%",
    ],
)
def test_a_resource_that_is_none_is_an_error_with_a_code(scene, uri):
    before = facts(scene.root)
    error = scene.boss.ask("resources/read", {"uri": uri})["error"]
    assert error["code"] == -32602
    assert "code" in error["data"]
    assert facts(scene.root) == before


def test_after_all_of_it_the_team_works_on(scene):
    assert scene.agent.tool("emit_event", A | {"type": "result"})["ok"]
    assert scene.agent.tool("wait_for_command", A)["command"]["task_id"] == "queued"
    assert scene.boss.tool("agent_list")["agents"][0]["running_task_id"] == "queued"


def test_what_an_agents_tool_does_not_know_is_named_and_the_rest_is_carried_out(scene):
    answer = scene.agent.tool("emit_event", A | {"type": "progress", "pct": 5, "taskId": "queued"})
    assert (answer["ok"], answer["ignored_arguments"]) == (True, ["pct", "taskId"])
    assert "ignored_arguments" not in scene.agent.tool("emit_event", A | {"type": "progress"})
    answer = scene.agent.tool(
        "emit_event", A | {"type": "result", "payload": {"n": 1}, "note": "x", "wait_for_previous": 1}
    )
    assert (answer["ok"], answer["ignored_arguments"]) == (True, ["note"])
    answer = scene.agent.tool("wait_for_command", A | {"timeout_ms": 0, "timeout": 5})
    assert (answer["status"], answer["ignored_arguments"]) == ("timeout", ["timeout"])


def test_an_integer_is_the_id_of_its_digits_everywhere(scene):
    assert scene.boss.tool("agent_create", {"name": "5", "role": "r"})["agent_id"] == "5"
    five = scene.puppet("5")
    task = {"task_id": 7, "payload": {"n": 1}}
    first = scene.boss.tool("task_enqueue", {"agent_id": 5, "task": task})
    assert first["task_id"] == "7"
    again = scene.boss.tool("task_enqueue", {"agent_id": "5", "task": task | {"task_id": "7"}})
    assert again["duplicate"] is True
    other = scene.boss.tool("task_enqueue", {"agent_id": 5, "task": task | {"payload": {"n": 2}}})
    assert other["error"]["code"] == "task_exists"
    assert five.tool("wait_for_command", {"agent_id": 5})["command"]["task_id"] == "7"
    assert five.tool("emit_event", {"agent_id": 5, "type": "result", "task_id": 7, "payload": 7})["ok"]
    assert five.tool("emit_event", {"agent_id": "5", "type": "result", "task_id": "7", "payload": 8})["duplicate"]
    assert [
        event["payload"] for event in scene.boss.tool("events_read", {"agent_id": 5})["events"] if "payload" in event
    ] == [7]
    deleted = scene.boss.tool("agent_delete", {"agent_id": 5, "force": True, "confirm": 5})
    assert deleted["ok"] is True
