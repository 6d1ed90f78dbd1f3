"""Show text and ask a question on the user's terminal; control characters are made visible.

Opens the controlling terminal itself: stdin and stdout may be pipes of a program that would answer.
"""

from __future__ import annotations

import os
import sys
import termios
from typing import Self

from orchestrator.base.errors import BadRequest
from orchestrator.base.text_width import pieces
from orchestrator.cli import output

ANSWER_MAX = 4096
NARROWEST = 20
FURTHER = "  > "
"""Before each further piece of a line that is too long for the terminal."""


class Terminal:
    """The controlling terminal of this process; a context manager. BadRequest ``trust_refused`` without one."""

    def __init__(self) -> None:
        try:
            self._fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            raise BadRequest("trust_refused", "this process has no terminal, so nobody can be asked") from None
        # In the background a question would stop the process, and the answer would be another program's input.
        if not self._in_front():
            os.close(self._fd)
            raise BadRequest("trust_refused", "this process is in the background, so nobody can be asked")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def show(self, text: str, indent: str = "") -> None:
        """The text line by line after ``indent``; the continuation of a long line is indented further.

        Control characters are made visible, and lines are broken here: a text must not look like a line of ours.
        """
        try:
            width = os.get_terminal_size(self._fd).columns
        except OSError:
            width = 80
        room = max(NARROWEST, (width or 80) - 1 - len(indent) - len(FURTHER))
        for line in text.split("\n"):
            first, *rest = pieces(output.printable(line), room)
            self._write("".join(f"{indent}{piece}\n" for piece in (first, *(FURTHER + part for part in rest))))

    def agreed(self, question: str) -> bool:
        """Ask; True only for ``y`` or ``yes``. What was typed before the question does not count."""
        sys.stdout.flush()
        try:
            termios.tcflush(self._fd, termios.TCIFLUSH)
        except termios.error:
            return False
        self._write(f"{output.printable(question)} [y/N] ")
        answer = b""
        while not answer.endswith(b"\n") and len(answer) < ANSWER_MAX:
            block = os.read(self._fd, ANSWER_MAX)
            if not block:
                self._write("\n")
                return False
            answer += block
        return answer.strip().lower() in (b"y", b"yes")

    def _in_front(self) -> bool:
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:
            return False

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        while data:
            data = data[os.write(self._fd, data) :]
