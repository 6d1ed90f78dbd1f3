"""What people's displays cost: a real daemon with 200 agents and 50 changes a second, with and without them.

Every agent has a pane in which a program prints; over its own socket it gets tasks, reports and waits. In one run
there is by turns no face, one `top`, a web server with 1 and with 10 pages open, and `status --watch`; then the same
while nothing changes. A `tmux` that counts its starts stands before the real one in the PATH of all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import json
import os
import re
import secrets
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import termios
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import top as top_process
from benchmarks.relays import Project, percentile, rss, ticks
from benchmarks.wire import OWN, Wire
from orchestrator.edge.project_location import INSTALL, PROTO, SOCKET, VERSION, agent_socket

AGENTS, CHANGES_PER_S, AT_ONCE = 200, 50, 50
SECONDS, ROUNDS, BOUND_S = 5.0, 3, 60.0
CLOCK = os.sysconf("SC_CLK_TCK")
PANE = ["bash", "-c", 'n=0; while :; do echo "line $((n++))"; read -r -t 4; done']
LINK = re.compile(rb"http://([0-9.]+):(\d+)/#t=(\S+)")
ON_SCREEN, IN_PAGE = re.compile(rb"(\d+) \xe2\x9c\x93"), re.compile(rb"(\d+) \\u2713")
AT_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
HERE = str(Path(__file__).resolve().parents[1])


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

    @classmethod
    async def start(cls, project: Project, count: int = AGENTS) -> Team:
        tmux = CountedTmux(project)
        # No relay here: what a program that holds a relay starts counts as that CLI, and gets no web page.
        subprocess.run([*OWN, "daemon", "start"], cwd=project.root, env=project.env, capture_output=True, check=True)
        team = cls(project, await _wire(project, SOCKET, kind="cli"), tmux)
        names = [f"agent-{n:03}" for n in range(count)]
        for first in range(0, count, AT_ONCE):
            made = await team.master.call(
                "agents_create",
                agents=[
                    {"name": name, "role": "bench", "engine": "command", "command": PANE}
                    for name in names[first : first + AT_ONCE]
                ],
                ready_wait_ms=0,
            )
            for row in made["agents"]:
                await team._begin(row["agent_id"])
        return team

    async def _begin(self, agent_id: str) -> None:
        engine = self.project.root / ".agents/agents" / agent_id / "engine/launch.json"
        launch = json.loads(engine.read_text())
        claim = {"id": agent_id, "epoch": launch["epoch"], "secret": launch["secret"]}
        wire = await _wire(self.project, agent_socket(agent_id), kind="relay", agent=claim)
        self.agents[agent_id] = wire
        await wire.call("wait_for_command", agent_id=agent_id, timeout_ms=0)
        self._wait(agent_id)

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
        steps, begun = dict.fromkeys(self.agents, 0), time.perf_counter()
        for number, agent_id in enumerate(itertools.cycle(self.agents)):
            await asyncio.sleep(begun + number / CHANGES_PER_S - time.perf_counter())
            task = asyncio.create_task(self._change(agent_id, steps[agent_id]))
            self._late.add(task)
            task.add_done_callback(self._ended)
            steps[agent_id] += 1

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


async def _wire(project: Project, name: str, **facts: Any) -> Wire:
    hello = {"proto": PROTO, "version": VERSION, "install": INSTALL, "project": str(project.root)}
    hello |= {"conn": secrets.token_hex(8), "toolsets": ["team"], **facts}
    wire = await Wire.to_daemon(project.run_directory() / name, hello)
    await wire.greet()
    return wire


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

    terminal = Terminal([sys.executable, "-m", "benchmarks.top", str(answer)], team.project, read, PYTHONPATH=HERE)
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


FACES: dict[str, Callable[[Team], Any]] = {
    "none": no_face, "top": top, "web_1": web(1), "web_10": web(10), "watch": watch,
}  # fmt: skip


IDLE = ("none", "top", "web_10")
IDLE_S = 10.0


@dataclass
class Sums:
    """What one face cost, summed over its turns. ``daemon``: each turn in percent of a core."""

    seconds: float = 0.0
    daemon: list[float] = field(default_factory=list)
    face: float = 0.0
    changes: int = 0
    looks: int = 0
    others: int = 0
    lags: list[float] = field(default_factory=list)
    rss_mb: float = 0.0

    def figures(self, none: Sums) -> dict[str, float]:
        """``more``: percent of a core that the daemon takes more than with no face, each turn beside its neighbour."""
        more = [mine - without for mine, without in zip(self.daemon, none.daemon, strict=True)]
        out = {
            "daemon": statistics.mean(self.daemon), "more": statistics.median(more), "more_min": min(more),
            "more_max": max(more), "face": self.face / self.seconds, "changes_s": self.changes / self.seconds,
            "looks_s": self.looks / self.seconds, "others_s": self.others / self.seconds, "rss_mb": self.rss_mb,
        }  # fmt: skip
        if self.lags:
            out |= {
                "lag_p50": statistics.median(self.lags), "lag_p95": percentile(self.lags, 0.95),
                "lag_max": max(self.lags),
            }  # fmt: skip
        return out


async def _turn(team: Team, face: Callable[[Team], Any], sums: Sums, daemon: int, seconds: float) -> None:
    async with face(team) as pids:
        await asyncio.sleep(2.0)
        team.lags = Lags()
        begun, tmux = time.perf_counter(), team.tmux
        before = ticks([daemon]), ticks(pids), team.changes, tmux.looks, tmux.others
        await asyncio.sleep(seconds)
        after = ticks([daemon]), ticks(pids), team.changes, tmux.looks, tmux.others
        took = time.perf_counter() - begun
        own, faces, changes, looks, others = (end - begin for begin, end in zip(before, after, strict=True))
        sums.seconds += took
        sums.daemon.append(own / CLOCK / took * 100)
        sums.face += faces / CLOCK * 100
        sums.changes += changes
        sums.looks += looks
        sums.others += others
        sums.lags += team.lags.ms
        sums.rss_mb = sum(rss(pid) for pid in pids) / 1024


async def measure(seconds: float = SECONDS, rounds: int = ROUNDS) -> dict[str, dict[str, float]]:
    """The figures of each face (`Sums.figures`), ``idle_`` before its name while nothing changes, and of top's frames."""
    project = Project(overflow='"window"', ready_timeout_s=3600.0)
    busy, idle = {name: Sums() for name in FACES}, {name: Sums() for name in IDLE}
    try:
        team = await Team.start(project)
        daemon, working = project.daemon_pid(), asyncio.create_task(team.work())
        await asyncio.sleep(3.0)
        for _ in range(rounds):
            for name, face in FACES.items():
                await _turn(team, face, busy[name], daemon, seconds)
                if working.done():
                    working.result()
        tops = list(TOPS)
        working.cancel()
        await asyncio.sleep(5.0)
        for name in IDLE:
            await _turn(team, FACES[name], idle[name], daemon, IDLE_S)
        await team.close()
    finally:
        project.close()
    return {
        **{name: sums.figures(busy["none"]) for name, sums in busy.items()},
        **{f"idle_{name}": sums.figures(idle["none"]) for name, sums in idle.items()},
        "frames": top_process.frames_of(tops),
    }
