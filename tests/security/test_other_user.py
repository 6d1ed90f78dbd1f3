"""Another local user, who may make any name in a sticky directory: nobody is kept out, and nobody meets in it."""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator.cli.verify import ended_well
from orchestrator.daemon.process import Daemon
from orchestrator.edge import cli_hook as hook
from orchestrator.edge import project_location, run_directories
from orchestrator.journal.project_files import Paths
from orchestrator.trust import lock_word
from tests.support.stage import BOUND_S, MARK, alive, until

STRANGER = 12345
RENAME_EXCHANGE = 2
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as a second local user")
STATE = "ORCHESTRATOR_STATE_DIR"
ROOT = Path(__file__).resolve().parents[2]

AS_STRANGER = """
import os, sys
os.chdir(sys.argv[1])  # the way to it is closed to others
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
exec(sys.argv[3])
"""


class Town:
    """A stage whose first run directories lie in a sticky directory, as those in /tmp do."""

    def __init__(self, stage, monkeypatch):
        self.stage = stage
        self.tmp = stage.base / "t"
        self.tmp.mkdir()
        self.tmp.chmod(0o1777)
        name = stage.run_dir().name
        stage.run_base = self.tmp / "o"
        stage.env[MARK] = str(stage.run_base)
        self.first = stage.run_base / name
        self.second = stage.base / "state" / "run" / name
        stage.run_dir = self.run_dir
        for variable in (MARK, STATE):
            monkeypatch.setenv(variable, stage.env[variable])

    def run_dir(self, _root=None):
        """Where somebody listens."""
        return self.second if listens(self.second) else self.first

    def stranger(self, program):
        """What the other user does in the sticky directory."""
        words = [sys.executable, "-IS", "-c", AS_STRANGER, str(self.tmp), str(STRANGER), program]
        subprocess.run(words, check=True, timeout=BOUND_S)

    def squat(self):
        self.stranger("os.mkdir('o', 0o755)")

    def take(self):
        """Our directory is moved away, and the other user's is there in the same moment: nobody finds the name free."""
        self.stranger("os.mkdir('other', 0o755)")
        libc = ctypes.CDLL(None, use_errno=True)
        names = os.fsencode(self.tmp / "o"), os.fsencode(self.tmp / "other")
        assert libc.renameat2(-100, names[0], -100, names[1], RENAME_EXCHANGE) == 0, os.strerror(ctypes.get_errno())
        (self.tmp / "other").rename(self.stage.base / "cleaned")

    def leave(self):
        self.stranger("os.rmdir('o')")

    def daemons(self):
        return [pid for pid, command in self.stage.processes().items() if " daemon run " in command]

    def kill_unseen(self):
        """Kill the daemon; nobody looks before it is gone: its lock is held a moment longer than its connections."""
        relays = [pid for pid, command in self.stage.processes().items() if " orchestrator mcp " in command]
        for pid in relays:
            os.kill(pid, signal.SIGSTOP)
        try:
            self.stage.kill_daemon()
            # A zombie may still have threads in a system call, and these hold its locks.
            until(lambda: not any(map(lock_word.held, (self.stage.root / ".agents" / "lock", self.second / "lock"))))
        finally:
            for pid in relays:
                os.kill(pid, signal.SIGCONT)

    def status(self):
        return json.loads(self.stage.cli("daemon", "status", "--json").stdout)

    def word(self):
        return lock_word.lock_text(self.stage.root / ".agents" / "lock")

    def all_meet(self, place):
        """One daemon, in that directory; relay, command line and hook find it there."""
        pid = until(self.stage.daemon)
        status = self.status()
        assert (status["pid"], status["socket"]) == (pid, str(place / "socket"))
        wire = self.stage.begun()
        assert "agents" in wire.tool("agent_list", {})
        told = hook.connect(str(self.stage.root), "")
        assert told.getpeername() == str(place / "socket")
        told.close()
        assert hook.project_of(str(self.stage.root)) == str(self.stage.root)
        assert until(lambda: self.daemons() == [pid])
        return pid


