"""The daemon killed with -9 while it makes an agent with a worktree, or removes one: exactly one of each, or none."""

import json
import subprocess
import sys

import pytest

from orchestrator.team.worktrees import inspection
from tests.crash.conftest import over
from tests.crash.moves import AGENT
from tests.fakes.relays import until

MAKING = ["worktree:begin", "worktree:added", "outbox:starting:before"]
OTHER = ["worktree:chosen", "worktree:copied", "outbox:starting:after", "launch:written"]
OTHER += ["tmux:split-window", "answer:agent_create"]


def sh(where, *words):
    done = subprocess.run(["git", "-C", where, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def stage(stages):
    one = stages()
    sh(one.root, "init", "-q", "-b", "main")
    for key, value in (("user.name", "t"), ("user.email", "t@example.com")):
        sh(one.root, "config", key, value)
    (one.root / "a.txt").write_text("one")
    (one.root / ".worktreeinclude").write_text("seen\n")
    sh(one.root, "add", "a.txt", ".worktreeinclude")
    sh(one.root, "commit", "-q", "-m", "first")
    (one.root / "seen").write_text("untracked")
    return one


def trees(stage):
    """The worktrees that git knows, but the main tree; and the branches."""
    lines = sh(stage.root, "worktree", "list", "--porcelain").splitlines()
    paths = [line.removeprefix("worktree ") for line in lines if line.startswith("worktree ")]
    names = sh(stage.root, "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/").split()
    return sorted(path.rpartition("/")[2] for path in paths[1:]), sorted(set(names) - {"main"})


def whole(stage, master, agent):
    """The agent has its one worktree, clean and filled, and works in it."""
    path = stage.root / ".agents" / "worktrees" / agent
    assert (path / "a.txt").read_text() == "one"
    assert (path / "seen").read_text() == "untracked"
    look = inspection.look(stage.root, agent)
    assert (look["on"], look["dirty"], look["locked"]) == (f"orchestrator/{agent}", False, None)
    [starting] = [r for r in stage.found().outbox[agent] if r["type"] == "starting"]
    assert (starting["cwd"], starting["worktree"]["branch"]) == (str(path), f"orchestrator/{agent}")
    assert master.do("agent_get", agent_id=agent)["meta"]["worktree"]["path"] == str(path)
    [process] = [p for p in stage.agents() if p.environ().get("ORCHESTRATOR_AGENT_ID") == agent]
    assert process.cwd() == str(path)


@pytest.mark.parametrize(
    "steps", [pytest.param(MAKING, id="making"), pytest.param(OTHER, id="other", marks=pytest.mark.slow)]
)
def test_a_daemon_killed_while_it_makes_a_worktree_makes_each_once(stage, steps):
    master, agents = stage.master(), []
    for step in steps:
        agents.append(stage.new("a"))
        stage.arm(step)
        try:
            told = master.do("agent_create", name=agents[-1], worktree=True, **AGENT)
            stage.spent(step)
            assert (told["agent_id"], told["worktree"]["copied"]) == (agents[-1], 1)
            assert trees(stage) == (sorted(agents), sorted(f"orchestrator/{one}" for one in agents))
            whole(stage, master, agents[-1])
            master.do("agent_delete", agent_id=agents[-1], force=True, confirm=agents[-1])
        except BaseException as error:
            error.add_note(f"killed at {step}")
            raise
    master.close()
    stage.finish()
    assert trees(stage)[0] == sorted(agents), "nothing removes a worktree but who is asked to"


def test_a_leftover_of_a_call_that_nobody_repeats_is_listed_and_can_be_removed(stage):
    master = stage.master()
    [daemon] = stage.daemons()
    stage.arm("worktree:added", master.victim)
    stage.arm("worktree:copied")
    master.ask("agent_create", name="a", worktree=True, **AGENT)
    stage.spent("worktree:copied")
    until(lambda: over(daemon))
    master.gone()
    again = stage.master()
    assert again.do("agent_list", scope="all")["agents"] == []
    assert [(row["agent_id"], row["recorded"]) for row in inspection.listed(stage.root)] == [("a", False)]
    words = [sys.executable, "-P", "-m", "orchestrator", "worktree", "remove", "a", "--json"]
    done = subprocess.run(words, cwd=stage.root, env=stage.env, capture_output=True, check=False)
    assert json.loads(done.stdout).get("branch_removed"), done
    assert trees(stage) == ([], [])
    again.close()
    stage.finish()


def test_a_daemon_killed_while_it_removes_a_worktree_removes_it_and_its_branch(stage):
    master = stage.master()
    agent = master.do("agent_create", name="a", worktree=True, **AGENT)["agent_id"]
    master.do("agent_delete", agent_id=agent)
    stage.arm("worktree:removed")
    words = [sys.executable, "-P", "-m", "orchestrator", "worktree", "remove", agent, "--json"]
    done = subprocess.run(words, cwd=stage.root, env=stage.env, capture_output=True, check=False)
    stage.spent("worktree:removed")
    assert json.loads(done.stdout).get("branch_removed"), done
    assert trees(stage) == ([], [])
    master.close()
    stage.finish()
