"""What stands in the project afterwards: plain files that fit their schemas, private, beside what others own."""

import json
import stat
from collections import Counter

import jsonschema
import pytest

from orchestrator.base import package_data
from orchestrator.core.schemas import SCHEMAS
from tests.support.stage import TERMINAL, lines_of, until

pytestmark = pytest.mark.tmux

FOREIGN = "---\nname: reviewer\n---\nWritten by another tool.\n"


@pytest.fixture(scope="module")
def scene(shared_stage):
    """A team that has seen nearly everything: results, errors, cancels, a crash, a restart, a lost pane, a delete."""
    stage = shared_stage
    agents = stage.root / ".agents" / "agents"
    agents.mkdir()
    (agents / "reviewer.md").write_text(FOREIGN)
    master = stage.server.start(220, 60)
    wire = stage.boss = stage.begun(stage.inside(master))
    team = [{"name": name, "role": "r"} for name in ("done", "lost", "crash")]
    team[1]["policies"] = {"restart": "never"}
    made = wire.tool("agents_create", {"agents": team})["agents"]
    stage.run_id = made[0]["run_id"]

    def give(agent, task_id, command):
        wire.tool("task_enqueue", {"agent_id": agent, "task": {"task_id": task_id, "payload": {"command": command}}})

    give("done", "good", "echo fine")
    give("done", "bad", "echo broken >&2; exit 3")
    give("done", "wrong", "")
    give("done", "long", "sleep 300")
    give("done", "never", "true")
    give("lost", "held", "sleep 300")
    give("crash", "once", "echo x >> attempts; test $(wc -l < attempts) -gt 1 || kill -9 $PPID; true")
    wire.tool("task_cancel", {"agent_id": "done", "task_id": "never"})
    until(lambda: [r for r in stage.records("done") if r["type"] == "ack" and r["task_id"] == "long"])
    wire.tool("task_cancel", {"agent_id": "done", "task_id": "long"})
    until(lambda: "ack" in stage.types("lost"))
    stage.server.run("kill-pane", "-t", made[1]["tmux_pane_id"])
    until(lambda: "failed" in stage.types("lost"))
    until(lambda: sum(kind in TERMINAL for kind in stage.types("done")) == 5)
    until(lambda: "result" in stage.types("crash"))
    stage.kill_daemon()
    assert wire.tool("agent_delete", {"agent_id": "lost"})["ok"]
    until(lambda: lines_of(stage.root / f".agents/run/{stage.run_id}/broadcast.jsonl")[-1]["type"] == "deleted")
    stage.settle("done", "lost", "crash")
    return stage


def test_every_file_and_record_fits_its_model_and_its_published_schema(scene):
    assert scene.check_files() > 40
    published = {name: jsonschema.Draft202012Validator(package_data.schema(name)) for name in SCHEMAS}
    seen = Counter()
    for name, path, value in scene.written():
        errors = [error.message for error in published[name].iter_errors(value)]
        assert not errors, (path, errors)
        seen[value.get("type", name)] += 1
    wanted = {"starting", "ready", "delivered", "ack", "result", "error", "canceled", "cancel_requested", "requeued"}
    wanted |= {
        "exited",
        "restarted",
        "failed",
        "stopped",
        "deleted",
        "task",
        "cancel",
        "stop",
        "meta",
        "run",
        "launch",
    }
    assert wanted <= seen.keys(), "the team has seen nearly everything"


def test_each_log_is_dense_and_rises_in_time_and_the_broadcast_repeats_what_ended_and_changed(scene):
    for agent_id in ("done", "lost", "crash"):
        for log in ("inbox", "outbox"):
            records = scene.records(agent_id, log)
            assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
            assert [record["at"] for record in records] == sorted(record["at"] for record in records)
        ends = Counter(r["task_id"] for r in scene.records(agent_id) if r["type"] in TERMINAL)
        asked = [r["task_id"] for r in scene.records(agent_id, "inbox") if r["type"] == "task"]
        assert ends == dict.fromkeys(asked, 1), "exactly one terminal event for each task"
    told = lines_of(scene.root / f".agents/run/{scene.run_id}/broadcast.jsonl")
    assert [record["seq"] for record in told] == list(range(1, len(told) + 1))
    kinds = TERMINAL | {"starting", "ready", "exited", "restarted", "failed", "stopped", "deleted", "requeued"}
    due = {(a, r["seq"]) for a in ("done", "lost", "crash") for r in scene.records(a) if r["type"] in kinds}
    assert {(record["agent_id"], record["ref"]) for record in told} == due
    assert len(told) == len(due), "nothing is told twice"


