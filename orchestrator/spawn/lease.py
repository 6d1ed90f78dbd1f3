"""Whose a run is: which daemon this process is, and whether another one has ended. Reads /proc.

Whether a foreign machine's daemon lives nobody can tell from here. Its runs are given up once they have been quiet
for longer than any run may take: a container that is made anew has another name, and must not hold places for ever.
"""

from __future__ import annotations

import os
import socket

from orchestrator.base.platform import processes
from orchestrator.spawn.run_data import Owner, RunSettings

MARGIN_S = 60.0


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


def lapsed(owner: Owner, mine: Owner, quiet_s: float, settings: RunSettings) -> bool:
    """Whether the owner is of another host and nothing was written of its run for longer than a run may take.

    Who executes a run writes when it ends at the latest, and that is within RUN_TIMEOUT_SECONDS. Should it live after
    all, the token keeps it from writing.
    """
    return owner.host != mine.host and quiet_s > settings.run_timeout_s + MARGIN_S
