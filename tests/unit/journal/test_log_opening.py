"""Opening a log: folding, repairing a torn tail, writing the tail again, and refusing what cannot be true."""

from __future__ import annotations

import contextlib
from pathlib import Path

import orjson
import pytest

from orchestrator.base.errors import Corrupt, Environment
from orchestrator.journal.log import Journal
from orchestrator.journal.log_lines import encode
from orchestrator.journal.log_opening import TAIL_BYTES
from orchestrator.journal.log_reader import read_all
from orchestrator.journal.syncer import Syncer
from tests.support.faulty_disk import EIO, TYPES, FaultyIO, record


def line(seq, **more):
    return encode(record(**more), seq)[1]


def sealed(text):
    """A line with a valid checksum around anything."""
    import zlib

    return text + b',"crc":"%08x"}\n' % zlib.crc32(text)


def descriptors(directory):
    """Those of ours that are open below the directory; others come and go with what ran before in this process."""
    found = []
    for fd in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that lists them
            found.append(str(fd.readlink()))
    return [target for target in found if target.startswith(str(directory))]


def opened(path, io=None, **more):
    found = []
    log = Journal.open(
        path,
        syncer=Syncer(pytest.fail, threads=0),
        io=io or FaultyIO(),
        types=TYPES,
        on_record=found.append,
        **more,
    )
    return log, found


GOOD = [line(n, n=n, text="x" * 20) for n in range(1, 6)]


def test_every_record_is_passed_on_once_and_in_order(tmp_path):
    (tmp_path / "log").write_bytes(b"".join(line(n, n=n, text="y" * 3000) for n in range(1, 2001)))
    log, found = opened(tmp_path / "log")
    assert [r["n"] for r in found] == list(range(1, 2001))
    assert log.last_seq == log.visible_seq == log.synced_seq == 2000
    assert log.repaired is None
    assert list(read_all(tmp_path / "log", TYPES)) == found
    assert log.append([record()], sync=True)[0]["seq"] == 2001


def test_a_record_longer_than_a_block_is_read(tmp_path):
    (tmp_path / "log").write_bytes(line(1) + line(2, text="z" * 3_000_000) + line(3))
    log, found = opened(tmp_path / "log")
    assert [len(r.get("text", "")) for r in found] == [0, 3_000_000, 0]
    assert log.since(0, 9, 1 << 30) == (found, False)
    assert log.tail(9, 1 << 30) == found


@pytest.mark.parametrize("create", [True, False])
def test_a_missing_log_is_made_only_if_wanted(tmp_path, create):
    if create:
        assert opened(tmp_path / "log")[0].last_seq == 0
    else:
        with pytest.raises(Environment):
            opened(tmp_path / "log", create=False)
    assert (tmp_path / "log").exists() == create
    assert list(read_all(tmp_path / "other", TYPES)) == []


@pytest.mark.parametrize("clean", [True, False])
def test_an_unterminated_last_line_is_cut_off_and_kept(tmp_path, clean):
    data = b"".join(GOOD)
    cuts = range(len(data) - len(GOOD[-1]) + 1, len(data))
    for cut in cuts:
        path = tmp_path / f"log{cut}"
        path.write_bytes(data[:cut])
        ignored = list(read_all(path, TYPES))
        log, found = opened(path, clean=clean)
        assert [r["n"] for r in found] == [1, 2, 3, 4]
        assert ignored == found
        assert path.read_bytes() == b"".join(GOOD[:-1])
        kept = path.with_name(path.name + ".torn")
        assert kept.read_bytes() == data[len(path.read_bytes()) : cut]
        assert log.repaired == (len(path.read_bytes()), kept.stat().st_size, kept)
        assert log.append([record(n=9)], sync=True)[0]["seq"] == 5
        log.close()


def test_what_is_torn_off_later_is_added_to_what_was_kept(tmp_path):
    for torn in (b'{"v":1', b"\0" * 10):
        with (tmp_path / "log").open("ab") as file:
            file.write(torn)
        opened(tmp_path / "log")[0].close()
    assert (tmp_path / "log.torn").read_bytes() == b'{"v":1' + b"\0" * 10
    assert (tmp_path / "log").read_bytes() == b""


