"""Pasting into a real pane: what the program reads, and that a human's scroll, selection and panes stay theirs."""

import sys

import pytest

from orchestrator.tmux import panes, paste, screen_capture
from orchestrator.tmux.screen_capture import PaneTag
from tests.support.tmux_server import private_server, until

pytestmark = pytest.mark.tmux

__all__ = ["private_server"]

WHOSE = PaneTag("a1", "run-1")
# A CLI's input line: raw mode, bracketed paste, everything it reads kept as it came.
READER = """
import os, sys, tty
tty.setraw(0)
os.write(1, b"\\x1b[?2004h> ")
with open(sys.argv[1], "ab", buffering=0) as log:
    log.write(b"ready;")
    while data := os.read(0, 4096):
        log.write(data)
        os.write(1, data.replace(b"\\x1b", b""))
"""
LINE = 'You are agent a1; call wait_for_command now. It\'s "yours"; #{pane_id} $HOME ; é'


@pytest.fixture
def scene(private_server, tmp_path):
    """A server with a user's pane, and beside it one of ours whose program keeps what it reads."""
    user = private_server.start()
    log = tmp_path / "log"
    script = tmp_path / "reader.py"
    script.write_text(READER)
    words = ["split-window", "-d", "-t", user, "-P", "-F", "#{pane_id}", "--", sys.executable, str(script), str(log)]
    ours = private_server.run(*words)
    panes.tag(private_server.socket, ours, *WHOSE, 1)
    until(lambda: log.exists() and log.read_bytes() == b"ready;")
    # What the program has written, tmux may not have read; only then it knows of bracketed paste.
    until(lambda: panes.capture(private_server.socket, ours, 5) == [">"])
    private_server.log, private_server.user, private_server.ours = log, user, ours
    return private_server


def read(scene):
    return scene.log.read_bytes().removeprefix(b"ready;")


def buffers(scene):
    return scene.run("list-buffers")


def test_a_line_arrives_as_one_paste_and_is_submitted_by_one_return(scene):
    assert paste.paste(scene.socket, scene.ours, WHOSE, LINE)
    pasted = b"\x1b[200~" + LINE.encode() + b"\x1b[201~"
    until(lambda: read(scene) == pasted)
    assert paste.submit(scene.socket, scene.ours, WHOSE)
    until(lambda: read(scene) == pasted + b"\r")
    assert buffers(scene) == ""
    assert LINE not in "\n".join(panes.capture(scene.socket, scene.user, 50))


def test_the_users_own_buffers_stay(scene):
    scene.run("set-buffer", "-b", "mine", "text of the user")
    paste.paste(scene.socket, scene.ours, WHOSE, LINE)
    paste.submit(scene.socket, scene.ours, WHOSE)
    assert scene.run("list-buffers", "-F", "#{buffer_name} #{buffer_sample}") == "mine text of the user"


def test_copy_mode_is_left_as_it_is_and_the_line_still_arrives(scene):
    scene.run("copy-mode", "-t", scene.ours)
    assert paste.paste(scene.socket, scene.ours, WHOSE, LINE)
    assert paste.submit(scene.socket, scene.ours, WHOSE)
    until(lambda: read(scene).endswith(b"\r"))
    assert scene.show(scene.ours, "#{pane_in_mode}") == "1"


@pytest.mark.parametrize("keys", [["begin-selection"], ["begin-selection", "cursor-left"], ["select-line"]])
def test_nothing_is_pasted_while_a_human_selects_text(scene, keys):
    scene.run("copy-mode", "-t", scene.ours)
    for key in keys:
        scene.run("send-keys", "-X", "-t", scene.ours, key)
    assert not paste.paste(scene.socket, scene.ours, WHOSE, LINE)
    assert not paste.submit(scene.socket, scene.ours, WHOSE)
    assert (read(scene), buffers(scene)) == (b"", "")
    scene.run("send-keys", "-X", "-t", scene.ours, "clear-selection")
    assert paste.paste(scene.socket, scene.ours, WHOSE, LINE)


