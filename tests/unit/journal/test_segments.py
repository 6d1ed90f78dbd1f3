"""A log of many files: when the live one is full, what happens if that fails, and that it reads as one log."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
from pathlib import Path

import pytest

from orchestrator.base.errors import Corrupt, Environment
from orchestrator.journal.log import Journal
from orchestrator.journal.log_reader import page, place, read_all
from orchestrator.journal.segments import full_firsts, full_path, log_exists, log_files, set_aside
from orchestrator.journal.syncer import Syncer
from tests.support.faulty_disk import EIO, ENOSPC, TYPES, FaultyIO, HeldSyncer, record

EACCES = errno.EACCES
SMALL = 2000  # bytes of a segment: about 16 records of the tests
ALL = (10_000, 1 << 30)


@pytest.fixture
def anyio_backend():
    return "asyncio"


class MakingIO(FaultyIO):
    """Counts apart, as "create", the calls that make a log file; the first is the one of a new log."""

    def open(self, path, flags, mode=0o600):
        if flags & os.O_EXCL:
            self._fault("create")
        return super().open(path, flags, mode)


def opened(path, io=None, syncer=None, **more):
    found = []
    log = Journal.open(
        path,
        syncer=syncer or Syncer(pytest.fail, threads=0),
        io=io or MakingIO(),
        types=TYPES,
        segment_bytes=more.pop("segment_bytes", SMALL),
        on_record=found.append,
        **more,
    )
    return log, found


def add(log, count=1, *, sync=True):
    for _ in range(count):
        log.append([record(n=log.last_seq + 1, text="x" * 40)], sync=sync)


def filled(path, count, **more):
    log, _ = opened(path, **more)
    add(log, count)
    log.close()


def numbers(found):
    return [one["n"] for one in found]


def whole(path):
    """Every record, as each way to read the log tells it; they must agree."""
    found = list(read_all(path, TYPES))
    assert page(path, TYPES, 0, ALL) == found
    return numbers(found)


def descriptors(directory):
    found = []
    for fd in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(fd.readlink()))
    return [target for target in found if target.startswith(str(directory))]


def test_a_full_live_file_is_named_by_its_first_seq_and_all_files_by_name_are_the_log(tmp_path):
    path = tmp_path / "outbox.jsonl"
    (tmp_path / "outbox.000000000007.json").touch()
    (tmp_path / "outbox.7.jsonl").touch()
    (tmp_path / "outbox.0000000000007.jsonl").touch()
    (tmp_path / "inbox.000000000001.jsonl").touch()
    log, _ = opened(path)
    add(log, 100)
    assert full_firsts(path)[0] == 1
    assert len(full_firsts(path)) > 4
    assert full_path(path, 1).name == "outbox.000000000001.jsonl"
    files = log_files(path)
    assert files[-1] == path
    joined = b"".join(file.read_bytes() for file in sorted(files))
    assert joined == b"".join(file.read_bytes() for file in files)
    other = Journal.open(
        tmp_path / "one", syncer=Syncer(pytest.fail, threads=0), types=TYPES, segment_bytes=0, durability="os"
    )
    add(other, 100)
    assert joined == (tmp_path / "one").read_bytes()
    for file, first in zip(files, [*full_firsts(path), None], strict=True):
        size = file.stat().st_size
        assert size < SMALL + 200
        if first is not None:
            assert size >= SMALL
            assert file.read_bytes().startswith(b'{"v":1,"seq":%d,' % first)
    assert whole(path) == numbers(log.tail(200, 1 << 30)) == list(range(1, 101))
    assert sorted(descriptors(tmp_path)) == sorted([str(path), str(tmp_path / "one")])


@pytest.mark.parametrize("segment_bytes", [0, None])
def test_without_a_limit_the_log_stays_one_file(tmp_path, segment_bytes):
    filled(tmp_path / "log", 100, segment_bytes=segment_bytes)
    assert log_files(tmp_path / "log") == [tmp_path / "log"]


def test_a_log_exists_while_any_of_its_files_does(tmp_path):
    path = tmp_path / "log"
    assert not log_exists(path)
    assert not log_exists(tmp_path / "nowhere" / "log")
    assert log_files(path) == []
    filled(path, 40)
    assert log_exists(path)
    path.unlink()
    assert log_exists(path)


def test_the_place_of_a_record_is_its_file_and_its_line_there(tmp_path):
    path = tmp_path / "log"
    filled(path, 60)
    for seq in range(1, 61):
        file, line = place(path, seq)
        assert b'"seq":%d,' % seq in file.read_bytes().split(b"\n")[line - 1]


def test_a_file_is_sealed_only_when_all_of_it_is_synced(tmp_path):
    syncer = HeldSyncer()
    log, _ = opened(tmp_path / "log", syncer=syncer)
    while (tmp_path / "log").stat().st_size < SMALL:
        add(log, sync=False)
    add(log)
    assert not full_firsts(tmp_path / "log")
    syncer.run()
    add(log)
    assert full_firsts(tmp_path / "log") == [1]
    assert log.visible_seq == log.last_seq - 1


@pytest.mark.anyio
@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("durability", ["fsync", "os"])
async def test_the_live_file_never_exceeds_two_segments_though_no_sync_ever_ends_in_time(tmp_path, sync, durability):
    syncer = HeldSyncer()
    io = FaultyIO()
    log, _ = opened(tmp_path / "log", io, syncer, durability=durability)
    first = None
    seen = []
    log.signal.notify = lambda: seen.append(log.visible_seq)
    for n in range(200):
        add(log, sync=sync)
        if n == 0 and sync and durability == "fsync":
            first = asyncio.ensure_future(log.synced(1))
            await asyncio.sleep(0)
        assert (tmp_path / "log").stat().st_size <= 2 * SMALL + 130
    assert len(full_firsts(tmp_path / "log")) >= 5
    assert io.calls["fdatasync"] == len(full_firsts(tmp_path / "log")), "each was synced before it was renamed"
    if first is not None:
        await asyncio.wait_for(first, 60)
        assert seen == [n - 1 for n in full_firsts(tmp_path / "log")[1:]] + [log.visible_seq]
    syncer.run()
    assert log.visible_seq == log.synced_seq == 200
    assert numbers(log.since(0, *ALL)[0]) == whole(tmp_path / "log") == list(range(1, 201))


@pytest.mark.anyio
@pytest.mark.parametrize("fast_s", [0, 10])
async def test_under_group_commit_everything_acknowledged_is_in_order_in_the_files(tmp_path, fast_s):
    syncer = Syncer(pytest.fail, fast_s=fast_s)
    log, _ = opened(tmp_path / "log", syncer=syncer)

    async def one():
        for _ in range(20):
            (stamped,) = log.append([record(n=log.last_seq + 1, text="x" * 40)], sync=True)
            await log.synced(stamped["seq"])
            assert log.visible_seq >= stamped["seq"]
            assert numbers(log.since(stamped["seq"] - 1, 1, 0)[0]) == [stamped["seq"]]
            assert (tmp_path / "log").stat().st_size <= 2 * SMALL + 130

    await asyncio.gather(*(one() for _ in range(20)))
    assert len(full_firsts(tmp_path / "log")) > 8
    log.close()
    syncer.close()
    assert whole(tmp_path / "log") == list(range(1, 401))


def test_the_first_record_of_a_new_file_is_shown_only_when_file_and_name_are_durable(tmp_path):
    io = FaultyIO()
    log, _ = opened(tmp_path / "log", io)
    add(log)
    while not full_firsts(tmp_path / "log"):
        before = io.calls["fdatasync"], io.calls["fsync"]
        add(log)
    # The old file again, its new name, the name of the new file; then the new file.
    assert (io.calls["fdatasync"], io.calls["fsync"]) == (before[0] + 2, before[1] + 2)
    add(log)
    assert (io.calls["fdatasync"], io.calls["fsync"]) == (before[0] + 3, before[1] + 2)


def test_in_a_new_file_too_never_more_is_unsynced_than_a_start_writes_again(tmp_path):
    io = FaultyIO()
    log, _ = opened(tmp_path / "log", io, segment_bytes=1 << 20)
    log.append([record("ack", text="x" * (1 << 20))], sync=True)
    log.append([record("ack")], sync=False)
    assert full_firsts(tmp_path / "log") == [1]
    before = io.calls["fdatasync"]
    for _ in range(20):
        log.append([record("ack", text="x" * 8000)], sync=False)
    assert io.calls["fdatasync"] == before + 1


def test_what_a_rotation_made_durable_is_told_though_the_append_fails(tmp_path):
    io = FaultyIO()
    log, _ = opened(tmp_path / "log", io, HeldSyncer())
    seen = []
    log.signal.notify = lambda: seen.append(log.visible_seq)
    while (tmp_path / "log").stat().st_size < 2 * SMALL:
        add(log)
    assert seen == []
    count = log.last_seq
    io.plan["pwrite", io.calls["pwrite"] + 1] = ENOSPC
    with pytest.raises(Environment) as refused:
        add(log)
    assert refused.value.code == "disk_full"
    assert seen == [count]
    assert numbers(log.since(0, *ALL)[0]) == list(range(1, count + 1))


# -- when a step of it fails


@pytest.mark.parametrize("reopen", [True, False])
@pytest.mark.parametrize(
    "plan",
    [
        pytest.param({("rename", 1): ENOSPC}, id="rename"),
        pytest.param({("rename", n): EACCES for n in range(1, 4)}, id="rename thrice"),
        pytest.param({("stat", 1): EIO}, id="looking for the name"),
        pytest.param({("open", 4): errno.EMFILE, ("open", 5): errno.EMFILE}, id="opening the directory"),
        pytest.param({("create", 2): ENOSPC}, id="create"),
        pytest.param({("create", n): EACCES for n in range(2, 5)}, id="create thrice"),
        pytest.param({("create", 2): ENOSPC, ("rename", 2): EIO}, id="create and the way back"),
        pytest.param({("create", 2): ENOSPC, ("stat", 2): EIO}, id="create and looking back"),
        pytest.param(
            {("create", n): ENOSPC for n in range(2, 5)} | {("rename", 2): EIO}, id="create thrice, no way back"
        ),
    ],
)
def test_a_rotation_that_is_refused_loses_nothing_and_is_tried_again(tmp_path, plan, reopen):
    path = tmp_path / "log"
    io = MakingIO(plan)
    log, _ = opened(path, io)
    seen = []
    for n in range(1, 60):
        add(log)
        assert log.visible_seq == n
        seen.append(len(log_files(path)))
        if n % 10 == 0:
            assert whole(path) == numbers(log.since(0, *ALL)[0]) == numbers(log.tail(*ALL)) == list(range(1, n + 1))
            if reopen:
                again, found = opened(tmp_path / "copy" / "log") if copy(tmp_path) else None
                assert numbers(found) == list(range(1, n + 1))
                add(again, 20)
                assert whole(tmp_path / "copy" / "log") == list(range(1, n + 21))
                again.close()
    assert len(full_firsts(path)) >= 2, "it was tried again"
    assert all(io.calls[call] >= n for call, n in plan), "the fault was met"
    assert descriptors(tmp_path) == [str(path)]
    log.close()
    _, found = opened(path)
    assert numbers(found) == list(range(1, 60))


def copy(directory):
    """The files as a kill -9 would leave them."""
    target = directory / "copy"
    target.mkdir(exist_ok=True)
    for old in target.iterdir():
        old.unlink()
    for file in directory.glob("log*"):
        (target / file.name).write_bytes(file.read_bytes())
    return True


def test_a_live_file_whose_successor_cannot_be_made_keeps_its_name(tmp_path):
    path = tmp_path / "log"
    log, _ = opened(path, MakingIO({("create", n): ENOSPC for n in range(2, 1000)}))
    add(log, 60)
    assert log_files(path) == [path]


def test_a_rotation_that_cannot_be_done_is_not_tried_at_every_append(tmp_path):
    io = FaultyIO({("rename", n): EACCES for n in range(1, 1000)})
    log, _ = opened(tmp_path / "log", io)
    add(log, 200)
    # Once when it is full, then whenever an eighth of a segment was added.
    assert 2 <= io.calls["rename"] <= 1 + ((tmp_path / "log").stat().st_size - SMALL) // (SMALL // 8)
    assert whole(tmp_path / "log") == list(range(1, 201))


def test_a_file_in_the_way_of_the_full_name_is_not_overwritten(tmp_path):
    log, _ = opened(tmp_path / "log")
    full_path(tmp_path / "log", 1).write_bytes(b"somebody's")
    add(log, 60)
    assert full_path(tmp_path / "log", 1).read_bytes() == b"somebody's"
    assert numbers(log.since(0, *ALL)[0]) == list(range(1, 61))


def test_a_file_in_the_way_of_the_live_name_is_not_overwritten(tmp_path):
    path = tmp_path / "log"

    class Meddler(FaultyIO):
        def rename(self, source, target):
            super().rename(source, target)
            if self.calls["rename"] == 1:
                path.write_bytes(b"somebody's")

    log, _ = opened(path, Meddler())
    add(log, 60)
    assert path.read_bytes() == b"somebody's"
    assert numbers(log.since(0, *ALL)[0]) == numbers(log.tail(*ALL)) == list(range(1, 61))


@pytest.mark.parametrize("call", ["fdatasync", "fsync"])
def test_a_failed_sync_within_a_rotation_is_final_and_told_once(tmp_path, call):
    path = tmp_path / "log"
    probe = FaultyIO()
    log, _ = opened(tmp_path / "probe", probe)
    while not full_firsts(tmp_path / "probe"):
        before = probe.calls[call]
        add(log)
    count = log.last_seq - 1

    failures = []
    log, _ = opened(path, FaultyIO({(call, before + 1): EIO}), Syncer(failures.append, threads=0))
    add(log, count)
    for _ in range(3):
        with pytest.raises(Environment) as refused:
            add(log)
        assert refused.value.code == "io_failed"
    assert [error.errno for error in failures] == [EIO]
    assert log.visible_seq == log.last_seq == count
    assert not log.rest()
    assert numbers(log.tail(*ALL)) == list(range(1, count + 1))
    log.close()
    assert descriptors(tmp_path) == [str(tmp_path / "probe")]
    log, found = opened(path)
    assert numbers(found) == list(range(1, count + 1))
    add(log, 40)
    assert whole(path) == list(range(1, count + 41))


@pytest.mark.parametrize("meddle", ["delete", "grow"])
def test_a_file_that_is_not_ours_any_more_is_not_sealed(tmp_path, meddle):
    path = tmp_path / "log"
    log, _ = opened(path)
    while path.stat().st_size < SMALL:
        add(log)
    if meddle == "delete":
        path.unlink()
    else:
        with path.open("a") as file:
            file.write("{}\n" * 100)
    for _ in range(2):
        with pytest.raises(Environment) as refused:
            add(log)
        assert refused.value.code == "io_failed"
    assert full_firsts(path) == []


def test_a_full_log_that_was_changed_at_rest_is_refused_and_no_sync_fails(tmp_path):
    path = tmp_path / "log"
    log, _ = opened(path)
    while path.stat().st_size < SMALL:
        add(log)
    assert log.rest()
    os.truncate(path, 10)
    with pytest.raises(Environment):  # a failed sync would fail the test: it ends the daemon
        add(log)
    assert full_firsts(path) == []


def test_a_full_log_at_rest_is_opened_again_and_sealed(tmp_path):
    path = tmp_path / "log"
    log, _ = opened(path)
    while path.stat().st_size < SMALL:
        add(log)
    assert log.rest()
    add(log)
    assert full_firsts(path) == [1]
    assert log.rest()
    assert numbers(log.tail(3, 1 << 20)) == list(range(log.last_seq - 2, log.last_seq + 1))
    assert descriptors(tmp_path) == []


def use(path, io, failures):
    """Open a log with a torn tail, let it be sealed twice, rest and be read; the seqs that were shown meanwhile.

    Every call may fail with an error of the environment; then the next thing is done.
    """
    log, shown = None, set()

    def look(found):
        assert numbers(found) == [one["seq"] for one in found]
        shown.update(numbers(found))

    for _ in range(3):  # a daemon that is started again
        with contextlib.suppress(Environment):
            log, found = opened(path, io, Syncer(failures.append, threads=0))
            look(found)
            break
    if log is None:
        return shown
    for n in range(40):
        with contextlib.suppress(Environment):
            add(log)
        shown.update(range(1, log.visible_seq + 1))
        if n % 8 == 7:
            log.rest()
            with contextlib.suppress(Environment):
                look(log.since(max(0, log.visible_seq - 30), *ALL)[0])
            with contextlib.suppress(Environment):
                look(log.tail(20, 1 << 30))
            with contextlib.suppress(Environment):
                look(page(path, TYPES, 0, ALL, io))
    log.close()
    return shown


def torn_log(path):
    filled(path, 10)
    with path.open("ab") as file:
        file.write(b'{"v":1,"s')


CALLS = ("listdir", "stat", "open", "create", "fstat", "pread", "pwrite", "fdatasync", "fsync", "ftruncate", "rename")


@pytest.mark.parametrize("call", CALLS)
def test_whichever_call_fails_what_was_shown_is_kept_and_nothing_is_there_twice(tmp_path, call):
    (tmp_path / "probe").mkdir()
    torn_log(tmp_path / "probe" / "log")
    probe = MakingIO()
    assert use(tmp_path / "probe" / "log", probe, []) == set(range(1, 51))
    assert len(full_firsts(tmp_path / "probe" / "log")) == 3
    for n in range(1, probe.calls[call] + 1):
        path = tmp_path / str(n) / "log"
        path.parent.mkdir()
        torn_log(path)
        failures = []
        io = MakingIO({(call, n): ENOSPC if call in ("open", "create", "rename") else EIO})
        shown = use(path, io, failures)
        assert io.calls[call] >= n, "the fault was met"
        assert len(failures) <= 1
        if failures:
            assert call in ("fdatasync", "fsync", "fstat", "open")
        else:
            assert len(shown) >= 45, "one failure, and the log went on"
        assert descriptors(path.parent) == []
        _, found = opened(path)
        assert numbers(found) == list(range(1, len(found) + 1))
        assert shown <= set(numbers(found))
        assert whole(path) == numbers(found)


# -- opening


@pytest.mark.parametrize("clean", [True, False])
def test_without_a_live_file_the_log_goes_on_behind_the_sealed_ones(tmp_path, clean):
    path = tmp_path / "log"
    filled(path, 40)
    last = full_firsts(path)[-1]
    path.unlink()
    assert whole(path) == list(range(1, 1 + len(whole(path))))
    count = len(whole(path))
    log, found = opened(path, clean=clean, create=False)
    assert numbers(found) == list(range(1, count + 1))
    assert last not in full_firsts(path), "a rotation that was not finished is undone"
    add(log, 40)
    assert whole(path) == list(range(1, count + 41))
    assert last in full_firsts(path)


@pytest.mark.parametrize("clean", [True, False])
def test_an_empty_live_file_is_the_end_of_a_rotation(tmp_path, clean):
    path = tmp_path / "log"
    filled(path, 40)
    os.truncate(path, 0)
    count = len(whole(path))
    log, found = opened(path, clean=clean)
    assert numbers(found) == list(range(1, count + 1))
    assert log.position().segment == full_firsts(path)[-1]
    assert numbers(log.tail(3, 1 << 20)) == [count - 2, count - 1, count]
    assert log.since(count, *ALL) == ([], False)
    add(log, 40)
    assert whole(path) == list(range(1, count + 41))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("tail", [b'{"v":1,"se', b"\0" * 700, b'{"v":1,"seq":99,"at"\0\0\0\0'])
def test_a_torn_tail_stands_in_the_last_file_only(tmp_path, tail, clean):
    path = tmp_path / "log"
    filled(path, 40)
    with path.open("ab") as file:
        file.write(tail)
    assert whole(path) == list(range(1, 41))
    log, found = opened(path, clean=clean)
    assert numbers(found) == list(range(1, 41))
    assert log.repaired == (path.stat().st_size, len(tail), tmp_path / "log.torn")
    log.close()
    # And where the last file lost the live name.
    full_name = full_path(path, full_firsts(path)[-1])
    path.unlink()
    count = len(whole(path))
    with full_name.open("ab") as file:
        file.write(tail)
    assert whole(path) == list(range(1, count + 1))
    log, found = opened(path, clean=clean)
    assert len(found) == count
    assert log.repaired.cut_bytes == len(tail)


def damaged(path, how):
    """Damage a log of five sealed files; the file and line where it must be found."""
    firsts = full_firsts(path)
    files = [full_path(path, first) for first in firsts]
    lines = [file.read_bytes().count(b"\n") for file in files]
    if how == "first gone":
        files[0].unlink()
        return files[1], 1
    if how == "middle gone":
        files[2].unlink()
        return files[3], 1
    if how == "last gone":
        files[-1].unlink()
        return path, 1
    if how == "middle torn":
        os.truncate(files[2], files[2].stat().st_size - 1)
        return files[2], lines[2]
    if how == "middle cut on a line boundary":
        os.truncate(files[2], files[2].read_bytes().rfind(b"\n", 0, -1) + 1)
        return files[3], 1
    if how == "last sealed torn":
        os.truncate(files[-1], files[-1].stat().st_size - 20)
        return files[-1], lines[-1]
    if how == "middle emptied":
        os.truncate(files[2], 0)
        return files[3], 1
    if how == "renamed":
        target = full_path(path, firsts[2] + 1)
        files[2].rename(target)
        return target, 1
    if how == "swapped":
        content = files[1].read_bytes()
        files[1].write_bytes(files[2].read_bytes())
        files[2].write_bytes(content)
        return files[1], 1
    if how == "nuls at the end of a sealed one":
        data = files[2].read_bytes()
        files[2].write_bytes(data[:-30] + b"\0" * 29 + b"\n")
        return files[2], lines[2]
    assert how == "live of another log"
    path.write_bytes(files[1].read_bytes())
    return path, 1


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "how",
    [
        "first gone", "middle gone", "last gone", "middle torn", "middle cut on a line boundary", "last sealed torn",
        "middle emptied", "renamed", "swapped", "nuls at the end of a sealed one", "live of another log",
    ],
)  # fmt: skip
def test_what_cannot_be_true_of_the_files_is_refused_with_file_and_line(tmp_path, how, clean):
    path = tmp_path / "log"
    filled(path, 90)
    assert len(full_firsts(path)) == 5
    file, line = damaged(path, how)
    before = {one: one.read_bytes() for one in tmp_path.iterdir()}
    for read in (lambda: opened(path, clean=clean), lambda: list(read_all(path, TYPES))):
        with pytest.raises(Corrupt) as damage:
            read()
        assert damage.value.code == "corrupt_log"
        assert (damage.value.facts["file"], damage.value.facts["line"]) == (str(file), line)
        assert {one: one.read_bytes() for one in tmp_path.iterdir()} == before
        assert descriptors(tmp_path) == []
    # Page by page, the damage is met too, and what comes before it is right.
    with pytest.raises(Corrupt):
        walk(path)


def walk(path):
    seq = 0
    while found := page(path, TYPES, seq, (7, 1 << 30)):
        assert numbers(found) == list(range(seq + 1, seq + len(found) + 1))
        seq = found[-1]["seq"]
    return seq


def test_a_page_of_what_stood_in_a_missing_file_is_refused_and_not_empty(tmp_path):
    path = tmp_path / "log"
    filled(path, 80)
    last = full_firsts(path)[-1]
    live = 81 - path.read_bytes().count(b"\n")
    assert 81 - live < live - last, "what is there is shorter than what is missing"
    full_path(path, last).unlink()
    for seq in range(last - 2, live - 1):
        with pytest.raises(Corrupt):
            page(path, TYPES, seq, ALL)
    for seq in range(live - 1, 81):
        assert numbers(page(path, TYPES, seq, ALL)) == list(range(seq + 1, 81))


def test_a_sealed_file_that_is_all_there_is_and_empty_is_refused(tmp_path):
    path = tmp_path / "log"
    full_path(path, 1).touch()
    with pytest.raises(Corrupt):
        opened(path)
    assert not path.exists()


def test_sealed_files_removed_or_cut_while_in_use_are_refused_by_the_reader(tmp_path):
    path = tmp_path / "log"
    log, _ = opened(path)
    add(log, 90)
    firsts = full_firsts(path)
    os.truncate(full_path(path, firsts[1]), 0)
    full_path(path, firsts[3]).unlink()
    for read in (
        lambda: log.since(0, *ALL),
        lambda: log.since(firsts[1], *ALL),
        lambda: log.since(firsts[3] + 1, 1, 1),
        lambda: log.tail(*ALL),
    ):
        with pytest.raises(Corrupt):
            read()
    assert numbers(log.since(firsts[4] - 1, *ALL)[0]) == list(range(firsts[4], 91))
    full_path(path, firsts[3]).touch()
    with pytest.raises(Corrupt):
        log.tail(firsts[4] - firsts[3] + 90 - firsts[4] + 1, 1 << 30)
    os.truncate(path, 0)
    for read in (lambda: log.since(log.last_seq - 1, *ALL), lambda: log.tail(1, 1)):
        with pytest.raises(Corrupt):
            read()
    assert descriptors(tmp_path) == [str(path)]


# -- reading while it is rotated


class Interrupting(FaultyIO):
    """Lets somebody else act before the n-th call of a reader, or before several."""

    def __init__(self, acts):
        super().__init__()
        self.acts, self.count = acts, 0

    def _fault(self, name):
        self.count += 1
        if self.count in self.acts:
            self.acts[self.count]()
        return super()._fault(name)


@pytest.mark.parametrize("before", [1, 10, 17, 18, 34, 60])
@pytest.mark.parametrize("other", ["rotates", "cannot create", "was killed between"])
def test_a_reader_sees_the_log_as_it_was_whatever_is_rotated_meanwhile(tmp_path, before, other):
    met = 0
    for at in itertools.count(1):
        directory = tmp_path / str(at)
        directory.mkdir()
        path = directory / "log"
        io = MakingIO()
        log, _ = opened(path, io, segment_bytes=SMALL)
        add(log, before)
        if other == "was killed between" and full_firsts(path):
            path.unlink(missing_ok=True)
        there = len(whole(path))

        def act(log=log, io=io, path=path):
            if other == "was killed between":
                log.close()
                again, _ = opened(path)
                add(again, 60)
                again.close()
                return
            if other == "cannot create":
                io.plan |= {("create", io.calls["create"] + n): ENOSPC for n in range(1, 6)}
            add(log, 60)

        reader = Interrupting({at: act})
        found = numbers(read_all(path, TYPES, reader))
        assert found == list(range(1, len(found) + 1))
        assert len(found) >= there
        paged = Interrupting({at: lambda log=log: add(log, 30) if other != "was killed between" else None})
        wanted = max(0, there - 3)
        assert numbers(page(path, TYPES, wanted, (3, 1 << 30), paged))[:there] == list(range(wanted + 1, there + 1))
        log.close()
        assert descriptors(directory) == []
        if reader.count < at:
            break
        met += 1
    assert met >= 4


@pytest.mark.parametrize("count", [5, 20, 40])
def test_a_reader_sees_the_whole_log_though_its_last_file_changes_its_name_and_changes_it_back(tmp_path, count):
    path = tmp_path / "log"
    filled(path, count)
    name = full_path(path, count - path.read_bytes().count(b"\n") + 1)
    met = 0
    for there, back in itertools.combinations(range(1, 14), 2):
        for read in (
            lambda io: list(read_all(path, TYPES, io)),
            lambda io: page(path, TYPES, 0, ALL, io),
        ):
            reader = Interrupting({there: lambda: path.rename(name), back: lambda: name.rename(path)})
            assert numbers(read(reader)) == list(range(1, count + 1))
            met += reader.count >= back
            if name.exists():
                name.rename(path)
    assert met > 20


def test_a_reader_that_pauses_within_a_log_goes_on_in_the_file_it_was_in(tmp_path):
    path = tmp_path / "log"
    log, _ = opened(path)
    add(log, 40)
    reader = read_all(path, TYPES)
    found = [next(reader)]
    add(log, 200)
    found += list(reader)
    assert numbers(found)[:40] == list(range(1, 41))
    assert numbers(found) == list(range(1, len(found) + 1))


# -- cost


def test_the_cost_of_a_read_does_not_grow_with_the_number_of_files(tmp_path):
    cost = {}
    for count in (2_000, 100_000):
        io = FaultyIO()
        path = tmp_path / f"log{count}"
        log, _ = opened(path, io, durability="os", segment_bytes=64 << 10)
        for start in range(0, count, 100):
            log.append([record(n=start + n + 1, text="x" * 150) for n in range(100)], sync=False)
        assert len(full_firsts(path)) > count / 1000
        for name, read in {
            "tail": lambda log=log: log.tail(50, 1 << 20),
            "since the start": lambda log=log: log.since(0, 50, 1 << 20)[0],
            "since the middle": lambda log=log, count=count: log.since(count // 2, 50, 1 << 20)[0],
            "since near the end": lambda log=log, count=count: log.since(count - 50, 50, 1 << 20)[0],
            "page of the middle": lambda io=io, path=path, count=count: page(
                path, TYPES, count // 2, (50, 1 << 20), io
            ),
        }.items():
            io.calls.clear()
            io.bytes_read = 0
            assert len(read()) == 50
            cost[name, count] = sum(io.calls.values()), io.bytes_read
        log.close()
    for name in ("tail", "since the start", "since the middle", "since near the end", "page of the middle"):
        (few, few_bytes), (many, many_bytes) = cost[name, 2_000], cost[name, 100_000]
        # A page may begin in one file and end in the next.
        assert many <= few + 8, name
        assert many_bytes <= few_bytes + (48 << 10), name
        assert many_bytes <= 100_000, name


@pytest.mark.parametrize("steps", range(5))
def test_a_log_that_is_set_aside_is_at_each_step_the_beginning_of_a_log(tmp_path, steps):
    path = tmp_path / "log.jsonl"
    filled(path, 60)
    count = len(log_files(path))
    assert count >= 4
    before = whole(path)

    class Dies(FaultyIO):
        left = steps

        def rename(self, source, target):
            if not self.left:
                raise OSError(errno.EIO, "dead")
            self.left -= 1
            super().rename(source, target)

    with contextlib.suppress(OSError):
        set_aside(path, "before-2", Dies())
    log, found = opened(path)
    assert numbers(found) == before[: len(found)]
    assert len(log_files(path)) == max(1, count - steps)
    log.close()
    set_aside(path, "before-2", FaultyIO())
    assert log_files(path) == []
    assert len(list(tmp_path.glob("*.before-2*"))) >= count  # nothing is written over
