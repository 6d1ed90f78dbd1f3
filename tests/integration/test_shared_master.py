"""A master whose CLI shares one background process among panes (Codex): its pane is not guessed."""

import os
import subprocess
import sys

import pytest

from orchestrator.base.errors import CODES, Environment
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.engines import table
from orchestrator.team.panes import master_pane
from tests.support.tmux_server import private_server

__all__ = ["private_server"]


@pytest.fixture
def background():
    """A process that looks like Codex's, and is in no pane."""
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    made = subprocess.Popen(
        [sys.executable, "-c", code, "/opt/bin/codex", "app-server", "--listen"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert made.stdout.readline() == b"up\n"
    yield made.pid
    made.communicate()


@pytest.mark.tmux
def test_the_pane_of_a_shared_background_process_is_refused_not_guessed(private_server, background):
    pane, pid = private_server.start(), int(private_server.show("user", "#{pane_pid}"))
    socket = private_server.socket
    with pytest.raises(Environment) as refused:
        master_pane.pane_of(socket, ConnectionOrigin("c", "/", tmux_pane=pane, pids=(background,)))
    assert refused.value.code == "pane_unknown" and "app-server" in refused.value.message
    # Its ancestry says nothing either: that is the pane in which the first of its CLIs was started.
    with pytest.raises(Environment):
        master_pane.pane_of(socket, ConnectionOrigin("c", "/", tmux_pane="%99", pids=(background, pid)))
    # Any other process is found by its ancestry, and may name its pane by the environment.
    assert (
        master_pane.pane_of(socket, ConnectionOrigin("c", "/", tmux_pane=pane, pids=(os.getpid(), pid))).pane_id
        == pane
    )


def test_codex_is_the_row_that_says_so():
    assert [row.name for row in table.ENGINES.values() if row.shared_process] == ["codex"]
    assert CODES["pane_unknown"][0] is Environment
