"""A tmux that is too old: whatever needs it refuses at its first use, and leaves nothing behind."""

import json
import os
import shutil
import subprocess

import pytest

from orchestrator.tmux.server_address import supported
from tests.support.stage import gone, user_panes

pytestmark = pytest.mark.tmux

# The machine's tmux, but for its version; so a server runs where one would be left behind.
OLD = """#!/bin/sh
case "$*" in
-V) echo "tmux 3.2a" ;;
*"display-message -p #{version}") {tmux} "$@" >/dev/null && echo 3.2a ;;
*) exec {tmux} "$@" ;;
esac
"""
AGENT = {"name": "a", "role": "r", "engine": "shell"}
TEAM = '[defaults]\nengine = "shell"\n[agents.one]\nrole = "r"\n'


@pytest.fixture
def old(stage):
    """A stage whose tmux is too old: the one of this machine if it is, else one that says so."""
    tmux = shutil.which("tmux")
    if supported(subprocess.run([tmux, "-V"], capture_output=True, text=True, check=True).stdout):
        folder = stage.base / "old"
        folder.mkdir()
        (folder / "tmux").write_text(OLD.replace("{tmux}", tmux))
        (folder / "tmux").chmod(0o755)
        stage.env["PATH"] = os.pathsep.join([str(folder), stage.env["PATH"]])
    return stage


def nothing_was_made(stage):
    assert not [path for path in (stage.root / ".agents").glob("agents/*") if path.is_dir()]
    assert stage.run_files() == []


def test_a_master_outside_tmux_is_refused_and_no_server_stays(old):
    answer = old.begun().tool("agent_create", AGENT)
    assert answer["error"]["code"] == "no_tmux", answer
    assert gone(old.server)
    nothing_was_made(old)


def test_a_master_inside_tmux_is_refused_and_its_window_stays_as_it_is(old):
    pane = old.server.start(80, 24)
    before = user_panes(old, pane)
    answer = old.begun(old.inside(pane)).tool("agents_create", {"agents": [AGENT] * 9})
    assert "no_tmux" in json.dumps(answer), answer
    assert user_panes(old, pane) == before
    assert old.tagged() == {}
    nothing_was_made(old)


def test_commands_that_need_tmux_say_so_in_one_sentence(old):
    (old.root / ".agents" / "team.toml").write_text(TEAM)
    old.allow(".agents/team.toml")
    up = old.cli("up", "--json")
    assert (up.returncode, json.loads(up.stdout)["changed"]) == (1, False), up.stdout + up.stderr
    for words in (["agent", "create", "a", "--engine", "shell", "--role", "r"], ["demo"]):
        done = old.cli(*words, "--json")
        assert done.returncode == 5, (words, done.stdout, done.stderr)
        assert json.loads(done.stdout)["error"]["code"] == "no_tmux", (words, done.stdout)
        assert done.stderr == "", words
    assert gone(old.server)
    assert not (old.root / ".demo").exists()
    popup = old.cli("top", "--popup", env={**old.env, "TMUX": "/nowhere,1,0"})
    assert popup.returncode == 5, popup.stderr
    nothing_was_made(old)


def test_doctor_finds_it(old):
    done = old.cli("doctor", "--json")
    [found] = [one for one in json.loads(done.stdout)["findings"] if one["check"] == "tmux"]
    assert (done.returncode, found["level"]) == (5, "bad"), found
    assert found["next_step"]
