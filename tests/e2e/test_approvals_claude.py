"""Claude Code decided from outside its pane: permissions, questions, answers in the pane, and whatever dies meanwhile."""

from __future__ import annotations

import json
import os
import signal

import pytest

from orchestrator.base.errors import OrchestratorError
from tests.e2e.agent import QUICK, Agent
from tests.e2e.answering import hook_of, is_over, press_in, says, told
from tests.e2e.world import START_S
from tests.support.faces import open_face
from tests.support.stage import until

DIALOG = r"Do you want to|Would you like to proceed"
QUESTIONS = [
    {
        "question": "Which one?",
        "header": "One",
        "multiSelect": False,
        "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
    },
    {
        "question": "Which sizes?",
        "header": "Sizes",
        "multiSelect": True,
        "options": [{"label": "Small", "description": "5"}, {"label": "Large", "description": "9"}],
    },
]


def shell(command):
    return {"name": "Bash", "arguments": {"command": command, "description": "Does it"}}


def write(path, content="x\n"):
    return {"name": "Write", "arguments": {"file_path": str(path), "content": content}}


def ask(questions):
    return {"name": "AskUserQuestion", "arguments": {"questions": questions}}


def test_a_humans_word_decides_without_a_key_in_the_pane(make_world):
    world = make_world("claude", config=QUICK)
    agent = Agent(world, "clara")
    root = world.root
    with open_face(world.stage) as face:
        command = f"touch {root}/one &&\n" + "true &&\n" * 200 + f"touch {root}/two"
        agent.give("t1", calls=[shell(command), write(root / "new.txt", "first\nsecond\n")], tell=True)
        asked = face.item("touch", START_S)
        assert asked["asked"].startswith(f"{command}\n") and asked["answers"] == ["approve", "always", "deny"]
        assert (asked["by"], asked["tool"], asked["cwd"], asked["cut"]) == ("hook", "Bash", str(root), False)
        agent.terminal.shows(DIALOG)
        says(agent, "approve", asked["id"])
        asked = face.item("new.txt", START_S)
        assert asked["asked"] == f"{root}/new.txt\ncontent:\nfirst\nsecond\n"
        face.answer(asked, "approve")
        told(agent, "t1")
        assert (root / "one").exists() and (root / "two").exists()
        assert (root / "new.txt").read_text() == "first\nsecond\n"

        agent.give("t2", calls=[shell(f"rm {root}/one")], tell=True)
        says(agent, "deny", face.item("rm ", START_S)["id"], "--reason", "keep that file")
        assert "keep that file" in told(agent, "t2")
        assert (root / "one").exists()

        agent.give("t3", calls=[ask(QUESTIONS)], tell=True)
        asked = face.item("Which one?", START_S)
        assert (asked["kind"], asked["answers"]) == ("question", ["answer", "deny"])
        assert [option["label"] for option in asked["questions"][0]["options"]] == ["Red", "Blue"]
        with pytest.raises(OrchestratorError) as error:
            face.answer(asked, "answer", "Blue")
        assert error.value.code == "cannot_answer"
        says(agent, "answer", asked["id"], "blue", "1, 2")
        answer = told(agent, "t3")
        assert "Blue" in answer and "Small, Large" in answer

        agent.give("t4", calls=[ask([{**QUESTIONS[0], "question": "Which other?"}])], tell=True)
        face.answer(face.item("Which other?", START_S), "answer", "neither: use green")
        assert "neither: use green" in told(agent, "t4")
        until(lambda: not face.inbox(), START_S)
    assert not agent.blocked()
    answered = [each for each in agent.records() if each["type"] == "answered"]
    assert [each["decision"] for each in answered] == ["approve", "approve", "deny", "answer", "answer"]
    assert {each["who"]["acts_as"] for each in answered} == {"human"}