def listens(place):
    with socket.socket(socket.AF_UNIX) as sock, contextlib.suppress(OSError):
        sock.connect(str(place / "socket"))
        return True
    return False


@pytest.fixture
def town(stage, monkeypatch):
    return Town(stage, monkeypatch)


def work(wire, agent_id, task, text):
    """One task of the `shell` engine, done; how many results the agent has by then."""
    given = {"agent_id": agent_id, "task": {"task_id": task, "payload": {"command": text}}}
    assert wire.tool("task_enqueue", given)["position"]

    def results():
        events = wire.tool("events_read", {"agent_id": agent_id, "since_seq": 0})["events"]
        ended = [one["task_id"] for one in events if one["type"] == "result"]
        return len(ended) if task in ended else None

    return until(results)


@ROOT_ONLY
def test_a_directory_that_another_user_made_first_denies_nothing(town):
    town.squat()
    wire = town.stage.begun()
    assert wire.tool("agent_create", {"name": "a", "role": "r"})["ready"], "also the agent's own relay found it"
    assert work(wire, "a", "t1", "echo hello") == 1
    assert town.word() == "state"
    first = town.all_meet(town.second)
    assert list(town.first.parent.iterdir()) == []
    found = json.loads(town.stage.cli("doctor", "--json").stdout)["findings"]
    assert any(one["check"] == "run directory" and str(STRANGER) in one["message"] for one in found)
    assert str(STRANGER) in town.stage.cli("daemon", "status").stdout
    # Also after a crash, and for the agent that was there before it.
    town.stage.kill_daemon()
    assert work(wire, "a", "t2", "echo hello") == 2
    assert town.all_meet(town.second) != first


@ROOT_ONLY
@pytest.mark.parametrize("victim", ["ours", "theirs"])
def test_a_link_that_another_user_made_first_is_not_followed(town, victim):
    place = town.stage.base / "victim" if victim == "ours" else town.tmp / "trap"
    if victim == "ours":
        place.mkdir(mode=0o700)
        town.stranger(f"os.symlink({str(place)!r}, 'o')")
    else:
        town.stranger("os.mkdir('trap', 0o777); os.symlink('trap', 'o')")
    wire = town.stage.begun()
    assert wire.tool("agent_create", {"name": "a", "role": "r"})["ready"]
    town.all_meet(town.second)
    assert list(place.iterdir()) == []


@ROOT_ONLY
def test_a_socket_of_another_user_below_a_directory_of_ours_is_not_spoken_to(town):
    """Only the names above it keep others out, so a run directory that was made for us is not used either."""
    town.first.parent.mkdir(mode=0o700)
    town.first.mkdir(mode=0o777)
    os.chown(town.first, STRANGER, STRANGER)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(town.first / "socket"))
        sock.listen()
        town.stage.begun()
        town.all_meet(town.second)
        sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            sock.accept()


@pytest.mark.parametrize("level", ["base", "own"])
def test_a_directory_of_ours_that_is_open_to_others_is_not_used(town, level):
    town.first.mkdir(mode=0o700, parents=True)
    town.first.parent.chmod(0o700)
    (town.first.parent if level == "base" else town.first).chmod(0o777)
    wire = town.stage.begun()
    assert wire.tool("agent_create", {"name": "a", "role": "r"})["ready"]
    town.all_meet(town.second)
    assert list(town.first.iterdir()) == []


@ROOT_ONLY
@pytest.mark.parametrize("written", [True, False])
def test_all_still_meet_the_same_daemon_when_the_squatter_has_gone(town, written):
    town.squat()
    wire = town.stage.begun()
    if written:
        assert wire.tool("agent_create", {"name": "a", "role": "r"})["ready"]
    first = until(town.stage.daemon)
    town.leave()
    assert town.all_meet(town.second) == first
    if not written:
        assert town.stage.begun().tool("agent_create", {"name": "a", "role": "r"})["ready"]
    assert work(wire, "a", "t1", "echo hello") == 1
    assert town.all_meet(town.second) == first
    # The next daemon begins in the first again, and all follow it.
    town.kill_unseen()
    assert work(wire, "a", "t2", "echo hello") == 2
    assert town.word() == "tmp"
    town.all_meet(town.first)


