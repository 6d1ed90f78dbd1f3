"""Runs a program in the terminal that a face has given away, and waits for its end. Ctrl-C is the program's alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def in_foreground(command: Sequence[str], cwd: Path, *, pause: bool = False) -> int:
    """The exit status of the program; with ``pause`` a person presses Enter before the face comes back."""
    before = signal.signal(signal.SIGINT, lambda *_: None)  # a function, not SIG_IGN: that would be inherited
    try:
        code = subprocess.run(list(command), cwd=cwd, check=False).returncode
        if pause:
            sys.stdout.write(f"\n-- exit {code}; Enter: back to top ")
            sys.stdout.flush()
            try:
                sys.stdin.readline()
            except (OSError, ValueError):
                return code
    finally:
        signal.signal(signal.SIGINT, before)
    return code
