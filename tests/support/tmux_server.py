"""A private tmux server for tests (`tmux -L <unique> -f /dev/null`), ended with its socket file by the test."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from orchestrator.base.errors import Environment
from orchestrator.tmux.server_address import TmuxSocket
from orchestrator.tmux.servers import tmux

T = TypeVar("T")
BOUND = 40.0


def until(look: Callable[[], T | None], bound_s: float = BOUND) -> T:
    """The first true value of ``look``; fails after a bound that only a broken product reaches.

    A look that finds no row, key or file where it expects one has come too early, and looks again.
    """
    deadline = time.monotonic() + bound_s
    pause = threading.Event()
    while True:
        began = time.monotonic()
        early: Exception | None = None
        try:
            found = look()
            if found:
                return found
        except (LookupError, StopIteration, ValueError, OSError) as exc:
            early = exc
        now = time.monotonic()
        if now >= deadline:
            raise AssertionError("waited in vain") from early
        pause.wait(max(0.01, min(3 * (now - began), 0.3)))  # looking leaves the machine to what is looked at


class PrivateServer:
    """One server; ``run`` is tmux's own command line, the facts below are tmux's own words."""

    may_start = True  # in a test: whether it is marked; tests/conftest.py says so

    def __init__(self, name: str | None = None) -> None:
        self.socket = TmuxSocket(name=name or f"orchestrator-test-{uuid.uuid4().hex[:12]}", config="/dev/null")

    def run(self, *args: str) -> str:
        return tmux(self.socket).run(*args)

    def start(self, width: int = 220, height: int = 60, session: str = "user") -> str:
        """A detached session of one pane that shows what it is given; returns the pane's id."""
        assert self.may_start, "mark a test that starts a tmux itself: make tmux-matrix runs the marked ones"
        size = ["-x", str(width), "-y", str(height)]
        return self.run("new-session", "-d", "-s", session, *size, "-P", "-F", "#{pane_id}", "--", "env", "cat")

    def split(self, target: str, flag: str = "-h") -> str:
        """What a user does: a new pane, with focus."""
        return self.run("split-window", flag, "-t", target, "-P", "-F", "#{pane_id}", "--", "env", "cat")

    def show(self, target: str, text: str) -> str:
        return self.run("display-message", "-p", "-t", target, text)

    def panes(self, window: str) -> list[str]:
        return self.run("list-panes", "-t", window, "-F", "#{pane_id}").split("\n")

    def cells(self, window: str) -> dict[str, str]:
        """Size and place of each pane in window order."""
        form = "#{pane_id} #{pane_width}x#{pane_height}+#{pane_left}+#{pane_top}"
        return dict(line.split(" ") for line in self.run("list-panes", "-t", window, "-F", form).split("\n"))

    def path(self) -> Path:
        return Path(os.environ.get("TMUX_TMPDIR", "/tmp")) / f"tmux-{os.getuid()}" / str(self.socket.name)

    def end(self) -> None:
        try:
            self.run("kill-server")
        except Environment as error:
            if not error.facts.get("server_gone"):
                raise
        self.path().unlink(missing_ok=True)


@pytest.fixture
def private_server(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[PrivateServer]:
    """A server not yet started; a caller inside tmux does not show, and no file of the user is read.

    libtmux's own plugin names it and ends it, also when the test has already ended it or its socket file is left.
    """
    # COLORTERM too: what this terminal can do would be in every pane's environment.
    for name in ("TMUX", "TMUX_PANE", "TMUX_TMPDIR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    yield PrivateServer(request.getfixturevalue("TestServer")().socket_name)
