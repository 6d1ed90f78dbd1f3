"""Run one command of a squad member in its own process group, with its outputs in files, and end all its processes.

The outputs go directly to the files: a member's output does not use the daemon's memory, and a member does not notice
when the daemon dies. Ends only processes proven to be the member's: the session it leads, processes with its id in
their environment (children inherit it), and their descendants.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.base import failpoints
from orchestrator.base.clock import Clock, SystemClock
from orchestrator.base.platform import process_facts, processes
from orchestrator.base.waiting import Signal, elapse, wait_until
from orchestrator.edge.project_location import MEMBER_ENV
from orchestrator.squad import squad_files

LOOK_S = 1.0
"""How often a running command's outputs are measured."""
ROUNDS = 20
"""How often a search lists processes, and what is left is killed: who forks faster than this is beyond our means."""
EXEC_LOOKS, EXEC_S = 5, 0.002
"""How often, and after how long, a process is looked at again that is just about to execute its program: it has no
environment for a moment. Some never have one."""
_KERNEL = SystemClock()  # of the kernel's own moments, which no test's clock moves


@dataclass(frozen=True)
class CommandToRun:
    """What is run. ``limit_bytes`` limits both outputs together, ``timeout_s`` the whole run."""

    member_id: str
    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    stdin: Path | None
    stdout: Path
    stderr: Path
    timeout_s: float
    limit_bytes: int
    grace_s: float


@dataclass
class StopRequest:
    """Asks all registered members to end; ``why`` is the reason for those that had not ended by themselves."""

    why: str = ""
    changed: Signal = field(default_factory=Signal)

    def ask(self, why: str) -> None:
        """Request the end; the first reason counts."""
        self.why = self.why or why
        self.changed.notify()


@dataclass(frozen=True)
class CommandOutcome:
    """How a command ended. ``reason`` says what ended it, or kept it from starting; empty: it ended by itself."""

    exit_code: int | None = None
    signal: str | None = None
    timed_out: bool = False
    started: bool = True
    reason: str = ""

    @property
    def status(self) -> str:
        """``completed``, ``error`` or ``timeout`` (B2.25)."""
        if self.timed_out:
            return "timeout"
        return "completed" if self.exit_code == 0 and not self.reason else "error"


Started = Callable[[int, int | None], None]


async def run(command: CommandToRun, clock: Clock, stop: StopRequest, started: Started) -> CommandOutcome:
    """Run the command to its end; ``started`` is called with its pid and start time. Its failures do not raise."""
    if stop.why:
        return CommandOutcome(started=False, reason=stop.why)
    deadline = clock.monotonic() + command.timeout_s
    try:
        popen = await asyncio.to_thread(_spawn, command)
    except (OSError, ValueError) as error:
        return CommandOutcome(
            started=False, reason=f"{command.argv[0]} could not be started: {_start_failure(error, command)}"
        )
    failpoints.passed("squad:spawned")
    started(popen.pid, process_facts.start_time(popen.pid))
    reason, timed_out = await _watch(popen, command, clock, stop, deadline)
    # Before its own end is taken note of: as long as it is a zombie, no other session can have its number.
    await end(command.member_id, popen.pid, command.grace_s, clock, leader=popen.pid if reason else None)
    code = await asyncio.to_thread(popen.wait)
    name = processes.signal_name(-code) if code < 0 else None
    return CommandOutcome(None if code < 0 else code, name, timed_out, reason=reason)


def _start_failure(error: Exception, command: CommandToRun) -> str:
    if not isinstance(error, OSError):
        return str(error)
    # What is missing may be its directory, or that of its outputs, and not the program.
    where = "" if error.filename in (None, command.argv[0]) else f": {error.filename}"
    return f"{error.strerror or error}{where}"


