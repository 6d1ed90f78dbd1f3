"""The claim on a project's files: one daemon at a time, wherever its run directory lies.

The run directory's lock keeps daemons of one machine apart; a container or a private /tmp has another one and still
the same files. So the writer also holds a lock beside the files, taken when it first reads or writes them.
"""

from __future__ import annotations

from filelock import FileLock, Timeout

from orchestrator.errors import Conflict
from orchestrator.store.files import Paths, failure


def claim(paths: Paths) -> FileLock:
    """Hold `.agents/lock` until the process ends; Conflict ``daemon_running`` when another daemon has it.

    The directory must exist. The lock goes with the process, also by kill -9; children do not inherit it.
    """
    lock = FileLock(paths.home / "lock", timeout=0, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        raise Conflict("daemon_running", f"another daemon writes {paths.home}, from another run directory") from None
    except OSError as error:
        raise failure(paths.home / "lock", error) from error
    return lock
