"""Any log, damaged anywhere: it is refused, or read as far as it was whole; never read as something else."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.errors import Corrupt
from orchestrator.store.journal import Journal, Syncer, read_all
from orchestrator.store.lines import encode
from tests.disk import TYPES

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
            log = Journal.open(path, syncer=syncer, types=TYPES, clean=clean, on_record=found.append)
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