def _spawn(command: CommandToRun) -> subprocess.Popen[bytes]:
    if command.cwd.resolve() != command.cwd:  # it may have become a link since it was looked at
        raise OSError(errno.ELOOP, "it leads elsewhere by now", str(command.cwd))
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.ExitStack() as opened:
        # An empty file in the place of /dev/null would do, but some programs ask what their input is.
        source = os.open(command.stdin or os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        opened.callback(os.close, source)
        sinks = []
        for path in (command.stdout, command.stderr):
            sinks.append(os.open(path, flags, 0o600))
            opened.callback(os.close, sinks[-1])
        return subprocess.Popen(
            list(command.argv),
            stdin=source,
            stdout=sinks[0],
            stderr=sinks[1],
            cwd=command.cwd,
            env={**command.env, MEMBER_ENV: command.member_id},
            start_new_session=True,
        )


async def _watch(
    popen: subprocess.Popen[bytes], command: CommandToRun, clock: Clock, stop: StopRequest, deadline: float
) -> tuple[str, bool]:
    """Wait until it has ended or must be ended; returns why, and whether it exceeded its time limit."""
    ended = asyncio.get_running_loop().create_task(processes.child_ended(popen.pid, clock))
    ended.add_done_callback(lambda _: stop.changed.notify())
    try:
        while True:
            until = min(deadline, clock.monotonic() + LOOK_S)
            what = await wait_until(
                lambda: "ended" if ended.done() else "stop" if stop.why else None, stop.changed, until, clock
            )
            if what == "ended":
                return "", False
            if what == "stop":
                return stop.why, False
            if clock.monotonic() >= deadline:
                return f"it had {command.timeout_s:g} s", True
            size = sum(squad_files.size(path) for path in (command.stdout, command.stderr))
            if size > command.limit_bytes:
                return f"it wrote more than {command.limit_bytes} bytes", False
    finally:
        ended.cancel()


async def end(member_id: str, session: int | None, grace_s: float, clock: Clock, *, leader: int | None = None) -> int:
    """End all remaining processes of a member: SIGTERM, after ``grace_s`` SIGKILL; returns how many there were.

    ``session`` is the session that its command leads, if that is certain. ``leader`` is the command itself if it must
    be ended too.
    """
    for _ in range(EXEC_LOOKS):
        targets, unsure = await asyncio.to_thread(search, {member_id}, session)
        if not unsure:
            break
        await elapse(EXEC_S, _KERNEL)
    count = len(targets)
    if leader is not None:
        began = process_facts.start_time(leader)
        targets = [*([(leader, began)] if began is not None else []), *targets]
    if not targets:
        return 0
    processes.send(targets, signal.SIGTERM)
    until = clock.monotonic() + grace_s
    while clock.monotonic() < until and any(process_facts.alive(pid, began) for pid, began in targets):
        await elapse(0.02, clock)
    for _ in range(ROUNDS):
        # Those found before stay the member's, also when nothing proves it any more: their parents have ended.
        targets = list(dict.fromkeys([*targets, *await asyncio.to_thread(left_of, {member_id}, session)]))
        targets = [process for process in targets if process_facts.alive(*process)]
        if not targets:
            break
        processes.send(targets, signal.SIGKILL)
        await elapse(0.02, clock)
    return count


def left_of(member_ids: Collection[str], session: int | None = None) -> list[tuple[int, int]]:
    """The living processes (pid, start time) of these members, the leader of ``session`` left out.

    A process is theirs when it is of that session, carries the id of one of them, or descends from such a one; tmux
    servers and what runs in them are spared. One that is started by one of theirs during the search is found too.
    """
    return search(member_ids, session)[0]


def search(member_ids: Collection[str], session: int | None = None) -> tuple[list[tuple[int, int]], bool]:
    """As `left_of`, and whether there is one that had no environment to look into: then look again."""
    began: dict[int, int] = {}
    theirs: set[int] = set() if session is None else {session}
    parents: dict[int, int] = {}
    spared: set[int] = set()
    marks = {os.fsencode(f"{MEMBER_ENV}={member_id}") for member_id in member_ids}
    leader = process_facts.stat_of(session) if session is not None else None
    since = leader.start if leader is not None else 0  # none of them is older than what started them
    known: set[int] = set()
    unsure = False
    for _ in range(ROUNDS):
        # Whoever forks and ends between the listing and the look leaves a child that the listing has not: only a
        # listing in which nobody is new has them all.
        fresh = set(process_facts.pids()) - known
        if not fresh:
            break
        known |= fresh
        for pid in fresh:
            stat = process_facts.stat_of(pid)
            if stat is None:
                continue
            parents[pid] = stat.parent
            if stat.name.startswith(processes.SPARED):
                spared.add(pid)
            if stat.start < since or stat.ended or pid in (session, os.getpid()):
                continue
            began[pid] = stat.start
            carries = _carries(pid, marks)
            if carries or (session is not None and stat.session == session):
                theirs.add(pid)
            elif carries is None and not stat.bare:
                unsure = True
    pids = [pid for pid in began if _below(pid, parents, theirs) and not _below(pid, parents, spared)]
    return [(pid, began[pid]) for pid in pids], unsure


def _carries(pid: int, marks: set[bytes]) -> bool | None:
    """Whether it is ours and has one of the marks; None while it is ours and has no environment to look into."""
    try:
        variables = process_facts.environment_of(pid)
    except OSError:
        return False
    if variables and marks.isdisjoint(variables):
        return False
    return (True if variables else None) if process_facts.is_own(pid) else False


def _below(pid: int, parents: Mapping[int, int], those: Collection[int]) -> bool:
    """Whether the process is one of ``those`` or descends from one."""
    seen = set()
    while pid not in seen and pid in parents:
        if pid in those:
            return True
        seen.add(pid)
        pid = parents[pid]
    return False
