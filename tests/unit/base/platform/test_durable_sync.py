"""What is synced is on the disk, also where fsync alone leaves it in the drive's cache."""

import errno
import os

import pytest

from orchestrator.base.platform import durable_sync

FULL = 51


@pytest.fixture
def calls(monkeypatch):
    """The calls as macOS has them; an error number to answer F_FULLFSYNC with may be put into ``fails``."""
    made = []

    def fcntl(fd, command):
        made.append(("full", command))
        if made.fails:
            raise OSError(made.fails, os.strerror(made.fails))

    class Calls(list):
        fails = 0

    made = Calls()
    monkeypatch.setattr(durable_sync, "LINUX", False)
    monkeypatch.setattr(durable_sync, "F_FULLFSYNC", FULL)
    monkeypatch.setattr(durable_sync.fcntl, "fcntl", fcntl)
    monkeypatch.setattr(durable_sync.os, "fsync", lambda fd: made.append(("fsync", fd)))
    return made


@pytest.mark.parametrize("sync", [durable_sync.sync_data, durable_sync.sync_file])
def test_macos_writes_through_the_cache_of_the_drive(calls, sync):
    sync(9)
    assert calls == [("full", FULL)]


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.ENOTTY, errno.EINVAL])
def test_a_file_system_that_cannot_gets_what_it_has(calls, number):
    calls.fails = number
    durable_sync.sync_data(9)
    assert calls == [("full", FULL), ("fsync", 9)]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_sync_that_failed_is_never_tried_in_another_way(calls, number):
    calls.fails = number
    with pytest.raises(OSError) as caught:
        durable_sync.sync_data(9)
    assert (caught.value.errno, calls) == (number, [("full", FULL)])
