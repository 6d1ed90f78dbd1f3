"""Run directories go a day after their last daemon, under their lock, and never while somebody needs them."""

import fcntl
import itertools
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from orchestrator.base.platform import process_facts
from orchestrator.edge import daemon_connection, project_location, run_directories
from orchestrator.trust import launched

DAY_S = 86_400
OLD = 2 * DAY_S


@pytest.fixture(autouse=True)
def base(own_world, monkeypatch):
    """A run base of the test's own."""
    base = own_world / "runs" / os.urandom(3).hex()
    base.parent.mkdir(mode=0o700, exist_ok=True)
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(base))
    return base


@pytest.fixture
def here(tmp_path):
    """The project of the caller."""
    (tmp_path / "here").mkdir()
    return project_location.named_project(tmp_path / "here")


@pytest.fixture
def other(tmp_path):
    """Another project with a run directory as a daemon leaves it, two days ago."""
    (tmp_path / "other" / ".git").mkdir(parents=True)
    return tmp_path / "other"


def abandoned(root, age_s=OLD, extra=()):
    """The project's run directory, with what daemons leave there."""
    directory = project_location.run_dir(root)
    (directory / "tmp" / "a01234567" / "deep").mkdir(parents=True)
    (directory / "tmp" / "a01234567" / "deep" / "file").write_bytes(b"12345")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(directory / "socket"))
    for name in ("lock", "log", "log.1", "clean", "starts", "failed", "a0b1c2", *extra):
        (directory / name).touch(mode=0o600)
    aged(directory, age_s)
    return directory


def aged(directory, age_s):
    for path in [directory, *directory.iterdir()]:
        os.utime(path, (time.time() - age_s,) * 2)


def collected(here, apply=True):
    return [row["name"] for row in run_directories.collect(here, apply=apply) if row["done"] is apply]


def test_a_directory_goes_a_day_after_its_last_daemon(here, other):
    directory = abandoned(other)
    [row] = run_directories.collect(here, apply=False)
    assert (row["name"], row["done"], directory.exists()) == (str(directory), False, True)
    assert row["files"] == 9 and row["bytes"] >= 5
    assert collected(here) == [str(directory)]
    assert not directory.exists()


@pytest.mark.parametrize("age_s", [DAY_S - 60, -60])
def test_a_younger_one_and_one_of_the_future_stay(here, other, age_s):
    directory = abandoned(other, age_s)
    assert collected(here) == [] and (directory / "log").exists()


def test_a_daemon_that_was_quiet_for_long_has_its_day_too(here, other):
    directory = abandoned(other)
    temporary = directory / "tmp" / "a01234567"
    aged(directory / "tmp", OLD)
    run_directories.touch(directory)
    assert temporary.stat().st_mtime > time.time() - DAY_S, "nor does the system take it for unused"
    assert collected(here) == []


def test_one_in_which_a_command_only_looked_for_a_daemon_goes_too(here, other):
    directory = project_location.run_dir(other)
    aged(directory, DAY_S - 60)
    assert collected(here) == []
    aged(directory, OLD)
    assert collected(here, apply=False) == collected(here) == [str(directory)]


def test_whoever_must_end_removes_no_further_file(here, other, tmp_path):
    directories = [abandoned(root) for root in (other, tmp_path, tmp_path / "third")]
    for looks in (0, 2):  # none, then the first directory, and of its files what two looks allow
        asked = itertools.count()
        rows = run_directories.collect(here, apply=True, go_on=lambda asked=asked, looks=looks: next(asked) < looks)
        assert not [row for row in rows if row["done"] or row.get("error")]
        assert all((directory / "lock").exists() for directory in directories)
    assert sorted(collected(here)) == sorted(map(str, directories)), "the next one goes on where it ended"


def test_the_callers_own_and_one_with_a_strange_file_stay(here, other):
    own, strange = abandoned(here.root), abandoned(other, extra=["notes.txt"])
    assert collected(here) == []
    assert own.exists() and strange.exists()


