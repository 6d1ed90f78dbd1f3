"""What people's displays cost: a real daemon with 200 agents and 50 changes a second, with and without them.

Every agent has a pane in which a program prints; over its own socket it gets tasks, reports and waits. In each round
there is by turns no face, one `top`, a web server with 1 and with 10 pages open, and `status --watch`; then some of
them while nothing changes. A `tmux` that counts its starts stands before the real one in the PATH of all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks import sockets
from benchmarks import top as top_process
from benchmarks.figures import Figure
from benchmarks.project import Project, cpu_s, spread
from benchmarks.run import measured_tree, program
from benchmarks.wire import OWN, Wire

AGENTS, CHANGES_PER_S = 200, 50
SECONDS, BOUND_S = 4.0, 60.0
PANE = ["bash", "-c", 'n=0; while :; do echo "line $((n++))"; read -r -t 4; done']
LINK = re.compile(rb"http://([0-9.]+):(\d+)/#t=(\S+)")
ON_SCREEN, IN_PAGE = re.compile(rb"(\d+) \xe2\x9c\x93"), re.compile(rb"(\d+) \\u2713")
AT_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


class Lags:
    """From the answer to an agent's `result` until a display shows a count that has it; milliseconds."""

    def __init__(self) -> None:
        self.ms: list[float] = []
        self._open: deque[tuple[int, float]] = deque()

    def done(self, count: int) -> None:
        self._open.append((count, time.perf_counter()))

    def shown(self, pattern: re.Pattern[bytes], data: bytes) -> None:
        counts = [int(match[1]) for match in pattern.finditer(data)]
        while counts and self._open and self._open[0][0] <= max(counts):
            self.ms.append((time.perf_counter() - self._open.popleft()[1]) * 1000)


class Terminal:
    """A program at a terminal of its own, as a person starts it; ``read`` gets what it draws."""

    def __init__(self, command: list[str], project: Project, read: Callable[[bytes], None], **env: str) -> None:
        self.begun = asyncio.Event()
        self.fd, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", top_process.HEIGHT, top_process.WIDTH, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-IS", "-c", AT_TERMINAL, *command], stdin=slave, stdout=slave, stderr=slave,
            cwd=project.root, env={**project.env, "TERM": "xterm-256color", "LANG": "C.UTF-8", **env},
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self.read = read
        asyncio.get_running_loop().add_reader(self.fd, self._readable)

    def _readable(self) -> None:
        try:
            data = os.read(self.fd, 1 << 16)
        except OSError:
            data = b""
        if data:
            self.read(data)
        else:
            asyncio.get_running_loop().remove_reader(self.fd)

    async def end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        await asyncio.to_thread(self.process.wait)
        asyncio.get_running_loop().remove_reader(self.fd)
        os.close(self.fd)


class Team:
    """200 agents over their own sockets, and a master; `work` makes the changes."""

    def __init__(self, project: Project, master: Wire, tmux: CountedTmux) -> None:
        self.project, self.master, self.tmux, self.lags = project, master, tmux, Lags()
        self.agents: dict[str, Wire] = {}
        self.changes = self.results = 0
        self._waits: dict[str, asyncio.Task[dict[str, Any]]] = {}
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._late: set[asyncio.Task[None]] = set()
        self._steps: dict[str, int] = defaultdict(int)

    @classmethod
    async def start(cls, project: Project, count: int = AGENTS) -> Team:
        tmux = CountedTmux(project)
        # No relay here: what a program that holds a relay starts counts as that CLI, and gets no web page.
        if (started := project.command("daemon", "start")).returncode:
            raise RuntimeError(started.stdout + started.stderr)
        team = cls(project, await sockets.master(project), tmux)
        team.agents = await sockets.agents(project, team.master, [f"agent-{n:03}" for n in range(count)], PANE)
        for agent_id in team.agents:
            team._wait(agent_id)
        return team

    def _wait(self, agent_id: str) -> None:
        self._waits[agent_id] = asyncio.create_task(self._command(agent_id))

    async def _command(self, agent_id: str) -> dict[str, Any]:
        wire = self.agents[agent_id]
        while (got := await wire.call("wait_for_command", agent_id=agent_id, timeout_ms=55_000))[
            "status"
        ] != "command":
            pass
        return got

    async def work(self) -> None:
        """Each change at its time, one agent after another: a new task, `progress`, `result`."""
        begun = time.perf_counter()
        for number, agent_id in enumerate(itertools.cycle(self.agents)):
            await asyncio.sleep(begun + number / CHANGES_PER_S - time.perf_counter())
            task = asyncio.create_task(self._change(agent_id, self._steps[agent_id]))
            self._late.add(task)
            task.add_done_callback(self._ended)
            self._steps[agent_id] += 1

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._late.discard(task)
        if not task.cancelled():
            task.result()

    async def _change(self, agent_id: str, step: int) -> None:
        async with self._turns[agent_id]:
            await self._step(agent_id, step)
        self.changes += 1

    async def _step(self, agent_id: str, step: int) -> None:
        report = partial(self.agents[agent_id].call, "emit_event", agent_id=agent_id)
        if step % 3 == 0:
            task = {"task_id": f"t{step}", "payload": {"text": f"make part {step} of {agent_id}"}}
            await self.master.call("task_enqueue", agent_id=agent_id, task=task)
        elif step % 3 == 1:
            await self._waits[agent_id]
            await report(type="progress", payload={"text": f"step {step}"})
        else:
            await report(type="result", payload={"text": "done"})
            self.results += 1
            self.lags.done(self.results)
            self._wait(agent_id)

    async def close(self) -> None:
        for task in (*self._waits.values(), *self._late):
            task.cancel()
        for wire in (*self.agents.values(), self.master):
            await wire.close()


