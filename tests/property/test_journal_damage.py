"""Any log, damaged anywhere: it is refused, or read as far as it was whole; never read as something else."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.base.errors import Corrupt
from orchestrator.journal.log import Journal
from orchestrator.journal.log_lines import encode
from orchestrator.journal.log_reader import page, read_all
from orchestrator.journal.positions import WrongPosition
from orchestrator.journal.segments import log_files
from orchestrator.journal.syncer import Syncer
from tests.support.faulty_disk import TYPES, UnsyncedIO

# No lone surrogates and no integers beyond 64 bits: `encode` refuses those.
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
RECORDS = st.lists(
    st.fixed_dictionaries({"at": st.just("t"), "type": st.sampled_from(sorted(TYPES)), "payload": JSON}),
    min_size=1,
    max_size=6,
)
QUICK = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def written(records):
    pairs = [encode(record, seq) for seq, record in enumerate(records, 1)]
    return [stamped for stamped, _ in pairs], [line for _, line in pairs]


def read(data, *, clean):
    """What opening finds, the bytes left in the file, and what was cut off."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "log"
        path.write_bytes(data)
        syncer = Syncer(pytest.fail, threads=0)
        found = []
        try:
            log = Journal.open(path, syncer=syncer, io=UnsyncedIO(), types=TYPES, clean=clean, on_record=found.append)
        except Corrupt:
            assert path.read_bytes() == data, "a refused log must not be changed"
            assert list(Path(directory).iterdir()) == [path]
            raise
        assert log.since(0, 100, 1 << 30) == (found, False)
        assert log.tail(100, 1 << 30) == found
        assert list(read_all(path, TYPES)) == found
        log.close()
        torn = path.with_name("log.torn")
        return found, path.read_bytes(), torn.read_bytes() if torn.exists() else b""


@QUICK
@given(records=RECORDS, clean=st.booleans())
def test_an_undamaged_log_reads_as_what_was_written(records, clean):
    stamped, lines = written(records)
    assert read(b"".join(lines), clean=clean) == (stamped, b"".join(lines), b"")


@QUICK
@given(records=RECORDS, clean=st.booleans(), data=st.data())
def test_a_log_cut_at_any_byte_reads_as_its_whole_lines(records, clean, data):
    stamped, lines = written(records)
    whole = b"".join(lines)
    cut = data.draw(st.integers(0, len(whole)))
    nuls = data.draw(st.sampled_from([0, 1, 2, 511, 4096]))
    found, left, torn = read(whole[:cut] + b"\0" * nuls, clean=clean)
    assert left + torn == whole[:cut] + b"\0" * nuls
    assert left == b"".join(lines[: len(found)])
    assert found == stamped[: len(found)]
    assert len(left) <= cut < len(left) + len(b"".join(lines[len(found) : len(found) + 1])) + (cut == len(whole))


@settings(parent=QUICK, max_examples=400)
@given(records=RECORDS, clean=st.booleans(), data=st.data())
def test_a_flipped_bit_anywhere_is_refused_or_tears_off_the_last_line(records, clean, data):
    stamped, lines = written(records)
    damaged = bytearray(b"".join(lines))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found, left, torn = read(bytes(damaged), clean=clean)
    except Corrupt:
        return
    # The one flip that cannot be told from a torn write: of the last newline.
    assert at == len(damaged) - 1
    assert found == stamped[:-1]
    assert left + torn == bytes(damaged)


@QUICK
@given(records=RECORDS.filter(lambda records: len(records) > 1), data=st.data())
def test_a_line_lost_repeated_or_moved_is_refused(records, data):
    _, lines = written(records)
    at = data.draw(st.integers(0, len(lines) - 2))
    how = data.draw(st.sampled_from(["lost", "repeated", "moved"]))
    if how == "lost":
        del lines[at]
    elif how == "repeated":
        lines.insert(at, lines[at])
    else:
        lines[at], lines[at + 1] = lines[at + 1], lines[at]
    with pytest.raises(Corrupt) as damage:
        read(b"".join(lines), clean=False)
    assert damage.value.facts["line"] == (at + 2 if how == "repeated" else at + 1)


@QUICK
@given(records=RECORDS, junk=st.binary(max_size=60), data=st.data())
def test_junk_between_the_lines_never_becomes_a_record(records, junk, data):
    stamped, lines = written(records)
    at = data.draw(st.integers(0, len(lines)))
    lines.insert(at, junk)
    try:
        found, _, _ = read(b"".join(lines), clean=True)
    except Corrupt:
        return
    assert found == stamped[: len(found)]
    assert len(found) >= at


# -- logs of several files


def lay(directory, files):
    for old in directory.iterdir():
        old.unlink()
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return directory / "log"


def split_log(directory, records, segment_bytes):
    """A log of these records as the journal leaves it: its files {name: bytes} in order, its records, its last mark."""
    path = directory / "log"
    log = Journal.open(
        path, syncer=Syncer(pytest.fail, threads=0), io=UnsyncedIO(), types=TYPES, segment_bytes=segment_bytes
    )
    stamped = [log.append([record], sync=True)[0] for record in records]
    mark = log.position()
    log.close()
    return {file.name: file.read_bytes() for file in log_files(path)}, stamped, mark


