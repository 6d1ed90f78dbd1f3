"""A home of the original tool becomes ours: copied first, changed at once or not at all, and readable ever after."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from orchestrator.base.errors import Environment
from orchestrator.spawn import artifacts, database_upgrade, ddl, queries
from orchestrator.spawn import transitions as steps
from orchestrator.spawn.database import Database
from tests.support import mounts
from tests.support.spawns import AT, OLD, in_home, old_home, opened, row

ROOT = Path(__file__).resolve().parents[3]
OPEN = """
import asyncio, sys
from pathlib import Path
from orchestrator.spawn import queries
from orchestrator.spawn.database import Database
async def main():
    db = Database(Path(sys.argv[1]))
    print(len(await db.read(queries.runs)))
    db.close()
asyncio.run(main())
"""


@pytest.fixture
def home(tmp_path):
    return old_home(tmp_path / "home")


def backups(home):
    return sorted(path for path in home.iterdir() if "backup" in path.name)


def rows(path):
    """All that a database of the original holds, table by table."""
    con = sqlite3.connect(path)
    try:
        return {
            name: con.execute(f"SELECT * FROM {name}").fetchall() for name in (*sorted(ddl.ORIGINAL), "_health_probe")
        }
    finally:
        con.close()


def columns(home):
    with opened(home) as con:
        return {name: {row[1] for row in con.execute(f"PRAGMA table_info({name})")} for name in ddl.tables(con)}


async def _all(db):
    return await db.read(lambda con: {one.id: one for one in queries.runs(con)})


def look(home):
    """What an upgraded home says; asserts all that must be so, however it came to be one."""

    async def play(db):
        runs = await _all(db)
        assert {name: run.status for name, run in runs.items()} == {
            "done": "completed", "going": "failed", "waiting": "failed", "stopped": "canceled",
        }  # fmt: skip
        assert [runs[name].error for name in ("going", "waiting")] == [database_upgrade.INTERRUPTED] * 2
        assert [runs[name].number for name in ("done", "going", "waiting", "stopped")] == [1, 2, 3, 4]
        for name, count in {"done": 3, "going": 6, "waiting": 4, "stopped": 3}.items():
            events = await db.read(queries.events, name)
            assert [event.seq for event in events] == list(range(1, count + 1))
            assert [event.message for event in events][:3] == ["event 1", "event 2", "event 3"]
            assert (events[1].node_id, events[1].level) == ("one", "warning")
        assert (await db.read(queries.last_event, "going")).message == f"run failed: {database_upgrade.INTERRUPTED}"
        assert [one.status for one in await db.read(queries.nodes, "going")] == ["completed", "failed", "canceled"]
        assert [one.status for one in await db.read(queries.nodes, "stopped")] == [
            "completed",
            "canceled",
            "canceled",
        ]
        assert await db.read(queries.unfinished) == []

    in_home(home, play)
    (kept,) = backups(home)
    assert kept.name.startswith("db.sqlite.backup-0.1.0-")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert (home.stat().st_mode & 0o777, (home / "db.sqlite").stat().st_mode & 0o777) == (0o700, 0o600)
    return kept


def test_an_old_home_is_copied_and_upgraded_and_its_unfinished_runs_have_failed(home):
    before = rows(home / "db.sqlite")
    kept = look(home)
    assert rows(kept) == before
    look(home)


def test_what_was_asked_is_read_as_far_as_it_can_be(home):
    async def play(db):
        runs = await _all(db)
        asked = runs["done"].request
        assert (asked.task, asked.mode, asked.budget, asked.count) == ("t done", "collective", "low", 2)
        assert (asked.role.persona, asked.role.stack, asked.merge.style) == ("p", ("a",), "concise")
        for name in ("going", "waiting", "stopped"):
            assert (runs[name].request.task, runs[name].request.mode) == (f"t {name}", "collective")

    in_home(home, play)


def test_nodes_costs_and_artifacts_of_old_runs_are_read_by_their_public_ids(home):
    async def play(db):
        nodes = await db.read(queries.nodes, "done")
        assert [(one.node.id, one.node.kind, one.node.needs) for one in nodes] == [
            ("one", "task", ()), ("two", "task", ()), ("merged", "merge", ("one", "two")),
        ]  # fmt: skip
        attempts = await db.read(queries.attempts, "done")
        assert [(one.node_id, one.spent, one.prompt_tokens) for one in attempts] == [
            (name, Decimal("0.00007"), 10) for name in ("one", "two", "merged")
        ]
        found = await db.read(queries.artifacts, "done")
        assert [(one.node_id, one.type, one.model) for one in found] == [
            ("one", "raw", "m/x"),
            ("merged", "merged", "m/x"),
        ]
        assert [artifacts.read(home, one) for one in found] == ['{"output": "é"}'.encode(), b"# Merged Output\n\nyes"]
        for name in ("one", "done:one"):
            assert await db.read(queries.artifact, "done", name) == found[0]

    in_home(home, play)


def test_an_upgraded_home_has_every_column_a_new_one_has_and_takes_new_runs(home, tmp_path):
    async def play(db):
        made = await db.write(steps.create, row(), AT)
        assert made.number == 5

    in_home(home, play)
    in_home(tmp_path / "new", play_nothing)
    ours = columns(home)
    assert ours.pop("_health_probe")
    assert ours == columns(tmp_path / "new")


async def play_nothing(db):
    await db.read(queries.runs)


def test_whatever_garbage_an_old_home_holds_it_is_upgraded(home):
    with opened(home) as con:
        con.execute(
            "UPDATE runs SET params_json = x'ff00', status = 'odd', budget = 9, mode = 'no' WHERE id = 'going'"
        )
        con.execute(
            "UPDATE nodes SET meta_json = '[', depends_on_json = '{}', cost_usd = 'much', kind = 'x' WHERE run_id = 'done'"
        )
        con.execute("INSERT INTO events VALUES ('lost', 'no such run', NULL, 'odd', 'm', 't')")
        con.execute("UPDATE artifacts SET type = 'odd' WHERE node_id = 'merged'")

    async def play(db):
        runs = await _all(db)
        assert (runs["going"].status, runs["going"].request.mode) == ("failed", "single")
        assert {one.node.needs for one in await db.read(queries.nodes, "done")} == {()}
        assert {one.spent for one in await db.read(queries.attempts, "done")} == {Decimal(0)}
        assert len(await db.read(queries.artifacts, "done")) == 2

    in_home(home, play)


def test_an_original_tool_that_goes_on_in_an_upgraded_home_is_let_alone_and_listed(home):
    look(home)
    with opened(home) as con:
        con.executescript(OLD)
        con.execute(
            "INSERT INTO runs (id, task, mode, budget, context, params_json, status, created_at, updated_at) "
            "VALUES ('theirs', 't', 'single', 'low', NULL, '{}', 'queued', ?, ?)",
            (AT, AT),
        )
        con.execute("INSERT INTO events VALUES ('e', 'theirs', NULL, 'warn', 'm', ?, NULL)", (AT,))

    async def play(db):
        assert (await db.write(steps.create, row(), AT)).number == 5
        assert [one.id for one in await db.read(queries.unfinished)] == ["r1"]
        assert await db.write(steps.begin, "r1", 1, AT)
        assert [one.id for one in await db.read(queries.runs)][-1] == "theirs"
        assert await db.read(queries.events, "theirs") == []

    in_home(home, play)


def test_a_home_with_the_designs_role_column_is_upgraded_too(home):
    with opened(home) as con:
        con.execute("ALTER TABLE nodes ADD COLUMN role_json TEXT")
    look(home)


KILLS = ["spawn.backup_copied", "spawn.backed_up", "spawn.half_upgraded", "spawn.upgraded"]


@pytest.mark.parametrize("step", KILLS)
def test_killed_at_any_step_the_next_opening_ends_right_with_one_copy(home, tmp_path, step):
    before = rows(home / "db.sqlite")
    (tmp_path / "kill").write_text("self")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "ORCHESTRATOR_KILL_AT": f"{step}={tmp_path / 'kill'}"}
    done = subprocess.run([sys.executable, "-P", "-c", OPEN, str(home)], env=env, capture_output=True, timeout=120)
    assert done.returncode == -9, done
    if step != "spawn.upgraded":
        assert {name: found for name, found in rows(home / "db.sqlite").items() if name in before} == before
    assert rows(look(home)) == before


def test_two_processes_that_upgrade_at_once_make_one_copy(home):
    before = rows(home / "db.sqlite")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    both = [
        subprocess.Popen([sys.executable, "-P", "-c", OPEN, str(home)], env=env, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    assert [one.communicate(timeout=120)[0] for one in both] == [b"4\n", b"4\n"]
    assert rows(look(home)) == before


def test_a_copy_of_other_content_is_never_written_over(home):
    stamps = iter((datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)))
    old = home.with_name("old")
    shutil.copytree(home, old)
    first = look(home)
    content = first.read_bytes()
    for path in (home / "db.sqlite", home / "db.sqlite-wal", home / "db.sqlite-shm"):
        path.unlink(missing_ok=True)
    shutil.copy(old / "db.sqlite", home / "db.sqlite")
    with opened(home) as con:
        con.execute("UPDATE runs SET task = 'another' WHERE id = 'done'")
    db = Database(home, lambda: next(stamps))

    async def once():
        try:
            return await db.read(queries.run, "done")
        finally:
            db.close()

    assert asyncio.run(once()).request.task == "another"
    assert len(backups(home)) == 2
    assert first.read_bytes() == content


def test_a_failure_within_the_upgrade_leaves_the_old_home(home, monkeypatch):
    before = rows(home / "db.sqlite")
    monkeypatch.setattr(database_upgrade, "_count", lambda con: con.execute("PRAGMA max_page_count = 1") and 1 / 0)

    async def play(db):
        with pytest.raises(ZeroDivisionError):
            await db.read(queries.runs)

    in_home(home, play)
    assert rows(home / "db.sqlite") == before
    monkeypatch.undo()
    look(home)


@pytest.mark.skipif(bool(mounts.why_no_mounts()), reason=mounts.why_no_mounts() or "it can")
def test_without_room_for_the_copy_nothing_is_changed(home, tmp_path):
    def body():
        place = tmp_path / "small"
        mounts.tmpfs(place, "size=400k")
        small = place / "home"
        shutil.copytree(home, small)
        before = rows(small / "db.sqlite")
        filler = mounts.fill(place)

        async def play(db):
            with pytest.raises(Environment) as found:
                await db.read(queries.runs)
            assert found.value.code == "disk_full"
            filler.unlink()
            assert rows(small / "db.sqlite") == before
            assert backups(small) == []
            assert len(await db.read(queries.runs)) == 4

        in_home(small, play)

    mounts.apart(body)
