"""Who gets what: masters, agents, strangers in an agent's pane, and directories that are no project."""

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.acceptance.test_bad_input import facts
from tests.support.stage import RELAY, lines_of, tree, until

AGENT_TOOLS = ["wait_for_command", "emit_event"]


@pytest.fixture(scope="module")
def scene(shared_stage):
    """Two agents; the test speaks for `a`."""
    stage = shared_stage
    stage.boss = stage.begun()
    made = stage.boss.tool("agents_create", {"agents": [{"name": "a", "role": "r"}, {"name": "b", "role": "r"}]})
    assert made["ready"] == 2
    stage.launch = json.loads((stage.root / ".agents/agents/a/engine/launch.json").read_text())
    stage.agent = stage.puppet("a")
    stage.settle("a", "b")
    return stage


def test_an_agents_connection_offers_its_two_tools_and_no_resources(scene):
    assert [tool["name"] for tool in scene.agent.ask("tools/list")["result"]["tools"]] == AGENT_TOOLS
    assert [one["name"] for one in scene.agent.ask("prompts/list")["result"]["prompts"]] == ["agent"]
    text = scene.agent.ask("prompts/get", {"name": "agent"})["result"]["messages"][0]["content"]["text"]
    assert "`a`" in text
    assert str(scene.root / ".agents/agents/a/artifacts") in text
    assert scene.agent.ask("resources/read", {"uri": "agent://b/outbox"})["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"ORCHESTRATOR_AGENT_SECRET": "0" * 32}, "replaced"),
        ({"ORCHESTRATOR_AGENT_SECRET": ""}, "replaced"),
        ({"ORCHESTRATOR_AGENT_ID": "b"}, "replaced"),
        ({"ORCHESTRATOR_AGENT_ID": "nobody"}, "unknown_agent"),
        ({"ORCHESTRATOR_AGENT_EPOCH": "7"}, "replaced"),
    ],
)
def test_a_claim_without_the_right_secret_and_epoch_is_refused_and_leaves_no_record(scene, changed, code):
    before = facts(scene.root)
    env = scene.launch["env"] | changed
    wire = scene.begun(env, "--agent")
    named = env["ORCHESTRATOR_AGENT_ID"]
    for tool, more in (("wait_for_command", {"timeout_ms": 0}), ("emit_event", {"type": "ready"})):
        assert wire.tool(tool, {"agent_id": named} | more)["error"]["code"] == code
    assert [tool["name"] for tool in wire.ask("tools/list")["result"]["tools"]] == AGENT_TOOLS
    assert facts(scene.root) == before


def test_an_agent_may_not_speak_for_another(scene):
    for tool, more in (("wait_for_command", {}), ("emit_event", {"type": "ready"})):
        assert scene.agent.tool(tool, {"agent_id": "b"} | more)["error"]["code"] == "not_an_agent"


def test_a_master_may_not_speak_for_an_agent(scene):
    assert scene.boss.tool("wait_for_command", {"agent_id": "a"})["error"]["code"] == "unknown_tool"
    assert scene.boss.tool("emit_event", {"agent_id": "a", "type": "ack"})["error"]["code"] == "unknown_tool"


def test_a_process_in_an_agents_pane_gets_no_masters_tools_whatever_its_environment(scene):
    script = scene.root / "probe.py"
    script.write_text(PROBE)
    clean = [f"{name}={value}" for name, value in scene.env.items()]
    for task_id, env in (("as it is", []), ("clean", ["env", "-i", *clean])):
        answer = scene.root / f"answer-{len(env)}.json"
        command = shlex.join([*env, sys.executable, str(script), str(answer), *RELAY])
        task = {"task_id": task_id.replace(" ", "-"), "payload": {"command": command}}
        scene.boss.tool("task_enqueue", {"agent_id": "b", "task": task})
        answers = json.loads(until(lambda answer=answer: answer.exists() and answer.read_text()))
        assert answers["tools"] == [], task_id
        assert answers["error"] == "not_for_agents", task_id
    until(lambda: scene.types("b").count("result") == 2)  # the tests below look at files and inboxes at rest
    scene.settle("a", "b")


