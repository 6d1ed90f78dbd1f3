"""How long a squad's results are kept, and when the files of an earlier daemon are taken over."""

import asyncio

import pytest

from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import BadRequest
from orchestrator.config.keys import Config
from orchestrator.core.file_models import MemberFile, SquadFile
from orchestrator.journal.project_files import Paths
from orchestrator.squad import squad_files
from orchestrator.squad.squads import Squads
from tests.support.team import FakeClock

KEEP_S, UNREAD_S = 100.0, 1000.0


@pytest.fixture
def world(tmp_path):
    """Squads over a project with a clock of its own, and what puts a squad on the disk."""
    clock, paths = FakeClock(), Paths(tmp_path)
    config = {"squad_keep_s": KEEP_S, "gc_after_s": UNREAD_S}

    def put(squad_id, **more):
        at = rfc3339(clock.now())
        member = MemberFile(
            member_id=f"{squad_id}-m0", role_id="coder", cwd=None, state="completed", chat_id=None, ended_at=at
        )
        file = SquadFile(
            v=1, squad_id=squad_id, req=f"r-{squad_id}", created_at=at, stateful=False, members=[member],
            **{"ended_at": at, **more},
        )  # fmt: skip
        squad_files.prepare(paths, squad_id, 1)
        (paths.squad_dir(squad_id) / "m0" / "stdout").write_text("paid")
        asyncio.run(squad_files.SquadRecord(paths.squad_json(squad_id), file, paths.provenance).write())

    return clock, paths, config, put, Squads(paths, clock, lambda: Config(**config))


def run(work):
    asyncio.run(work)


def test_results_are_kept_so_long_after_they_were_last_read_and_then_removed(world):
    clock, paths, _, put, squads = world
    put("a")

    async def body():
        await squads.recover()
        for _ in range(3):
            await clock.advance(KEEP_S - 1)
            assert (await squads.answer("a", 0, print))["members"][0]["rawStdout"] == "paid"
            await squads.sweep()
        await clock.advance(KEEP_S)
        await squads.sweep()
        assert len(squads.listed()) == 1
        await clock.advance(1)
        await squads.sweep()
        assert squads.listed() == []
        assert not paths.squad_dir("a").exists()
        with pytest.raises(BadRequest, match="no squad has the id 'a'"):
            await squads.answer("a", 0, print)

    run(body())


def test_results_that_nobody_has_read_are_kept_longer(world):
    clock, paths, _, put, squads = world
    put("a")

    async def body():
        await squads.recover()
        await clock.advance(UNREAD_S)
        await squads.sweep()
        assert paths.squad_json("a").exists()
        await clock.advance(1)
        await squads.sweep()
        assert not paths.squad_dir("a").exists()

    run(body())


def test_with_nothing_to_keep_results_go_once_they_were_read_but_not_before(world):
    clock, paths, config, put, squads = world
    config["squad_keep_s"] = 0.0
    put("a")

    async def body():
        await squads.recover()
        await squads.sweep()
        assert paths.squad_json("a").exists()
        await squads.answer("a", 0, print)
        await clock.advance(0.001)
        await squads.sweep()
        assert not paths.squad_dir("a").exists()

    run(body())


def test_members_that_had_not_ended_are_interrupted_and_what_had_stays(world):
    _, paths, _, put, squads = world
    put("done")
    put("open", ended_at=None)
    file = squad_files.read(paths.squad_json("open"), paths.provenance)
    file.members[0].state = "running"
    file.members.append(MemberFile(member_id="open-m1", role_id="coder", cwd=None, state="planned", chat_id=None))
    run(squad_files.SquadRecord(paths.squad_json("open"), file, paths.provenance).write())

    async def body():
        await squads.recover()
        assert squads.active == 1
        rows = (await squads.answer("open", None, print))["members"]
        assert [row["status"] for row in rows] == ["error", "error"]
        assert [row["reason"] for row in rows] == [
            "interrupted: the daemon ended",
            "interrupted: the daemon ended before it began",
        ]
        assert rows[0]["rawStdout"] == "paid"
        assert (await squads.answer("done", None, print))["members"][0]["status"] == "completed"
        assert squads.active == 0
        assert squad_files.read(paths.squad_json("open"), paths.provenance).ended_at

    run(body())


def test_a_squad_that_is_over_cannot_be_canceled_any_more(world):
    _, paths, _, put, squads = world
    put("a")

    async def body():
        await squads.recover()
        before = paths.squad_json("a").read_bytes()
        squads.cancel("a")
        assert (await squads.answer("a", 0, print))["members"][0]["status"] == "completed"
        assert b'"canceled":false' in before
        assert b'"canceled":false' in paths.squad_json("a").read_bytes()
        with pytest.raises(BadRequest):
            squads.cancel("b")

    run(body())
