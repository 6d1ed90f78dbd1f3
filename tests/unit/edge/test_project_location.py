"""Which project a directory belongs to, and where its run directory is."""

import fcntl
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import tomllib
from pathlib import Path

import pytest

from orchestrator.base import errors
from orchestrator.base.platform.basic_facts import SUN_PATH_MAX
from orchestrator.edge import project_location
from orchestrator.edge.project_location import Project, RunDirUnsafe, find_project, main_tree, named_project, run_dir
from orchestrator.journal.project_files import Paths
from orchestrator.journal.project_lock import claim
from orchestrator.trust import lock_word

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home directory of the test's own, which is itself full of marks that must not count."""
    at = tmp_path.resolve() / "home"
    for mark in (".agents/run", ".planning", ".git"):
        (at / mark).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(at))
    monkeypatch.delenv("ORCHESTRATOR_RUN_BASE", raising=False)
    return at


@pytest.fixture
def state(own_world, monkeypatch):
    """A state directory of the test's own, with a path short enough for a socket."""
    with tempfile.TemporaryDirectory(dir=own_world, prefix="s") as base:
        monkeypatch.setenv("ORCHESTRATOR_STATE_DIR", f"{base}/s")
        yield Path(base) / "s"


def make(at, *paths):
    for path in ("", *paths):
        (at / path).mkdir(parents=True, exist_ok=True)
    return at


def git(at, *arguments):
    identity = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", *identity, *arguments], cwd=at, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mark", [".agents/config.toml", ".agents/team.toml", ".agents/agents", ".agents/run"])
def test_our_agents_folder_makes_a_project_also_above_a_nearer_planning_or_git(home, mark):
    at = make(home / "p", "sub/.planning", "sub/deep/.git/x")
    make(at, mark)
    assert find_project(at / "sub" / "deep") == Project(at, "agents")


def test_another_tools_agents_folder_does_not_count(home):
    at = make(home / "p", ".git", "sub/.agents/skills", "sub/.agents/roles")
    assert find_project(at / "sub") == Project(at, "git")


def test_planning_comes_before_git_whatever_is_nearer(home):
    at = make(home / "p", ".planning", "sub/.git")
    assert find_project(at / "sub") == Project(at, "planning")


def test_the_nearest_of_a_kind_wins(home):
    at = make(home / "p", ".agents/run", "sub/.agents/run", "sub/x")
    assert find_project(at / "sub" / "x") == Project(at / "sub", "agents")


def test_a_directory_without_marks_is_its_own_project(home):
    assert find_project(make(home / "p" / "q")) == Project(home / "p" / "q", "cwd")


def test_neither_root_nor_home_is_a_project_even_with_marks(home):
    assert find_project(home) == Project(home, "none")
    assert find_project(Path("/")) == Project(Path("/"), "none")
    assert named_project(home) == Project(home, "none")
    make(home.parent, ".git")
    assert find_project(home) == Project(home, "none")


def test_a_link_leads_to_the_real_directory(home):
    at = make(home / "p", ".agents/run", "sub")
    (home / "link").symlink_to(at / "sub")
    assert find_project(home / "link") == Project(at, "agents")


def test_a_home_given_through_a_link_is_home_still(home, monkeypatch):
    (home.parent / "link").symlink_to(home)
    monkeypatch.setenv("HOME", str(home.parent / "link"))
    assert find_project(home).kind == "none"


def test_a_worktree_belongs_to_the_main_trees_project(home):
    main = make(home / "main")
    git(main, "init", "-q")
    make(main, ".agents", "sub")
    (main / ".agents" / "config.toml").write_text("")
    (main / "sub" / "x").write_text("")
    git(main, "add", "-A", "-f")
    git(main, "commit", "-qm", "x")
    git(main, "worktree", "add", "-q", "../tree")
    # The worktree holds a checked-out .agents/config.toml of its own; one team is still one team.
    assert (home / "tree" / ".agents" / "config.toml").exists()
    assert find_project(home / "tree" / "sub") == Project(main, "agents")
    assert find_project(main) == Project(main, "agents")


def test_a_worktree_of_a_plain_repository_belongs_to_the_main_tree(home):
    main = make(home / "main")
    git(main, "init", "-q")
    git(main, "commit", "-q", "--allow-empty", "-m", "x")
    git(main, "worktree", "add", "-q", "../tree")
    assert find_project(home / "tree") == Project(main, "git")


