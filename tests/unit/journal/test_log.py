"""Appending: stamps, faults of the disk, what readers see when, and syncs that are shared."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import zlib

import orjson
import pytest

from orchestrator.base.errors import BadRequest, Environment
from orchestrator.journal.log import Journal
from orchestrator.journal.log_reader import read_all
from orchestrator.journal.syncer import Syncer
from tests.support.faulty_disk import EDQUOT, EIO, ENOSPC, TYPES, FaultyIO, HeldSyncer, record
from tests.support.team import FakeClock, settle

BOUND_S = 60.0  # a disk that others load takes seconds for a sync


@pytest.fixture
def anyio_backend():
    return "asyncio"


def opened(path, io=None, syncer=None, **more):
    return Journal.open(
        path, syncer=syncer or Syncer(pytest.fail, threads=0), io=io or FaultyIO(), types=TYPES, **more
    )


def numbers(path):
    return [found["n"] for found in read_all(path, TYPES)]


def test_a_line_is_v_seq_the_given_keys_in_order_and_a_crc_of_what_stands_before_it(tmp_path):
    log = opened(tmp_path / "log")
    (stamped,) = log.append([record(epoch=1, task_id="t")], sync=True)
    log.close()
    line = (tmp_path / "log").read_bytes()
    body, crc = line[:-19], line[-11:-3]
    assert line == body + b',"crc":"' + crc + b'"}\n'
    assert crc == b"%08x" % zlib.crc32(body)
    assert list(orjson.loads(line)) == ["v", "seq", "at", "type", "epoch", "task_id", "crc"]
    assert orjson.loads(line) == stamped
    assert (stamped["v"], stamped["seq"]) == (1, 1)


def test_a_list_of_records_is_one_write(tmp_path):
    io = FaultyIO()
    log = opened(tmp_path / "log", io)
    stamped = log.append([record(n=n) for n in range(5)], sync=True)
    assert [found["seq"] for found in stamped] == [1, 2, 3, 4, 5]
    assert io.calls["pwrite"] == 1
    assert log.append([], sync=True) == []
    assert io.calls["pwrite"] == 1


@pytest.mark.parametrize("fault", [ENOSPC, EDQUOT, EIO, ("short", 10), ("short", 0)])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_failed_write_is_taken_back_and_the_next_append_works(tmp_path, fault, at):
    io = FaultyIO({("pwrite", at): fault})
    log = opened(tmp_path / "log", io)
    stored = []
    for n in range(5):
        before = (tmp_path / "log").read_bytes()
        try:
            log.append([record(n=n, text="x" * 50)], sync=True)
            stored.append(n)
        except Environment as error:
            assert n == at - 1
            assert error.code == ("io_failed" if fault == EIO else "disk_full")
            assert (tmp_path / "log").read_bytes() == before
            assert log.last_seq == log.visible_seq == len(stored)
    assert len(stored) == 4
    assert numbers(tmp_path / "log") == stored
    assert [found["n"] for found in log.since(0, 10, 1 << 20)[0]] == stored


def test_a_short_write_that_cannot_be_taken_back_refuses_all_appends_until_it_can(tmp_path):
    io = FaultyIO({("pwrite", 2): ("short", 30), **{("ftruncate", n): EIO for n in (1, 2, 3)}})
    log = opened(tmp_path / "log", io)
    log.append([record(n=0)], sync=True)
    with pytest.raises(Environment) as first:
        log.append([record(n=1)], sync=True)
    assert first.value.code == "disk_full"
    for _ in range(2):
        with pytest.raises(Environment) as later:
            log.append([record(n=2)], sync=True)
        assert later.value.code == "io_failed"
    assert io.calls["pwrite"] == 2
    assert [found["n"] for found in log.tail(5, 1 << 20)] == [0]
    shutil.copy(tmp_path / "log", tmp_path / "copy")
    log.append([record(n=3)], sync=True)
    assert numbers(tmp_path / "log") == [0, 3]
    again = opened(tmp_path / "copy")
    assert again.repaired.cut_bytes == 30
    again.append([record(n=3)], sync=True)
    assert numbers(tmp_path / "copy") == [0, 3]


@pytest.mark.parametrize("payload", [2**70, "\ud800", {"a": {1: 2}}])
def test_what_json_cannot_hold_is_refused_and_nothing_is_written(tmp_path, payload):
    io = FaultyIO()
    log = opened(tmp_path / "log", io)
    with pytest.raises(BadRequest) as refused:
        log.append([record(n=0), record(payload=payload)], sync=True)
    assert refused.value.code == "bad_argument"
    assert io.calls["pwrite"] == 0
    assert log.last_seq == 0


def test_an_unknown_type_or_a_stamp_of_the_caller_is_a_bug(tmp_path):
    log = opened(tmp_path / "log")
    for wrong in ({"at": "", "type": "other"}, record(seq=7), record(crc="0"), record(v=1)):
        with pytest.raises(AssertionError):
            log.append([wrong], sync=True)
    assert log.last_seq == 0


def test_readers_see_records_in_order_of_seq_and_a_synced_one_only_when_it_is_on_the_disk(tmp_path):
    syncer = HeldSyncer()
    log = opened(tmp_path / "log", syncer=syncer)
    seen = []
    log.signal.notify = lambda: seen.append(log.visible_seq)

    def visible():
        found, more = log.since(0, 100, 1 << 20)
        assert not more
        assert found == log.tail(100, 1 << 20)
        assert [r["seq"] for r in found] == list(range(1, log.visible_seq + 1))
        return log.visible_seq

    log.append([record("ack")], sync=False)
    assert visible() == 1
    log.append([record("task"), record("task")], sync=True)
    assert visible() == 1
    log.append([record("ack")], sync=False)
    assert visible() == 1, "what is behind an unsynced record must wait for it"
    assert log.last_seq == 4
    syncer.run()
    assert visible() == 4
    log.append([record("ack")], sync=False)
    assert visible() == 5
    assert seen == [1, 4, 5]


def test_a_sync_shows_no_more_than_what_was_written_before_it_began(tmp_path):
    syncer = HeldSyncer()
    io = FaultyIO()
    log = opened(tmp_path / "log", io, syncer)
    log.append([record()], sync=True)
    began = io.fdatasync

    def append_meanwhile(fd):
        io.fdatasync = began
        log.append([record("ack")], sync=False)
        log.append([record("result")], sync=True)
        began(fd)

    io.fdatasync = append_meanwhile
    syncer.run()
    assert (log.synced_seq, log.visible_seq) == (1, 2)
    syncer.run()
    assert (log.synced_seq, log.visible_seq) == (3, 3)


def test_with_durability_os_nothing_is_synced_and_all_is_visible_at_once(tmp_path):
    io = FaultyIO()
    log = opened(tmp_path / "log", io, durability="os")
    log.append([record(), record()], sync=True)
    assert log.visible_seq == log.synced_seq == 2
    asyncio.run(log.synced(2))
    assert io.calls["fdatasync"] == io.calls["fsync"] == 0


def test_the_first_synced_append_makes_the_entry_of_a_new_file_durable_too(tmp_path):
    io = FaultyIO()
    log = opened(tmp_path / "log", io)
    assert io.calls["fsync"] == 0
    log.append([record()], sync=True)
    assert (io.calls["fdatasync"], io.calls["fsync"]) == (1, 1)
    log.append([record()], sync=True)
    assert (io.calls["fdatasync"], io.calls["fsync"]) == (2, 1)


def test_an_entry_that_cannot_be_synced_counts_as_a_failed_sync(tmp_path):
    failures = []
    log = opened(tmp_path / "log", FaultyIO({("fsync", 1): EIO}), Syncer(failures.append, threads=0))
    log.append([record()], sync=True)
    assert log.visible_seq == log.synced_seq == 0
    assert len(failures) == 1


@pytest.mark.anyio
async def test_synced_starts_a_sync_for_records_appended_without_one(tmp_path):
    io = FaultyIO()
    syncer = Syncer(pytest.fail)
    log = opened(tmp_path / "log", io, syncer)
    log.append([record("ack")], sync=False)
    assert io.calls["fdatasync"] == 0
    await log.synced(log.last_seq)
    assert (io.calls["fdatasync"], log.synced_seq) == (1, 1)
    await log.synced(1)
    await log.synced(99)
    assert io.calls["fdatasync"] == 1
    log.close()
    syncer.close()


def test_never_more_is_unsynced_than_a_start_writes_again(tmp_path):
    io = FaultyIO()
    log = opened(tmp_path / "log", io)
    for _ in range(40):
        log.append([record("ack", text="x" * 8000)], sync=False)
    assert io.calls["fdatasync"] == 2


@pytest.mark.anyio
@pytest.mark.parametrize("fast_s", [0, 10])
async def test_appends_of_many_tasks_share_one_sync(tmp_path, fast_s):
    io = FaultyIO()
    syncer = Syncer(pytest.fail, fast_s=fast_s)
    log = opened(tmp_path / "log", io, syncer)

    async def one(n):
        (stamped,) = log.append([record(n=n)], sync=True)
        await log.synced(stamped["seq"])
        assert log.synced_seq >= stamped["seq"]
        assert log.visible_seq >= stamped["seq"]

    await asyncio.gather(*(one(n) for n in range(50)))
    assert io.calls["fdatasync"] == 1
    log.close()
    syncer.close()


@pytest.mark.anyio
async def test_appends_during_a_sync_share_the_next_one_and_another_file_does_not_wait(tmp_path):
    io, other_io = FaultyIO(), FaultyIO()
    io.sync_gate = threading.Event()
    syncer = Syncer(pytest.fail, threads=2, fast_s=0)
    log = opened(tmp_path / "log", io, syncer)
    other = opened(tmp_path / "other", other_io, syncer)
    log.append([record()], sync=True)
    assert await asyncio.to_thread(io.in_sync.acquire, timeout=BOUND_S)
    waits = []
    for n in range(20):
        log.append([record(n=n)], sync=True)
        waits.append(asyncio.ensure_future(log.synced(log.last_seq)))
    other.append([record()], sync=True)
    await asyncio.wait_for(other.synced(1), BOUND_S)
    assert other.visible_seq == 1
    assert log.visible_seq == 0
    assert not any(wait.done() for wait in waits)
    io.sync_gate.set()
    await asyncio.wait_for(asyncio.gather(*waits), BOUND_S)
    assert io.calls["fdatasync"] == 2
    assert log.visible_seq == 21
    log.close()
    other.close()
    syncer.close()


@pytest.mark.anyio
async def test_a_slow_sync_does_not_hold_up_the_loop(tmp_path):
    io = FaultyIO()
    io.sync_gate = threading.Event()
    syncer = Syncer(pytest.fail)
    log = opened(tmp_path / "log", io, syncer)
    log.append([record()], sync=True)
    assert await asyncio.to_thread(io.in_sync.acquire, timeout=BOUND_S)  # the loop runs while the sync does not end
    io.sync_gate.set()
    await log.synced(1)
    log.close()
    syncer.close()


@pytest.mark.anyio
@pytest.mark.parametrize("fast_s", [0, 10])
async def test_a_failed_sync_is_final_for_every_waiter_and_every_log_and_told_once(tmp_path, fast_s):
    io = FaultyIO({("fdatasync", 2): EIO})
    failures = []
    syncer = Syncer(failures.append, fast_s=fast_s)
    log = opened(tmp_path / "log", io, syncer)
    other_io = FaultyIO()
    other = opened(tmp_path / "other", other_io, syncer)
    other.append([record("ack")], sync=False)
    log.append([record(n=0)], sync=True)
    await log.synced(1)

    log.append([record(n=1)], sync=True)
    waits = [asyncio.ensure_future(log.synced(2)) for _ in range(3)]
    done = await asyncio.wait_for(asyncio.gather(*waits, return_exceptions=True), BOUND_S)
    assert [error.code for error in done] == ["io_failed"] * 3
    assert log.visible_seq == log.synced_seq == 1, "a record whose sync failed is never shown"
    await settle()
    assert [error.errno for error in failures] == [EIO]

    for journal in (log, other):
        with pytest.raises(Environment) as refused:
            journal.append([record()], sync=False)
        assert refused.value.code == "io_failed"
    for journal, seq in ((log, 2), (other, 1)):
        with pytest.raises(Environment):
            await asyncio.wait_for(journal.synced(seq), BOUND_S)
    await log.synced(1)
    await settle()
    assert io.calls["fdatasync"] == 2, "a failed sync is never tried again"
    assert other_io.calls["fdatasync"] == 0
    assert len(failures) == 1
    log.close()
    other.close()
    syncer.close()


@pytest.mark.anyio
async def test_after_a_failed_sync_the_syncs_already_queued_fail_too(tmp_path):
    io = FaultyIO({("fdatasync", 1): EIO})
    io.sync_gate = threading.Event()
    failures = []
    syncer = Syncer(failures.append, threads=1, fast_s=0)
    first = opened(tmp_path / "first", io, syncer)
    second_io = FaultyIO()
    second = opened(tmp_path / "second", second_io, syncer)
    first.append([record()], sync=True)
    second.append([record()], sync=True)
    waits = [asyncio.ensure_future(log.synced(1)) for log in (first, second)]
    assert await asyncio.to_thread(io.in_sync.acquire, timeout=BOUND_S)
    io.sync_gate.set()
    done = await asyncio.wait_for(asyncio.gather(*waits, return_exceptions=True), BOUND_S)
    assert [error.code for error in done] == ["io_failed"] * 2
    assert second_io.calls["fdatasync"] == 0
    assert second.visible_seq == 0
    syncer.close()


@pytest.mark.anyio
@pytest.mark.parametrize("meddle", ["delete", "grow", "shrink"])
async def test_a_log_deleted_or_changed_by_somebody_else_acknowledges_nothing_more(tmp_path, meddle):
    failures = []
    syncer = Syncer(failures.append)
    log = opened(tmp_path / "log", syncer=syncer)
    log.append([record()], sync=True)
    await log.synced(1)
    if meddle == "delete":
        (tmp_path / "log").unlink()
    log.append([record()], sync=True)
    if meddle == "grow":
        with (tmp_path / "log").open("a") as file:
            file.write("{}\n")
    elif meddle == "shrink":
        os.truncate(tmp_path / "log", 10)
    with pytest.raises(Environment) as lost:
        await asyncio.wait_for(log.synced(2), BOUND_S)
    assert lost.value.code == "io_failed"
    assert log.visible_seq == 1
    with pytest.raises(Environment):
        log.append([record()], sync=True)
    assert failures == [], "one damaged log is no reason to end the daemon"
    log.close()
    syncer.close()


@pytest.mark.anyio
async def test_wait_for_ends_when_a_record_becomes_visible_or_at_the_deadline(tmp_path):
    clock = FakeClock()
    syncer = HeldSyncer()
    log = opened(tmp_path / "log", syncer=syncer)
    waiting = asyncio.ensure_future(log.wait_for(0, clock.monotonic() + 60, clock))
    log.append([record()], sync=True)
    await settle()
    assert not waiting.done(), "it is written, not durable"
    syncer.run()
    assert await asyncio.wait_for(waiting, BOUND_S) is True
    assert await log.wait_for(0, clock.monotonic(), clock) is True
    waiting = asyncio.ensure_future(log.wait_for(1, clock.monotonic() + 60, clock))
    await clock.advance(59)
    assert not waiting.done()
    await clock.advance(1)
    assert await asyncio.wait_for(waiting, BOUND_S) is False


@pytest.mark.anyio
async def test_closing_waits_for_the_running_sync_before_it_gives_the_descriptor_back(tmp_path):
    io = FaultyIO()
    io.sync_gate = threading.Event()
    syncer = Syncer(pytest.fail, fast_s=0)
    log = opened(tmp_path / "log", io, syncer)
    fd = log._live.fd
    log.append([record()], sync=True)
    waiting = asyncio.ensure_future(log.synced(1))
    assert await asyncio.to_thread(io.in_sync.acquire, timeout=BOUND_S)
    log.close()
    log.close()
    os.fstat(fd)
    for use in (lambda: log.append([record()], sync=True), lambda: log.since(0, 1, 1), lambda: log.tail(1, 1)):
        with pytest.raises(Environment):
            use()
    io.sync_gate.set()
    await asyncio.wait_for(waiting, BOUND_S)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    syncer.close()


def test_a_log_does_not_pass_its_descriptor_on_and_is_private(tmp_path):
    log = opened(tmp_path / "log")
    assert not os.get_inheritable(log._live.fd)
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_a_link_is_no_log(tmp_path):
    (tmp_path / "log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Environment) as refused:
        opened(tmp_path / "log")
    assert refused.value.code == "io_failed"
    assert not (tmp_path / "elsewhere").exists()


def test_a_disk_that_turns_slow_is_kept_away_from_the_loop_for_a_while():
    syncer = Syncer(pytest.fail, threads=1, fast_s=0.001)
    assert not syncer._mean_s < syncer._fast_s, "not fast until proven"
    for _ in range(3):
        syncer._note(0.0002)
    assert syncer._mean_s < syncer._fast_s
    syncer._note(0.1)
    assert not syncer._mean_s < syncer._fast_s
    for _ in range(20):
        syncer._note(0.0002)
    assert not syncer._mean_s < syncer._fast_s
    for _ in range(30):
        syncer._note(0.0002)
    assert syncer._mean_s < syncer._fast_s
