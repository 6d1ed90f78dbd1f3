"""The files with what a shell agent's tasks have put out: the newest, and its lines. Reads only."""

from __future__ import annotations

import contextlib
import os
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

LINE_BYTES = 1 << 16
TAIL_BYTES = 1 << 20
_OUTPUT = re.compile(r"(?P<task>.+)-a(?P<attempt>\d+)\.log")


def newest_output(folder: Path, task: str) -> Path | None:
    """The output file that was written last, of the task if one is named."""
    files: list[tuple[int, Path]] = []
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            match = _OUTPUT.fullmatch(path.name)
            if match and not path.is_symlink() and task in ("", match["task"]):
                files.append((path.stat().st_mtime_ns, path))
    return max(files)[1] if files else None


def tail_of(file: Path, last: int) -> Iterator[str]:
    """The last lines of a file; 0: all."""
    with file.open("rb") as data:
        yield from last_of(output_lines(data), last)


def end_of(file: Path, last: int) -> list[str]:
    """The last lines of a file of any size: at most `TAIL_BYTES` of it are read."""
    with file.open("rb") as data:
        size = os.fstat(data.fileno()).st_size
        if size > TAIL_BYTES:
            data.seek(size - TAIL_BYTES)
            data.readline()
        return list(last_of(output_lines(data), last))


def last_of(lines: Iterator[str], last: int) -> Iterator[str]:
    """The last of these lines; 0: all."""
    yield from deque(lines, maxlen=last) if last else lines


def output_lines(data: BinaryIO, *, unfinished: bool = True) -> Iterator[str]:
    """What is left of the file, line by line, without colours and redraws.

    Without ``unfinished`` a last line that has no end yet stays for the next call.
    """
    from orchestrator.worker.shell_command import without_escapes  # noqa: PLC0415  (loads asyncio)

    while line := data.readline(LINE_BYTES):
        if not unfinished and not line.endswith(b"\n") and len(line) < LINE_BYTES:
            data.seek(-len(line), 1)
            return
        yield without_escapes(line)
