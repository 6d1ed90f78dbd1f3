"""The files of the team vanish under the daemon: nothing is acknowledged into a deleted file, and everybody is told."""

import json
import shutil

import pytest

from tests.crash.raw import log, ready
from tests.support.stage import until

TASK = {"command": "true"}


@pytest.fixture
def team(make_stage):
    """A stage with two agents, whose tmux server is named by the environment: the configuration may vanish too."""
    stage = make_stage("stop_grace_s = 0\nkill_grace_s = 1\nready_timeout_s = 600\n")
    stage.env["ORCHESTRATOR_TMUX_SOCKET"] = stage.server.socket.name
    stage.sound = False
    wire = stage.begun()
    for name in ("a", "b"):
        ready(wire, name)
    return stage, wire


def enqueue(wire, agent_id, task_id):
    return wire.tool("task_enqueue", {"agent_id": agent_id, "task": {"task_id": task_id, "payload": TASK}})


def status(stage):
    return json.loads(stage.cli("daemon", "status", "--json").stdout)


def test_a_team_whose_files_were_removed_says_so_and_a_restart_begins_anew(team, faults):
    stage, wire = team
    pid = stage.daemon()
    (stage.root / ".agents").rename(stage.base / "gone")  # in one go: the daemon writes there all the time
    shutil.rmtree(stage.base / "gone")
    for call in (
        lambda: enqueue(wire, "a", "t1"),
        lambda: enqueue(wire, "b", "t1"),
        lambda: enqueue(wire, "b", "t2"),
        lambda: wire.tool("agent_create", {"name": "c", "role": "r"}),
        lambda: wire.tool("agent_delete", {"agent_id": "a"}),
    ):
        error = call()["error"]
        assert (error["kind"], error["code"]) == ("Environment", "io_failed"), error
        faults("world")
    assert {row["agent_id"] for row in wire.tool("agent_list")["agents"]} == {"a", "b"}
    assert len(status(stage)["missing"]) == 5
    assert "logs are missing" in stage.cli("daemon", "status").stdout
    doctor = stage.cli("doctor")
    assert doctor.returncode == 5, doctor.stdout
    assert "logs are missing" in doctor.stdout
    until(lambda: "files of the team have gone" in log(stage))
    assert stage.daemon() == pid, "it stays, and can be asked"
    lines = log(stage).count("\n")
    assert lines < 40, "it does not spin"
    assert stage.cli("daemon", "restart").returncode == 0
    ready(wire, "n")
    assert enqueue(wire, "n", "t1")["state"] == "queued"
    until(lambda: "result" in stage.types("n"))
    assert "Traceback" not in log(stage)


def test_one_agent_without_its_files_is_told_and_the_others_work_on(team, faults):
    stage, wire = team
    (stage.root / ".agents" / "agents" / "a").rename(stage.base / "gone")  # at once: its daemon writes there
    shutil.rmtree(stage.base / "gone")
    error = enqueue(wire, "a", "t1")["error"]
    assert (error["kind"], error["code"]) == ("Environment", "io_failed"), error
    assert enqueue(wire, "b", "t1")["state"] == "queued"
    until(lambda: "result" in stage.types("b"))
    ready(wire, "c")
    assert [name.split("/")[-2] for name in status(stage)["missing"]] == ["a", "a"]
    faults("world")


@pytest.mark.parametrize("written", [pytest.param(False, marks=pytest.mark.slow), True])
def test_files_that_were_moved_away_and_put_back_are_taken_up_again(team, written, faults):
    stage, wire = team
    home, aside = stage.root / ".agents", stage.root / "aside"
    home.rename(aside)
    if written:
        for number in range(2):
            error = enqueue(wire, "a", f"t{number}")["error"]
            assert (error["kind"], error["code"]) == ("Environment", "io_failed"), error
    assert status(stage)["missing"]
    if home.exists():
        shutil.rmtree(home)
    aside.rename(home)
    assert status(stage)["missing"] == []
    if written:  # what was refused may stand there all the same, as after a crash: the next daemon knows
        assert stage.cli("daemon", "restart").returncode == 0
    for task_id in ("t0", "t5"):
        assert "error" not in enqueue(wire, "a", task_id)
    until(lambda: stage.types("a").count("result") == 2)
    assert [record["seq"] for record in stage.records("a")] == list(range(1, len(stage.records("a")) + 1))
    faults("world")
