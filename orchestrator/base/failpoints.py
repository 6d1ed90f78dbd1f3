"""Named steps in the life of tasks and agents, at which the crash tests kill a process: nothing in normal use.

A crash matrix that waits for the right moment proves little; here each step is reached for certain. With
``ORCHESTRATOR_KILL_AT="<step>=<file>"`` the first process that passes the step renames the file (so it happens
once, also when the next daemon inherits the variable) and kills the pid written in it: ``self`` means itself, a
negative number a process group. With ``*=<directory>`` every step is looked for there, as a file of its name, so
that a test can choose the next step while the team lives.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

VARIABLE = "ORCHESTRATOR_KILL_AT"
_STEP, _, _FILE = os.environ.get(VARIABLE, "").partition("=")


def passed(step: str) -> None:
    """Say that the step has been reached; returns at once unless a test waits for it."""
    if _STEP == "*":
        _kill(Path(_FILE) / step)
    elif _STEP and step == _STEP:
        _kill(Path(_FILE))


def _kill(file: Path) -> None:
    own_name = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        target = file.read_text("ascii").strip()
        file.rename(own_name)
    except OSError:
        return  # somebody was here before
    os.kill(os.getpid() if target == "self" else int(target), signal.SIGKILL)
