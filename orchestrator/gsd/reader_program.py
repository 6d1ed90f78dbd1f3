"""The process that reads projects for the daemon: one JSON line in, one out, until nobody asks any more.

It exists so that a graph of 100,000 files is neither loaded nor searched in the process that delivers the team's
work. It reads projects and writes nothing but its answers; what nobody foresaw it tells on stderr, the daemon's log.

A line in: ``{"id", "op", "place": {cwd, named, variable, roots}, "args"}``. A line out: ``{"id", "ok": answer}``,
``{"id", "error": {kind, code, message, next_step, ...}}``, or unasked ``{"changed": root}``. The op ``forget`` takes
the question of that id back: one that nobody has begun with is answered with nothing, and never begun with.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from orchestrator.base.errors import Environment, OrchestratorError
from orchestrator.gsd.intelligence import Intelligence
from orchestrator.gsd.place import Asking

THREADS = 4
NICE = 5
"""Loading a large project must not slow down the daemon, nor the agents."""
MAX_LINE = 32 << 20
"""Of a question or an answer: the relay's own limit of one message."""


def main(wire_in: int, wire_out: int) -> int:
    """Answer questions on the two descriptors until the one side ends; then this process ends at once, with 0."""
    with suppress(OSError):
        os.nice(NICE)
    serving = _Serving(wire_out)
    with os.fdopen(wire_in, "rb") as lines:
        while True:
            line = lines.readline(MAX_LINE + 1)
            if not line.endswith(b"\n") or len(line) > MAX_LINE:
                break  # nobody is there any more, or it is not the daemon
            serving.take(line)
    # Whatever is being read, nobody waits for it: not for the threads either.
    os._exit(0)


class _Serving:
    """Questions being answered by a few threads, their answers written one at a time."""

    def __init__(self, wire_out: int) -> None:
        self._out: BinaryIO = os.fdopen(wire_out, "wb")
        self._writing = threading.Lock()
        self._intelligence = Intelligence(self._changed)
        self._pool = ThreadPoolExecutor(THREADS, "answer")
        self._taken: dict[int, Future[None]] = {}

    def take(self, line: bytes) -> None:
        asked = json.loads(line)  # orjson takes no name of a directory that is no UTF-8
        key = asked["id"]
        if asked["op"] == "ping":  # answered by this thread: whether the process lives, however much it has to do
            self._write(encoded({"id": key, "ok": {}}))
        elif asked["op"] == "forget":
            taken = self._taken.get(key)
            if taken is not None and taken.cancel():
                self._write(encoded({"id": key, "ok": {}}))
        else:
            self._taken[key] = answering = self._pool.submit(self._answer, asked)
            answering.add_done_callback(lambda _: self._taken.pop(key, None))

    def _answer(self, asked: Mapping[str, Any]) -> None:
        try:
            answer = self._intelligence.answer(asked["op"], _asking(asked), asked["args"])
            line = encoded({"id": asked["id"], "ok": answer})
        except OrchestratorError as error:
            line = encoded({"id": asked["id"], "error": error.as_dict()})
        except Exception:  # noqa: BLE001  (a bug of ours must neither end the process nor leave a caller waiting)
            sys.stderr.write(f"gsd-reader: bug in {asked['op']}\n{traceback.format_exc()}")
            bug = Environment("internal", f"{asked['op']} failed for a reason nobody foresaw")
            line = encoded({"id": asked["id"], "error": bug.as_dict()})
        if len(line) > MAX_LINE:
            long = Environment(
                "gsd_failed",
                f"the answer would have {len(line)} bytes",
                "ask for less: a narrower query, fewer results",
            )
            line = encoded({"id": asked["id"], "error": long.as_dict()})
        self._write(line)

    def _changed(self, root: Path) -> None:
        self._write(encoded({"changed": str(root)}))

    def _write(self, line: bytes) -> None:
        with self._writing:
            try:
                self._out.write(line)
                self._out.flush()
            except OSError:
                os._exit(0)  # the daemon is gone


def encoded(told: Mapping[str, Any]) -> bytes:
    """A message as its line. What no JSON can carry (half a character, of a path that is no UTF-8) becomes ``?``."""
    try:
        return orjson.dumps(told, default=_plain) + b"\n"
    except TypeError:
        text = json.dumps(told, default=_plain, ensure_ascii=False)
        return text.encode("utf-8", "replace") + b"\n"


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset | tuple):
        return sorted(value) if not isinstance(value, tuple) else list(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def _asking(asked: Mapping[str, Any]) -> Asking:
    given = asked["place"]
    return Asking(given["cwd"], given["named"], given["variable"], tuple(given["roots"]))