def test_a_worktree_of_a_bare_repository_stays_its_own(home):
    main = make(home / "main")
    git(main, "init", "-q")
    git(main, "commit", "-q", "--allow-empty", "-m", "x")
    git(home, "clone", "-q", "--bare", "main", "bare")
    git(home / "bare", "worktree", "add", "-q", "../tree")
    assert find_project(home / "tree") == Project(home / "tree", "git")


def test_a_submodule_stays_its_own(home):
    for name in ("outer", "inner"):
        git(make(home / name), "init", "-q")
        git(home / name, "commit", "-q", "--allow-empty", "-m", "x")
    git(home / "outer", "submodule", "--quiet", "add", str(home / "inner"), "sub")
    assert (home / "outer" / "sub" / ".git").is_file()
    assert find_project(home / "outer" / "sub") == Project(home / "outer" / "sub", "git")


@pytest.fixture
def worktree(home):
    """A repository, and a linked worktree of it."""
    main = make(home / "main")
    git(main, "init", "-q")
    git(main, "commit", "-q", "--allow-empty", "-m", "x")
    git(main, "worktree", "add", "-q", "../tree")
    return main, home / "tree"


def test_a_worktree_that_git_moved_belongs_to_the_main_tree(worktree, home):
    main, tree = worktree
    git(main, "worktree", "move", str(tree), str(home / "moved"))
    assert main_tree(home / "moved") == main
    make(home / "moved", "sub")
    assert main_tree(home / "moved" / "sub") == main / "sub"


def test_a_worktree_with_relative_paths_belongs_to_the_main_tree(worktree, home):
    main, tree = worktree
    own = main / ".git" / "worktrees" / "tree"
    (tree / ".git").write_text(f"gitdir: {os.path.relpath(own, tree)}\n")
    (own / "gitdir").write_text(f"{os.path.relpath(tree / '.git', own)}\n")
    assert main_tree(tree) == main
    # Relative paths stay right when both are moved together.
    make(home / "both")
    for one in (main, tree):
        one.rename(home / "both" / one.name)
    assert main_tree(home / "both" / "tree") == home / "both" / "main"


def test_a_worktree_that_git_made_with_relative_paths_belongs_to_the_main_tree(worktree, home):
    main, _ = worktree
    git(main, "-c", "worktree.useRelativePaths=true", "worktree", "add", "-q", "../other")
    assert main_tree(home / "other") == main


def test_a_worktree_made_through_a_link_belongs_to_the_main_tree(home):
    make(home / "real" / "main")
    (home / "link").symlink_to(home / "real")
    git(home / "link" / "main", "init", "-q")
    git(home / "link" / "main", "commit", "-q", "--allow-empty", "-m", "x")
    git(home / "link" / "main", "worktree", "add", "-q", str(home / "link" / "tree"))
    assert find_project(home / "link" / "tree") == Project(home / "real" / "main", "git")
    own = home / "real" / "main" / ".git" / "worktrees" / "tree"
    (own / "gitdir").write_text(f"{home}/link/tree/.git\n")  # as an older git writes it
    assert find_project(home / "link" / "tree") == Project(home / "real" / "main", "git")


def test_a_worktree_in_a_worktree_and_one_in_its_main_tree_belong_to_the_main_tree(worktree, home):
    main, tree = worktree
    for at in (main / "inner", tree / "inner"):
        git(main, "worktree", "add", "-q", "-b", f"in-{at.parent.name}", str(at))
        assert main_tree(at) == main


def test_a_worktree_in_a_directory_whose_name_ends_in_a_space_belongs_to_the_main_tree(home):
    main = make(home / "main ")
    git(main, "init", "-q")
    git(main, "commit", "-q", "--allow-empty", "-m", "x")
    git(main, "worktree", "add", "-q", "-b", "x", "../tree ")
    assert main_tree(home / "tree ") == main


@pytest.mark.parametrize("text", ["", "nonsense", "gitdir: /nowhere", "gitdir: ../gone\n", "gitdir: a\0b", "gitdir:"])
def test_a_broken_git_file_is_no_error(home, text):
    at = make(home / "p", "sub")
    (at / ".git").write_text(text)
    assert find_project(at / "sub") == Project(at, "git")


def test_a_named_project_is_not_searched_for(home):
    at = make(home / "p", ".git", "sub")
    assert named_project(at) == Project(at, "git")
    assert named_project(at / "sub") == Project(at / "sub", "cwd")


def test_the_run_directory_depends_on_user_and_real_path_only(home, monkeypatch):
    at = make(home / "p")
    (home / "link").symlink_to(at)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home))
    monkeypatch.setenv("TMPDIR", str(home))
    found = run_dir(at)
    try:
        assert found.parent == Path(f"/tmp/orchestrator-{os.geteuid()}")
        assert run_dir(home / "link") == found
        assert stat.S_IMODE(found.stat().st_mode) == stat.S_IMODE(found.parent.stat().st_mode) == 0o700
    finally:
        found.rmdir()


