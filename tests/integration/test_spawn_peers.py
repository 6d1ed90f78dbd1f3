"""Spawn runs that squad members or agents of the team answer: real daemons, a fake CLI, no model API and no key."""

import json
import sys
from pathlib import Path

import jsonschema
import pytest

from tests.fakes.openrouter import Fake
from tests.support import spawn_stage, squads
from tests.support.spawn_stage import code_of, create, ended, node, result, run, status, tool
from tests.support.squads import FAKE, calls, do, gone
from tests.support.stage import until

MODES = ["single", "collective", "cascade", "plan", "swarm"]
STEPS = "1. Collect the facts about tea.\n2. Write an outline of them.\n3. Write the article."
NODES = {
    "single": ["single"],
    "collective": ["collective-1", "collective-2", "collective-3", "merged"],
    "cascade": ["cheap", "premium", "merged"],
    "plan": ["step-1", "step-2", "step-3", "merged"],
    "swarm": ["swarm-1", "swarm-2", "swarm-3", "merged"],
}


class Scene(spawn_stage.Scene):
    """A test's home and log of members; a key and a model API are not there, a stand-in only listens."""

    def __init__(self, stage, base, fake):
        programs = base / "bin"
        programs.mkdir()
        for name in ("claude", "gemini"):
            (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} -IS {FAKE} "$@"\n')
            (programs / name).chmod(0o755)
        super().__init__(stage, base, fake, OPENROUTER_API_KEY="", PATH=f"{programs}:/usr/bin:/bin")
        self.base, self.root, self.run_base, self.programs = base, stage.root, stage.run_base, programs
        self.env = squads.variables(self, MEMBER_SAYS="So it is.")
        self.kill_daemon, self.records = stage.kill_daemon, stage.records

    def team(self):
        """A client of the team's tools too."""
        return self.stage.begun(self.env, "--toolsets", "team,smartspawn")


@pytest.fixture
def fake():
    with Fake() as one:
        yield one
        assert one.calls() == []


@pytest.fixture
def scene(shared_stage, tmp_path, fake):
    one = Scene(shared_stage, tmp_path, fake)
    yield one
    if (shared_stage.run_dir() / "stopped").exists():  # a test has failed before it started the daemon again
        shared_stage.cli("daemon", "start")
    gone(one)


@pytest.fixture
def wire(scene):
    return scene.connect()


def whole(wire, run_id, node_id):
    """An artifact, however many pieces it comes in."""
    text, at = "", 0
    while at is not None:
        answer = tool(wire, "artifact_get", run_id=run_id, node_id=node_id, offset=at)
        text, at = text + answer["content"], answer.get("next_offset")
    return text


def output(wire, run_id, node_id):
    """A node's answer, as its artifact has it."""
    return json.loads(whole(wire, run_id, node_id))["output"]


def models(found):
    return [one["model"] for one in found["nodes"]]


def checked(wire, name, **arguments):
    """A tool's answer, which its output schema allows."""
    (listed,) = [one for one in wire.ask("tools/list")["result"]["tools"] if one["name"] == f"smartspawn_{name}"]
    answer = tool(wire, name, **arguments)
    jsonschema.validate(answer, listed["outputSchema"])
    return answer


# -- members of squads ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_members_answer_every_mode_without_a_key_and_nothing_has_a_price(scene, wire, mode):
    run_id = create(wire, STEPS, mode, engine="command")
    assert ended(wire, run_id)["status"] == "completed"
    found = checked(wire, "run_status", run_id=run_id)
    assert [one["node_id"] for one in found["nodes"]] == NODES[mode]
    assert {(one["status"], one["attempts"], one["reruns"]) for one in found["nodes"]} == {("completed", 1, 0)}
    assert set(models(found)) == {"engine:command"}
    assert len(calls(scene)) == len(NODES[mode])
    cost = found["cost"]
    assert (cost["usd"], cost["reserved_usd"], cost["limit_usd"]) == (None, None, None)
    assert cost["sources"] == {"none": len(NODES[mode])}
    assert [(one["usd"], one["cost_source"]) for one in found["nodes"]] == [(None, "none")] * len(NODES[mode])
    assert [one["usd"] for one in found["models"]] == [None]
    answer = checked(wire, "run_result", run_id=run_id, include_raw=True)
    assert answer["merged_output"].startswith("So it is.")
    assert answer["cost"]["usd_estimate"] is None
    answers = sorted(set(NODES[mode]) - {"merged"})
    assert sorted((one["node_id"], one["output"]) for one in answer["raw_outputs"]) == [
        (one, "So it is.") for one in answers
    ]
    for node_id in answers:
        document = json.loads(checked(wire, "artifact_get", run_id=run_id, node_id=node_id)["content"])
        assert (document["costUsd"], document["costSource"]) == (None, "none")
    checked(wire, "run_list")
    assert scene.spent(run_id) == 0


