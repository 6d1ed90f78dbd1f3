"""A disk that loses what was not synced. The files are real, below a temporary directory; only their loss is modelled.

What was written since the last sync of a file may be on the disk after a power cut or not, in the order of the writes;
the last of them may be torn, or read as NULs. What was done to names since the last sync of their directory may be
undone. After a failed sync the data stays readable, but no later sync brings it to the disk unless it is written again.
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

from orchestrator.journal.syncer import Syncer
from orchestrator.journal.syscalls import REAL, SysIO
from tests.simulation.loop import PROCESS, SimClock, SimLoop

CALLS = ("open", "close", "pread", "pwrite", "fdatasync", "fsync", "ftruncate", "fstat", "stat", "listdir", "rename",
         "unlink", "mkdir")  # fmt: skip
CHANGES = frozenset({"open", "pwrite", "fdatasync", "fsync", "ftruncate", "rename", "unlink", "mkdir"})


@dataclass(eq=False)
class File:
    """A file or directory: its content on the disk, and the writes (``None``: a cut) that are not there yet."""

    durable: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    directory: bool = False


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
        self._names: dict[str, File] = {}  # as programs see them
        self._kept: dict[str, File] = {}  # as they are on the disk
        self._changes: dict[str, list[dict[str, File | None]]] = {}  # by directory: what its next sync makes durable
        self._open: dict[int, tuple[str, File]] = {}

    # -- the calls of programs ----------------------------------------------------------------------------------

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        name, there = str(path), os.path.lexists(path)
        if not there and flags & os.O_CREAT:
            self._room()
        fd = super().open(path, flags, mode)
        if not there:
            self._names[name] = File()
            self._named(path, {name: self._names[name]})
        self._open[fd] = name, self._file(path)
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
        self._open[fd][1].pending.append((offset, bytes(data[:wrote])))
        return wrote

    def ftruncate(self, fd: int, size: int) -> None:
        super().ftruncate(fd, size)
        self._open[fd][1].pending.append((size, None))

    def fdatasync(self, fd: int) -> None:
        self.fsync(fd)

    def fsync(self, fd: int) -> None:
        name, file = self._open[fd]
        if self.failing:
            self.failing = False
            file.pending = []
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        for change in self._changes.pop(name, ()) if file.directory else ():
            self._keep(change)
        file.durable, file.pending = _after(file.durable, file.pending), []

    def rename(self, source: Path, target: Path) -> None:
        file = self._file(source)
        super().rename(source, target)
        del self._names[str(source)]
        self._names[str(target)] = file
        self._named(source, {str(source): None, str(target): file})

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self._names.pop(str(path), None)
        self._named(path, {str(path): None})

    def mkdir(self, path: Path, mode: int) -> None:
        self._room()
        super().mkdir(path, mode)
        self._names[str(path)] = File(directory=True)
        self._named(path, {str(path): self._names[str(path)]})

    def _room(self) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _named(self, path: Path, change: dict[str, File | None]) -> None:
        self._changes.setdefault(str(path.parent), []).append(change)

    def _file(self, path: Path) -> File:
        """A file that was there before counts as being on the disk."""
        name = str(path)
        if name not in self._names:
            directory = path.is_dir()
            self._names[name] = self._kept[name] = File(b"" if directory else path.read_bytes(), directory=directory)
        return self._names[name]

    def _keep(self, change: dict[str, File | None]) -> None:
        for name, file in change.items():
            if file is None:
                self._kept.pop(name, None)
            else:
                self._kept[name] = file

    # -- what happens to the machine ----------------------------------------------------------------------------

    def settle(self) -> None:
        """Make everything durable, as after a while without work."""
        for changes in self._changes.values():
            for change in changes:
                self._keep(change)
        self._changes.clear()
        for file in self._names.values():
            file.durable, file.pending = _after(file.durable, file.pending), []

    def release(self) -> None:
        """Close the descriptors of a process that has died."""
        for fd in list(self._open):
            self.close(fd)

    def cut_power(self) -> None:
        """Leave on the disk what a power cut may leave there."""
        self.release()
        for directory in sorted(self._changes):
            changes = self._changes[directory]
            for change in changes[: self.chance.randint(0, len(changes))]:
                self._keep(change)
        everything = sorted({*self._names, *self._kept}, key=lambda name: (name.count("/"), name))
        for name in reversed(everything):
            path = Path(name)
            if name in self._kept and self._kept[name].directory:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        kept, self._kept, self._names, self._changes = self._kept, {}, {}, {}
        for name in everything:
            file = kept.get(name)
            if file is None or not Path(name).parent.is_dir():
                continue
            if file.directory:
                Path(name).mkdir(0o700, exist_ok=True)
            else:
                file.durable, file.pending = self._torn(file), []
                Path(name).write_bytes(file.durable)
                Path(name).chmod(0o600)
            self._names[name] = self._kept[name] = file

    def _torn(self, file: File) -> bytes:
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

    for name in CALLS:
        setattr(REAL, name, routed(name))
    try:
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
