"""A dialog that only the screen shows is answered by the key that it names, with the real CLIs."""

from __future__ import annotations

import json
import os
import signal

import pytest

from orchestrator.base.errors import OrchestratorError
from tests.e2e.agent import QUICK, Agent
from tests.e2e.answering import hook_of, says
from tests.e2e.test_approvals_claude import shell
from tests.e2e.world import START_S
from tests.support.faces import open_face
from tests.support.stage import until


def on_screen(face, text):
    """The item of a dialog that only the screen shows, once it can be answered."""

    def look():
        items = [item for item in face.inbox() if item["by"] == "screen" and text in item["asked"]]
        return items[0] if items and items[0]["answers"] else None

    return until(look, START_S)


def test_claude_codes_dialog_is_answered_by_its_key_after_its_hook_has_died(make_world):
    world = make_world("claude", config=QUICK)
    agent = Agent(world, "clara")
    root = world.root
    with open_face(world.stage) as face:
        agent.give("t1", calls=[shell(f"touch {root}/one")])
        by_hook = face.item("/one", START_S)
        agent.terminal.shows("Do you want to proceed")
        os.kill(hook_of(agent), signal.SIGKILL)
        item = on_screen(face, f"touch {root}/one")
        assert item["id"] != by_hook["id"] and item["answers"] == ["approve", "deny"] and not item["cut"]
        says(agent, "approve", item["id"])
        assert agent.end("t1")["type"] == "result" and (root / "one").exists()
        with pytest.raises(OrchestratorError):
            face.answer(item, "approve")

        agent.give("t2", calls=[shell(f"touch {root}/two")])
        face.item("/two", START_S)
        agent.terminal.shows("Do you want to proceed")
        os.kill(hook_of(agent), signal.SIGKILL)
        face.answer(on_screen(face, f"touch {root}/two"), "deny")
        agent.comes(lambda: not agent.blocked() or agent.blocked().get("kind") != "permission")
    assert not (root / "two").exists()
    answers = [(each["decision"], each["who"]["face"]) for each in agent.records() if each["type"] == "answered"]
    assert answers[0] == ("approve", "cli") and answers[1][0] == "deny"


def test_codexs_dialog_is_answered_by_its_key_when_nobody_held_its_hook(make_world):
    world = make_world("codex", config=QUICK)
    agent = Agent(world, "cody")
    root = world.root
    command = {
        "cmd": f"touch {root.parent}/outside",
        "sandbox_permissions": "require_escalated",
        "justification": "why",
    }
    agent.give("t1", calls=[{"name": "exec_command", "arguments": command}])
    agent.terminal.shows("Would you like to run the following command")

    def listed():
        items = json.loads(world.orchestrator("inbox", "--json").stdout)["inbox"]
        return next((item for item in items if item["by"] == "screen" and item["answers"]), None)

    item = until(listed, START_S)
    assert f"touch {root.parent}/outside" in item["asked"]
    says(agent, "approve", item["id"])
    assert agent.end("t1")["type"] == "result" and (root.parent / "outside").exists()
