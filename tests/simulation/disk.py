"""A disk that loses what was not synced. The files are real, below a temporary directory; only their loss is modelled.

What was written since the last sync of a file may be on the disk after a power cut or not, in the order of the writes;
the last of them may be torn, or read as NULs. What was done to names since the last sync of their directory may be
undone. After a failed sync the data stays readable, but no later sync brings it to the disk unless it is written again.
What is not written by the journal's system calls counts as being on the disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from orchestrator.journal.syncer import Syncer
from orchestrator.journal.syscalls import REAL, SysIO
from tests.simulation.loop import PROCESS, SimClock, SimLoop

CALLS = ("open", "close", "pread", "pwrite", "fdatasync", "fsync", "ftruncate", "fstat", "stat", "listdir", "rename",
         "unlink", "mkdir")  # fmt: skip
CHANGES = frozenset({"open", "pwrite", "fdatasync", "fsync", "ftruncate", "rename", "unlink", "mkdir"})


@dataclass(eq=False)
class File:
    """A file: its content on the disk, and the writes (``None``: a cut) that are not there yet.

    A directory: its names as programs see them, as they are on the disk, and the changes that are not there yet.
    """

    durable: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    directory: bool = False
    names: dict[str, File] = field(default_factory=dict)
    kept: dict[str, File] = field(default_factory=dict)
    changes: list[dict[str, File | None]] = field(default_factory=list)

    def change(self, change: dict[str, File | None]) -> None:
        _done(self.names, change)
        self.changes.append(change)

    def keep(self, count: int) -> None:
        """Bring the first changes to the disk."""
        for change in self.changes[:count]:
            _done(self.kept, change)
        del self.changes[:count]


def _done(names: dict[str, File], change: dict[str, File | None]) -> None:
    for name, file in change.items():
        names.pop(name, None)
        if file is not None:
            names[name] = file


def _after(content: bytes, writes: list[tuple[int, bytes | None]]) -> bytes:
    for offset, data in writes:
        if data is None:
            content = content[:offset].ljust(offset, b"\0")
        else:
            content = content[:offset].ljust(offset, b"\0") + data + content[offset + len(data) :]
    return content


class SimDisk(SysIO):
    """The disk of one machine, below ``root``. ``full``: no room; ``failing``: the next sync fails; ``sync_s``: its time."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.root = root
        self.chance = chance
        self.full = self.failing = False
        self.sync_s = 0.002
        self._tree = File(directory=True)
        self._open: dict[int, File] = {}

    # -- the calls of programs ----------------------------------------------------------------------------------

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        there = os.path.lexists(path)
        if not there and flags & os.O_CREAT:
            self._room()
        fd = super().open(path, flags, mode)
        if not there:
            self._parent(path).change({path.name: File()})
        self._open[fd] = self._file(path)
        return fd

    def close(self, fd: int) -> None:
        if self._open.pop(fd, None) is not None:  # else the cut has closed it
            super().close(fd)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        if self.full:
            data = data[: self.chance.randrange(len(data))] if self.chance.random() < 0.5 else b""
            if not data:
                self._room()
        wrote = super().pwrite(fd, data, offset)
        self._open[fd].pending.append((offset, bytes(data[:wrote])))
        return wrote

    def ftruncate(self, fd: int, size: int) -> None:
        super().ftruncate(fd, size)
        self._open[fd].pending.append((size, None))

    def fdatasync(self, fd: int) -> None:
        self.fsync(fd)

    def fsync(self, fd: int) -> None:
        file = self._open[fd]
        if self.failing:
            self.failing = False
            file.pending = []
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        file.keep(len(file.changes))
        file.durable, file.pending = _after(file.durable, file.pending), []

    def rename(self, source: Path, target: Path) -> None:
        file, parent = self._file(source), self._parent(source)
        assert source.parent == target.parent, "within one directory alone"
        super().rename(source, target)
        parent.change({source.name: None, target.name: file})

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self._parent(path).change({path.name: None})

    def mkdir(self, path: Path, mode: int) -> None:
        self._room()
        super().mkdir(path, mode)
        self._parent(path).change({path.name: File(directory=True)})

    def rmdir(self, path: Path) -> None:
        """Not one of the journal's calls: see `installed`."""
        self._parent(path).change({path.name: None})

    def _room(self) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _parent(self, path: Path) -> File:
        return self._file(path.parent)

    def _file(self, path: Path) -> File:
        """A file that was there before counts as being on the disk."""
        file, at = self._tree, self.root
        for name in path.relative_to(self.root).parts:
            at /= name
            if name not in file.names:
                directory = at.is_dir()
                file.names[name] = file.kept[name] = File(b"" if directory else at.read_bytes(), directory=directory)
            file = file.names[name]
        return file

    # -- what happens to the machine ----------------------------------------------------------------------------

    def settle(self) -> None:
        """Make everything durable, as after a while without work."""
        for file in _all(self._tree):
            file.keep(len(file.changes))
            file.durable, file.pending = _after(file.durable, file.pending), []

    def release(self) -> None:
        """Close the descriptors of a process that has died."""
        for fd in list(self._open):
            self.close(fd)

    def cut_power(self) -> None:
        """Leave on the disk what a power cut may leave there."""
        self.release()
        for directory in _all(self._tree):
            directory.keep(self.chance.randint(0, len(directory.changes)) if directory.changes else 0)
        self._rebuild(self._tree, self.root)

    def _rebuild(self, directory: File, at: Path) -> None:
        """Make the real directory what is kept of it; what the journal did not write stays where it is."""
        for name, file in directory.names.items():
            stays = directory.kept.get(name) is file and file.directory
            path = at / name
            if not stays and path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif not stays:
                path.unlink(missing_ok=True)
        for name, file in directory.kept.items():
            path = at / name
            if file.directory:
                path.mkdir(0o700, exist_ok=True)
                self._rebuild(file, path)
            else:
                file.durable, file.pending = self._torn(file), []
                path.write_bytes(file.durable)
                path.chmod(0o600)
        directory.names, directory.changes = dict(directory.kept), []

    def _torn(self, file: File) -> bytes:
        if not file.pending:
            return file.durable
        count = self.chance.choice((0, len(file.pending), self.chance.randint(0, len(file.pending))))
        content, more = _after(file.durable, file.pending[:count]), file.pending[count : count + 1]
        if not more or more[0][1] is None or self.chance.random() < 0.3:
            return content
        offset, data = more[0][0], more[0][1]
        part = self.chance.randint(0, len(data))
        torn = _after(content, [(offset, data[:part])])
        if self.chance.random() < 0.7:
            return torn
        return torn.ljust(offset + len(data), b"\0")  # its length has arrived, its blocks have not

    def copied_from(self, source: Path) -> None:
        """Hold what ``source`` holds, all of it durable: an older copy of this disk was restored."""
        self.release()
        for path in sorted(self.root.iterdir()):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(source, self.root, dirs_exist_ok=True)
        self._tree = File(directory=True)


