"""Kill -9 of a process that writes a log: nothing acknowledged is lost, whatever the moment."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.journal.log import Journal
from orchestrator.journal.log_reader import read_all
from orchestrator.journal.segments import full_firsts, log_exists
from orchestrator.journal.syncer import Syncer
from tests.support.faulty_disk import TYPES

WRITER = Path(__file__).with_name("journal_writer.py")
ROOT = WRITER.parents[2]
LIVES = {0: 10, 2_000: 5, 30_000: 5}  # per size of a segment


def wait_until(fact, process):
    until = time.monotonic() + 60
    while not fact():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until, "the writer did nothing for 60 s"


@pytest.mark.parametrize("segment_bytes", [0, 2_000, pytest.param(30_000, marks=pytest.mark.slow)])
def test_a_storm_of_kills_loses_no_acknowledged_record_and_readers_never_see_half_of_one(tmp_path, segment_bytes):
    path, acks = tmp_path / "log", tmp_path / "acks"
    acks.touch()
    rng = random.Random(7)
    reads = lines_read = torn = between = 0
    lives = LIVES[segment_bytes]
    for life in range(lives):
        enough = acks.stat().st_size + rng.randint(1, 6000)
        writer = subprocess.Popen(
            [sys.executable, "-P", str(WRITER), str(path), str(acks), str(life), str(segment_bytes)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            # A reader without any lock, while the writer is at work: it sees whole records only, never fewer.
            seen = 0
            wait_until(lambda: log_exists(path), writer)
            while acks.stat().st_size < enough:
                wait_until(lambda: True, writer)
                count = sum(1 for _ in read_all(path, TYPES))
                assert count >= seen
                seen, reads, lines_read = count, reads + 1, lines_read + count
        finally:
            writer.kill()
            writer.wait()
            writer.stderr.close()
        between += not path.exists()
        torn += path.exists() and not path.read_bytes().endswith(b"\n")

    found = []
    log = Journal.open(path, syncer=Syncer(pytest.fail, threads=0), types=TYPES, on_record=found.append)
    log.close()
    assert [r["seq"] for r in found] == list(range(1, len(found) + 1))
    acknowledged = [tuple(map(int, line.split())) for line in acks.read_text().split("\n")[:-1]]
    assert len(acknowledged) > lives
    for seq, life, writer_number, n in acknowledged:
        there = found[seq - 1]
        assert (there["life"], there["writer"], there["n"]) == (life, writer_number, n)
    assert len(set(acknowledged)) == len(acknowledged)
    named = [(r["life"], r["writer"], r["n"]) for r in found if r["type"] == "task"]
    assert len(set(named)) == len(named), "a record is there twice"
    assert reads >= lives
    assert len(full_firsts(path)) > lives or not segment_bytes
    print(
        f"{len(acknowledged)} acknowledged, {len(found)} found, {torn} torn tails, {reads} reads of {lines_read} lines, "
        f"{len(full_firsts(path))} full files, {between} kills between two names"
    )
