"""Roles in memory that are never stale: read again whenever a folder or one of its files has changed. Reads only.

The watch serves only the log: every answer comes from the current files, watched or not.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import NamedTuple

from orchestrator.base.clock import Clock, SystemClock
from orchestrator.base.errors import BadRequest
from orchestrator.base.waiting import elapse
from orchestrator.roles import catalogue, role_files
from orchestrator.roles.catalogue import BrokenRole, RoleListing
from orchestrator.trust.allowed import Allowed

KEPT = 16  # directories: each connection may name its own
_RECHECK_MS = 2000
# A file system stamps with a clock that ticks: what changed this recently may change again without looking different.
_SETTLED_NS = 2_000_000_000


class _CachedRoles(NamedTuple):
    looks: object
    settled: bool
    listing: RoleListing


class RoleLibrary:
    """The roles of one project, for every directory that is requested."""

    def __init__(self, root: Path, clock: Clock | None = None) -> None:
        self._root = root
        self._clock = clock or SystemClock()
        self._kept: dict[str, _CachedRoles] = {}

    def listing(self, directory: str = "") -> RoleListing:
        """What `catalogue.read` would find now, mostly without reading; BadRequest ``bad_config`` as there."""
        seen, youngest = role_files.fingerprint(role_files.folders(self._root, directory))
        looks = (seen, Allowed(self._root).stamp())
        kept = self._kept.pop(directory, None)
        if kept is None or not kept.settled or kept.looks != looks:
            now = int(self._clock.now().timestamp() * 1e9)
            kept = _CachedRoles(looks, youngest < now - _SETTLED_NS, catalogue.read(self._root, directory))
        self._kept[directory] = kept
        for oldest in list(self._kept)[:-KEPT]:
            self._kept.pop(oldest, None)
        return kept.listing

    async def watch(self, on_broken: Callable[[BrokenRole], None]) -> None:
        """Follow the folders in use until canceled; log each file once when it becomes broken.

        Folders and files may appear and disappear; nothing is created. Changes within 200 ms count as one.
        """
        broken_before: set[BrokenRole] = set()
        while True:
            used = tuple(dict.fromkeys(("", *self._kept)))
            seen = self._looks(used)
            broken = dict.fromkeys(await asyncio.to_thread(self._broken, used))
            for role in broken:
                if role not in broken_before:
                    on_broken(role)
            broken_before = set(broken)
            try:
                await self._until_touched(used, seen)
            except (OSError, RuntimeError, ImportError):
                # A folder vanished, or the kernel grants no further watches, or not even a descriptor for the import:
                # looking now and then still works.
                await elapse(_RECHECK_MS / 1000, self._clock)

    def _broken(self, used: tuple[str, ...]) -> list[BrokenRole]:
        out: list[BrokenRole] = []
        for directory in used:
            try:
                out += catalogue.read(self._root, directory).broken
            except BadRequest as error:
                out.append(BrokenRole("", directory, f"cannot be read: {error.facts['why']}"))
        return out

    def _looks(self, used: tuple[str, ...]) -> object:
        return [role_files.fingerprint(places)[0] for places in self._places(used)]

    def _places(self, used: tuple[str, ...]) -> list[tuple[role_files.Folder, ...]]:
        out = []
        for directory in used:
            with contextlib.suppress(BadRequest):
                out.append(role_files.folders(self._root, directory))
        return out

    async def _until_touched(self, used: tuple[str, ...], seen: object) -> None:
        """Return once a role looks other than ``seen``, another folder is in use, or a nearer one can be watched."""
        from watchfiles import awatch  # noqa: PLC0415  (40 ms that readers of one role need not pay)

        folders = {PurePath(folder.path) for places in self._places(used) for folder in places}
        relevant = {*folders, *(parent for folder in folders for parent in folder.parents)}

        def counts(_: object, path: str) -> bool:
            place = PurePath(path)
            return place in relevant or place.parent in folders

        nearest = {_nearest(folder) for folder in folders}
        changes = awatch(
            *nearest,
            watch_filter=counts,
            recursive=False,
            debounce=200,
            # What a link leads to, and file systems without events, are found by looking.
            rust_timeout=_RECHECK_MS,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
        async with contextlib.aclosing(changes):
            async for _ in changes:
                moved = {_nearest(folder) for folder in folders} != nearest
                if moved or set(self._kept) - set(used) or self._looks(used) != seen:
                    return


def _nearest(folder: PurePath) -> str:
    """The folder or the nearest directory above it that there is."""
    return str(next(place for place in map(Path, (folder, *folder.parents)) if _is_directory(place)))


def _is_directory(place: Path) -> bool:
    try:
        return place.is_dir()
    except OSError:
        return False
