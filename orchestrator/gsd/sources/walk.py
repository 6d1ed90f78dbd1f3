"""The source files of a project: what git would show, else what a walk finds; nothing generated. Reads only."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

SKIPPED = frozenset({
    ".agents", ".cache", ".eggs", ".git", ".hg", ".idea", ".mypy_cache", ".next", ".nox", ".nuxt", ".planning",
    ".pytest_cache", ".ruff_cache", ".svelte-kit", ".svn", ".terraform", ".tox", ".turbo", ".venv", ".vscode",
    "__pycache__", "bower_components", "build", "coverage", "dist", "node_modules", "site-packages", "target",
    "vendor", "venv",
})  # fmt: skip
"""Directories nothing of which is a project's own source, wherever they lie."""

MAX_BYTES = 1 << 20
"""A larger file is data or generated: it is not read."""
GIT_S = 60.0
NESTED = 8
"""So deep may repositories lie in each other."""
_GIT = (
    # A repository's own configuration could name a program to run (fsmonitor), and it may not be the user's.
    "git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.untrackedCache=false",
    "--no-optional-locks", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ".",
)  # fmt: skip
_WORKTREE = b"/worktrees/"
_MODULE = re.compile(r"^[ \t]*path[ \t]*=(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Found:
    """A file: its path relative to the root with ``/``, when it changed, how long it is."""

    path: str
    mtime_ns: int
    size: int


def files(
    root: Path,
    endings: frozenset[str] | None = None,
    also: Callable[[str], bool] | None = None,
    unseen: list[str] | None = None,
) -> Iterator[Found]:
    """The regular files below ``root``, sorted by path; ``endings`` like ``.py``: only these (None: all).

    ``also`` says of other paths whether they are wanted too. Inside a git repository those that git tracks or
    would add, so that what ``.gitignore`` names is left out; submodules that ``.gitmodules`` names and
    repositories that git does not track are entered, other worktrees of a repository are not, for they hold the
    same once more. Where git refuses or ignores the whole root, those that a walk finds. Links are not followed,
    names that are not UTF-8 are left out. OSError when the root cannot be read. ``unseen`` takes what lies there
    and was not looked into: links, directories that cannot be read, repositories that are not entered.
    """
    over: list[str] = [] if unseen is None else unseen
    os.close(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))  # git would call it an empty one
    for path in sorted(_below(root, "", NESTED, over)):
        name = path.rpartition("/")[2]
        wanted = endings is None or os.path.splitext(name)[1].lower() in endings  # noqa: PTH122  (100,000 paths)
        if not wanted and not (also and also(path)):
            continue
        try:
            found = os.lstat(f"{root}/{path}")
        except (OSError, ValueError):
            continue  # deleted, and git has not been told
        if stat.S_ISREG(found.st_mode):
            yield Found(path, found.st_mtime_ns, found.st_size)
        elif stat.S_ISLNK(found.st_mode) or stat.S_ISDIR(found.st_mode):
            over.append(path)


def _below(root: Path, at: str, deep: int, unseen: list[str]) -> set[str]:
    """The paths below ``at``, which is ``""`` or a repository inside."""
    listed = _by_git(root / at, unseen) if _in_repository(root / at) else None
    if not listed:  # no repository, or one that ignores all of this: then it is no part of it
        return {f"{at}/{path}" if at else path for path in _walked(root / at, unseen)}
    found: set[str] = set()
    modules = _modules(root / at)
    for name in listed:
        if SKIPPED.intersection(name.split("/")[:-1]):
            continue
        path = f"{at}/{name}" if at else name
        inside = path.rstrip("/")
        # A submodule is listed as if it were a file, a repository that git does not track with a slash.
        if (name.endswith("/") or name in modules) and _is_repository(root / inside):
            if deep and inside.rpartition("/")[2] not in SKIPPED and not _is_worktree(root / inside):
                found |= _below(root, inside, deep - 1, unseen)
            elif inside.rpartition("/")[2] not in SKIPPED:
                unseen.append(inside)
        elif not name.endswith("/"):
            found.add(path)
    return found


def _modules(at: Path) -> frozenset[str]:
    """The paths of the submodules that a repository names."""
    try:
        if not stat.S_ISREG((at / ".gitmodules").lstat().st_mode):
            return frozenset()
        with (at / ".gitmodules").open("rb") as file:
            text = file.read(MAX_BYTES).decode(errors="replace")
    except OSError:
        return frozenset()
    return frozenset(found[1].strip().strip('"') for found in _MODULE.finditer(text))


def _in_repository(at: Path) -> bool:
    return any(_exists(above / ".git") for above in (at.absolute(), *at.absolute().parents))


def _is_repository(at: Path) -> bool:
    return not at.is_symlink() and at.is_dir() and _exists(at / ".git")


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except OSError:
        return False
    return True


def _is_worktree(at: Path) -> bool:
    """Whether a repository inside is another worktree; of a submodule the file names its modules/ instead."""
    try:
        if not (at / ".git").is_file():
            return False
        with (at / ".git").open("rb") as file:
            return _WORKTREE in file.read(4096)
    except OSError:
        return False


def _by_git(at: Path, unseen: list[str]) -> list[str] | None:
    """What git lists; None when it is not there, refuses (another owner, a broken index), or takes too long."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # A partial clone would fetch what a sparse index leaves out, by a program that its configuration may name.
    env |= {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}
    try:
        done = subprocess.run(
            _GIT, cwd=at, env=env, capture_output=True, check=False, timeout=GIT_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    names = [name for name in dict.fromkeys(done.stdout.split(b"\0")) if name]
    unseen.extend(name.decode("utf-8", "replace") for name in names if not _is_text(name))
    return [name.decode() for name in names if _is_text(name)]


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _walked(root: Path, unseen: list[str]) -> Iterator[str]:
    todo = [""]
    while todo:
        at = todo.pop()
        try:
            with os.scandir(root / at) as found:
                entries = list(found)
        except OSError:
            if not at:
                raise
            unseen.append(at)
            continue
        if at and any(entry.name == ".git" for entry in entries) and _is_worktree(root / at):
            unseen.append(at)
            continue
        for entry in entries:
            if not _is_text(os.fsencode(entry.name)):
                unseen.append(os.fsencode(entry.name).decode("utf-8", "replace"))
                continue
            path = f"{at}/{entry.name}" if at else entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in SKIPPED:
                    todo.append(path)
            elif entry.is_file(follow_symlinks=False):
                yield path
            elif entry.is_symlink() and entry.name not in SKIPPED:
                unseen.append(path)
