"""What /proc shows of a process, of one that has ended, and of one that is gone."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

from orchestrator.base.platform import basic_facts, linux_processes, process_facts
from tests.support.tmux_server import until

GONE = 1 << 30


@pytest.fixture
def zombie():
    """A process that has ended, and that nobody has waited for."""
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    yield child.pid
    child.wait()


@pytest.fixture
def sleeper():
    """Starts a program that sleeps; returns its pid."""
    children = []

    def start(program, **options):
        children.append(subprocess.Popen([program, "1000"], **options))
        return children[-1].pid

    yield start
    for child in children:
        child.kill()
        child.wait()


def test_this_process_is_alive_since_its_start():
    stat = process_facts.stat_of(os.getpid())
    assert (stat.parent, stat.session, stat.ended) == (os.getppid(), os.getsid(0), False)
    assert process_facts.start_time(os.getpid()) == stat.start
    assert process_facts.alive(os.getpid(), stat.start)
    assert not process_facts.alive(os.getpid(), stat.start + 1)
    assert not process_facts.has_ended(os.getpid())
    assert process_facts.parent_of(os.getpid()) == os.getppid()
    assert process_facts.is_own(os.getpid())
    assert os.getpid() in process_facts.pids()


def test_a_zombie_has_ended_and_is_still_listed(zombie):
    stat = process_facts.stat_of(zombie)
    assert (stat.parent, stat.ended) == (os.getpid(), True)
    assert process_facts.has_ended(zombie)
    assert process_facts.start_time(zombie) is None
    assert not process_facts.alive(zombie, stat.start)
    assert process_facts.parent_of(zombie) == os.getpid()


def test_a_process_that_is_gone_has_no_facts():
    with pytest.raises(FileNotFoundError):
        process_facts.read_stat(GONE)
    facts = (process_facts.stat_of, process_facts.start_time, process_facts.parent_of)
    assert [fact(GONE) for fact in facts] == [None] * 3
    assert process_facts.has_ended(GONE)
    assert process_facts.words_of(GONE) == []
    assert not process_facts.has_terminal(GONE)
    assert not process_facts.is_own(GONE)


@pytest.mark.parametrize("name", ["a) Z 1 (b", "(", ") ) )", "two\nlines", "\u00e4" * 7])
def test_a_name_may_hold_anything(tmp_path, sleeper, name):
    program = tmp_path / name
    program.symlink_to("/bin/sleep")
    pid = sleeper(program)
    until(lambda: process_facts.words_of(pid) == [os.fsencode(program), b"1000", b""])  # once it has executed
    stat = process_facts.stat_of(pid)
    assert (stat.name, stat.parent, stat.ended) == (name.encode(), os.getpid(), False)


@pytest.mark.parametrize("content", [b"", b"1 (cut", b"1 (cut) S 1 1"])
def test_a_process_that_is_not_shown_whole_counts_as_gone(monkeypatch, content):
    monkeypatch.setattr(linux_processes, "read", lambda *_: content)
    with pytest.raises(ProcessLookupError):
        process_facts.read_stat(1)
    assert process_facts.stat_of(1) is None


def test_a_terminal_is_that_of_the_session(sleeper):
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp("sleep", ["sleep", "1000"])
    try:
        until(lambda: process_facts.stat_of(pid).session == pid)  # the child itself leaves ours
        until(lambda: process_facts.has_terminal(pid))
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(fd)
    assert not process_facts.has_terminal(sleeper("sleep", start_new_session=True))


def test_the_boot_is_the_same_for_all_and_empty_where_it_is_not_shown(monkeypatch, tmp_path):
    assert process_facts.boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    monkeypatch.setattr(basic_facts, "PROC", str(tmp_path))
    assert process_facts.boot_id() == ""
