"""Prompts of real CLIs answered in `orchestrator top`, by keys, as a person answers them."""

from __future__ import annotations

from tests.e2e import test_approvals_codex as codex
from tests.e2e.agent import QUICK, Agent
from tests.e2e.answering import press_in
from tests.support.top_terminal import Top

QUESTION = {
    "question": "Which port?",
    "header": "Port",
    "multiSelect": False,
    "options": [{"label": "Eighty", "description": "the usual"}, {"label": "Other", "description": "a test"}],
}


def shell(command):
    return {"name": "Bash", "arguments": {"command": command, "description": "Does it"}}


def told(agent, task_id):
    return str(agent.end(task_id)["payload"]["told"])


def answered(agent):
    return [(each["decision"], each["who"]["face"]) for each in agent.records() if each["type"] == "answered"]


def test_claude_is_approved_denied_and_answered_in_top(make_world):
    world = make_world("claude", config=QUICK)
    agent = Agent(world, "clara")
    root = world.root
    top = Top(world.stage, 100, 40)
    top.shows("clara")
    agent.give("t1", calls=[shell(f"touch {root}/one")], tell=True)
    top.shows("◐ asks", "1 needs you")
    top.press("a")
    top.shows(f"touch {root}/one"[:60], "Enter: approve")
    assert not (root / "one").exists()
    top.press("Enter")
    told(agent, "t1")
    assert (root / "one").exists()
    agent.give("t2", calls=[shell(f"rm {root}/one")], tell=True)
    top.shows("◐ asks", "asks to use Bash: rm ")  # not the request before, which may stand there for a moment
    top.press("d")
    top.shows("Enter: deny")
    top.press(*"keep", "Space", *"it", "Enter")
    assert "keep it" in told(agent, "t2")
    assert (root / "one").exists()
    agent.give("t3", calls=[{"name": "AskUserQuestion", "arguments": {"questions": [QUESTION]}}], tell=True)
    top.shows("◐ asks", "asks a question: Which port?")
    top.press("n")
    top.shows("Which port?", "2 Other")
    top.press("2", "Enter")
    assert "Other" in told(agent, "t3")
    assert answered(agent) == [("approve", "top"), ("deny", "top"), ("answer", "top")]


def test_codex_is_held_while_top_is_open_until_it_is_approved_or_released(make_world):
    world = make_world("codex", config=QUICK)
    agent = Agent(world, "cody")
    root = world.root
    top = Top(world.stage, 100, 40)
    top.shows("cody")
    agent.give("t1", calls=[codex.shell(f"touch {root}/one")], tell=True)
    agent.terminal.shows(codex.WAITS)
    top.shows("◐ asks")
    top.press("a")
    top.shows("Enter: approve")
    top.press("Enter")
    told(agent, "t1")
    assert (root / "one").exists()
    agent.give("t2", calls=[codex.shell(f"touch {root}/two")])
    top.shows("◐ asks", "two")
    top.press("r")
    top.shows("Enter: let its CLI show its own dialog")
    top.press("Enter")
    agent.terminal.shows(codex.DIALOG)
    assert answered(agent) == [("approve", "top"), ("release", "top")]
    agent.give("t3", calls=[codex.shell(f"touch {root}/three")])
    press_in(agent, codex.DIALOG, "y")
    top.shows("◐ asks", "three")
    top.press("q")  # the last face: the dialog
    agent.terminal.shows(codex.DIALOG)
    press_in(agent, codex.DIALOG, "y")
    assert agent.end("t3")["type"] == "result"