@pytest.mark.parametrize("nuls", [1, 2, 600, 5000, 2_500_000])
@pytest.mark.parametrize("partial", [b"", b'{"v":1,"se'])
def test_a_tail_of_nuls_is_cut_off(tmp_path, nuls, partial):
    (tmp_path / "log").write_bytes(b"".join(GOOD) + partial + b"\0" * nuls)
    log, found = opened(tmp_path / "log")
    assert len(found) == 5
    assert log.repaired.cut_bytes == nuls + len(partial)
    assert (tmp_path / "log").read_bytes() == b"".join(GOOD)


def test_a_last_line_whose_first_block_never_reached_the_disk_is_torn_too(tmp_path):
    hole = b"\0" * 20 + GOOD[4][20:]
    (tmp_path / "log").write_bytes(b"".join(GOOD[:4]) + hole)
    log, found = opened(tmp_path / "log")
    assert len(found) == log.last_seq == 4
    assert (tmp_path / "log.torn").read_bytes() == hole
    assert (tmp_path / "log").read_bytes() == b"".join(GOOD[:4])


@pytest.mark.parametrize(
    ("lines", "clean"),
    [
        pytest.param([*GOOD[:4], b"\0" * 20 + GOOD[4][20:]], True, id="after a clean stop nothing can be torn"),
        pytest.param([*GOOD[:3], b"\0" * 20 + GOOD[3][20:], GOOD[4]], False, id="a good record follows"),
        pytest.param([*GOOD[:4], GOOD[4].replace(b"x", b"\0", 1)], False, id="one NUL is one flipped bit"),
    ],
)
def test_nuls_elsewhere_are_damage(tmp_path, lines, clean):
    (tmp_path / "log").write_bytes(b"".join(lines))
    with pytest.raises(Corrupt) as damage:
        opened(tmp_path / "log", clean=clean)
    assert damage.value.code == "corrupt_log"
    assert "NUL" in damage.value.message


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        pytest.param(GOOD[2].replace(b"xxx", b"xyx", 1), "corrupt_log", id="a changed byte"),
        pytest.param(b"\n", "corrupt_log", id="an empty line"),
        pytest.param(b"what?\n", "corrupt_log", id="not JSON"),
        pytest.param(b"[1]\n", "corrupt_log", id="not an object"),
        pytest.param(b'{"v":1,"seq":3,"type":"task"}\n', "corrupt_log", id="no checksum"),
        pytest.param(sealed(b'{"v":1,"seq":3,"at":""'), "unknown_version", id="no type"),
        pytest.param(sealed(b'{"v":1,"seq":3,"type":["task"]'), "unknown_version", id="a type that is no string"),
        pytest.param(sealed(b'{"v":1,"seq":3,"type":"vote"'), "unknown_version", id="an unknown type"),
        pytest.param(sealed(b'{"v":2,"seq":3,"type":"task"'), "unknown_version", id="a newer version"),
        pytest.param(b'{"v":2,"n":3,"type":"task","sum":"0"}\n', "unknown_version", id="a newer form of line"),
        pytest.param(sealed(b'{"seq":3,"type":"task"'), "unknown_version", id="no version"),
        pytest.param(GOOD[3], "corrupt_log", id="a gap"),
        pytest.param(GOOD[1], "corrupt_log", id="a repeated line"),
        pytest.param(GOOD[2][:-1] + GOOD[3], "corrupt_log", id="two records in one line"),
    ],
)
def test_a_bad_complete_line_is_refused_with_file_and_line_and_nothing_is_changed(tmp_path, bad, code):
    path = tmp_path / "log"
    for rest in (GOOD[3:], [], [b'{"torn']):
        data = b"".join([*GOOD[:2], bad, *rest])
        path.write_bytes(data)
        for read in (opened, lambda path: list(read_all(path, TYPES))):
            with pytest.raises(Corrupt) as damage:
                read(path)
            assert damage.value.code == code
            assert damage.value.facts["line"] == 3
            assert damage.value.facts["file"] == str(path)
            assert str(path) in damage.value.message
        assert path.read_bytes() == data
        assert list(tmp_path.iterdir()) == [path]


def test_a_checksum_with_a_hex_digit_of_the_other_case_is_refused(tmp_path):
    tried = 0
    for n in range(1, 6):
        crc = GOOD[n - 1][-11:-3]
        for at, digit in enumerate(crc.decode()):
            if digit.isalpha():
                other = crc[:at] + digit.upper().encode() + crc[at + 1 :]
                (tmp_path / "log").write_bytes(b"".join(GOOD[: n - 1]) + GOOD[n - 1][:-11] + other + GOOD[n - 1][-3:])
                with pytest.raises(Corrupt):
                    opened(tmp_path / "log")
                tried += 1
    assert tried > 5


