"""The program ``tmux`` on PATH and its version, for commands that call tmux themselves. Imports no libtmux."""

from __future__ import annotations

import shutil
import subprocess

from orchestrator.base.errors import Environment
from orchestrator.tmux.server_address import refuse_old

ANSWER_S = 10.0


def installed() -> tuple[str, str]:
    """The path of ``tmux`` and what it says of its version; Environment ``no_tmux`` without a usable one."""
    program = shutil.which("tmux")
    if program is None:
        raise Environment("no_tmux", "tmux is not installed")
    try:
        done = subprocess.run([program, "-V"], capture_output=True, text=True, timeout=ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Environment("no_tmux", f"{program} does not run: {error}") from error
    shown = done.stdout.strip()
    refuse_old(shown)
    return program, shown
