"""System calls for the store that fail, wait, count or are written down, as a test asks."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.journal.syncer import Syncer
from orchestrator.journal.syscalls import SysIO

TYPES = frozenset({"task", "ack", "result"})
AT = "2026-01-01T00:00:00.000Z"


def record(kind="task", **more):
    return {"at": AT, "type": kind, **more}


class HeldSyncer(Syncer):
    """Runs a sync when the test says so, never by itself."""

    def __init__(self, failures=None):
        self.failures = [] if failures is None else failures
        super().__init__(self.failures.append, threads=0)
        self.held = []

    def submit(self, job, done):
        self.held.append((job, done))

    def run(self):
        """Run everything held, in order; returns how many syncs ran."""
        held, self.held = self.held, []
        for job, done in held:
            super().submit(job, done)
        return len(held)


class UnsyncedIO(SysIO):
    """Syncs nothing: where no power is cut, it makes no difference but time."""

    def fdatasync(self, fd):
        pass

    def fsync(self, fd):
        pass


class FaultyIO(UnsyncedIO):
    """Counts every call by name; ``plan[name, n]`` makes the n-th (from 1) fail, or a write come out short.

    A plan's value is an errno, or for pwrite the pair ("short", bytes).
    """

    def __init__(self, plan=None):
        self.plan = dict(plan or {})
        self.calls = Counter()
        self.bytes_read = 0
        self.sync_gate = None  # an Event: syncs wait for it
        self.in_sync = threading.Semaphore(0)  # released once per sync that has begun

    def _fault(self, name):
        self.calls[name] += 1
        fault = self.plan.get((name, self.calls[name]))
        if isinstance(fault, int):
            raise OSError(fault, os.strerror(fault))
        return fault

    def pwrite(self, fd, data, offset):
        fault = self._fault("pwrite")
        return super().pwrite(fd, data if fault is None else data[: fault[1]], offset)

    def pread(self, fd, count, offset):
        self._fault("pread")
        data = super().pread(fd, count, offset)
        self.bytes_read += len(data)
        return data

    def fstat(self, fd):
        self._fault("fstat")
        return super().fstat(fd)

    def ftruncate(self, fd, size):
        self._fault("ftruncate")
        super().ftruncate(fd, size)

    def fdatasync(self, fd):
        self.in_sync.release()
        if self.sync_gate is not None:
            assert self.sync_gate.wait(60), "the test never let the sync go on"
        self._fault("fdatasync")
        super().fdatasync(fd)

    def fsync(self, fd):
        self._fault("fsync")
        super().fsync(fd)

    def rename(self, source, target):
        self._fault("rename")
        super().rename(source, target)

    def stat(self, path):
        self._fault("stat")
        return super().stat(path)

    def listdir(self, path):
        self._fault("listdir")
        return super().listdir(path)

    def mkdir(self, path, mode):
        self._fault("mkdir")
        super().mkdir(path, mode)

    def open(self, path, flags, mode=0o600):
        self._fault("open")
        return super().open(path, flags, mode)


@dataclass
class Op:
    """One thing that happened: to a file (an inode), to a name in the directory, or (``note``) in the program."""

    name: str
    offset: int = 0
    data: bytes = b""
    size: int = 0
    note: object = None
    inode: int = 0
    path: str = "log"
    target: str = ""


@dataclass
class RecordingIO(UnsyncedIO):
    """Does the real calls and writes down, in order, those that change or sync the files of one log."""

    path: Path
    ops: list[Op] = field(default_factory=list)
    fds: dict[int, int] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    directory_fds: set[int] = field(default_factory=set)

    def open(self, path, flags, mode=0o600):
        existed = Path(path).exists()
        fd = super().open(path, flags, mode)
        if path == self.path.parent:
            self.directory_fds.add(fd)
        elif path.suffix != ".torn":
            if not existed:
                inode = 1 + max([op.inode for op in self.ops], default=-1)
                self.names[path.name] = inode
                self.ops.append(Op("create", inode=inode, path=path.name))
            self.fds[fd] = self.names[path.name]
        return fd

    def close(self, fd):
        self.fds.pop(fd, None)
        self.directory_fds.discard(fd)
        super().close(fd)

    def rename(self, source, target):
        super().rename(source, target)
        inode = self.names[target.name] = self.names.pop(source.name)
        self.ops.append(Op("rename", inode=inode, path=source.name, target=target.name))

    def pwrite(self, fd, data, offset):
        wrote = super().pwrite(fd, data, offset)
        if fd in self.fds:
            self.ops.append(Op("write", offset=offset, data=data[:wrote], inode=self.fds[fd]))
        return wrote

    def ftruncate(self, fd, size):
        super().ftruncate(fd, size)
        if fd in self.fds:
            self.ops.append(Op("truncate", size=size, inode=self.fds[fd]))

    def fdatasync(self, fd):
        super().fdatasync(fd)
        if fd in self.fds:
            self.ops.append(Op("sync", inode=self.fds[fd]))

    def fsync(self, fd):
        super().fsync(fd)
        if fd in self.directory_fds:
            self.ops.append(Op("sync_dir"))


ENOSPC, EIO, EDQUOT = errno.ENOSPC, errno.EIO, errno.EDQUOT