def test_two_projects_have_two_run_directories(home, monkeypatch):
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(home / "r"))
    assert run_dir(home / "a") != run_dir(home / "b")


@pytest.mark.parametrize("level", ["base", "own"])
@pytest.mark.parametrize("mode", [0o777, 0o701, 0o750])
def test_a_run_directory_open_to_others_is_not_used_but_the_one_in_the_state_directory(
    home, monkeypatch, level, mode, state
):
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(home / "r"))
    own = run_dir(home / "a")
    (own.parent if level == "base" else own).chmod(mode)
    assert run_dir(home / "a") == state / "run" / own.name
    assert "open to others" in project_location.trouble_of_first(home / "a")
    assert project_location.run_dirs(home / "a") == [state / "run" / own.name]


@pytest.mark.parametrize("what", ["link", "file"])
def test_a_link_or_a_file_in_place_of_the_run_directory_is_not_followed(home, monkeypatch, state, what):
    if what == "link":
        make(home / "real").chmod(0o700)
        (home / "r").symlink_to(home / "real")
    else:
        (home / "r").write_text("")
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(home / "r"))
    assert run_dir(home / "a").parent == state / "run"
    assert what == "file" or not list((home / "real").iterdir())


@pytest.mark.parametrize("way", ["open", "file", "nested"])
def test_where_neither_can_be_used_both_reasons_are_told(home, monkeypatch, state, way):
    (home / "r").write_text("")
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(home / "r"))
    if way == "open":
        state.mkdir(mode=0o755)
    elif way == "file":
        state.write_text("")
    else:
        (state / "run").mkdir(parents=True)
        state.chmod(0o700)
        (state / "run").chmod(0o777)
    with pytest.raises(RunDirUnsafe) as refused:
        run_dir(home / "a")
    assert str(home / "r") in str(refused.value)
    assert str(state) in str(refused.value)


def test_its_next_step_is_one_for_the_relay_and_the_table():
    assert errors.CODES["run_dir_unsafe"][2] == project_location.RUN_DIR_STEP


def test_a_socket_path_too_long_for_the_system_is_refused_before_it_fails(home, monkeypatch, state):
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(home / ("x" * 100)))
    assert run_dir(home / "a").parent == state / "run"
    long = home / ("y" * 100)
    monkeypatch.setenv("ORCHESTRATOR_STATE_DIR", str(long))
    with pytest.raises(RunDirUnsafe, match=rf"y/run/\w+ is longer than {SUN_PATH_MAX} bytes"):
        run_dir(home / "a")
    assert not long.exists(), "it is not made in vain"


# -- the word in .agents/lock -------------------------------------------------------------------------------------


@pytest.fixture
def team(home, state, monkeypatch):
    """A project with an empty `.agents/` whose first run directory is usable, and whose second one is there."""
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(home / "r"))
    at = make(home / "a", ".agents")
    with monkeypatch.context() as patch:
        (home / "f").write_text("")
        patch.setenv("ORCHESTRATOR_RUN_BASE", str(home / "f"))
        run_dir(at)
    return at


def test_the_word_counts_while_a_process_holds_the_lock(team, state):
    first = run_dir(team)
    held = claim(Paths(team), lock_word.STATE)
    assert (team / ".agents" / "lock").read_text().split() == ["state", held.token]
    assert run_dir(team) == state / "run" / first.name
    held.release()
    assert (team / ".agents" / "lock").read_text().split()[0] == "state"
    assert run_dir(team) == first


def test_the_word_counts_only_for_a_directory_that_is_private(team, state):
    first = run_dir(team)
    held = claim(Paths(team), lock_word.STATE)
    (state / "run" / first.name).chmod(0o755)
    assert run_dir(team) == first
    held.release()
    held = claim(Paths(team), lock_word.TMP)
    first.chmod(0o777)
    (state / "run" / first.name).chmod(0o700)
    assert run_dir(team) == state / "run" / first.name
    held.release()


def test_a_held_lock_without_a_word_or_with_another_one_decides_nothing(team):
    first = run_dir(team)
    for text in ("", "elsewhere", "/tmp/x", "states", "state\0", "\xff" * 1000):
        held = claim(Paths(team))
        (team / ".agents" / "lock").write_bytes(text.encode("latin1"))
        assert run_dir(team) == first, text
        held.release()


