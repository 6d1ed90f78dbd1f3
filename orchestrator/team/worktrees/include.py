"""`.worktreeinclude`: copies untracked files that an agent needs (``.env``, local settings) into its worktree.

The file is in the root of the main tree and has the syntax of ``.gitignore``; git itself does the matching. Reads the
main tree, writes only below the new worktree, and never overwrites.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import stat
from itertools import pairwise
from pathlib import Path

from orchestrator.base.errors import OrchestratorError
from orchestrator.team.worktrees import git

NAME = ".worktreeinclude"
MAX_FILES = 20_000
MAX_BYTES = 1 << 30
NAMED_FILES = 20
"""Maximum number of uncopied files that are named; of the others only the number is reported."""
COMPARED_BYTES = 64 << 20
_RUN_DATA = ("agents", "run", "worktrees", "lock")


def copy(tree: Path, new: Path) -> tuple[int, list[str]]:
    """Copy what matches from ``tree`` to ``new``: returns the number of files, and why others were not copied.

    Only what git does not track is copied, with mode and time; a symbolic link stays one. ``new`` has its links
    resolved. A file that cannot be copied raises no error.
    """
    if not os.path.lexists(tree / NAME):
        return 0, []
    copied, size = 0, 0
    skipped: list[str] = []
    try:
        # All untracked files, ignored or not, that match the patterns of this file alone.
        answer = git.ask(tree, "ls-files", "-z", "--others", "--ignored", f"--exclude-from={tree / NAME}")
    except OrchestratorError as error:
        return 0, [f"{NAME}: {error.message}"]
    if answer.cut:
        skipped.append(f"{NAME}: matches more than {git.LIMIT >> 20} MiB of names; the rest is left out")
    for name in git.names(answer):
        if _ours(name):
            continue
        try:
            bytes_ = (tree / name).lstat().st_size
            if copied == MAX_FILES or size + bytes_ > MAX_BYTES:
                why = f"over the limit of {MAX_FILES} files and {MAX_BYTES >> 20} MiB"
            else:
                why = "a repository of its own" if name.endswith("/") else _copy(tree / name, new / name)
        except OSError as error:
            why = error.strerror or str(error)
        if why:
            skipped.append(f"{git.shown(name)}: {why}")
        else:
            copied, size = copied + 1, size + bytes_
    return copied, skipped[:NAMED_FILES] + (
        [f"and {len(skipped) - NAMED_FILES} more"] if len(skipped) > NAMED_FILES else []
    )


def same(tree: Path, other: Path, name: str, *, exact: bool) -> bool:
    """Whether both trees have the same file of that name, so that the file in ``other`` holds no work.

    Unless ``exact``, equal size and time are enough, because a copy keeps them.
    """
    mine, theirs = tree / name, other / name
    try:
        here, there = mine.lstat(), theirs.lstat()
        if stat.S_ISLNK(here.st_mode) and stat.S_ISLNK(there.st_mode):
            return mine.readlink() == theirs.readlink()
        if not (stat.S_ISREG(here.st_mode) and stat.S_ISREG(there.st_mode)) or here.st_size > COMPARED_BYTES:
            return False
        return here.st_size == there.st_size and filecmp.cmp(mine, theirs, shallow=not exact)
    except OSError:
        return False


def _ours(name: str) -> bool:
    """Whether the name is team data: secrets, logs and worktrees do not belong to the user's tree."""
    return any(above == ".agents" and below in _RUN_DATA for above, below in pairwise(name.split("/")))


def _copy(source: Path, target: Path) -> str:
    """Copy one file; returns why it is skipped, else "". OSError if the disk refuses; half a file is never left."""
    mode = source.lstat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        return "no regular file"
    if target.parent.resolve() != target.parent:  # checked before anything is made there
        return "a link of the worktree leads elsewhere"
    if os.path.lexists(target):
        return "the worktree has one already"
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copy2(source, target, follow_symlinks=False)
    except OSError:
        target.unlink(missing_ok=True)
        raise
    return ""
