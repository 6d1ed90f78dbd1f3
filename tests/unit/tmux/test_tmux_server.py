"""What tmux's sentences mean, in the words of every version from 3.3 to 3.7."""

from __future__ import annotations

import subprocess

import pytest

from orchestrator.tmux import tmux_server
from orchestrator.tmux.server_address import TmuxSocket
from orchestrator.tmux.tmux_server import Tmux, failure


@pytest.mark.parametrize(
    "sentence",
    [
        "no space for new pane",  # up to 3.6, cmd-split-window.c
        "size or position no space for a new pane",  # 3.7: the same, with the cause of layout.c
    ],
)
def test_a_pane_too_small_to_split_is_no_room_in_every_version(sentence: str) -> None:
    assert failure(sentence).code == "no_room"


@pytest.mark.parametrize(
    "sentence",
    [
        "size or position can't split a floating pane",
        "size or position invalid tiled geometry",
        "create pane failed: fork failed: Resource temporarily unavailable",
        "size too small or too big",
        "",
    ],
)
def test_other_refusals_are_not_taken_for_a_lack_of_room(sentence: str) -> None:
    assert failure(sentence).code == "tmux_failed"
    assert not failure(sentence).facts


@pytest.mark.parametrize("sentence", ["can't find pane: %7", "can't find window: @3", "no current target"])
def test_what_does_not_exist_is_missing(sentence: str) -> None:
    assert failure(sentence).facts == {"missing": True}


@pytest.mark.parametrize(
    "sentence",
    [
        "no server running on /tmp/tmux-0/x",
        "error connecting to /tmp/tmux-0/x (No such file or directory)",
        "lost server",
        "server exited unexpectedly",
    ],
)
def test_a_server_that_does_not_run_is_gone(sentence: str) -> None:
    assert failure(sentence).facts == {"server_gone": True}


def test_commands_of_libtmuxs_objects_go_the_way_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    # libtmux has no cap: a version whose objects call something else than `Server.cmd` must be noticed here.
    sent: list[list[str]] = []

    def answer(argv: list[str]) -> subprocess.CompletedProcess[str]:
        sent.append(list(argv))
        return subprocess.CompletedProcess(argv, 0, "a\nb\n", "")

    monkeypatch.setattr(tmux_server, "invoke", answer)
    server = Tmux(TmuxSocket(name="x", config="/dev/null"))
    before = ["tmux", "-u", "-L", "x", "-f", "/dev/null"]
    for it, target in ((server.pane("%7"), "%7"), (server.window("@3"), "@3")):
        assert it.cmd("show-options", "-v", "a;").stdout == ["a", "b"]
        assert sent.pop() == [*before, "show-options", "-t", target, "-v", "a\\;"]
    assert sent == []
