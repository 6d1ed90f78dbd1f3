"""The daemon's door: who holds it, who may come in, and what a stop or a failed start leaves behind."""

import fcntl
import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.base.errors import BadRequest, Conflict, Environment
from orchestrator.daemon import door
from orchestrator.edge import daemon_connection, project_location
from tests.fakes.relays import BOUND_S, until


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(tmp_path / "run"))
    at = tmp_path.resolve() / "project"
    at.mkdir()
    return at


@pytest.fixture
def opened(root):
    one = door.start_as_foreground(root)
    yield one
    one.close()


def handed_down(root):
    lock, listener = daemon_connection.claim(project_location.run_dir(root))
    return lock, listener.detach()


def test_a_foreground_daemon_takes_the_door_and_a_second_one_is_refused(root, opened):
    with pytest.raises(Conflict) as refused:
        door.start_as_foreground(root)
    assert refused.value.code == "daemon_running"
    assert stat.S_IMODE((opened.directory / "socket").stat().st_mode) == 0o600
    assert daemon_connection.connect(project_location.find_project(root)).close() is None


def test_the_door_of_a_relay_is_taken_over_and_no_child_inherits_it(root):
    lock, listener = handed_down(root)
    for fd in (lock, listener):
        os.set_inheritable(fd, True)
    one = door.adopt(lock, listener, root)
    assert not os.get_inheritable(lock)
    assert not one.listener.get_inheritable()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    one.close()

    def next_daemon():  # the kernel closes what a child does not inherit a moment after its exec
        try:
            return door.start_as_foreground(root)
        except Conflict:
            return None

    # A child that had kept the lock would keep every later daemon out.
    until(next_daemon).close()
    child.communicate(b"\n", timeout=BOUND_S)


def test_a_door_that_is_not_the_projects_any_more_is_not_adopted(root):
    lock, listener = handed_down(root)
    (project_location.run_dir(root) / "lock").unlink()
    (project_location.run_dir(root) / "lock").touch()
    with pytest.raises(Conflict) as refused:
        door.adopt(lock, listener, root)
    assert refused.value.code == "daemon_running"
    os.close(lock)


def test_a_lock_another_daemon_holds_is_not_adopted(root, opened):
    lock, listener = os.open(opened.directory / "lock", os.O_RDWR), os.dup(opened.listener.fileno())
    with pytest.raises(Conflict):
        door.adopt(lock, listener, root)
    os.close(lock)
    os.close(listener)


def test_a_socket_of_another_project_is_not_adopted(root, tmp_path):
    lock, listener = handed_down(root)
    (tmp_path / "other").mkdir()
    other_lock, other = handed_down(tmp_path / "other")
    with pytest.raises(Conflict):
        door.adopt(lock, other, root)
    for fd in (lock, other_lock, listener):
        os.close(fd)


def test_descriptors_that_are_no_door_are_refused(root):
    reading, writing = os.pipe()
    for lock, listener in ((reading, writing), (99999, 99998)):
        with pytest.raises(BadRequest):
            door.adopt(lock, listener, root)
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("name", ["lock", "socket"])
def test_a_door_knows_when_its_files_were_removed_or_replaced(opened, name):
    assert opened.still_ours()
    (opened.directory / name).rename(opened.directory / "aside")
    assert not opened.still_ours()
    (opened.directory / name).touch()
    assert not opened.still_ours()
    (opened.directory / "aside").replace(opened.directory / name)
    assert opened.still_ours()


def test_closing_lets_the_next_daemon_in_and_leaves_a_successors_socket_alone(root):
    one = door.start_as_foreground(root)
    (one.directory / "lock").unlink()
    two = door.start_as_foreground(root)
    one.close()
    assert two.still_ours()
    two.close()
    assert not (two.directory / "socket").exists()
    door.start_as_foreground(root).close()


def test_an_unsafe_run_directory_is_an_error_of_the_operator(root, monkeypatch):
    project_location.run_dir(root).chmod(0o777)
    (root / "other").mkdir()
    monkeypatch.setenv("ORCHESTRATOR_STATE_DIR", str(root / "other"))
    for attempt in (lambda: door.start_as_foreground(root), lambda: door.adopt(0, 1, root)):
        with pytest.raises(Environment) as refused:
            attempt()
        assert refused.value.code == "run_dir_unsafe"


