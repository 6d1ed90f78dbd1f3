"""One snapshot on the real daemon: the resource, the command line and a follower show the same agents and words."""

import json
import subprocess
import sys

import pytest

from tests.support.stage import until

FOLLOW = """
import json, sys
from orchestrator.faces.daemon_client import project_here
from orchestrator.faces.snapshot_client import SnapshotClient
with SnapshotClient(project_here(), face="test", answers=True) as client:
    number = 0
    while True:
        number = client.wait(number, 60.0)
        print(json.dumps(client.latest()), flush=True)
"""


@pytest.fixture
def follower(stage):
    """A face that prints every snapshot that it gets."""
    started = []

    def start():
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", FOLLOW], env=stage.env, cwd=stage.root, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def resource(boss, uri):
    return json.loads(boss.ask("resources/read", {"uri": uri})["result"]["contents"][0]["text"])


def rows_of(snapshot):
    """What must be the same everywhere: the agents without what only moves with the clock."""
    return [{k: v for k, v in row.items() if k not in ("last_event_at", "screen_line")} for row in snapshot["agents"]]


def test_the_resource_and_the_command_line_show_the_same_rows_in_the_same_order(stage):
    boss = stage.begun()
    boss.tool("agents_create", {"agents": [{"name": f"w{n}", "role": "r", "engine": "shell"} for n in range(3)]})
    boss.tool("task_enqueue", {"agent_id": "w1", "task": {"task_id": "t1", "payload": {"command": "exit 3"}}})
    until(lambda: "error" in stage.types("w1"))
    boss.tool("task_enqueue", {"agent_id": "w2", "task": {"task_id": "t2", "payload": {"command": "sleep 600"}}})
    until(lambda: "ack" in stage.types("w2"))

    def settled():
        both = resource(boss, "team://snapshot"), json.loads(stage.cli("status", "--json").stdout)
        return both if rows_of(both[0]) == rows_of(both[1]) else None

    snapshot, listed = until(settled)
    assert listed["agents"][0]["agent_id"] == "w2"
    assert (snapshot["live"], listed["live"]) == (True, True)
    (item,) = resource(boss, "team://inbox")["inbox"]
    assert (item["kind"], item["agent_id"], item["holds"], item["answers"]) == ("error", "w1", False, ["dismiss"])
    assert snapshot["totals"]["finished"] == {"result": 0, "error": 1, "canceled": 0}
    uris = [row["uri"] for row in boss.ask("resources/list")["result"]["resources"]]
    assert uris[:2] == ["team://snapshot", "team://inbox"]
    stage.stop_daemon()
    offline = json.loads(stage.cli("status", "--json").stdout)
    assert {row["agent_id"] for row in offline["agents"]} == {"w0", "w1", "w2"}
    assert not offline["live"]


def test_a_subscriber_of_the_inbox_hears_of_a_new_item(stage):
    boss = stage.begun()
    boss.tool("agents_create", {"agents": [{"name": "w1", "role": "r", "engine": "shell"}]})
    boss.ask("resources/subscribe", {"uri": "team://inbox"})
    boss.tool("task_enqueue", {"agent_id": "w1", "task": {"task_id": "t1", "payload": {"command": "exit 3"}}})
    until(
        lambda: any(note["params"]["uri"] == "team://inbox" for note in boss.told("notifications/resources/updated"))
    )
    until(lambda: resource(boss, "team://inbox")["inbox"])


def test_a_follower_lives_through_a_killed_daemon_and_shows_the_files_meanwhile(stage, follower):
    boss = stage.begun()
    boss.tool("agents_create", {"agents": [{"name": "w1", "role": "r", "engine": "shell"}]})
    process = follower()

    def until_shown(wanted):
        while True:
            snapshot = json.loads(process.stdout.readline())
            if wanted(snapshot):
                return snapshot

    first = until_shown(lambda snapshot: snapshot["live"])
    boss.close()
    stage.kill_daemon()
    until_shown(lambda snapshot: not snapshot["live"] or snapshot["boot"] != first["boot"])
    again = stage.begun()
    again.tool("agent_list", {"scope": "all"})
    last = until_shown(lambda snapshot: snapshot["live"] and snapshot["boot"] != first["boot"])
    assert [row["agent_id"] for row in last["agents"]] == ["w1"]


def test_a_dismissed_error_is_gone_for_good_and_a_second_answer_is_refused(stage):
    boss = stage.begun()
    boss.tool("agents_create", {"agents": [{"name": "w1", "role": "r", "engine": "shell"}]})
    boss.tool("task_enqueue", {"agent_id": "w1", "task": {"task_id": "t1", "payload": {"command": "exit 3"}}})
    until(lambda: resource(boss, "team://inbox")["inbox"])
    (item,) = resource(boss, "team://inbox")["inbox"]
    ask = (
        "import json,sys\nfrom orchestrator.base.errors import OrchestratorError\n"
        "from orchestrator.faces.daemon_client import DaemonClient, project_here\n"
        "with DaemonClient(project_here(), start=False) as link:\n"
        "    try: print(json.dumps(link.ask('orchestrator/answer', json.loads(sys.argv[1]))))\n"
        "    except OrchestratorError as error: print(json.dumps(error.as_dict()))\n"
    )

    def answer(**given):
        words = [sys.executable, "-P", "-c", ask, json.dumps(given)]
        done = subprocess.run(words, env=stage.env, cwd=stage.root, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    assert answer(item=item["id"], decision="approve")["code"] == "cannot_answer"
    assert answer(item="ffffffff", decision="dismiss")["code"] == "unknown_item"
    assert answer(item=item["id"], decision="sudo")["code"] == "bad_argument"
    assert answer(item=item["id"], decision="dismiss", face="cli")["ok"]
    assert answer(item=item["id"], decision="dismiss")["code"] == "item_over"
    assert resource(boss, "team://inbox")["inbox"] == []
    (record,) = [record for record in stage.records("w1") if record["type"] == "answered"]
    assert (record["decision"], record["who"]["face"], record["who"]["acts_as"]) == ("dismiss", "cli", "human")
    boss.close()
    stage.kill_daemon()
    assert resource(stage.begun(), "team://inbox")["inbox"] == []
