"""The spawn runs' database: what is answered is committed, what failed left nothing, and no home is harmed."""

import asyncio
import contextlib
import fcntl
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from orchestrator.base.errors import Conflict, Corrupt, Environment
from orchestrator.spawn import database, ddl, owned_runs, queries, row_writes
from orchestrator.spawn import transitions as steps
from orchestrator.spawn.database import Database
from orchestrator.spawn.run_seals import HomeIdentity, Seals
from tests.support import mounts
from tests.support.spawns import AT, in_home, opened, row
from tests.support.stage import until

ROOT = Path(__file__).resolve().parents[3]
WRITER = ROOT / "tests" / "fakes" / "spawn_writer.py"


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def note(con, text, run_id="r1"):
    return row_writes.add_event(con, run_id, None, "info", text, AT)


def texts(con, run_id="r1"):
    return [event.message for event in queries.events(con, run_id, limit=10_000)][1:]


async def held(db):
    """A call that is being served, and the gate that lets it go on: what is called meanwhile waits together."""
    begun, gate = threading.Event(), threading.Event()

    def hold(con):
        begun.set()
        assert gate.wait(60)

    call = asyncio.ensure_future(db.write(hold))
    await asyncio.to_thread(begun.wait, 60)
    return call, gate


async def refused(wait, kind, code):
    with pytest.raises(kind) as found:
        await wait
    assert found.value.code == code
    return found.value


# -- one transaction for many -----------------------------------------------------------------------------------


def test_calls_that_wait_together_share_one_commit_and_one_that_fails_fails_alone(home):
    async def play(db):
        await db.write(steps.create, row(), AT)
        commits = []
        await db.write(
            lambda con: con.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
        )

        def fail(con, text):
            note(con, text)
            raise KeyError(text)

        first, gate = await held(db)
        calls = [asyncio.ensure_future(db.write(fail if at % 5 == 2 else note, f"m{at}")) for at in range(20)]
        await asyncio.sleep(0)
        del commits[:]
        gate.set()
        await first
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(one) for one in outcomes] == [KeyError if at % 5 == 2 else bool for at in range(20)]
        assert len(commits) == 2
        assert await db.read(texts) == [f"m{at}" for at in range(20) if at % 5 != 2]

    in_home(home, play)


def test_what_is_answered_is_committed_for_others_to_read(home):
    async def play(db):
        await db.write(steps.create, row(), AT)
        with opened(home) as con:
            for at in range(3):
                await db.write(note, f"m{at}")
                assert texts(con)[-1] == f"m{at}"

    in_home(home, play)


def test_when_the_commit_fails_all_its_callers_are_told_and_nothing_is_stored(home):
    def orphan(con):
        con.execute("PRAGMA defer_foreign_keys = ON")
        con.execute("INSERT INTO events VALUES ('x', 'no run', NULL, 'info', 'm', ?, 1)", (AT,))

    async def play(db):
        await db.write(steps.create, row(), AT)
        first, gate = await held(db)
        calls = [asyncio.ensure_future(db.write(*call)) for call in ((note, "a"), (orphan,), (note, "b"))]
        await asyncio.sleep(0)
        gate.set()
        await first
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(one) for one in outcomes] == [sqlite3.IntegrityError] * 3
        assert await db.read(texts) == []
        assert await db.write(note, "c")
        assert await db.read(texts) == ["c"]

    in_home(home, play)


def test_a_read_changes_nothing_and_sees_one_moment(home):
    async def play(db):
        await db.write(steps.create, row(), AT)
        assert await db.read(lambda con: note(con, "no"))

        def twice(con):
            before = texts(con)
            with opened(home) as other:
                note(other, "between")
            return before, texts(con)

        assert await db.read(twice) == ([], [])
        assert await db.read(texts) == ["between"]

    in_home(home, play)