@pytest.mark.parametrize("what", ["fifo", "link", "dangling", "directory", "huge", "socket"])
def test_a_lock_that_came_from_elsewhere_is_not_believed_and_never_waited_for(team, state, what, monkeypatch):
    lock = team / ".agents" / "lock"
    if what == "fifo":
        os.mkfifo(lock)
    elif what == "directory":
        lock.mkdir()
    elif what == "huge":
        with lock.open("wb") as file:
            file.write(b"state ")
            file.truncate(1 << 40)
    elif what == "socket":
        monkeypatch.chdir(lock.parent)  # its path may be longer than a socket's
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind("lock")
    else:
        lock.symlink_to(team / "nothing" if what == "dangling" else make(team, "b") / "c")
        (team / "c").write_text("state 1")
    found = []
    looking = threading.Thread(target=lambda: found.append(run_dir(team)), daemon=True)
    looking.start()
    looking.join(30)
    assert found == [run_dir(team)]
    assert found[0].parent != state / "run"


def test_a_second_that_a_daemon_holds_is_used_without_a_word(team, state):
    """A daemon that began there before anything was written has no lock in the project yet."""
    first = run_dir(team)
    second = state / "run" / first.name
    with (second / "lock").open("w") as lock:
        assert run_dir(team) == first, "nobody holds it"
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert run_dir(team) == second
    assert run_dir(team) == first


def test_a_stop_in_the_second_holds_when_the_first_is_usable_again(team, state):
    first = run_dir(team)
    (state / "run" / first.name / project_location.STOPPED).touch()
    assert run_dir(team) == state / "run" / first.name
    (state / "run" / first.name / project_location.STOPPED).unlink()
    assert run_dir(team) == first


def test_a_user_without_a_home_directory_uses_the_first(home, monkeypatch):
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(home / "r"))
    monkeypatch.delenv("ORCHESTRATOR_STATE_DIR")
    monkeypatch.setenv("HOME", "")

    def unknown(_):
        raise KeyError

    monkeypatch.setattr(project_location.state_dir.pwd, "getpwuid", unknown)
    monkeypatch.setattr(project_location, "_bases", {})
    assert run_dir(home / "a").parent == home / "r"
    assert project_location.run_dirs(home / "a") == [run_dir(home / "a")]
    assert project_location.run_bases() == [home / "r"]
    (home / "r").chmod(0o777)
    with pytest.raises(RunDirUnsafe, match="no home directory"):
        run_dir(home / "a")


NOBODY = """
import os, sys
from pathlib import Path
from orchestrator.edge import project_location  # while we may still read the installation
os.setgroups([]); os.setgid(65534); os.setuid(65534)
os.environ["HOME"] = "/nonexistent"
os.environ["ORCHESTRATOR_STATE_DIR"] = "/nonexistent/state"
for base in sys.argv[1:]:
    os.environ["ORCHESTRATOR_RUN_BASE"] = base
    try:
        project_location.run_dir(Path("/x"))
        print("ok")
    except project_location.RunDirUnsafe as error:
        print(error)
print(project_location.find_project(Path(os.environ["CLOSED"])).kind)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_cannot_use_or_make_our_run_directory(tmp_path):
    import tempfile

    with tempfile.TemporaryDirectory() as open_to_all:
        shared = Path(open_to_all)
        shared.chmod(0o755)
        make(shared, "ours").joinpath("ours").chmod(0o700)
        make(shared, "closed/.agents/run", "closed/x")
        (shared / "closed" / ".agents").chmod(0o700)
        done = subprocess.run(
            [sys.executable, "-P", "-c", NOBODY, str(shared / "ours"), str(shared / "new")],
            capture_output=True, text=True, env={"CLOSED": str(shared / "closed" / "x"), "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        ours, new, kind = done.stdout.splitlines()
        assert f"{shared / 'ours'} belongs to user 0, not to 65534" in ours
        assert f"the run directory {shared / 'new'} cannot be created" in new
        assert kind == "cwd", "what cannot be read does not count, and is no error"


def test_our_own_processes_never_import_a_folder_of_the_working_directory(tmp_path):
    assert project_location.own_command("x", "y") == [sys.executable, "-P", "-m", "orchestrator", "x", "y"]
    make(tmp_path, "orchestrator")
    (tmp_path / "orchestrator" / "__init__.py").write_text("raise SystemExit('wrong package')")
    done = subprocess.run(project_location.own_command("mcp", "--help"), cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.startswith("Usage: orchestrator mcp")


def test_the_version_constant_is_the_distributions():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert declared == project_location.VERSION == project_location.version()