@pytest.mark.parametrize(
    ("present", "active", "free"),
    [
        ("", "", True),  # not in copy mode
        ("0", "0", True),
        ("1", "0", False),  # up to 3.4 as long as there is a selection; from 3.5 once it holds a letter
        ("0", "1", False),  # 3.5 to 3.7: a selection just begun
        ("1", "1", False),
    ],
)
def test_a_selection_is_seen_in_the_words_of_each_version(scene, present, active, free):
    condition = paste.UNSELECTED.replace("selection_present", "@present").replace("selection_active", "@active")
    for name, value in (("@present", present), ("@active", active)):
        scene.run("set-option", "-p", "-t", scene.ours, name, value)
    assert scene.show(scene.ours, condition) == ("1" if free else "0")


@pytest.mark.parametrize("whose", [PaneTag("a2", "run-1"), PaneTag("a1", "run-2"), PaneTag("", "")])
def test_a_pane_that_is_not_the_agents_gets_nothing(scene, whose):
    assert not paste.paste(scene.socket, scene.ours, whose, LINE)
    assert not paste.paste(scene.socket, scene.user, whose, LINE)
    assert (read(scene), buffers(scene)) == (b"", "")


def test_a_pane_or_a_server_that_is_gone_is_no_error(scene):
    scene.run("kill-pane", "-t", scene.ours)
    assert not paste.paste(scene.socket, scene.ours, WHOSE, LINE)
    assert buffers(scene) == ""
    scene.run("kill-server")
    assert not paste.submit(scene.socket, scene.ours, WHOSE)


def test_a_dead_pane_gets_nothing(scene):
    scene.run("set-option", "-p", "-t", scene.ours, "remain-on-exit", "on")
    scene.run("respawn-pane", "-k", "-t", scene.ours, "--", "env", "true")
    until(lambda: scene.show(scene.ours, "#{pane_dead}") == "1")
    assert not paste.paste(scene.socket, scene.ours, WHOSE, LINE)
    assert buffers(scene) == ""


def test_any_pane_can_be_looked_at(scene):
    paste.paste(scene.socket, scene.ours, WHOSE, "hello")
    screen = until(
        lambda: (s := screen_capture.look_at(scene.socket, scene.ours)).lines and "hello" in s.lines[0] and s
    )
    assert screen.cursor_y == 0
    assert not screen.dead
    assert screen_capture.look_at(scene.socket, scene.user).lines == ()


SHOWN = ("Bash command", "rm 'a b' {x,y} #{z} §é", "Do you want to proceed?")


def test_a_key_is_pressed_only_while_every_line_of_the_dialog_is_shown(scene):
    assert not paste.press(scene.socket, scene.ours, WHOSE, "1", SHOWN)
    for line in SHOWN:
        assert paste.press(scene.socket, scene.ours, WHOSE, f"{line}\r\n", ())
    until(lambda: "proceed" in "".join(panes.capture(scene.socket, scene.ours, 50)))
    before = read(scene)
    assert paste.press(scene.socket, scene.ours, WHOSE, "1", SHOWN)
    until(lambda: read(scene) == before + b"1")
    for other in (*SHOWN, "rm -rf /"), ("rm 'a b' {x,y} #{z} §é and more",), ("Do you want to stop?",):
        assert not paste.press(scene.socket, scene.ours, WHOSE, "2", other)
    assert not paste.press(scene.socket, scene.ours, PaneTag("a2", "run-1"), "2", SHOWN)
    assert not paste.press(scene.socket, scene.user, WHOSE, "2", SHOWN)
    assert read(scene) == before + b"1"
    assert buffers(scene) == ""


def test_a_key_reaches_the_program_while_a_human_has_scrolled_back(scene):
    assert paste.paste(scene.socket, scene.ours, WHOSE, "Do you want to proceed?")
    until(lambda: "proceed" in "".join(panes.capture(scene.socket, scene.ours, 50)))
    scene.run("copy-mode", "-t", scene.ours)
    before = read(scene)
    assert paste.press(scene.socket, scene.ours, WHOSE, "1", ("Do you want to proceed?",))
    until(lambda: read(scene) == before + b"1")
