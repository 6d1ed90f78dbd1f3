"""Park and wake with the real CLIs: no request while parked, woken by work, a human always first, drafts kept."""

import contextlib
import re

import pytest

from tests.e2e.agent import Agent
from tests.e2e.conftest import scripted_models, worlds_of
from tests.e2e.world import LEAD, START_S
from tests.support.hooks import last_of
from tests.support.stage import until

CONFIG = "wait_cap_ms = 700\npark_after = 2\nready_timeout_s = 240\n"
BOUND_S = 60.0


@pytest.fixture(scope="module")
def made(request, own_world):
    """One agent of one CLI for all tests that want it, because a start is what costs time."""
    with scripted_models() as models, worlds_of(own_world, models) as make_world:
        yield Agent(make_world(request.param, config=CONFIG), "a")


@pytest.fixture
def agent(made):
    """That agent, parked."""
    made.rests()
    return made


# All four park and are woken in test_team; what takes longest of them has its own life in make soak.
long = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("gemini", "opencode")]
each = pytest.mark.parametrize("made", ["claude", "codex", *long], indirect=True)
held_by_a_hook = pytest.mark.parametrize("made", ["claude", "codex", "gemini"], indirect=True)


def do(agent, task_id):
    """Give it a task and wait for its end."""
    agent.give(task_id, say=task_id)
    assert agent.end(task_id)["payload"] == {"said": task_id}


def draft(agent, text):
    """Type it into the agent's input line."""
    agent.terminal.press("-l", text)
    agent.terminal.shows(text)


def heard(agent, text):
    """Whether its model was told the text."""
    return any(text in request.turn.said() for request in agent.world.models.select())


@each
def test_a_parked_agent_asks_nothing_and_is_woken_by_each_task(agent):
    before, woken = len(agent.requests()), agent.types().count("woken")
    for number in range(3):
        assert len(agent.requests()) == before
        do(agent, f"t-{number}")
        agent.rests()
        before = len(agent.requests())
    assert agent.types().count("woken") == woken + 3
    assert last_of(agent.world.stage, "a", "parked", "woken") == "parked"


@each
def test_a_human_who_types_is_answered_and_the_agent_parks_again(agent):
    draft(agent, "hello from a human")
    agent.terminal.submit("hello from a human")
    agent.rests()
    do(agent, "behind-the-human")


@pytest.mark.slow  # test_team has an Esc in a wait
@held_by_a_hook
def test_after_an_esc_the_human_is_in_control_and_work_still_arrives(agent):
    agent.terminal.press("Escape")
    agent.comes(lambda: agent.status()["status"] != "parked")
    do(agent, "behind-the-esc")
    agent.rests()


def command(agent, words, shown):
    """Type a command of the CLI and wait for its effect; a CLI that refuses it in a park takes it once it is let go."""
    draft(agent, words)
    agent.terminal.press("Enter")
    agent.comes(lambda: agent.status()["status"] != "parked")
    if agent.kind == "codex":
        agent.terminal.press("-l", words)
        agent.terminal.shows(rf"^› {words}")
    if agent.kind in ("codex", "gemini"):
        _enter(agent, shown)
    agent.terminal.shows(shown)


def _enter(agent, shown):
    """Press Enter until it counts: one right behind other keys may be taken for a part of a paste."""

    def ran():
        agent.terminal.press("Enter")
        with contextlib.suppress(AssertionError):
            until(lambda: re.search(shown, agent.terminal.text(), re.MULTILINE), 5.0)
        return re.search(shown, agent.terminal.text(), re.MULTILINE) is not None

    until(ran, START_S)


@held_by_a_hook
def test_a_command_typed_into_a_parked_pane_runs_and_work_arrives_afterwards(agent):
    words, shown = {
        "claude": ("/compact", "Compacted"),
        "codex": ("/compact", "Context compacted"),
        "gemini": ("/compress", "Chat history compressed"),
    }[agent.kind]
    command(agent, words, shown)
    do(agent, "behind-the-command")
    agent.rests()


@pytest.mark.parametrize("made", ["claude"], indirect=True)
def test_an_agent_whose_conversation_was_cleared_still_knows_its_rules(agent):
    session = agent.status()["session"]
    command(agent, "/clear", r"^ *❯ /clear")
    do(agent, "behind-the-clear")
    last = agent.requests()[-1].turn
    assert "You are agent `a`" in last.system
    assert "behind-the-clear" in str(last.messages)
    assert not re.search(r"\bt-0\b", str(last.messages))  # a directory of the test may be called ot-0...
    agent.comes(lambda: agent.status()["session"] not in (None, session))
    agent.rests()


@each
def test_a_draft_survives_a_wake(agent):
    """The last one for its agent: the draft stays where it is."""
    draft(agent, "half a thought")
    do(agent, "under-a-draft")
    agent.rests()
    agent.terminal.shows("half a thought")  # a CLI that paints its screen anew shows nothing for a moment
    assert not heard(agent, "half a thought")


def lead(seen, gate):
    """Give an agent a task that lasts until the test says, end the turn, and read what woke us."""
    seen["made"] = yield "agent_create", {"name": "a", "role": "builder", "engine": "shell"}
    task = {"task_id": "t-1", "payload": {"command": f"until [ -e {gate} ]; do sleep 0.1; done"}}
    yield "task_enqueue", {"agent_id": "a", "task": task}
    seen["told"] = yield "I wait for my team."
    seen["page"] = yield "broadcast_read", {"since_seq": 0}
    return "I have read the news."


@pytest.fixture(params=["claude", long[0]])
def waiting(request, make_world):
    """A master whose turn has ended while its agent works, held by its hook: its pane, the gate, what it saw."""
    world = make_world(request.param)
    gate, seen = world.root / "gate", {}
    world.setup(request.param, "--hooks")
    prompt = world.models.brain.script("lead", lambda: lead(seen, gate))
    master = world.start(request.param, *LEAD[request.param])
    master.say(prompt)
    master.shows("I wait for my team", BOUND_S)
    until(lambda: any(" -IS " in one and "hook.py" in one for one in world.stage.processes().values()), BOUND_S)
    return master, gate, seen


def test_an_idle_master_waits_for_its_team_without_a_model_turn(waiting):
    master, gate, seen = waiting
    before = len(master.world.models.select())
    gate.touch()
    until(lambda: "page" in seen, BOUND_S)
    assert "Your team has news: agent a: result of task t-1." in seen["told"]
    assert "result" in [event["type"] for event in seen["page"]["events"]]
    master.shows("I have read the news", BOUND_S)
    assert len(master.world.models.select()) <= before + 3  # Claude looks for the tool first


def test_a_human_is_let_in_while_the_master_waits_for_its_team(waiting):
    master, gate, seen = waiting
    master.paste("hello from the human")
    master.shows("hello from the human", BOUND_S)
    while "told" not in seen:  # an Enter right behind a paste may count for a part of it
        master.press("Enter")
        with contextlib.suppress(AssertionError):
            until(lambda: "told" in seen, 5.0)
        assert not master.dead()
    assert "hello from the human" in seen["told"]
    gate.touch()
