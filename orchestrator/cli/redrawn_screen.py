"""The terminal's other screen, redrawn in place until Ctrl-C. Writes to stdout, which must be a terminal."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any, Self

from orchestrator.cli import output

TOP, TO_LINE_END, TO_SCREEN_END, CLEAR = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[2J"
OPEN, CLOSE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""The terminal's other screen without a cursor, and back to what was there before."""


class RedrawnScreen:
    """A context manager; SIGTERM and SIGHUP end it as Ctrl-C does, so that the terminal is put back as it was."""

    def __init__(self) -> None:
        self._resized = threading.Event()
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGWINCH, lambda *_: self._resized.set())
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
        sys.stdout.write(OPEN + CLEAR)
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.write(CLOSE)
        sys.stdout.flush()
        signal.signal(signal.SIGWINCH, self._before)

    def show(self, lines: Sequence[str]) -> None:
        """Show these lines, at least one, in place of what was shown before."""
        # One write, and nothing is cleared before it is written over: no flicker.
        *above, last = map(output.encodable, lines)
        text = "".join(f"{line}{TO_LINE_END}\r\n" for line in above)
        sys.stdout.write(TOP + text + last + TO_LINE_END + TO_SCREEN_END)
        sys.stdout.flush()

    def wait(self, seconds: float) -> None:
        """Wait that long, or until the terminal has another size."""
        if self._resized.wait(seconds):
            self._resized.clear()
            sys.stdout.write(CLEAR)
