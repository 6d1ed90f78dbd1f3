"""The files of a project: as git would show them, without git, with repositories inside, and with a hostile one."""

import os
import subprocess

import pytest

from orchestrator.gsd.sources import walk
from tests.support.gsd_trees import write


def git(at, *args):
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always", "-C", at, *args],
        check=True, capture_output=True, env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"},
    )  # fmt: skip


def repository(at, files, commit=True):
    write(at, files)
    git(at, "init", "-q")
    if commit:
        git(at, "add", "-A")
        git(at, "commit", "-qm", "x")
    return at


def paths(root, *args, **kwargs):
    return [found.path for found in walk.files(root, *args, **kwargs)]


def test_a_plain_directory_is_walked(tmp_path):
    write(
        tmp_path,
        {"b.py": "", "a/c.ts": "xyz", "node_modules/x.js": "", "a/.venv/x.py": "", "a/x.md": "", ".h.py": ""},
    )
    (tmp_path / "link.py").symlink_to("b.py")
    (tmp_path / "dirlink").symlink_to("a")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / os.fsdecode(b"\xff")).mkdir()
    assert paths(tmp_path) == [".h.py", "a/c.ts", "a/x.md", "b.py"]
    assert paths(tmp_path, frozenset({".py"})) == [".h.py", "b.py"]
    assert paths(tmp_path, frozenset({".py"}), also=lambda path: path.endswith("x.md")) == [".h.py", "a/x.md", "b.py"]
    found = next(f for f in walk.files(tmp_path) if f.path == "a/c.ts")
    assert (found.size, found.mtime_ns) == (3, (tmp_path / "a/c.ts").stat().st_mtime_ns)


def test_a_repository_shows_what_git_tracks_or_would_add(tmp_path):
    repository(tmp_path, {"a.py": "", "gone.py": "", "ä b.py": "", "build/x.py": ""})
    write(tmp_path, {".gitignore": "ignored.py\n/out/\n", "new.py": "", "ignored.py": "", "out/y.py": ""})
    (tmp_path / "gone.py").unlink()
    assert paths(tmp_path) == [".gitignore", "a.py", "new.py", "ä b.py"]


def test_a_project_inside_a_repository_shows_its_own_part(tmp_path):
    repository(tmp_path, {"x.py": "", "p/a.py": "", "p/.gitignore": "no.py\n", "p/no.py": "", ".gitignore": "/q/\n"})
    assert paths(tmp_path / "p") == [".gitignore", "a.py"]
    write(tmp_path, {"q/b.py": ""})
    assert paths(tmp_path / "q") == ["b.py"]  # the repository takes no notice of it


def test_submodules_and_repositories_inside_are_entered_and_worktrees_are_not(tmp_path):
    other = repository(tmp_path / "other", {"s.py": "", "ign.py": "", ".gitignore": "no.py\n"})
    root = repository(tmp_path / "root", {"a.py": ""})
    git(root, "submodule", "add", "-q", str(other), "lib/three.js")
    write(root, {"lib/three.js/no.py": ""})
    repository(root / "inner", {"i.py": ""})
    git(root, "worktree", "add", "-q", "wt")
    expected = [
        ".gitmodules",
        "a.py",
        "inner/i.py",
        "lib/three.js/.gitignore",
        "lib/three.js/ign.py",
        "lib/three.js/s.py",
    ]
    assert paths(root) == expected
    assert paths(root / "wt") == ["a.py"]


def test_another_worktree_is_left_out_without_git_too(tmp_path, monkeypatch):
    root = repository(tmp_path / "root", {"a.py": ""})
    git(root, "worktree", "add", "-q", "wt")
    monkeypatch.setattr(walk, "_by_git", lambda _at, _unseen: None)
    assert paths(root) == ["a.py"]


@pytest.mark.parametrize("broken", ["HEAD", "index", "config"])
def test_a_repository_that_git_refuses_is_walked(tmp_path, broken):
    repository(tmp_path, {"a.py": "", "node_modules/b.js": ""})
    (tmp_path / ".git" / broken).write_bytes(b"\0broken")
    assert paths(tmp_path) == ["a.py"]


def test_a_locked_index_does_not_matter(tmp_path):
    repository(tmp_path, {"a.py": ""})
    (tmp_path / ".git/index.lock").write_text("")
    assert paths(tmp_path) == ["a.py"]


def test_variables_of_a_git_hook_do_not_lead_elsewhere(tmp_path, monkeypatch):
    other = repository(tmp_path / "other", {"ignored.py": ""})
    root = repository(tmp_path / "root", {"a.py": "", ".gitignore": "ignored.py\n"})
    write(root, {"ignored.py": ""})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    assert paths(root) == [".gitignore", "a.py"]


def test_a_repository_does_not_choose_a_program_to_run(tmp_path):
    repository(tmp_path, {"a.py": ""})
    git(tmp_path, "config", "core.fsmonitor", f"touch {tmp_path}/ran; false")
    assert paths(tmp_path) == ["a.py"]
    assert not (tmp_path / "ran").exists()


def test_a_root_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        paths(tmp_path / "none")


def test_a_partial_repository_fetches_nothing_and_runs_no_program_of_its_own(tmp_path):
    there, here, ran = tmp_path / "there", tmp_path / "here", tmp_path / "ran"
    repository(there, {"a/x.py": "1", "b/y.py": "2", "c.py": "3"})
    git(there, "config", "uploadpack.allowFilter", "true")
    git(there, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(tmp_path, "clone", "-q", "--filter=tree:0", "--sparse", f"file://{there}", str(here))
    git(here, "sparse-checkout", "set", "--cone", "--sparse-index", "a")
    for index in (here / ".git/objects/pack").glob("*.idx"):  # as if the tree of b had never been fetched
        with index.open("rb") as file:
            shown = subprocess.run(["git", "show-index"], stdin=file, capture_output=True, check=True, text=True)
        if subprocess.check_output(["git", "-C", here, "rev-parse", "HEAD:b"], text=True).strip() in shown.stdout:
            for one in index.parent.glob(f"{index.stem}.*"):
                one.unlink()
    program = tmp_path / "up.sh"
    program.write_text(f'#!/bin/sh\ntouch {ran}\nexec git-upload-pack "$@"\n')
    program.chmod(0o755)
    git(here, "config", "remote.origin.uploadpack", str(program))
    git(here, "config", "protocol.file.allow", "always")
    assert paths(here) == ["a/x.py", "c.py"]
    assert not ran.exists()
