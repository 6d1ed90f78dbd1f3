"""Every state a power cut may leave on the disk, enumerated from the recorded system calls of real runs.

The model: what was written since the last sync of the file may be on the disk or not, each write for itself; the
last of them may be torn; the file may be missing until its directory entry was synced. After each cut the log is
opened again, and: acknowledged records are there exactly once, seq has no gap, and nothing that readers saw and
that had to be synced has vanished. A write missing before whole records that came through looks like a damaged
block, so there the log may refuse to open; it must then still hold everything acknowledged.
"""

from __future__ import annotations

import itertools
import random

import pytest

from orchestrator.errors import Corrupt
from orchestrator.store.journal import Journal, Syncer
from tests.disk import TYPES, HeldSyncer, Op, RecordingIO, record

CLOSED_UNDER_ALL_SUBSETS = 6  # pending writes of which every subset is tried; of more, a sample
SAMPLE = 40


class Life:
    """A journal driven step by step, with the recording of everything it did."""

    def __init__(self, path):
        self.io = RecordingIO(path)
        self.path = path
        self.syncer = HeldSyncer()
        self.stored = {}
        self.must_sync = set()
        self.open()

    def open(self, *, clean=False):
        found = []
        self.log = Journal.open(
            self.path, syncer=self.syncer, io=self.io, types=TYPES, clean=clean, on_record=found.append
        )
        self.log.signal.notify = self.note
        return found

    def note(self):
        # What callers were told (`synced`) and readers may have seen (`visible`), at this point of the recording.
        shown = max((seq for seq in self.must_sync if seq <= self.log.visible_seq), default=0)
        self.io.ops.append(Op("note", note=max(self.log.synced_seq, shown)))

    def append(self, count, *, sync):
        for stamped in self.log.append([record(n=self.log.last_seq + n) for n in range(count)], sync=sync):
            self.stored[stamped["seq"]] = stamped
            if sync:
                self.must_sync.add(stamped["seq"])

    def sync(self):
        if self.syncer.run():
            self.note()


def apply(content, op):
    """The file after a write or truncation reached the disk."""
    if op.name == "truncate":
        return content[: op.size].ljust(op.size, b"\0")
    return content[: op.offset].ljust(op.offset, b"\0") + op.data + content[op.offset + len(op.data) :]