def test_after_an_unclean_stop_the_tail_is_written_again_and_synced_before_it_is_trusted(tmp_path):
    data = b"".join(line(n, text="x" * 900) for n in range(1, 2000))
    (tmp_path / "log").write_bytes(data)

    class Watching(FaultyIO):
        def pwrite(self, fd, block, offset):
            written.append((offset, block))
            return super().pwrite(fd, block[:100_000], offset)  # the kernel may write less than asked

    written = []
    io = Watching()
    opened(tmp_path / "log", io)
    assert written[0][0] == len(data) - TAIL_BYTES
    assert len(written) == 3
    assert sum(min(len(block), 100_000) for _, block in written) == TAIL_BYTES
    assert (io.calls["fdatasync"], io.calls["fsync"]) == (1, 1)
    assert (tmp_path / "log").read_bytes() == data

    written.clear()
    io = Watching()
    opened(tmp_path / "log", io, clean=True)
    assert written == []
    assert io.calls["fdatasync"] == 0


@pytest.mark.parametrize("call", ["open", "pread", "pwrite", "fdatasync", "fsync"])
def test_a_disk_that_fails_while_opening_is_an_error_of_the_environment_and_leaves_no_descriptor(tmp_path, call):
    (tmp_path / "log").write_bytes(b"".join(GOOD))
    before = descriptors(tmp_path)
    with pytest.raises(Environment) as refused:
        opened(tmp_path / "log", FaultyIO({(call, 1): EIO}))
    assert refused.value.code == "io_failed"
    assert descriptors(tmp_path) == before
    assert (tmp_path / "log").read_bytes() == b"".join(GOOD)


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (("open", 2), EIO),
        (("pwrite", 1), EIO),
        (("pwrite", 1), ("short", 0)),
        (("fdatasync", 1), EIO),
        (("ftruncate", 1), EIO),
    ],
)
def test_a_repair_that_fails_loses_nothing_and_can_be_done_again(tmp_path, call, fault):
    (tmp_path / "log").write_bytes(b"".join(GOOD) + b'{"torn')
    with pytest.raises(Environment):
        opened(tmp_path / "log", FaultyIO({call: fault}))
    assert (tmp_path / "log").read_bytes() == b"".join(GOOD) + b'{"torn'
    _, found = opened(tmp_path / "log")
    assert len(found) == 5
    assert (tmp_path / "log.torn").read_bytes().endswith(b'{"torn')


def test_an_error_of_the_fold_passes_through_and_leaves_no_descriptor(tmp_path):
    (tmp_path / "log").write_bytes(b"".join(GOOD))
    before = descriptors(tmp_path)

    def refuse(found):
        raise Corrupt("corrupt_log", "no such task")

    with pytest.raises(Corrupt, match="no such task"):
        Journal.open(tmp_path / "log", syncer=Syncer(pytest.fail, threads=0), types=TYPES, on_record=refuse)
    assert descriptors(tmp_path) == before


def test_reading_for_nobody_never_writes(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"".join(GOOD) + b"\0\0\0")
    path.chmod(0o400)
    before = path.stat()
    assert [r["n"] for r in read_all(path, TYPES)] == [1, 2, 3, 4, 5]
    after = path.stat()
    assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_is_no_log(tmp_path):
    with pytest.raises(Environment):
        list(read_all(tmp_path, TYPES))
    with pytest.raises(Environment):
        opened(tmp_path)


def test_what_is_read_is_what_was_written(tmp_path):
    log, _ = opened(tmp_path / "log")
    payload = {"a": [1, 2.5, None, True, "ü\u2028\n\0\x7f😀"], "b": {"": {}}, "crc": "x", "seq": -1, "big": 2**63}
    written = log.append([record(payload=payload), record(payload=[])], sync=True)
    assert list(read_all(tmp_path / "log", TYPES)) == written
    assert log.tail(2, 1 << 20) == written
    assert (tmp_path / "log").read_bytes().count(b"\n") == 2
    assert orjson.loads((tmp_path / "log").read_bytes().splitlines()[0])["payload"] == payload
