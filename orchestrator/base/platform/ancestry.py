"""Whom a process descends from, as the system shows it now: its ancestors, and the leaders of their sessions.

Standard library only: the launch stub uses it too. Run as a program it looks for who may not load psutil. Decides
nothing.

A parent may be an adopter: the kernel hands an orphan to init or to a subreaper. A session tells more: it is
inherited, nobody can join one, and its number is not given to another process while somebody is in it.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from typing import Any, Literal, NamedTuple

from orchestrator.base.platform import process_facts
from orchestrator.base.platform.process_facts import ProcessStat

INIT = 1
DEPTH = 128
"""How many processes are read at most: who nests deeper is not known."""
TRIES = 3
ASKED_S = 30.0
ASKED_EVERY_S = 5.0
OF_OURS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that say nothing of the process that is looked at."""
AGENT, MEMBER, PROJECT = (b"ORCHESTRATOR_AGENT_ID=", b"ORCHESTRATOR_MEMBER_ID=", b"ORCHESTRATOR_PROJECT=")

AgentKey = tuple[str, str]
"""An agent of this user: the root of its project (empty: not known), and its id."""


class AncestorProcess(NamedTuple):
    """One living process. ``start`` as `ProcessStat` has it; ``terminal`` is 0 without a controlling one."""

    pid: int
    parent: int
    start: int
    session: int = 0
    terminal: int = 0
    agent: AgentKey | None = None  # whose mark its environment carries
    member: bool = False  # whether its environment carries a squad member's mark


class AncestorLine(NamedTuple):
    """A process and those above it, nearest first and without init, unless it is the first.

    ``end`` is what lies above the last: ``init``; ``outside``, a parent that this pid namespace does not show; or
    ``unknown``, where a process has ended while it was read, or there were too many.
    """

    processes: tuple[AncestorProcess, ...]
    end: Literal["init", "outside", "unknown"]


def lines_of(pid: int) -> tuple[AncestorLine, ...]:
    """The line of the process, then those of the leaders of all sessions on the way, as far as they live.

    Empty when the process is gone. Raises ``OSError`` when this process cannot look: no descriptor is left.
    """
    if not process_facts.LINUX and "psutil" not in sys.modules:
        return _asked(pid)
    known: dict[int, AncestorProcess | None] = {}
    lines: list[AncestorLine] = []
    shown: set[int] = set()
    todo = [pid]
    while todo:
        line = _line(todo.pop(0), known)
        if line is None:
            continue
        lines.append(line)
        shown.update(process.pid for process in line.processes)
        leaders = dict.fromkeys(process.session for process in line.processes if process.session)
        todo += [leader for leader in leaders if leader not in shown and leader not in todo]
    return tuple(lines)


def _line(pid: int, known: dict[int, AncestorProcess | None]) -> AncestorLine | None:
    """The line of a process; None when it is gone. ``known`` are those that were read for another line."""
    line: list[AncestorProcess] = []
    at = pid
    while True:
        process = known[at] if at in known else _read(at) if len(known) < DEPTH else None
        known[at] = process
        # The pid of a parent that ended meanwhile may be another's by now: a parent is older, and still the parent.
        if process is None or (line and (process.start > line[-1].start or _parent(line[-1].pid) != at)):
            return AncestorLine(tuple(line), "unknown") if line else None
        line.append(process)
        if process.parent == 0:
            return AncestorLine(tuple(line), "outside")
        if process.parent == INIT:
            return AncestorLine(tuple(line), "init")
        at = process.parent


def _read(pid: int) -> AncestorProcess | None:
    """The process as it is now, with the marks of its environment; None when it has ended."""
    for _ in range(TRIES):
        stat = _stat(pid)
        if stat is None:
            return None
        agent, member = _marks(pid)
        again = _stat(pid)  # one that executes a program meanwhile shows the marks of neither
        if again is not None and again.start == stat.start:
            terminal = process_facts.terminal_of(pid, again)
            return AncestorProcess(pid, again.parent, again.start, again.session, terminal, agent, member)
    return None


def _stat(pid: int) -> ProcessStat | None:
    """A living process; None if it has ended, also as a zombie, or is not ours to look into."""
    try:
        stat = process_facts.read_stat(pid)
    except OSError as error:
        if error.errno in OF_OURS:
            raise
        return None
    return None if stat.ended else stat


def _parent(pid: int) -> int | None:
    stat = _stat(pid)
    return None if stat is None else stat.parent


def _marks(pid: int) -> tuple[AgentKey | None, bool]:
    try:
        variables = process_facts.environment_of(pid)
    except OSError as error:
        if error.errno in OF_OURS:
            raise
        variables = []
    marks = dict.fromkeys((AGENT, MEMBER, PROJECT), b"")
    for item in variables:
        for name in marks:
            if item.startswith(name) and not marks[name]:
                marks[name] = item[len(name) :]
    project, agent_id = os.fsdecode(marks[PROJECT]), os.fsdecode(marks[AGENT])
    return (project, agent_id) if agent_id else None, bool(marks[MEMBER])


# -- for a program of the standard library alone ------------------------------------------------------------------


class Watched:
    """One process that a small program shows: whether that very process still runs, asked often.

    In the portable form a process that has ended under a pid that still is somebody's is noticed ``ASKED_EVERY_S``
    late.
    """

    def __init__(self, pid: int, began: int) -> None:
        self._pid, self._began = pid, began
        self._asked, self._over = -ASKED_EVERY_S, False

    def alive(self) -> bool:
        """Whether it runs; a zombie does not."""
        if process_facts.LINUX:
            return process_facts.alive(self._pid, self._began)
        try:
            os.kill(self._pid, 0)
            if time.monotonic() - self._asked >= ASKED_EVERY_S:
                lines = lines_of(self._pid)
                self._asked = time.monotonic()
                self._over = self._over or not lines or lines[0].processes[0].start != self._began
        except ProcessLookupError:
            self._over = True
        except OSError:
            pass  # not known at this moment
        return not self._over


def _asked(pid: int) -> tuple[AncestorLine, ...]:
    """As `lines_of`, from this file run as a program: it loads psutil, and ends."""
    import subprocess  # noqa: PLC0415 - in the portable form only

    command = [sys.executable, "-P", "-m", "orchestrator.base.platform.ancestry", str(pid)]
    try:
        answer = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=ASKED_S, check=True)
        lines = json.loads(answer.stdout)
    except (subprocess.SubprocessError, ValueError) as error:
        raise OSError(errno.EAGAIN, "the program that looks for ancestors failed") from error
    return tuple(AncestorLine(tuple(map(_process_of, processes)), end) for processes, end in lines)


def _process_of(fields: list[Any]) -> AncestorProcess:
    process = AncestorProcess(*fields)
    return process._replace(agent=None if process.agent is None else (process.agent[0], process.agent[1]))


def main(arguments: list[str]) -> int:
    """Print the lines of the process that ``arguments`` name as JSON."""
    import psutil  # noqa: F401, PLC0415 - now `lines_of` looks by itself

    sys.stdout.write(json.dumps(lines_of(int(arguments[0]))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
