"""Which project a question is about: the order of detection, what it walks up to, and what an argument may name."""

import os
import subprocess
from pathlib import Path

import pytest

from orchestrator.base.errors import OrchestratorError
from orchestrator.gsd import place
from orchestrator.gsd.place import NO_PROJECT, Asking, above, directory_of, find
from tests.support.gsd_trees import write


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home directory with all of a test's world in it."""
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    return path


def project(at, mark="PROJECT.md"):
    if mark == "intel":
        (at / ".planning" / mark).mkdir(parents=True)
        return at
    return write(at, {f".planning/{mark}": "# P\n"})


def code_of(asking):
    with pytest.raises(OrchestratorError) as caught:
        find(asking)
    return caught.value.code


@pytest.mark.parametrize("mark", ["PROJECT.md", "ROADMAP.md", "STATE.md", "intel"])
def test_a_planning_directory_with_any_mark_of_gsd_is_a_project_from_anywhere_below(home, mark):
    root = project(home / "p", mark)
    (root / "a" / "b").mkdir(parents=True)
    assert find(Asking(str(root / "a" / "b"))) == root
    assert find(Asking(str(root / ".planning"))) == root


def test_a_planning_directory_without_a_mark_and_one_that_is_a_file_are_none(home):
    write(home / "p", {".planning/notes.md": "x"})
    write(home / "q", {".planning": "x"})
    assert code_of(Asking(str(home / "p"))) == code_of(Asking(str(home / "q"))) == "no_gsd_project"


def test_an_index_of_ours_makes_a_project_without_planning(home):
    write(home / "p", {".agents/gsd/index.db": "x", "src/a.py": ""})
    assert find(Asking(str(home / "p" / "src"))) == home / "p"


def test_the_nearest_project_counts(home):
    project(home / "p")
    inner = project(home / "p" / "packages" / "web")
    assert find(Asking(str(inner))) == inner


def test_no_project_is_told_with_the_documents_sentence(home):
    with pytest.raises(OrchestratorError) as caught:
        find(Asking(str(home)))
    assert (caught.value.code, caught.value.message) == ("no_gsd_project", NO_PROJECT)
    assert NO_PROJECT == "No GSD project detected. Run /gsd:new-project or /gsd:analyze-codebase first."


def test_home_is_never_a_project_from_below_and_is_one_for_who_stands_in_it(home):
    project(home)
    (home / "work").mkdir()
    assert code_of(Asking(str(home / "work"))) == "no_gsd_project"
    assert find(Asking(str(home))) == home


def test_nothing_above_home_counts_and_the_root_directory_never_does(home, tmp_path, monkeypatch):
    project(tmp_path)
    assert code_of(Asking(str(home))) == code_of(Asking(str(home / "none"))) == "no_gsd_project"
    looked = []
    monkeypatch.setattr(place, "is_project", lambda at: looked.append(at) or False)
    assert above(Path("/")) is None
    assert above(Path("/usr/lib")) is None
    assert Path("/") not in looked


def test_the_order_is_argument_variable_roots_working_directory(home):
    one, two, three, four = (project(home / name) for name in ("one", "two", "three", "four"))
    roots = (three.as_uri(),)
    asking = Asking(str(four), str(three), str(two), roots)
    assert find(asking) == three
    assert find(Asking(str(four), "", str(two), roots)) == two
    assert find(Asking(str(four), "", "", roots)) == three
    assert find(Asking(str(four))) == four
    assert find(Asking(str(one), str(two), str(two))) == two, "what a call without it could read may be named"


def test_roots_without_a_project_are_passed_over_and_one_that_holds_the_cwd_goes_first(home):
    one, two = project(home / "one"), project(home / "two")
    (home / "empty").mkdir()
    (two / "src").mkdir()
    assert find(Asking(str(home), "", "", ((home / "empty").as_uri(), one.as_uri()))) == one
    assert find(Asking(str(two / "src"), "", "", (one.as_uri(), two.as_uri()))) == two
    assert find(Asking(str(two / "src"), "", "", ((home / "empty").as_uri(),))) == two


@pytest.mark.parametrize(
    "uri", ["http://x/p", "file://other/p", "", "p", "file:///a%00b", "file://[", "file:///no/such", "file:"]
)
def test_a_root_that_is_no_local_directory_counts_as_none(uri):
    assert directory_of(uri) in {None, Path("/")}
    assert directory_of(uri) is None or uri == "file:"


def test_a_roots_uri_is_decoded_and_its_links_resolved(home):
    root = project(home / "a b ü")
    (home / "link").symlink_to(root)
    assert directory_of(root.as_uri()) == directory_of(f"file://localhost{root.as_uri()[7:]}") == root
    assert directory_of((home / "link").as_uri()) == root
    os.mkdir(os.fsencode(home) + b"/\xff")  # noqa: PTH102  (a name that is no text)
    assert os.fsencode(directory_of(f"file://{home}/%ff")) == os.fsencode(home) + b"/\xff"


# -- what an argument may name --------------------------------------------------------------------------------------


def test_an_argument_may_name_what_lies_below_the_working_directory_or_in_its_project_or_git_tree(home):
    root = project(home / "p")
    other = project(home / "p" / "packages" / "a")
    (root / "packages" / "b").mkdir()
    assert find(Asking(str(root / "packages" / "b"), "../a")) == other
    assert find(Asking(str(root / "packages" / "b"), str(root))) == root
    (home / "repo" / ".git").mkdir(parents=True)
    inner = project(home / "repo" / "x")
    (home / "repo" / "y").mkdir()
    assert find(Asking(str(home / "repo" / "y"), str(inner))) == inner
    assert find(Asking(str(home), "~/p")) == root


