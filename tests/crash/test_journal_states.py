"""Every state a power cut may leave on the disk, enumerated from the recorded system calls of real runs.

The model: what was written since the last sync of a file may be on the disk or not, each write for itself; the
last of them may be torn; of what was done to names since the last sync of the directory (files made, renamed), any
part may be undone. After each cut the log is opened again, and: acknowledged records are there exactly once, seq has
no gap, nothing that readers saw and that had to be synced has vanished, and the last mark fits. A write missing before
whole records that came through looks like a damaged block, so there the log may refuse to open; it must then still hold
everything acknowledged.
"""

from __future__ import annotations

import itertools
import os
import random
from typing import NamedTuple

import pytest

from orchestrator.base.errors import Corrupt
from orchestrator.journal.log import Journal
from orchestrator.journal.log_reader import read_all
from orchestrator.journal.positions import START, Position
from orchestrator.journal.segments import full_firsts, full_path
from orchestrator.journal.syncer import Syncer
from tests.support.faulty_disk import EIO, ENOSPC, TYPES, HeldSyncer, Op, RecordingIO, UnsyncedIO, record

CLOSED_UNDER_ALL_SUBSETS = 6  # pending writes of which every subset is tried; of more, a sample
SAMPLE = 40


class Life:
    """A journal driven step by step, with the recording of everything it did."""

    def __init__(self, path, *, segment_bytes=None, opens=True):
        self.io = RecordingIO(path)
        self.path = path
        self.segment_bytes = segment_bytes
        self.syncer = HeldSyncer()
        self.stored = {}
        self.must_sync = set()
        if opens:
            self.open()

    def open(self, *, clean=False):
        found = []
        self.log = Journal.open(
            self.path,
            syncer=self.syncer,
            io=self.io,
            types=TYPES,
            clean=clean,
            on_record=found.append,
            segment_bytes=self.segment_bytes,
        )
        self.log.signal.notify = self.note
        return found

    def note(self):
        # What callers were told (`synced`) and readers may have seen (`visible`), at this point of the recording.
        shown = max((seq for seq in self.must_sync if seq <= self.log.visible_seq), default=0)
        self.io.ops.append(Op("note", note=(max(self.log.synced_seq, shown), self.log.position())))

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


class State(NamedTuple):
    """What one cut leaves: ``files`` by name; the records up to seq ``owed`` must be there.

    ``holed``: a write is missing before one that is there.
    """

    files: dict
    owed: int
    mark: Position
    holed: bool


def subsets(items, rng):
    if len(items) > CLOSED_UNDER_ALL_SUBSETS:
        return [[rng.random() < 0.5 for _ in items] for _ in range(SAMPLE)]
    return list(itertools.product([False, True], repeat=len(items)))


