"""Rewrites a damaged log: reads its files, moves them into quarantine, writes a new file in their place.

The only place where a log is replaced instead of appended to. A crash at any step is safe: the damaged files get a
second name before the new file takes the first, and nothing is removed before the new file is complete. No process
may have the log open.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from orchestrator.journal.log_lines import SEAL_BYTES, intact
from orchestrator.journal.project_files import Paths, failure, replace
from orchestrator.journal.syscalls import REAL, SysIO


def files_of(log: Path) -> list[Path]:
    """The files of a log in the order of their records: its numbered segments, then the live one."""
    segment = re.compile(re.escape(log.stem) + r"\.\d{12}" + re.escape(log.suffix))
    segments = sorted(path for path in log.parent.glob(f"{log.stem}.*{log.suffix}") if segment.fullmatch(path.name))
    return [*segments, log] if log.exists() else segments


def lines_of(log: Path, types: frozenset[str]) -> list[bytes]:
    """Every line of the log, damaged or not, without its newline; a last one that is unterminated if it is whole."""
    lines: list[bytes] = []
    try:
        for path in files_of(log):
            *whole, rest = path.read_bytes().split(b"\n")
            lines += whole
            if len(rest) > SEAL_BYTES and intact(rest, types, path) is not None:
                lines.append(rest)
    except OSError as error:
        raise failure(log, error) from error
    return lines


def quarantine_name(log: Path, at: datetime) -> Path:
    """Where the log's live file is kept: the name it has already after a rewrite that was cut off, else a new one."""
    for path in sorted(log.parent.glob(f"{log.name}.quarantine-*")):
        if log.exists() and path.samefile(log):
            return path
    name = Paths.quarantine(log, at)
    count = 1
    while name.exists():
        count += 1
        name = Paths.quarantine(log, at).with_name(f"{Paths.quarantine(log, at).name}-{count}")
    return name


def keep(log: Path, at: datetime, io: SysIO = REAL) -> None:
    """Give the log's files a second name in quarantine, durably; harmless again after a crash."""
    try:
        for path in files_of(log):
            name = quarantine_name(path, at)
            if not name.exists():
                os.link(path, name)
        io.fsync_dir(log.parent)
    except OSError as error:
        raise failure(log, error) from error


def rewrite(log: Path, lines: Sequence[bytes], io: SysIO = REAL) -> None:
    """Replace the log by one of these lines, durably; `keep` the old one first.

    A crash leaves the old log, or the new one next to old segments, which the next rewrite removes.
    """
    replace(log, b"".join(lines), mode=0o600, io=io)
    _drop_segments(log, io)


def _drop_segments(log: Path, io: SysIO = REAL) -> None:
    """Remove the segments of a log that was rewritten as one file."""
    old = [path for path in files_of(log) if path != log]
    try:
        for path in old:
            io.unlink(path)
        if old:
            io.fsync_dir(log.parent)
    except OSError as error:
        raise failure(log, error) from error
