"""Temporary directories of agents and squad members (`TMPDIR`), below the run directory of their project.

Makes them, gives them up and finds those that nobody owns. Nothing fails for want of one: without it a CLI uses /tmp,
as it does when a user starts it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from orchestrator.base import failpoints
from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.platform import file_trees
from orchestrator.base.platform.basic_facts import SUN_PATH_MAX
from orchestrator.edge import project_location
from orchestrator.edge.project_location import RunDirUnsafe

VARIABLE = "TMPDIR"
"""Claude Code, Codex, Gemini CLI and opencode read it, as do the tools that they run."""
SOCKET_ROOM = 32
"""Bytes for the name of a socket in the directory: programs make sockets there, whose whole paths are limited."""


def name_of_agent(agent_id: str) -> str:
    """The name of an agent's temporary directory, the same for all its launches."""
    return f"a{_hash(agent_id)}"


def name_of_member(member_id: str) -> str:
    """The name of a squad member's temporary directory."""
    return f"m{_hash(member_id)}"


def is_members(name: str) -> bool:
    """Whether the directory of that name is one of a squad member that has not ended."""
    return len(name) == len(name_of_member("")) and name.startswith("m")


class TemporaryDirectories:
    """Those of one project. Only its daemon uses this: it knows whose directories are still needed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._owned: set[str] = set()
        self._removals = BackgroundTasks()
        self._removing = asyncio.Lock()
        self._closing = False

    def own(self, names: Iterable[str]) -> None:
        """Keep the directories of these names, which an earlier daemon may have made."""
        self._owned.update(names)

    def variables(self, name: str, env: Mapping[str, str], *, chosen: bool = False) -> dict[str, str]:
        """What to add to ``env`` so that a CLI uses the directory of that name, which is made if it is missing.

        Empty if the user decided where temporary files go (``chosen``: this agent's own ``env`` has the variable;
        else by a directory on another file system, which has other room and rights), or if none can be made.
        """
        own = env.get(VARIABLE, "")
        if chosen and own:
            return {}
        try:
            base = project_location.run_dir(self._root)
            path = base / project_location.TEMPORARY / name
            if len(os.fsencode(path)) + 1 + SOCKET_ROOM > SUN_PATH_MAX or _elsewhere(own, base):
                return {}
            self._owned.add(name)  # first: what is made must not be taken for a leftover
            for step in (path.parent, path):
                with suppress(FileExistsError):
                    step.mkdir(mode=0o700)
                if not _is_ours(step):
                    return {}
        except (OSError, RunDirUnsafe):
            return {}
        return {VARIABLE: str(path)}

    def end(self, name: str) -> None:
        """Take the directory of that name away from its owner, who has ended: renamed now, removed in the background.

        A process that was left behind finds no directory under the name that it knows, and delays nobody.
        """
        self._owned.discard(name)
        aside = [path for place in self._places() if (path := file_trees.set_aside(place / name)) is not None]
        if aside:
            failpoints.passed("temporary:aside")
            self._removals.start(self.remove(aside))

    def remove_leftovers(self) -> None:
        """Remove in the background what nobody owns."""
        self._removals.start(self.remove())

    async def remove(self, paths: Iterable[Path] | None = None) -> bool:
        """Remove these leftovers, or all; whether they are gone.

        What a process still writes into may stay, and after `close` the rest.
        """
        gone = True
        async with self._removing:  # one at a time: it takes one of the daemon's few threads
            for path in await asyncio.to_thread(self.leftovers) if paths is None else paths:
                if path.name not in self._owned:
                    gone &= await asyncio.to_thread(file_trees.remove, path, lambda: not self._closing)
                    failpoints.passed("temporary:removed")
        return gone

    def leftovers(self) -> list[Path]:
        """The directories whose agent or member has ended, or whose removal was interrupted."""
        return [path for path in listed(self._places()) if path.name not in self._owned]

    def close(self) -> None:
        """Let a removal end at the next file; the next daemon goes on with it."""
        self._closing = True

    def _places(self) -> list[Path]:
        return [directory / project_location.TEMPORARY for directory in project_location.run_dirs(self._root)]


def listed(places: Iterable[Path]) -> list[Path]:
    """All that is in these directories, which must be ours and no links."""
    paths: list[Path] = []
    for place in places:
        with suppress(OSError):
            if _is_ours(place):
                paths += sorted(place.iterdir())
    return paths


def _is_ours(path: Path) -> bool:
    path_stat = path.lstat()
    return stat.S_ISDIR(path_stat.st_mode) and path_stat.st_uid == os.geteuid()


def _elsewhere(own: str, base: Path) -> bool:
    """Whether the user's own directory exists on another file system than ours would be on."""
    try:
        return own.startswith("/") and Path(own).stat().st_dev != base.stat().st_dev
    except OSError:
        return False


def _hash(owner: str) -> str:
    return hashlib.sha256(os.fsencode(owner)).hexdigest()[:8]