def test_a_lost_worker_is_launched_again_and_its_task_runs_again_as_the_policy_says(scene):
    records = scene.records("crash")
    assert [r["type"] for r in records if r["type"] not in ("ack", "progress")] == [
        "starting", "ready", "delivered", "exited", "requeued", "restarted", "ready", "delivered", "result",
    ]  # fmt: skip
    assert [r["attempt"] for r in records if r["type"] in ("delivered", "result")] == [1, 2, 2]
    assert [r["epoch"] for r in records if r["type"] == "ready"] == [1, 2]
    exited = next(r for r in records if r["type"] == "exited")
    assert "SIGKILL" in exited["reason"]
    assert (scene.root / "attempts").read_text() == "x\nx\n"


def test_the_run_data_is_private_and_ignored_by_git_and_files_of_others_are_left_alone(scene):
    home = scene.root / ".agents"
    assert (home / "agents" / "reviewer.md").read_text() == FOREIGN
    assert {path.name for path in (home / "agents").iterdir()} == {"done", "lost", "crash", "reviewer.md"}
    for path in (home / "run").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    for agent_id in ("done", "lost", "crash"):
        place = home / "agents" / agent_id
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        for part in ("artifacts", "engine"):
            assert stat.S_IMODE((place / part).stat().st_mode) == 0o700
        for part in ("inbox.jsonl", "outbox.jsonl", "meta.json", "engine/launch.json"):
            assert stat.S_IMODE((place / part).stat().st_mode) == 0o600, part
    for path in scene.run_dir().rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert stat.S_IMODE(scene.run_dir().stat().st_mode) == 0o700
    rules = (home / ".gitignore").read_text().split("\n")
    assert {"*", "!/config.toml", "!/team.toml", "!/roles/"} <= set(rules)


def test_what_agent_create_names_exists_and_lies_in_the_project(scene):
    made = scene.boss.tool("agent_get", {"agent_id": "done"})["meta"]
    base = scene.root / ".agents" / "agents" / "done"
    assert made["paths"] == {
        "meta": str(base / "meta.json"), "inbox": str(base / "inbox.jsonl"),
        "outbox": str(base / "outbox.jsonl"), "artifacts": str(base / "artifacts"),
    }  # fmt: skip
    result = next(r for r in scene.records("done") if r["type"] == "result")
    assert (scene.root / result["payload"]["artifact"]).read_text().endswith("fine\n")
    error = next(r for r in scene.records("done") if r["type"] == "error")
    assert error["payload"]["exit_code"] == 3
    assert json.loads((base / "meta.json").read_text())["finished"] == {"result": 1, "error": 2, "canceled": 2}


def test_without_a_daemon_the_command_line_reads_the_same_facts_from_the_files(scene):
    told = scene.cli("events", "done", "--json").stdout
    assert [json.loads(line)["seq"] for line in told.splitlines()] == [r["seq"] for r in scene.records("done")]
    assert scene.cli("daemon", "stop").returncode == 0
    assert scene.daemon() is None
    assert scene.cli("events", "done", "--json").stdout == told
    rows = json.loads(scene.cli("agent", "list", "--json").stdout)["agents"]
    assert {row["agent_id"]: row["status"] for row in rows}["done"] == "unknown"
    assert scene.cli("daemon", "start").returncode == 0
    # An agent is `unknown` until its own relay has found the new daemon.
    until(lambda: {row["status"] for row in scene.boss.tool("agent_list")["agents"]} <= {"idle", "failed"})
