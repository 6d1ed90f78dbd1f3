"""The log that a CLI writes into its agent's engine directory: reads its end, and keeps it short. Knows no CLI."""

from __future__ import annotations

import os
import stat
from pathlib import Path

END_BYTES = 1 << 15
MOST_BYTES = 1 << 20


def end_of(path: Path) -> str:
    """The last 32 KB of a regular file; "" for anything else."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return ""
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            return ""
        return os.pread(fd, END_BYTES, max(0, facts.st_size - END_BYTES)).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


def empty_if_long(path: Path) -> None:
    """Empty a regular file of more than 1 MiB. Its writer appends, so it goes on at the beginning."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return
    try:
        facts = os.fstat(fd)
        if stat.S_ISREG(facts.st_mode) and facts.st_size > MOST_BYTES:
            os.ftruncate(fd, 0)
    except OSError:
        pass
    finally:
        os.close(fd)