@ROOT_ONLY
def test_a_daemon_whose_directory_is_taken_gives_way_to_one_in_the_other(town):
    """Somebody cleaned /tmp, and another user was faster."""
    wire = town.stage.begun()
    assert wire.tool("agent_create", {"name": "a", "role": "r"})["ready"]
    first = town.all_meet(town.first)
    town.take()
    until(lambda: not alive(first))
    assert work(wire, "a", "t1", "echo hello") == 1
    assert town.word() == "state"
    town.all_meet(town.second)


@pytest.mark.parametrize("written", [True, False])
def test_a_daemon_whose_directory_is_opened_to_others_gives_way_to_one_in_the_other_and_back(town, written):
    wire = town.stage.begun()
    if written:
        assert wire.tool("agent_create", {"name": "a", "role": "r"})["ready"]
    first = town.all_meet(town.first)
    town.first.parent.chmod(0o755)
    until(lambda: not alive(first))
    assert "agents" in wire.tool("agent_list", {})
    second = town.all_meet(town.second)
    town.first.parent.chmod(0o700)
    assert town.all_meet(town.second) == second, "it serves on"
    town.second.chmod(0o750)
    until(lambda: not alive(second))
    assert "agents" in wire.tool("agent_list", {})
    town.all_meet(town.first)


def test_of_two_daemons_that_began_before_there_was_a_file_the_later_to_write_gives_way(town):
    """One program sees /tmp and another does not: each starts a daemon, and nothing is written yet."""
    stage = town.stage
    stage.run_base.mkdir(mode=0o700)
    elsewhere = {**stage.env, STATE: str(stage.base / "other")}  # so that each looks where the other is not
    stage.run_base.chmod(0o755)
    one = stage.begun()
    a = until(stage.daemon)
    stage.run_base.chmod(0o700)
    two = stage.begun(elsewhere)
    assert listens(town.first) and listens(town.second) and len(town.daemons()) == 2
    os.kill(a, signal.SIGSTOP)
    assert two.tool("agent_create", {"name": "a", "role": "r"})["ready"]
    assert town.word() == "tmp"
    os.kill(
        a, signal.SIGCONT
    )  # only now it looks what an earlier daemon may have left: the other's session is not that
    until(lambda: not alive(a))
    assert "exited" not in stage.types("a")
    # Its client follows the word, and sees the agent that the other one made.
    assert [row["agent_id"] for row in one.tool("agent_list", {})["agents"]] == ["a"]
    town.all_meet(town.first)


def test_the_first_write_of_a_daemon_that_comes_too_late_is_done_by_the_other_or_refused(town):
    """Both are asked for their first write at the same moment; one of them writes, and no agent exists twice."""
    stage = town.stage
    stage.run_base.mkdir(mode=0o700)
    stage.run_base.chmod(0o755)
    one = stage.begun()
    stage.run_base.chmod(0o700)
    two = stage.begun({**stage.env, STATE: str(stage.base / "other")})
    assert len(town.daemons()) == 2
    asked = [wire.start("agent_create", {"name": name, "role": "r"}) for wire, name in ((one, "a"), (two, "b"))]
    told = [wire.outcome(wire.answer(key)) for wire, key in zip((one, two), asked, strict=True)]
    for answer in told:
        assert answer.get("ready") or answer["error"]["code"] == "daemon_running", answer
    assert any(answer.get("ready") for answer in told)
    until(lambda: len(town.daemons()) == 1)
    listed = {row["agent_id"] for row in one.tool("agent_list", {})["agents"]}
    assert listed == {answer["agent_id"] for answer in told if answer.get("ready")}


