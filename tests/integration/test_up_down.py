"""`orchestrator up` and `orchestrator down` on the real daemon, also when they or the daemon are killed half-way."""

import json
import signal
import subprocess
import sys

import pytest

from orchestrator.base import failpoints
from tests.crash.checker import check
from tests.support.stage import until

TEAM = '[defaults]\nengine = "shell"\n' + "".join(
    f'[agents.{name}]\nrole = "r"\n' for name in ("one", "two", "three")
)
# Becomes the command after its pid stands in the file, whole from the first moment.
NAMED = 'printf %s $$ > "$0.half" && mv "$0.half" "$0" && exec "$@"'


def describe(stage, text=TEAM):
    (stage.root / ".agents" / "team.toml").write_text(text)
    stage.allow(".agents/team.toml")


def asked(stage, *args, env=None):
    """A command with --json, run to its end: its exit status and its answer."""
    done = stage.cli(*args, "--json", env=env)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def living(stage):
    """The names of all agents that are not deleted, as their files tell."""
    logs = [stage.records(path.name) for path in (stage.root / ".agents" / "agents").iterdir() if path.is_dir()]
    return sorted(log[0]["name"] for log in logs if log and log[-1]["type"] != "deleted")


def ended(stage, *options):
    """End the team and the daemon; whatever went before, the files tell a complete story."""
    code, answer = asked(stage, "down", "--stop-daemon", *options)
    assert (code, answer["ended"], answer["left"], answer["daemon_stopped"]) == (0, True, [], True), answer
    assert all(run["ended_at"] for run in stage.run_files())
    check(stage.root, ended=True)
    return {row["agent_id"]: row["canceled_tasks"] for row in answer["agents"]}


def did(answer):
    return {row["agent_id"]: row["did"] for row in answer["agents"]}


def enqueue(stage, agent_id, task_id, command="sleep 1000"):
    done = stage.cli("task", "add", agent_id, "--id", task_id, "--command", command)
    assert done.returncode == 0, done.stderr


@pytest.mark.tmux
def test_up_makes_the_team_once_changes_what_it_is_told_to_and_down_ends_it(stage):
    describe(stage)
    inside = stage.inside(stage.server.start())
    code, answer = asked(stage, "up", env=inside)
    assert (code, answer["changed"]) == (0, True), answer
    assert did(answer) == {"one": "created", "two": "created", "three": "created"}
    assert sorted(stage.tagged().values()) == ["one", "three", "two"]
    before = {name: stage.types(name) for name in ("one", "two", "three")}
    again = stage.cli("up", env=inside)
    assert again.returncode == 0
    assert "nothing was changed" in again.stdout
    assert {name: stage.types(name) for name in before} == before
    assert len(stage.run_files()) == 1

    # Another description: told, and changed only where it is wanted and nothing is lost.
    describe(stage, TEAM.replace('[agents.two]\nrole = "r"', '[agents.two]\nrole = "other"').replace("three", "four"))
    enqueue(stage, "two", "t-1")
    code, answer = asked(stage, "up", env=inside)
    assert (code, did(answer)) == (1, {"one": "kept", "two": "kept", "four": "created", "three": "left alone"})
    assert "role" in answer["agents"][1]["differs"][0]
    code, answer = asked(stage, "up", "--recreate", "--prune", env=inside)
    assert (code, did(answer)) == (1, {"one": "kept", "two": "left alone", "four": "kept", "three": "ended"})
    assert "unfinished" in answer["agents"][1]["why"]
    code, answer = asked(stage, "up", "--recreate", "--force", env=inside)
    assert (code, did(answer)) == (0, {"one": "kept", "two-2": "recreated", "four": "kept"}), answer
    assert living(stage) == ["four", "one", "two"]
    assert stage.types("two")[-2:] == ["stopped", "deleted"]
    assert [r["task_id"] for r in stage.records("two") if r["type"] == "canceled"] == ["t-1"]

    enqueue(stage, "one", "t-2")
    code, answer = asked(stage, "down")
    assert (code, answer["error"]["code"]) == (2, "confirm_needed")
    assert living(stage) == ["four", "one", "two"]
    done = stage.cli("down", "--yes")
    assert done.returncode == 0, done.stderr
    assert "one: deleted, canceled: t-2" in done.stdout
    assert [run["ended_at"] is None for run in stage.run_files()] == [False]
    assert living(stage) == []
    assert asked(stage, "down") == (0, {"ended": True, "agents": [], "left": [], "daemon_stopped": False})
    assert ended(stage) == {}


@pytest.mark.tmux
def test_outside_tmux_the_team_is_in_the_sessions_window_and_one_run_of_several_can_be_ended(stage):
    describe(stage)
    inside = stage.inside(stage.server.start())
    assert asked(stage, "up", env=inside)[0] == 0
    code, answer = asked(stage, "up")
    assert (code, sorted(did(answer))) == (0, ["one-2", "three-2", "two-2"])
    assert sorted(answer["elsewhere"]) == ["one", "three", "two"]
    assert "attach" in answer["attach"]
    first, second = stage.run_files()
    # A daemon that was killed is no team that has ended.
    stage.kill_daemon()
    code, answer = asked(stage, "down", "--run", second["run_id"])
    assert (code, sorted(row["agent_id"] for row in answer["agents"])) == (0, ["one-2", "three-2", "two-2"])
    assert living(stage) == ["one", "three", "two"]
    assert asked(stage, "down", "--run", "run-none")[1]["error"]["code"] == "unknown_run"
    code, answer = asked(stage, "down", "--force", "--yes", "--stop-daemon")
    assert (code, answer["daemon_stopped"], len(answer["agents"])) == (0, True, 3)
    assert [run["ended_at"] is None for run in stage.run_files()] == [False, False]
    assert first["run_id"] in {run["run_id"] for run in stage.run_files()}
    until(lambda: stage.daemon() is None)
    assert asked(stage, "up")[1]["error"]["code"] == "daemon_stopped"


