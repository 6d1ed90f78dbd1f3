"""Measure and remove directories that programs filled: links are never followed, other mounts never entered.

For trees of any depth that a process may still be writing to. Standard library only; touches what it is given.
"""

from __future__ import annotations

import itertools
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from orchestrator.base.platform.basic_facts import LINUX, PROC

ROUNDS = 5
"""How often a directory is emptied before it is left to whoever keeps writing into it."""
MEASURED_MAX = 100_000
"""How many files are counted; a larger tree is reported with the size of these."""
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def measure(path: Path) -> tuple[int, int]:
    """How many files are at or below ``path``, and their bytes; what cannot be read is left out. Never raises."""
    count = size = 0
    waiting = [path]
    with suppress(OSError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            return 1, path.lstat().st_size
    while waiting and count < MEASURED_MAX:
        with suppress(OSError), os.scandir(waiting.pop()) as listing:
            for entry in listing:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                        continue
                    count, size = count + 1, size + entry.stat(follow_symlinks=False).st_size
    return count, size


def set_aside(path: Path) -> Path | None:
    """Rename a directory, so that nothing reaches it by its name any more; None if there is nothing to rename."""
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        path.rename(aside)
    except OSError:  # it is gone, or somebody has mounted something there
        return None
    return aside


def remove(path: Path, go_on: Callable[[], bool] = lambda: True) -> bool:
    """Remove a directory with all that is in it, or a file or link; returns whether it is gone. Never raises.

    ``go_on`` is asked before each file and ends the removal early. The directory that contains ``path`` must not be a
    link.
    """
    try:
        above = os.open(path.parent, _OPEN)
    except OSError:
        return not os.path.lexists(path)
    try:
        return _removed(path.name, above, go_on)
    finally:
        os.close(above)


def _removed(name: str, above: int, go_on: Callable[[], bool]) -> bool:
    for _ in range(ROUNDS):
        try:
            top = os.open(name, _OPEN, dir_fd=above)
        except FileNotFoundError:
            return True
        except OSError:
            if not _opened_up(name, above):
                with suppress(OSError):
                    os.unlink(name, dir_fd=above)
            continue
        try:
            _empty(top, go_on)
        finally:
            os.close(top)
        with suppress(OSError):
            os.rmdir(name, dir_fd=above)
            return True
        if not go_on():
            break
    return False


def _empty(top: int, go_on: Callable[[], bool]) -> None:
    """Empty a directory without recursion: each directory below is moved to the top before it is emptied.

    So depth costs neither stack nor descriptors, and a mount is not entered: the kernel does not move it.
    """
    fresh = map(f".{secrets.token_hex(8)}-{{}}".format, itertools.count())
    below = _stripped(top, top, fresh, go_on)
    while below and go_on():
        name = below.pop()
        with suppress(OSError):
            directory = os.open(name, _OPEN, dir_fd=top)
            try:
                below += _stripped(directory, top, fresh, go_on)
            finally:
                os.close(directory)
            os.rmdir(name, dir_fd=top)


def _stripped(directory: int, top: int, fresh: map[str], go_on: Callable[[], bool]) -> list[str]:
    """Unlink all files of a directory and move its directories to the top; their new names."""
    moved = []
    with suppress(OSError):
        os.fchmod(directory, 0o700)  # some tools make what they keep read-only
    with os.scandir(directory) as listing:
        for entry in listing:
            if not go_on():
                break
            try:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.name, dir_fd=directory)
                    continue
                name = next(fresh)
                _opened_up(entry.name, directory)
                os.rename(entry.name, name, src_dir_fd=directory, dst_dir_fd=top)
                moved.append(name)
            except OSError:
                continue  # a mount, or gone: what stays is seen by the caller
    return moved


def _opened_up(name: str, above: int) -> bool:
    """Let us into a directory of ours that is closed even to us; whether it is a directory."""
    with suppress(OSError):
        if not LINUX:
            mode = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
                os.chmod(name, 0o700, dir_fd=above, follow_symlinks=False)
            return stat.S_ISDIR(mode)
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        try:
            mode = os.fstat(handle).st_mode
            if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
                # By its descriptor, for no link is followed then: Linux 6.6 is the first that could do it by the
                # name.
                os.chmod(f"{PROC}/self/fd/{handle}", 0o700)  # noqa: PTH101
            return stat.S_ISDIR(mode)
        finally:
            os.close(handle)
    return False
