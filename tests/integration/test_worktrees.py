"""Worktrees on real repositories: made, filled, seen, checked and removed, without a daemon."""

import errno
import fcntl
import json
import os
import subprocess
import threading
from pathlib import Path

import pytest

from orchestrator.base.errors import BadRequest, Conflict, Environment
from orchestrator.core.records import OUTBOX
from orchestrator.edge.project_location import find_project
from orchestrator.journal.log_lines import encode
from orchestrator.journal.project_files import Paths, ensure_agents_dir
from orchestrator.team.worktrees import changes, commit_sizes, git, include, inspection, worktrees
from tests.support.stage import tree as entries
from tests.support.stage import until

AT = "2026-01-01T00:00:00.000Z"


def sh(where, *words):
    """git as a user types it."""
    done = subprocess.run(["git", "-C", where, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def repository(root):
    root.mkdir(parents=True)
    sh(root, "init", "-q", "-b", "main")
    for key, value in (("user.name", "t"), ("user.email", "t@example.com")):
        sh(root, "config", key, value)
    write(root, "a.txt", "one\n")
    write(root, "sub/b.txt", "b\n")
    write(root, ".gitignore", ".env\nlocal/\n")
    commit(root, "first")
    ensure_agents_dir(Paths(root))
    return root


def write(root, name, text):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def commit(root, message):
    sh(root, "add", "-A")
    sh(root, "commit", "-q", "-m", message)


@pytest.fixture
def root(tmp_path):
    # Blanks and what is no ASCII: nothing between us and git is a shell or counts words.
    return repository(tmp_path / "a proj éct")


def give(root, agent_id="a", cwd=None):
    """A worktree as agent_create makes it, with the record that claims it."""
    made = worktrees.make(root, agent_id, worktrees.plan(root, cwd or root))
    record = {
        "at": AT, "type": "starting", "epoch": 1, "name": agent_id, "role": "r", "engine": "shell",
        "run_id": "run-1", "cwd": made["path"], "policies": {}, "worktree": made, "by": "orchestrator",
    }  # fmt: skip
    paths = Paths(root)
    paths.provenance.establish()
    _, line = encode(record, 1, paths.provenance.seal("agent", agent_id, "outbox"))
    OUTBOX.validate_python(json.loads(line))
    outbox = paths.outbox(agent_id)
    outbox.parent.mkdir(parents=True)
    outbox.write_bytes(line)
    return Path(made["path"]), made


def branches(root):
    return sh(root, "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/").split()


def code(error):
    return error.value.code


# -- making ---------------------------------------------------------------------------------------------------------


def test_a_worktree_is_a_branch_of_its_own_from_the_main_trees_commit(root):
    before, status = sh(root, "rev-parse", "HEAD"), sh(root, "status", "--porcelain")
    path, made = give(root, cwd=root / "sub")
    assert path == root / ".agents" / "worktrees" / "a"
    assert (made["branch"], made["base"], made["copied"], made["not_copied"]) == ("orchestrator/a", before, 0, [])
    assert (path / "sub" / "b.txt").read_text() == "b\n"
    assert sh(path, "symbolic-ref", "--short", "HEAD") == "orchestrator/a"
    assert sh(root, "status", "--porcelain") == status, "the main tree does not see it"
    assert sh(root, "symbolic-ref", "--short", "HEAD") == "main"


def test_the_agents_directory_keeps_its_place_in_the_worktree(root):
    spec = worktrees.fitted(root, "a", {"cwd": str(root / "sub"), "name": "a"})
    assert spec["cwd"] == str(root / ".agents" / "worktrees" / "a" / "sub")
    assert spec["name"] == "a"


def test_a_process_in_a_worktree_belongs_to_the_main_trees_project(root):
    write(root, ".agents/config.toml", "")
    sh(root, "add", "-f", ".agents/config.toml")
    commit(root, "config")
    path, _ = give(root)
    assert (path / ".agents" / "config.toml").exists(), "it would be a project of its own"
    assert find_project(path / "sub").root == root
    assert find_project(path).root == root


def test_a_taken_branch_is_never_used_again(root):
    sh(root, "branch", "orchestrator/a")
    sh(root, "branch", "orchestrator/a-2/below")
    tip = sh(root, "rev-parse", "orchestrator/a")
    _, made = give(root)
    assert made["branch"] == "orchestrator/a-3"
    assert sh(root, "rev-parse", "orchestrator/a") == tip


def test_a_detached_head_is_a_commit_like_any_other(root):
    sh(root, "checkout", "-q", "--detach")
    path, made = give(root)
    assert made["base"] == sh(root, "rev-parse", "HEAD") == sh(path, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("MERGE_HEAD", "merge"), ("rebase-merge", "rebase"), ("rebase-apply", "rebase"), ("BISECT_LOG", "bisect"),
        ("CHERRY_PICK_HEAD", "cherry-pick"), ("REVERT_HEAD", "revert"),
    ],
)  # fmt: skip
def test_the_middle_of_an_operation_is_no_place_to_begin(root, name, operation):
    (root / ".git" / name).touch()
    with pytest.raises(Conflict) as error:
        worktrees.plan(root, root)
    assert code(error) == "worktree_busy"
    assert operation in error.value.message


def test_what_is_no_repository_with_a_commit_and_a_tree_is_refused(tmp_path):
    plain, empty, bare = tmp_path / "plain", tmp_path / "empty", tmp_path / "bare"
    plain.mkdir()
    sh(tmp_path, "init", "-q", str(empty))
    sh(tmp_path, "init", "-q", "--bare", str(bare))
    for place in (plain, empty, bare):
        before = entries(place)
        with pytest.raises(BadRequest) as error:
            worktrees.plan(place, place)
        assert code(error) == "not_a_repository", place
        assert entries(place) == before


def test_a_directory_that_the_commit_does_not_have_is_refused(root):
    write(root, "new/x", "x")
    with pytest.raises(BadRequest) as error:
        worktrees.plan(root, root / "new")
    assert code(error) == "bad_argument"
    path, _ = give(root)
    with pytest.raises(BadRequest, match="worktree already"):
        worktrees.plan(root, path / "sub")


def test_a_repository_inside_the_project_gives_its_own_worktrees(root):
    inner = repository(root / "inner")
    path, made = give(root, cwd=inner)
    assert made["tree"] == str(inner)
    assert path == root / ".agents" / "worktrees" / "a"
    assert branches(inner) == ["main", "orchestrator/a"]
    assert find_project(path).root == inner, "which has an .agents/ of its own here"
    assert inspection.look(root, "a")["ahead"] == 0
    assert worktrees.remove(root, "a")["branch_removed"]


def test_what_the_daemon_was_started_with_does_not_lead_git_astray(root, tmp_path, monkeypatch):
    other = repository(tmp_path / "other")
    for name, value in (("GIT_DIR", other / ".git"), ("GIT_WORK_TREE", other), ("GIT_INDEX_FILE", other / "x")):
        monkeypatch.setenv(name, str(value))
    assert worktrees.plan(root, root).tree == root


def test_hooks_do_not_run(root):
    hook = root / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch '{root}/hooked'\n")
    hook.chmod(0o755)
    give(root)
    assert not (root / "hooked").exists()


def test_a_link_in_the_place_of_the_worktrees_is_not_followed(root, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (root / ".agents" / "worktrees").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadRequest) as error:
        give(root)
    assert code(error) == "path_escape"
    assert list((tmp_path / "elsewhere").iterdir()) == []


# -- what a crash leaves --------------------------------------------------------------------------------------------


def leftover(root, agent_id="a"):
    return Path(worktrees.make(root, agent_id, worktrees.plan(root, root))["path"])


def test_a_leftover_that_nobody_has_worked_in_makes_room_with_its_branch(root):
    write(root, ".worktreeinclude", "seen\n")
    write(root, "seen", "untracked, and copied")
    path = leftover(root)
    assert (path / "seen").exists()
    commit(root, "later")
    again, made = give(root)
    assert again == path
    assert made["base"] == sh(root, "rev-parse", "HEAD")
    assert branches(root) == ["main", "orchestrator/a"]
    assert len(sh(root, "worktree", "list").splitlines()) == 2


def test_a_leftover_with_work_in_it_stays(root):
    path = leftover(root)
    write(path, "work", "w")
    with pytest.raises(Conflict) as error:
        give(root)
    assert code(error) == "worktree_taken"
    assert (path / "work").read_text() == "w"
    [row] = inspection.listed(root)
    assert (row["agent_id"], row["recorded"], row["dirty"], row["files"]) == ("a", False, True, ["work"])
    (path / "work").unlink()
    assert worktrees.remove(root, "a")["branch_removed"]


def test_a_half_made_worktree_is_cleared_away(root):
    path = leftover(root)
    (git.linked(path) / "locked").write_text("initializing")
    (path / "a.txt").unlink()  # its checkout got so far
    again, made = give(root)
    assert (again / "a.txt").exists()
    assert made["branch"] == "orchestrator/a"
    assert git.locked(git.linked(again)) is None


@pytest.mark.parametrize("kind", ["file", "full", "link"])
def test_what_is_no_worktree_is_left_where_it_is(root, kind):
    home = root / ".agents" / "worktrees"
    home.mkdir()
    if kind == "file":
        write(home, "a", "x")
    elif kind == "full":
        write(home, "a/x", "x")
    else:
        (home / "a").symlink_to(root / "sub")
    before = entries(home)
    with pytest.raises(Conflict) as error:
        give(root)
    assert code(error) == "worktree_taken"
    assert {name: entry for name, entry in entries(home).items() if name != ".lock"} == before
    assert branches(root) == ["main"]


def test_a_worktree_that_was_removed_by_hand_is_no_obstacle(root):
    path = leftover(root)
    subprocess.run(["rm", "-r", str(path)], check=True)
    again, made = give(root)
    assert again.is_dir()
    assert made["branch"] == "orchestrator/a-2", "whose the branch is, nobody knows any more"


def test_a_failed_making_leaves_nothing(root, monkeypatch):
    def refuse(*_):
        raise Environment("disk_full", "full")

    monkeypatch.setattr(include, "copy", refuse)
    with pytest.raises(Environment):
        leftover(root)
    assert [path.name for path in (root / ".agents" / "worktrees").iterdir()] == [".lock"]
    assert branches(root) == ["main"]
    assert list((root / ".git" / "worktrees").glob("*")) == []


def test_taking_back_removes_all_of_it(root):
    write(root, ".worktreeinclude", "new\n")
    write(root, "new", "untracked")
    made = worktrees.make(root, "a", worktrees.plan(root, root))
    assert made["copied"] == 1
    worktrees.undo(root, made)
    assert branches(root) == ["main"]
    assert not Path(made["path"]).exists()


def test_worktrees_are_changed_by_one_at_a_time_and_a_git_that_outlives_us_counts(root):
    home = root / ".agents" / "worktrees"
    home.mkdir()
    os.mkfifo(root / "fifo")
    sh(root, "config", "alias.forever", f"!cat '{root}/fifo'")
    with git.turn(home) as held:
        # As the git of a daemon that is killed: it runs on, with the lock it has inherited.
        outlives = threading.Thread(target=git.run, args=(root, "forever"), kwargs={"held": held})
        outlives.start()
        open_end = until(lambda: reader(root / "fifo"))
    with pytest.raises(Conflict) as error, git.turn(home, seconds=0):
        pass
    assert code(error) == "worktree_busy"
    made = threading.Thread(target=leftover, args=(root,))
    made.start()
    assert not (home / "a").exists()
    os.close(open_end)
    for one in (outlives, made):
        one.join(60)
    assert (home / "a" / "a.txt").exists()


def reader(fifo):
    """The writing end of a pipe by name, if somebody reads it."""
    try:
        return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


def test_git_is_bounded_in_time_and_in_words(root, monkeypatch):
    monkeypatch.setattr(git, "LIMIT", 10)
    said = git.run(root, "log", "-p")
    assert said.cut
    assert len(said.out) > 10
    os.mkfifo(root / "fifo")
    sh(root, "config", "alias.forever", f"!cat '{root}/fifo'")
    with pytest.raises(Environment) as error:
        git.run(root, "forever", seconds=0.5)
    assert code(error) == "git_failed"

    until(lambda: reader(root / "fifo") is None or None)  # what git had started was killed with it


def test_without_git_the_operator_is_told(root, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Environment) as error:
        worktrees.plan(root, root)
    assert (code(error), error.value.next_step) == ("git_failed", "install git")


# -- .worktreeinclude -----------------------------------------------------------------------------------------------


def test_what_matches_is_copied_as_it_is_and_nothing_else(root):
    write(root, ".worktreeinclude", "# settings\n.env\nlocal/**\n!local/big\nnotes/\nodd*\nscript\n")
    write(root, ".env", "KEY=1\n")
    write(root, "local/deep/x", "x")
    write(root, "local/big", "big")
    write(root, "notes/n 1\n.txt", "untracked, not ignored")
    write(root, "other", "not asked for")
    write(root, "script", "#!/bin/sh\n")
    (root / "script").chmod(0o750)
    (root / "local" / "link").symlink_to("/nowhere/at all")
    (root / os.fsdecode(b"odd \xff")).write_text("o")
    path, made = give(root)
    names = {name for name in entries(path) if not name.startswith(".git")} - {"a.txt", "sub", "sub/b.txt"}
    wanted = {".env", "local", "local/deep", "local/deep/x", "local/link", "notes", "notes/n 1\n.txt", "script"}
    assert names == wanted | {os.fsdecode(b"odd \xff")}
    assert (made["copied"], made["not_copied"]) == (6, [])
    assert (path / "script").stat().st_mode & 0o777 == 0o750
    assert (path / "local" / "link").readlink() == Path("/nowhere/at all")
    look = inspection.look(root, "a")
    assert (look["dirty"], look["files_changed"]) == (False, 0), "unchanged copies are nobody's work"


def test_what_cannot_be_copied_is_told_and_does_no_harm(root, tmp_path):
    write(root, "data/tracked", "t")
    commit(root, "data")
    write(tmp_path, "outside/victim", "v")
    # In the commit `data` is a link out of the tree, in the main tree it is a directory by now.
    subprocess.run(["rm", "-r", str(root / "data")], check=True)
    (root / "data").symlink_to(tmp_path / "outside")
    commit(root, "a link")
    (root / "data").unlink()
    write(root, "data/victim", "ours")
    write(root, "data/new/x", "ours")
    sh(root, "init", "-q", "nested")
    write(root, "nested/x", "x")
    write(root, "secret", "s")
    (root / "secret").chmod(0)
    write(root, ".agents/agents/b/engine/launch.json", "secret")
    write(root, ".worktreeinclude", "*\n")
    path, made = give(root)
    assert (tmp_path / "outside" / "victim").read_text() == "v"
    assert not (tmp_path / "outside" / "new").exists()
    told = dict(line.rsplit(": ", 1) for line in made["not_copied"])
    unreadable = {"secret": os.strerror(errno.EACCES)} if os.geteuid() else {}
    link = "a link of the worktree leads elsewhere"
    assert told == {"nested/": "a repository of its own", "data/new/x": link, "data/victim": link} | unreadable
    assert not (path / ".agents" / "agents").exists()


def test_copies_are_bounded_and_the_rest_is_counted(root, monkeypatch):
    monkeypatch.setattr(include, "MAX_FILES", 3)
    monkeypatch.setattr(include, "MAX_BYTES", 1000)
    monkeypatch.setattr(include, "NAMED_FILES", 2)
    write(root, ".worktreeinclude", "local/\n")
    write(root, "local/0", "x" * 1001)
    for n in range(1, 7):
        write(root, f"local/{n}", "x")
    path, made = give(root)
    assert sorted(one.name for one in (path / "local").iterdir()) == ["1", "2", "3"]
    assert made["copied"] == 3
    assert [line.split(":")[0] for line in made["not_copied"]] == ["local/0", "local/4", "and 2 more"]


# -- seeing ---------------------------------------------------------------------------------------------------------


def test_what_a_worktree_holds_is_counted_from_where_it_left(root):
    path, made = give(root)
    assert inspection.look(root, "a") == {
        "path": str(path), "branch": "orchestrator/a", "base": made["base"], "operation": None, "locked": None,
        "on": "orchestrator/a", "ahead": 0, "behind": 0, "files_changed": 0, "insertions": 0, "deletions": 0,
        "dirty": False, "files": [], "merged": False,
    }  # fmt: skip
    write(path, "a.txt", "two\nlines\n")
    commit(path, "work")
    write(path, "sub/b.txt", "b\nmore\n")
    write(path, "new", "new\n")
    write(root, "main.txt", "m")
    commit(root, "main goes on")
    found = inspection.look(root, "a")
    assert [found[key] for key in ("ahead", "behind", "files_changed", "insertions", "deletions")] == [1, 1, 3, 3, 1]
    assert (found["dirty"], found["files"], found["merged"]) == (True, ["sub/b.txt", "new"], False)
    sh(root, "merge", "-q", "--no-edit", "orchestrator/a")
    found = inspection.look(root, "a")
    assert (found["ahead"], found["merged"], found["dirty"]) == (0, True, True), "merged, and dirty all the same"


def test_a_copy_that_was_changed_is_work(root):
    write(root, ".worktreeinclude", "seen\n")
    write(root, "seen", "same")
    path, _ = give(root)
    assert not inspection.look(root, "a")["dirty"]
    write(path, "seen", "own!")
    assert inspection.look(root, "a")["files"] == ["seen"]
    # With the size and the time of the original, a look is deceived; a removal is not.
    stat = (root / "seen").stat()
    os.utime(path / "seen", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert not inspection.look(root, "a")["dirty"]
    with pytest.raises(Conflict):
        worktrees.remove(root, "a")
    assert (path / "seen").read_text() == "own!"


def test_a_worktree_that_lost_its_git_is_not_taken_for_the_main_tree(root):
    path, _ = give(root)
    (path / ".git").unlink()
    write(root, "dirt", "in the main tree")
    found = inspection.look(root, "a")
    assert "error" in found
    assert "ahead" not in found
    with pytest.raises(Conflict) as error:
        worktrees.remove(root, "a")
    assert code(error) == "worktree_dirty"
    assert (path / "a.txt").exists()


def test_a_listing_names_every_worktree_whoever_it_belongs_to(root):
    give(root, "a")
    leftover(root, "b")
    write(root, ".agents/worktrees/c/x", "x")
    rows = inspection.listed(root)
    assert [(row["agent_id"], row["recorded"], "error" in row) for row in rows] == [
        ("a", True, False), ("b", False, False), ("c", False, True)
    ]  # fmt: skip
    assert rows[1]["branch"] == "orchestrator/b"


def test_a_project_without_worktrees_has_none(root):
    assert inspection.listed(root) == []
    assert inspection.look(root, "a") is None
    assert worktrees.removable(root, "a") == (False, "agent a has no worktree")
    with pytest.raises(BadRequest) as error:
        worktrees.remove(root, "a")
    assert code(error) == "no_worktree"


@pytest.mark.parametrize("wrong", ["..", "../x", ".lock", "", "a/b"])
def test_an_id_that_is_no_id_leads_nowhere(root, wrong):
    for verb in (worktrees.remove, worktrees.removable, inspection.look, inspection.merge_check):
        with pytest.raises(BadRequest) as error:
            verb(root, wrong)
        assert code(error) == "bad_id"


# -- merging --------------------------------------------------------------------------------------------------------


def test_a_merge_is_tried_without_touching_anything(root):
    path, _ = give(root)
    write(path, "a.txt", "agent\n")
    write(path, "sub/x\ny", "new\n")
    commit(path, "work")
    before, refs = entries(root), sh(root, "for-each-ref")
    found = inspection.merge_check(root, "a")
    assert (found["clean"], found["conflicts"], found["dirty"]) == (True, [], False)
    assert (found["branch"], found["into"]) == ("orchestrator/a", "main")
    write(root, "a.txt", "master\n")
    write(root, "sub/x\ny", "other\n")
    sh(root, "checkout", "-q", "-b", "side")
    commit(root, "against it")
    write(path, "a.txt", "not committed")
    found = inspection.merge_check(root, "a")
    assert (found["clean"], sorted(found["conflicts"]), found["dirty"]) == (False, ["a.txt", "sub/x\ny"], True)
    assert found["into"] == "side"
    assert inspection.merge_check(root, "a", "main")["clean"]
    sh(root, "checkout", "-q", "main")
    sh(root, "branch", "-qD", "side")
    write(path, "a.txt", "agent\n")
    assert sh(root, "for-each-ref") == refs
    same = {name: entry for name, entry in entries(root).items() if not name.startswith(".git/")}
    assert same == {name: entry for name, entry in before.items() if not name.startswith(".git/")}


@pytest.mark.parametrize("into", ["nowhere", "--help", "-q"])
def test_a_merge_into_nothing_is_refused(root, into):
    give(root)
    with pytest.raises(BadRequest) as error:
        inspection.merge_check(root, "a", into)
    assert code(error) == "bad_argument"


def test_an_old_git_is_said_to_be_too_old(root, tmp_path, monkeypatch):
    give(root)
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho git version 2.34.1\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:{os.environ['PATH']}")
    with pytest.raises(Environment, match=r"2\.38") as error:
        inspection.merge_check(root, "a")
    assert code(error) == "git_failed"


# -- removing -------------------------------------------------------------------------------------------------------


def test_a_clean_worktree_goes_with_a_branch_that_has_nothing_of_its_own(root):
    write(root, ".worktreeinclude", "seen\n.env\n")
    write(root, "seen", "s")
    write(root, ".env", "e")
    path, made = give(root)
    assert worktrees.removable(root, "a") == (True, "")
    wanted = {
        "agent_id": "a", "path": str(path), "branch": "orchestrator/a", "branch_removed": True, "note": ""
    }  # fmt: skip
    assert worktrees.remove(root, "a") == wanted
    assert not path.exists()
    assert branches(root) == ["main"]
    assert (root / "seen").read_text() == "s"
    assert worktrees.remove(root, "a") == wanted
    assert inspection.look(root, "a") is None
    assert made["copied"] == 2


def test_commits_are_never_lost_with_their_worktree(root):
    path, _ = give(root)
    write(path, "work", "w")
    commit(path, "work")
    done = worktrees.remove(root, "a")
    assert not done["branch_removed"]
    assert "orchestrator/a" in done["note"]
    assert sh(root, "show", "orchestrator/a:work") == "w"
    sh(root, "merge", "-q", "--no-edit", "orchestrator/a")
    assert worktrees.remove(root, "a")["branch_removed"]
    assert branches(root) == ["main"]


def modified(path):
    write(path, "a.txt", "changed")
    return ["a.txt"]


def staged(path):
    write(path, "st aged\n", "x")
    sh(path, "add", "-A")
    return ["st aged\n"]


def untracked(path):
    for n in range(12):
        write(path, f"d/{n:02}", "x")
    return [f"d/{n:02}" for n in range(10)]


def deleted(path):
    (path / "a.txt").unlink()
    return ["a.txt"]


def hidden(path):
    """The user's own settings hide untracked files; git worktree remove would not look for them."""
    sh(path, "config", "status.showUntrackedFiles", "no")
    write(path, "work", "w")
    return ["work"]


def repository_inside(path):
    sh(path, "init", "-q", "own")
    write(path, "own/x", "x")
    return ["own/"]


@pytest.mark.parametrize("soil", [modified, staged, untracked, deleted, hidden, repository_inside])
def test_what_is_not_committed_keeps_its_worktree(root, soil):
    path, _ = give(root)
    files = soil(path)
    before = entries(path)
    with pytest.raises(Conflict) as error:
        worktrees.remove(root, "a")
    assert code(error) == "worktree_dirty"
    assert error.value.facts["files"] == files
    assert not worktrees.removable(root, "a")[0]
    assert entries(path) == before


def test_a_worktree_in_use_is_kept(root):
    path, _ = give(root)
    own = git.linked(path)
    for name in ("MERGE_HEAD", "index.lock"):
        (own / name).touch()
        with pytest.raises(Conflict) as error:
            worktrees.remove(root, "a")
        assert code(error) == "worktree_busy"
        (own / name).unlink()
    sh(root, "worktree", "lock", "--reason", "mine", str(path))
    with pytest.raises(Conflict, match="mine") as error:
        worktrees.remove(root, "a")
    assert code(error) == "worktree_busy"
    assert inspection.look(root, "a")["locked"] == "mine"
    sh(root, "worktree", "unlock", str(path))
    assert worktrees.remove(root, "a")["branch_removed"]


def test_commits_that_no_branch_holds_keep_their_worktree(root):
    path, _ = give(root)
    sh(path, "checkout", "-q", "--detach")
    write(path, "work", "w")
    commit(path, "nowhere")
    with pytest.raises(Conflict) as error:
        worktrees.remove(root, "a")
    assert code(error) == "worktree_dirty"
    sh(path, "branch", "saved")
    assert worktrees.remove(root, "a")["branch_removed"]
    assert sh(root, "show", "saved:work") == "w"


def test_a_branch_that_is_checked_out_elsewhere_is_kept(root, tmp_path):
    path, _ = give(root)
    sh(path, "checkout", "-q", "--detach")
    sh(root, "worktree", "add", "-q", str(tmp_path / "mine"), "orchestrator/a")
    done = worktrees.remove(root, "a")
    assert not done["branch_removed"]
    assert sh(tmp_path / "mine", "symbolic-ref", "--short", "HEAD") == "orchestrator/a"


def test_a_worktree_removed_by_hand_is_forgotten_by_git_too(root):
    path, _ = give(root)
    subprocess.run(["rm", "-r", str(path)], check=True)
    assert worktrees.remove(root, "a")["branch_removed"]
    assert len(sh(root, "worktree", "list").splitlines()) == 1


def test_the_lock_does_not_stay(root):
    give(root)
    with (root / ".agents" / "worktrees" / ".lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


# -- what an agent did ----------------------------------------------------------------------------------------------


def test_a_diff_shows_commits_and_what_is_not_committed_and_names_new_files(root):
    path, _ = give(root)
    write(path, "a.txt", "one\ncommitted\n")
    commit(path, "more")
    write(path, "sub/b.txt", "b\nchanged\n")
    write(path, "new file", "n\n")
    commit_to_main(root)
    change = changes.diff(root, "a")
    text = change.text.decode()
    assert "+committed" in text
    assert "+changed" in text
    assert "main" not in text, "only what the agent did"
    assert change.untracked == ["new file"]
    assert "2 files changed" in changes.diff(root, "a", stat=True).text.decode()
    with pytest.raises(BadRequest) as none:
        changes.diff(root, "b")
    assert none.value.code == "no_worktree"


def test_the_commits_of_an_agent_are_sized_and_belong_to_the_time_in_which_they_were_made(root, monkeypatch):
    path, made = give(root)
    for day, text in ((2, "one\ntwo\n"), (3, "one\ntwo\nthree\n"), (5, "")):
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"2026-01-0{day}T12:00:00Z")
        write(path, "a.txt", text)
        write(path, "ü\t.bin", f"\0{day}")
        commit(path, f"day {day}")
    commit_to_main(root)
    sh(path, "merge", "-q", "-m", "catch up", "main")
    sizes = commit_sizes.commit_sizes(root, "a")
    assert [size.at % 86400 for size in sizes] == [43200] * 3
    first = [("2026-01-02T00:00:00.000Z", "2026-01-03T12:00:00.000Z")]
    assert commit_sizes.sum_within(sizes, first) == {"commits": 2, "files": 2, "added": 2, "removed": 0}
    later = [
        ("2026-01-03T12:00:01.000Z", "2026-01-04T00:00:00Z"),
        ("2026-01-05T12:00:00.900Z", "2026-01-05T12:00:01Z"),
    ]
    assert commit_sizes.sum_within(sizes, later) == {"commits": 1, "files": 2, "added": 0, "removed": 3}
    sh(root, "worktree", "remove", "--force", path)
    assert commit_sizes.commit_sizes(root, "a") == sizes
    sh(root, "branch", "-q", "-D", made["branch"])
    with pytest.raises(Environment):
        commit_sizes.commit_sizes(root, "a")
    assert commit_sizes.commit_sizes(root, "b") is None


def test_a_merge_takes_the_commits_into_the_checked_out_branch(root):
    path, _ = give(root)
    write(path, "a.txt", "one\nmine\n")
    commit(path, "mine")
    write(path, "left", "not committed\n")
    commit_to_main(root)
    before = entries(root / ".git" / "refs")
    seen = changes.merge_preview(root, "a")
    assert ([each["subject"] for each in seen["commits"]], seen["clean"], seen["uncommitted"]) == (
        ["mine"],
        True,
        ["left"],
    )
    assert entries(root / ".git" / "refs") == before
    done = changes.merge(root, "a")
    assert done["merged"]
    assert (root / "a.txt").read_text() == "one\nmine\n"
    assert sh(root, "log", "-1", "--format=%s") == f"Merge branch '{done['branch']}'"
    assert changes.merge(root, "a")["merged"] is None


def commit_to_main(root):
    write(root, "main.txt", "main\n")
    commit(root, "main goes on")


@pytest.mark.parametrize("why", ["conflict", "dirty", "detached", "rebase"])
def test_a_merge_that_could_harm_changes_nothing(root, why):
    path, _ = give(root)
    write(path, "a.txt", "mine\n")
    commit(path, "mine")
    if why == "conflict":
        write(root, "a.txt", "theirs\n")
        commit(root, "theirs")
    elif why == "dirty":
        write(root, "sub/b.txt", "in work\n")
    elif why == "detached":
        sh(root, "checkout", "-q", "--detach")
    else:
        (root / ".git" / "rebase-merge").mkdir()
    before = entries(root / ".git" / "refs"), sh(root, "status", "--porcelain"), (root / "a.txt").read_text()
    with pytest.raises(Conflict) as refused:
        changes.merge(root, "a")
    code = {"conflict": "merge_conflict", "dirty": "worktree_dirty"}.get(why, "worktree_busy")
    assert refused.value.code == code
    assert (
        entries(root / ".git" / "refs"),
        sh(root, "status", "--porcelain"),
        (root / "a.txt").read_text(),
    ) == before
