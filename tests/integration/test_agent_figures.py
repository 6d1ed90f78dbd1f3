"""What a snapshot shows of agents that no record says, on the real daemon: worktrees, screens, a budget, usage."""

import json
import subprocess
import sys
from pathlib import Path

from tests.integration.test_snapshot import follower, resource
from tests.integration.test_worktree_agents import AGENT, master, run
from tests.integration.test_worktrees import commit, sh, write
from tests.support.stage import until

__all__ = ["follower", "master"]  # fixtures are found by their names in this module

ANSWER = (
    "import json, sys\n"
    "from orchestrator.faces.daemon_client import DaemonClient, project_here\n"
    "with DaemonClient(project_here(), start=False) as link:\n"
    "    print(json.dumps(link.ask('orchestrator/answer', json.loads(sys.argv[1]))))\n"
)


def shown(process, wanted):
    """The first snapshot that the follower gets and that is wanted."""
    while True:
        snapshot = json.loads(process.stdout.readline())
        if wanted(snapshot):
            return snapshot


def test_a_face_sees_worktrees_and_screens_and_what_would_not_merge(stage, master, follower):
    made = master.tool("agent_create", {"name": "a", **AGENT})
    tree = Path(made["worktree"]["path"])
    run(master, stage, "a", "echo mine > a.txt; git add -A; git commit -qm mine; echo the last words", "t1")

    def looked_up():  # nobody follows: a look has it looked up, and waits 2 s for that
        (row,) = resource(master, "team://snapshot")["agents"]
        return row if row["diff"] and row["screen_line"] else None

    assert until(looked_up)["diff"] == {"files": 1, "added": 1, "removed": 1}
    process = follower()
    snapshot = shown(process, lambda one: one["agents"][0]["diff"] and one["agents"][0]["screen_line"])
    (row,) = snapshot["agents"]
    assert row["diff"] == {"files": 1, "added": 1, "removed": 1}
    assert row["usage"]["unknown"] and snapshot["totals"]["usage"]["cost_unknown"] == 0
    assert snapshot["inbox"] == []

    write(stage.root, "a.txt", "theirs\n")
    commit(stage.root, "theirs")
    snapshot = shown(process, lambda one: one["inbox"])
    (item,) = snapshot["inbox"]
    assert (item["kind"], item["agent_id"], item["holds"], item["asked"]) == ("conflict", "a", False, "a.txt")
    assert not snapshot["agents"][0]["needs_human"] and snapshot["totals"]["need_you"] == 0
    asked = {"item": item["id"], "decision": "dismiss", "face": "test"}
    words = [sys.executable, "-P", "-c", ANSWER, json.dumps(asked)]
    done = subprocess.run(words, env=stage.env, cwd=stage.root, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["ok"]
    shown(process, lambda one: not one["inbox"])
    assert [record["decision"] for record in stage.records("a") if record["type"] == "answered"] == ["dismiss"]
    sh(tree, "merge", "-q", "-X", "ours", "main")


def test_gc_removes_what_an_agent_used_with_the_agent(stage):
    boss = stage.begun()
    boss.tool("agents_create", {"agents": [{"name": "w1", "role": "r", "engine": "shell"}]})
    usage = stage.root / ".agents" / "agents" / "w1" / "usage.jsonl"
    usage.write_text("")
    boss.tool("agent_delete", {"agent_id": "w1"})
    until(lambda: "deleted" in stage.types("w1"))
    done = stage.cli("gc", "--apply", "--older-than", "0s", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not usage.exists()
