"""Ctrl-C during a command: when it takes effect, and what the command says if the daemon goes on."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator

from orchestrator.cli import output


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Ctrl-C inside the block takes effect at its end, a second Ctrl-C at once."""
    interrupted = False

    def note(_number: int, _frame: object) -> None:
        nonlocal interrupted
        if interrupted:
            raise KeyboardInterrupt
        interrupted = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted:
        raise KeyboardInterrupt


@contextlib.contextmanager
def says(what: str, *steps: str) -> Iterator[Callable[..., None]]:
    """Ctrl-C inside the block prints what goes on and how to stop or follow it; then the interrupt goes on.

    The block gets a function that takes the lines to print from then on instead of these.
    """
    lines = (what, *steps)

    def instead(what: str, *steps: str) -> None:
        nonlocal lines
        lines = (what, *steps)

    try:
        yield instead
    except KeyboardInterrupt:
        after_echo = "\n" if sys.stderr.isatty() else ""  # the terminal has written ^C
        output.warn(after_echo + "\n  ".join(lines))
        raise
