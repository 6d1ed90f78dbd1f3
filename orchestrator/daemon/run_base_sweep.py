"""Remove run directories that no daemon of this user has needed for a day: at the daemon's start, then every hour.

Touches other projects' run directories under their locks (`edge/run_directories.py`), and the times in the own one.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from pathlib import Path

import structlog

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.edge import project_location, run_directories

log = structlog.get_logger()

SWEEP_S = 3600.0


class RunBaseSweep:
    """The sweeps of the daemon whose run directory is ``directory``. Daemons that sweep at once do no harm."""

    def __init__(self, root: Path, directory: Path) -> None:
        self._place = project_location.named_project(root)
        self._directory = directory
        self._swept = -math.inf
        self._ending = threading.Event()
        self._tasks = BackgroundTasks()

    def look_around(self) -> None:
        """Sweep if it is time."""
        if time.monotonic() - self._swept > SWEEP_S and not list(self._tasks):
            self._swept = time.monotonic()
            self._tasks.start(asyncio.to_thread(self._sweep))

    def close(self) -> None:
        """Sweep no more; one that is under way stops at its next file, for the daemon shall end soon."""
        self._ending.set()

    def _sweep(self) -> None:
        run_directories.touch(self._directory)
        try:
            rows = run_directories.collect(self._place, apply=True, go_on=lambda: not self._ending.is_set())
        except (OSError, project_location.RunDirUnsafe) as error:
            log.warning("run directories cannot be looked over", reason=str(error))
            return
        for row in rows:
            if row["done"]:
                log.info("removed a run directory", directory=row["name"], bytes=row["bytes"])
            elif row.get("error"):
                log.warning("a run directory cannot be removed", directory=row["name"], **row["error"])
