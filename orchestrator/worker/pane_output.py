"""Writes to the worker's pane: what commands print, our own lines, and what the worker does now.

Touches our stdout only. The standard library only.
"""

from __future__ import annotations

import os
import queue
import re
import threading

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
TITLE_MAX = 120
_CLEAR_LINE = b"\r\x1b[2K"


class PaneOutput:
    """Writes to our stdout from a thread, so that a pane stopped with Ctrl-S does not stop the reports."""

    def __init__(self, fd: int = 1) -> None:
        self._fd = fd
        self._chunks: queue.Queue[bytes | None] = queue.Queue(maxsize=256)
        self._thread = threading.Thread(target=self._write, name="pane", daemon=True)
        self._thread.start()
        self._fresh = True  # the cursor stands at the start of a line
        self._terminal = os.isatty(fd)
        self._color = self._terminal and "NO_COLOR" not in os.environ
        self._last_line = ""  # shown on the last line until something else is written

    def put(self, chunk: bytes, timeout: float | None = None) -> bool:
        """Queue raw bytes; False if there was no room within ``timeout`` seconds (None: do not wait)."""
        try:
            self._chunks.put(chunk, block=timeout is not None, timeout=timeout)
        except queue.Full:
            return False
        self._fresh = chunk.endswith(b"\n")
        return True

    def say(self, text: str, style: str = "2") -> None:
        """Print our text on a new line, with control characters replaced."""
        line = self._styled("\n".join(CONTROL.sub("�", line) for line in text.split("\n")), style)
        if self._last_line:
            begin, end = _CLEAR_LINE, self._styled(self._last_line, "2")
        else:
            begin, end = (b"" if self._fresh else b"\n"), ""
        self.put(begin + f"{line}\n{end}".encode("utf-8", "replace"))

    def typed(self) -> None:
        """Note that the terminal has echoed a key: our next text begins on a line of its own."""
        self._fresh = self._fresh and not self._terminal

    def now(self, title: str, last_line: str = "") -> None:
        """Show what the worker does: as the pane's title, and in a short last line that the next output replaces.

        Does nothing where no terminal is.
        """
        if not self._terminal:
            return
        begin = _CLEAR_LINE if self._last_line else b"" if self._fresh else b"\n"
        self._last_line = last_line
        title = CONTROL.sub(" ", " ".join(title.split()))[:TITLE_MAX]
        shown = f"\x1b]2;{title}\x07{self._styled(last_line, '2') if last_line else ''}"
        self.put(begin + shown.encode("utf-8", "replace"))
        self._fresh = not last_line

    def _styled(self, text: str, style: str) -> str:
        return f"\x1b[0m\x1b[{style}m{text}\x1b[0m" if self._color else text

    def close(self, wait_s: float = 2.0) -> None:
        """Write the queued output, for at most ``wait_s`` seconds."""
        if self.put_end(wait_s):
            self._thread.join(wait_s)

    def put_end(self, wait_s: float) -> bool:
        try:
            self._chunks.put(None, timeout=wait_s)
        except queue.Full:
            return False
        return True

    def _write(self) -> None:
        while (chunk := self._chunks.get()) is not None:
            view = memoryview(chunk)
            try:
                while view:
                    view = view[os.write(self._fd, view) :]
            except OSError:
                continue  # the pane is gone; the command's artifact still gets everything
