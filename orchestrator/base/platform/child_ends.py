"""The end of a child of this process, without taking note of it: the child stays a zombie, and keeps its pid.

Standard library only: the worker uses it.
"""

from __future__ import annotations

import os
import select

from orchestrator.base.platform.basic_facts import ProcessEnd


def wait_for(pid: int) -> None:
    """Block until our child has ended; raises ``OSError`` for a process that is no child of ours."""
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    else:
        _ended(pid, None)


def is_over(pid: int) -> bool:
    """Whether our child has ended."""
    if hasattr(os, "waitid"):
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    return _ended(pid, 0.0)


def _ended(pid: int, timeout_s: float | None) -> bool:
    """For macOS, where Python has waitid from 3.13 on."""
    try:
        end = ProcessEnd(pid)
    except ProcessLookupError:  # a kqueue takes no process that has ended
        return True
    try:
        return bool(select.select([end], [], [], timeout_s)[0])
    finally:
        end.close()
