"""Codex decided from outside its pane: held while a face is open, else its own dialog, and whatever dies meanwhile."""

from __future__ import annotations

import os
import signal

import pytest

from orchestrator.base.errors import OrchestratorError
from tests.e2e.agent import QUICK, Agent
from tests.e2e.answering import hook_of, is_over, press_in, says, told
from tests.e2e.world import START_S
from tests.support.faces import open_face
from tests.support.stage import until

DIALOG = "Would you like to run the following command"
WAITS = "waits for an answer in orchestrator"


def shell(command):
    arguments = {"cmd": command, "sandbox_permissions": "require_escalated", "justification": "It must be done"}
    return {"name": "exec_command", "arguments": arguments}


def test_a_humans_word_decides_while_a_face_is_open(make_world):
    world = make_world("codex", config=QUICK)
    agent = Agent(world, "cody")
    root = world.root
    with open_face(world.stage) as face:
        command = f"touch {root}/one &&\n" + "true &&\n" * 200 + f"touch {root}/two"
        agent.give("t1", calls=[shell(command)], tell=True)
        asked = face.item("touch", START_S)
        assert command in asked["asked"] and asked["answers"] == ["approve", "always", "deny", "release"]
        assert (asked["by"], asked["tool"], asked["cwd"], asked["cut"]) == ("hook", "Bash", str(root), False)
        agent.terminal.shows(WAITS)
        says(agent, "approve", asked["id"])
        told(agent, "t1")
        assert (root / "one").exists() and (root / "two").exists()

        agent.give("t2", calls=[shell(f"rm {root}/one")], tell=True)
        asked = face.item("rm ", START_S)
        with pytest.raises(OrchestratorError) as error:
            face.answer(asked, "answer", "yes")
        assert error.value.code == "cannot_answer"
        says(agent, "deny", asked["id"], "--reason", "keep that file")
        assert "keep that file" in told(agent, "t2")
        assert (root / "one").exists()

        # Its human wants the dialog.
        agent.give("t3", calls=[shell(f"touch {root}/three")])
        face.answer(face.item("three", START_S), "release")
        agent.terminal.shows(DIALOG)
        assert agent.blocked_by("permission")["reason"].endswith("three")
        press_in(agent, DIALOG, "y")
        assert agent.end("t3")["type"] == "result" and (root / "three").exists()
        until(lambda: not face.inbox(), START_S)

        # The last face closes: the dialog.
        agent.give("t4", calls=[shell(f"touch {root}/four")])
        last = face.item("four", START_S)
    agent.terminal.shows(DIALOG)
    with open_face(world.stage) as face:
        assert is_over(face, last)
    press_in(agent, DIALOG, "y")
    assert agent.end("t4")["type"] == "result" and (root / "four").exists()
    # No face is open: the dialog at once, and it is told in the hook's words.
    agent.give("t5", calls=[shell(f"touch {root}/five")])
    agent.terminal.shows(DIALOG)
    assert agent.blocked_by("permission")["reason"].endswith("five")
    press_in(agent, DIALOG, "y")
    assert agent.end("t5")["type"] == "result" and (root / "five").exists()
    answered = [each for each in agent.records() if each["type"] == "answered"]
    assert [each["decision"] for each in answered] == ["approve", "deny", "release"]


def test_whatever_dies_the_cli_asks_as_before(make_world):
    world = make_world("codex", config=QUICK)
    agent = Agent(world, "cody")
    root = world.root
    with open_face(world.stage) as face:
        # The daemon is killed: the same item in the next one, and its answer counts.
        agent.give("t1", calls=[shell(f"touch {root}/one")])
        asked = face.item("one", START_S)
        daemon = world.stage.kill_daemon()
        until(lambda: world.stage.daemon() not in (None, daemon), START_S)
        until(lambda: [(each["id"], each["by"]) for each in face.inbox()] == [(asked["id"], "hook")], START_S)
        face.answer(asked, "approve")
        assert agent.end("t1")["type"] == "result" and (root / "one").exists()

        # The hook is killed: the dialog.
        agent.give("t2", calls=[shell(f"touch {root}/two")])
        asked = face.item("two", START_S)
        os.kill(hook_of(agent), signal.SIGKILL)
        agent.terminal.shows(DIALOG)
        assert is_over(face, asked)
        press_in(agent, DIALOG, "y")
        assert agent.end("t2")["type"] == "result" and (root / "two").exists()

        # Esc in the pane interrupts the turn: nothing is asked any more.
        agent.give("t3", calls=[shell(f"touch {root}/three")])
        asked = face.item("three", START_S)
        agent.terminal.shows(WAITS)
        agent.terminal.press("Escape")
        agent.terminal.shows("Conversation interrupted")
        assert is_over(face, asked)
        agent.comes(lambda: agent.blocked().get("kind") != "permission")
        assert not (root / "three").exists()
