"""What a command says when Ctrl-C ends it while the daemon goes on. Writes stderr only."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from orchestrator.cli import output


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
