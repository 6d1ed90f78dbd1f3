"""A run's record: a disk that refuses for a while costs a run nothing it has done, whatever it was about to do."""

import pytest

from orchestrator.base.clock import SystemClock
from orchestrator.base.errors import Environment
from orchestrator.spawn import fenced_writes, queries, transitions
from orchestrator.spawn.database import Database
from orchestrator.spawn.fenced_writes import Fenced, FencedWrites
from orchestrator.spawn.run_data import NodeEnd
from tests.support.spawns import AT, begun, in_home


class Refusing:
    """A database whose every second call finds a full disk; a change that it refuses may have been kept."""

    def __init__(self, db: Database, *, kept: bool = False) -> None:
        self._db, self._kept, self.calls = db, kept, 0

    async def write(self, fn, *args):
        return await self._every_second(self._db.write, fn, *args, kept=self._kept)

    async def read(self, fn, *args):
        return await self._every_second(self._db.read, fn, *args)

    async def _every_second(self, call, fn, *args, kept=False):
        self.calls += 1
        if self.calls % 2:
            if kept:
                await call(fn, *args)
            raise Environment("disk_full", "no room")
        return await call(fn, *args)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(fenced_writes, "AGAIN_S", 0)


def played(home, play, **how):
    async def run(db):
        await db.write(begun)
        row = await db.read(queries.run, "r1")
        return await play(
            FencedWrites(
                home, Refusing(db, **how), SystemClock(), row, changed=lambda _run_id: None, active_s=lambda: 7.0
            ),
            db,
        )

    return in_home(home, run)


@pytest.mark.parametrize("kept", [False, True])
def test_a_change_that_the_disk_refused_is_made_once(tmp_path, kept):
    async def play(mine, db):
        await mine.write(transitions.end_nodes, {"a": NodeEnd("skipped", "why", "said", "info")}, ("queued",))
        assert (await db.read(queries.run, "r1")).active_s == 7.0
        return [one.message for one in await db.read(queries.events, "r1")]

    assert played(tmp_path / "home", play, kept=kept).count("said") == 1


def test_a_run_is_read_and_its_files_are_written_though_the_disk_refuses_first(tmp_path):
    async def play(mine, _db):
        assert len(await mine.read(queries.nodes)) == 3
        assert await mine.is_ours()
        return await mine.store("a.json", b"{}", "a", "raw", "m", over=lambda: False)

    row = played(tmp_path / "home", play)
    assert (tmp_path / "home" / row.path).read_bytes() == b"{}"


def test_a_holder_that_was_replaced_writes_neither_rows_nor_files(tmp_path):
    async def play(mine, db):
        await db.write(transitions.release, "r1", 1, AT)
        with pytest.raises(Fenced):
            await mine.write(transitions.end_nodes, {"a": NodeEnd("skipped", "why", "said", "info")}, ("queued",))
        with pytest.raises(Fenced):
            await mine.store("a.json", b"{}", "a", "raw", "m", over=lambda: False)

    played(tmp_path / "home", play)
    assert not (tmp_path / "home" / "artifacts").exists()
