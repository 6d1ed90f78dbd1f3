"""Trees that programs filled are removed whole, and nothing outside of them is touched."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.base.platform import file_trees

DEEP = 1500  # deeper than Python recurses, and than a path may be long


@pytest.fixture
def outside(tmp_path):
    """A directory of somebody else, to which links lead."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_text("kept")
    return tmp_path / "outside"


@pytest.fixture
def tree(tmp_path, outside):
    """A tree with all kinds of files, links that lead outside, and a directory closed even to its owner."""
    top = tmp_path / "tree"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "file").write_bytes(b"12345")
    (top / "closed").mkdir()
    (top / "closed" / "file").write_bytes(b"123")
    os.mkfifo(top / "pipe")
    (top / "link").symlink_to(outside)
    (top / "a" / "link").symlink_to(outside / "kept")
    (top / "closed").chmod(0)
    return top


def test_a_tree_is_removed_whole_and_links_are_not_followed(tree, outside):
    assert file_trees.remove(tree)
    assert not tree.exists()
    assert (outside / "kept").read_text() == "kept"


def test_a_link_in_its_place_is_removed_and_not_what_it_leads_to(tmp_path, outside):
    (tmp_path / "link").symlink_to(outside)
    assert file_trees.remove(tmp_path / "link")
    assert not os.path.lexists(tmp_path / "link")
    assert (outside / "kept").exists()


def test_nothing_is_removed_in_a_directory_that_is_a_link(tmp_path, outside):
    (tmp_path / "above").symlink_to(outside)
    assert not file_trees.remove(tmp_path / "above" / "kept")
    assert (outside / "kept").exists()


def test_what_is_not_there_is_gone(tmp_path):
    assert file_trees.remove(tmp_path / "no")
    assert file_trees.remove(tmp_path / "no" / "where")
    assert file_trees.set_aside(tmp_path / "no") is None
    assert file_trees.measure(tmp_path / "no") == (0, 0)


def test_a_tree_of_any_depth_is_removed_with_few_descriptors(tmp_path):
    top = tmp_path / "top"
    top.mkdir()
    at = os.open(top, os.O_DIRECTORY)
    for _ in range(DEEP):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_DIRECTORY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    assert file_trees.remove(top)
    assert not top.exists()


def test_a_removal_that_is_called_off_is_finished_by_the_next(tree):
    left = iter([True, True])
    assert not file_trees.remove(tree, lambda: next(left, False))
    assert tree.exists()
    assert file_trees.remove(tree)


def test_files_that_a_process_goes_on_making_end_the_removal_all_the_same(tree, monkeypatch):
    real, made = os.rmdir, []

    def late(path, **more):
        (tree / f"late-{len(made)}").touch()
        made.append(path)
        real(path, **more)

    monkeypatch.setattr(file_trees.os, "rmdir", late)
    assert not file_trees.remove(tree)
    monkeypatch.undo()
    assert file_trees.remove(tree)


def test_a_tree_is_measured_and_its_links_are_not_followed(tree):
    files, size = file_trees.measure(tree)
    links = sum(os.lstat(path).st_size for path in (tree / "link", tree / "a" / "link"))
    closed = (1, 3) if os.access(tree / "closed", os.R_OK) else (0, 0)  # root reads it
    assert (files, size - links) == (4 + closed[0], 5 + closed[1])
    assert file_trees.measure(tree / "a" / "b" / "file") == (1, 5)


def test_what_is_set_aside_has_another_name_in_the_same_directory(tree):
    aside = file_trees.set_aside(tree)
    assert aside is not None and aside.parent == tree.parent and aside.name.startswith("tree.")
    assert not tree.exists() and (aside / "a").is_dir()


MOUNTED = """
import sys
from pathlib import Path
from orchestrator.base.platform import file_trees
tree = Path(sys.argv[1])
print(file_trees.set_aside(tree / "a"), file_trees.remove(tree), (tree / "a" / "kept").exists())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
@pytest.mark.parametrize("how", ["--bind $2", "-t tmpfs none"])
def test_a_mount_in_the_tree_is_not_entered(tmp_path, outside, how):
    tree = tmp_path / "tree"
    (tree / "a").mkdir(parents=True)
    script = f'mount --make-rprivate / && mount {how} "$1"/a && touch "$1"/a/kept && exec "$0" -c "$3" "$1"'
    words = ["unshare", "-m", "sh", "-c", script, sys.executable, str(tree), str(outside), MOUNTED]
    done = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).resolve().parents[4], check=False)
    if "mount" in done.stderr or "unshare" in done.stderr:
        pytest.skip("this machine lets nobody mount")
    assert done.stdout.split() == ["None", "False", "True"], done
