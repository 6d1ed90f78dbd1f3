"""File systems of a test's own: small ones, read-only ones, and one whose power can be cut. Root only.

``apart`` runs a test's body in a thread with a mount namespace of its own: whatever the body starts sees the same
mounts, nobody else does, and they are gone with the last process of it, also when the test is killed.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import os
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
CLONE_NEWNS = 0x00020000
SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2
"""The ioctl that takes a file system down as a power cut does: nothing that is not on the disk gets there any more."""


def apart(body: Callable[[], T]) -> T:
    """The body's value; what it raises is raised here."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            _unshare()
            _mount("--make-rprivate", "/")
            outcome.append(body())
        except BaseException as error:  # noqa: BLE001  (it is the caller's)
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def _unshare() -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _mount(*words: str, command: str = "mount") -> None:
    done = subprocess.run([command, *words], capture_output=True, text=True)
    if done.returncode:
        raise OSError(errno.EPERM, f"{command} {' '.join(words)}: {done.stderr.strip()}")


def tmpfs(place: Path, *options: str) -> None:
    """A file system in memory, at a directory that is made; options as ``size=1m``, ``nr_inodes=100``."""
    place.mkdir(parents=True, exist_ok=True)
    _mount("-t", "tmpfs", "-o", ",".join(["mode=700", *options]), "none", str(place))


def bind(place: Path, there: Path) -> None:
    """Let a directory be seen in another place too."""
    there.mkdir(parents=True, exist_ok=True)
    _mount("--bind", str(place), str(there))


def read_only(place: Path) -> None:
    """Make a directory read-only for whoever looks its files up from now on; `release` undoes it."""
    _mount("--bind", str(place), str(place))
    _mount("-o", "remount,bind,ro", str(place))


def release(place: Path) -> None:
    """Undo the last mount at that place, whoever still uses it."""
    _mount("-l", str(place), command="umount")


def fill(place: Path) -> Path:
    """Use up every byte of a file system; the file to remove to have them back."""
    filler = place / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    return filler


class Disk:
    """A disk image with a journaling file system, mounted at ``place``; its power can be cut."""

    def __init__(self, image: Path, place: Path, size: str = "96M") -> None:
        self.place, self._image = place, image
        place.mkdir(parents=True, exist_ok=True)
        with image.open("wb") as file:
            file.truncate(int(size.removesuffix("M")) << 20)
        _mount("-q", "-F", str(image), command="mkfs.ext4")
        self.mount()

    def mount(self) -> None:
        """Mount it, with the recovery of the file system's journal when that is needed."""
        _mount("-o", "loop", str(self._image), str(self.place))

    def unmount(self) -> None:
        """Take it away; fails while somebody uses it."""
        _mount(str(self.place), command="umount")

    def cut(self) -> None:
        """Cut the power: every later call on it fails, and only what is on the disk will be there again."""
        fd = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(fd)


@functools.cache
def why_no_mounts() -> str:
    """Why no file system can be mounted here; empty when it can."""
    return _tried(lambda base: tmpfs(base / "m", "size=64k"))


@functools.cache
def why_no_disks() -> str:
    """Why no disk image can be mounted and shut down here; empty when it can."""

    def attempt(base: Path) -> None:
        disk = Disk(base / "image", base / "m", "8M")
        disk.cut()
        disk.unmount()

    return _tried(attempt)


def _tried(attempt: Callable[[Path], None]) -> str:
    if os.geteuid() != 0:
        return "only root may mount"
    with tempfile.TemporaryDirectory(prefix="om-") as base:
        try:
            apart(lambda: attempt(Path(base)))
        except OSError as error:
            return f"this machine does not allow it: {error}"
    return ""
