"""An agent's meta.json holds what agent_get answers, in each status of the agent (B1.41)."""

import json
import subprocess

import pytest

from tests.support.stage import until

pytestmark = pytest.mark.tmux


@pytest.fixture(scope="module")
def team(shared_stage):
    """Agents that are idle after a result, busy with one task queued, in a worktree, failed, and stopped and deleted."""
    stage = shared_stage
    git = ("git", "-C", str(stage.root), "-c", "user.name=t", "-c", "user.email=t@example.com")
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    wire = stage.boss = stage.begun(stage.inside(stage.server.start(220, 60)))
    entries = [{"name": name, "role": "r"} for name in ("idle", "busy", "apart", "failed", "stopped")]
    entries[2]["worktree"] = True
    entries[3]["policies"] = {"restart": "never"}
    made = {one["agent_id"]: one for one in wire.tool("agents_create", {"agents": entries})["agents"]}

    def give(agent_id, task_id, command):
        task = {"task_id": task_id, "payload": {"command": command}}
        wire.tool("task_enqueue", {"agent_id": agent_id, "task": task})

    give("idle", "done", "echo fine")
    give("busy", "held", "sleep 300")
    give("busy", "next", "true")
    give("failed", "lost", "sleep 300")
    until(lambda: "result" in stage.types("idle"))
    until(lambda: "ack" in stage.types("busy"))
    until(lambda: "ack" in stage.types("failed"))
    stage.server.run("kill-pane", "-t", made["failed"]["tmux_pane_id"])
    until(lambda: "failed" in stage.types("failed"))
    assert wire.tool("agent_delete", {"agent_id": "stopped"})["ok"]
    return stage


def both(stage, agent_id):
    """The agent's meta as agent_get answers it, and as the file has it without its seal.

    The time of the last call may be newer in the answer: a call that leaves no record does not rewrite the file. What git
    says of a worktree is looked up for the answer alone; the file has path, branch and base.
    """
    answer = stage.boss.tool("agent_get", {"agent_id": agent_id})["meta"]
    file = json.loads((stage.root / ".agents" / "agents" / agent_id / "meta.json").read_text())
    file.pop("mac", None)
    if answer["worktree"]:
        answer["worktree"] = {key: answer["worktree"][key] for key in ("path", "branch", "base")}
    assert (file["last_call_at"] or "") <= (answer["last_call_at"] or "")
    file["last_call_at"] = answer["last_call_at"]
    return answer, file


STATES = [("idle", "idle"), ("busy", "busy"), ("apart", "idle"), ("failed", "failed"), ("stopped", "deleted")]


@pytest.mark.parametrize(("agent_id", "state"), STATES)
def test_the_file_and_agent_get_have_the_same_fields_with_the_same_values(team, agent_id, state):
    team.settle(agent_id)
    answer, file = both(team, agent_id)
    assert answer["status"] == state
    assert file == answer
