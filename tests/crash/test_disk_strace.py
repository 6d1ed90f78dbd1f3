"""Faults of the disk in a live daemon: strace makes its system calls fail while a master works through a real relay.

Skipped where strace is missing or may not attach. The in-process test reaches each call for certain; this one shows
that nothing lies between the store and the kernel: a call that fails here fails the product as it runs.
"""

import contextlib
import functools
import shutil
import subprocess
import tempfile
from itertools import count
from pathlib import Path

import pytest

from tests.crash.conftest import over
from tests.crash.moves import AGENT
from tests.fakes.relays import until

FAILED_SYNC = 74
LETS_GO_S = 10.0
FILES = ("inbox.jsonl", "outbox.jsonl", "meta.json", "artifacts", "engine", "engine/launch.json", "engine/go")


class Tracer:
    """An strace on a process and its threads, which makes calls fail that touch one of the paths.

    Not on its children (``-f``): every call of every tmux it runs would stop twice. A daemon starts all its threads
    before it serves anybody.
    """

    def __init__(self, trace, pid, faults, paths=()):
        self.trace, self.pid = trace, pid
        self.threads = {task.name for task in Path(f"/proc/{pid}/task").iterdir()}
        words = ["strace", "-q", "-o", str(trace), *(word for one in self.threads for word in ("-p", one))]
        words += ["-e", "trace=" + ",".join(call for call, _ in faults)]
        words += [word for call, what in faults for word in ("-e", f"inject={call}:{what}")]
        words += [word for path in paths for word in ("-P", str(path))]
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        until(lambda: self.attached() or self.process.poll() is not None)

    def attached(self):
        """Whether every thread of the process is traced by now."""
        with contextlib.suppress(OSError):
            places = [Path(f"/proc/{self.pid}/task") / one / "status" for one in self.threads]
            return all(f"TracerPid:\t{self.process.pid}\n" in place.read_text() for place in places)
        return False

    def stop(self):
        """Let go of the process; what strace said itself."""
        self.process.terminate()
        try:
            return self.process.communicate(timeout=LETS_GO_S)[1]
        except subprocess.TimeoutExpired:  # it hangs now and then when its process dies; the kernel lets go for it
            self.process.kill()
            return self.process.communicate()[1]

    def hits(self):
        """How many calls have failed so far."""
        return self.trace.read_text().count("(INJECTED)") if self.trace.exists() else 0

    def status(self):
        """The exit status of the process, as any of its threads has had it, when it has ended under our eyes."""
        for line in self.trace.read_text().splitlines():
            if "+++ exited with " in line and (status := int(line.split("+++ exited with ")[1].split()[0])):
                return status  # without one it was a thread
        return None


@functools.cache
def why_not():
    """Why no system call can be made to fail here; empty when it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    with tempfile.TemporaryDirectory() as place, subprocess.Popen(["cat"], stdin=subprocess.PIPE) as one:
        tracer = Tracer(Path(place) / "trace", one.pid, [("fsync", "error=EIO:when=1")])
        attached = tracer.attached()
        said = tracer.stop()
        one.stdin.close()
    return "" if attached else f"strace may not attach: {said.strip()[:200]}"


pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "it can")


class Team:
    """A master and one agent on a stage; every call is repeated until it is answered, as a caller does."""

    def __init__(self, stage):
        self.stage = stage
        self.master = stage.master()
        self.worker = self.master.do("agent_create", name="w", **AGENT)["agent_id"]
        self.refused = []
        self.numbers = count(1)

    def ask(self, tool, **arguments):
        for _ in range(30):
            told, error = self.master.told(self.master.ask(tool, **arguments))
            if not error:
                return told
            assert told["error"]["code"] in ("disk_full", "io_failed", "not_ready", "launch_failed"), told
            self.refused.append(told["error"]["code"])
        raise AssertionError(f"{tool} {arguments} is refused for ever: {told}")

    def paths(self, agents, places):
        """Where a call shall fail; ``agent`` are those agents, ``run`` the team's run."""
        home = self.stage.root / ".agents"
        tops = {"agents": [home / "agents"], "agent": [home / "agents" / name for name in agents]}
        tops["run"] = list((home / "run").iterdir())
        for place in places:
            top, _, rest = place.partition("/")
            yield from (directory / rest for directory in tops[top])

    def work(self, _name):
        """Two tasks, and one that is canceled before it is delivered or while it runs."""
        tasks = []
        for number in range(3):
            task = self.stage.new("t")
            payload = self.stage.payload()
            told = self.ask("task_enqueue", agent_id=self.worker, task={"task_id": task, "payload": payload})
            assert told["task_id"] == task
            tasks.append(task)
            if number == 2:
                told, error = self.master.told(self.master.ask("task_cancel", agent_id=self.worker, task_id=task))
                assert not error or told["error"]["code"] in ("disk_full", "io_failed", "task_finished"), told
        for task in tasks:
            assert self.stage.ended(task)["type"] in ("result", "canceled")

    def grow(self, name):
        """An agent comes and goes."""
        told = self.ask("agent_create", name=name, **AGENT)
        agent = told["agent_id"]
        self.ask("agent_delete", agent_id=agent, force=True, confirm=agent)

    def suffer(self, faults, move, places, ends):
        """Attach, work until the fault has struck, let go; how often it struck. ``ends``: whether the daemon must end."""
        name, trace = self.stage.new("x"), self.stage.base / f"trace{next(self.numbers)}"
        daemon = self.stage.daemon()
        paths = self.paths([self.worker], PLACES) if places is None else self.paths([name], places)
        tracer = Tracer(trace, daemon.pid, faults, paths)
        try:
            assert tracer.attached(), tracer.stop()
            for _ in range(100 if places is None else 1):
                move(name)
                if tracer.hits() or over(daemon):
                    break
            if ends and tracer.hits():
                until(lambda: tracer.status() is not None)
        finally:
            tracer.stop()
        status = tracer.status()
        assert status in (None, FAILED_SYNC), trace.read_text()[-2000:]
        assert ends is None or over(daemon) == ends
        self.exits += bool(ends)
        return tracer.hits()

    def finish(self):
        # Where the clean-up of a refused agent failed too, its empty directory is left to the next daemon's start.
        self.stage.daemon().kill()
        self.work("")
        self.grow(self.stage.new("x"))
        self.stage.told()
        self.stage.check()
        assert self.stage.log().count("a sync failed; the daemon exits") >= self.exits
        self.master.close()
        self.stage.finish()

    exits = 0