def contents(durable, pending, rng):
    """Every content one file may have, and whether it has a hole."""
    for kept in subsets(pending, rng):
        survived = [op for op, there in zip(pending, kept, strict=True) if there]
        content = durable
        for op in survived:
            content = apply(content, op)
        whole = survived == pending[: len(survived)]
        yield content, not whole
        if survived and survived[-1].name == "write" and whole:
            last = survived[-1]
            for cut in {1, len(last.data) // 2, len(last.data) - 1}:
                torn = durable
                for op in [*survived[:-1], Op("write", last.offset, last.data[:cut])]:
                    torn = apply(torn, op)
                yield torn, False


def entries(durable, pending, rng):
    """Every set of names {name: inode} the directory may have."""
    for kept in subsets(pending, rng):
        yield after(durable, [op for op, there in zip(pending, kept, strict=True) if there])


def after(names, ops):
    names = dict(names)
    for op in ops:
        if op.name == "rename":
            if names.get(op.path) == op.inode:
                del names[op.path]
            names[op.target] = op.inode
        else:
            names[op.path] = op.inode
    return names


def crash_states(ops, rng, begin=0):
    """Every `State` the first n operations may leave, for every n from ``begin`` on."""
    for length in range(begin, len(ops) + 1):
        files, names, renames, owed, mark = {}, {}, [], 0, START
        for op in ops[:length]:
            durable, pending = files.setdefault(op.inode, (b"", []))
            if op.name in ("create", "rename"):
                renames.append(op)
            elif op.name == "sync":
                for done in pending:
                    durable = apply(durable, done)
                files[op.inode] = durable, []
            elif op.name == "sync_dir":
                names = after(names, renames)
                renames = []
            elif op.name == "note":
                owed, mark = max(owed, op.note[0]), op.note[1]
            else:
                pending.append(op)
        choices = {inode: list(contents(*file, rng)) for inode, file in files.items()}
        for found in entries(names, renames, rng):
            for chosen in itertools.product(*(choices[inode] for inode in found.values())):
                there = {name: content for name, (content, _) in zip(found, chosen, strict=True)}
                yield State(there, owed, mark, any(holed for _, holed in chosen))


def lay(directory, files):
    for old in directory.iterdir():
        old.unlink()
    for name, content in files.items():
        (directory / name).write_bytes(content)
    return directory / "log"


def opened(path, segment_bytes, start=None):
    found = []
    log = Journal.open(
        path,
        syncer=Syncer(pytest.fail, threads=0),
        io=UnsyncedIO(),
        types=TYPES,
        on_record=found.append,
        segment_bytes=segment_bytes,
        start=start,
    )
    return log, found


def check(directory, state, stored, segment_bytes=None):
    """Open what the cut left; returns whether it could be opened."""
    path = lay(directory, state.files)
    try:
        log, found = opened(path, segment_bytes)
    except Corrupt:
        # Only a hole with whole records behind it may be refused, and what was acknowledged stands before it.
        assert state.holed
        lines = b"".join(state.files[name] for name in sorted(state.files, key=order)).split(b"\n")
        assert [line for line in lines if b"\0" in line]
        assert b"\0" not in b"".join(lines[: state.owed])
        return False
    assert [r["seq"] for r in found] == list(range(1, len(found) + 1))
    assert len(found) >= state.owed, "an acknowledged record is gone"
    assert all(stored[r["seq"]] == r for r in found)
    assert list(read_all(path, TYPES)) == found
    assert log.tail(1 << 20, 1 << 30) == found
    for _ in range(3):
        (more,) = log.append([record()], sync=True)
        assert log.visible_seq == more["seq"]
    assert more["seq"] == len(found) + 3
    log.close()
    path = lay(directory, state.files)
    log, behind = opened(path, segment_bytes, state.mark)
    assert behind == found[state.mark.seq :]
    log.close()
    return True


def order(name):
    """The files of the log in order: the full ones by name, then the live one."""
    return name == "log", name


def check_all(directory, life, rng, begin=0):
    """Check every state; how many could be opened, and of how many with a rotation half-done."""
    directory.mkdir(exist_ok=True)
    tried = opened = between = 0
    seen = set()
    for state in crash_states(life.io.ops, rng, begin):
        key = tuple(sorted(state.files.items())), state.owed, state.mark
        if key in seen:
            continue
        seen.add(key)
        tried += 1
        opened += check(directory, state, life.stored, life.segment_bytes)
        between += bool(state.files) and "log" not in state.files
    return tried, opened, between


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
    _, opened, _ = check_all(tmp_path / "state", life, rng)
    assert opened > 20


SEGMENT = 150  # bytes: two or three records


@pytest.mark.parametrize("seed", range(12))
def test_no_cut_while_files_are_sealed_loses_what_was_acknowledged(tmp_path, seed):
    rng = random.Random(seed)
    life = Life(tmp_path / "log", segment_bytes=SEGMENT)
    play(life, rng, 12)
    assert full_firsts(tmp_path / "log"), "no file was full: the test shows nothing"
    _, opened, between = check_all(tmp_path / "state", life, rng)
    assert opened > 20
    assert between > 1, "no cut came between the two names"


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("fails", ["create", "rename"])
def test_no_cut_after_a_rotation_that_was_refused_loses_anything(tmp_path, seed, fails):
    rng = random.Random(500 + seed)
    life = Life(tmp_path / "log", segment_bytes=SEGMENT)
    refused = []
    real_open, real_rename = life.io.open, life.io.rename

    def open_or_refuse(path, flags, mode=0o600):
        if flags & os.O_EXCL and len(refused) < 2:
            refused.append(path)
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        return real_open(path, flags, mode)

    def rename_or_refuse(source, target):
        # The way back of the first of the two rotations is refused as well.
        if target == life.path and len(refused) == 1:
            raise OSError(EIO, os.strerror(EIO))
        if target != life.path and fails == "rename" and len(refused) < 2:
            refused.append(target)
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        real_rename(source, target)

    life.io.rename = rename_or_refuse
    if fails == "create":
        life.io.open = open_or_refuse
    play(life, rng, 14)
    assert refused
    _, opened, _ = check_all(tmp_path / "state", life, rng)
    assert opened > 20


@pytest.mark.parametrize("seed", range(4))
def test_a_cut_while_a_half_done_rotation_is_undone_loses_nothing(tmp_path, seed):
    rng = random.Random(700 + seed)
    first = Life(tmp_path / "log", segment_bytes=SEGMENT)
    while not full_firsts(tmp_path / "log"):
        first.append(1, sync=True)
        first.sync()
    owed = first.log.last_seq - 1
    (tmp_path / "log").unlink()
    name = full_path(tmp_path / "log", 1)
    first.log.close()
    life = Life(tmp_path / "log", segment_bytes=SEGMENT, opens=False)
    life.io.names = {name.name: 0}
    life.io.ops = [
        Op("create", path=name.name),
        Op("sync_dir"),
        Op("write", 0, name.read_bytes()),
        Op("sync"),
        Op("note", note=(owed, START)),
    ]
    given = len(life.io.ops)
    life.stored = {seq: stamped for seq, stamped in first.stored.items() if seq <= owed}
    assert len(life.open()) == owed
    play(life, rng, 8)
    _, opened, between = check_all(tmp_path / "state", life, rng, given)
    assert opened > 20
    assert between > 1


def test_the_enumeration_would_see_a_missing_sync_between_the_two_names(tmp_path):
    # The control: a rotation that gives the live name away before the full one is durable.
    life = Life(tmp_path / "log", segment_bytes=SEGMENT)
    life.append(1, sync=True)
    life.sync()
    life.io.fsync = lambda fd: None
    while not full_firsts(tmp_path / "log"):
        life.append(1, sync=True)
        life.sync()
    with pytest.raises(AssertionError, match="acknowledged record is gone"):
        check_all(tmp_path / "state", life, random.Random(0))


def test_the_enumeration_would_see_a_missing_sync(tmp_path):
    # The control: a journal that only pretends to sync must fail the same check.
    life = Life(tmp_path / "log")
    life.io.fdatasync = lambda fd: None
    life.append(1, sync=True)
    life.sync()
    with pytest.raises(AssertionError, match="acknowledged record is gone"):
        check_all(tmp_path / "state", life, random.Random(0))


def test_the_enumeration_would_see_a_missing_sync_of_the_directory(tmp_path):
    life = Life(tmp_path / "log")
    life.io.fsync = lambda fd: None
    life.append(1, sync=True)
    life.sync()
    with pytest.raises(AssertionError, match="acknowledged record is gone"):
        check_all(tmp_path / "state", life, random.Random(0))


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
    life.io.ops = [Op("create"), Op("sync_dir"), Op("write", 0, content), Op("sync"), Op("note", note=(owed, START))]
    found = life.open()
    assert [r["seq"] for r in found] == list(range(1, owed + 1))
    assert life.log.repaired is not None
    play(life, rng, 5)
    check_all(tmp_path / "state", life, rng)