@pytest.mark.parametrize("error", [KeyError, StopIteration, BaseExceptionGroup("g", [KeyboardInterrupt()])])
def test_no_error_of_a_call_leaves_its_caller_or_the_next_one_waiting(home, error):
    def fail(con):
        raise error

    async def play(db):
        for call in (db.write, db.read):
            with pytest.raises((KeyError, RuntimeError, BaseExceptionGroup)):
                await asyncio.wait_for(call(fail), 60)
        await db.write(steps.create, row(), AT)
        assert await db.read(texts) == []

    in_home(home, play)


def test_a_caller_that_went_away_before_its_turn_leaves_nothing(home):
    async def play(db):
        await db.write(steps.create, row(), AT)
        first, gate = await held(db)
        gone = asyncio.ensure_future(db.write(note, "gone"))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        gate.set()
        await first
        assert await db.write(note, "here")
        assert await db.read(texts) == ["here"]

    in_home(home, play)


def test_it_tells_that_somebody_else_has_written(home):
    async def play(db):
        await db.write(steps.create, row(), AT)
        first = await db.data_version()
        await db.write(note, "ours")
        assert await db.data_version() == first
        with opened(home) as con:
            note(con, "theirs")
        assert await db.data_version() != first

    in_home(home, play)


# -- the home ---------------------------------------------------------------------------------------------------


def test_nothing_is_made_before_the_first_call_and_all_of_it_is_the_users_alone(home):
    db = Database(home)
    assert not home.exists()
    db.close()

    async def play(db):
        await db.write(steps.create, row(), AT)
        assert home.stat().st_mode & 0o777 == 0o700
        assert {path.name: path.stat().st_mode & 0o777 for path in home.iterdir()} == {
            "db.sqlite": 0o600, "db.sqlite-wal": 0o600, "db.sqlite-shm": 0o600, "db.lock": 0o600,
        }  # fmt: skip

    in_home(home, play)


def _elsewhere(home):
    home.mkdir(0o700)
    (home / "db.sqlite").symlink_to(home.parent / "target")


def _open_to_others(home):
    home.mkdir()
    home.chmod(0o770)


def _no_directory(home):
    home.write_text("")


def _no_file(home):
    (home / "db.sqlite").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)


@pytest.mark.parametrize("make", [_elsewhere, _open_to_others, _no_directory, _no_file])
def test_a_home_that_cannot_be_trusted_is_not_used(home, make):
    make(home)
    in_home(home, lambda db: refused(db.read(texts), Environment, "home_unusable"))
    assert not (home.parent / "target").exists()


