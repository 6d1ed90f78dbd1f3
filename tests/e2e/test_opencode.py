"""opencode as an agent: its life from launch to end, human and crash in between, and what the plugin tells."""

from __future__ import annotations

import json
import os
import signal

import pytest

from orchestrator.core.turn_end import MAX_WAKES
from tests.e2e import other_user
from tests.e2e.agent import QUICK, Agent, header, live_by_the_command_line, offered
from tests.e2e.world import START_S
from tests.support.stage import until

OURS = ["orchestrator_emit_event", "orchestrator_wait_for_command"]
KEY = "SCRIPTED_API_KEY"


def bash(command):
    """A call of opencode's own shell tool."""
    return {"name": "bash", "arguments": {"command": command, "description": "does it"}}


def of_the_user(world):
    """Give the user a master's entry of the name that ours has, a rule for the shell, and a content of her own."""
    world.setup("opencode")
    path = world.home / ".config" / "opencode" / "opencode.json"
    said = json.loads(path.read_text())
    assert "orchestrator" in said["mcp"]
    said["permission"] = {"bash": {"*": "allow", "touch *": "ask"}}
    path.write_text(json.dumps(said, indent=2))
    world.env["OPENCODE_CONFIG_CONTENT"] = '{"username": "Ada", /* hers */}'
    return path


def results_of(world, name):
    """The texts that calls of that tool came back with, as the model saw them last."""
    messages = world.models.select("oda")[-1].turn.messages
    return [one.text for message in messages for one in message.results if one.call.name == name]


@pytest.mark.slow  # test_team has its work, parking, Esc, cancel and death; each start takes seconds of both cores
def test_an_agents_whole_life(make_world):
    world = make_world("opencode", config=QUICK)
    path = of_the_user(world)
    before, text = world.snapshot("opencode"), path.read_bytes()
    agent = Agent(world, "oda")
    # The first request has our tools, only these two, once; and the rules above the user's level.
    first = agent.begins()
    assert offered(first) == OURS

    # Its own tools ask as the user has them ask; the plugin tells it, and only a human answers.
    shown = 'echo "[$OPENCODE_CONFIG_CONTENT][$npm_config_fetch_retries]"'
    told = agent.asks_its_human([bash("touch new.txt"), bash(shown)], "△ Permission required")
    assert told["reason"] == "asks to use bash: touch new.txt"
    assert (world.root / "new.txt").exists()
    # What it runs in its shell has the user's settings, not those of an agent.
    assert results_of(world, "bash")[-1].strip() == f"[{world.env['OPENCODE_CONFIG_CONTENT']}][]"

    # A subagent has neither the rules nor the tools of the agent that starts it.
    call = {"name": "task", "arguments": {"description": "sub", "prompt": "count", "subagent_type": "general"}}
    agent.give("t4", calls=[call])
    assert agent.end("t4")["type"] == "result"
    (sub,) = (one for one in world.models.select() if one.turn.messages[0].text == "count")
    assert offered(sub) == [] and "You are agent" not in sub.turn.system

    # An error ends its turn and that of each wake, which are few; it is told until a human has helped.
    agent.rests()
    trouble = world.models.brain.trouble(401, times=None)
    agent.give("t5", say="five")
    agent.comes(lambda: sum(one.reply.status == 401 for one in agent.requests()) == MAX_WAKES)
    agent.blocked_by("login")
    world.models.brain.calm(trouble)
    agent.terminal.say("go on: call wait_for_command")
    assert agent.end("t5")["payload"] == {"said": "five"}
    until(lambda: not agent.blocked(), START_S)
    # A limit is waited for by opencode itself; told with its end.
    agent.rests()
    world.models.brain.trouble(429, times=1, headers={"Retry-After": "20"}, body=LIMITED)
    agent.give("t6", say="six")
    assert agent.blocked_by("rate_limit")["until"]
    assert agent.end("t6")["payload"] == {"said": "six"}

    # Killed: the next life goes on with the conversation, and has the tools again.
    resumed = agent.dies_and_goes_on()
    assert offered(resumed) == OURS and f"You are agent `{agent.agent_id}`" in resumed.turn.system

    agent.delete()
    assert world.snapshot("opencode") == before
    assert path.read_bytes() == text


LIMITED = json.dumps({"error": {"message": "Rate limit reached for requests", "type": "requests"}})


@pytest.mark.slow
def test_esc_gives_the_human_the_agent_and_the_daemons_end_nothing(make_world):
    world = make_world("opencode", config="ready_timeout_s = 240\npark_after = 1\nwait_cap_ms = 20000\n")
    agent = Agent(world, "oda")
    agent.terminal.press("Escape")
    agent.terminal.shows("esc again to interrupt")
    agent.terminal.press("Escape")
    agent.terminal.shows("· interrupted")
    agent.comes(lambda: "human" in agent.status()["reason"])
    # Work is brought once the input line has been empty for a while.
    agent.does("one")
    agent.rests()
    # The plugin finds the next daemon and parks there again.
    daemon = world.stage.daemon()
    os.kill(daemon, signal.SIGKILL)
    until(lambda: world.stage.daemon() not in (None, daemon), START_S)
    agent.rests()
    agent.does("two")


@pytest.mark.slow
def test_as_an_unprivileged_user_with_the_key_in_the_shell_alone(make_world):
    world = make_world("opencode", user=other_user.UID, config=QUICK)
    first = live_by_the_command_line(world, "oda")
    assert offered(first) == OURS
    assert header(first, "authorization") == f"Bearer {world.env[KEY]}"
