"""Gemini CLI decided from outside its pane: approved, denied, answered in the pane, and whatever dies meanwhile."""

from __future__ import annotations

import os
import signal

from tests.e2e.agent import QUICK, Agent
from tests.e2e.answering import hook_of, press_in, told
from tests.e2e.world import START_S
from tests.support.faces import open_face
from tests.support.stage import until

DIALOG = "Allow execution|Apply this change"


def shell(command, **more):
    return {"name": "run_shell_command", "arguments": {"command": command, "description": "does it", **more}}


def write(path, content="x\n"):
    return {"name": "write_file", "arguments": {"file_path": str(path), "content": content}}


def test_a_humans_word_decides_without_a_key_in_the_pane(make_world):
    world = make_world("gemini", config=QUICK)
    agent = Agent(world, "gem")
    root = world.root
    (root / "src").mkdir()
    with open_face(world.stage) as face:
        # Each part of a command is judged by the CLI; so are redirections, and another directory.
        several = f"touch {root}/one && echo two > two.txt; rm -f three"
        agent.give("t1", calls=[shell(several, dir_path="src"), write(root / "new.txt")], tell=True)
        asked = face.item("touch", START_S)
        assert asked["kind"] == "permission" and asked["by"] == "hook" and not asked["cut"]
        assert asked["asked"].splitlines()[0] == several and asked["answers"] == [
            "approve",
            "always",
            "deny",
            "release",
        ]
        assert asked["cwd"] == str(root)
        assert "Allow execution" not in agent.terminal.text() and "orchestrator" in agent.terminal.text()
        face.answer(asked, "approve")
        face.answer(face.item("new.txt", START_S), "approve")
        came_back = told(agent, "t1")
        assert (root / "one").exists() and (root / "src" / "two.txt").exists() and (root / "new.txt").exists()
        assert "approval" not in came_back

        # Calls of one message are held side by side.
        agent.give("both", calls=[shell("chmod +x new.txt"), shell("mkdir made")], at_once=True)
        first, second = [face.item(text, START_S) for text in ("chmod", "mkdir")]
        face.answer(second, "approve")
        face.answer(first, "approve")
        assert agent.end("both")["type"] == "result"
        assert (root / "made").is_dir() and os.access(root / "new.txt", os.X_OK)

        agent.give("t2", calls=[shell("make all"), shell("ls")], tell=True)
        face.answer(face.item("make all", START_S), "deny", "use another target")
        # What the CLI runs by itself is asked of nobody, though a face is open.
        assert "use another target" in told(agent, "t2")

        # Its human wants the dialog, and answers there for good: nobody else is asked for such calls any more.
        agent.give("t3", calls=[shell("touch four"), shell("touch five")], tell=True)
        face.answer(face.item("touch four", START_S), "release")
        press_in(agent, DIALOG, "2")
        assert agent.end("t3")["type"] == "result"
        assert (root / "four").exists() and (root / "five").exists()
        until(lambda: not face.inbox(), START_S)
    answered = [one for one in agent.records() if one["type"] == "answered"]
    assert [one["decision"] for one in answered] == [*["approve"] * 4, "deny", "release"]


def test_whatever_dies_the_cli_asks_as_before(make_world):
    world = make_world("gemini", config=QUICK)
    agent = Agent(world, "gem")
    root = world.root
    # No face is open: its dialog, at once.
    agent.give("t1", calls=[shell("touch one")])
    press_in(agent, DIALOG)
    assert agent.end("t1")["type"] == "result"
    with open_face(world.stage) as face:
        # The hook is killed: the dialog.
        agent.give("t2", calls=[write(root / "two.txt")])
        face.item("two.txt", START_S)
        os.kill(hook_of(agent), signal.SIGKILL)
        agent.terminal.shows(DIALOG)
        assert not (root / "two.txt").exists()
        press_in(agent, DIALOG)
        assert agent.end("t2")["type"] == "result"
        # The last face closes: the dialog.
        agent.give("t4", calls=[shell("rm two.txt")])
        face.item("rm two.txt", START_S)
    press_in(agent, DIALOG)
    assert agent.end("t4")["type"] == "result"
    assert not (root / "two.txt").exists()


def test_a_request_outlives_the_daemon(make_world):
    world = make_world("gemini", config=QUICK)
    agent = Agent(world, "gem")
    with open_face(world.stage) as face:
        agent.give("t1", calls=[shell("touch one")])
        asked = face.item("touch one", START_S)
        daemon = world.stage.kill_daemon()
        until(lambda: world.stage.daemon() not in (None, daemon), START_S)
        until(lambda: asked["id"] in [one["id"] for one in face.inbox()], START_S)
        face.answer(asked, "approve")
        assert agent.end("t1")["type"] == "result"
        assert (world.root / "one").exists()


def test_its_human_at_the_pane_ends_a_request(make_world):
    world = make_world("gemini", config=QUICK)
    agent = Agent(world, "gem")
    with open_face(world.stage) as face:
        # A mode in which the CLI asks nothing: nobody else is asked any more.
        agent.give("t1", calls=[shell("touch one")])
        face.item("touch one", START_S)
        agent.terminal.press("C-y")
        assert agent.end("t1")["type"] == "result"
        assert (world.root / "one").exists()
        agent.terminal.press("C-y")
        agent.terminal.shows("Shift\\+Tab to accept edits")

        # Esc: neither, and nothing runs.
        agent.give("t2", calls=[shell("chmod +x one")])
        asked = face.item("chmod", START_S)
        agent.terminal.press("Escape")
        agent.terminal.shows("Request cancelled")
        until(lambda: asked["id"] not in [one["id"] for one in face.inbox()], START_S)
        assert not os.access(world.root / "one", os.X_OK)
