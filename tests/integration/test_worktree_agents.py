"""Agents with worktrees, as a master and a human meet them: the real daemon, panes and command line."""

import asyncio
import json
from pathlib import Path

import pytest

from orchestrator.core import prompts
from orchestrator.team.life import agent_commands, agent_worktrees, launch_files
from orchestrator.team.worktrees import inspection
from tests.integration.test_worktrees import branches, commit, repository, sh, write
from tests.support.stage import until
from tests.support.team import Team

AGENT = {"role": "r", "engine": "shell", "worktree": True}


@pytest.fixture
def master(stage):
    """A stage whose project is a repository, and a master on it."""
    project(stage)
    return stage.begun()


def project(stage):
    config = (stage.root / ".agents" / "config.toml").read_text()
    (stage.root / ".agents" / "config.toml").unlink()
    (stage.root / ".agents").rmdir()
    stage.root.rmdir()
    repository(stage.root)
    write(stage.root, ".agents/config.toml", config)


def run(master, stage, agent_id, command, task_id):
    """Have an agent run a shell command; what its result says."""
    given = {"task_id": task_id, "payload": {"command": command}}
    assert "error" not in master.tool("task_enqueue", {"agent_id": agent_id, "task": given})

    def ended():
        return next((r for r in stage.records(agent_id) if r["type"] == "result" and r["task_id"] == task_id), None)

    return until(ended)["payload"]


def cli(stage, *words, status=0):
    done = stage.cli(*words, "--json")
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_an_agent_works_and_commits_in_its_own_worktree_until_somebody_merges_it(stage, master):
    write(stage.root, ".worktreeinclude", ".env\n")
    write(stage.root, ".env", "KEY=1")
    before = sh(stage.root, "status", "--porcelain")
    made = master.tool("agent_create", {"name": "a", "cwd": "sub", **AGENT})
    assert made["ready"]
    path = Path(made["worktree"]["path"])
    head = sh(stage.root, "rev-parse", "HEAD")
    assert made["worktree"] == {
        "path": str(stage.root / ".agents/worktrees/a"), "branch": "orchestrator/a", "base": head, "copied": 1,
        "not_copied": [],
    }  # fmt: skip
    [starting] = [r for r in stage.records("a") if r["type"] == "starting"]
    assert starting["cwd"] == str(path / "sub")
    assert starting["worktree"] == {**made["worktree"], "tree": str(stage.root)}

    command = "pwd && cat ../.env && echo more >> b.txt && git add -A && git commit -qm work && echo x > untracked"
    assert str(path / "sub") in json.dumps(run(master, stage, "a", command, "t1"))
    assert (path / "sub" / "untracked").exists()
    assert sh(stage.root, "status", "--porcelain") == before, "nothing of it shows in the main tree"

    def measured():
        tree = master.tool("agent_get", {"agent_id": "a"})["meta"]["worktree"]
        return tree if tree["ahead"] else None  # a look may be some seconds old

    tree = until(measured)
    assert [tree[key] for key in ("files_changed", "insertions", "deletions", "dirty")] == [2, 1, 0, True]
    [row] = master.tool("agent_list", {"scope": "all"})["agents"]
    assert "worktree" not in row
    assert f"{path}" in stage.cli("agent", "show", "a").stdout

    refused = cli(stage, "worktree", "remove", "a", status=3)
    assert refused["error"]["code"] == "worktree_busy"
    assert cli(stage, "worktree", "merge-check", "a")["clean"]
    ended = master.tool("agent_delete", {"agent_id": "a"})
    assert (ended["worktree"]["path"], ended["worktree"]["branch"]) == (str(path), "orchestrator/a")
    assert "orchestrator worktree remove a" in ended["note"]

    refused = cli(stage, "worktree", "remove", "a", status=3)
    assert (refused["error"]["code"], refused["error"]["files"]) == ("worktree_dirty", ["sub/untracked"])
    shown = stage.cli("worktree", "list").stdout
    assert [word in shown for word in ("deleted", "orchestrator/a", "dirty", str(path))] == [True] * 4
    (path / "sub" / "untracked").unlink()
    kept = cli(stage, "worktree", "remove", "a")
    assert (kept["branch_removed"], path.exists()) == (False, False)
    assert branches(stage.root) == ["main", "orchestrator/a"]
    sh(stage.root, "merge", "-q", "orchestrator/a")
    assert cli(stage, "worktree", "remove", "a")["branch_removed"]
    assert (stage.root / "sub" / "b.txt").read_text() == "b\nmore\n"
    assert master.tool("agent_get", {"agent_id": "a"})["meta"]["worktree"] is None
    assert cli(stage, "worktree", "list")["worktrees"] == []


