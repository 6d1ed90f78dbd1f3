"""Where a demo is put: a copy of the sample project below the current directory, and what `--end` may end."""

import json
import os
import subprocess
import sys

import pytest

from orchestrator.base import package_data
from orchestrator.base.errors import Environment
from orchestrator.cli import demo_hosts, demo_project


@pytest.fixture
def demos(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo_project.shutil, "which", lambda _: "/usr/bin/tmux")
    return demo_project.demo_dir()


def test_the_project_is_a_copy_of_the_sample_in_the_current_directory(demos, tmp_path):
    place = demo_project.prepare(demos)
    assert place.home.parent == tmp_path / ".demo"
    names = {path.name for path in place.project.iterdir()}
    assert names == {path.name for path in package_data.sample().iterdir()} - {"__pycache__"} | {".agents"}
    assert (demos / ".gitignore").read_text() == "*\n"
    config = (place.project / ".agents" / "config.toml").read_text()
    assert f'tmux_socket = "orchestrator-demo-{os.getpid()}"' in config


def test_inside_tmux_the_demo_uses_the_users_server(demos, monkeypatch):
    monkeypatch.setenv("TMUX", "/tmp/tmux-0/x,1,0")
    place = demo_project.prepare(demos)
    assert place.tmux_socket == ""
    assert "tmux_socket" not in (place.project / ".agents" / "config.toml").read_text()


def test_a_place_that_cannot_be_written_is_named_and_nothing_is_started(demos):
    demos.write_text("a file of the user's")
    with pytest.raises(Environment) as caught:
        demo_project.prepare(demos)
    assert caught.value.code == "io_failed"
    assert str(demos) in caught.value.message
    assert demos.read_text() == "a file of the user's"


def test_without_tmux_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(demo_project.shutil, "which", lambda _: None)
    with pytest.raises(Environment) as caught:
        demo_project.prepare(tmp_path / ".demo")
    assert caught.value.code == "no_tmux"
    assert not (tmp_path / ".demo").exists()


def test_a_current_directory_that_was_removed_is_named(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(Environment) as caught:
        demo_project.demo_dir()
    assert caught.value.code == "io_failed"
    monkeypatch.undo()


@pytest.mark.parametrize(
    "said", ["", "[]", "{}", '{"tmux_socket": 7}', '{"tmux_socket": "default"}', '{"tmux_socket": "../x"}']
)
def test_only_what_a_demo_started_is_ended(demos, said):
    """A folder may come with a clone: no file in it names a tmux server of the user's to end."""
    home = demos / "20260101-000000-1"
    (home / "project").mkdir(parents=True)
    waits = [sys.executable, "-c", "print(flush=True); input()", str(home / "project")]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as lives:
        try:
            assert lives.stdout.read(1)  # until it runs, the system may show it without its command line
            (home / "demo.json").write_text(said)
            assert demo_project.earlier_demos(demos) == []
            (home / "demo.json").write_text(json.dumps({"tmux_socket": "orchestrator-demo-1"}))
            assert [place.home for place in demo_project.earlier_demos(demos)] == [home]
        finally:
            lives.communicate(b"\n")


def test_only_a_fleet_that_a_demo_made_is_ended(demos, tmp_path, monkeypatch):
    """A folder of a clone names no directory and no tmux server that it did not make."""
    monkeypatch.setattr(demo_hosts.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(demo_hosts.tempfile, "mkdtemp", lambda prefix: str(short))
    short = tmp_path / "orchestrator-demo-abcd_123"
    short.mkdir()
    home = demo_hosts.prepare(demos).home
    assert [fleet.short for fleet in demo_hosts.earlier(demos)] == [short]
    file = home / "fleet.json"
    made = json.loads(file.read_text())
    servers = made["tmux_sockets"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "demo").write_text(str(home))
    for forged in (
        {"short": "mine", "tmux_sockets": servers},
        {"short": "../mine", "tmux_sockets": servers},
        {"short": short.name, "tmux_sockets": {**servers, "box-1": "default"}},
        {"short": short.name, "tmux_sockets": {}},
        {"short": 7, "tmux_sockets": servers},
        [],
    ):
        file.write_text(json.dumps(forged))
        assert demo_hosts.earlier(demos) == []
    file.write_text(json.dumps(made))
    (short / "demo").write_text("/another/demo")
    assert demo_hosts.earlier(demos) == []


def test_two_looks_in_a_row_must_find_nobody_before_a_demo_is_over(monkeypatch):
    found = [[1, 2], [], [3], [], [], [4]]
    monkeypatch.setattr(demo_project, "living", lambda _: found.pop(0))
    assert list(demo_project.looks(None)) == [[1, 2], [], [3], [], []]
