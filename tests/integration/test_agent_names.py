"""A name in a human's command means the living agent, on the real daemon and from the files."""

import json

import pytest

from tests.support.stage import until

TEAM = '[defaults]\nengine = "shell"\n[agents.w01]\nrole = "r"\n'


def line(stage, *args, status=0, env=None):
    done = stage.cli(*args, env=env)
    assert done.returncode == status, (done.stdout, done.stderr)
    return done


def asked(stage, *args, status=0, env=None):
    done = line(stage, *args, "--json", status=status, env=env)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def again(stage):
    """A team that was ended and brought up again: w01 is deleted, w01-2 lives and has its name."""
    (stage.root / ".agents" / "team.toml").write_text(TEAM)
    stage.allow(".agents/team.toml")
    for words in (["up"], ["down", "--yes"], ["up"]):
        line(stage, *words)
    return stage


def test_after_up_down_up_the_name_means_the_new_agent(again):
    done = line(again, "task", "add", "w01", "--id", "t-1", "--command", "true", "--wait")
    assert "w01-2" in done.stdout
    assert [r["type"] for r in again.records("w01-2") if r.get("task_id") == "t-1"][-1] == "result"
    seen = [json.loads(text) for text in line(again, "events", "w01", "--json").stdout.splitlines()]
    assert seen == [{k: r[k] for k in r if k not in ("v", "mac", "crc", "req")} for r in again.records("w01-2")]
    assert asked(again, "agent", "show", "w01")["meta"]["agent_id"] == "w01-2"
    assert asked(again, "task", "list", "w01")["agent_id"] == "w01-2"
    assert asked(again, "why", "w01")["agent_id"] == "w01-2"
    assert asked(again, "agent", "restart", "w01")["agent_id"] == "w01-2"
    # The name where it is unique among the living.
    assert "w01-2" not in line(again, "status").stdout
    # The deleted one can still be read, by its exact id, and is marked.
    done = line(again, "events", "id:w01", "--json")
    assert [json.loads(text)["type"] for text in done.stdout.splitlines()][-1] == "deleted"
    assert "deleted" in done.stderr and "w01-2" in done.stderr
    # Nothing is done to a deleted one that was named exactly, and nothing to its successor.
    for words in (["task", "add", "id:w01", "--command", "true"], ["agent", "restart", "id:w01"]):
        error = asked(again, *words, status=3)["error"]
        assert (error["code"], error["did_you_mean"]) == ("agent_ended", ["w01-2"])
    # Deleting by name ends the living one; then the name means nobody who lives.
    assert asked(again, "agent", "delete", "w01")["agent_id"] == "w01-2"
    assert again.types("w01-2")[-1] == "deleted"
    for words in (["task", "add", "w01", "--command", "true"], ["agent", "restart", "w01"]):
        assert asked(again, *words, status=3)["error"]["code"] == "agent_ended"
    done = line(again, "events", "w01")
    assert "w01-2 was deleted" in done.stderr


def test_without_a_daemon_a_name_means_the_same(again):
    again.settle("w01", "w01-2")
    again.kill_daemon()
    assert asked(again, "agent", "show", "w01")["meta"]["agent_id"] == "w01-2"
    done = line(again, "events", "w01", "--json")
    assert [json.loads(text)["type"] for text in done.stdout.splitlines()] == again.types("w01-2")
    assert "w01-2" in done.stderr
    assert asked(again, "agent", "show", "id:w01")["meta"]["agent_id"] == "w01"


@pytest.mark.tmux
def test_of_two_windows_the_name_means_the_agent_of_this_one(again):
    inside = again.inside(again.server.start())
    assert asked(again, "up", env=inside)["agents"][0]["agent_id"] == "w01-3"
    assert asked(again, "agent", "show", "w01", env=inside)["meta"]["agent_id"] == "w01-3"
    assert asked(again, "agent", "show", "w01")["meta"]["agent_id"] == "w01-2"
    other = again.server.run("new-window", "-d", "-P", "-F", "#{pane_id}", "-t", "user")
    done = line(again, "agent", "show", "w01", "--json", env=again.inside(other))
    assert json.loads(done.stdout)["meta"]["agent_id"] == "w01-3"  # the newest
    assert "w01-2" in done.stderr, "the others are named"
    # Each window shows names; who is not alone with its name is shown by its id.
    assert {"w01-2", "w01-3"} <= set(line(again, "status").stdout.split())


def test_an_mcp_client_is_told_the_successor_and_near_names_and_ids_stay_exact(again):
    master = again.begun()
    error = master.tool("task_enqueue", {"agent_id": "w01", "task": {"payload": {"command": "true"}}})["error"]
    assert (error["code"], error["did_you_mean"]) == ("agent_ended", ["w01-2"])
    assert "w01-2" in error["next_step"]
    error = master.tool("agent_get", {"agent_id": "wo1"})["error"]
    assert (error["code"], error["did_you_mean"]) == ("unknown_agent", ["w01-2"])
    assert asked(again, "task", "add", "wo1", "--command", "true", status=2)["error"]["did_you_mean"] == ["w01"]
    assert asked(again, "events", "W 01", status=2)["error"]["did_you_mean"] == ["w01"]
    assert again.types("w01")[-1] == "deleted"


def test_a_name_in_hangul_has_an_id_and_is_a_word(stage):
    assert asked(stage, "agent", "create", "빌더", "--engine", "shell")["agent_id"] == "agent"
    assert asked(stage, "agent", "create", "검사", "--engine", "shell")["agent_id"] == "agent-2"
    assert asked(stage, "agent", "show", "검사")["meta"]["agent_id"] == "agent-2"
    assert asked(stage, "agent", "show", "agent")["meta"]["name"] == "빌더"
    assert "검사" in line(stage, "status").stdout
    line(stage, "down", "--yes")
    until(lambda: stage.types("agent-2")[-1] == "deleted")