def _all(directory: File) -> Iterator[File]:
    """The directory and all that is below it, each once: as programs see it, and what only the disk still has."""
    seen: dict[int, None] = {}
    waiting = [directory]
    while waiting:
        file = waiting.pop(0)
        if id(file) in seen:
            continue
        seen[id(file)] = None
        yield file
        waiting += [*file.names.values(), *file.kept.values()]


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Meanwhile each process makes the journal's system calls on its own disk; outside of processes they are real."""

    def routed(name: str) -> Any:
        real = getattr(SysIO, name)

        def call(*args: Any) -> Any:
            process = PROCESS.get()
            if process is None:
                return real(REAL, *args)
            if name == "close":  # also while what a dead process left is swept up
                return process.disk.close(*args)
            process.step(name)
            return getattr(process.disk, name)(*args)

        return call

    def rmdir(path: Path, *, _real: Any = Path.rmdir) -> None:
        _real(path)
        process = PROCESS.get()
        if process is not None and process.disk is not None and path.is_relative_to(process.disk.root):
            process.disk.rmdir(path)

    for name in CALLS:
        setattr(REAL, name, routed(name))
    try:
        with mock.patch.object(Path, "rmdir", rmdir):  # the journal has no call of its own for it
            yield
    finally:
        for name in CALLS:
            delattr(REAL, name)


class SimSyncer(Syncer):
    """Syncs as the threads of a process do: each begins and ends when the seed says, in virtual time."""

    def __init__(self, on_failure: Any, loop: SimLoop, disk: SimDisk, clock: SimClock) -> None:
        super().__init__(on_failure, threads=0, clock=clock)
        self._sim = loop
        self._disk = disk

    def submit(self, job: Any, done: Any) -> None:
        self._sim.call_later(self._delay(), self._begin, job, done)

    def _delay(self) -> float:
        return self._sim.chance.random() * self._disk.sync_s if self._sim.chance.random() < 0.7 else 0.0

    def _begin(self, job: Any, done: Any) -> None:
        self._sim.call_later(self._delay(), self._end, done, self._run(job))

    def _end(self, done: Any, error: Exception | None) -> None:
        done(error)
        self._report_failure()