def test_a_failed_start_is_told_in_one_piece_and_forgotten_after_a_good_one(opened):
    error = BadRequest("bad_config", "line 3").as_dict()
    opened.write_failed(error)
    assert daemon_connection.held_by(opened.directory) == error
    assert [path.name for path in opened.directory.iterdir() if "failed" in path.name] == ["failed"]
    opened.clear_failed()
    opened.clear_failed()
    assert daemon_connection.held_by(opened.directory) is None


@pytest.mark.parametrize("torn", ["", "{", "[]", '{"kind": "x"}', "\udcff"])
def test_a_torn_failure_marker_says_nothing(opened, torn):
    (opened.directory / "failed").write_text(torn, errors="surrogateescape")
    assert daemon_connection.held_by(opened.directory) is None


def test_a_stop_by_hand_holds_before_a_failure_does(opened):
    (opened.directory / "stopped").touch()
    opened.write_failed({})
    assert daemon_connection.held_by(opened.directory)["code"] == "daemon_stopped"


def test_a_relay_starts_nothing_while_stopped_or_just_failed(root, opened, monkeypatch):
    place = project_location.find_project(root)
    monkeypatch.setattr(daemon_connection, "_spawn", lambda *_: pytest.fail("a daemon was started"))
    assert not daemon_connection.try_start(place, opened.directory)  # the lock is held
    (opened.directory / "stopped").touch()
    assert not daemon_connection.try_start(place, opened.directory)
    (opened.directory / "stopped").unlink()
    opened.write_failed({})
    assert not daemon_connection.try_start(place, opened.directory)


@pytest.mark.parametrize("marker", ["stopped", "failed"])
def test_a_marker_left_while_the_lock_was_taken_counts_too(root, monkeypatch, marker):
    place, directory, claim = (
        project_location.find_project(root),
        project_location.run_dir(root),
        daemon_connection.claim,
    )

    def taken(where):
        claimed = claim(where)
        (where / marker).touch()
        return claimed

    monkeypatch.setattr(daemon_connection, "claim", taken)
    monkeypatch.setattr(daemon_connection, "_spawn", lambda *_: pytest.fail("a daemon was started"))
    assert not daemon_connection.try_start(place, directory)
    assert not (directory / "socket").exists()
    monkeypatch.undo()
    lock, listener = daemon_connection.claim(directory)  # free for the next one
    os.close(lock)
    listener.close()


# -- the hello --------------------------------------------------------------------------------------------------


def line(**more):
    return json.dumps({"hello": {"proto": 1, "conn": "ab", "project": "/p", **more}}).encode() + b"\n"


def test_what_a_relay_says_is_what_the_daemon_reads(root, monkeypatch):
    monkeypatch.setenv("ORCHESTRATOR_AGENT_ID", "a")
    monkeypatch.setenv("ORCHESTRATOR_AGENT_EPOCH", "3")
    monkeypatch.setenv("ORCHESTRATOR_AGENT_SECRET", "hush")
    monkeypatch.setenv("STATE_MODE", "x")
    monkeypatch.setenv("TMUX", "/t,1,0")
    monkeypatch.chdir(root)
    place = project_location.find_project(root)
    said = daemon_connection.handshake_line(
        place, kind="relay", conn="ab" * 8, boot=4, toolsets=["team"], pending=[("1", 5), (1, 6)]
    )
    hello = door.read_hello(said)
    assert (hello.proto, hello.version, hello.install) == (
        project_location.PROTO,
        project_location.VERSION,
        project_location.INSTALL,
    )
    assert (hello.project, hello.cwd, hello.conn, hello.boot, hello.kind) == (
        str(root), str(root), "ab" * 8, 4, "relay",
    )  # fmt: skip
    assert hello.toolsets == ("team",)
    assert hello.pending == (("1", 5), (1, 6))
    assert hello.agent == door.AgentClaim("a", 3, "hush")
    assert hello.env == {"STATE_MODE": "x"}
    assert hello.tmux == "/t,1,0"
    assert hello.pids[0] == os.getppid()
    assert hello.call_limit_s is None
    assert (
        door.read_hello(
            daemon_connection.handshake_line(place, kind="relay", conn="ab" * 8, call_limit_s=600)
        ).call_limit_s
        == 600
    )


