"""The branch of a fleet's agent reaches the configured remote when a task has ended, and only then."""

import asyncio
import subprocess
from types import SimpleNamespace

import pytest

from orchestrator.fleet.branch_pushes import BranchPushes


def git(where, *words):
    subprocess.run(["git", "-C", str(where), "-c", "user.name=t", "-c", "user.email=t@t", *words], check=True)


@pytest.fixture
def tree(tmp_path):
    git(tmp_path, "init", "-q", "--bare", "there.git")
    git(tmp_path, "init", "-q", "-b", "main", "here")
    here = tmp_path / "here"
    git(here, "commit", "-q", "--allow-empty", "-m", "first")
    git(here, "remote", "add", "team", str(tmp_path / "there.git"))
    git(here, "checkout", "-q", "-b", "orchestrator/w-f1")
    git(here, "commit", "-q", "--allow-empty", "-m", "work")
    return here


def agent(tree, seq, *, fleet=True):
    spec = {"worktree": {"path": str(tree), "branch": "orchestrator/w-f1"}}
    end = SimpleNamespace(seq=seq) if seq else None
    state = SimpleNamespace(fleet={"fence": 1} if fleet else {}, spec=spec, last_end=end)
    return SimpleNamespace(agent_id="w", state=state)


def branches(tree):
    there = tree.parent / "there.git"
    said = subprocess.run(["git", "-C", str(there), "branch", "--list"], capture_output=True, text=True, check=True)
    return said.stdout.split()


def pushed(remote, *entries, known=()):
    async def run():
        pushes = BranchPushes(lambda: remote)
        for entry in known:
            pushes.known(entry)
        for entry in entries:
            pushes.seen(entry)
        await asyncio.gather(*pushes._tasks)

    asyncio.run(run())


def test_the_branch_is_pushed_when_a_task_has_ended(tree):
    pushed("team", agent(tree, 7))
    assert branches(tree) == ["orchestrator/w-f1"]


@pytest.mark.parametrize("case", ["no remote", "no end", "a local agent", "an end of before this start"])
def test_nothing_is_pushed_otherwise(tree, case):
    entry = agent(tree, 0 if case == "no end" else 7, fleet=case != "a local agent")
    known = [entry] if case.startswith("an end") else []
    pushed("" if case == "no remote" else "team", entry, known=known)
    assert branches(tree) == []


def test_a_push_that_fails_is_tried_again_at_the_next_end(tree):
    git(tree, "remote", "set-url", "team", str(tree.parent / "nowhere.git"))
    pushed("team", agent(tree, 7))
    assert branches(tree) == []
    git(tree, "remote", "set-url", "team", str(tree.parent / "there.git"))
    pushed("team", agent(tree, 9), known=[agent(tree, 7)])
    assert branches(tree) == ["orchestrator/w-f1"]
