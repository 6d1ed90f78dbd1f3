"""Paths of another machine made this project's own: where its root lay there is told by what fits. Asks the disk.

The intel hooks of GSD write absolute paths of the machine they ran on, usually not the one that reads (A2).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath

from orchestrator.gsd.graph.slugs import clean, is_absolute, slug

SAMPLE = 40
"""So many paths are tried against the disk."""
DEEPEST = 24
MOST = 30
"""So many roots are looked for: each costs a look at all paths, and a team has no more machines than that."""
_SOURCE_DIRECTORIES = frozenset({
    "app", "apps", "backend", "bin", "client", "cmd", "frontend", "internal", "lib", "libs", "packages", "pkg",
    "scripts", "server", "services", "src", "test", "tests", "tools",
})  # fmt: skip


def posix(path: str) -> str:
    """The path with ``/`` between its parts, whatever machine wrote it; a drive stays its first part."""
    path = path.strip().replace("\\", "/")
    return f"/{path}" if len(path) > 1 and path[1] == ":" else path


class Roots:
    """Where this project's root lay on the machines that wrote its paths; ``relative`` maps one path."""

    def __init__(self, root: Path, paths: Iterable[str], ids: Collection[str] = ()) -> None:
        """Find out from the absolute ones of some paths, and from ids that may be slugs of relative paths."""
        own = {str(root), str(root.absolute()), str(root.resolve())}
        self.known = sorted((f"{each.rstrip('/')}/" for each in own), key=len, reverse=True)
        foreign = sorted(
            {posix(path) for path in paths if is_absolute(path) and not posix(path).startswith(tuple(self.known))}
        )
        for _ in range(MOST):
            if not foreign:
                break
            found = _root(root, foreign, ids)
            if not found:
                break
            self.known.append(found)
            foreign = [path for path in foreign if not path.startswith(found)]

    def relative(self, path: str) -> str:
        """The project-relative form of any path; ``""`` for what lies elsewhere or leaves the project."""
        if not is_absolute(path):
            return clean(path)
        path = posix(path)
        for known in self.known:
            if path.startswith(known):
                return clean(path[len(known) :])
        return ""


def _root(root: Path, paths: list[str], ids: Collection[str]) -> str:
    """The likeliest root of these absolute paths, with a ``/`` at its end: one that some of them begin with."""
    sample = paths[:: max(1, len(paths) // SAMPLE)][:SAMPLE]
    votes: Counter[str] = Counter()
    for path in sample:
        if found := _by_disk(root, path):
            votes[found] += 1
    if votes:
        return max(votes, key=lambda each: (votes[each], len(each)))
    for path in sample:
        if "/.planning/" in path:
            return path[: path.index("/.planning/") + 1]
    for path in sample:
        # The last directory of this name, so that /home/app/app/src is read as a checkout in a directory of its name.
        at = path.rfind(f"/{root.name}/")
        if at >= 0 and root.name:
            return path[: at + len(root.name) + 2]
    for path in sample:
        for prefix, rest in _cuts(path):
            if rest.count("/") and slug(rest) in ids:
                return prefix
    return _common(paths)


def _by_disk(root: Path, path: str) -> str:
    for prefix, rest in _cuts(path):
        if clean(rest) == rest and os.path.lexists(root / rest):
            return prefix
    return ""


def _cuts(path: str) -> list[tuple[str, str]]:
    parts = path.split("/")
    if ".." in parts or "\0" in path or len(path) > 4_000:
        return []
    return [("/".join(parts[:at]) + "/", "/".join(parts[at:])) for at in range(1, min(len(parts), DEEPEST))]


def _common(paths: list[str]) -> str:
    """The directory they all lie in, or the one above where it is called like a part of a project."""
    if len({path.split("/", 2)[1] for path in paths}) > 1:
        return ""  # nothing but the root of the machine
    at = PurePosixPath(os.path.commonpath(paths) if len(paths) > 1 else os.path.dirname(paths[0]))  # noqa: PTH120 (not of this machine)
    while at.name in _SOURCE_DIRECTORIES:
        at = at.parent
    return "" if at == at.parent else f"{at}/"
