"""A full disk in the middle of a task's life: a clear error, nothing acknowledged lost, and the next call works."""

import asyncio
import errno
from pathlib import Path

import pytest

from orchestrator.base.errors import Environment
from orchestrator.core import supervision
from orchestrator.journal.project_files import replace
from orchestrator.journal.syscalls import SysIO
from orchestrator.team.roster import delivery
from tests.crash.checker import check
from tests.support.team import Team, settle


@pytest.fixture
def disk(monkeypatch):
    """The disk of every log: ``disk["full"]`` is a file name's part that has no room, ``disk["short"]`` bytes left."""
    state = {"full": None, "short": 0}
    real = SysIO.pwrite

    def pwrite(self, fd, data, offset):
        name = str(Path(f"/proc/self/fd/{fd}").readlink())
        if state["full"] is not None and state["full"] in name:
            if state["short"]:
                return real(self, fd, data[: state["short"]], offset)
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, fd, data, offset)

    monkeypatch.setattr(SysIO, "pwrite", pwrite)
    return state


def reloaded(tmp_path, team):
    """The story the files tell, checked, and folded by a new daemon's eyes."""
    team.roster._publish(team.roster.runs["run-1"])
    team.close()
    check(tmp_path)
    again = Team(tmp_path).load()
    state = again.roster.agents["a1"].state
    again.close()
    return state


async def wait(team, req="a:w"):
    answer = delivery.wait_for_command(team.roster, "a1", 1, timeout_s=0, age_s=0, req=req)
    return (await answer).get("command")


async def emit(team, kind, req):
    return await delivery.emit_event(
        team.roster, "a1", 1, kind=kind, task_id=None, payload={"k": kind}, done=None, req=req
    )


def enqueue(team, task_id, req):
    return delivery.enqueue(team.roster, "a1", task_id=task_id, payload={"n": task_id}, req=req)


@pytest.mark.parametrize("short", [0, 9])
def test_an_enqueue_on_a_full_disk_is_refused_and_works_once_there_is_room(tmp_path, disk, short):
    async def life():
        team = Team(tmp_path)
        await team.agent()
        assert (await enqueue(team, "t1", "c:1"))["position"] == 1
        disk.update(full="inbox.jsonl", short=short)
        with pytest.raises(Environment) as refused:
            await enqueue(team, "t2", "c:2")
        assert refused.value.code == "disk_full"
        assert (await wait(team))["task_id"] == "t1", "what was acknowledged is handed out"
        disk.update(full=None)
        assert (await enqueue(team, "t2", "c:2"))["position"] == 2
        assert (await enqueue(team, "t3", "c:3"))["position"] == 3
        return team

    team = asyncio.run(life())
    assert list(reloaded(tmp_path, team).unfinished) == ["t1", "t2", "t3"]


@pytest.mark.parametrize("short", [0, 9])
@pytest.mark.parametrize("kind", ["ack", "progress", "result", "error"])
def test_an_event_on_a_full_disk_is_refused_and_works_when_sent_again(tmp_path, disk, short, kind):
    async def life():
        team = Team(tmp_path)
        await team.agent()
        await enqueue(team, "t1", "c:1")
        await wait(team)
        disk.update(full="outbox.jsonl", short=short)
        with pytest.raises(Environment) as refused:
            await emit(team, kind, "a:1")
        assert refused.value.code == "disk_full"
        disk.update(full=None)
        answer = await emit(team, kind, "a:1")
        assert answer["ok"]
        assert "duplicate" not in answer
        return team

    team = asyncio.run(life())
    state = reloaded(tmp_path, team)
    assert ("t1" in state.finished) == (kind in ("result", "error"))


def test_a_cancel_whose_consequence_found_no_room_is_carried_out_by_the_next_write(tmp_path, disk):
    async def life():
        team = Team(tmp_path)
        entry = await team.agent()
        await enqueue(team, "t1", "c:1")
        disk.update(full="outbox.jsonl")
        with pytest.raises(Environment):
            await delivery.cancel(team.roster, "a1", task_id="t1", req="c:2")
        disk.update(full=None)
        assert await wait(team) is None, "a canceled task is never handed out"
        await enqueue(team, "t2", "c:3")
        assert entry.state.finished["t1"].outcome == "canceled"
        return team

    team = asyncio.run(life())
    assert list(reloaded(tmp_path, team).unfinished) == ["t2"]


def test_a_digest_that_found_no_room_is_told_later_and_in_order(tmp_path, disk):
    async def life():
        team = Team(tmp_path)
        await team.agent()
        disk.update(full="broadcast.jsonl")
        for number in range(3):
            await enqueue(team, f"t{number}", f"c:{number}")
            await wait(team, f"w:{number}")
            await emit(team, "result", f"a:{number}")
            await team.clock.advance(0.1)
        assert team.roster.runs["run-1"].journal.last_seq == 0
        disk.update(full=None)
        await team.clock.advance(5.0)
        assert team.roster.runs["run-1"].journal.last_seq == 5  # starting, ready, three results
        return team

    team = asyncio.run(life())
    assert not reloaded(tmp_path, team).unfinished


def test_an_agent_that_found_no_room_leaves_nothing_and_its_name_is_free(tmp_path, disk):
    async def life():
        team = Team(tmp_path)
        await team.agent()
        for name in ("outbox.jsonl", "launch.json"):
            disk.update(full=name)
            draft = supervision.starting("a2", at="2026-01-01T00:00:00.000Z", req="c:a2", spec={"run_id": "run-1"})

            def prepare(entry):
                replace(team.paths.launch(entry.agent_id), b"{}", mode=0o600)

            with pytest.raises(Environment):
                await team.roster.create("a2", draft, prepare)
            disk.update(full=None)
            assert not team.paths.agent_dir("a2").exists()
            assert team.roster.new_id("a2") == "a2"
            assert "c:a2" not in team.roster.by_req
        await settle()
        return team

    reloaded(tmp_path, asyncio.run(life()))
