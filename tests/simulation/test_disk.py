"""The disk that loses what was not synced."""

import os
import random

import pytest

from tests.simulation.disk import SimDisk

NEW = os.O_RDWR | os.O_CREAT


@pytest.fixture(params=range(40))
def disk(tmp_path, request):
    return SimDisk(tmp_path, random.Random(request.param))


def test_what_was_synced_stays_and_the_rest_is_lost_from_its_end(disk, tmp_path):
    fd = disk.open(tmp_path / "log", NEW)
    disk.pwrite(fd, b"one\n", 0)
    disk.fdatasync(fd)
    disk.fsync_dir(tmp_path)
    disk.pwrite(fd, b"two\n", 4)
    disk.pwrite(fd, b"three\n", 8)
    disk.cut_power()
    left = (tmp_path / "log").read_bytes()
    assert left.startswith(b"one\n")
    assert b"one\ntwo\nthree\n".startswith(left.rstrip(b"\0"))


def test_a_name_stays_only_after_the_sync_of_its_directory(tmp_path):
    left = set()
    for seed in range(20):
        place = tmp_path / str(seed)
        place.mkdir()
        disk = SimDisk(place, random.Random(seed))
        fd = disk.open(place / "log", NEW)
        disk.pwrite(fd, b"x", 0)
        disk.fdatasync(fd)
        disk.cut_power()
        left.add((place / "log").exists())
    assert left == {True, False}


def test_a_replaced_file_is_the_old_or_the_new(disk, tmp_path):
    for name, data in (("a", b"old"), ("b", b"new")):
        fd = disk.open(tmp_path / name, NEW)
        disk.pwrite(fd, data, 0)
        disk.fsync(fd)
        disk.close(fd)
    disk.fsync_dir(tmp_path)
    disk.rename(tmp_path / "b", tmp_path / "a")
    disk.cut_power()
    assert (tmp_path / "a").read_bytes() == (b"old" if (tmp_path / "b").exists() else b"new")


def test_after_a_failed_sync_no_later_one_brings_the_data_to_the_disk(disk, tmp_path):
    fd = disk.open(tmp_path / "log", NEW)
    disk.fsync_dir(tmp_path)
    disk.pwrite(fd, b"one\n", 0)
    disk.failing = True
    with pytest.raises(OSError, match="Input/output"):
        disk.fdatasync(fd)
    disk.fdatasync(fd)
    assert disk.pread(fd, 4, 0) == b"one\n"
    disk.cut_power()
    assert (tmp_path / "log").read_bytes() == b""
