"""Which project a directory belongs to, and where its run directory is."""

import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from orchestrator import project
from orchestrator.project import Project, RunDirUnsafe, find_project, named_project, run_dir

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home directory of the test's own, which is itself full of marks that must not count."""
    at = tmp_path.resolve() / "home"
    for mark in (".agents/run", ".planning", ".git"):
        (at / mark).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(at))
    monkeypatch.delenv("ORCHESTRATOR_RUN_BASE", raising=False)
    return at


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


@pytest.mark.parametrize("text", ["", "nonsense", "gitdir: /nowhere", "gitdir: ../gone\n"])
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
def test_a_run_directory_open_to_others_is_refused(home, monkeypatch, level, mode):
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(home / "r"))
    own = run_dir(home / "a")
    (own.parent if level == "base" else own).chmod(mode)
    with pytest.raises(RunDirUnsafe, match="open to others"):
        run_dir(home / "a")


def test_a_link_or_a_file_in_place_of_the_run_directory_is_refused(home, monkeypatch):
    make(home / "real").chmod(0o700)
    (home / "r").symlink_to(home / "real")
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(home / "r"))
    with pytest.raises(RunDirUnsafe, match="not a directory"):
        run_dir(home / "a")
    (home / "r").unlink()
    (home / "r").write_text("")
    with pytest.raises(RunDirUnsafe, match="not a directory"):
        run_dir(home / "a")


def test_a_socket_path_too_long_for_the_system_is_refused_before_it_fails(home, monkeypatch):
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(home / ("x" * 100)))
    with pytest.raises(RunDirUnsafe, match="longer than 107 bytes"):
        run_dir(home / "a")


NOBODY = """
import os, sys
from pathlib import Path
from orchestrator import project  # while we may still read the installation
os.setgroups([]); os.setgid(65534); os.setuid(65534)
os.environ["HOME"] = "/nonexistent"
for base in sys.argv[1:]:
    os.environ["ORCHESTRATOR_RUN_BASE"] = base
    try:
        project.run_dir(Path("/x"))
        print("ok")
    except project.RunDirUnsafe as error:
        print(error)
print(project.find_project(Path(os.environ["CLOSED"])).kind)
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
        assert ours == f"{shared / 'ours'} belongs to user 0, not to 65534"
        assert new.startswith(f"the run directory {shared / 'new'} cannot be made")
        assert kind == "cwd", "what cannot be read does not count, and is no error"


def test_our_own_processes_never_import_a_folder_of_the_working_directory(tmp_path):
    assert project.own_command("x", "y") == [sys.executable, "-P", "-m", "orchestrator", "x", "y"]
    make(tmp_path, "orchestrator")
    (tmp_path / "orchestrator" / "__init__.py").write_text("raise SystemExit('wrong package')")
    done = subprocess.run(project.own_command("mcp", "--help"), cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.startswith("Usage: orchestrator mcp")


def test_the_version_constant_is_the_distributions():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert declared == project.VERSION == project.version()
