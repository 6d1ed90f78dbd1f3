"""Opening a log from a mark, and logs at rest: what is read, what is trusted, and what is refused."""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path

import pytest

from orchestrator.base.errors import Corrupt, Environment
from orchestrator.journal.log import Journal
from orchestrator.journal.log_reader import read_all
from orchestrator.journal.positions import Position, WrongPosition
from orchestrator.journal.syncer import Syncer
from tests.support.faulty_disk import EIO, TYPES, FaultyIO, HeldSyncer, record

SMALL = 2000  # bytes of a segment: about 16 records of the tests


def opened(path, io=None, syncer=None, **more):
    found = []
    log = Journal.open(
        path,
        syncer=syncer or Syncer(pytest.fail, threads=0),
        io=io or FaultyIO(),
        types=TYPES,
        segment_bytes=more.pop("segment_bytes", SMALL),
        on_record=found.append,
        **more,
    )
    return log, found


def written(path, count, **more):
    """A log of that many records, closed, and the marks behind each of them."""
    log, _ = opened(path, **more)
    marks = [log.position()]
    for n in range(1, count + 1):
        log.append([record(n=n, text="x" * 40)], sync=True)
        marks.append(log.position())
    log.close()
    return marks


def numbers(found):
    return [one["n"] for one in found]


def descriptors(directory):
    found = []
    for fd in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(fd.readlink()))
    return [target for target in found if target.startswith(str(directory))]


def test_a_mark_is_the_synced_end_of_the_log(tmp_path):
    syncer = HeldSyncer()
    log, _ = opened(tmp_path / "log", syncer=syncer)
    assert log.position() == Position(0, 1, 0, "")
    log.append([record()], sync=True)
    assert log.position().seq == 0, "it is written, not durable"
    syncer.run()
    (second,) = log.append([record()], sync=False)
    first = log.position()
    assert (first.seq, first.segment) == (1, 1)
    syncer.run()
    log.append([record()], sync=True)
    syncer.run()
    assert log.position() == (3, 1, (tmp_path / "log").stat().st_size, log.tail(1, 1)[0]["crc"])
    assert second["seq"] == 2


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("segment_bytes", [None, SMALL])
def test_from_any_mark_exactly_the_records_behind_it_are_passed_on(tmp_path, clean, segment_bytes):
    path = tmp_path / "log"
    marks = written(path, 60, segment_bytes=segment_bytes)
    assert len({mark.segment for mark in marks}) == (1 if segment_bytes is None else 4)
    for mark in marks:
        log, found = opened(path, start=mark, clean=clean, segment_bytes=segment_bytes)
        assert numbers(found) == list(range(mark.seq + 1, 61))
        assert log.position() == marks[-1]
        assert log.last_seq == log.visible_seq == 60
        assert numbers(log.since(0, 100, 1 << 20)[0]) == list(range(1, 61))
        assert numbers(log.tail(100, 1 << 20)) == list(range(1, 61))
        log.close()
    log, _ = opened(path, start=marks[-1], clean=clean)
    log.append([record(n=61)], sync=True)
    assert numbers(read_all(path, TYPES)) == list(range(1, 62))


def test_what_stands_before_the_mark_is_not_read(tmp_path):
    path = tmp_path / "log"
    marks = written(path, 2000, segment_bytes=None)
    cost = {}
    for at in (-1, -2):
        io = FaultyIO()
        log, found = opened(path, io, start=marks[at], clean=True)
        assert len(found) == -at - 1
        cost[at] = io.calls["pread"], io.bytes_read
        log.close()
    assert cost[-1][0] <= 4
    assert cost[-2][0] <= 9
    assert cost[-2][1] < 60_000


def test_after_an_unclean_stop_only_what_is_behind_the_mark_is_written_again(tmp_path):
    path = tmp_path / "log"
    marks = written(path, 500, segment_bytes=None)

    class Watching(FaultyIO):
        def pwrite(self, fd, block, offset):
            rewritten.append((offset, len(block)))
            return super().pwrite(fd, block, offset)

    size = path.stat().st_size
    for at, syncs in ((490, 1), (500, 0), (10, 1)):
        rewritten, io = [], Watching()
        opened(path, io, start=marks[at])
        assert rewritten == ([(marks[at].offset, size - marks[at].offset)] if syncs else [])
        assert (io.calls["fdatasync"], io.calls["fsync"]) == (syncs, syncs)


