"""What this user has launched since the machine was booted: written, read again, and not trusted further than that."""

import errno
import json
import os
import subprocess
import sys

import pytest

from orchestrator.base.platform import ancestry, process_facts
from orchestrator.trust import launched
from orchestrator.trust.launched import Launched
from orchestrator.trust.origin import KnownProcesses
from orchestrator.trust.state_dir import StateDirUnsafe

OWN = """
import os, sys
from orchestrator.trust import launched
{}
print(os.getpid())
"""


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCHESTRATOR_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def run(code):
    """The pid of a process that did that."""
    words = [sys.executable, "-c", OWN.format(code)]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def place(state):
    (found,) = (state / "launched").iterdir()
    return found


def test_an_agent_writes_itself_down_with_its_ancestors(state):
    reader = Launched()
    assert reader.known().first is None
    pid = run("launched.record_agent('/p', 'a')")
    known = reader.known()
    ((life, agent),) = known.agents.items()
    assert (life[0], agent, known.first) == (pid, ("/p", "a"), life[1])
    assert {one[0] for one in known.above} >= {os.getpid(), os.getppid()} - {1}
    other = run("launched.record_agent('/p', 'b')")
    assert {life[0] for life in reader.known().agents} == {pid, other}
    assert reader.known().first == known.first


def test_all_new_lines_are_taken_together_because_each_addition_copies_what_is_known(state, monkeypatch):
    run("[launched.record_agent('/p', name) for name in 'abc']; launched.record_members()")
    added = []
    monkeypatch.setattr(KnownProcesses, "add", lambda _, more: added.append(more))
    reader = Launched()
    reader.known()
    reader.known()
    ((pid, start),) = added[0].agents
    assert (len(added), added[0].agents, added[0].first) == (1, {(pid, start): ("/p", "c")}, start)
    assert {life[0] for life in added[0].leaders} == {pid}


def test_a_daemon_writes_itself_down_once_before_its_first_member(state):
    before = process_facts.now()
    pid = run("launched.record_members(); launched.record_members()")
    assert len(place(state).read_text().splitlines()) == 1
    known = Launched().known()
    assert [life[0] for life in known.leaders] == [pid]
    assert known.first >= before
    assert not known.agents


def test_lines_that_are_none_and_half_a_line_tell_nothing_and_disturb_nothing(state):
    run("launched.record_agent('/p', 'a')")
    whole = place(state).read_bytes()
    bad = [b"", b"{", b"[]", b"7", b'{"agent": 1}', b'{"agent":"x","project":"/p","pid":"1","start":2,"above":[]}']
    bad += [b'{"agent":"x","project":"/p","pid":1,"start":2,"above":[[1]]}', b"\xff\0", b"[" * 100_000]
    place(state).write_bytes(b"\n".join(bad) + b"\n" + whole + whole[:20])
    reader = Launched()
    assert list(reader.known().agents.values()) == [("/p", "a")]
    with place(state).open("ab") as file:
        file.write(whole[20:].replace(b'"a"', b'"b"'))
    assert ("/p", "b") in reader.known().agents.values() or len(reader.known().agents) == 1


def test_what_was_read_stays_known_when_the_file_goes(state):
    run("launched.record_agent('/p', 'a')")
    reader = Launched()
    assert len(reader.known().agents) == 1
    place(state).unlink()
    assert len(reader.known().agents) == 1
    run("launched.record_agent('/p', 'b')")
    assert len(reader.known().agents) == 2


def test_the_file_of_an_earlier_boot_goes_and_tells_nothing(state):
    run("launched.record_agent('/p', 'a')")
    now = place(state)
    old = now.with_name("00000000-0000-0000-0000-000000000000+1")
    now.rename(old)
    assert not Launched().known().agents
    run("launched.record_agent('/p', 'b')")
    assert place(state) == now
    assert list(Launched().known().agents.values()) == [("/p", "b")]


