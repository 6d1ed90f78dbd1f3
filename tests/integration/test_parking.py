"""Park and wake with the real daemon and the real hook program; the agent's CLI is played by the test."""

import signal

import pytest

from tests.support.hooks import Cli, fake_cli, last_of, stop
from tests.support.stage import until


@pytest.fixture
def scene(stage):
    """A master and an agent `a` of an engine with hooks."""
    fake_cli(stage, "codex")
    stage.boss = stage.begun()
    made = stage.boss.tool("agent_create", {"name": "a", "role": "r", "engine": "codex", "ready_wait_ms": 0})
    assert "error" not in made, made
    stage.cli_of_a = Cli(stage, "a")
    yield stage
    stage.cli_of_a.close()


def parked(stage):
    return last_of(stage, "a", "parked", "woken") == "parked"


def park(stage):
    """End a turn, and wait until the agent is parked."""
    hook = stage.cli_of_a.hook(stop())
    until(lambda: parked(stage))
    return hook


def status(stage):
    return stage.boss.tool("agent_get", {"agent_id": "a"})["meta"]["status"]


def enqueue(stage, task_id):
    stage.boss.tool("task_enqueue", {"agent_id": "a", "task": {"task_id": task_id, "payload": {"do": task_id}}})


def test_an_agent_parks_after_empty_waits_and_is_woken_by_a_task(scene):
    cli = scene.cli_of_a
    assert cli.hook({"hook_event_name": "SessionStart", "session_id": "s-1", "source": "startup"}).said() == {}
    first = cli.call("wait_for_command", timeout_ms=0)
    assert first["status"] == "timeout"
    assert "park" not in first
    second = cli.call("wait_for_command", timeout_ms=0)
    assert second["park"] is True
    hook = park(scene)
    assert status(scene) == "parked"
    enqueue(scene, "t-1")
    said = hook.said()
    assert said["decision"] == "block"
    assert "wait_for_command" in said["reason"]
    assert len(said["reason"]) <= 500
    assert cli.call("wait_for_command", timeout_ms=1000)["command"]["task_id"] == "t-1"
    assert scene.types("a").count("parked") == 1
    assert scene.types("a").count("woken") == 1
    assert status(scene) == "busy"
    assert hook.process.returncode == 0


def test_a_park_survives_the_kill_of_the_daemon(scene):
    cli = scene.cli_of_a
    cli.call("wait_for_command", timeout_ms=0)
    hook = park(scene)
    for round_ in range(3):
        scene.kill_daemon()
        assert "error" not in scene.boss.tool("agent_list", {})  # the master's relay brings the next one up
        until(lambda: status(scene) == "parked")
        assert hook.held, round_
    assert scene.types("a").count("parked") == 1
    assert "woken" not in scene.types("a")
    enqueue(scene, "t-1")
    assert hook.said()["decision"] == "block"


def test_a_park_survives_a_stop_and_a_start_of_the_daemon(scene):
    cli = scene.cli_of_a
    cli.call("wait_for_command", timeout_ms=0)
    hook = park(scene)
    assert scene.cli("daemon", "stop").returncode == 0
    assert hook.held
    assert scene.cli("daemon", "start").returncode == 0
    until(lambda: status(scene) == "parked")
    assert scene.types("a").count("parked") == 1
    enqueue(scene, "t-1")
    assert hook.said()["decision"] == "block"


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_a_hook_that_its_cli_ends_means_a_human_is_in_control(scene, sign):
    scene.cli_of_a.call("wait_for_command", timeout_ms=0)
    hook = park(scene)
    hook.kill(sign)
    until(lambda: not parked(scene))
    until(lambda: status(scene) != "parked")