def crash_states(ops, rng):
    """Every (content or None, owed, holed) the first n operations may leave, for every n.

    ``owed``: the records up to this seq must be there; ``holed``: a write is missing before one that is there.
    """
    for length in range(len(ops) + 1):
        durable, pending, exists, entry, owed = b"", [], False, False, 0
        for op in ops[:length]:
            if op.name == "create":
                exists = True
            elif op.name == "sync":
                for done in pending:
                    durable = apply(durable, done)
                pending = []
            elif op.name == "sync_dir":
                entry = True
            elif op.name == "note":
                owed = max(owed, op.note)
            else:
                pending.append(op)
        if exists and not entry:
            yield None, owed, False
        if not exists:
            continue
        choices = itertools.product([False, True], repeat=len(pending))
        if len(pending) > CLOSED_UNDER_ALL_SUBSETS:
            choices = [[rng.random() < 0.5 for _ in pending] for _ in range(SAMPLE)]
        for kept in choices:
            survived = [op for op, there in zip(pending, kept, strict=True) if there]
            content = durable
            for op in survived:
                content = apply(content, op)
            yield content, owed, survived != pending[: len(survived)]
            if survived and survived[-1].name == "write" and survived == pending[: len(survived)]:
                last = survived[-1]
                for cut in {1, len(last.data) // 2, len(last.data) - 1}:
                    torn = durable
                    for op in [*survived[:-1], Op("write", last.offset, last.data[:cut])]:
                        torn = apply(torn, op)
                    yield torn, owed, False


def check(path, state, stored):
    """Open what the cut left; returns whether it could be opened."""
    content, owed, holed = state
    for old in path.parent.glob(path.name + "*"):
        old.unlink()
    if content is not None:
        path.write_bytes(content)
    found = []
    syncer = Syncer(pytest.fail, threads=0)
    try:
        log = Journal.open(path, syncer=syncer, types=TYPES, on_record=found.append)
    except Corrupt:
        # Only a hole with whole records behind it may be refused, and what was acknowledged stands before it.
        assert holed
        lines = content.split(b"\n")
        assert [line for line in lines if b"\0" in line]
        assert b"\0" not in b"".join(lines[:owed])
        return False
    assert [r["seq"] for r in found] == list(range(1, len(found) + 1))
    assert len(found) >= owed, "an acknowledged record is gone"
    assert all(stored[r["seq"]] == r for r in found)
    (more,) = log.append([record()], sync=True)
    assert more["seq"] == len(found) + 1
    assert log.visible_seq == more["seq"]
    log.close()
    return True


def play(life, rng, steps):
    for _ in range(steps):
        step = rng.choice(["sync=False", "sync=True", "sync=True", "list", "run", "run"])
        if step == "run":
            life.sync()
        elif step == "list":
            life.append(rng.randint(2, 3), sync=rng.random() < 0.7)
        else:
            life.append(1, sync=step == "sync=True")


@pytest.mark.parametrize("seed", range(25))
def test_no_cut_loses_what_was_acknowledged(tmp_path, seed):
    rng = random.Random(seed)
    life = Life(tmp_path / "log")
    play(life, rng, 12)
    opened = [
        check(tmp_path / "state" / "log", state, life.stored)
        for state in crash_states(life.io.ops, rng)
        if (tmp_path / "state").mkdir(exist_ok=True) is None
    ]
    assert sum(opened) > 20


def test_the_enumeration_would_see_a_missing_sync(tmp_path):
    # The control: a journal that only pretends to sync must fail the same check.
    life = Life(tmp_path / "log")
    life.io.fdatasync = lambda fd: None
    life.append(1, sync=True)
    life.sync()
    (tmp_path / "state").mkdir()
    with pytest.raises(AssertionError, match="acknowledged record is gone"):
        for state in crash_states(life.io.ops, random.Random(0)):
            check(tmp_path / "state" / "log", state, life.stored)


def test_the_enumeration_would_see_a_missing_sync_of_the_directory(tmp_path):
    life = Life(tmp_path / "log")
    life.io.fsync = lambda fd: None
    life.append(1, sync=True)
    life.sync()
    (tmp_path / "state").mkdir()
    with pytest.raises(AssertionError, match="acknowledged record is gone"):
        for state in crash_states(life.io.ops, random.Random(0)):
            check(tmp_path / "state" / "log", state, life.stored)


@pytest.mark.parametrize("seed", range(8))
def test_a_cut_during_the_repair_of_an_earlier_one_loses_nothing(tmp_path, seed):
    rng = random.Random(1000 + seed)
    life = Life(tmp_path / "log")
    play(life, rng, 6)
    life.append(1, sync=True)
    life.sync()
    owed = life.log.synced_seq
    # The first cut: the last line is torn. Its bytes are on the disk, so the second life starts from them.
    life.append(1, sync=True)
    content = (tmp_path / "log").read_bytes()[: -rng.randint(1, 60)]
    life.log.close()
    (tmp_path / "log").write_bytes(content)
    for seq in [seq for seq in life.stored if seq > owed]:
        del life.stored[seq]
        life.must_sync.discard(seq)
    life.syncer.held.clear()
    life.io.ops = [Op("create"), Op("sync_dir"), Op("write", 0, content), Op("sync"), Op("note", note=owed)]
    found = life.open()
    assert [r["seq"] for r in found] == list(range(1, owed + 1))
    assert life.log.repaired is not None
    play(life, rng, 5)
    (tmp_path / "state").mkdir()
    for state in crash_states(life.io.ops, rng):
        check(tmp_path / "state" / "log", state, life.stored)
