"""The model requests of one agent: counted once each, kept in its `usage.jsonl`. Touches that file only; blocks.

A line is one request; a later line with the same id replaces it. The file is no journal: it has no seals, nothing is
decided from it, and what is lost of it is missing in a sum and nowhere else.
"""

from __future__ import annotations

import copy
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson
import structlog

from orchestrator.core.model_usage import ModelRequest, Prices, UsageSums
from orchestrator.engines.usage_reading import recorded_request
from orchestrator.journal.project_files import Paths

log = structlog.get_logger()

REPLACEABLE = 256
"""How many of the last requests may still be replaced: a CLI may write it several times in a row."""
UNWRITTEN_MAX = 10_000
"""How many lines that could not be written are kept for the next try."""
LINE_MAX = 4096


class UsageAccount:
    """What is counted of one agent. Used by one thread at a time, except ``sums``, which is replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: set[int] = set()  # hashes: a hundred thousand ids would take three times the memory
        self._last: OrderedDict[int, ModelRequest] = OrderedDict()
        self._counted = UsageSums()
        self._unwritten: list[bytes] = []
        self._torn = False
        self.is_loaded = False
        self.is_new = True  # nothing was ever counted
        self.sums = UsageSums()

    def load(self) -> None:
        """Count what the file holds; once."""
        if self.is_loaded:
            return
        self._torn = not _ends_whole(self._path)
        for line in _lines(self._path):
            request = recorded_request(line)
            if request is not None:
                self._count(request)
        self.is_loaded = True
        self.is_new = not self._known
        self.sums = copy.deepcopy(self._counted)

    def add(self, requests: Iterable[ModelRequest], facts: Callable[[ModelRequest], Mapping[str, Any]]) -> bool:
        """Count the requests that are new or have changed, and append them with their ``facts``; whether any was."""
        self.load()
        newest = {request.request_id: request for request in requests}
        lines = [_line(request, facts(request)) for request in newest.values() if self._count(request)]
        self._unwritten += lines
        if self._unwritten:
            self._write()
            del self._unwritten[:-UNWRITTEN_MAX]
        if lines:
            self.is_new = False
            self.sums = copy.deepcopy(self._counted)
        return bool(lines)

    def rest(self) -> None:
        """Release the memory for ids; a later `add` reads the file again."""
        if self.is_loaded and not self._unwritten:
            self._known, self._last, self._counted, self.is_loaded = set(), OrderedDict(), UsageSums(), False

    def _count(self, request: ModelRequest) -> bool:
        key = hash(request.request_id)
        before = self._last.get(key)
        if before is None and key in self._known:
            return False  # a session that was forked has all lines of the old one
        if before is not None and before.figures == request.figures:
            return False
        self._counted.add(request, instead_of=before)
        self._known.add(key)
        self._last[key] = request
        if len(self._last) > REPLACEABLE:
            self._last.popitem(last=False)
        return True

    def _write(self) -> None:
        try:
            fd = _opened(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        except OSError as error:
            log.debug("usage not written", file=str(self._path), reason=error.strerror)
            return
        try:
            data = b"\n" * self._torn + b"".join(self._unwritten)
            self._torn = True  # until all of it is written
            while data:
                data = data[os.write(fd, data) :]
            self._torn, self._unwritten = False, []
        except OSError as error:  # the disk is full: the next request tries again
            log.debug("usage not written", file=str(self._path), reason=error.strerror)
        finally:
            os.close(fd)


def task_usage(
    paths: Paths, agent_id: str, prices: Prices = MappingProxyType({})
) -> dict[str | None, dict[str, Any]]:
    """What each task of the agent used, as `UsageSums.view`; under None what belongs to no task.

    Empty if nothing was counted.
    """
    last: dict[str, tuple[str | None, ModelRequest]] = {}
    for line in _lines(paths.usage(agent_id)):
        request, task_id = recorded_request(line), line.get("task_id")
        if request is not None:
            last[request.request_id] = task_id if isinstance(task_id, str) else None, request
    sums: dict[str | None, UsageSums] = {}
    for task_id, request in last.values():
        sums.setdefault(task_id, UsageSums()).add(request)
    return {task_id: total.view(prices) for task_id, total in sums.items()}


def _line(request: ModelRequest, facts: Mapping[str, Any]) -> bytes:
    figures = {name: getattr(request, name) for name in ("input", "cached", "cache_write", "output", "cost")}
    return orjson.dumps({"id": request.request_id, "model": request.model, **figures, **facts}) + b"\n"


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of the file that are JSON objects."""
    try:
        with open(_opened(path, os.O_RDONLY), "rb") as file:
            while line := file.readline(LINE_MAX):
                try:
                    content = orjson.loads(line)
                except orjson.JSONDecodeError:
                    continue
                if isinstance(content, dict):
                    yield content
    except OSError:
        return


def _ends_whole(path: Path) -> bool:
    """Whether nothing must be written before the next line."""
    try:
        with open(_opened(path, os.O_RDONLY), "rb") as file:
            return not file.seek(0, os.SEEK_END) or (file.seek(-1, os.SEEK_END), file.read(1))[1] == b"\n"
    except OSError:
        return True


def _opened(path: Path, flags: int) -> int:
    """A descriptor of the file; OSError if it is none of this user's own files."""
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    about = os.fstat(fd)
    if stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid():
        return fd
    os.close(fd)
    raise PermissionError(1, "no file of this user", str(path))