@ROOT_ONLY
def test_a_program_that_sees_neither_the_word_nor_its_directory_gets_no_second_daemon(town):
    """In a container with a /tmp and a home of its own the project is the same."""
    stage = town.stage
    wire = stage.begun()
    assert wire.tool("agent_create", {"name": "a", "role": "r"})["ready"]
    first = until(stage.daemon)
    other = {**stage.env, MARK: str(stage.base / "c" / "o"), STATE: str(stage.base / "c" / "s")}
    (stage.base / "c").mkdir()
    for word in ("tmp", "state"):
        done = stage.cli("daemon", "start", "--json", env=other)
        assert json.loads(done.stdout)["error"]["code"] == "daemon_running", (word, done)
        (stage.base / "c" / "o").chmod(0o755)  # the second time it has to try the other one
    assert town.all_meet(town.first) == first


@ROOT_ONLY
def test_a_stop_in_the_fallback_holds_when_the_squatter_has_gone(town):
    town.squat()
    wire = town.stage.begun()
    assert wire.tool("agent_create", {"name": "a", "role": "r"})["ready"]
    first = until(town.stage.daemon)
    assert town.stage.cli("daemon", "stop").returncode == 0
    until(lambda: not alive(first))
    town.leave()
    asked = wire.start("agent_list", {})
    done = town.stage.cli("agent", "create", "b", "--role", "r", "--json")
    assert json.loads(done.stdout)["error"]["code"] == "daemon_stopped"
    assert town.daemons() == []
    assert town.stage.cli("daemon", "start").returncode == 0
    assert "result" in wire.answer(asked)
    town.all_meet(town.first)


@ROOT_ONLY
def test_without_any_usable_directory_the_advice_can_be_followed(town):
    town.squat()
    state = Path(town.stage.env[STATE])
    state.write_text("")
    done = town.stage.cli("daemon", "start", "--json")
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "run_dir_unsafe"
    assert str(STRANGER) in error["message"] and str(state) in error["message"]
    assert STATE in error["next_step"]
    followed = {**town.stage.env, STATE: str(town.stage.base / "n")}
    done = town.stage.cli("daemon", "start", "--json", env=followed)
    assert json.loads(done.stdout)["pid"]
    assert town.stage.cli("daemon", "stop", env=followed).returncode == 0


@ROOT_ONLY
def test_a_state_directory_too_deep_for_a_socket_is_told_as_such(town):
    town.squat()
    deep = {**town.stage.env, STATE: str(town.stage.base / ("d" * 90))}
    error = json.loads(town.stage.cli("daemon", "start", "--json", env=deep).stdout)["error"]
    assert error["code"] == "run_dir_unsafe"
    assert "107 bytes" in error["message"]
    assert not Path(deep[STATE]).exists()


@pytest.mark.parametrize("what", ["fifo", "link", "word"])
def test_a_lock_that_came_with_a_clone_keeps_nobody_waiting_and_moves_nobody(town, what):
    lock = town.stage.root / ".agents" / "lock"
    if what == "fifo":
        os.mkfifo(lock)
    elif what == "link":
        (town.stage.root / "code.py").write_text("precious")
        lock.symlink_to("../code.py")
    else:
        lock.write_text("state 0000000000000000\n")
    wire = town.stage.begun()
    town.all_meet(town.first)
    made = wire.tool("agent_create", {"name": "a", "role": "r"})
    if what == "word":
        assert made["ready"]
        assert town.word() == "tmp"
        return
    assert made["error"]["code"] == "io_failed"
    assert str(lock) in made["error"]["next_step"]
    if what == "link":
        assert (town.stage.root / "code.py").read_text() == "precious"
    lock.unlink()  # as it said
    assert wire.tool("agent_create", {"name": "b", "role": "r"})["ready"]


def test_a_lock_that_git_replaced_under_a_daemon_is_claimed_anew(town):
    """`git checkout` and `tar -x` make a new file, which another daemon could claim."""
    stage = town.stage
    wire = stage.begun()
    assert wire.tool("agent_create", {"name": "a", "role": "r"})["ready"]
    lock = stage.root / ".agents" / "lock"
    (stage.root / "new").write_text("state 0\n")
    (stage.root / "new").rename(lock)
    until(lambda: town.word() == "tmp")
    other = {**stage.env, MARK: str(stage.base / "o2"), STATE: str(stage.base / "s2")}
    done = stage.cli("daemon", "start", "--json", env=other)
    assert json.loads(done.stdout)["error"]["code"] == "daemon_running"
    town.all_meet(town.first)


