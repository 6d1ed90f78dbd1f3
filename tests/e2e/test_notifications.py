"""A person who looks elsewhere in tmux is told that a real CLI asks, and that the work has ended."""

from __future__ import annotations

import json
import sys

import pytest

from tests.e2e import test_approvals_claude, test_approvals_codex
from tests.e2e.agent import QUICK, Agent
from tests.e2e.world import START_S
from tests.support.faces import open_face
from tests.support.stage import lines_of, until
from tests.support.tmux_server import PrivateServer

SHELL = {"claude": test_approvals_claude.shell, "codex": test_approvals_codex.shell}
KEEPS_STDIN = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"


@pytest.mark.parametrize("cli", ["claude", "codex"])
def test_a_question_and_the_end_are_told_in_tmux_and_to_the_users_command(make_world, cli):
    world = make_world(cli, config=QUICK)
    told = world.stage.home / "told"
    settings = world.stage.home / ".config" / "orchestrator" / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    argv = json.dumps([sys.executable, "-c", KEEPS_STDIN, str(told)])
    settings.write_text(f'notify = ["tmux", "command"]\nnotify_command = {argv}\n')
    agent = Agent(world, "ada")
    desk = PrivateServer()
    inner = world.stage.server
    try:
        session = inner.run("list-sessions", "-F", "#{session_name}").split("\n")[0]
        attach = ["tmux", "-L", str(inner.socket.name), "attach", "-t", session]
        desk.run("new-session", "-d", "-x", "160", "-y", "45", "--", "env", "-u", "TMUX", *attach)
        until(lambda: inner.run("list-clients"), START_S)
        with open_face(world.stage) as face:
            agent.give("t1", calls=[SHELL[cli](f"touch {world.root}/made")], tell=True)
            asked = face.item("touch", START_S)
            until(lambda: "orchestrator attach ada" in desk.run("capture-pane", "-p"), START_S)
            assert inner.run("show-options", "-qv", "-t", f"={session}:", "@orchestrator_needs") == "1"
            face.answer(asked, "approve")
        agent.end("t1")
        until(lambda: "all tasks have ended: 1" in desk.run("capture-pane", "-p"), START_S)
        until(lambda: len(lines_of(told)) == 2, START_S)
    finally:
        desk.end()
    first, last = [message["notices"] for message in lines_of(told)]
    assert [(notice["kind"], notice["item"]) for notice in first] == [("needs_human", asked["id"])]
    assert [notice["kind"] for notice in last] == ["all_done"]
    assert inner.run("show-options", "-qv", "-t", f"={session}:", "@orchestrator_needs") == ""
