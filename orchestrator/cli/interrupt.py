"""What a command says when Ctrl-C ends it while the daemon goes on. Writes stderr only."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from orchestrator.cli import output


@contextlib.contextmanager
def says(what: str, *steps: str) -> Iterator[None]:
    """Ctrl-C inside the block prints what goes on and how to stop or follow it; then the interrupt goes on."""
    try:
        yield
    except KeyboardInterrupt:
        after_echo = "\n" if sys.stderr.isatty() else ""  # the terminal has written ^C
        output.warn(after_echo + "\n  ".join([what, *steps]))
        raise
