"""A human at a terminal: a program of the product on a pseudo terminal of its own, what it shows, what is typed."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import struct
import subprocess
import sys
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ
from typing import Any, Self

from tests.support.stage import alive, until

# As a human's shell: no child of the tests, with the terminal it gets. The last line it writes is how it ended.
SHELL = """
import fcntl, os, sys, termios
if os.fork():
    os._exit(0)
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
os.execvp("sh", ["sh", "-c", 'trap : INT; "$@"; echo "ended with $?"', "shell", *sys.argv[2:]])
"""
OURS = (sys.executable, "-P", "-m", "orchestrator")
ENDED = re.compile(rb"ended with (\d+)\r?\n")


class Human:
    """One command at a terminal of ``columns``; ``raw`` is every byte that the terminal got. ``ours``: what runs it."""

    def __init__(self, stage: Any, *args: str, columns: int = 100, ours: tuple[str, ...] = OURS) -> None:
        self.fd, slave = os.openpty()
        ioctl(slave, TIOCSWINSZ, struct.pack("4H", 40, columns, 0, 0))
        self.raw = b""
        self._pid_file = Path(stage.base, f"shell-{os.getpid()}-{self.fd}.pid")
        self._pid_file.unlink(missing_ok=True)
        try:
            subprocess.run(
                [sys.executable, "-IS", "-c", SHELL, str(self._pid_file), *ours, *args],
                stdin=slave, stdout=slave, stderr=slave, env=stage.env, cwd=stage.root, start_new_session=True,
                check=True, timeout=60,
            )  # fmt: skip
        finally:
            os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pid = int(until(lambda: self._pid_file.exists() and self._pid_file.read_text()))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        until(lambda: not alive(pid))
        self.hang_up()

    def hang_up(self) -> None:
        """Close the terminal, as when its window or its connection is gone; harmless twice."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def see(self, text: str) -> str:
        """Wait until the terminal shows that; all it has shown so far."""
        return until(lambda: self._look() if text.encode() in self.raw else self._look() and None)

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.fd, text.encode())

    def end(self) -> int:
        """Wait until the command has ended; its exit status."""
        return int(until(lambda: self._look() and ENDED.search(self.raw))[1])

    def _look(self) -> str:
        while select.select([self.fd], [], [], 0.05)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:  # nobody has it open any more
                break
            if not data:
                break
            self.raw += data
        return self.raw.decode(errors="replace").replace("\r\n", "\n")
