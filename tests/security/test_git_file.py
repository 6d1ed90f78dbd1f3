"""A `.git` file in an unpacked archive: it moves no team, no question and no hook into another project."""

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from orchestrator.edge import cli_hook as hook
from orchestrator.edge.project_location import Project, find_project, main_tree, worktree_at
from orchestrator.gsd import place as gsd
from orchestrator.team.worktrees import git, inspection
from tests.support.stage import BOUND_S

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 12345


@pytest.fixture
def victim(tmp_path, monkeypatch):
    """A project with a team and a worktree, which an archive knows the place of."""
    home = tmp_path.resolve() / "home"
    at = home / "victim"
    (at / ".agents" / "run").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    who = ["-c", "user.name=t", "-c", "user.email=t@t"]
    for words in (
        ["init", "-q"],
        [*who, "commit", "-q", "--allow-empty", "-m", "x"],
        ["worktree", "add", "-q", "../t"],
    ):
        subprocess.run(["git", *words], cwd=at, check=True, capture_output=True)
    assert find_project(home / "t") == Project(at, "agents")
    return at


def unpacked(victim, files, links=()):
    """A directory as `tar -x` makes it."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
        for name, target in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = (tarfile.FIFOTYPE, "") if target is None else (tarfile.SYMTYPE, target)
            tar.addfile(info)
    at = victim.parent / "unpacked"
    at.mkdir()
    subprocess.run(["tar", "-x"], cwd=at, input=data.getvalue(), check=True)
    return at


def stays(at, victim):
    """Nothing of the package takes the directory for a part of the victim."""
    assert worktree_at(at) is None
    assert main_tree(at) == at
    assert find_project(at).root == at
    assert hook.main_tree(str(at)) is None
    assert git.linked(at) is None
    (victim / ".planning").mkdir()
    (victim / ".planning" / "PROJECT.md").write_text("# secret plans")
    assert gsd.above(at) is None


MADE_UP = ("gitdir: g\n", "gitdir:g", "gitdir: ./g/\n", "gitdir: x/../g\n")


@pytest.mark.parametrize("text", MADE_UP)
def test_an_archive_with_a_git_directory_of_its_own_making_stays_where_it_is(victim, text):
    files = {
        ".git": text,
        "g/commondir": f"{victim}/.git\n",
        "g/gitdir": f"{victim.parent}/unpacked/.git\n",
        "x/keep": "",
    }
    stays(unpacked(victim, files), victim)


def test_an_archive_that_names_a_worktree_of_another_directory_stays_where_it_is(victim):
    stays(unpacked(victim, {".git": f"gitdir: {victim}/.git/worktrees/t\n"}), victim)


def test_an_archive_with_a_link_into_the_repository_stays_where_it_is(victim):
    stays(unpacked(victim, {".git": "gitdir: g\n"}, [("g", f"{victim}/.git/worktrees/t")]), victim)


def test_an_archive_with_links_in_the_place_of_the_small_files_stays_where_it_is(victim):
    links = [("g/commondir", "c"), ("g/gitdir", "b")]
    files = {".git": "gitdir: g\n", "g/c": f"{victim}/.git\n", "g/b": f"{victim.parent}/unpacked/.git\n"}
    stays(unpacked(victim, files, links), victim)


def test_an_archive_whose_git_is_a_link_to_the_file_of_a_worktree_stays_where_it_is(victim):
    stays(unpacked(victim, {"keep": ""}, [(".git", f"{victim.parent}/t/.git")]), victim)


def test_an_archive_that_names_the_repository_itself_stays_where_it_is(victim):
    (victim / ".git" / "commondir").write_text(".\n")
    stays(unpacked(victim, {".git": f"gitdir: {victim}/.git\n"}), victim)


@pytest.mark.parametrize("where", [".git", "g/commondir", "g/gitdir"])
def test_a_pipe_in_the_place_of_a_small_file_is_not_waited_for(victim, where):
    files = {".git": "gitdir: g\n", "g/commondir": f"{victim}/.git\n", "g/gitdir": f"{victim.parent}/unpacked/.git\n"}
    del files[where]
    at = unpacked(victim, {**files, "keep": ""}, [(where, None)])
    program = (
        "import sys; from pathlib import Path; from orchestrator.edge import cli_hook as hook, project_location;"
        "print(project_location.find_project(Path(sys.argv[1])).root, hook.main_tree(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, str(at)],
        capture_output=True, text=True, timeout=BOUND_S, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout == f"{at} None\n", done.stderr


@pytest.mark.parametrize("where", [".git/x", "g/commondir/x", "g/gitdir/x"])
def test_a_directory_in_the_place_of_a_small_file_is_no_traceback(victim, where):
    files = {".git": "gitdir: g\n", "g/commondir": f"{victim}/.git\n", "g/gitdir": f"{victim.parent}/unpacked/.git\n"}
    del files[where.rpartition("/")[0]]
    stays(unpacked(victim, {**files, where: ""}), victim)


def test_a_huge_file_is_not_read(victim):
    at = unpacked(victim, {".git": f"gitdir: {victim}/.git/worktrees/t\n"})
    with (at / ".git").open("ab") as file:
        file.truncate(1 << 40)
    stays(at, victim)


def test_names_that_no_file_can_have_are_no_traceback(victim):
    stays(unpacked(victim, {".git": "gitdir: a\0b\n"}), victim)


def test_names_with_a_nul_in_the_repository_are_no_traceback(victim):
    files = {".git": "gitdir: g\n", "g/commondir": "\0\n", "g/gitdir": "\0\n"}
    stays(unpacked(victim, files), victim)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_repository_of_another_user_that_knows_the_directory_is_not_believed(victim, tmp_path):
    """Another local user prepares a repository for a directory that the archive will be unpacked in."""
    at = unpacked(victim, {".git": f"gitdir: {tmp_path.resolve()}/evil/.git/worktrees/w\n"})
    own = tmp_path.resolve() / "evil" / ".git" / "worktrees" / "w"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    (own / "gitdir").write_text(f"{at}/.git\n")
    assert main_tree(at) == tmp_path.resolve() / "evil", "of our own user it is a worktree like any other"
    assert hook.main_tree(str(at)) == str(tmp_path.resolve() / "evil")
    for path in (own, own / "gitdir", own / "commondir"):
        os.chown(path, NOBODY, NOBODY)
    stays(at, victim)


def test_a_worktree_that_only_says_it_is_one_is_not_taken_for_an_agents(victim):
    """The directory of an agent's worktree, brought by a checkout: nothing is asked of, or removed from, the victim."""
    at = victim.parent / "mine"
    made = at / ".agents" / "worktrees" / "a"
    (made / "g").mkdir(parents=True)
    (made / ".git").write_text("gitdir: g\n")
    (made / "g" / "commondir").write_text(f"{victim}/.git\n")
    (made / "g" / "HEAD").write_text("ref: refs/heads/orchestrator/a\n")
    assert inspection.place_of(at, "a") is None


def test_the_command_line_and_the_relay_work_in_the_archive(victim, stage):
    at = stage.root = unpacked(victim, {".git": "gitdir: g\n", "g/commondir": f"{victim}/.git\n"})
    env = {**stage.env, "HOME": str(victim.parent)}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "orchestrator", "doctor", "--json"],
        env=env, cwd=at, capture_output=True, text=True, timeout=BOUND_S,
    )  # fmt: skip
    assert json.loads(done.stdout)["project"] == str(at)
    wire = stage.begun(env)
    assert "result" in wire.ask("tools/list", {})
    assert stage.daemon()
    assert not stage.run_dir(victim).exists()