@pytest.mark.parametrize("rest", [True, False])
@pytest.mark.parametrize("segment_bytes", [None, SMALL])
def test_a_log_cut_on_a_line_boundary_before_the_mark_is_a_wrong_mark_that_says_so(tmp_path, segment_bytes, rest):
    path = tmp_path / "log"
    marks = written(path, 40, segment_bytes=segment_bytes)
    for keep in (marks[-1].offset - (marks[-1].offset - (marks[-2].offset)), marks[-1].offset - 1, 0):
        os.truncate(path, keep)
        before = {file: file.read_bytes() for file in tmp_path.iterdir()}
        with pytest.raises(WrongPosition) as wrong:
            opened(path, start=marks[-1], rest=rest)
        assert wrong.value.cut
        assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before
        assert descriptors(tmp_path) == []


def test_a_mark_of_a_log_that_is_gone_is_wrong_and_makes_no_file(tmp_path):
    marks = written(tmp_path / "log", 3)
    (tmp_path / "log").unlink()
    with pytest.raises(WrongPosition) as wrong:
        opened(tmp_path / "log", start=marks[-1])
    assert wrong.value.cut
    assert list(tmp_path.iterdir()) == []
    log, _ = opened(tmp_path / "log", start=marks[0])
    assert log.last_seq == 0


@pytest.mark.parametrize("segment_bytes", [None, SMALL])
def test_a_mark_that_does_not_fit_is_refused_and_not_called_a_cut(tmp_path, segment_bytes):
    path = tmp_path / "log"
    marks = written(path, 40, segment_bytes=segment_bytes)
    for seq in (1, 20, 40):
        good = marks[seq]
        for wrong in (
            good._replace(seq=good.seq - 1),
            good._replace(offset=good.offset - 1),
            good._replace(offset=good.offset + (1 if seq < 40 else -20)),
            good._replace(offset=0),
            good._replace(crc="0" * 8),
            good._replace(segment=good.segment + 1),
            good._replace(segment=0),
        ):
            if wrong.seq == 0:
                continue
            with pytest.raises(WrongPosition) as refused:
                opened(path, start=wrong)
            assert not refused.value.cut
        with pytest.raises(WrongPosition) as refused:
            opened(path, start=good._replace(seq=41))
        assert refused.value.cut
    _, found = opened(path)
    assert len(found) == 40


def test_damage_behind_the_mark_is_located_and_the_marked_record_itself_is_verified(tmp_path):
    path = tmp_path / "log"
    marks = written(path, 40)
    data = bytearray(path.read_bytes())
    last = marks[-1]
    assert last.segment > 1
    at = marks[38].offset + 30
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(Corrupt) as damage:
        opened(path, start=marks[38])
    assert damage.value.facts["file"] == str(path)
    assert (damage.value.facts["line"], damage.value.facts["seq"]) == (39 - last.segment + 1, 39)
    with pytest.raises(WrongPosition) as wrong:
        opened(path, start=marks[39])
    assert not wrong.value.cut


@pytest.mark.parametrize("call", [("listdir", 1), ("open", 1), ("pread", 1), ("pread", 2), ("pread", 3)])
def test_a_disk_that_fails_at_the_mark_is_no_wrong_mark(tmp_path, call):
    marks = written(tmp_path / "log", 10, segment_bytes=None)
    with pytest.raises(Environment) as refused:
        opened(tmp_path / "log", FaultyIO({call: EIO}), start=marks[9])
    assert refused.value.code == "io_failed"
    assert descriptors(tmp_path) == []


# -- rest


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_a_log_at_rest_holds_no_descriptor_and_works_as_before(tmp_path, durability):
    log, _ = opened(tmp_path / "log", durability=durability)
    for n in range(1, 31):
        log.append([record(n=n, text="x" * 40)], sync=True)
    assert log.rest()
    assert log.rests
    assert descriptors(tmp_path) == []
    mark = log.position()
    assert numbers(log.since(10, 3, 1 << 20)[0]) == [11, 12, 13]
    assert numbers(log.tail(2, 1 << 20)) == [29, 30]
    assert log.since(30, 9, 99) == ([], False)
    assert log.rests, "reading does not keep it awake"
    assert descriptors(tmp_path) == []
    assert log.position() == mark
    log.append([record(n=31)], sync=True)
    assert not log.rests
    assert log.visible_seq == 31
    assert log.rest()
    assert log.rest()
    log.close()
    assert numbers(read_all(tmp_path / "log", TYPES)) == list(range(1, 32))


