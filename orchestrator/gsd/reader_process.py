"""The process that reads projects, as the daemon sees it: begun when somebody asks, replaced when dead or stuck.

Touches that process and the socket to it. What is asked there changes nothing, so a question that was lost with a
process is asked once more.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import structlog

from orchestrator.base.errors import CODES, BadRequest, Environment, OrchestratorError
from orchestrator.base.waiting import call_off
from orchestrator.edge.project_location import own_command
from orchestrator.protocol.traffic import BUFFER, Incoming, TooLong

log = structlog.get_logger()

MAX_LINE = 33 << 20
"""A little above what the process itself lets a line be."""
QUESTION_MAX = 1 << 20
"""Far above any question that is one, and below what ends the process, with the questions of all others."""
IDLE_S = 600.0
"""So long without a question, and the process is ended to give its memory back."""
SUSPECT_S = 10.0
"""While a question has no answer, the process is asked this often whether it lives; one that does not is replaced."""
PONG_S, PONGS = 5.0, 3
"""How long it may take to say so; in parts, for a daemon that was itself stopped finds only the first one over."""
STUCK_S = 300.0
"""A question that has been worked on for so long never ends: the process is replaced, and its threads with it."""
DEATHS = 3
DEATHS_S = 60.0
REFUSE_S = 30.0
"""After so many deaths within a minute nothing is asked for half of one."""
KILLED_S = 10.0

Changed = Callable[[str], None]
Facts = Mapping[str, Any]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Gone(Exception):
    """The process ended before it answered."""


class Reader:
    """One process at a time. ``changed`` hears the root of each project whose files have changed, while it lives."""

    def __init__(self, changed: Changed, command: list[str] | None = None, log_file: str = "") -> None:
        self._command = command or own_command("gsd-reader")
        self._changed = changed
        self._see_log = f"see the daemon's log{f' {log_file}' if log_file else ''}; then call again"
        self._child: _Child | None = None
        self._starting: asyncio.Task[_Child] | None = None
        self._deaths: deque[float] = deque(maxlen=DEATHS)
        self._refused_until = 0.0
        self._used = time.monotonic()
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process that lives now."""
        return self._child.pid if self._child is not None and not self._child.over else None

    async def ask(self, question: str, place: Facts, arguments: Facts, within_s: float) -> Any:
        """The process's answer.

        Raises what answered the question there, BadRequest ``bad_argument`` for one that is too long, and Environment
        ``gsd_failed`` when it took longer than ``within_s``, when two processes died of it, or while too many have
        died in a row.
        """
        self._used = time.monotonic()
        try:
            async with asyncio.timeout(within_s):
                return await self._asked(question, place, arguments)
        except TimeoutError:
            raise Environment(
                "gsd_failed",
                f"{question} was not answered within {within_s:.0f} s",
                "call again: what was read meanwhile is kept, and a reader that is stuck is replaced",
            ) from None
        finally:
            self._used = time.monotonic()

    async def _asked(self, question: str, place: Facts, arguments: Facts) -> Any:
        for _ in range(2):
            child = await self._living()
            answering = asyncio.create_task(child.ask(question, place, arguments))
            try:
                while not (await asyncio.wait([answering], timeout=SUSPECT_S))[0]:
                    child.suspect()
                return answering.result()
            except _Gone:
                log.warning("the process that reads projects ended while it was asked", question=question)
            finally:
                await call_off([answering])
        raise Environment(
            "gsd_failed", f"the process that reads projects ended while asked {question}", self._see_log
        )

    async def _living(self) -> _Child:
        if self._child is not None and not self._child.over:
            return self._child
        left = self._refused_until - time.monotonic()
        if left > 0:
            raise Environment(
                "gsd_failed",
                f"what reads projects has ended {DEATHS} times in a row; none is begun for {left:.0f} s",
                self._see_log,
            )
        if self._closed:
            raise Environment("gsd_failed", "the daemon ends")
        if self._starting is None:
            self._starting = asyncio.create_task(self._begin())
        return await asyncio.shield(self._starting)  # several wait for it, and one of them may be canceled

    async def _begin(self) -> _Child:
        try:
            self._child = await _Child.begin(self._command, self._changed, self._died)
        finally:
            self._starting = None
        return self._child

    def _died(self) -> None:
        now = time.monotonic()
        self._deaths.append(now)
        if len(self._deaths) == DEATHS and now - self._deaths[0] < DEATHS_S:
            self._deaths.clear()
            self._refused_until = now + REFUSE_S
            log.error("the process that reads projects keeps ending", deaths=DEATHS, refused_s=REFUSE_S)

    def look_around(self, needed: bool = False) -> None:
        """Now and then: end a process that nobody has asked for long, unless it is ``needed`` to watch."""
        child = self._child
        if child is None or child.over:
            return
        child.look()
        if not needed and not child.busy and time.monotonic() - self._used > IDLE_S:
            log.info("nobody asks about projects any more; what was read is let go")
            child.end()

    async def close(self) -> None:
        """End the process, for the daemon ends."""
        self._closed = True
        if self._starting is not None:
            await asyncio.wait([self._starting])
        if self._child is not None:
            self._child.end()
            await self._child.ended()