def test_a_home_of_another_user_is_not_used(home, monkeypatch):
    home.mkdir(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    in_home(home, lambda db: refused(db.read(texts), Environment, "home_unusable"))


def test_a_home_others_may_read_becomes_private(home):
    home.mkdir()
    home.chmod(0o755)
    (home / "db.sqlite").touch()
    (home / "db.sqlite").chmod(0o644)
    in_home(home, lambda db: db.write(steps.create, row(), AT))
    assert [path.stat().st_mode & 0o777 for path in (home, home / "db.sqlite")] == [0o700, 0o600]


def test_a_home_of_a_newer_version_is_left_alone(home):
    in_home(home, lambda db: db.write(steps.create, row(), AT))
    with opened(home) as con:
        con.execute(f"PRAGMA user_version = {ddl.VERSION + 1}")
    in_home(home, lambda db: refused(db.read(texts), Conflict, "home_newer"))


@pytest.mark.parametrize(
    "content", [b"no database at all, but long enough to be one" * 50, b"SQLite format 3\0" + b"\xff" * 8000]
)
def test_a_file_that_is_no_database_is_named_and_kept(home, content):
    home.mkdir(0o700)
    (home / "db.sqlite").write_bytes(content)

    async def play(db):
        error = await refused(db.read(texts), Corrupt, "corrupt_home")
        assert error.facts["file"] == str(home / "db.sqlite")

    in_home(home, play)
    assert (home / "db.sqlite").read_bytes() == content


def test_somebody_elses_database_is_refused_unchanged(home):
    home.mkdir(0o700)
    with opened(home) as con:
        con.execute("CREATE TABLE runs (what TEXT)")
    in_home(home, lambda db: refused(db.read(texts), Corrupt, "corrupt_home"))
    with opened(home) as con:
        assert ddl.tables(con) == {"runs"}


def test_a_damaged_page_is_told_to_who_needs_it(home):
    async def fill(db):
        await db.write(steps.create, row(), AT)
        await db.write(lambda con: [note(con, "x" * 3000) for _ in range(200)])

    in_home(home, fill)
    with (home / "db.sqlite").open("r+b") as file:
        size = file.seek(0, 2)
        file.seek(size // 2 // 4096 * 4096)
        file.write(b"\xaa" * 4096 * 20)

    async def play(db):
        await refused(db.read(texts), Corrupt, "corrupt_home")
        assert await db.read(queries.run, "r1")

    in_home(home, play)


def test_a_home_that_was_removed_while_it_was_open_begins_anew(home):
    async def play(db):
        await db.write(steps.create, row(), AT)
        for path in home.iterdir():
            path.unlink()
        home.rmdir()
        await db.write(steps.create, row("r2"), AT)
        await db.write(note, "kept", "r2")

    in_home(home, play)

    async def look(db):
        assert [one.id for one in await db.read(queries.runs)] == ["r2"]
        assert await db.read(texts, "r2") == ["kept"]

    in_home(home, look)


def test_a_home_that_another_process_has_made_anew_is_the_one_that_is_used(home):
    async def play(db):
        await db.write(steps.create, row(), AT)
        home.rename(home.with_name("away"))
        other = Database(home)
        await other.write(steps.create, row("r2"), AT)
        await db.write(note, "kept", "r2")
        assert await other.read(texts, "r2") == ["kept"]
        other.close()
        assert [one.id for one in await db.read(queries.runs)] == ["r2"]

    in_home(home, play)


# -- no room, and other faults ----------------------------------------------------------------------------------


def test_without_room_the_call_fails_clearly_and_the_next_one_works_when_there_is_some(home):
    def much(con):
        con.execute("PRAGMA max_page_count = 1")
        for at in range(200):
            note(con, f"{at}" + "x" * 1000)

    async def play(db):
        await db.write(steps.create, row(), AT)
        await refused(db.write(much), Environment, "disk_full")
        assert await db.read(texts) == []
        assert await db.write(note, "y" * 50_000)
        assert await db.read(texts) == ["y" * 50_000]

    in_home(home, play)


@pytest.mark.skipif(bool(mounts.why_no_mounts()), reason=mounts.why_no_mounts() or "it can")
def test_a_disk_that_is_really_full_loses_nothing_that_was_answered(tmp_path):
    def body():
        place = tmp_path / "small"
        place.mkdir()
        mounts.tmpfs(place, "size=600k")
        home = place / "home"
        stored = []

        async def play(db):
            await db.write(steps.create, row(), AT)
            with contextlib.suppress(Environment):
                while True:
                    await db.write(note, f"{len(stored)}" + "x" * 5000)
                    stored.append(len(stored))
            await refused(db.write(note, "y" * 50_000), Environment, "disk_full")
            assert len(await db.read(texts)) == len(stored) > 10
            mounts._mount("-o", "remount,size=4m", str(place))
            assert await db.write(note, "again")
            assert len(await db.read(texts)) == len(stored) + 1

        in_home(home, play)

    mounts.apart(body)


def test_a_long_wal_is_carried_over_into_the_file(home, monkeypatch):
    monkeypatch.setattr(database, "WAL_BYTES", 200_000)

    async def play(db):
        await db.write(steps.create, row(), AT)
        biggest = 0
        for _ in range(60):
            await db.write(note, "x" * 20_000)
            biggest = max(biggest, (home / "db.sqlite-wal").stat().st_size)
        assert 100_000 < biggest < 400_000
        assert (home / "db.sqlite").stat().st_size > 700_000
        # A reader that holds it: the WAL grows, nobody waits, and it is carried over once the reader has gone.
        with opened(home) as con:
            con.execute("BEGIN")
            texts(con)
            for _ in range(40):
                await db.write(note, "x" * 20_000)
            assert (home / "db.sqlite-wal").stat().st_size > 600_000
        for _ in range(20):
            await db.write(note, "x" * 20_000)
        assert (home / "db.sqlite-wal").stat().st_size < 600_000
        assert len(await db.read(texts)) == 120

    in_home(home, play)


# -- the lock, and the end --------------------------------------------------------------------------------------


@pytest.fixture
def taken(home):
    """The home's lock, held by somebody who stands still."""
    home.mkdir(0o700)
    with (home / "db.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def test_who_waits_for_a_lock_that_is_not_given_back_is_told(home, taken, monkeypatch):
    monkeypatch.setattr(database, "LOCK_WAIT_S", 0.05)

    async def play(db):
        error = await refused(db.write(steps.create, row(), AT), Environment, "io_failed")
        assert "db.lock" in error.message
        fcntl.flock(taken, fcntl.LOCK_UN)
        assert await db.write(steps.create, row(), AT)

    in_home(home, play)


def test_a_home_is_opened_and_carried_over_under_the_lock_alone(home, taken, monkeypatch):
    monkeypatch.setattr(database, "CLOSE_S", 0.1)
    monkeypatch.setattr(database, "LOCK_WAIT_S", 0.02)
    in_home(home, lambda db: refused(db.read(texts), Environment, "io_failed"))
    assert [path.name for path in home.iterdir()] == ["db.lock"]

    async def play(db):
        fcntl.flock(taken, fcntl.LOCK_UN)
        await db.write(steps.create, row(), AT)
        fcntl.flock(taken, fcntl.LOCK_EX)
        assert await db.read(queries.run, "r1")

    in_home(home, play)
    # The last one that closes would carry the WAL over, and remove it.
    assert (home / "db.sqlite-wal").stat().st_size > 0


def test_the_home_tells_whether_it_can_be_written(home):
    async def play(db):
        await db.write(ddl.probe)
        assert await db.read(lambda con: con.execute("SELECT COUNT(*) FROM _health_probe").fetchone()[0]) == 0
        await db.write(lambda con: con.execute("PRAGMA query_only = ON"))
        await refused(db.write(ddl.probe), Environment, "io_failed")

    in_home(home, play)


def test_closing_ends_also_while_the_lock_is_held_and_tells_who_waits(home, taken, monkeypatch):
    monkeypatch.setattr(database, "CLOSE_S", 0.1)

    async def play(db):
        call = asyncio.ensure_future(db.write(steps.create, row(), AT))
        await asyncio.sleep(0)
        db.close()
        await refused(asyncio.wait_for(call, 60), Environment, "io_failed")
        until(lambda: not db._thread.is_alive())

    in_home(home, play)


def test_closing_finishes_what_was_asked_and_refuses_what_comes_later(home):
    async def play(db):
        calls = [asyncio.ensure_future(db.write(steps.create, row(f"r{at}"), AT)) for at in range(5)]
        await asyncio.sleep(0)
        db.close()
        assert len(await asyncio.gather(*calls)) == 5
        await refused(db.read(texts), Environment, "io_failed")
        until(lambda: not db._thread.is_alive())
        db.close()

    in_home(home, play)


# -- several processes ------------------------------------------------------------------------------------------


def writer(home, name, acks, runs):
    words = [sys.executable, "-P", str(WRITER), str(home), name, str(acks), str(runs)]
    return subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True)


def check(home, acks):
    """What a checker finds: all that was answered is there once, events are dense, sums are those of the attempts."""
    told = Counter(acks.read_text().splitlines())
    assert not [line for line, count in told.items() if count > 1 and "number" not in line]

    async def look(db):
        runs = await db.read(queries.runs, None, 1000)
        assert sorted(run.number for run in runs) == list(range(1, len(runs) + 1))
        by_id = {run.id: run for run in runs}
        seals = Seals(HomeIdentity(home).recognize())
        going = {run.id for run in runs if run.status in ("queued", "running")}
        assert {run.id for run in await db.read(owned_runs.unfinished, seals, {})} == going
        done = {}
        for run in runs:
            events = await db.read(queries.events, run.id, 0, None, 10_000)
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            attempts = await db.read(queries.attempts, run.id)
            done[run.id] = {(one.node_id, one.attempt) for one in attempts if one.state == "done"}
            costs = await db.read(
                lambda con, key: [
                    tuple(one) for one in con.execute("SELECT id, cost_usd FROM nodes WHERE run_id = ?", (key,))
                ],
                run.id,
            )
            for key, cost in costs:
                name = key.removeprefix(f"{run.id}:")
                assert cost == float(
                    sum(one.spent for one in attempts if one.node_id == name and one.state == "done")
                )
        for line in told:
            run_id, what, *rest = line.split()
            run = by_id[run_id]
            if what == "number":
                assert run.number == int(rest[0])
            elif what == "settled":
                assert (rest[0], int(rest[1])) in done[run_id]
            else:
                assert run.status == "completed"
        assert await db.read(lambda con: con.execute("PRAGMA integrity_check").fetchone()[0]) == "ok"
        return len(runs)

    return in_home(home, look)


def test_two_processes_begin_an_empty_home_at_once_and_write_it_together(home, tmp_path):
    acks = tmp_path / "acks"
    writers = [writer(home, name, acks, 10) for name in ("x", "y")]
    for one in writers:
        assert one.wait(120) == 0, one.stderr.read()
        one.stderr.close()
    assert check(home, acks) == 20


def _told_or_ended(acks, enough, both):
    return acks.stat().st_size >= enough or any(one.poll() is not None for one in both)


def test_a_storm_of_kills_loses_nothing_that_was_answered_and_counts_nothing_twice(home, tmp_path):
    rng, acks = random.Random(6), tmp_path / "acks"
    acks.touch()
    for life in range(3):
        enough = acks.stat().st_size + rng.randint(1, 3000)
        both = [writer(home, f"{name}{life}", acks, 900) for name in "xy"]
        try:
            until(partial(_told_or_ended, acks, enough, both), 60)
            assert not any(one.poll() for one in both), [one.stderr.read() for one in both if one.poll()]
        finally:
            for one in both:
                one.kill()
                one.wait()
                one.stderr.close()
    assert check(home, acks) > 6


# -- a disk that errs -------------------------------------------------------------------------------------------

ERRING = """
import asyncio, sys
from pathlib import Path
from orchestrator.base.errors import Environment
from orchestrator.spawn import queries, transitions
from orchestrator.spawn.database import Database
from tests.support.spawns import AT, row

async def main():
    db, answered, refused = Database(Path(sys.argv[1])), [], 0
    for at in range(12):
        try:
            answered.append((await db.write(transitions.create, row(f"r{at}"), AT)).id)
        except Environment:
            refused += bool(answered)
    db.close()
    again = Database(Path(sys.argv[1]))
    assert [one.id for one in reversed(await again.read(queries.runs))] == answered
    assert await again.read(lambda con: con.execute("PRAGMA integrity_check").fetchone()[0]) == "ok"
    again.close()
    print(len(answered), refused)

asyncio.run(main())
"""


def _traces():
    return (
        shutil.which("strace")
        and not subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True).returncode
    )


@pytest.mark.skipif(not _traces(), reason="strace is missing or may not trace")
@pytest.mark.parametrize(
    "fault",
    [
        "fdatasync:error=EIO:when=20",
        "fdatasync:error=EIO:when=19..22",
        "pwrite64:error=ENOSPC:when=60..63",
        "pwrite64:error=EIO:when=75",
    ],
)
def test_whatever_the_disk_refuses_what_was_answered_is_there_and_nothing_else(home, fault):
    traced = ["strace", "-f", "-o", os.devnull, "-e", "trace=fdatasync,pwrite64", "-e", f"inject={fault}"]
    words = [*traced, sys.executable, "-P", "-c", ERRING, str(home)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answered, refused = map(int, done.stdout.split())
    assert answered > 0 < refused