def test_a_log_with_something_unsynced_does_not_rest(tmp_path):
    syncer = HeldSyncer()
    log, _ = opened(tmp_path / "log", syncer=syncer)
    log.append([record("ack")], sync=False)
    assert not log.rest()
    log.append([record()], sync=True)
    assert not log.rest()
    syncer.run()
    assert log.rest()
    log.close()
    assert not log.rest()
    assert descriptors(tmp_path) == []
    with pytest.raises(Environment):
        log.append([record()], sync=True)


@pytest.mark.parametrize("how", ["rest", "open"])
@pytest.mark.parametrize("meddle", ["delete", "replace", "grow", "shrink"])
def test_a_log_changed_at_rest_takes_no_more_appends(tmp_path, meddle, how):
    path = tmp_path / "log"
    log, _ = opened(path)
    log.append([record(n=1), record(n=2)], sync=True)
    mark = log.position()
    if how == "open":
        log.close()
        log, _ = opened(path, start=mark, rest=True)
    assert log.rest()
    if meddle == "delete":
        path.unlink()
    elif meddle == "replace":
        (tmp_path / "other").write_bytes(path.read_bytes())
        (tmp_path / "other").rename(path)
    elif meddle == "grow":
        with path.open("a") as file:
            file.write("{}\n")
    else:
        os.truncate(path, 10)
    left = path.read_bytes() if path.exists() else None
    for _ in range(2):
        with pytest.raises(Environment) as refused:
            log.append([record()], sync=True)
        assert refused.value.code == "io_failed"
        with pytest.raises(Environment):
            log.tail(1, 99)
    assert (path.read_bytes() if path.exists() else None) == left
    assert descriptors(tmp_path) == []


def test_a_log_that_cannot_be_opened_again_for_now_works_later(tmp_path):
    io = FaultyIO()
    log, _ = opened(tmp_path / "log", io)
    log.append([record(n=1)], sync=True)
    assert log.rest()
    for use in (lambda: log.append([record(n=2)], sync=True), lambda: log.tail(1, 99)):
        io.plan["open", io.calls["open"] + 1] = EIO
        with pytest.raises(Environment):
            use()
    log.append([record(n=2)], sync=True)
    assert numbers(log.since(0, 9, 1 << 20)[0]) == [1, 2]


@pytest.mark.parametrize("clean", [True, False])
def test_a_thousand_logs_opened_at_rest_need_no_descriptor_and_no_read(tmp_path, clean):
    marks = {}
    for count in (0, 1, 40):
        marks[count] = written(tmp_path / f"log{count}", count)[-1]
    io = FaultyIO()
    logs = {}
    for n in range(334):
        for count, mark in marks.items():
            logs[n, count], found = opened(tmp_path / f"log{count}", io, start=mark, rest=True, clean=clean)
            assert found == []
            assert logs[n, count].rests
            assert logs[n, count].last_seq == count
    assert descriptors(tmp_path) == []
    assert io.calls["open"] == io.calls["pread"] == io.calls["pwrite"] == io.calls["fdatasync"] == 0
    assert numbers(logs[7, 40].tail(50, 1 << 20)) == list(range(1, 41))
    logs[7, 40].append([record(n=41)], sync=True)
    assert numbers(read_all(tmp_path / "log40", TYPES)) == list(range(1, 42))


def test_a_log_that_grew_since_its_mark_is_opened_and_not_at_rest(tmp_path):
    marks = written(tmp_path / "log", 40)
    log, found = opened(tmp_path / "log", start=marks[38], rest=True)
    assert numbers(found) == [39, 40]
    assert not log.rests


def test_the_end_of_a_sealed_file_is_not_where_the_log_ends_though_the_live_one_is_as_long(tmp_path):
    path = tmp_path / "log"
    filling = written(path, 99)
    ends = [mark for mark, after in itertools.pairwise(filling) if after.segment != mark.segment]
    end = ends[2]
    for file in tmp_path.iterdir():
        file.unlink()
    written(path, end.seq + end.seq - ends[1].seq)
    assert path.stat().st_size == end.offset
    log, found = opened(path, start=end, rest=True)
    assert not log.rests
    assert numbers(found) == list(range(end.seq + 1, 2 * end.seq - ends[1].seq + 1))


def test_the_first_sync_of_a_log_opened_at_rest_makes_its_name_durable(tmp_path):
    marks = written(tmp_path / "log", 3)
    io = FaultyIO()
    log, _ = opened(tmp_path / "log", io, start=marks[-1], rest=True)
    log.append([record(n=4)], sync=True)
    assert (io.calls["fdatasync"], io.calls["fsync"]) == (1, 1)
