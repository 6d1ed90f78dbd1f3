"""A position: a synced place in a log, from which a later open verifies only the records after it.

A cache keeps it (a checkpoint); it is never needed, and one that does not fit is only refused. Reads the log's
files, writes nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from orchestrator.base.errors import Corrupt
from orchestrator.journal.file_scan import LogFile, last_seq, seq_at
from orchestrator.journal.log_reader import OpenLog, last_records, opened


class Position(NamedTuple):
    """The position after record ``seq``, which has that ``crc``.

    It is at ``offset`` of the file whose first record has the seq ``segment``, whatever that file's name is now.
    ``Position(0, 1, 0, "")`` is the beginning of every log.
    """

    seq: int
    segment: int
    offset: int
    crc: str


START = Position(0, 1, 0, "")


class WrongPosition(Exception):
    """The log does not have the record at the stored position; open it without. ``cut``: it ends before that."""

    def __init__(self, path: Path, position: Position, *, cut: bool) -> None:
        super().__init__(f"{path}: record {position.seq} is not at the stored position")
        self.cut = cut


def check(log: OpenLog, position: Position) -> None:
    """Raise ``WrongPosition`` unless the record before the position is there, complete; reads at most a few blocks.

    ``log.last`` is the live file with its size as ``end``; its ``first`` is not used. Raises ``OSError``.
    """
    if position.seq == 0:
        return
    fits = False
    if position.segment in log.full:
        with opened(log._replace(last=log.last._replace(first=0)), position.segment) as file:
            fits = _stands(file, position)
    elif position.segment > max(log.full, default=0) and seq_at(log.last.io, log.last.fd, 0) == position.segment:
        fits = _stands(log.last._replace(first=position.segment), position)
    if not fits:
        raise WrongPosition(log.path, position, cut=_ends_before(log, position.seq))


def _stands(file: LogFile, position: Position) -> bool:
    if not 0 < position.offset <= file.end or position.seq < position.segment:
        return False
    if file.io.pread(file.fd, 1, position.offset - 1) != b"\n":
        return False
    # Accepted lines have no MAC of ours, and are compared as a whole before one is read: here the crc decides.
    seal = None if file.seal is None or file.seal.accepts(position.seq) else file.seal
    before = OpenLog(file.path, [], file._replace(end=position.offset, seal=seal))
    try:
        (record,) = last_records(before, position.seq, (1, 0))
    except Corrupt:
        return False
    return bool(record["crc"] == position.crc)


def _ends_before(log: OpenLog, seq: int) -> bool:
    last = last_seq(log.last.io, log.last.fd, log.last.end)
    if last == 0 and log.full:
        with opened(log._replace(last=log.last._replace(first=0)), log.full[-1]) as file:
            last = last_seq(file.io, file.fd, file.end)
    return last is not None and last < seq
