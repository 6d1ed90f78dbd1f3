"""Engine `command`: any CLI can be an agent, found by an argv template, with a role's body in its prompt."""

import json
import os
import signal
import sys

from tests.support.stage import lines_of, until

# A CLI of the test's own: it notes what it was given, then becomes our worker, which speaks MCP by its environment.
CLI = """
import json, os, sys
prompt, mcp_file, model, note = sys.argv[1:]
seen = {
    "prompt": open(prompt).read(),
    "mcp": json.load(open(mcp_file)),
    "model": model,
    "env": json.loads(os.environ["ORCHESTRATOR_AGENT_MCP"]),
    "extra": os.environ.get("EXTRA"),
}
json.dump(seen, open(note, "w"))
os.execv(sys.executable, [sys.executable, "-P", "-m", "orchestrator", "worker"])
"""


def test_any_command_line_can_be_an_agent_and_is_told_rules_role_model_and_server(stage):
    (stage.root / ".agents/roles").mkdir(parents=True)
    (stage.root / ".agents/roles/tester.md").write_text(
        "---\nname: tester\nmodel: m-3\napproval: edits\n---\nYou only run tests.\n"
    )
    stage.allow()
    program, note = stage.base / "cli.py", stage.base / "seen.json"
    program.write_text(CLI)
    boss = stage.begun()
    made = boss.tool(
        "agent_create",
        {
            "name": "t",
            "role": "tester",
            "engine": "command",
            "model": "m-7",
            "env": {"EXTRA": "yes"},
            "command": [sys.executable, str(program), "{prompt_file}", "{mcp_file}", "{model}", str(note)],
        },
    )
    assert made["ready"] is True and made["engine"] == "command"
    seen = json.loads(note.read_text())
    assert "You only run tests." in seen["prompt"] and "name: tester" not in seen["prompt"]
    assert "`t`" in seen["prompt"] and "explicitly ask you to follow" in seen["prompt"]
    server = seen["mcp"]["mcpServers"]["orchestrator"]
    assert [server["command"], *server["args"]] == seen["env"]
    assert server["env"]["ORCHESTRATOR_AGENT_ID"] == "t" and seen["model"] == "m-7" and seen["extra"] == "yes"
    boss.tool("task_enqueue", {"agent_id": "t", "task": {"task_id": "one", "payload": {"command": "exit 0"}}})
    outbox = stage.root / ".agents/agents/t/outbox.jsonl"
    until(lambda: any(record["type"] == "result" for record in lines_of(outbox)))
    start = lines_of(outbox)[0]
    assert (start["model"], start["command"][0], start["approval"]) == ("m-7", sys.executable, "edits")
    words = [sys.executable, str(program), "{prompt_file}", "{mcp_file}", "{model}", str(note)]
    asked = {"name": "u", "role": "tester", "engine": "command", "approval": "all", "command": words}
    assert boss.tool("agent_create", asked)["ready"] is True
    start = lines_of(stage.root / ".agents/agents/u/outbox.jsonl")[0]
    assert (start["model"], start["approval"]) == ("m-3", "all"), "what the call leaves open its role says"
    assert json.loads(note.read_text())["model"] == "m-3"


def test_an_agents_role_comes_from_the_folder_of_a_cli_or_from_what_ships(stage):
    (stage.root / ".claude/agents").mkdir(parents=True)
    (stage.root / ".claude/agents/tester.md").write_text(
        "---\ndescription: Use it: often\n---\nYou only run tests.\n"
    )
    program = stage.base / "cli.py"
    program.write_text(CLI)
    boss = stage.begun()
    for name, role, rule in (("t", "tester", "You only run tests."), ("r", "reviewer", "You are a code reviewer.")):
        note = stage.base / f"{name}.json"
        line = [sys.executable, str(program), "{prompt_file}", "{mcp_file}", "{model}", str(note)]
        asked = {"name": name, "role": role, "engine": "command", "model": "m", "command": line}
        assert boss.tool("agent_create", asked)["ready"] is True
        prompt = json.loads(note.read_text())["prompt"]
        assert f"# Your role: {role}\n\n{rule}" in prompt and "description:" not in prompt