def test_engines_named_together_take_turns_each_by_its_own_program(scene, wire):
    found = ended(wire, create(wire, "Tea?", "collective", collectiveCount=3, engine="claude, command"))
    assert found["status"] == "completed"
    assert models(found) == ["engine:claude", "engine:command", "engine:claude", "engine:command"]
    by_flags = [call["argv"][:1] == ["--print"] for call in calls(scene)]
    assert sorted(by_flags) == [False, False, True, True]
    assert [(one["model"], one["nodes"]) for one in found["models"]] == [("engine:claude", 2), ("engine:command", 2)]


def test_a_collective_goes_on_without_the_engine_that_fails_and_says_so(scene, wire):
    (scene.programs / "claude").write_text("#!/bin/sh\necho 'Credit balance is too low' >&2\nexit 1\n")
    answer = run(wire, "Tea?", "collective", collectiveCount=3, engine="claude,command,command")
    assert answer["status"] == "completed"
    assert "without collective-1" in answer["summary"]
    found = status(wire, answer["run_id"])
    failed = node(found, "collective-1")
    assert (failed["status"], failed["attempts"], failed["usd"]) == ("failed", 3, None)
    assert "Credit balance is too low" in failed["error"]
    assert found["cost"]["usd"] is None


def test_a_run_fails_with_its_members_own_words(scene, wire):
    (scene.programs / "claude").write_text("#!/bin/sh\necho 'Invalid API key'\nexit 1\n")
    answer = run(wire, "Tea?", "single", engine="claude")
    assert answer["status"] == "failed"
    assert "it ended with status 1: Invalid API key" in answer["failure"]
    assert answer["failure"].endswith("next: look at what its CLI says, or name another engine")


def test_a_role_of_the_project_reaches_the_member_as_its_role(scene, wire):
    squads.role(scene, "skeptic", "You doubt all that is said.")
    run(wire, "Tea?", "single", engine="command", role={"persona": "skeptic", "guardrails": ["No haste."]})
    (call,) = calls(scene)
    role, _, rest = call["prompt"].partition("# Task")
    assert "You doubt all that is said." in role
    assert "No haste." in role
    assert "Tea?" in rest


def test_an_answer_of_two_megabytes_is_kept_whole(scene, wire):
    run_id = create(wire, do(mb=2), engine="claude")
    answer = result(wire, run_id)
    assert (answer["status"], answer["more"]) == ("completed", True)
    assert output(wire, run_id, "single") == "So it is." + "x" * (2 << 20)
    assert whole(wire, run_id, "merged") == "So it is." + "x" * (2 << 20)


def test_long_answers_are_merged_as_far_as_a_prompt_may_go_and_a_template_without_room_is_named(scene):
    wire = scene.connect(MEMBER_READS="1")  # claude takes a long prompt on its standard input
    answer = run(wire, do(mb=2), "collective", collectiveCount=2, engine="claude")
    assert answer["status"] == "completed"
    assert 150_000 < len(calls(scene)[-1]["prompt"]) < 202_000
    answer = run(scene.connect(), do(mb=2), "collective", collectiveCount=2, engine="command")
    assert answer["status"] == "failed"
    assert "one argument may have" in answer["failure"]
    assert "# stdin: prompt" in answer["failure"]
    assert answer["merged_output"].count("## collective-") == 1
    assert "side by side" in answer["summary"]


def test_a_node_out_of_time_ends_its_member_with_all_its_children(scene):
    wire = scene.connect(NODE_TIMEOUT_SECONDS="6")
    run_id = create(wire, do(hold=str(scene.base / "never"), linger=["session", "scrubbed"]), engine="command")

    def out_of_time():  # a run has no nodes before it is planned, and the next attempt takes the error away again
        return next(
            (one for one in status(wire, run_id)["nodes"] if one["status"] in ("retry_pending", "failed")), None
        )

    assert "did not end within 6 s" in until(out_of_time)["error"]
    pids = {call["pid"] for call in calls(scene)} | set(squads.lingering(scene))
    assert len(pids) >= 3
    tool(wire, "run_cancel", run_id=run_id)
    assert ended(wire, run_id)["status"] in ("canceled", "failed"), "failed: after its last attempt"
    gone(scene)


