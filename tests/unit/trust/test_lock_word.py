"""`.agents/lock`: who holds it, the word in it, and that looking at it never keeps a daemon from claiming it."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from orchestrator.base.errors import Conflict, Environment
from orchestrator.journal import project_lock as claiming
from orchestrator.journal.project_files import Paths
from orchestrator.journal.project_lock import claim
from orchestrator.trust import lock_word

BOUND_S = 30.0


@pytest.fixture
def paths(tmp_path):
    (tmp_path / ".agents").mkdir()
    return Paths(tmp_path)


@pytest.fixture
def lock(paths):
    return paths.home / "lock"


def test_the_word_is_there_as_long_as_the_lock_is_held(paths, lock):
    assert (lock_word.lock_text(lock), lock_word.held(lock)) == ("", False)
    held = claim(paths, lock_word.STATE)
    assert (lock_word.lock_text(lock), lock_word.held(lock)) == ("state", True)
    assert lock_word.token(lock) == held.token != ""
    held.release()
    assert (lock_word.lock_text(lock), lock_word.held(lock)) == ("", False)
    assert lock_word.token(lock) == held.token, "it outlives its daemon"


def test_the_word_goes_with_a_process_that_is_killed(paths, lock):
    program = (
        "import sys; from pathlib import Path; from orchestrator.journal.project_lock import claim;"
        "from orchestrator.journal.project_files import Paths;"
        "held = claim(Paths(Path(sys.argv[1])), 'state'); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(paths.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        assert lock_word.lock_text(lock) == "state"
        with pytest.raises(Conflict) as refused:
            claim(paths, lock_word.TMP)
        assert refused.value.code == "daemon_running"
        assert lock_word.lock_text(lock) == "state", "who is refused writes nothing"
        other.kill()
    assert lock_word.lock_text(lock) == ""
    claim(paths, lock_word.TMP).release()


def test_a_program_that_looks_at_the_lock_does_not_keep_a_daemon_from_it(paths, lock, monkeypatch):
    """It was stopped in the middle of its look, as a busy machine does: the claim waits for its end."""
    monkeypatch.setattr(claiming, "LOOKED_AT_S", BOUND_S)
    lock.touch()
    looking = os.open(lock, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    refused, found = threading.Event(), []
    real = lock_word.held

    def held(path):
        refused.set()
        return real(path)

    monkeypatch.setattr(claiming.lock_word, "held", held)
    claims = threading.Thread(target=lambda: found.append(claim(paths, lock_word.TMP)), daemon=True)
    claims.start()
    assert refused.wait(BOUND_S)
    os.close(looking)
    claims.join(BOUND_S)
    assert lock_word.lock_text(lock) == "tmp"
    found[0].release()


def test_a_program_that_looks_for_ever_keeps_a_daemon_out_no_longer_than_a_bound(paths, lock, monkeypatch):
    monkeypatch.setattr(claiming, "LOOKED_AT_S", 0.0)
    lock.touch()
    with lock.open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        with pytest.raises(Conflict):
            claim(paths, lock_word.TMP)


def test_many_looks_and_many_claims_at_once_end_with_one_holder(paths, lock, monkeypatch):
    monkeypatch.setattr(claiming, "LOOKED_AT_S", BOUND_S)
    over, results, go = threading.Event(), [], threading.Barrier(4)

    def look():
        while not over.is_set():
            lock_word.lock_text(lock)

    def take():
        go.wait()
        try:
            results.append(claim(paths, lock_word.TMP))
        except Conflict as error:
            results.append(error)

    lookers = [threading.Thread(target=look, daemon=True) for _ in range(4)]
    takers = [threading.Thread(target=take, daemon=True) for _ in range(4)]
    for thread in (*lookers, *takers):
        thread.start()
    for thread in takers:
        thread.join(BOUND_S)
    over.set()
    for thread in lookers:
        thread.join(BOUND_S)
    holders = [one for one in results if not isinstance(one, Conflict)]
    assert (len(results), len(holders)) == (4, 1)
    holders[0].release()


@pytest.mark.parametrize("what", ["fifo", "link", "dangling", "directory", "hard link"])
def test_a_lock_that_is_no_file_of_its_own_is_refused_and_not_written_through(paths, lock, what):
    other = paths.root / "other"
    other.write_text("precious")
    if what == "fifo":
        os.mkfifo(lock)
    elif what == "directory":
        lock.mkdir()
    elif what == "hard link":
        os.link(other, lock)
    else:
        lock.symlink_to(other if what == "link" else paths.root / "nothing")
    assert not lock_word.held(lock)
    with pytest.raises(Environment) as refused:
        claim(paths, lock_word.TMP)
    assert refused.value.code == "io_failed"
    assert str(lock) in refused.value.next_step
    assert other.read_text() == "precious"
    assert not (paths.root / "nothing").exists()


def test_a_huge_lock_of_a_stranger_is_cut_to_the_word(paths, lock):
    with lock.open("wb") as file:
        file.write(b"state 1 ")
        file.truncate(1 << 40)
    held = claim(paths, lock_word.TMP)
    assert lock.read_text() == f"tmp {held.token}\n"
    held.release()


def test_a_disk_that_takes_no_word_leaves_none(paths, lock, monkeypatch):
    lock.write_text("state of a stranger")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(lock_word.os, "pwrite", full)
    held = claim(paths, lock_word.TMP)
    assert (held.token, lock.read_text(), lock_word.lock_text(lock)) == ("", "", "")
    assert lock_word.held(lock)
    held.release()


def test_a_lock_that_was_replaced_or_removed_is_noticed(paths, lock):
    held = claim(paths, lock_word.TMP)
    assert held.in_place()
    (lock.parent / "new").write_text("state 1")
    (lock.parent / "new").rename(lock)
    assert not held.in_place()
    assert not lock_word.held(lock), "nobody holds the new one"
    lock.unlink()
    assert not held.in_place()
    held.release()


def test_a_lock_that_is_replaced_while_it_is_claimed_is_claimed_anew(paths, lock, monkeypatch):
    replaced, acquire = [], claiming.FileLock.acquire

    def acquired(self, *args, **options):
        found = acquire(self, *args, **options)
        if len(replaced) < 3:
            replaced.append(1)
            lock.unlink()
            lock.touch()
        return found

    monkeypatch.setattr(claiming.FileLock, "acquire", acquired)
    held = claim(paths, lock_word.STATE)
    assert len(replaced) == 3
    assert held.in_place()
    assert lock_word.lock_text(lock) == "state"
    held.release()


def test_nothing_is_made_by_looking(tmp_path):
    assert lock_word.lock_text(tmp_path / "lock") == lock_word.token(tmp_path / "lock") == ""
    assert list(Path(tmp_path).iterdir()) == []