def test_the_configured_command_line_is_split_without_a_shell(make_stage):
    stage = make_stage(f'engine = "command"\ncommand = "{sys.executable} -P -m orchestrator \'worker\'"\n')
    stage.allow()
    boss = stage.begun()
    made = boss.tool("agent_create", {"name": "t", "role": "r"})
    assert made["ready"] is True and made["engine"] == "command"


def test_wishes_that_cannot_be_fulfilled_are_refused_before_anything_is_written(stage):
    boss = stage.begun()
    for wish, code in (
        ({"engine": "command"}, "bad_argument"),
        ({"engine": "shell", "model": "m"}, "bad_argument"),
        ({"engine": "command", "command": ["/no/such/program"]}, "engine_missing"),
        ({"engine": "shell", "approval": "sometimes"}, "bad_argument"),
        ({"engine": "nonesuch"}, "unknown_engine"),
    ):
        refused = boss.tool("agent_create", {"name": "t", "role": "r", **wish})
        assert refused["error"]["code"] == code, (wish, refused)
    assert not (stage.root / ".agents/agents").exists()


def test_an_agent_made_from_a_shell_gets_what_the_shell_has_exported_since_it_was_started(stage):
    made = stage.cli(
        "agent", "create", "t", "--role", "r", "--engine", "shell", "--json", env={**stage.env, "KEY_OF_TODAY": "k"}
    )
    assert made.returncode == 0, made.stderr
    launch = json.loads((stage.root / ".agents/agents/t/engine/launch.json").read_text())
    assert launch["env"]["KEY_OF_TODAY"] == "k"


def agents_of(stage):
    """What was written of agents."""
    place = stage.root / ".agents/agents"
    return sorted(path.name for path in place.iterdir()) if place.is_dir() else []


SPOILT = {
    "too-large": (lambda path: path.write_text("x" * (64 * 1024 + 1)), "65537 bytes"),
    "no-text": (lambda path: path.write_bytes(b"\xff\xfe\xfa"), "not UTF-8"),
    "leads-out": (lambda path: path.symlink_to("/etc/passwd"), "leads out of the project"),
    "leads-nowhere": (lambda path: path.symlink_to("nowhere"), "cannot be read"),
    "a-folder": (lambda path: path.mkdir(), "cannot be read"),
}


def test_a_role_that_cannot_be_used_is_said_and_no_agent_works_without_it(stage):
    (stage.root / ".agents/roles").mkdir(parents=True)
    boss = stage.begun()
    for role, (spoil, said) in SPOILT.items():
        spoil(stage.root / f".agents/roles/{role}.md")
        error = boss.tool("agent_create", {"name": "t", "role": role, "engine": "shell"})["error"]
        assert error["code"] == "bad_role" and f"{role}.md" in error["message"] and said in error["message"]
        assert agents_of(stage) == []


def test_a_command_line_longer_than_the_system_takes_is_refused_before_anything_is_written(stage):
    boss = stage.begun()
    asked = {"name": "t", "role": "r", "engine": "command", "command": [sys.executable, "x" * (128 * 1024)]}
    error = boss.tool("agent_create", asked)["error"]
    assert error["code"] == "bad_role" and "131072" in error["message"]
    assert agents_of(stage) == []


def test_a_role_spoilt_between_two_lives_fails_the_agent_with_the_reason(stage):
    role = stage.root / ".agents/roles/tester.md"
    role.parent.mkdir(parents=True)
    role.write_text("You only run tests.\n")
    boss = stage.begun()
    assert boss.tool("agent_create", {"name": "t", "role": "tester", "engine": "shell"})["ready"] is True
    role.write_bytes(b"\xff")
    os.kill(until(lambda: boss.tool("agent_get", {"agent_id": "t"})["meta"]["pid"]), signal.SIGKILL)
    until(lambda: "failed" in stage.types("t"))
    meta = boss.tool("agent_get", {"agent_id": "t"})["meta"]
    assert meta["status"] == "failed" and "tester.md is not UTF-8" in meta["reason"]
    assert boss.tool("agent_delete", {"agent_id": "t"})["status"] == "deleted"