class CountedTmux:
    """A tmux before the real one that counts its starts: those that look at screens, and all others."""

    def __init__(self, project: Project) -> None:
        site, real = project.directory / "bin", shutil.which("tmux")
        site.mkdir()
        self._looks, self._others = project.directory / "tmux-looks", project.directory / "tmux-others"
        for count in (self._looks, self._others):
            count.touch()
        (site / "tmux").write_text(
            f'#!/bin/sh\ncase "$*" in *captur*) printf . >>"{self._looks}" ;; *) printf . >>"{self._others}" ;; esac\n'
            f'exec "{real}" "$@"\n'
        )
        (site / "tmux").chmod(0o755)
        project.env["PATH"] = f"{site}:{project.env['PATH']}"

    @property
    def looks(self) -> int:
        return self._looks.stat().st_size

    @property
    def others(self) -> int:
        return self._others.stat().st_size


@contextlib.asynccontextmanager
async def no_face(_team: Team) -> AsyncIterator[list[int]]:
    yield []


@contextlib.asynccontextmanager
async def top(team: Team) -> AsyncIterator[list[int]]:
    answer = team.project.directory / f"top-{time.monotonic_ns()}"

    def read(data: bytes) -> None:
        if b"agent-" in data:
            terminal.begun.set()
        team.lags.shown(ON_SCREEN, data)

    terminal = Terminal(program(measured_tree(), "top", str(answer)), team.project, read)
    async with _ended(terminal):
        yield [terminal.process.pid]
    TOPS.append(json.loads(answer.read_text()))


TOPS: list[dict[str, Any]] = []
"""What each `top` of this run says of its frames."""


def web(pages: int) -> Callable[[Team], Any]:
    @contextlib.asynccontextmanager
    async def opened(team: Team) -> AsyncIterator[list[int]]:
        seen = bytearray()

        def read(data: bytes) -> None:
            seen.extend(data)
            if b"Ctrl-C ends" in seen:
                terminal.begun.set()

        terminal = Terminal([*OWN, "web", "--port", "0"], team.project, read)
        async with _ended(terminal):
            match = LINK.search(seen)
            assert match is not None, seen
            streams = [asyncio.create_task(_page(team, *match.groups())) for _ in range(pages)]
            try:
                yield [terminal.process.pid]
            finally:
                for stream in streams:
                    stream.cancel()
                await asyncio.gather(*streams, return_exceptions=True)

    return opened


async def _page(team: Team, host: bytes, port: bytes, token: bytes) -> None:
    reader, writer = await asyncio.open_connection(host.decode(), int(port), limit=1 << 24)
    try:
        asked = (b"GET /events?view=team HTTP/1.1", b"Host: " + host + b":" + port, b"Authorization: Bearer " + token)
        writer.write(b"\r\n".join((*asked, b"", b"")))
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head:
            raise RuntimeError(head)
        while data := await reader.read(1 << 16):
            team.lags.shown(IN_PAGE, data)
    finally:
        writer.close()


@contextlib.asynccontextmanager
async def watch(team: Team) -> AsyncIterator[list[int]]:
    terminal = Terminal([*OWN, "status", "--watch"], team.project, lambda _data: terminal.begun.set())
    async with _ended(terminal):
        yield [terminal.process.pid]


@contextlib.asynccontextmanager
async def _ended(terminal: Terminal) -> AsyncIterator[None]:
    """Once it has begun, until the block ends."""
    try:
        async with asyncio.timeout(BOUND_S):
            await terminal.begun.wait()
        yield
    finally:
        await terminal.end()