def test_a_good_end_in_one_directory_is_not_taken_for_one_of_a_later_daemon_in_the_other(town):
    """What it says is whether the logs need a closer look: a daemon that was killed elsewhere came in between."""
    stage = town.stage
    wire = stage.begun()
    assert wire.tool("agent_create", {"name": "a", "role": "r"})["ready"]
    assert stage.cli("daemon", "stop").returncode == 0
    assert ended_well(project_location.named_project(stage.root))
    town.first.parent.chmod(0o755)
    assert stage.cli("daemon", "start").returncode == 0
    assert listens(town.second)
    stage.kill_daemon()
    town.first.parent.chmod(0o700)
    assert (town.first / "clean").exists()
    assert not ended_well(project_location.named_project(stage.root))
    asked = SimpleNamespace(
        door=SimpleNamespace(directory=town.first), roster=SimpleNamespace(paths=Paths(stage.root))
    )
    assert not Daemon._was_clean(asked)
    assert not (town.first / "clean").exists(), "a daemon asks once"
    (town.first / "stopped").unlink()
    assert "agents" in wire.tool("agent_list", {})


@ROOT_ONLY
def test_gc_and_doctor_know_both_places_and_touch_nothing_of_the_squatter(town):
    stage = town.stage
    town.squat()
    stage.begun()
    town.all_meet(town.second)
    theirs = town.first.parent / ("b" * 16)
    ours = town.second.with_name("a" * 16)
    for directory in (theirs, ours):
        directory.mkdir(mode=0o700)
        (directory / "lock").touch(mode=0o600)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(directory / "socket"))
    shutil.chown(theirs, STRANGER)
    found = json.loads(stage.cli("doctor", "--json").stdout)["findings"]
    assert any("1 run directories of other projects" in one["message"] for one in found)
    place = project_location.named_project(stage.root)
    rows = until(lambda: run_directories.collect(place, 0.0, apply=True))  # the daemon's sweep may hold a lock
    assert [row["name"] for row in rows] == [str(ours)]
    assert not ours.exists() and (theirs / "lock").exists()
    # And the one in use is looked over from either place.
    town.first.parent.rename(stage.base / "theirs")
    assert run_directories.collect(place, 0.0, apply=True) == []
    assert town.second.is_dir()


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("where", ["first", "second", "stale word", "stale socket"])
def test_the_plugin_of_opencode_finds_the_daemon_in_either(town, where):
    project_location.run_dir(town.stage.root)
    town.first.parent.chmod(0o755)
    project_location.run_dir(town.stage.root)
    town.first.parent.chmod(0o700)
    lock = town.stage.root / ".agents" / "lock"
    place = town.first if where in ("first", "stale word") else town.second
    lock.write_text("state 1\n" if where in ("second", "stale word") else "")
    if where in ("stale socket", "stale word"):
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str((town.second if where == "stale word" else town.first) / "socket"))
    agent = {
        "ORCHESTRATOR_PROJECT": str(town.stage.root),
        "ORCHESTRATOR_AGENT_ID": "a",
        "ORCHESTRATOR_AGENT_EPOCH": "1",
        "ORCHESTRATOR_AGENT_SECRET": "s",
    }
    plugin = (ROOT / "orchestrator" / "engines" / "plugins" / "opencode.js").as_uri()
    program = f"import {{ Orchestrator }} from {plugin!r}; await Orchestrator({{ client: {{}} }}, {{}}); process.stdin.resume()"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "socket"))
        listener.listen()
        listener.settimeout(BOUND_S)
        words = ["node", "--input-type=module", "-e", program]
        with subprocess.Popen(words, stdin=subprocess.PIPE, env={**town.stage.env, **agent}) as node:
            try:
                sock, _ = listener.accept()
                with sock, sock.makefile("rb") as lines:
                    assert json.loads(lines.readline())["hello"]["project"] == str(town.stage.root)
            finally:
                node.send_signal(signal.SIGKILL)
