"""Codex CLI as an agent: its life from launch to end, human and crash in between, and what stops it before it begins."""

from __future__ import annotations

import pytest

from tests.e2e import other_user
from tests.e2e.agent import PATIENT, QUICK, Agent, are_stopped, header, live_by_the_command_line, offered
from tests.e2e.world import START_S
from tests.support.stage import until

OURS = ["emit_event", "wait_for_command"]
KEY = "SCRIPTED_API_KEY"
SEEN_DONE = "\n[tui]\nscreen_reader_detection_done = true\n"
"""What Codex writes into the file of everybody who has started it once."""


def test_an_agents_whole_life(make_world):
    world = make_world("codex", config=QUICK)
    config = world.home / ".codex" / "config.toml"
    config.write_text(config.read_text() + SEEN_DONE)
    world.setup("codex")  # the master's entry has the same name as ours
    written = config.read_bytes()
    agent = Agent(world, "cody")
    # The first request has our tools, only these two, once; and the rules above the user's level.
    first = agent.begins()
    assert offered(first) == OURS

    # Parked: woken by a task, with a human's draft in the input line that stays.
    agent.rests()
    agent.terminal.shows(r"Running hook")
    agent.terminal.paste("a draft of hers")
    agent.terminal.shows("› a draft of hers")
    before = len(agent.requests())
    agent.does("three")
    agent.rests()
    asked = [one.turn.said() for one in agent.requests()[before:]]
    assert asked and not any("a draft of hers" in said for said in asked)
    agent.terminal.shows("› a draft of hers")
    # Her message releases the hook.
    agent.terminal.press("Enter")
    until(lambda: any("a draft of hers" in one.turn.said() for one in agent.requests()), START_S)
    agent.rests()
    # Esc: she has taken over. Work is brought once her input line has been empty for a while.
    agent.terminal.press("Escape")
    agent.terminal.shows("■ Conversation interrupted")
    agent.comes(lambda: agent.status()["status"] not in ("parked", "busy"))
    agent.does("four")

    # Killed: the next life goes on with the conversation, and has the tools again.
    resumed = agent.dies_and_goes_on()
    assert offered(resumed) == OURS and f"You are agent `{agent.agent_id}`" in resumed.turn.system

    # The API fails until Codex gives up; that is said, and over when it works again.
    agent.rests()
    trouble, known = world.models.brain.trouble(401, times=None), len(agent.records())
    agent.give("t6", say="six")
    agent.blocked_by("login")
    assert {one.get("kind") for one in agent.records()[known:] if one["type"] == "blocked"} == {"login"}
    # Not before it has given up: one more try of its own would go through, and no human be needed.
    agent.terminal.shows("■ unexpected status 401")
    world.models.brain.calm(trouble)
    agent.terminal.say("go on: call wait_for_command")
    assert agent.end("t6")["payload"] == {"said": "six"}
    agent.comes(lambda: agent.status()["status"] != "blocked")

    agent.delete()
    assert config.read_bytes() == written


@pytest.mark.slow  # test_claude has it: what differs is the user, not the CLI
def test_as_an_unprivileged_user_with_the_key_in_the_shell_alone(make_world):
    world = make_world("codex", user=other_user.UID, config=QUICK)
    first = live_by_the_command_line(world, "cody")
    assert offered(first) == OURS
    assert header(first, "authorization") == f"Bearer {world.env[KEY]}"


def test_what_stops_it_before_it_begins_is_said_and_cleared_away(make_world):
    world = make_world("codex", config=PATIENT)
    usual = (world.home / ".codex" / "config.toml").read_text() + SEEN_DONE
    trusted = f'[projects."{world.root}"]\ntrust_level = "trusted"\n'
    assert trusted in usual
    hers = '[[hooks.Stop]]\nhooks = [{type = "command", command = "true"}]\n'
    cases = {
        "nobody": ('model = "gpt-5-codex"\n' + SEEN_DONE, {}, "signed in"),
        "untrusted": (usual.replace(trusted, ""), {}, "trusted"),
        "hooks": (usual + hers, {}, "review hooks"),
        "keyless": (usual, {KEY: ""}, KEY),
    }
    boss = world.stage.begun()
    for name, (text, env, *_) in cases.items():
        place = world.stage.base / name
        place.mkdir()
        (place / "config.toml").write_text(text)
        asked = {"name": name, "role": "tester", "engine": "codex", "env": {"CODEX_HOME": str(place), **env}}
        assert "error" not in boss.tool("agent_create", {**asked, "ready_wait_ms": 0})
    are_stopped(world, {name: cause for name, (_, _, cause) in cases.items()})
    for name, (text, *_) in cases.items():
        assert (world.stage.base / name / "config.toml").read_text() == text


def test_a_folder_nobody_has_trusted_is_trusted_for_the_process_alone_when_the_user_wants_it(make_world):
    world = make_world("codex", config=QUICK + "trust = true\n")
    world.stage.allow()
    config = world.home / ".codex" / "config.toml"
    text = config.read_text().replace("trust_level", "# trust_level") + SEEN_DONE
    config.write_text(text)
    Agent(world, "cody")
    assert config.read_text() == text