@pytest.mark.parametrize("named", ["..", "../other", "{home}/other", "/", "/etc", "inside/../../other", "link", "~"])
def test_an_argument_that_leads_out_is_refused_whether_it_exists_or_not(home, named):
    project(home / "p")
    project(home / "other")
    (home / "p" / "link").symlink_to(home / "other")
    asking = Asking(str(home / "p"), named.format(home=home), "", ((home / "p").as_uri(),))
    assert code_of(asking) == "path_escape"


def test_a_home_that_is_a_repository_and_the_root_directory_open_nothing(home):
    (home / ".git").mkdir()
    (home / "p").mkdir()
    other = project(home / "other")
    assert code_of(Asking(str(home / "p"), str(other))) == "path_escape"
    assert code_of(Asking("/", str(other))) == "path_escape"
    assert code_of(Asking("/", str(other), "", ("file:///",))) == "path_escape"


@pytest.mark.parametrize(
    ("named", "code"),
    [
        ("none", "bad_argument"), ("file", "bad_argument"), ("a\0b", "bad_argument"), ("~\0", "bad_argument"),
        ("\ud800", "bad_argument"), ("x" * 5000, "bad_argument"), ("loop", "bad_argument"), ("empty", "no_gsd_project"),
        ("fifo", "bad_argument"),
    ],
)  # fmt: skip
def test_an_argument_that_names_no_project_is_told_what_is_wrong(home, named, code):
    write(home / "p", {"file": "x"})
    (home / "p" / "empty").mkdir()
    os.mkfifo(home / "p" / "fifo")
    (home / "p" / "loop").symlink_to("loop")
    assert code_of(Asking(str(home / "p"), named)) == code


@pytest.mark.parametrize("value", ["/no/such", "file", "a\0b", "~nobody/x"])
def test_a_variable_that_cannot_be_used_is_an_error_that_names_it(home, value):
    write(home / "p", {"file": "x", ".planning/PROJECT.md": ""})
    with pytest.raises(OrchestratorError, match="GSD_PROJECT_ROOT") as caught:
        find(Asking(str(home / "p"), "", value))
    assert caught.value.code == "bad_config"


def test_a_variable_that_names_no_project_is_an_error_and_not_the_working_directorys(home):
    project(home / "p")
    (home / "empty").mkdir()
    with pytest.raises(OrchestratorError) as caught:
        find(Asking(str(home / "p"), "", str(home / "empty")))
    assert (caught.value.code, caught.value.message) == ("no_gsd_project", NO_PROJECT)
    assert "GSD_PROJECT_ROOT" in caught.value.next_step


def test_a_variable_may_name_a_directory_below_the_project_or_by_the_home(home):
    root = project(home / "p")
    (root / "src").mkdir()
    assert find(Asking("/", "", str(root / "src"))) == root
    assert find(Asking("/", "", "~/p")) == root


def test_links_of_the_working_directory_are_resolved(home):
    root = project(home / "p")
    (root / "src").mkdir()
    (home / "link").symlink_to(root / "src")
    assert find(Asking(str(home / "link"))) == root


# -- worktrees ------------------------------------------------------------------------------------------------------


@pytest.fixture
def worktree(home):
    """A repository and a worktree of it elsewhere."""
    main, other = home / "main", home / "trees" / "other"
    who = ["-c", "user.name=t", "-c", "user.email=t@t"]
    for command in (
        ["init", "-q", str(main)],
        ["-C", str(main), *who, "commit", "-q", "--allow-empty", "-m", "x"],
        ["-C", str(main), "worktree", "add", "-q", str(other)],
    ):
        subprocess.run(["git", *command], check=True)
    (other / "src").mkdir()
    return main, other


def test_a_worktree_without_planning_belongs_to_the_main_trees_project(worktree):
    main, other = worktree
    project(main)
    project(other.parent)  # what merely lies above a worktree is not its project
    assert find(Asking(str(other / "src"))) == main
    assert find(Asking(str(other), str(main))) == main


def test_a_worktree_with_planning_of_its_own_is_a_project(worktree):
    main, other = worktree
    project(main)
    project(other)
    assert find(Asking(str(other / "src"))) == other


def test_a_file_that_only_says_it_is_a_worktree_leads_nowhere(worktree, home):
    main, other = worktree
    project(main)
    root = project(home / "p")
    names = f"gitdir: {main}/.git/worktrees/other\n"  # one that is there, of another directory
    made_up = {"commondir": f"{main}/.git\n", "gitdir": f"{root}/b/.git\n"}
    write(root / "a", {".git": names})
    write(root / "b", {".git": "gitdir: own\n", **{f"own/{name}": text for name, text in made_up.items()}})
    for name in ("a", "b"):
        assert find(Asking(str(root), name)) == find(Asking(str(root / name))) == root
    assert find(Asking(str(other))) == main


def test_a_worktree_may_name_its_repository_by_a_relative_path(worktree):
    main, other = worktree
    project(main)
    mark, own = other / ".git", main / ".git" / "worktrees" / "other"
    mark.write_text(f"gitdir: {os.path.relpath(own, other)}\n")
    (own / "gitdir").write_text(f"{os.path.relpath(mark, own)}\n")
    assert find(Asking(str(other / "src"))) == main
