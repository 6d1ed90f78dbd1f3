"""Reading a part of a log: what since and tail return, and that their cost does not grow with the log."""

from __future__ import annotations

import random

import pytest

from orchestrator.base.errors import Corrupt, Environment
from orchestrator.journal.log import Journal
from orchestrator.journal.segments import log_files
from orchestrator.journal.syncer import Syncer
from tests.support.faulty_disk import EIO, TYPES, FaultyIO, record


def filled(path, sizes, io=None, segment_bytes=None):
    log = Journal.open(
        path,
        syncer=Syncer(pytest.fail, threads=0),
        io=io or FaultyIO(),
        types=TYPES,
        durability="os",
        segment_bytes=segment_bytes,
    )
    written = []
    at_once = 7 if segment_bytes else 500
    for start in range(0, len(sizes), at_once):
        written += log.append([record(text="x" * size) for size in sizes[start : start + at_once]], sync=False)
    return log, written


SHAPES = {
    "empty": [],
    "one": [10],
    "small": [30] * 700,
    "mixed": random.Random(1).choices([0, 50, 300, 5000, 40_000, 200_000], k=150),
    "one long among short": [20] * 400 + [900_000] + [20] * 400,
    "long at the start": [400_000, *[20] * 300],
    "long at the end": [*[20] * 300, 400_000],
}


in_one_file_or_many = pytest.mark.parametrize("segment_bytes", [None, 4000], ids=["one file", "many files"])


@in_one_file_or_many
@pytest.mark.parametrize("shape", SHAPES)
def test_since_returns_exactly_the_records_behind_a_seq(tmp_path, shape, segment_bytes):
    log, written = filled(tmp_path / "log", SHAPES[shape], segment_bytes=segment_bytes)
    for seq in {*range(-1, 12), *range(0, len(written) + 3, 7), len(written) - 1, len(written), len(written) + 9}:
        behind = written[max(seq, 0) :]
        for limit in (1, 3, 1000):
            found, more = log.since(seq, limit, 1 << 40)
            assert found == behind[:limit]
            assert more == (len(behind) > limit)


@in_one_file_or_many
@pytest.mark.parametrize("shape", SHAPES)
def test_tail_returns_exactly_the_last_records(tmp_path, shape, segment_bytes):
    log, written = filled(tmp_path / "log", SHAPES[shape], segment_bytes=segment_bytes)
    for n in (-1, 0, 1, 2, 10, 399, 400, 401, len(written), len(written) + 5):
        assert log.tail(n, 1 << 40) == (written[-n:] if n > 0 else [])


@in_one_file_or_many
@pytest.mark.parametrize("shape", ["small", "mixed", "one long among short", "long at the end"])
def test_the_limit_of_bytes_counts_lines_and_always_lets_one_record_through(tmp_path, shape, segment_bytes):
    log, written = filled(tmp_path / "log", SHAPES[shape], segment_bytes=segment_bytes)
    files = log_files(tmp_path / "log")
    assert (len(files) > 5) == bool(segment_bytes)
    lengths = [len(line) + 1 for file in files for line in file.read_bytes().splitlines()]
    for limit in (0, 1, 100, 150, 10_000, 41_000, 500_000):
        for seq in range(0, len(written), 13):
            found, more = log.since(seq, 10_000, limit)
            expected, total = [], 0
            for item, length in zip(written[seq:], lengths[seq:], strict=True):
                total += length
                if expected and total > limit:
                    break
                expected.append(item)
            assert found == expected
            assert more == (seq + len(found) < len(written))
        newest, total = [], 0
        for item, length in zip(reversed(written), reversed(lengths), strict=True):
            total += length
            if newest and total > limit:
                break
            newest.insert(0, item)
        assert log.tail(10_000, limit) == newest


@in_one_file_or_many
def test_pages_of_since_join_to_the_whole_log(tmp_path, segment_bytes):
    log, written = filled(tmp_path / "log", SHAPES["mixed"], segment_bytes=segment_bytes)
    pages, more = [], True
    while more:
        page, more = log.since(len(pages), 50, 10_000)
        assert page
        pages += page
    assert pages == written


def test_the_cost_of_a_read_does_not_grow_with_the_log(tmp_path):
    cost = {}
    for count in (1_000, 100_000):
        io = FaultyIO()
        log, _ = filled(tmp_path / f"log{count}", [150] * count, io)
        for name, read in {
            "tail": lambda log=log: log.tail(50, 1 << 20),
            "since the start": lambda log=log: log.since(0, 50, 1 << 20)[0],
            "since the middle": lambda log=log, count=count: log.since(count // 2, 50, 1 << 20)[0],
            "since near the end": lambda log=log, count=count: log.since(count - 50, 50, 1 << 20)[0],
            "nothing new": lambda log=log, count=count: log.since(count, 50, 1 << 20)[0],
        }.items():
            io.calls.clear()
            io.bytes_read = 0
            found = read()
            assert len(found) == (0 if name == "nothing new" else 50)
            cost[name, count] = io.calls["pread"], io.bytes_read
    steps = 7  # log2(100,000 / 1,000): what the bisection may take longer
    for name in ("tail", "since the start", "since the middle", "since near the end", "nothing new"):
        (few, few_bytes), (many, many_bytes) = cost[name, 1_000], cost[name, 100_000]
        assert many <= few + steps + 2, name
        assert many_bytes <= few_bytes + 1024 * (steps + 2) + (16 << 10), name
        assert many_bytes <= 100_000, name
    assert cost["nothing new", 100_000] == (0, 0)
    assert cost["tail", 100_000] == cost["tail", 1_000]


def test_a_log_changed_while_in_use_is_refused_by_the_reader(tmp_path):
    log, _ = filled(tmp_path / "log", [50] * 5000)
    data = bytearray((tmp_path / "log").read_bytes())
    data[:] = data.replace(b"xxxx", b"xxyx")
    (tmp_path / "log").write_bytes(data)
    with pytest.raises(Corrupt) as damage:
        log.since(4000, 10, 1 << 20)
    assert damage.value.facts["line"] == 4001
    with pytest.raises(Corrupt):
        log.tail(3, 1 << 20)
    (tmp_path / "log").write_bytes(data.replace(b'{"v":1', b'{"w":1'))
    with pytest.raises(Corrupt):
        log.since(4000, 10, 1 << 20)


def test_a_failing_disk_is_an_error_of_the_environment(tmp_path):
    io = FaultyIO()
    log, _ = filled(tmp_path / "log", [50] * 10, io)
    for read in (lambda: log.since(0, 5, 100), lambda: log.tail(5, 100)):
        io.plan["pread", io.calls["pread"] + 1] = EIO
        with pytest.raises(Environment) as refused:
            read()
        assert refused.value.code == "io_failed"
