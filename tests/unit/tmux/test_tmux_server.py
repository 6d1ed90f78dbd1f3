"""What tmux's sentences mean, in the words of every version from 3.3 to 3.7."""

from __future__ import annotations

import pytest

from orchestrator.tmux.tmux_server import failure


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
