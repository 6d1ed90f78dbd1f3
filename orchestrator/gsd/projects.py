"""The projects that are held in memory: each read once, kept fresh, the one asked least recently let go.

What an answer is made of is looked at when it is asked for (the stores compare what stands on the disk); watching the
files only says sooner what to look at. Reads projects, starts a thread per held one.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path

from watchfiles import watch

from orchestrator.base.errors import OrchestratorError
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.index import stale
from orchestrator.gsd.intel.files import inside
from orchestrator.gsd.intel.reading import IntelStore
from orchestrator.gsd.planning.tree import PlanningStore

HELD = 8
"""A project of 100,000 files takes some hundred MB."""
WATCHED = (".planning", ".agents/gsd")
DEBOUNCE_MS = 200
STEP_MS = 50
AGAIN_S = 30.0
"""A watch that could not begin, or has ended, is tried again so seldom: the machine may have none left to give."""
BEGIN_S = 2.0
"""A watch of many directories takes a moment to begin; after this the question is answered without."""

Changed = Callable[[Path], None]
"""Told the root of a project whose watched files have changed; called from a thread of its own."""


class Projects:
    """The projects held; safe to be asked by several threads.

    ``changed`` hears of changes on the disk; without it nothing is watched, as one question needs no watch.
    """

    def __init__(self, changed: Changed | None = None, held: int = HELD) -> None:
        self._changed = changed
        self._most = held
        self._lock = threading.Lock()
        self._held: OrderedDict[Path, _Held] = OrderedDict()

    def snapshot(self, root: Path) -> Snapshot:
        """The project at this moment; several that ask at once have it read once. Raises what its stores raise."""
        with self._lock:
            held = self._held.pop(root, None) or _Held(root, self._changed)
            self._held[root] = held
            gone = [self._held.popitem(last=False)[1] for _ in range(len(self._held) - self._most)]
        for one in gone:
            one.close()
        return held.snapshot()

    def close(self) -> None:
        """Let go of all of them."""
        with self._lock:
            held = list(self._held.values())
            self._held.clear()
        for one in held:
            one.close()


class _Stop(threading.Event):
    """Ends a watch. The watcher asks for it only once its watches stand: from ``begun`` on nothing is missed."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.ended = False  # the watch; its thread may still be listed then

    def is_set(self) -> bool:
        self.begun.set()
        return super().is_set()


class _Held:
    """One project, its stores, and what watches its files."""

    def __init__(self, root: Path, changed: Changed | None) -> None:
        self.root = root
        self._changed = changed
        self._planning = PlanningStore(root)
        self._intel = IntelStore(root)
        self._reading = threading.Lock()
        self._stop = _Stop()
        self._over = False
        self._watched: tuple[Path, ...] = ()
        self._watching: threading.Thread | None = None
        self._watched_at = -AGAIN_S

    def snapshot(self) -> Snapshot:
        with self._reading:  # the stores would each keep the others waiting; so nobody reads what is being read
            if self._changed is not None:
                self._watch(self._changed)
            planning = self._planning.read()
            graph, intel = self._intel.read()
        return Snapshot(self.root, planning, graph, intel, self._intel.entity, self._stale)

    def close(self) -> None:
        self._over = True  # also for who is being asked at this moment and would begin a watch
        self._stop.set()

    def _stale(self, paths: list[str]) -> list[str]:
        """Those of the paths whose content is not what the index knows; none where it cannot be read."""
        try:
            return stale.stale(self.root, paths)
        except OrchestratorError:
            return []  # the store has told of it as a trouble

    # -- watching -----------------------------------------------------------------------------------------------

    def _watch(self, changed: Changed) -> None:
        """See to it that what there is to watch is watched; called under the lock."""
        there = tuple(
            path for path in (self.root / name for name in WATCHED) if path.is_dir() and inside(self.root, path)
        )
        alive = self._watching is not None and not self._stop.ended
        now = time.monotonic()
        if (alive and there == self._watched) or (not alive and now - self._watched_at < AGAIN_S):
            return
        self._stop.set()
        self._stop, self._watched, self._watched_at = _Stop(), there, now
        if self._over:
            self._stop.set()
        if there:
            self._watching = threading.Thread(
                target=self._follow, args=(there, self._stop, changed), name=f"watch {self.root}", daemon=True
            )
            self._watching.start()
            self._stop.begun.wait(BEGIN_S)  # what changes after it was read must be heard of

    def _follow(self, paths: Iterable[Path], stop: _Stop, changed: Changed) -> None:
        try:
            watched, with_all_below = _to_watch(paths)
            for changes in watch(
                *watched,
                recursive=with_all_below,
                watch_filter=None,
                debounce=DEBOUNCE_MS,
                step=STEP_MS,
                stop_event=stop,
                raise_interrupt=False,
                ignore_permission_denied=True,
            ):
                self._intel.touched([Path(path) for _, path in changes])
                changed(self.root)
        except Exception as error:  # noqa: BLE001  (no inotify left, the directory gone: what stands on the disk counts)
            sys.stderr.write(f"gsd-reader: {self.root} is not watched: {error}\n")
        finally:
            stop.ended = True
            stop.begun.set()


def _to_watch(paths: Iterable[Path]) -> tuple[list[Path], bool]:
    """What to watch, and whether with all below it: that way the watcher follows links, also to ``/``."""
    paths, found, linked = list(paths), list[Path](), False
    for path in paths:
        for at, below, _ in os.walk(path):
            found.append(Path(at))
            linked = linked or any(Path(at, name).is_symlink() for name in below)
    return (found, False) if linked else (paths, True)
