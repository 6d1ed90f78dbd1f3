"""Permission requests with the real daemon and the real hook program; the agent's CLI is played by the test."""

import json
import signal

import pytest

from orchestrator.base import failpoints
from orchestrator.base.errors import OrchestratorError
from tests.support.faces import open_face
from tests.support.hooks import Cli, fake_cli
from tests.support.stage import until

ALLOWED = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}
LONG = "make &&\n" * 20_000 + "rm -rf build"


@pytest.fixture(params=["claude", "codex"])
def scene(stage, request):
    """An agent `a` of each CLI that asks through this hook; it has called once."""
    fake_cli(stage, request.param)
    stage.kill_at = stage.root / "kill-at"
    stage.kill_at.mkdir()
    stage.env[failpoints.VARIABLE] = f"*={stage.kill_at}"
    stage.boss = stage.begun()
    made = stage.boss.tool("agent_create", {"name": "a", "role": "r", "engine": request.param, "ready_wait_ms": 0})
    assert "error" not in made, made
    stage.engine, stage.cli_of_a = request.param, Cli(stage, "a")
    stage.cli_of_a.call("wait_for_command", timeout_ms=0)
    yield stage
    stage.cli_of_a.close()


def ask(scene, command=LONG):
    """The CLI asks: its hook."""
    event = {"hook_event_name": "PermissionRequest", "session_id": "s-1", "cwd": str(scene.root)}
    return scene.cli_of_a.hook({**event, "tool_name": "Bash", "tool_input": {"command": command}})


def blocked(scene):
    return scene.boss.tool("agent_get", {"agent_id": "a"})["meta"]["blocked"]


def code_of(face, item, decision):
    """The error with which an answer is refused."""
    with pytest.raises(OrchestratorError) as error:
        face.answer(item, decision)
    return error.value.code


def test_the_whole_command_is_asked_for_and_the_hook_prints_the_answer(scene):
    with open_face(scene) as face:
        hook = ask(scene)
        item = face.item("rm -rf build")
        assert (item["asked"], item["cut"], item["by"]) == (LONG, False, "hook")
        assert item["cwd"] == str(scene.root)
        assert blocked(scene)["kind"] == "permission"
        assert face.answer(item, "approve")["ok"]
        assert hook.said() == ALLOWED
        assert code_of(face, item, "deny") == "item_over"
        until(lambda: not face.inbox())
        assert blocked(scene) is None
    assert scene.types("a")[-3:] == ["blocked", "answered", "unblocked"]


def test_a_request_survives_the_kill_of_the_daemon_and_is_then_answered(scene):
    with open_face(scene) as face:
        hook = ask(scene)
        item = face.item("rm -rf build")
        for _ in range(2):
            boot = face.client.latest()["boot"]
            scene.kill_daemon()
            assert "error" not in scene.boss.tool("agent_list", {})  # the master's relay brings the next one up
            until(
                lambda boot=boot: (
                    (now := face.client.latest())["live"]
                    and now["boot"] != boot
                    and [each["by"] for each in now["inbox"]] == ["hook"]
                )
            )
            assert face.inbox()[0] == item
        assert face.answer(item, "approve")["ok"]
        assert hook.said() == ALLOWED
    assert scene.types("a").count("blocked") == 1


@pytest.mark.parametrize("step", ["outbox:answered:before", "outbox:answered:after", "answer:inbox"])
def test_an_answer_whose_daemon_is_killed_is_carried_out_once_and_told_once(scene, faults, step):
    with open_face(scene) as face:
        hook = ask(scene)
        item = face.item("rm -rf build")
        (scene.kill_at / step).write_text("self")
        told = scene.cli("approve", item["id"], "--json")
        assert (json.loads(told.stdout).get("decision"), told.returncode) == ("approve", 0), told
        assert hook.said() == ALLOWED
        assert code_of(face, item, "approve") == "item_over"
        until(lambda: not face.inbox())
    assert not (scene.kill_at / step).exists()
    assert [record["decision"] for record in scene.records("a") if record["type"] == "answered"] == ["approve"]
    faults("answer")


def test_a_hook_that_is_killed_takes_its_item_with_it_and_nothing_can_be_approved(scene):
    with open_face(scene) as face:
        hook = ask(scene)
        item = face.item("rm -rf build")
        hook.kill(signal.SIGKILL)
        until(lambda: item["id"] not in [each["id"] for each in face.inbox()])
        assert code_of(face, item, "approve") == "item_over"
    assert "answered" not in scene.types("a")


def test_a_daemon_that_was_stopped_leaves_the_question_to_the_cli(scene):
    with open_face(scene) as face:
        hook = ask(scene)
        face.item("rm -rf build")
        assert scene.cli("daemon", "stop").returncode == 0
        assert hook.said() == {}


def test_what_no_human_has_answered_is_left_to_the_dialog(scene):
    hook = ask(scene)
    until(lambda: blocked(scene))
    if scene.engine == "codex":  # it shows no dialog meanwhile, and nobody can answer
        assert hook.said() == {}
    else:
        assert hook.held
        scene.cli_of_a.hook({"hook_event_name": "UserPromptSubmit", "session_id": "s-1"})
        assert hook.said() == {}
    assert "answered" not in scene.types("a")


def test_a_face_that_only_looks_holds_nothing(scene):
    with open_face(scene, answers=False) as face:
        hook = ask(scene)
        item = face.item("make")
        assert item["by"] == ("screen" if scene.engine == "codex" else "hook")
        if scene.engine == "codex":
            assert hook.said() == {}
        else:
            assert hook.held