def test_one_with_a_daemon_stays(here, other):
    directory = abandoned(other)
    with (directory / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert collected(here) == []
    assert collected(here) == [str(directory)]


@pytest.mark.parametrize(("content", "stays"), [(None, True), ("", True), ("another-boot", False)])
def test_a_stop_by_hand_keeps_it_until_the_next_boot(here, other, content, stays):
    directory = abandoned(other)
    if content is None:
        project_location.write_stopped(directory)
    else:
        (directory / "stopped").write_text(content)
    aged(directory, OLD)
    assert project_location.is_stopped(directory) is stays
    assert (collected(here) == []) is stays


def test_one_with_a_living_agent_stays_until_the_agent_has_ended(here, other):
    directory = abandoned(other)
    script = "import sys; from orchestrator.trust.launched import record_agent; "
    script += "record_agent(sys.argv[1], 'a'); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-P", "-c", script, str(other)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as agent:
        assert agent.stdout.readline()
        assert collected(here) == []
        agent.communicate(b"\n")
    assert launched.Launched().known().agents
    assert collected(here) == [str(directory)]


@pytest.mark.parametrize("named", [False, True])
def test_one_with_a_living_relay_stays_until_the_relay_has_ended(here, other, tmp_path, named):
    directory = abandoned(other)
    options = ["--project", str(other)] if named else []
    program = tmp_path / "orchestrator"
    program.write_text("print(1, flush=True); input()")
    (other / "deep").mkdir()
    with subprocess.Popen(
        [sys.executable, str(program), "mcp", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        cwd=tmp_path if named else other / "deep",
    ) as relay:  # fmt: skip
        assert relay.stdout.readline()
        assert collected(here) == []
        relay.communicate(b"\n")
    assert collected(here) == [str(directory)]


def test_a_link_in_the_base_is_not_followed(here, other, base, tmp_path):
    directory = abandoned(other)
    target = tmp_path / "target"
    directory.rename(target)
    directory.symlink_to(target)
    assert collected(here) == []
    assert (target / "log").exists()
    directory.unlink()
    # Neither is a link in the place of the temporary directories, or of the lock.
    target.rename(directory)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kept").touch()
    run_directories.file_trees.remove(directory / "tmp")
    (directory / "tmp").symlink_to(tmp_path / "mine")
    aged(directory, OLD)
    assert collected(here) == [str(directory)]
    assert (tmp_path / "mine" / "kept").exists()


def test_nothing_is_made_or_removed_in_one_that_is_open_to_others(here, other):
    looked_at = project_location.run_dir(other)  # no daemon ever began here: it is empty
    looked_at.chmod(0o777)
    aged(looked_at, OLD)
    assert collected(here) == [] and list(looked_at.iterdir()) == []
    looked_at.chmod(0o700)
    directory = abandoned(other)
    directory.chmod(0o770)
    assert collected(here) == [] and (directory / "log").exists()
    directory.chmod(0o700)
    assert collected(here) == [str(directory)]


def test_a_lock_of_a_directory_that_was_removed_and_made_anew_is_none(here, other, monkeypatch):
    """Two sweeps at once: the second opened the lock, then waits until the first is through and a daemon begins."""
    directory, real, daemons = abandoned(other), fcntl.flock, []

    def late(fd, how):
        if not daemons:
            monkeypatch.setattr(run_directories.fcntl, "flock", real)
            run_directories.file_trees.remove(directory)
            daemons.append(daemon_connection.claim(project_location.run_dir(other)))
            aged(directory, OLD)
        real(fd, how)

    monkeypatch.setattr(run_directories.fcntl, "flock", late)
    assert collected(here) == []
    lock, listener = daemons[0]
    assert (directory / "lock").stat().st_ino == os.fstat(lock).st_ino and (directory / "socket").exists()
    os.close(lock)
    listener.close()


def test_a_daemon_that_begins_while_the_lock_is_being_removed_keeps_the_directory(here, other, monkeypatch):
    directory, daemons, real = abandoned(other), [], os.rmdir

    def late(path, **more):
        if str(path) == str(directory):
            daemons.append(daemon_connection.claim(directory))
        real(path, **more)

    monkeypatch.setattr(os, "rmdir", late)
    assert collected(here) == [str(directory)]
    lock, listener = daemons[0]
    assert (directory / "socket").exists()
    os.close(lock)
    listener.close()


def test_a_daemon_cannot_begin_in_a_directory_that_is_being_removed(here, other, monkeypatch):
    directory, tried = abandoned(other), []
    monkeypatch.setattr(
        run_directories.failpoints, "passed", lambda _: tried.append(daemon_connection.claim(directory))
    )
    assert collected(here) == [str(directory)]
    *refused, begun = tried
    assert set(refused) == {None} and len(refused) > 5
    for end in begun:  # the lock had no name any more
        os.close(end) if isinstance(end, int) else end.close()


KILLED = """
import os, sys
from pathlib import Path
from orchestrator.edge import project_location, run_directories
run_directories.collect(project_location.named_project(Path(sys.argv[1])), apply=True)
"""


@pytest.mark.parametrize("step", ["gc:run-directory-temporary", "gc:run-directory-file"])
def test_a_removal_that_was_killed_is_finished_by_the_next(here, other, tmp_path, step):
    directory, kill = abandoned(other), tmp_path / "kill"
    kill.write_text("self")
    env = {**os.environ, "ORCHESTRATOR_KILL_AT": f"{step}={kill}"}
    done = subprocess.run([sys.executable, "-P", "-c", KILLED, str(here.root)], env=env, check=False)
    assert done.returncode == -signal.SIGKILL and (directory / "lock").exists()
    assert collected(here) == [str(directory)]
    assert not directory.exists()


def test_the_marker_of_a_stop_names_its_boot(here):
    directory = project_location.run_dir(here.root)
    assert not project_location.is_stopped(directory)
    (directory / "stopped").write_text("a" * 100)
    project_location.write_stopped(directory)
    assert (directory / "stopped").read_text() == process_facts.boot_id()
    assert project_location.is_stopped(directory)