def test_a_canceled_run_ends_its_members_at_once(scene, wire):
    held = do(hold=str(scene.base / "never"), linger=["session"])
    run_id = create(wire, held, "collective", collectiveCount=2, engine="command")
    until(lambda: len(calls(scene)) == len(squads.lingering(scene)) == 2)
    assert tool(wire, "run_cancel", run_id=run_id)["status"] == "canceling"
    found = ended(wire, run_id)
    assert found["status"] == "canceled"
    assert {one["status"] for one in found["nodes"]} == {"canceled"}
    assert squads.members(scene) == []
    assert found["cost"]["usd"] is None


@pytest.mark.parametrize(
    ("arguments", "env", "code"),
    [
        ({"engine": "telepathy"}, {}, "unknown_engine"),
        ({"engine": "claude,telepathy"}, {}, "unknown_engine"),
        ({"engine": "codex"}, {}, "engine_missing"),
        ({"engine": "command"}, {"ENGINE_COMMAND": "no-such-cli"}, "engine_missing"),
        ({"engine": "command"}, {"RUN_TEMPLATE": "<%= prompt"}, "bad_template"),
        ({"agent": "nobody"}, {}, "unknown_agent"),
    ],
)
def test_what_cannot_answer_is_refused_at_once_and_nothing_is_stored(scene, arguments, env, code):
    answer = tool(scene.connect(**env), "run_create", task="Tea?", mode="single", **arguments)
    assert code_of(answer) == code
    assert answer["error"]["next_step"]
    assert not scene.home.exists()


# -- a daemon that ends while a member answers ------------------------------------------------------------------


def killed(scene):
    scene.kill_daemon()


def stopped(scene):
    assert scene.stage.cli("daemon", "stop").returncode == 0
    gone(scene)
    assert scene.stage.cli("daemon", "start").returncode == 0


def held_run(scene, wire, engine):
    """A run whose member waits for the gate, with a child of its own."""
    run_id = create(wire, do(say="At last.", hold=str(scene.base / "gate"), linger=["session"]), engine=engine)
    until(lambda: len(squads.lingering(scene)) == 1)
    found = status(wire, run_id)
    assert (found["cost"]["usd"], node(found, "single")["usd"], found["models"][0]["usd"]) == (None, None, None)
    return run_id


@pytest.mark.parametrize(
    ("engine", "end"),
    [
        ("command", killed), ("claude", stopped),
        *(pytest.param(*pair, marks=pytest.mark.slow) for pair in (("command", stopped), ("claude", killed))),
    ],
)  # fmt: skip
def test_a_member_dies_with_its_daemon_and_its_node_is_run_once_more_as_before(scene, wire, engine, end):
    run_id = held_run(scene, wire, engine)
    (first,) = calls(scene)
    waiting = wire.start("smartspawn_run_result", {"run_id": run_id, "wait_ms": spawn_stage.WAIT_MS})
    end(scene)
    until(lambda: len(calls(scene)) == 2 and len(squads.lingering(scene)) == 2)
    # The next daemon ends what is left in the background, beside the new member.
    until(lambda: not {first["pid"], squads.lingering(scene)[0]} & set(squads.members(scene)))
    (scene.base / "gate").touch()
    answer = wire.outcome(wire.answer(waiting))
    assert answer.get("status") == "completed", answer
    assert answer["merged_output"] == "At last."
    found = node(status(wire, run_id), "single")
    assert (found["status"], found["attempts"], found["reruns"], found["usd"]) == ("completed", 2, 1, None)
    second = calls(scene)[1]
    assert second["argv"] == first["argv"]
    assert [row["state"] for row in scene.rows("SELECT state FROM attempts ORDER BY attempt")] == ["lost", "done"]
    gone(scene)


def test_a_node_whose_daemon_dies_twice_is_not_run_a_third_time(scene, wire):
    run_id = held_run(scene, wire, "command")
    scene.kill_daemon()
    until(lambda: len(calls(scene)) == 2)
    scene.kill_daemon()
    found = ended(wire, run_id)
    assert (found["status"], node(found, "single")["attempts"]) == ("failed", 2)
    assert "it was run again already" in found["failure"]
    assert len(calls(scene)) == 2


# -- agents of the team -----------------------------------------------------------------------------------------