def test_the_file_of_another_pid_namespace_of_this_boot_stays(state):
    run("launched.record_agent('/p', 'a')")
    now = place(state)
    inner = now.with_name(f"{now.name.partition('+')[0]}+17")
    now.rename(inner)
    run("launched.record_agent('/p', 'b')")
    assert inner.exists()
    assert now.exists()


@pytest.mark.parametrize("how", ["open to others", "a link", "a pipe"])
def test_a_place_that_is_not_ours_alone_is_neither_written_nor_believed(state, tmp_path, how):
    run("launched.record_agent('/p', 'a')")
    file = place(state)
    if how == "open to others":
        file.parent.chmod(0o755)
        with pytest.raises(StateDirUnsafe):
            launched.record_agent("/p", "b")
    else:
        content = file.read_bytes()
        file.unlink()
        if how == "a link":
            (tmp_path / "elsewhere").write_bytes(content)
            file.symlink_to(tmp_path / "elsewhere")
        else:
            os.mkfifo(file)
        with pytest.raises(OSError, match=r"."):
            launched.record_agent("/p", "b")
    assert not Launched().known().agents


def test_this_process_comes_from_outside(state):
    assert launched.own_origin().kind == "outside"
    run("launched.record_agent('/p', 'a')")
    assert launched.own_origin().kind == "outside", "it is older"


def test_a_line_begins_with_the_process_and_ends_below_init():
    first, *_ = ancestry.lines_of(os.getpid())
    assert [one.pid for one in first.processes[:2]] == [os.getpid(), os.getppid()]
    assert first.end in ("init", "outside")
    assert first.processes[0].session == os.getsid(0)
    assert all(above.start <= one.start for one, above in zip(first.processes, first.processes[1:], strict=False))
    assert ancestry.lines_of(1 << 30) == ()


def test_the_marks_are_those_of_the_environment_a_process_was_started_with():
    env = {"ORCHESTRATOR_AGENT_ID": "a", "ORCHESTRATOR_PROJECT": "/p", "ORCHESTRATOR_MEMBER_ID": "m"}
    words = ["sh", "-c", "echo; cat; :"]
    with subprocess.Popen(
        words, env=env | {"PATH": os.environ["PATH"]}, stdin=-1, stdout=-1, start_new_session=True
    ) as one:
        one.stdout.readline()
        first, *_ = ancestry.lines_of(one.pid)[0].processes
        assert (first.agent, first.member, first.session, first.terminal) == (("/p", "a"), True, one.pid, 0)
        one.stdin.close()


def test_the_leader_of_a_session_is_found_when_the_processes_in_between_have_ended():
    """A leader lives, its child has started another and ended: the kernel has handed that one to somebody else."""
    code = (
        "import os, sys\n"
        "os.setsid()\n"
        "if os.fork() == 0:\n"
        "    if os.fork() == 0:\n"
        "        print(os.getpid(), flush=True)\n"
        "        sys.stdin.read()\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print(flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as leader:
        pid = int("".join(leader.stdout.readline() for _ in range(2)).strip())
        first, *others = ancestry.lines_of(pid)
        assert leader.pid not in [one.pid for one in first.processes]
        assert leader.pid in [line.processes[0].pid for line in others]
        leader.stdin.close()


def test_who_has_no_descriptor_left_judges_nobody():
    """A mark that could not be read must not count as one that is not there."""
    code = (
        "import os, resource\n"
        "from orchestrator.base.platform import ancestry\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (os.open('/', os.O_RDONLY), 4096))\n"
        "try:\n"
        "    ancestry.lines_of(os.getpid())\n"
        "except OSError as error:\n"
        "    print(error.errno)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(errno.EMFILE), done.stderr


def test_the_lines_are_json_that_a_human_can_read(state):
    run("launched.record_agent('/p', 'a')")
    said = json.loads(place(state).read_text())
    assert set(said) == {"agent", "project", "pid", "start", "above"}