class _Child:
    """One life of the process."""

    def __init__(self, process: subprocess.Popen[bytes], streams: Streams, changed: Changed) -> None:
        self.pid = process.pid
        self.over = False
        self._process = process
        self._reader, self._writer = streams
        self._changed = changed
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._working: dict[int, float] = {}  # also questions nobody waits for any more, since when
        self._wanted = False  # its end was asked for
        self._looking: asyncio.Task[None] | None = None
        self._living: asyncio.Task[None] | None = None

    @classmethod
    async def begin(cls, command: list[str], changed: Changed, died: Callable[[], None]) -> _Child:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                # In a thread: the fork of a large process takes its time.
                process = await asyncio.to_thread(_spawn, command, theirs)
            child = cls(process, await asyncio.open_connection(sock=ours, limit=BUFFER), changed)
        except OSError as error:
            ours.close()
            raise Environment("gsd_failed", f"the process that reads projects was not started: {error}") from error
        child._living = asyncio.create_task(child._live(died))
        log.info("reading projects", pid=child.pid)
        return child

    @property
    def busy(self) -> bool:
        """Whether somebody waits for an answer."""
        return bool(self._waiting)

    async def ask(self, question: str, place: Facts, arguments: Facts) -> Any:
        key = next(self._ids)
        line = _line(key, question, place, arguments)
        if len(line) > QUESTION_MAX:
            raise BadRequest("bad_argument", f"the question has {len(line)} bytes, over the limit of {QUESTION_MAX}")
        waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[key] = waiter
        if question != "ping":
            self._working[key] = time.monotonic()
        try:
            if self.over:
                raise _Gone
            self._writer.write(line)
            return await waiter
        finally:
            self._waiting.pop(key, None)
            if key in self._working and not self.over:  # nobody waits any more: it need not be begun
                self._writer.write(_line(key, "forget", {}, {}))

    def suspect(self) -> None:
        """Somebody waits for long: find out whether it still lives, and end it if it does not."""
        if not self.over and self._looking is None:
            self._looking = asyncio.create_task(self._look())

    def look(self) -> None:
        """End it when a question has been worked on for too long."""
        if self._working and time.monotonic() - min(self._working.values()) > STUCK_S:
            log.error("the process that reads projects does not come to an end", pid=self.pid)
            self._process.kill()

    def end(self) -> None:
        """End it, and count that as no death."""
        self._wanted = True
        self._process.kill()

    async def ended(self) -> None:
        """Wait until it has ended."""
        if self._looking is not None:
            await call_off([self._looking])
        if self._living is not None:
            await asyncio.wait([self._living])

    async def _look(self) -> None:
        pong = asyncio.create_task(self.ask("ping", {}, {}))
        try:
            for _ in range(PONGS):
                if (await asyncio.wait([pong], timeout=PONG_S))[0]:
                    break
            else:
                log.warning("the process that reads projects does not answer", pid=self.pid)
                self._process.kill()
        finally:
            await call_off([pong])
            self._looking = None

    async def _live(self, died: Callable[[], None]) -> None:
        """Take what it says until it has ended, however it does."""
        try:
            await self._listen()
        except (OSError, TooLong) as error:
            log.warning("the process that reads projects cannot be understood", error=str(error))
        except Exception:
            log.exception("what reads projects said is no answer")
        self.over = True
        if not self._wanted:
            died()  # counted before anybody asks for another
        self._process.kill()
        self._writer.transport.abort()
        for waiter in self._waiting.values():
            if not waiter.done():
                waiter.set_exception(_Gone())
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self._process.wait, KILLED_S)
        if not self._wanted:
            log.warning("the process that reads projects has ended", pid=self.pid, status=self._process.returncode)

    async def _listen(self) -> None:
        incoming = Incoming(self._reader, MAX_LINE)
        while (line := await incoming.line()) is not None:
            told = orjson.loads(line)
            if "changed" in told:
                self._changed(told["changed"])
                continue
            key = told["id"]
            self._working.pop(key, None)
            waiter = self._waiting.get(key)
            if waiter is None or waiter.done():
                continue  # who asked has stopped waiting
            if "ok" in told:
                waiter.set_result(told["ok"])
            else:
                waiter.set_exception(error_of(told["error"]))


def _line(key: int, question: str, place: Facts, arguments: Facts) -> bytes:
    """A question as its line; half a character, of a path that is no UTF-8, passes as it is."""
    return json.dumps({"id": key, "op": question, "place": place, "args": arguments}).encode() + b"\n"


def error_of(told: Mapping[str, Any]) -> OrchestratorError:
    """An error of the process as one of ours; Environment ``internal`` for a code that is not in the table."""
    facts = {name: value for name, value in told.items() if name not in {"kind", "code", "message", "next_step"}}
    entry = CODES.get(told["code"])
    if entry is None:
        return Environment("internal", str(told["message"]))
    return entry[0](told["code"], told["message"], told["next_step"], **facts)


def _spawn(command: list[str], wire: socket.socket) -> subprocess.Popen[bytes]:
    """In a session of its own: what ends the daemon's terminal ends the daemon, and it ends this."""
    return subprocess.Popen(command, stdin=wire.fileno(), stdout=wire.fileno(), cwd="/", start_new_session=True)