class Agents:
    """Agents of the shared stage, each played by a client that has its identity."""

    def __init__(self, stage):
        self.stage = stage
        self.boss = stage.begun()
        self.played = {}

    def play(self, agent_id):
        """The client that speaks for the agent; the agent is made when it is first asked for."""
        if agent_id not in self.played:
            assert self.boss.tool("agent_create", {"name": agent_id, "role": "r"})["ready"]
            self.played[agent_id] = self.stage.puppet(agent_id)
        return self.played[agent_id]

    def take(self, agent_id):
        """The agent's next task."""
        while True:
            asked = {"agent_id": agent_id, "timeout_ms": 20_000}
            answer = self.play(agent_id).tool("wait_for_command", asked)
            if answer.get("command", {}).get("kind") == "task":
                return answer["command"]

    def say(self, agent_id, command, payload, kind="result"):
        """End that task."""
        event = {"agent_id": agent_id, "task_id": command["task_id"], "type": kind, "payload": payload}
        told = self.play(agent_id).tool("emit_event", event)
        assert told.get("ok"), told

    def tasks(self, agent_id, run_id):
        """The tasks that a run has ever queued for the agent."""
        found = [one for one in self.stage.records(agent_id, "inbox") if one["type"] == "task"]
        return [one for one in found if one["payload"]["run_id"] == run_id]


@pytest.fixture(scope="module")
def agents(shared_stage):
    return Agents(shared_stage)


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_answers_every_mode_one_task_at_a_time_without_a_key_or_a_price(scene, agents, mode):
    agents.play("a")
    wire = scene.team()
    run_id = create(wire, STEPS, mode, agent="a")
    for at in range(len(NODES[mode])):
        command = agents.take("a")
        assert command["payload"]["run_id"] == run_id
        assert len(agents.tasks("a", run_id)) == at + 1
        agents.say("a", command, {"text": f"Answer {at}."})
    assert ended(wire, run_id)["status"] == "completed"
    found = checked(wire, "run_status", run_id=run_id)
    assert [one["node_id"] for one in found["nodes"]] == NODES[mode]
    assert set(models(found)) == {"agent:a"}
    assert {(one["status"], one["usd"], one["cost_source"]) for one in found["nodes"]} == {
        ("completed", None, "none")
    }
    assert found["cost"]["usd"] is None
    answer = checked(wire, "run_result", run_id=run_id)
    assert answer["merged_output"].startswith(f"Answer {len(NODES[mode]) - 1}.")
    assert answer["cost"]["usd_estimate"] is None


def test_agents_named_together_take_turns_and_work_at_once(scene, agents):
    agents.play("a"), agents.play("b")
    squads.role(scene, "skeptic", "You doubt all that is said.")
    wire = scene.connect()
    run_id = create(wire, "Tea?", "collective", collectiveCount=2, agent="a,b", role={"persona": "skeptic"})
    taken = {name: agents.take(name) for name in ("a", "b")}
    assert [one["payload"]["node_id"] for one in taken.values()] == ["collective-1", "collective-2"]
    assert all("You doubt all" in one["payload"]["instructions"] for one in taken.values())
    for name, command in taken.items():
        agents.say(name, command, f"{name} says tea.")
    last = agents.take("b")
    assert "a says tea." in last["payload"]["instructions"]
    assert "b says tea." in last["payload"]["instructions"]
    agents.say("b", last, "Tea.")
    assert result(wire, run_id)["merged_output"].startswith("Tea.")


def test_an_agents_answer_of_two_megabytes_comes_whole_from_its_artifacts(scene, agents):
    agents.play("a")
    wire = scene.connect()
    run_id = create(wire, "Tea?", agent="a")
    command = agents.take("a")
    (Path(command["artifacts"]) / "answer.md").write_text("x" * (2 << 20))
    agents.say("a", command, {"file": "answer.md"})
    assert result(wire, run_id)["more"] is True
    assert output(wire, run_id, "single") == "x" * (2 << 20)


@pytest.mark.parametrize(
    ("when", "end"),
    [
        ("queued", "killed"), ("taken", "stopped"), ("answered", "killed"),
        *(pytest.param(*pair, marks=pytest.mark.slow) for pair in (("queued", "stopped"), ("taken", "killed"), ("answered", "stopped"))),
    ],
)  # fmt: skip
def test_the_task_of_an_agent_outlives_the_daemon_and_its_answer_completes_the_node(scene, agents, when, end):
    player = agents.play("a")
    wire = scene.connect()
    run_id = create(wire, "Tea?", agent="a")
    until(lambda: agents.tasks("a", run_id))
    command = agents.take("a") if when != "queued" else None
    if end == "killed":
        scene.kill_daemon()
    else:
        assert scene.stage.cli("daemon", "stop").returncode == 0
    if when == "answered":  # while no daemon lives, or one just begins
        event = {"agent_id": "a", "task_id": command["task_id"], "type": "result", "payload": "Tea."}
        key = player.start("emit_event", event)
    if end == "stopped":
        assert scene.stage.cli("daemon", "start").returncode == 0
    if when == "answered":
        assert player.outcome(player.answer(key))["ok"]
    else:
        until(lambda: scene.rows("SELECT * FROM events WHERE message = 'run resumed'"))
        agents.say("a", command or agents.take("a"), "Tea.")
    answer = result(wire, run_id)
    assert (answer["status"], answer["merged_output"]) == ("completed", "Tea.")
    found = node(status(wire, run_id), "single")
    assert (found["attempts"], found["reruns"], found["usd"]) == (1, 0, None)
    assert len(agents.tasks("a", run_id)) == 1