def test_a_team_of_worktrees_is_made_at_once_each_with_its_own(stage, master):
    names = ["a", "b", "c", "plain"]
    given = [{"name": name, "role": "r", "engine": "shell", "worktree": name != "plain"} for name in names]
    given.append({"name": "lost", **AGENT, "cwd": "new"})
    write(stage.root, "new/x", "not committed")
    answer = master.tool("agents_create", {"agents": given})
    assert answer["ready"] == 4
    *made, lost = answer["agents"]
    assert [one.get("worktree", {}).get("branch") for one in made] == [
        "orchestrator/a", "orchestrator/b", "orchestrator/c", None
    ]  # fmt: skip
    assert lost["error"]["code"] == "bad_argument"
    assert len({one["worktree"]["path"] for one in made[:3]}) == 3
    assert len(sh(stage.root, "worktree", "list").splitlines()) == 4
    ended = master.tool("agent_delete", {"agent_id": "a"})
    assert "worktree" not in ended, "there is nothing in it that anybody could miss"
    assert (stage.root / ".agents" / "worktrees" / "a").is_dir()
    rows = cli(stage, "worktree", "list")["worktrees"]
    assert [(row["agent_id"], row["status"] == "deleted") for row in rows] == [
        ("a", True), ("b", False), ("c", False)
    ]  # fmt: skip


def test_without_a_repository_a_worktree_is_refused_and_nothing_is_written(stage):
    master = stage.begun()
    before = sorted(stage.root.rglob("*"))
    refused = master.tool("agent_create", {"name": "a", **AGENT})
    assert (refused["error"]["code"], refused["error"]["kind"]) == ("not_a_repository", "BadRequest")
    assert sorted(stage.root.rglob("*")) == before


def test_files_and_git_are_enough_to_see_worktrees_without_a_daemon(stage, master):
    path = Path(master.tool("agent_create", {"name": "a", **AGENT})["worktree"]["path"])
    write(path, "a.txt", "agent\n")
    commit(path, "work")
    write(path, "a.txt", "agent, and more\n")
    write(stage.root, "a.txt", "master\n")
    commit(stage.root, "against it")
    master.tool("agent_delete", {"agent_id": "a"})
    master.close()
    stage.stop_daemon()
    found = cli(stage, "worktree", "merge-check", "a", status=1)
    assert (found["clean"], found["conflicts"], found["dirty"]) == (False, ["a.txt"], True)
    said = stage.cli("worktree", "merge-check", "a")
    assert "not checked" in said.stderr
    listed = cli(stage, "worktree", "list")
    assert not listed["live"]
    [row] = listed["worktrees"]
    assert (row["agent_id"], row["status"], row["ahead"], row["behind"], row["dirty"]) == ("a", "deleted", 1, 1, True)
    assert cli(stage, "agent", "show", "a")["meta"]["worktree"]["ahead"] == 1


