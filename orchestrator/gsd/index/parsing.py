"""Has source files read and parsed in processes of their own, so that a file that crashes a parser costs itself only.

Starts `parse_child`, as many as the work is worth and the machine has processors for; ends each of them before it
returns. Reads nothing itself.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from orchestrator.base.errors import Environment
from orchestrator.base.platform.basic_facts import processors
from orchestrator.gsd.index.source import Parsed
from orchestrator.gsd.model import Trouble

WORTH = 60
"""Files: below this a second process costs more than it saves."""
MOST = 4
COMMAND = (sys.executable, "-P", "-m", "orchestrator.gsd.index.parse_child")


@dataclass(frozen=True, slots=True)
class Looked:
    """A file as a child saw it; ``digest`` is empty when it could not be read. ``parsed`` None: it is not there."""

    path: str
    parsed: Parsed | None
    mtime_ns: int = 0
    size: int = 0
    digest: bytes = b""


def parse_files(root: Path, paths: Sequence[str], command: Sequence[str] = COMMAND) -> Iterator[Looked]:
    """Each file as it is now, in any order. Raises Environment ``gsd_failed`` when no child can be started."""
    if not paths:
        return
    todo: queue.SimpleQueue[str] = queue.SimpleQueue()
    for path in paths:
        todo.put(path)
    done: queue.SimpleQueue[Looked | OSError | None] = queue.SimpleQueue()
    many = 1 if len(paths) < WORTH else min(MOST, processors())
    children = [_Child(root, command, todo, done) for _ in range(many)]
    try:
        left = many
        while left:
            found = done.get()
            if found is None:
                left -= 1
            elif isinstance(found, OSError):
                raise Environment("gsd_failed", f"no process to parse files could be started: {found}") from found
            else:
                yield found
    finally:
        for child in children:
            child.end()


class _Child:
    """A thread that keeps one child at work, and another one when that has died of a file."""

    def __init__(
        self,
        root: Path,
        command: Sequence[str],
        todo: queue.SimpleQueue[str],
        done: queue.SimpleQueue[Looked | OSError | None],
    ) -> None:
        self._command = [*command, str(root)]
        self._todo = todo
        self._done = done
        self._ending = False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._work, name="gsd-parse", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            while not self._ending:
                try:
                    path = self._todo.get_nowait()
                except queue.Empty:
                    break
                self._done.put(self._ask(path))
        except OSError as error:
            self._done.put(error)
        finally:
            self._stop()
            self._done.put(None)

    def _ask(self, path: str) -> Looked:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        line = b""
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(orjson.dumps(path) + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        if line.endswith(b"\n"):
            return _looked(path, orjson.loads(line))
        code = self._stop()
        why = "it took too long" if code == -signal.SIGPROF else "its parser crashed"
        return Looked(path, Parsed(trouble=Trouble(path, 0, f"not parsed: {why}", "unreadable")))

    def _start(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._ending:
                raise OSError("ended")
            pipe = subprocess.PIPE
            process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, cwd="/")
            self._process = process
        assert process.stdout is not None
        if process.stdout.readline() != b'"ready"\n':
            raise OSError(f"it ended with {self._stop()}")
        return process

    def _stop(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.kill() if self._ending else None
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        return process.wait()

    def end(self) -> None:
        """Stop at once, whatever it is doing."""
        with self._lock:
            self._ending = True
            if (process := self._process) is not None:
                process.kill()
        self._thread.join()


def _looked(path: str, answer: dict[str, Any]) -> Looked:
    if "gone" in answer:
        return Looked(path, None)
    told = answer["trouble"]
    parsed = Parsed(
        tuple(answer["exports"]), answer["kinds"], tuple(answer["raw"]), answer["purpose"], answer["lines"],
        None if told is None else Trouble(path, *told),
    )  # fmt: skip
    return Looked(path, parsed, answer["mtime_ns"], answer["size"], bytes.fromhex(answer["digest"]))
