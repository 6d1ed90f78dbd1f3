"""Lines of another host: written byte for byte when they continue the log, refused as a whole when they do not."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.base.errors import Corrupt, Environment
from orchestrator.journal.log import Journal
from orchestrator.journal.log_lines import encode
from orchestrator.journal.log_reader import read_all
from orchestrator.journal.segments import log_files
from orchestrator.journal.syncer import Syncer
from orchestrator.trust.identity import DirectoryIdentity
from orchestrator.trust.seals import Seal
from tests.support.faulty_disk import EIO, ENOSPC, TYPES, FaultyIO, HeldSyncer, record


@pytest.fixture
def anyio_backend():
    return "asyncio"


def opened(path, io=None, syncer=None, **more):
    return Journal.open(
        path, syncer=syncer or Syncer(pytest.fail, threads=0), io=io or FaultyIO(), types=TYPES, **more
    )


def seal_of(host):
    return Seal(DirectoryIdentity("0" * 32, host.ljust(32), Path("nowhere")), "agent", "a", "outbox")


def lines_from(first, count, seal=None, **more):
    return [encode(record(n=seq, **more), seq, seal)[1][:-1] for seq in range(first, first + count)]


def content(path):
    return b"".join(file.read_bytes() for file in log_files(path))


def with_crc(body):
    """A line with a valid checksum, whatever it says."""
    return b'%b,"crc":"%08x"}' % (body, zlib.crc32(body))


def test_lines_are_written_byte_for_byte_and_read_as_ones_own(tmp_path):
    io = FaultyIO()
    log = opened(tmp_path / "log", io)
    lines = lines_from(1, 3, seal_of(b"another host"))
    stored = log.extend(lines, sync=True)
    assert [found["n"] for found in stored] == [1, 2, 3]
    assert io.calls["pwrite"] == 1
    assert content(tmp_path / "log") == b"".join(line + b"\n" for line in lines)
    assert log.since(0, 10, 1 << 20) == (stored, False)
    (own,) = log.append([record(n=4)], sync=True)
    assert own["seq"] == 4
    assert [found["n"] for found in opened(tmp_path / "log").tail(9, 1 << 20)] == [1, 2, 3, 4]
    assert log.extend([], sync=True) == []


def test_lines_become_visible_when_they_are_durable(tmp_path):
    syncer = HeldSyncer()
    log = opened(tmp_path / "log", syncer=syncer)
    log.extend(lines_from(1, 2), sync=True)
    assert (log.last_seq, log.visible_seq) == (2, 0)
    assert log.raw_since(0, 10, 1 << 20) == []
    syncer.run()
    assert log.visible_seq == 2
    log.extend(lines_from(3, 1), sync=False)
    assert log.visible_seq == 3


@pytest.mark.parametrize("segment_bytes", [None, 400], ids=["one file", "many files"])
def test_what_is_shipped_makes_the_same_log_elsewhere(tmp_path, segment_bytes):
    log = opened(tmp_path / "log", segment_bytes=segment_bytes)
    other = opened(tmp_path / "mirror", durability="os", segment_bytes=900)
    for n in range(30):
        log.append([record(n=n, text="x" * (n % 7) * 20)], sync=True)
    while found := log.raw_since(other.last_seq, 4, 500):
        assert other.extend([line for _, line in found], sync=True) == [found_record for found_record, _ in found]
    assert content(tmp_path / "mirror") == content(tmp_path / "log")
    assert list(read_all(tmp_path / "mirror", TYPES)) == list(read_all(tmp_path / "log", TYPES))


@pytest.mark.parametrize("limits", [(0, 1 << 20), (1, 1 << 20), (3, 1 << 20), (9, 1), (9, 200)])
@pytest.mark.parametrize("seq", [-1, 0, 4, 7, 8, 20])
def test_raw_since_returns_the_records_of_since(tmp_path, seq, limits):
    log = opened(tmp_path / "log", segment_bytes=200)
    for n in range(8):
        log.append([record(n=n)], sync=True)
    found = log.raw_since(seq, *limits)
    assert [found_record for found_record, _ in found] == log.since(seq, *limits)[0]
    assert all(encode(record(n=one["n"]), one["seq"])[1] == line + b"\n" for one, line in found)


WRONG = {
    "a gap": lambda lines: lines[1:],
    "repeated": lambda lines: [lines[0], lines[0]],
    "turned round": lambda lines: [lines[1], lines[0]],
    "torn": lambda lines: [lines[0], lines[1][:-4]],
    "empty": lambda lines: [lines[0], b""],
    "two in one": lambda lines: [lines[0] + b"\n" + lines[1]],
    "with its newline": lambda lines: [lines[0] + b"\n"],
    "another checksum": lambda lines: [lines[0], re.sub(rb"[0-9a-f]{8}\"}\Z", b'00000000"}', lines[1])],
    "a changed byte": lambda lines: [lines[0], lines[1].replace(b"2026", b"2027")],
    "a newline between keys": lambda lines: [with_crc(lines[0][:-19].replace(b',"at"', b',\n"at"'))],
    "seq is not in front": lambda _: [with_crc(b'{"v":1,"type":"task","seq":3')],
    "two seqs": lambda _: [with_crc(b'{"v":1,"seq":9,"type":"task","seq":3')],
    "no JSON": lambda _: [with_crc(b'{"v":1,"seq":3,"type":')],
}


@pytest.mark.parametrize("wrong", WRONG)
def test_lines_that_do_not_continue_the_log_are_refused_and_none_is_stored(tmp_path, wrong):
    io = FaultyIO()
    log = opened(tmp_path / "log", io)
    log.append([record(n=n) for n in (1, 2)], sync=True)
    before, writes = content(tmp_path / "log"), io.calls["pwrite"]
    with pytest.raises(Corrupt) as refused:
        log.extend(WRONG[wrong](lines_from(3, 2)), sync=True)
    assert refused.value.code == "corrupt_log"
    assert io.calls["pwrite"] == writes
    assert content(tmp_path / "log") == before
    log.extend(lines_from(3, 2), sync=True)
    assert log.visible_seq == 4


@pytest.mark.parametrize("line", [b'{"v":2,"seq":1,"type":"task"', b'{"v":1,"seq":1,"type":"later"'])
def test_lines_of_a_newer_version_are_named_as_such(tmp_path, line):
    log = opened(tmp_path / "log")
    with pytest.raises(Corrupt) as refused:
        log.extend([with_crc(line)], sync=True)
    assert refused.value.code == "unknown_version"
    assert log.last_seq == 0


@given(st.data())
def test_a_changed_bit_anywhere_is_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("bits") / "log"
    log = opened(path, durability="os")
    lines = lines_from(1, 3, text="é\n")
    at = data.draw(st.integers(0, 2))
    place = data.draw(st.integers(0, len(lines[at]) - 1))
    changed = bytearray(lines[at])
    changed[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(Corrupt):
        log.extend([*lines[:at], bytes(changed), *lines[at + 1 :]], sync=False)
    assert content(path) == b""
    log.close()


def test_a_sealed_log_takes_only_lines_with_its_seal(tmp_path):
    seal = seal_of(b"this host")
    log = opened(tmp_path / "log", seal=seal)
    with pytest.raises(Environment) as refused:
        log.extend([*lines_from(1, 1, seal), *lines_from(2, 1, seal_of(b"another host"))], sync=True)
    assert refused.value.code == "foreign_data"
    assert content(tmp_path / "log") == b""
    log.extend(lines_from(1, 2, seal), sync=True)
    assert opened(tmp_path / "log", seal=seal).last_seq == 2


@pytest.mark.parametrize("fault", [ENOSPC, EIO, ("short", 10)])
def test_a_failed_write_is_taken_back_and_the_lines_can_be_written_again(tmp_path, fault):
    log = opened(tmp_path / "log", FaultyIO({("pwrite", 1): fault}))
    with pytest.raises(Environment) as failed:
        log.extend(lines_from(1, 2), sync=True)
    assert failed.value.code == ("io_failed" if fault == EIO else "disk_full")
    assert content(tmp_path / "log") == b""
    log.extend(lines_from(1, 2), sync=True)
    assert log.visible_seq == 2


@pytest.mark.anyio
async def test_a_sync_of_extended_lines_can_be_awaited(tmp_path):
    syncer = Syncer(pytest.fail, threads=1, fast_s=0)
    log = opened(tmp_path / "log", syncer=syncer)
    log.extend(lines_from(1, 2), sync=True)
    assert log.visible_seq == 0
    await log.synced(2)
    assert log.visible_seq == 2
    log.close()
    syncer.close()
