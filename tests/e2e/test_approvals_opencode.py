"""opencode decided from outside its pane: approved, denied, asked a question, answered in the pane first."""

from __future__ import annotations

from orchestrator.base.errors import OrchestratorError
from tests.e2e.agent import QUICK, Agent
from tests.e2e.answering import press_in
from tests.e2e.test_opencode import bash, of_the_user
from tests.e2e.world import START_S
from tests.support.faces import open_face
from tests.support.stage import until

QUESTION = {
    "question": "Which one?",
    "header": "Choice",
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
}


def test_a_humans_word_decides_while_the_dialog_stays(make_world):
    world = make_world("opencode", config=QUICK)
    of_the_user(world)
    agent = Agent(world, "oda")
    with open_face(world.stage) as face:
        agent.give("t1", calls=[bash("touch one && echo done")], tell=True)
        asked = face.item("touch one", START_S)
        assert asked["by"] == "plugin" and asked["kind"] == "permission"
        assert asked["asked"].splitlines()[0] == "touch one && echo done"
        agent.terminal.shows("Permission required")
        face.answer(asked, "approve")
        assert agent.end("t1")["type"] == "result"
        assert (world.root / "one").exists()
        until(lambda: "Permission required" not in agent.terminal.text(), START_S)

        agent.give("t2", calls=[bash("touch two"), bash("touch three")], tell=True)
        denied = face.item("touch two", START_S)
        face.answer(denied, "deny", "use another name")
        face.answer(face.item("touch three", START_S), "approve")
        assert "use another name" in str(agent.end("t2")["payload"])
        assert not (world.root / "two").exists() and (world.root / "three").exists()
        assert agent.status()["status"] != "human"

        # Answered in the pane first: it is withdrawn, and the late answer says so.
        agent.give("t3", calls=[bash("touch four")])
        late = face.item("touch four", START_S)
        press_in(agent, "Permission required")
        assert agent.end("t3")["type"] == "result"
        until(lambda: not face.inbox(), START_S)
        try:
            face.answer(late, "deny")
        except OrchestratorError as error:
            assert error.code == "item_over"
        else:
            raise AssertionError("a second answer was taken")

        # Calls of one message are asked at once, and each is an item. opencode takes a denial for all of them, and ends
        # the turn; the agent is woken, because it still holds the task.
        agent.give("both", calls=[bash("touch six"), bash("touch seven")], at_once=True, tell=True)
        first, second = [face.item(f"touch {name}", START_S) for name in ("six", "seven")]
        face.answer(second, "approve")
        until((world.root / "seven").exists, START_S)
        until(lambda: [one["id"] for one in face.inbox()] == [first["id"]], START_S)
        face.answer(first, "approve")
        assert agent.end("both")["type"] == "result" and (world.root / "six").exists()
        agent.give("none", calls=[bash("touch eight"), bash("touch nine")], at_once=True, tell=True)
        first, second = [face.item(f"touch {name}", START_S) for name in ("eight", "nine")]
        face.answer(first, "deny", "neither")
        until(lambda: not face.inbox(), START_S)
        agent.boss.tool("task_cancel", {"agent_id": "oda", "task_id": "none"})
        assert agent.end("none")["type"] == "canceled"
        assert not (world.root / "eight").exists() and not (world.root / "nine").exists()

        # The daemon is killed: the same request is in the next one's inbox.
        agent.give("t4", calls=[bash("touch five")])
        asked = face.item("touch five", START_S)
        world.stage.kill_daemon()
        until(world.stage.daemon, START_S)
        until(lambda: asked["id"] in [one["id"] for one in face.inbox()], START_S)
        face.answer(asked, "approve")
        assert agent.end("t4")["type"] == "result"

        agent.give("t5", calls=[{"name": "question", "arguments": {"questions": [QUESTION]}}], tell=True)
        asked = face.item("Which one?", START_S)
        assert asked["kind"] == "question" and [one["label"] for one in asked["questions"][0]["options"]] == [
            "Red",
            "Blue",
        ]
        face.answer(asked, "answer", "2")
        assert "Blue" in str(agent.end("t5")["payload"])
        until(lambda: not face.inbox(), START_S)
