"""`orchestrator top` in a real tmux, over a real team: widths, keys, a dead daemon, kill -9, a pane to go to."""

import itertools
import json
import os
import re
import shlex
import signal
import struct
import sys
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import pytest

from orchestrator.base.text_width import columns_of
from orchestrator.cli.top import popup_words
from tests.security.human import Human
from tests.support.stage import alive, until
from tests.support.tmux_server import PrivateServer
from tests.support.top_terminal import Top

pytestmark = pytest.mark.tmux


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
    for key, text in (("2", "task:       t1"), ("4", "building"), ("6", "outbox.jsonl"), ("T", "h/l move")):
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
    top.shows("late", "1 agent")
    until(lambda: "no daemon" not in "\n".join(top.lines()))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_top_that_is_told_to_end_gives_the_terminal_back_as_it_was(team, number):
    top = Top(team)
    top.shows("builder")
    modes = "#{alternate_on}#{mouse_any_flag}"
    assert top.server.show(top.pane, modes) == "11"
    os.kill(top.pid, number)
    until(lambda: top.server.show(top.pane, "#{pane_dead}") == "1")
    assert top.server.show(top.pane, modes) == "00"


def test_a_top_whose_terminal_is_gone_ends(team):
    top = Top(team)
    top.shows("builder")
    pid = top.pid
    top.server.run("kill-session", "-t", "top")
    until(lambda: not alive(pid))


def test_a_top_that_is_killed_leaves_nothing_and_the_team_works_on(team):
    top = Top(team)
    top.shows("builder")
    pid = top.pid
    os.kill(pid, signal.SIGKILL)
    until(lambda: top.server.show(top.pane, "#{pane_dead}") == "1")
    assert [command for command in team.processes().values() if command.endswith(" top ")] == []
    assert asked(team, "status")["live"]


def test_top_ends_when_its_terminal_is_lost_while_nobody_reads_what_it_draws(team):
    """Textual would wait for ever for its thread that writes: for a popup of a tmux that is killed."""
    with Human(team, "top") as human:
        human.see("2 agents")
        widths = itertools.count(100)
        until(lambda: ioctl(human.fd, TIOCSWINSZ, struct.pack("4H", 50, width := next(widths), 0, 0)) and width > 160)
        [pid] = [pid for pid, command in team.processes().items() if re.fullmatch(r"\S*python\S* .* top ", command)]
        human.hang_up()
        until(lambda: not alive(pid))


class Person:
    """A terminal in which a person sits: a tmux of its own around a client of the team's."""

    def __init__(self, *command, width=80, height=25, **env):
        self.outer = PrivateServer()
        words = [word for name, value in env.items() for word in ("-e", f"{name}={value}")]
        size = ["-x", str(width), "-y", str(height)]
        self.outer.run("new-session", "-d", *size, *words, "--", "env", "-u", "TMUX", "-u", "TMUX_PANE", *command)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.outer.end()  # it may have ended with its command

    def sees(self, text, but="\0"):
        until(lambda: text in (screen := self.outer.run("capture-pane", "-p")) and but not in screen)

    def press(self, *keys):
        self.outer.run("send-keys", *keys)


def bindings(team):
    return "orchestrator-top" in team.server.run("list-keys")


def zoomed(team):
    pane = asked(team, "agent", "show", "builder")["meta"]["tmux_pane_id"]
    return team.server.show(pane, "#{window_zoomed_flag}") == "1"


THERE = ("$ echo building", "2 agents")
"""top shows the agent's screen too: a person is in its pane when top's own first line is gone."""


