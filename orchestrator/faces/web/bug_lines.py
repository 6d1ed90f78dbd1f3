"""What a bug in the web pages leaves: a line on the terminal, and an error without details for the page."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

from orchestrator.base.errors import Environment
from orchestrator.faces.web.rate_limits import RateLimit

PACKAGE = Path(__file__).parents[2]


class BugLines:
    """Notes bugs. A page that is tried again and again writes one line a minute for each place."""

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        self._write = write or _on_stderr
        self._lines = RateLimit(rate=1 / 60, burst=1.0)

    def note(self, error: Exception) -> Environment:
        """Write the error's class and place; the error for the page.

        Never the error's own text: it may hold a secret, or what acts on a terminal.
        """
        place = place_of(error)
        if self._lines.take((type(error), place), time.monotonic()):
            self._write(f"orchestrator web: a bug, please report it: {type(error).__name__} at {place}\n")
        return bug()


def bug() -> Environment:
    """The error that a page shows for a bug."""
    return Environment("internal", "a bug in orchestrator web", "please report the line in its terminal")


def place_of(error: BaseException) -> str:
    """Where an error was raised: the last line of this package that took part, else the last one of all."""
    last, ours = "?", ""
    trace = error.__traceback__
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        last = f"{file.name}:{trace.tb_lineno}"
        if file.is_relative_to(PACKAGE):
            ours = f"{file.relative_to(PACKAGE.parent)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return ours or last


def _on_stderr(line: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # the terminal may be gone
        sys.stderr.write(line)
        sys.stderr.flush()
