"""Follows the configuration files: the last good configuration, and why the newest one does not load.

Reads and watches the files that `orchestrator.config.sources` reads; writes nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from orchestrator.base.clock import SystemClock
from orchestrator.base.errors import BadRequest, OrchestratorError
from orchestrator.base.waiting import Signal, wait_until
from orchestrator.config.sources import NONE, PROJECT_FILE, load, project_file, user_file
from orchestrator.trust.allowed import Allowed
from orchestrator.trust.identity import FILE

_RECHECK_MS = 2000


class ConfigState:
    """The last good configuration, and the error in the files now.

    ``current`` changes only to a configuration that loaded; ``error`` is why the newest one did not load, None if it
    did. The first load raises BadRequest ``bad_config``.
    """

    def __init__(
        self,
        root: Path,
        env: Mapping[str, str],
        flags: Mapping[str, Any] = NONE,
        home: Path | None = None,
    ) -> None:
        self._sources = (root, dict(env), dict(flags), home)
        self._root = root
        self.error: OrchestratorError | None = None
        self.current = load(*self._sources)

    @property
    def files(self) -> tuple[Path, ...]:
        """The sources of the configuration: the two files, and what is allowed of the project's."""
        root, env, _, home = self._sources
        place = Allowed(root).place
        # The identity says where the place is: without one nothing is allowed.
        of_trust = (root / ".agents" / FILE, *(() if place is None else (place,)))
        return (user_file(env, home), project_file(root), *of_trust)

    def reload(self) -> bool:
        """Load again; returns whether ``current`` or ``error`` has changed. Never raises bad_config.

        The settings of a file that no longer loads stay in effect, except those that are no longer allowed.
        """
        before = (self.current, self.error and self.error.message)
        try:
            self.current = load(*self._sources)
            self.error = None
        except BadRequest as error:
            self.error = error
            content, without = self.current.allowed, self.current.without
            if content is not None and without is not None and not Allowed(self._root).counts(PROJECT_FILE, content):
                self.current = without
        return before != (self.current, self.error and self.error.message)


async def watch(
    root: Path,
    env: Mapping[str, str],
    on_change: Callable[[ConfigState], None],
    *,
    flags: Mapping[str, Any] = NONE,
    home: Path | None = None,
    state: ConfigState | None = None,
) -> None:
    """Follow the configuration files until cancelled; call ``on_change(state)`` after each effective change.

    Pass the ``state`` already in use, else one is made (which may raise BadRequest ``bad_config``). Files and
    directories may come and go; nothing is created. Writes within 200 ms count as one.
    """
    clock = SystemClock()
    state = state or ConfigState(root, env, flags, home)
    seen: object = None
    while True:
        now = _fingerprint(state.files)
        if now != seen:
            seen = now
            if state.reload():
                on_change(state)
        try:
            await _until_touched(state, seen)
        except (OSError, RuntimeError, ImportError):
            # A directory vanished, or the kernel grants no further watches, or not even a descriptor for the import:
            # looking now and then still works.
            await wait_until(lambda: None, Signal(), clock.monotonic() + _RECHECK_MS / 1000, clock)


async def _until_touched(state: ConfigState, seen: object) -> None:
    """Return once a file looks other than ``seen``, or once a nearer directory can be watched."""
    from watchfiles import awatch  # noqa: PLC0415  (40 ms that readers of one value need not pay)

    files = state.files
    places = {_nearest_directory(file) for file in files}
    relevant = {str(part) for file in files for part in (file, *file.parents)}
    changes = awatch(
        *places,
        watch_filter=lambda _, path: path in relevant,
        recursive=False,
        debounce=200,
        # Events between two watches, or on file systems without any, are found by looking at the files.
        rust_timeout=_RECHECK_MS,
        yield_on_timeout=True,
        ignore_permission_denied=True,
    )
    async with contextlib.aclosing(changes):
        async for _ in changes:
            moved = {_nearest_directory(file) for file in files} != places
            if moved or _fingerprint(state.files) != seen:
                return


def _nearest_directory(file: Path) -> Path:
    return next(parent for parent in file.parents if os.path.isdir(parent))  # noqa: PTH112  (never raises)


def _fingerprint(files: tuple[Path, ...]) -> tuple[object, ...]:
    """What changes when a file does, without reading it."""

    def of(file: Path) -> object:
        try:
            file_stat = os.stat(file)  # noqa: PTH116  (fstat fields, not a path operation)
        except OSError as error:
            return error.errno
        return (file_stat.st_ino, file_stat.st_mtime_ns, file_stat.st_size)

    return tuple(of(file) for file in files)
