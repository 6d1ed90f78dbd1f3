"""The portable form tells the same of a process as that of Linux, though psutil has to ask."""

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.base.platform import ancestry, basic_facts, linux_processes, portable_processes, process_facts
from tests.support.portable import sitecustomize
from tests.support.tmux_server import until

GONE = 1 << 30
PORTABLE = {
    **os.environ, basic_facts.VARIABLE: basic_facts.PORTABLE, "PYTHONPATH": str(Path(sitecustomize.__file__).parent),
}  # fmt: skip
pytestmark = pytest.mark.skipif(not basic_facts.LINUX, reason="compares with the form of Linux")


@pytest.fixture
def child():
    """Starts a program; returns its pid once it runs."""
    children = []

    def start(*words, **options):
        children.append(subprocess.Popen(words, **options))
        until(lambda: linux_processes.words_of(children[-1].pid)[:-1] == [os.fsencode(word) for word in words])
        return children[-1].pid

    start.also = children.append
    yield start
    for process in children:
        process.kill()
        process.wait()


def both(call, *arguments):
    return getattr(linux_processes, call)(*arguments), getattr(portable_processes, call)(*arguments)


def asleep(stats):
    """The two readings of a program, if it slept at both: one that begins to sleep changes its state in between."""
    return stats if {stat.state for stat in stats} == {b"S"} else None


def test_both_forms_tell_the_same_of_a_process(child, tmp_path):
    pid = child("sleep", "1000", cwd=tmp_path, env={"A": "1", "B": "two words=x"}, start_new_session=True)
    linux, portable = until(lambda: asleep(both("read_stat", pid)))
    assert portable == linux._replace(terminal=0), "the start above all: stub, daemon and journal compare it"
    for call in ("environment_of", "words_of", "directory_of", "is_own"):
        linux, portable = both(call, pid)
        assert linux == portable, call
    assert set(both("pids")[0]) >= {pid, os.getpid()} <= set(both("pids")[1])
    assert abs(both("now")[0] - both("now")[1]) < 100


def test_a_zombie_is_listed_as_ended_and_one_that_is_gone_is_not():
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    stat = portable_processes.read_stat(process.pid)
    assert (stat.ended, stat.parent, stat.start) == (True, os.getpid(), linux_processes.read_stat(process.pid).start)
    process.wait()
    for call in (portable_processes.read_stat, portable_processes.environment_of, portable_processes.directory_of):
        with pytest.raises(ProcessLookupError):
            call(GONE)
    assert portable_processes.words_of(GONE) == []
    assert not portable_processes.is_own(GONE)


def test_a_terminal_is_seen_that_is_younger_than_the_first_look(child):
    without = child("sleep", "1000", start_new_session=True)
    assert portable_processes.terminal_of(without, portable_processes.read_stat(without)) == 0
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp("sleep", ["sleep", "1000"])
    try:
        until(lambda: linux_processes.words_of(pid)[:1] == [b"sleep"])
        shown = portable_processes.terminal_of(pid, portable_processes.read_stat(pid))
        assert shown == os.fstat(fd).st_rdev or shown == linux_processes.read_stat(pid).terminal != 0
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(fd)


def test_a_program_without_psutil_has_the_same_line_from_another_one(child):
    """The launch stub records what the daemon will compare."""
    pid = child("sleep", "1000", env={"ORCHESTRATOR_AGENT_ID": "a", "ORCHESTRATOR_PROJECT": "/p"})
    code = (
        "import sys\nfrom orchestrator.base.platform import ancestry\n"
        "print(repr(ancestry.lines_of(int(sys.argv[1])))); assert 'psutil' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(pid)], env=PORTABLE, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == repr(ancestry.lines_of(pid))
    assert ancestry.lines_of(pid)[0].processes[0].agent == ("/p", "a")
    gone = subprocess.run([*done.args[:-1], str(GONE)], env=PORTABLE, capture_output=True, text=True, check=True)
    assert gone.stdout.strip() == "()"


def test_a_boot_has_one_name_in_both_forms(monkeypatch):
    monkeypatch.setattr(basic_facts, "_boot", [])
    assert basic_facts._asked_boot() == process_facts.boot_id() != ""
    monkeypatch.setattr(basic_facts, "_boot", [])
    monkeypatch.setattr(basic_facts, "SYSCTL", ("/nowhere",))
    assert basic_facts._asked_boot() == "", "not known, as in a container without /proc"


def test_a_process_that_is_only_shown_is_taken_for_ended_as_soon_as_its_pid_is_free(child, monkeypatch):
    monkeypatch.setattr(process_facts, "LINUX", False)
    pid = child("sleep", "1000")
    assert ancestry.Watched(pid, process_facts.start_time(pid)).alive()
    other = ancestry.Watched(pid, process_facts.start_time(pid) + 1)
    assert [other.alive(), other.alive()] == [False, False], "another process of that pid"
    gone = ancestry.Watched(GONE, 1)
    assert not gone.alive()


class Kqueue:
    """What of a kqueue `ProcessEnd` uses, over a pidfd. The kernel of macOS refuses a process that has ended."""

    def __init__(self):
        self._fd = -1

    def fileno(self):
        return self._fd

    def control(self, events, most):
        ((pid, *what),) = events
        assert (what, most) == ([-5, 1, 1 << 31], 0)
        if linux_processes.read_stat(pid).ended:
            raise ProcessLookupError
        self._fd = os.pidfd_open(pid)

    def close(self):
        if self._fd >= 0:
            os.close(self._fd)


def test_an_end_is_awaited_by_a_kqueue_where_there_is_one(child, monkeypatch):
    monkeypatch.setattr(basic_facts, "LINUX", False)
    with pytest.raises(OSError, match="not implemented"):
        basic_facts.ProcessEnd(os.getpid())
    for name, value in {
        "kqueue": Kqueue, "kevent": lambda *what: what, "KQ_FILTER_PROC": -5, "KQ_EV_ADD": 1, "KQ_NOTE_EXIT": 1 << 31,
    }.items():  # fmt: skip
        monkeypatch.setattr(basic_facts.select, name, value, raising=False)
    process = subprocess.Popen(["sleep", "1000"])
    child.also(process)
    end = basic_facts.ProcessEnd(process.pid)
    try:
        poll = basic_facts.select.poll()
        poll.register(end, basic_facts.select.POLLIN)
        assert poll.poll(0) == []
        process.kill()
        assert poll.poll(60_000) != []
    finally:
        end.close()
    with pytest.raises(ProcessLookupError):
        basic_facts.ProcessEnd(process.pid)


def test_the_start_is_not_the_time_of_a_clock_that_is_set(monkeypatch):
    """psutil's ``create_time`` follows the machine's clock, and every process would be taken for another one."""
    before = portable_processes.read_stat(os.getpid()).start
    import psutil

    monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: time.time() - 3600)
    assert portable_processes.read_stat(os.getpid()).start == before
