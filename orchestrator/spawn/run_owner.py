"""The owner of a run: this daemon's identity, and whether another owner has ended. Looks at processes.

Whether a daemon of another host is alive cannot be known here. Its runs are released after nothing was written for
longer than a run may take: a recreated container has another host name, and its old runs must not stay counted.
"""

from __future__ import annotations

import os
import socket

from orchestrator.base.platform import process_facts
from orchestrator.spawn.run_data import RunOwner, RunSettings

MARGIN_S = 60.0


def this_daemon() -> RunOwner:
    """The calling process as an owner of runs."""
    pid = os.getpid()
    return RunOwner(socket.gethostname(), process_facts.boot_id(), pid, process_facts.start_time(pid) or 0)


def has_ended(owner: RunOwner, mine: RunOwner) -> bool:
    """Whether the owner has certainly ended.

    It has if it is on the host of ``mine`` and ran before the last reboot, or its process is gone.
    """
    if owner.host != mine.host:
        return False
    if owner.boot_id != mine.boot_id:
        return bool(owner.boot_id and mine.boot_id)
    return not process_facts.alive(owner.pid, owner.start)


def presumed_ended(owner: RunOwner, mine: RunOwner, quiet_s: float, settings: RunSettings) -> bool:
    """Whether the owner is on another host and wrote nothing about its run for longer than a run may take.

    An owner writes at the latest when its run ends, within RUN_TIMEOUT_SECONDS. If it is alive after all, its old
    token keeps it from writing.
    """
    return owner.host != mine.host and quiet_s > settings.run_timeout_s + MARGIN_S
