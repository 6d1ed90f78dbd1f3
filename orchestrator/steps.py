"""Named steps in the life of tasks and agents, at which the crash tests kill a process: nothing in normal use.

A crash matrix that waits for the right moment proves little; here each step is reached for certain. With
``ORCHESTRATOR_KILL_AT="<step>=<file>"`` the first process that passes the step renames the file (so it happens
once, also when the next daemon inherits the variable) and kills the pid written in it, or itself for ``self``.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "ORCHESTRATOR_KILL_AT"
_STEP, _, _FILE = os.environ.get(VARIABLE, "").partition("=")


def passed(step: str) -> None:
    """Say that the step has been reached; returns at once unless a test waits for it."""
    if _STEP and step == _STEP:
        _kill()


def _kill() -> None:
    taken = f"{_FILE}.{os.getpid()}"
    try:
        os.rename(_FILE, taken)
    except OSError:
        return  # somebody was here before
    with open(taken, encoding="ascii") as file:
        target = file.read().strip()
    os.kill(os.getpid() if target == "self" else int(target), signal.SIGKILL)