def test_whatever_dies_or_is_answered_in_the_pane_the_cli_asks_as_before(make_world):
    world = make_world("claude", config=QUICK)
    agent = Agent(world, "clara")
    root = world.root
    with open_face(world.stage) as face:
        # Answered in the pane: withdrawn by what follows there, whether that is a question or nothing for a while.
        agent.give("t1", calls=[shell(f"touch {root}/one"), shell(f"touch {root}/two; sleep 30")])
        first = face.item("/one", START_S)
        press_in(agent, f"^ touch {root}/one")
        second = face.item("/two", START_S)
        assert is_over(face, first)
        press_in(agent, DIALOG)
        assert is_over(face, second)
        assert not [each for each in agent.records() if each.get("task_id") == "t1" and each["type"] == "result"]
        assert agent.end("t1")["type"] == "result"

        # The daemon is killed: the same item in the next one, and its answer counts.
        agent.give("t2", calls=[write(root / "three")])
        asked = face.item("three", START_S)
        daemon = world.stage.kill_daemon()
        until(lambda: world.stage.daemon() not in (None, daemon), START_S)
        until(lambda: [(each["id"], each["by"]) for each in face.inbox()] == [(asked["id"], "hook")], START_S)
        face.answer(asked, "approve")
        assert agent.end("t2")["type"] == "result" and (root / "three").exists()

        # The hook is killed: the dialog stays, and no answer from outside does anything.
        agent.give("t3", calls=[write(root / "four")])
        asked = face.item("four", START_S)
        agent.terminal.shows(DIALOG)
        os.kill(hook_of(agent), signal.SIGKILL)
        assert is_over(face, asked)
        assert not (root / "four").exists()
        press_in(agent, DIALOG)
        assert agent.end("t3")["type"] == "result" and (root / "four").exists()

        # Esc in the pane ends the hook.
        agent.give("t4", calls=[write(root / "five")])
        asked = face.item("five", START_S)
        press_in(agent, DIALOG, key="Escape")
        assert is_over(face, asked)
        agent.terminal.shows("Rejected write")
        agent.comes(lambda: agent.blocked().get("kind") != "permission")
    assert not (root / "five").exists()


def test_calls_of_one_message_are_an_item_each_until_their_own_dialog_is_answered(make_world):
    world = make_world("claude", config=QUICK)
    agent = Agent(world, "clara")
    for name in "abc":
        (world.root.parent / name).write_text(name)
    reads = [{"name": "Read", "arguments": {"file_path": str(world.root.parent / name)}} for name in "abc"]
    with open_face(world.stage) as face:
        agent.give("t1", calls=reads, at_once=True, tell=True)
        items = {name: face.item(f"{world.root.parent}/{name}", START_S) for name in "abc"}
        agent.terminal.shows("1 of 3")

        def named():  # one of them, on a screen that is whole
            found = [name for name in "abc" if f"Read({world.root.parent}/{name})" in agent.terminal.text()]
            return found if len(found) == 1 else None

        (shown,) = until(named, START_S)
        first, second = (name for name in "abc" if name != shown)
        face.answer(items[second], "deny", "not this one")
        press_in(agent, rf"Read\({world.root.parent}/{shown}\)\s*$")
        assert is_over(face, items[shown])
        assert [each["id"] for each in face.inbox()] == [items[first]["id"]]
        face.answer(items[first], "approve")
        assert told(agent, "t1").count("not this one") == 1
        until(lambda: not face.inbox(), START_S)
    assert [each["decision"] for each in agent.records() if each["type"] == "answered"] == ["deny", "approve"]


def subagent(number, command):
    """A call that starts a subagent, which runs the command."""
    script = json.dumps({"calls": [shell(command)], "say": "ok"})
    arguments = {"description": f"part {number}", "subagent_type": "general-purpose", "prompt": f"SCRIPT: {script}"}
    return {"name": "Agent", "arguments": arguments}


def test_subagents_ask_each_for_itself_also_when_the_turn_is_over(make_world):
    world = make_world("claude", config=QUICK)
    agent = Agent(world, "clara")
    root = world.root
    with open_face(world.stage) as face:
        agent.give("t1", calls=[subagent(number, f"touch {root}/part{number}") for number in (1, 2)])
        assert agent.end("t1")["type"] == "result"
        first, second = (face.item(f"part{number}", START_S) for number in (1, 2))
        agent.comes(lambda: "parked" in agent.types())
        face.answer(second, "approve")
        agent.comes((root / "part2").exists)
        assert not (root / "part1").exists()
    # The last face has closed: the subagent's dialog, for whoever sits at the pane.
    press_in(agent, DIALOG)
    agent.comes((root / "part1").exists)
    with open_face(world.stage) as face:
        assert is_over(face, first)