def test_a_canceled_run_asks_its_agent_to_stop(scene, agents):
    agents.play("a")
    wire = scene.connect()
    run_id = create(wire, "Tea?", agent="a")
    command = agents.take("a")
    tool(wire, "run_cancel", run_id=run_id)
    assert ended(wire, run_id)["status"] == "canceled"
    agents.say("a", command, None, "canceled")
    assert [one["type"] for one in scene.records("a", "inbox")][-1] == "cancel"


def test_a_node_whose_agent_is_deleted_fails_at_once_and_says_so(scene, agents):
    agents.play("short")
    wire = scene.team()
    run_id = create(wire, "Tea?", agent="short")
    agents.take("short")
    agents.stage.let_go()
    assert "error" not in wire.tool("agent_delete", {"agent_id": "short", "force": True, "confirm": "short"})
    answer = result(wire, run_id)
    assert answer["status"] == "failed"
    assert "short" in answer["failure"]
    assert node(status(wire, run_id), "single")["attempts"] == 1
    assert code_of(tool(wire, "run_create", task="Tea?", mode="single", agent="short")) in {
        "unknown_agent",
        "agent_ended",
    }


@pytest.mark.parametrize("end", ["killed", pytest.param("stopped", marks=pytest.mark.slow)])
def test_another_projects_daemon_takes_no_run_of_our_members_and_agents(scene, agents, make_stage, end):
    agents.play("a")
    wire = scene.connect()
    by_member = held_run(scene, wire, "command")
    by_agent = create(wire, "Tea?", agent="a")
    command = agents.take("a")
    if end == "killed":
        (scene.stage.run_dir() / "stopped").touch(mode=0o600)  # no relay starts another one
        scene.kill_daemon()
    else:
        assert scene.stage.cli("daemon", "stop").returncode == 0
    other = spawn_stage.of_one_user(make_stage(name="other"), scene.stage)
    theirs = other.begun({**scene.env, **other.env, "PATH": scene.env["PATH"]}, "--toolsets", "smartspawn")
    for run_id in (by_member, by_agent):
        until(lambda run_id=run_id: status(theirs, run_id)["last_event"] == f"waiting for the daemon of {scene.root}")
        assert status(theirs, run_id)["waiting_for_key"] is False
    owned = run(theirs, do(say="Ours."), engine="command")
    assert (owned["status"], owned["merged_output"]) == ("completed", "Ours.")
    assert scene.stage.cli("daemon", "start").returncode == 0
    (scene.base / "gate").touch()
    until(lambda: scene.rows("SELECT * FROM runs WHERE id = ? AND active = 1", by_agent))
    agents.say("a", command, "Tea.")
    assert result(wire, by_agent)["merged_output"] == "Tea."
    assert result(wire, by_member)["merged_output"] == "At last."
    assert [call["cwd"] == str(scene.root) for call in calls(scene)] == [True, False, True]
    assert len(agents.tasks("a", by_agent)) == 1


def test_a_run_canceled_while_its_daemon_is_dead_leaves_no_task_to_its_agent(scene, agents):
    agents.play("a")
    wire = scene.connect()
    run_id = create(wire, "Tea?", agent="a")
    command = agents.take("a")
    for marker in ("restarting", "stopped"):  # no relay starts another one, and each holds its calls
        (scene.stage.run_dir() / marker).touch(mode=0o600)
    scene.kill_daemon()
    key = wire.start("smartspawn_run_cancel", {"run_id": run_id})
    assert scene.stage.cli("daemon", "start").returncode == 0
    (scene.stage.run_dir() / "restarting").unlink(missing_ok=True)
    assert "error" not in wire.outcome(wire.answer(key))
    assert ended(wire, run_id)["status"] == "canceled"
    until(lambda: scene.records("a", "inbox")[-1]["type"] == "cancel")
    agents.say("a", command, None, "canceled")
