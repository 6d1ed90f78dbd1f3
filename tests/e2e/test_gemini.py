"""Gemini CLI as an agent: its life from launch to end, a crash in between, and what stops it before it begins."""

from __future__ import annotations

import json
import sys

import pytest

from tests.e2e import other_user
from tests.e2e.agent import PATIENT, QUICK, Agent, are_stopped, header, live_by_the_command_line, offered
from tests.e2e.world import START_S
from tests.support.stage import until

OURS = ["mcp_orchestrator_emit_event", "mcp_orchestrator_wait_for_command"]


def of_the_user(world):
    """Give the user comments, a variable, a master's entry of the name ours has, hooks, and rules; the settings file."""
    done = world.orchestrator("setup", "gemini", "--hooks")
    assert done.returncode == 0, done.stderr
    settings = world.home / ".gemini" / "settings.json"
    kept = json.loads(settings.read_text())
    hers = {"type": "command", "name": "hers", "command": f"echo ended >> {world.home}/hers.log"}
    kept["hooks"]["AfterAgent"].append({"hooks": [hers]})
    kept["tools"] = {"exclude": ["google_web_search"]}
    settings.write_text("// mine\n" + json.dumps(kept))
    (world.home / ".gemini" / "GEMINI.md").write_text("The user speaks French.\n")
    return settings


def test_an_agents_whole_life(make_world):
    world = make_world("gemini", config=QUICK)
    settings = of_the_user(world)
    before, text = world.snapshot("gemini"), settings.read_bytes()
    agent = Agent(world, "gem")
    # The first request has our tools, only these two, once; and the rules behind the user's own, at system level.
    first = agent.begins()
    assert offered(first) == OURS
    assert "The user speaks French." in first.turn.system
    assert "google_web_search" not in [tool.name for tool in first.turn.tools]

    # Its own tools ask as the user has them ask; the question is told and answered by nobody but a human.
    write = {"name": "write_file", "arguments": {"file_path": str(world.root / "new.txt"), "content": "x\n"}}
    told = agent.asks_its_human([write], "Apply this change")
    assert told["reason"] == f"asks to use Edit: {world.root}/new.txt"
    assert (world.root / "new.txt").exists()

    # A single prompt could never be compressed: what wakes it is a message of the user's.
    agent.rests()
    agent.does("four")
    woken = agent.requests()[-1].turn.messages
    assert sum("call wait_for_command now" in message.text for message in woken if message.role == "user") >= 1

    # A limit is waited for by the CLI itself, which shows it in its own log alone.
    agent.rests()
    world.models.brain.trouble(429, times=3)
    agent.give("limited", say="five")
    agent.blocked_by("rate_limit")
    assert agent.end("limited")["payload"] == {"said": "five"}
    assert not agent.blocked()

    # Killed: the next life goes on with the conversation, and has the tools again.
    resumed = agent.dies_and_goes_on()
    assert offered(resumed) == OURS and f"You are agent `{agent.agent_id}`" in resumed.turn.system
    # The user's own hooks have run beside ours.
    agent.rests()
    until((world.home / "hers.log").exists, START_S)

    agent.delete()
    assert world.snapshot("gemini") == before
    assert settings.read_bytes() == text


@pytest.mark.slow  # test_claude has it: what differs is the user, not the CLI
def test_as_an_unprivileged_user_with_the_key_in_the_shell_alone(make_world):
    world = make_world("gemini", user=other_user.UID, config=QUICK)
    settings = world.home / ".gemini" / "settings.json"
    kept = json.loads(settings.read_text())
    del kept["security"]["auth"]  # nobody has ever chosen how to log in
    settings.write_text(json.dumps(kept))
    first = live_by_the_command_line(world, "gem")
    assert offered(first) == OURS
    assert header(first, "x-goog-api-key") == world.env["GEMINI_API_KEY"]


def test_an_entry_of_the_project_and_an_allowlist_do_not_keep_ours_away(make_world):
    world = make_world("gemini", config=QUICK)
    place = world.root / ".gemini"
    place.mkdir()
    theirs = {"command": sys.executable, "args": ["-P", "-m", "orchestrator", "mcp"]}
    shared = {"mcpServers": {"orchestrator": theirs}, "mcp": {"allowed": ["orchestrator"]}}
    (place / "settings.json").write_text(json.dumps(shared))
    before = world.snapshot("gemini")
    agent = Agent(world, "gem")
    assert offered(world.models.select("gem")[0]) == [
        "mcp_orchestrator-agent_emit_event",
        "mcp_orchestrator-agent_wait_for_command",
    ]
    agent.give("t1", say="one")
    assert agent.end("t1")["type"] == "result"
    agent.boss.tool("agent_delete", {"agent_id": "gem"})
    assert world.snapshot("gemini") == before


def test_what_stops_it_before_it_begins_is_said_and_cleared_away(make_world):
    world = make_world("gemini", config=PATIENT)
    trusted = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}
    nobody = {"GEMINI_API_KEY": "", **trusted}
    chosen = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    cases = {
        "untrusted": (chosen, {}, "trusted"),
        "nobody": ({}, nobody, "logged in"),
        "keyless": (chosen, nobody, "API key"),
    }
    boss = world.stage.begun()
    for name, (settings, env, _) in cases.items():
        place = world.stage.base / name / ".gemini"
        place.mkdir(parents=True)
        (place / "settings.json").write_text(json.dumps(settings))
        asked = {"name": name, "role": "tester", "engine": "gemini", "ready_wait_ms": 0}
        answer = boss.tool("agent_create", {**asked, "env": {"GEMINI_CLI_HOME": str(place.parent), **env}})
        assert "error" not in answer, answer
    are_stopped(world, {name: cause for name, (_, _, cause) in cases.items()})
