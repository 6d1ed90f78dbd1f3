"""The files of one log: the live one, which is written, and the full ones before it, named by their first seq.

``outbox.jsonl`` is live, ``outbox.000000000001.jsonl`` full: sorted by name they are the log in order. Touches
nothing but the listing of the log's directory, and names in it.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.base.errors import Corrupt
from orchestrator.journal.syscalls import REAL, SysIO

DIGITS = 12


def full_path(path: Path, first: int) -> Path:
    """The name that the live file at ``path`` gets when it is full; ``first`` is the seq of its first record."""
    return path.with_name(f"{path.stem}.{first:0{DIGITS}d}{path.suffix}")


def full_firsts(path: Path, io: SysIO = REAL) -> list[int]:
    """The first seqs of the log's full files, ascending; raises ``OSError`` when the directory cannot be listed."""
    try:
        names = io.listdir(path.parent)
    except FileNotFoundError:
        return []
    head, tail = f"{path.stem}.", path.suffix
    firsts = []
    for name in names:
        number = name[len(head) : len(name) - len(tail)] if name.startswith(head) and name.endswith(tail) else ""
        if number.isascii() and number.isdigit() and number == f"{int(number):0{DIGITS}d}" and int(number):
            firsts.append(int(number))
    return sorted(firsts)


def log_files(path: Path, io: SysIO = REAL) -> list[Path]:
    """All files that hold records of the log, in order; the live one, if it is there, is the last."""
    # The live one first: a rotation in between then shows the log's file under one name at least.
    live = [path] if path.exists() else []
    return [full_path(path, first) for first in full_firsts(path, io)] + live


def log_exists(path: Path, io: SysIO = REAL) -> bool:
    """Whether there is such a log; its live file alone may be missing after a crash."""
    return path.exists() or bool(full_firsts(path, io))


def set_aside(path: Path, ending: str, io: SysIO = REAL) -> None:
    """Give each file of a closed log a name that ends so, the newest first: what a crash leaves is a log's beginning.

    A name that is taken already gets a number. Raises ``OSError`` if the disk refuses.
    """
    for file in reversed(log_files(path, io)):
        aside, number = file.with_name(f"{file.name}.{ending}"), 1
        while aside.exists():
            number += 1
            aside = file.with_name(f"{file.name}.{ending}-{number}")
        io.rename(file, aside)
    io.fsync_dir(path.parent)


def misplaced(path: Path, first: int, expected: int) -> Corrupt:
    """The error for a file of a log that begins with seq ``first`` where ``expected`` must follow."""
    cause = f"it begins with seq {first} where {expected} must follow; a file of the log was removed or renamed"
    return Corrupt("corrupt_log", f"{path}, line 1: {cause}", file=str(path), line=1, seq=expected, cause=cause)


def torn(path: Path, line: int, seq: int) -> Corrupt:
    """The error for a full file that does not end with a whole line."""
    cause = "the file no longer ends with a whole line; it was cut off or damaged"
    return Corrupt("corrupt_log", f"{path}, line {line}: {cause}", file=str(path), line=line, seq=seq, cause=cause)


def gone(path: Path, first: int) -> Corrupt:
    """The error for a full file that has disappeared."""
    cause = "the file was removed while the log was in use"
    return Corrupt("corrupt_log", f"{path}, line 1: {cause}", file=str(path), line=1, seq=first, cause=cause)
