"""Claude Code as an agent: its life from launch to end, a crash in between, and what stops it before it begins."""

from __future__ import annotations

import json

from tests.e2e import other_user
from tests.e2e.agent import PATIENT, QUICK, Agent, are_stopped, header, live_by_the_command_line, offered

OURS = ["mcp__orchestrator__emit_event", "mcp__orchestrator__wait_for_command"]
TOKEN = "ANTHROPIC_AUTH_TOKEN"


def of_the_user(world):
    """Give the user a server, hooks, rules and a master's entry of the name that ours has; the files' text."""
    world.setup("claude", "--hooks")
    settings = world.home / ".claude" / "settings.json"
    kept = json.loads(settings.read_text())
    log = f"echo ended >> {world.home}/hers.log"
    kept["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": log}]})
    kept["permissions"] = {"deny": ["WebSearch"]}
    settings.write_text(json.dumps(kept))
    return settings


def test_an_agents_whole_life(make_world):
    world = make_world("claude", config=QUICK)
    settings = of_the_user(world)
    before, text = world.snapshot("claude"), settings.read_bytes()
    agent = Agent(world, "clara")
    # The first request has our tools, only these two, once; and the rules above the user's level.
    first = agent.begins()
    assert offered(first) == OURS
    assert "WebSearch" not in [tool.name for tool in first.turn.tools]

    # Its own tools ask as the user has them ask; the question is told and answered by nobody but a human.
    write = {"name": "Write", "arguments": {"file_path": str(world.root / "new.txt"), "content": "x\n"}}
    told = agent.asks_its_human([write], "Do you want to create new.txt")
    assert told["reason"] == f"asks to use Write: {world.root}/new.txt"
    assert (world.root / "new.txt").exists()

    # A limit is waited for by the CLI itself; the time of its next try is told.
    agent.rests()
    world.models.brain.trouble(429, times=1, headers={"retry-after": "40"})
    agent.give("limited", say="five")
    assert agent.blocked_by("rate_limit")["until"]
    assert agent.end("limited")["payload"] == {"said": "five"}
    assert not agent.blocked()

    # The user's own hooks run beside ours, and end when they like.
    agent.rests()
    hers = world.home / "hers.log"
    agent.comes(lambda: hers.exists() and hers.read_text().startswith("ended"))

    # Killed: the next life goes on with the conversation, and has the tools again.
    resumed = agent.dies_and_goes_on()
    assert offered(resumed) == OURS and f"You are agent `{agent.agent_id}`" in resumed.turn.system

    agent.delete()
    assert world.snapshot("claude") == before
    assert settings.read_bytes() == text


def test_as_an_unprivileged_user_with_the_key_in_the_shell_alone(make_world):
    world = make_world("claude", user=other_user.UID, config=QUICK)
    first = live_by_the_command_line(world, "clara")
    assert offered(first) == OURS
    assert header(first, "authorization") == f"Bearer {world.env[TOKEN]}"


def test_what_stops_it_before_it_begins_is_said_and_cleared_away(make_world):
    world = make_world("claude", config=PATIENT)
    known = {"hasCompletedOnboarding": True}
    trusting = {**known, "projects": {str(world.root): {"hasTrustDialogAccepted": True}}}
    key = {TOKEN: "", "ANTHROPIC_API_KEY": "sk-ant-scripted-0123456789abcdefghij"}
    cases = {
        "untrusted": (known, {}, "trusted"),
        "nobody": (trusting, {TOKEN: ""}, "/login"),
        "unasked": (trusting, key, "API key"),
        "new": ({}, {}, "first-start"),
    }
    boss = world.stage.begun()
    for name, (said, env, _) in cases.items():
        place = world.stage.base / name
        place.mkdir()
        (place / ".claude.json").write_text(json.dumps(said))
        asked = {"name": name, "role": "tester", "engine": "claude", "env": {"CLAUDE_CONFIG_DIR": str(place), **env}}
        assert "error" not in boss.tool("agent_create", {**asked, "ready_wait_ms": 0})
    are_stopped(world, {name: cause for name, (_, _, cause) in cases.items()})


def test_a_folder_nobody_has_trusted_is_trusted_for_the_process_alone_when_the_user_wants_it(make_world):
    world = make_world("claude", config=QUICK + 'trust = true\napproval = "edits"\n')
    world.stage.allow()
    config = world.home / ".claude.json"
    config.write_text(json.dumps({"hasCompletedOnboarding": True}))
    agent = Agent(world, "clara")
    write = {"name": "Write", "arguments": {"file_path": str(world.root / "new.txt"), "content": "x\n"}}
    agent.give("t1", calls=[write])
    assert agent.end("t1")["type"] == "result"
    assert (world.root / "new.txt").exists()
    assert "blocked" not in agent.types()
    known = json.loads(config.read_text()).get("projects", {}).get(str(world.root), {})
    assert not known.get("hasTrustDialogAccepted")


SLOW_SERVER = """
import sys, time
if "mcp" in sys.orig_argv:
    time.sleep(3)
"""


def test_a_server_that_starts_slowly_still_has_its_tools_in_the_first_request(make_world):
    world = make_world("claude", config=QUICK)
    place = world.stage.base / "slow"
    place.mkdir()
    (place / "sitecustomize.py").write_text(SLOW_SERVER)  # the interpreter of our server runs it before anything else
    agent = Agent(world, "clara", env={"PYTHONPATH": str(place)})
    assert offered(agent.requests()[0]) == OURS
