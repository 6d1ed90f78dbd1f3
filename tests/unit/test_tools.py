"""What the tools of the repository decide: their examples are true, and the package's description has no dead link."""

import doctest
import importlib.util
import io
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["mutants", "release_check", "package_readme", "counted_run"])
def test_the_examples_of_a_tool_are_true(name):
    told = doctest.testmod(tool(name))
    assert told.attempted > 0
    assert told.failed == 0


def test_the_readme_of_the_package_has_no_link_that_works_in_the_repository_only():
    text = (ROOT / "README.md").read_text("utf-8")
    dead = tool("release_check").dead_links
    assert len(dead(text)) > 5
    assert dead(tool("package_readme").without_relative_links(text)) == []


# -- the matrix of tmux versions ------------------------------------------------------------------------------------


@pytest.fixture
def matrix(tmp_path, monkeypatch):
    """The tool, with a cache of its own; it installs nothing."""
    made = tool("tmux_matrix")
    run = made._ran
    monkeypatch.setattr(made, "cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(made, "_ran", lambda argv, place: "" if "tools/setup.sh" in argv else run(argv, place))
    return made


def source(place, version, make):
    """An archive as tmux's are, that is built by this line of make."""
    path = place / f"tmux-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in {"configure": "#!/bin/sh\n", "Makefile": f"all:\n\t{make}\n"}.items():
            member = tarfile.TarInfo(f"tmux-{version}/{name}")
            member.size, member.mode = len(text), 0o755
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def test_a_tmux_is_built_once_for_each_source(matrix, tmp_path):
    make = f"echo made >> {tmp_path}/made; printf '\\043!/bin/sh\\necho tmux 3.9\\n' > tmux; chmod +x tmux"
    first = source(tmp_path, "3.9", make)
    assert matrix.archives(tmp_path) == {"3.9": first}
    assert matrix.built("3.9", first) == matrix.built("3.9", first)
    assert (tmp_path / "made").read_text() == "made\n"
    matrix.built("3.9", source(tmp_path, "3.9", f"{make}; true"))
    assert (tmp_path / "made").read_text() == "made\n" * 2


@pytest.mark.parametrize("make", ["false", "echo 'echo tmux 3.8' > tmux; chmod +x tmux", "touch other"])
def test_what_cannot_be_built_leaves_nothing_that_is_taken_for_whole(matrix, tmp_path, make):
    with pytest.raises((matrix.Unbuilt, OSError)):
        matrix.built("3.9", source(tmp_path, "3.9", make))
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["tmux.lock"]


def test_the_half_build_of_a_killed_run_goes_with_the_next(matrix, tmp_path):
    half = tmp_path / "cache" / ".tmux@3.9.killed" / "source"
    half.mkdir(parents=True)
    (tmp_path / "cache" / "tmux@3.9").mkdir()
    make = "printf '\\043!/bin/sh\\necho tmux 3.9\\n' > tmux; chmod +x tmux"
    assert (matrix.built("3.9", source(tmp_path, "3.9", make)) / "tmux").exists()
    assert not half.exists()


def test_without_a_source_the_matrix_says_so_and_is_no_failure(matrix, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(matrix, "SOURCES", tmp_path / "nowhere")
    assert matrix.main([]) == 0
    assert str(tmp_path / "nowhere") in capsys.readouterr().out
    (tmp_path / "README.md").touch()
    monkeypatch.setattr(matrix, "SOURCES", tmp_path)
    assert matrix.main(["3.9"]) == 0
    source(tmp_path, "3.9", "false")
    assert matrix.main(["3.8", "3.9"]) == 1