def test_enter_shows_the_pane_zoomed_and_escape_as_the_first_key_comes_back(team):
    top = Top(team)
    top.shows("builder")
    before = zoomed(team)
    with Person("tmux", "-u", *team.server.socket.flags(), "attach", "-t", "top") as person:
        person.sees("help")
        person.press("Enter")
        person.sees(*THERE)
        assert zoomed(team)
        person.press("Escape")
        person.sees("2 agents")
        until(lambda: zoomed(team) == before)
        assert not bindings(team)
        person.press("Enter")
        person.sees(*THERE)
        person.press("x")  # this and all that follow are the pane's own
        until(lambda: team.server.run("list-clients", "-F", "#{client_key_table}").strip() == "root")
        person.sees(*THERE)
        person.press("C-b", "L")
        person.sees("2 agents")
        person.press("q")
        until(lambda: not bindings(team))


def test_escape_in_the_pane_opens_the_popup_again(team):
    team.server.run("new-session", "-d", "-s", "desk", "-x", "80", "-y", "24", "-c", str(team.root), "--", "cat")
    for name, value in team.env.items():
        team.server.run("set-environment", "-g", name, value)
    with Person("tmux", "-u", *team.server.socket.flags(), "attach", "-t", "desk") as person:
        until(lambda: team.server.run("list-clients"))
        team.server.run("run-shell", "-b", shlex.join(["tmux", *team.server.socket.flags(), *popup_words(team.root)]))
        person.sees("2 agents")
        person.press("Enter")
        person.sees(*THERE)
        person.press("Escape")
        person.sees("2 agents")
        person.press("q")
        person.sees("[desk]", but="2 agents")


def test_a_terminal_outside_of_tmux_is_given_to_the_pane_and_escape_comes_back(team):
    command = [sys.executable, "-P", "-m", "orchestrator", "-C", str(team.root), "top"]
    with Person(*command, **team.env) as person:
        person.sees("2 agents")
        person.press("Enter")
        person.sees(*THERE)
        person.press("Escape")
        person.sees("back from builder")
        person.press("q")
        until(lambda: not bindings(team))


def test_without_a_terminal_or_below_an_agent_top_is_refused(team):
    done = team.cli("top")
    assert done.returncode == 2
    assert "terminal" in done.stderr
    assert asked(team, "top")["agents"][0]["agent_id"] == "builder"
    env = {**team.env, "ORCHESTRATOR_AGENT_ID": "builder"}
    assert json.loads(team.cli("top", "--json", env=env).stdout)["error"]["code"] == "not_for_agents"
    asked(team, "task", "add", "tester", "orchestrator top --json >out.json", "--id", "spy", "--wait", status=1)
    assert json.loads((Path(team.root) / "out.json").read_text())["error"]["code"] == "not_for_agents"
    team.env["TERM"] = "dumb"
    with Human(team, "top") as human:
        assert human.end() == 2
    assert asked(team, "top", "--popup")["agents"], "with --json no popup is opened"
    done = team.cli("top", "--popup", env={name: value for name, value in team.env.items() if name != "TMUX"})
    assert (done.returncode, "needs tmux" in done.stderr) == (2, True)


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


def test_a_pasted_task_arrives_as_it_was_and_none_of_it_is_a_key(team, tmp_path):
    top = Top(team, 100, 40)
    top.shows("builder")
    text = f"echo one # {'y' * 100_000}\n\x1b[31mecho two\x1ba\x13\necho three"
    (tmp_path / "text").write_text(text)
    top.server.run("load-buffer", str(tmp_path / "text"))
    # From 3.7 on tmux itself replaces control characters, unless told not to.
    raw = ["-S"] if "[-dprS]" in top.server.run("list-commands", "paste-buffer") else []
    top.server.run("paste-buffer", "-p", *raw, "-t", top.pane)  # where nothing takes text: nothing happens
    top.press("t")
    top.shows("new task for builder")
    top.server.run("paste-buffer", "-p", *raw, "-t", top.pane)
    top.shows("echo three")
    top.press("C-s")
    top.shows("queued at position 2")
    payload = [record["payload"] for record in team.records("builder", "inbox") if record["type"] == "task"][-1]
    assert payload["command"] == text.replace("\x1b", "\u241b")
