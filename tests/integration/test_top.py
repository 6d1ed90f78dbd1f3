"""`orchestrator top` in a real tmux, over a real team: widths, keys, a dead daemon, kill -9, a pane to go to."""

import json
import os
import re
import signal
from pathlib import Path

import pytest

from orchestrator.faces.text_table import columns_of
from tests.security.human import Human
from tests.support.stage import until
from tests.support.tmux_server import PrivateServer
from tests.support.top_terminal import Top


def asked(stage, *words, status=0):
    done = stage.cli(*words, "--json")
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def team(stage):
    """Two shell agents: one at work, one whose last task failed."""
    stage.server.start()
    for name in ("builder", "tester"):
        asked(stage, "agent", "create", name, "--role", "r", "--engine", "shell")
    asked(stage, "task", "add", "tester", "exit 3", "--id", "bad", "--wait", status=1)
    asked(stage, "task", "add", "builder", "echo building; sleep 1000", "--id", "t1", "--title", "make all")
    return stage


def test_every_width_shows_the_team_with_nothing_wrapped_and_its_tabs(team):
    top = Top(team, COLUMNS="80", LINES="24")  # of a shell that exports them
    top.shows("2 agents", "builder", "make all", "building")
    for width in (44, 80, 120, 220):
        top.resize(width, 24)
        screen = top.shows("builder", "tester", "help")
        rows = [line for line in screen.split("\n") if "tester" in line and "idle" in line]
        assert len(rows) == 1, screen
        assert "✕" in rows[0]
        assert all(columns_of(line) <= width for line in top.lines())
    top.resize(80, 24)
    for key, text in (("2", "task:       t1"), ("4", "building"), ("6", "outbox.jsonl"), ("T", "live")):
        top.press(key)
        top.shows(text)
    top.press("Escape")  # alone: with the next key it would be Alt
    top.shows("[records]")
    top.press("1")
    top.shows("[screen]")
    top.resize(20, 5)
    top.shows("● b")
    top.press("q")
    until(lambda: top.server.show(top.pane, "#{pane_dead}") == "1")


COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9\d|10\d)[;m]")


def test_without_colours_and_without_unicode_all_is_said_by_words_and_ascii(team):
    top = Top(team)
    top.shows("builder", "building")
    assert COLOUR.search("\n".join(top.lines(colours=True)))
    top.press("q")
    until(lambda: top.server.show(top.pane, "#{pane_dead}") == "1")
    top.server.run("kill-session", "-t", "top")
    top = Top(team, NO_COLOR="1", LC_ALL="POSIX", LANG="POSIX", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    screen = top.shows("> * busy  builder", "o idle  tester", "Enter pane")
    assert screen.split("\n")[0].isascii()
    assert not COLOUR.search("\n".join(top.lines(colours=True)))
    top.press("?")
    assert top.shows("approve: approve").isascii()


def test_a_task_is_given_canceled_and_told_of(team):
    top = Top(team)
    top.shows("builder")
    top.press("t")
    top.shows("new task for builder")
    top.press("echo", "Space", "later", "C-s")
    top.shows("queued at position 2")
    top.press("x")
    top.shows("which task?", "make all")
    top.press("Enter")
    top.shows("cancel it")
    top.press("Enter")
    until(lambda: "canceled" in team.types("builder"))
    until(lambda: "result" in team.types("builder"))


def test_a_daemon_that_dies_is_found_again_and_meanwhile_the_files_are_shown(team):
    for agent in ("builder", "tester"):
        asked(team, "agent", "delete", agent, "--force", "--yes")
    asked(team, "daemon", "stop")
    top = Top(team)
    top.shows("no daemon answers")
    asked(team, "daemon", "start")
    asked(team, "agent", "create", "late", "--role", "r", "--engine", "shell")
    screen = top.shows("late", "1 agent")
    assert "no daemon" not in screen


def test_a_top_that_is_killed_leaves_nothing_and_the_team_works_on(team):
    top = Top(team)
    top.shows("builder")
    pid = top.pid
    os.kill(pid, signal.SIGKILL)
    until(lambda: top.server.show(top.pane, "#{pane_dead}") == "1")
    assert [command for command in team.processes().values() if command.endswith(" top ")] == []
    assert asked(team, "status")["live"]


def test_enter_shows_the_pane_of_the_agent_zoomed_and_the_prefix_comes_back(team):
    top = Top(team)
    top.shows("builder")
    outer = PrivateServer()
    client = ["tmux", "-u", *team.server.socket.flags(), "attach", "-t", "top"]
    outer.run("new-session", "-d", "-x", "80", "-y", "25", "--", "env", "-u", "TMUX", *client)
    try:
        until(lambda: "help" in outer.run("capture-pane", "-p"))
        outer.run("send-keys", "Enter")
        # top shows the agent's screen too: its pane is there when top's own first line is gone.
        until(lambda: "$ echo building" in (text := outer.run("capture-pane", "-p")) and "2 agents" not in text)
        outer.run("send-keys", "C-b", "L")
        until(lambda: "2 agents" in outer.run("capture-pane", "-p"))
    finally:
        outer.run("kill-server")


def test_without_a_terminal_or_below_an_agent_top_is_refused(team):
    done = team.cli("top")
    assert done.returncode == 2
    assert "terminal" in done.stderr
    assert asked(team, "top")["agents"][0]["agent_id"] == "builder"
    env = {**team.env, "ORCHESTRATOR_AGENT_ID": "builder"}
    assert json.loads(team.cli("top", "--json", env=env).stdout)["error"]["code"] == "not_for_agents"
    asked(team, "task", "add", "tester", "orchestrator top --json >out.json", "--id", "spy", "--wait", status=1)
    assert json.loads((Path(team.root) / "out.json").read_text())["error"]["code"] == "not_for_agents"
    done = team.cli("top", "--popup", "--json")
    assert done.returncode in (0, 2)


def test_keys_of_the_users_configuration_count_and_mistakes_are_reported_at_the_start(team):
    config = team.home / ".config" / "orchestrator" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[top.keys]\nquit = "f10"\n')
    top = Top(team)
    top.shows("builder")
    top.press("q")
    top.shows("q does nothing")
    top.press("F10")
    until(lambda: top.server.show(top.pane, "#{pane_dead}") == "1")
    config.write_text('[top.keys]\nquitt = "f10"\n')
    with Human(team, "top") as human:
        assert human.end() == 2
        assert "did you mean 'quit'" in human._look()
