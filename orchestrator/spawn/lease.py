"""Whose a run is: which daemon this process is, and whether another one has ended. Reads /proc.

A foreign machine's daemon is never taken for dead: from here nobody can tell.
"""

from __future__ import annotations

import os
import socket

from orchestrator import processes
from orchestrator.spawn.model import Owner


def me() -> Owner:
    """What names the calling process as the owner of runs."""
    pid = os.getpid()
    return Owner(socket.gethostname(), processes.boot_id(), pid, processes.start_time(pid) or 0)


def dead(owner: Owner, mine: Owner) -> bool:
    """Whether the owner has ended for certain, seen from ``mine``: on the same host, in another boot or no more."""
    if owner.host != mine.host:
        return False
    if owner.boot_id != mine.boot_id:
        return bool(owner.boot_id and mine.boot_id)
    return not processes.alive(owner.pid, owner.start)