NAMES = {"top": "top", "web_1": "web with 1 page", "web_10": "web with 10 pages", "watch": "status --watch"}
FACES: dict[str, Callable[[Team], Any]] = {
    "none": no_face, "top": top, "web_1": web(1), "web_10": web(10), "watch": watch,
}  # fmt: skip


IDLE = ("none", "top", "web_10")


def of_face(name: str, words: str) -> tuple[Figure, ...]:
    top = name == "top"
    return (
        Figure(f"{name}_more", f"daemon: CPU more with {words}", "% of a core", at_most=3),
        Figure(f"{name}_face", f"  CPU of {words}", "% of a core", at_most=15 if top else None),
        Figure(f"{name}_looks_s", "  more looks at screens by tmux", "/s"),
        Figure(f"{name}_others_s", "  more calls of tmux for other ends", "/s"),
        Figure(f"{name}_lag_p50", "  an agent's result -> shown, p50", "ms"),
        Figure(f"{name}_lag_p95", "  p95", "ms"),
    )[: 4 if name == "watch" else None]


FIGURES = (
    Figure("start_p50", "top: start to its first screen", "ms", at_most=500),
    Figure("start_cpu", "  its CPU until then", "ms"),
    Figure("frame_p50", f"top: frame, {AGENTS} agents, {CHANGES_PER_S} changes a second, p50", "ms"),
    Figure("frame_p95", "  p95", "ms", at_most=50),
    Figure("frame_max", "  max", "ms"),
    Figure("started", "  processes that it started", at_most=0),
    Figure("none_changes_s", "changes with no face", "/s"),
    Figure("none_daemon", "daemon: CPU with no face", "% of a core"),
    *(figure for name, words in NAMES.items() for figure in of_face(name, words)),
    Figure("idle_none_daemon", "daemon: CPU while only screens change", "% of a core"),
    Figure("idle_top_more", "  more with top", "% of a core", at_most=1),
    Figure("idle_top_face", "  CPU of top", "% of a core"),
    Figure("idle_web_10_more", "  more with web and 10 pages", "% of a core", at_most=1),
    Figure("idle_web_10_face", "  CPU of web", "% of a core"),
)


@dataclass
class Turn:
    """What one face cost for some seconds; percent of a core, and a second."""

    daemon: float
    face: float
    changes_s: float
    looks_s: float
    others_s: float
    lags: list[float]


async def turn(team: Team, face: Callable[[Team], Any], daemon: int, seconds: float) -> Turn:
    async with face(team) as pids:
        await asyncio.sleep(1.0)
        team.lags = Lags()
        begun, tmux = time.perf_counter(), team.tmux
        before = cpu_s(daemon), cpu_s(*pids), team.changes, tmux.looks, tmux.others
        await asyncio.sleep(seconds)
        after = cpu_s(daemon), cpu_s(*pids), team.changes, tmux.looks, tmux.others
        took = time.perf_counter() - begun
        own, faces, *others = ((end - begin) / took for begin, end in zip(before, after, strict=True))
        return Turn(own * 100, faces * 100, *others, team.lags.ms)


async def rounds() -> AsyncIterator[dict[str, float]]:
    """The figures of each face while the team works, and with ``idle_`` before its name while nothing changes."""
    async with Project(overflow='"window"', ready_timeout_s=3600.0) as project:
        team = await Team.start(project)
        daemon = project.daemon_pid()
        while True:
            working = asyncio.create_task(team.work())
            await asyncio.sleep(2.0)
            busy = {name: await turn(team, face, daemon, SECONDS) for name, face in FACES.items()}
            if working.done():
                working.result()
            working.cancel()
            await asyncio.sleep(2.0)
            idle = {name: await turn(team, FACES[name], daemon, SECONDS) for name in IDLE}
            out = {**figures(busy), **{f"idle_{key}": value for key, value in figures(idle).items()}}
            yield {**out, **top_process.frames_of(TOPS), **await asyncio.to_thread(top_process.starts, 3)}
            TOPS.clear()


def figures(turns: dict[str, Turn]) -> dict[str, float]:
    """``<face>_more``: percent of a core that the daemon takes more than with no face."""
    none, out = turns["none"], {}
    for name, mine in turns.items():
        out |= {
            f"{name}_daemon": mine.daemon, f"{name}_more": mine.daemon - none.daemon, f"{name}_face": mine.face,
            f"{name}_changes_s": mine.changes_s, f"{name}_looks_s": mine.looks_s - none.looks_s,
            f"{name}_others_s": mine.others_s - none.others_s,
        }  # fmt: skip
        if mine.lags:
            out |= spread(f"{name}_lag", mine.lags)
    return out