def test_secrets_and_keys_are_never_shown(root):
    hello = door.read_hello(
        line(agent={"id": "a", "epoch": 1, "secret": "hush"}, env={"OPENROUTER_API_KEY": "key-1"})
    )
    assert "hush" not in repr(hello)
    assert "key-1" not in repr(hello)


def test_a_short_hello_gets_defaults_and_unknown_keys_pass():
    hello = door.read_hello(line(future={"x": 1}, env={"PATH": "/bin", "ENGINE": "e"}, tmux=None))
    assert (hello.boot, hello.kind, hello.toolsets, hello.pending, hello.agent) == (1, "relay", (), (), None)
    assert hello.env == {"ENGINE": "e"}


@pytest.mark.parametrize(
    "bad",
    [
        b"", b"\n", b"GET / HTTP/1.1\r\n", b"\xff\xfe\n", b"[]\n", b"3\n", b'{"hello": 3}\n', b'{"hello": {}}\n',
        b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n', b"[" * 100_000,
        line(proto="1"), line(proto=True), line(proto=-1), line(conn=""), line(conn="x" * 65), line(conn=1),
        line(project=None), line(boot="2"), line(toolsets="team"), line(toolsets=[1]), line(pids=["1"]),
        line(pending=[["a"]]), line(pending=[[None, 1]]), line(pending=[[True, 1]]), line(pending=[["a", -1]]),
        line(pending={"a": 1}), line(agent="a"), line(agent={"id": "a"}), line(env=[]), line(env={"A": 1}),
        line(call_limit_s="60"), line(call_limit_s=0), line(call_limit_s=True), line(call_limit_s=1.5),
        line(cwd=1), line(tmux=["x"]), line(cwd="x" * door.HELLO_MAX),
    ],
)  # fmt: skip
def test_a_first_line_that_is_no_hello_is_a_bad_argument(bad):
    with pytest.raises(BadRequest) as refused:
        door.read_hello(bad)
    assert refused.value.code == "bad_argument"


def test_the_same_proto_is_served_whatever_the_version():
    hello = door.read_hello(line(version="9.9", install="/elsewhere"))
    assert door.negotiate(hello, 1, idle=False) == "serve"


def test_only_an_idle_daemon_gives_way_and_only_to_a_newer_one():
    newer, older = door.read_hello(line(proto=3, version="9", install="/new")), door.read_hello(line(proto=1))
    assert door.negotiate(newer, 2, idle=True) == "yield"
    for refused in (door.negotiate(newer, 2, idle=False), door.negotiate(older, 2, idle=True)):
        assert isinstance(refused, Conflict)
        assert refused.code == "proto_mismatch"
    text = door.negotiate(newer, 2, idle=False).message
    assert "/new" in text
    assert project_location.INSTALL in text


def test_a_peer_of_our_own_user_is_let_in_and_nobody_else():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert door.peer_uid_ok(ours)

    class Foreign:
        def getsockopt(self, *_):
            return b"".join(n.to_bytes(4, sys.byteorder) for n in (1, os.geteuid() + 1, 1))

    class Broken:
        def getsockopt(self, *_):
            raise OSError

    assert not door.peer_uid_ok(Foreign())
    assert not door.peer_uid_ok(Broken())


CONNECT = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
s = socket.socket(socket.AF_UNIX)
try:
    s.connect(sys.argv[1])
except PermissionError:
    print("refused")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_cannot_even_reach_the_socket(opened):
    path = opened.directory / "socket"
    done = subprocess.run([sys.executable, "-c", CONNECT, str(path)], capture_output=True, text=True)
    assert done.stdout == "refused\n", done.stderr


def test_the_lock_is_a_lock_for_everyone(opened):
    with (opened.directory / "lock").open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_hello_says_where_the_process_lives():
    assert Path(project_location.INSTALL).name == "orchestrator"
