"""The daemon's door: who holds it, who may come in, and what a stop or a failed start leaves behind."""

import fcntl
import os
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
    one = door.take_over(lock, listener, root)
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
        door.take_over(lock, listener, root)
    assert refused.value.code == "daemon_running"
    os.close(lock)


def test_a_lock_another_daemon_holds_is_not_adopted(root, opened):
    lock, listener = os.open(opened.directory / "lock", os.O_RDWR), os.dup(opened.listener.fileno())
    with pytest.raises(Conflict):
        door.take_over(lock, listener, root)
    os.close(lock)
    os.close(listener)


def test_a_socket_of_another_project_is_not_adopted(root, tmp_path):
    lock, listener = handed_down(root)
    (tmp_path / "other").mkdir()
    other_lock, other = handed_down(tmp_path / "other")
    with pytest.raises(Conflict):
        door.take_over(lock, other, root)
    for fd in (lock, other_lock, listener):
        os.close(fd)


def test_descriptors_that_are_no_door_are_refused(root):
    reading, writing = os.pipe()
    for lock, listener in ((reading, writing), (99999, 99998)):
        with pytest.raises(BadRequest):
            door.take_over(lock, listener, root)
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
    for attempt in (lambda: door.start_as_foreground(root), lambda: door.take_over(0, 1, root)):
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