def read_files(directory, files, *, clean):
    """What opening finds in such files, and both ways of reading without the daemon, which must agree with it."""
    path = lay(directory, files)
    found = []
    syncer = Syncer(pytest.fail, threads=0)
    more = {"syncer": syncer, "io": UnsyncedIO(), "types": TYPES, "clean": clean, "on_record": found.append}
    try:
        log = Journal.open(path, **more)
    except Corrupt as error:
        with pytest.raises(Corrupt) as alone:
            list(read_all(path, TYPES))
        if b"\0\0" not in b"".join(files.values()):
            assert alone.value.facts == error.facts
        raise
    assert log.tail(100, 1 << 30) == found
    log.close()
    assert list(read_all(path, TYPES)) == found
    return found


def walked(path):
    """The records read page by page, as far as that goes."""
    found = []
    try:
        while more := page(path, TYPES, len(found), (2, 1 << 30)):
            found += more
    except Corrupt:
        pass
    return found


def located(directory, files, name, at):
    """File and line of the byte ``at`` of a file."""
    return str(directory / name), files[name].count(b"\n", 0, at) + 1


def flip(files, name, at, bit):
    damaged = bytearray(files[name])
    damaged[at] ^= 1 << bit
    return files | {name: bytes(damaged)}


def check_flip(directory, files, stamped, place, *, clean):
    name, at, bit = place
    damaged = flip(files, name, at, bit)
    try:
        found = read_files(directory, damaged, clean=clean)
    except Corrupt as error:
        assert (error.facts["file"], error.facts["line"]) == located(directory, files, name, at)
        lay(directory, damaged)
        before = walked(directory / "log")
        assert before == stamped[: len(before)]
        assert len(before) < error.facts["seq"]
        return
    # The one flip that cannot be told from a torn write: of the last newline of the last file.
    assert (name, at) == ("log", len(files["log"]) - 1)
    assert found == stamped[:-1]


def check_cut(directory, files, stamped, name, keep, *, clean):
    cut = files | {name: files[name][:keep]}
    boundary = keep == 0 or files[name][keep - 1 : keep] == b"\n"
    before = 0
    for one in files:
        before += files[one][: keep if one == name else None].count(b"\n")
        if one == name:
            break
    if name == "log":
        # On a line boundary the store alone cannot see it; a mark does, and the caller's other files.
        assert read_files(directory, cut, clean=clean) == stamped[:before]
        return
    with pytest.raises(Corrupt) as damage:
        read_files(directory, cut, clean=clean)
    names = list(files)
    there = (names[names.index(name) + 1], 1) if boundary else (name, files[name].count(b"\n", 0, keep) + 1)
    assert (damage.value.facts["file"], damage.value.facts["line"]) == (str(directory / there[0]), there[1])
    assert damage.value.facts["seq"] == before + 1


SMALL_LOG = [{"at": "t", "type": "task", "n": n, "payload": "xé" * (n % 3)} for n in range(11)]


@pytest.mark.parametrize("clean", [True, False])
def test_a_flipped_bit_at_every_byte_of_a_log_of_several_files_is_located(tmp_path, clean):
    files, stamped, _ = split_log(tmp_path, SMALL_LOG, 200)
    assert len(files) == 4
    for name, data in files.items():
        for at in range(len(data)):
            # Bit 5 makes another letter, or a digit of the checksum of the other case.
            check_flip(tmp_path, files, stamped, (name, at, at % 8 if clean else 5), clean=clean)


@pytest.mark.parametrize("clean", [True, False])
def test_a_cut_at_every_byte_of_a_log_of_several_files_is_located_or_a_shorter_log(tmp_path, clean):
    files, stamped, mark = split_log(tmp_path, SMALL_LOG, 200)
    for name, data in files.items():
        for keep in range(len(data)):
            check_cut(tmp_path, files, stamped, name, keep, clean=clean)
            if name == "log":
                path = lay(tmp_path, files | {name: data[:keep]})
                with pytest.raises(WrongPosition) as wrong:
                    Journal.open(
                        path, syncer=Syncer(pytest.fail, threads=0), io=UnsyncedIO(), types=TYPES, start=mark
                    )
                assert wrong.value.cut


@QUICK
@given(records=RECORDS, segment_bytes=st.integers(1, 400), clean=st.booleans(), data=st.data())
def test_any_damage_of_a_log_of_several_files_is_located(records, segment_bytes, clean, data):
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        files, stamped, _ = split_log(directory, records, segment_bytes)
        assert read_files(directory, files, clean=clean) == stamped
        name = data.draw(st.sampled_from(sorted(files)))
        at = data.draw(st.integers(0, len(files[name]) - 1))
        if data.draw(st.booleans()):
            check_flip(directory, files, stamped, (name, at, data.draw(st.integers(0, 7))), clean=clean)
        else:
            check_cut(directory, files, stamped, name, at, clean=clean)


@QUICK
@given(records=RECORDS, segment_bytes=st.integers(1, 400), at=st.integers(0, 6))
def test_from_any_mark_the_rest_of_the_log_is_read(records, segment_bytes, at):
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        files, stamped, _ = split_log(directory, records, segment_bytes)
        _, _, mark = split_log(Path(tempfile.mkdtemp(dir=directory)), records[:at], segment_bytes)
        found = []
        Journal.open(
            directory / "log",
            syncer=Syncer(pytest.fail, threads=0),
            io=UnsyncedIO(),
            types=TYPES,
            start=mark,
            on_record=found.append,
        ).close()
        assert found == stamped[mark.seq :]
        assert {file.name: file.read_bytes() for file in log_files(directory / "log")} == files
