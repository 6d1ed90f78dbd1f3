"""When a file or directory was made, as the file system keeps it. Standard library only; reads."""

from __future__ import annotations

import os
from pathlib import Path

# linux/stat.h: struct statx has 256 bytes; the mask of what is known first, the birth time at byte 80.
_STATX_BTIME = 0x800
_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW = 0x100


def born_ns(path: Path) -> int | None:
    """The birth time of a file in ns since the epoch; None if kernel or file system do not report it."""
    born: float | None = getattr(path.lstat(), "st_birthtime", None)  # macOS
    if born is not None:
        return round(born * 1_000_000_000)
    import ctypes  # noqa: PLC0415 - os.statx comes with Python 3.15

    buffer = ctypes.create_string_buffer(256)
    try:
        statx = ctypes.CDLL(None, use_errno=True).statx
    except (OSError, AttributeError):
        return None
    if statx(_AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, buffer) != 0:
        return None
    if not int.from_bytes(buffer.raw[0:4], "little") & _STATX_BTIME:
        return None
    seconds = int.from_bytes(buffer.raw[80:88], "little", signed=True)
    return seconds * 1_000_000_000 + int.from_bytes(buffer.raw[88:92], "little")