PROBE = """
import json, os, subprocess, sys
relay = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def ask(key, method, params):
    relay.stdin.write(json.dumps({"jsonrpc": "2.0", "id": key, "method": method, "params": params}) + "\\n")
    relay.stdin.flush()
    while True:
        answer = json.loads(relay.stdout.readline())
        if answer.get("id") == key:
            return answer["result"]
info = {"name": "probe", "version": "1"}
ask(1, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
tools = [tool["name"] for tool in ask(2, "tools/list", {})["tools"]]
made = ask(3, "tools/call", {"name": "agent_create", "arguments": {"name": "evil", "role": "r"}})
relay.stdin.close()
relay.wait()
with open(sys.argv[1] + ".new", "w") as file:
    json.dump({"tools": tools, "error": made["structuredContent"]["error"]["code"]}, file)
os.rename(sys.argv[1] + ".new", sys.argv[1])
"""


def test_commands_that_change_the_team_refuse_inside_an_agents_environment(scene):
    before = len(lines_of(scene.root / ".agents/agents/b/inbox.jsonl"))
    for args in (("agent", "create", "x", "--role", "r"), ("task", "add", "b", "true"), ("agent", "delete", "b")):
        done = scene.cli(*args, "--json", env=scene.launch["env"])
        assert done.returncode == 2, done.stderr
        assert "not_for_agents" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
    assert len(lines_of(scene.root / ".agents/agents/b/inbox.jsonl")) == before


def test_the_secret_stands_in_the_private_launch_file_and_nowhere_else(scene):
    secret = scene.launch["secret"].encode()
    holders = [
        path
        for path in [*scene.root.rglob("*"), *scene.run_base.rglob("*")]
        if path.is_file() and secret in path.read_bytes()
    ]
    assert holders == [scene.root / ".agents/agents/a/engine/launch.json"]
    assert secret.decode() not in json.dumps(scene.boss.tool("agent_get", {"agent_id": "a"}))
    commands = "".join(scene.processes().values())
    assert secret.decode() not in commands


def test_the_environment_of_an_agent_is_that_of_the_masters_cli_plus_what_the_call_adds(scene):
    env = {**scene.env, "FROM_CLI": "yes", "ORCHESTRATOR_AGENT_JUNK": "no"}
    wire = scene.begun(env)
    wire.tool("agent_create", {"name": "env", "role": "r", "env": {"FROM_CALL": "top secret"}})
    task = {
        "payload": {
            "command": 'echo "$FROM_CLI/$FROM_CALL/$ORCHESTRATOR_AGENT_ID/$ORCHESTRATOR_AGENT_JUNK" > env.txt'
        }
    }
    wire.tool("task_enqueue", {"agent_id": "env", "task": task})
    until(lambda: "result" in scene.types("env"))
    assert (scene.root / "env.txt").read_text() == "yes/top secret/env/\n"
    meta = wire.tool("agent_get", {"agent_id": "env"})["meta"]
    assert meta["env_names"] == ["FROM_CALL"], "names are shown, values are not"
    assert "top secret" not in json.dumps(meta)
    assert all("top secret" not in json.dumps(record) for record in scene.records("env"))


def test_looking_writes_nothing_into_a_directory(make_stage):
    stage = make_stage()
    (stage.root / ".agents" / "config.toml").unlink()
    (stage.root / ".agents").rmdir()
    wire = stage.begun()
    wire.ask("tools/list")
    wire.ask("resources/list")
    wire.ask("prompts/get", {"name": "lead_team"})
    assert wire.tool("agent_list", {"scope": "all"}) == {"agents": []}
    assert wire.tool("agent_get", {"agent_id": "x"})["error"]["code"] == "unknown_agent"
    assert wire.tool("task_enqueue", {"agent_id": "x", "task": {}})["error"]["code"] == "unknown_agent"
    assert wire.tool("broadcast_read", {"run_id": "run-x"})["error"]["code"] == "unknown_run"
    for args in (("agent", "list"), ("status",), ("events", "x"), ("daemon", "status", "--json")):
        assert "Traceback" not in stage.cli(*args).stderr
    assert list(stage.root.iterdir()) == []


def test_the_home_directory_and_the_root_are_no_projects(make_stage):
    stage = make_stage()
    at_home = stage.wire(cwd=stage.home)
    at_root = stage.wire(cwd="/")
    before = tree(stage.home)
    for wire in (at_home, at_root):
        wire.begin()
        assert wire.ask("tools/list")["result"]["tools"]
        made = wire.tool("agent_create", {"name": "a", "role": "r"})
        assert made["error"]["code"] == "no_project"
    assert tree(stage.home) == before
    assert not Path("/.agents").exists()
    for place in (stage.home, "/"):
        marker = stage.run_dir(place) / "stopped"
        marker.touch()
    for pid, command in stage.processes().items():
        if " daemon run " in command:
            os.kill(pid, 15)
