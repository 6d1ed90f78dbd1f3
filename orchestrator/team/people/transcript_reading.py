"""Reads the model requests in a CLI's transcript, going on where the last reading ended. Reads files; blocks.

A transcript is another program's file: it may be long, torn, replaced or damaged, and may be no file of this user at
all. What cannot be read holds no requests.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from orchestrator.core.model_usage import ModelRequest
from orchestrator.engines.usage_reading import UNNAMED, TranscriptUsage

CHUNK = 1 << 20
LINE_MAX = 16 << 20
"""A longer line is passed over."""
BEFORE = 512
"""Number of bytes before a position by which the file is recognized: a usage line has its id in them."""
READ_MAX = 8 << 20
"""Bytes of one reading; the next one goes on there."""


@dataclass
class TranscriptPosition:
    """Up to where a transcript was read: the file, the start of the next line, and the model named last.

    ``threads`` are the further sessions that it has named.
    """

    file: tuple[int, int] = (0, 0)  # device and inode
    offset: int = 0
    before: bytes = b""  # the bytes before the offset: a file that was rewritten has other bytes there
    threads: set[str] = field(default_factory=set)
    in_long_line: bool = False
    model: str = UNNAMED


def read_on(path: Path, position: TranscriptPosition, usage: TranscriptUsage) -> tuple[list[ModelRequest], bool]:
    """The requests in the whole lines after the position, and whether there is more to read. Moves the position.

    A file that was replaced, rewritten or has become shorter is read from its beginning. Links and files of other
    users are not read.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return [], False
    try:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
            return [], False
        file = about.st_dev, about.st_ino
        if position.file != file or not _goes_on(fd, about.st_size, position):
            position.file, position.offset, position.in_long_line, position.model = file, 0, False, UNNAMED
        requests = _requests(fd, about.st_size, position, usage)
        position.before = _before(fd, position.offset)
        return requests
    except OSError:
        return [], False
    finally:
        os.close(fd)


def _goes_on(fd: int, size: int, position: TranscriptPosition) -> bool:
    return size >= position.offset and _before(fd, position.offset) == position.before


def _before(fd: int, offset: int) -> bytes:
    begin = max(0, offset - BEFORE)
    return os.pread(fd, offset - begin, begin)


def _requests(
    fd: int, size: int, position: TranscriptPosition, usage: TranscriptUsage
) -> tuple[list[ModelRequest], bool]:
    requests: list[ModelRequest] = []
    at, rest, until = position.offset, b"", position.offset + READ_MAX
    while at < size and at < until:
        data = os.pread(fd, CHUNK, at)
        if not data:
            return requests, False
        at += len(data)
        whole, newline, tail = data.rpartition(b"\n")
        if not newline:
            rest += data
            if len(rest) > LINE_MAX:
                position.in_long_line, rest = True, b""
            if position.in_long_line:
                position.offset, rest = at, b""
            continue
        lines = (rest + whole).split(b"\n")
        if position.in_long_line:
            del lines[0]
            position.in_long_line = False
        for line in lines:
            request = _read(line, position, usage)
            if request is not None:
                requests.append(request)
        position.offset, rest = at - len(tail), tail
    return requests, at < size


def _read(line: bytes, position: TranscriptPosition, usage: TranscriptUsage) -> ModelRequest | None:
    if not any(mark in line for mark in usage.marks):
        return None
    try:
        content = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(content, dict):
        return None
    request, position.model, threads = usage.read(content, position.model)
    position.threads.update(threads)
    return request