def test_a_bad_request_to_the_daemon_is_answered(stage, master):
    assert cli(stage, "worktree", "remove", "nobody", status=2)["error"]["code"] == "unknown_agent"
    assert cli(stage, "worktree", "remove", "../x", status=2)["error"]["code"] == "bad_id"
    master.tool("agent_create", {"name": "plain", "role": "r", "engine": "shell"})
    master.tool("agent_delete", {"agent_id": "plain"})
    assert cli(stage, "worktree", "remove", "plain", status=2)["error"]["code"] == "no_worktree"


def test_a_launch_that_cannot_be_written_takes_its_worktree_back(stage, master):
    (stage.root / ".agents" / "roles").mkdir()
    write(stage.root, ".agents/roles/long.md", "---\nname: long\n---\n" + "x" * 200_000)
    given = {"name": "a", "role": "long", "engine": "command", "worktree": True, "command": ["true", "{prompt}"]}
    refused = master.tool("agent_create", given)
    assert refused["error"]["code"] == "bad_role"
    assert branches(stage.root) == ["main"]
    assert [path.name for path in (stage.root / ".agents" / "worktrees").iterdir()] == [".lock"]


# -- in one process -------------------------------------------------------------------------------------------------


@pytest.fixture
def team(tmp_path):
    team = Team(repository(tmp_path / "p"))
    yield team
    team.close()


@pytest.mark.anyio
async def test_the_rules_of_an_agent_name_its_worktree_and_of_no_other(team):
    team.run()
    spec = {"role": "r", "engine": "command", "cwd": str(team.roster.root), "command": ["true", "{prompt}"]}
    entry = await team.agent("a")
    tree = {"path": "/p/.agents/worktrees/a", "branch": "orchestrator/a"}
    rules = {}
    for with_tree in (False, True):
        launch_files.write(team.roster, entry, spec | ({"worktree": tree} if with_tree else {}), 1, {})
        rules[with_tree] = launch_files.read(team.roster, entry)["argv"][1]
    sentence = prompts.worktree_rule(tree["path"], tree["branch"])
    assert sentence in rules[True]
    assert tree["path"] in sentence
    assert tree["branch"] in sentence
    assert "worktree" not in rules[False]


@pytest.mark.anyio
async def test_agent_get_looks_at_a_worktree_once_in_a_while_and_not_on_the_loop(team, monkeypatch):
    looks = []

    def look(root, agent_id):
        looks.append(agent_id)
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return {"path": "/p", "branch": "b", "dirty": False, "ahead": len(looks)}

    monkeypatch.setattr(inspection, "look", look)
    entry = await team.agent("a")
    assert await agent_worktrees.seen(team.roster, entry) is None, "it was given none"
    entry.state.spec["worktree"] = {"path": "/p"}
    both = await asyncio.gather(agent_worktrees.seen(team.roster, entry), agent_worktrees.seen(team.roster, entry))
    assert [one["ahead"] for one in both] == [1, 1]
    await team.clock.advance(agent_worktrees.FRESH_S - 0.1)
    assert (await agent_worktrees.seen(team.roster, entry))["ahead"] == 1
    await team.clock.advance(0.1)
    assert (await agent_worktrees.seen(team.roster, entry))["ahead"] == 2
    assert looks == ["a", "a"]
    assert (await agent_worktrees.left_behind(team.roster, entry))["worktree"]["ahead"] == 3, (
        "the end of an agent is looked at anew"
    )


@pytest.mark.anyio
async def test_an_agent_is_shown_even_where_its_worktree_cannot_be(team, tmp_path):
    entry = await team.agent("a")
    entry.state.spec["worktree"] = {"path": "/p", "branch": "b", "base": "c", "tree": "/p"}
    (team.roster.root / ".agents" / "worktrees").symlink_to(tmp_path)
    meta = await agent_commands.get(team.roster, "a", wait_s=0, since_seq=None)
    assert {**meta["worktree"], "error": ""} == {"path": "/p", "branch": "b", "base": "c", "error": ""}
    assert meta["worktree"]["error"] in (await agent_worktrees.left_behind(team.roster, entry))["note"]