def play(stage, rows, faults, *, must_strike=True):
    """Every row: its faults, what makes the daemon meet them and where, whether it must end of them (None: may)."""
    team = Team(stage)
    for fault, move, places, ends in rows:
        try:
            hits = team.suffer(fault, getattr(team, move), places, ends)
            assert hits or not must_strike, "it struck nothing"
        except BaseException as error:
            error.add_note(f"{fault} at {places} in {move}")
            raise
        faults("disk, strace on the daemon", min(hits, 1))
    team.finish()


def row(call, what, when, ends=False):
    """A call that fails while the agent works; the event loop makes most of them, so that they can be counted."""
    return [(call, f"{what}:when={when}")], "work", None, ends


def new(call, what, *places, ends=False):
    """A call on a file of a new agent or of the run, or on any; threads make them, and strace counts in each from 1."""
    return [(call, f"{what}:when=1")], "grow", places, ends


WORK = [
    *[row("pwrite64", "error=ENOSPC", when) for when in (1, 4, "2..9")],
    *[row("pwrite64", "error=EIO", when) for when in (2, "3..6")],
    row("pwrite64", "error=EDQUOT", 3),
    *[row("pwrite64", "retval=7", when) for when in (1, 5)],
    ([("pwrite64", "retval=7:when=2"), ("ftruncate", "error=EIO:when=1..2")], "work", None, False),
    *[row("fdatasync", "error=EIO", when, ends=True) for when in (1, 2)],
]
GROW = [
    *[new("mkdir", "error=ENOSPC", place) for place in ("agent", "agent/engine")],
    *[new("openat", "error=EMFILE", place) for place in ("agent/inbox.jsonl", "agent/outbox.jsonl")],
    new("rename", "error=ENOSPC"),  # strace looks at the old name only, and that is never the same
    new("rename", "error=EIO"),
    new("fsync", "error=EIO", "agents"),
    new("fsync", "error=EIO", "agent", ends=True),
    new("pwrite64", "error=ENOSPC", "agent/outbox.jsonl", "run/broadcast.jsonl"),
    new("fdatasync", "error=ENOSPC", "agent/outbox.jsonl", ends=True),
]


def test_a_daemon_whose_writes_and_syncs_fail_loses_nothing(stage, faults):
    play(stage, WORK, faults)


def test_a_daemon_that_cannot_make_files_makes_each_agent_once(stage, faults):
    play(stage, GROW, faults)


ERRORS = ("ENOSPC", "EIO", "EDQUOT", "EROFS", "EMFILE")
PLACES = ("agents", "agent", *(f"agent/{name}" for name in FILES), "run", "run/run.json", "run/broadcast.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize("what", ["error=ENOSPC", "error=EIO", "error=EDQUOT", "retval=0", "retval=7"])
def test_a_daemon_whose_writes_fail_one_after_the_other(stage, faults, what):
    play(stage, [row("pwrite64", what, when) for when in range(1, 51)], faults)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["error=ENOSPC", "error=EIO", "error=EDQUOT"])
def test_a_daemon_whose_syncs_fail_one_after_the_other(stage, faults, what):
    play(stage, [row("fdatasync", what, when, ends=True) for when in range(1, 11)], faults)


@pytest.mark.slow
@pytest.mark.parametrize("call", ["mkdir", "openat", "rename", "fsync", "pwrite64"])
def test_a_daemon_whose_files_fail_one_after_the_other(stage, faults, call):
    places = [(place,) for place in PLACES] if call != "rename" else [()]
    rows = [new(call, f"error={error}", *place, ends=None) for error in ERRORS for place in places]
    play(stage, rows, faults, must_strike=False)