def test_one_bad_entry_fails_alone_and_a_bad_file_or_an_agents_shell_changes_nothing(stage):
    before = sorted(path.name for path in (stage.root / ".agents").iterdir())
    assert asked(stage, "up")[1]["error"]["code"] == "bad_config"
    describe(stage, "[agents.one]\nrole = 'r'\nengin = 'shell'\n")
    code, answer = asked(stage, "up")
    assert (code, answer["error"]["next_step"]) == (2, "did you mean 'engine'?")
    assert sorted(path.name for path in (stage.root / ".agents").iterdir()) == sorted(
        [*before, "identity.json", "team.toml"]
    )
    assert stage.daemon() is None
    describe(stage, '[agents.bad]\nrole = "r"\nengine = "shell"\nmodel = "m"\n[agents.good]\nrole = "r"\n')
    code, answer = asked(stage, "up")
    assert (code, [row["did"] for row in answer["agents"]]) == (1, ["failed", "created"])
    assert "takes no model" in answer["agents"][0]["why"]
    assert living(stage) == ["good"]
    assert stage.cli("down").returncode == 0


def interrupted(stage, kills, step, victim):
    """Begin `up`; the process that passes the step kills the daemon (itself) or the command."""
    kills.mkdir()
    stage.env[failpoints.VARIABLE] = f"*={kills}"
    armed = str(kills / step)
    if victim == "daemon":
        (kills / step).write_text("self")
    command = [sys.executable, "-P", "-m", "orchestrator", "up", "--json"]
    begin = ["sh", "-c", NAMED, armed, *command] if victim == "command" else command
    started = subprocess.Popen(
        begin, env=stage.env, cwd=stage.root, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    out, _ = started.communicate(timeout=90)
    until(lambda: list(kills.glob(f"{step}.*")))
    return started.returncode, out


@pytest.mark.parametrize(
    ("step", "victim"),
    [
        ("answer:agents_create", "daemon"), ("launch:released", "command"),
        pytest.param("tmux:split-window", "daemon", marks=pytest.mark.slow),
        *(pytest.param("outbox:starting:after", victim, marks=pytest.mark.slow) for victim in ("daemon", "command")),
    ],
)  # fmt: skip
def test_killed_half_way_and_run_again_it_is_the_same_team(stage, step, victim):
    describe(stage)
    code, out = interrupted(stage, stage.base / "kills", step, victim)
    if victim == "daemon":
        assert code == 0, "the command outlives a daemon"
        assert {row["did"] for row in json.loads(out)["agents"]} == {"created"}
    else:
        assert code == -signal.SIGKILL
    code, answer = asked(stage, "up")
    assert (code, answer["as_described"]) == (0, True), answer
    assert living(stage) == ["one", "three", "two"]
    assert len(stage.tagged()) == 3
    assert sorted(ended(stage)) == ["one", "three", "two"]


def test_two_at_once_make_one_team(stage):
    describe(stage)
    both = [
        subprocess.Popen(
            [sys.executable, "-P", "-m", "orchestrator", "up", "--json"],
            env=stage.env, cwd=stage.root, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    answers = [json.loads(one.communicate(timeout=90)[0]) for one in both]
    assert [one.returncode for one in both] == [0, 0], answers
    assert [sorted(did(answer)) for answer in answers] == [["one", "three", "two"]] * 2
    assert living(stage) == ["one", "three", "two"]
    assert stage.cli("down").returncode == 0


@pytest.mark.tmux
def test_only_what_is_missing_is_made_and_a_failed_one_that_is_there_is_left_as_it_is(stage):
    master = stage.begun(stage.inside(stage.server.start()))
    one = {"name": "one", "role": "r", "engine": "shell"}
    assert master.tool("agents_create", {"agents": [one]})["ready"] == 1
    made = master.tool("agents_create", {"agents": [{**one, "name": "two"}, one, one], "only_missing": True})
    assert [(row["agent_id"], row.get("existing", False)) for row in made["agents"]] == [
        ("two", False), ("one", True), ("one", True),
    ]  # fmt: skip
    stage.server.run("kill-pane", "-t", made["agents"][1]["tmux_pane_id"])
    until(lambda: "exited" in stage.types("one"))
    made = master.tool("agents_create", {"agents": [one], "only_missing": True, "ready_wait_ms": 0})
    assert [(row["agent_id"], row["existing"]) for row in made["agents"]] == [("one", True)]
    assert "stopped" not in stage.types("one")
    # Without it a name is no promise: ids get suffixes.
    assert master.tool("agents_create", {"agents": [one]})["agents"][0]["agent_id"] == "one-2"


def test_a_daemon_killed_while_the_team_ends_is_followed_by_one_that_ends_it(stage):
    describe(stage)
    kills = stage.base / "kills"
    kills.mkdir()
    stage.env[failpoints.VARIABLE] = f"*={kills}"
    assert asked(stage, "up")[0] == 0
    enqueue(stage, "one", "t-1")
    (kills / "delete:process-ended").write_text("self")
    assert ended(stage, "--yes") == {"one": ["t-1"], "two": [], "three": []}
    assert list(kills.glob("delete:process-ended.*")), "it was killed"
