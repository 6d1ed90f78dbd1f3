"""A host becomes the home of a run though its disk refuses or its daemon dies: what callers learn, what is kept."""

import errno
from dataclasses import replace

import pytest

from orchestrator.base import failpoints
from orchestrator.base.errors import Conflict, Environment
from orchestrator.config.keys import Config
from orchestrator.fleet import run_homes
from orchestrator.fleet.fleet_agent_ids import local_id
from orchestrator.journal import segments
from orchestrator.journal.syscalls import REAL
from orchestrator.team.roster import delivery
from tests.unit.fleet.test_hosts_together import created, deliver, fleet, on_a_loop, report, until


def results(run):
    """Number of results in the broadcast."""
    return [record["type"] for record in run.journal.tail(9, 1 << 20)].count("result")


@on_a_loop
async def test_a_take_that_the_disk_refuses_is_an_error_and_is_done_once_the_disk_accepts(tmp_path, monkeypatch):
    refused = []

    def refuse(path, ending):
        refused.append((path, ending))
        raise OSError(errno.ENOSPC, "No space left on device")

    async with fleet(tmp_path, "a", "b") as (_, hosts):
        old, new = hosts["a"], hosts["b"]
        await old.supervisor.team_panes.run_of_fleet("run-1", "")
        agent_id = await created(old, "b")
        await until(lambda: (agent_id, 1) in new.supervisor.launched)
        run = new.roster.runs["run-1"]
        with monkeypatch.context() as full:
            full.setattr(segments, "set_aside", refuse)
            with pytest.raises(Environment) as told:
                await new.member.homes.take("run-1")
            assert told.value.code == "disk_full"
            await delivery.enqueue(old.roster, agent_id, task_id="t1", payload=1, req="c:t1")
            await deliver(new, agent_id, "t1")
            await report(new, agent_id, "t1")
            tries = len(refused)
            await until(lambda: len(refused) > tries)
            assert "gen" not in run.file
        await until(lambda: run.file.get("gen") == 2)
        await until(lambda: results(run) == 1)


@on_a_loop
async def test_an_interrupted_take_keeps_the_former_broadcast(tmp_path):
    async with fleet(tmp_path, "a") as (_, hosts):
        home = hosts["a"]
        await home.supervisor.team_panes.run_of_fleet("run-1", "")
        agent_id = await created(home, "a")
        await until(lambda: (agent_id, 1) in home.supervisor.launched)
        run, place = home.roster.runs["run-1"], home.roster.paths.broadcast("run-1")
        await until(lambda: run.journal.last_seq)
        former = place.read_bytes()
        home.roster.begin_broadcast_anew(run, 2)
        await delivery.enqueue(home.roster, agent_id, task_id="t1", payload=1, req="c:t1")
        await deliver(home, agent_id, "t1")
        await report(home, agent_id, "t1")
        await until(lambda: results(run) == 1)
        derived = place.read_bytes()
        home.roster.begin_broadcast_anew(run, 2)
        assert place.with_name(f"{place.name}.before-2").read_bytes() == former
        assert place.read_bytes() == derived


@on_a_loop
async def test_a_position_of_another_home_is_refused_also_before_the_first_renewal(tmp_path):
    async with fleet(tmp_path, "a") as (_, hosts):
        homes = hosts["a"].member.homes
        with pytest.raises(Conflict) as refused:
            homes.check("run-1", 16, 2)
        assert (refused.value.code, refused.value.facts) == ("cursor_old", {"gen": 1})
        homes.check("run-1", 16, None)
        homes.check("run-1", 0, 2)


async def _die(*_):
    raise Environment("io_failed", "it dies")


@pytest.mark.parametrize("made_for", ["the home", "a new agent", "an agent that moves here"])
@on_a_loop
async def test_a_home_that_died_before_it_had_its_broadcast_takes_no_position_of_another(
    tmp_path, monkeypatch, made_for
):
    async with fleet(tmp_path, "a", "b", "c") as (model, hosts):
        old, new, lost = hosts["a"], hosts["b"], hosts["c"]
        await old.supervisor.team_panes.run_of_fleet("run-1", "")
        agent_id = await created(old, "c", on_host_lost="move")
        await until(lambda: old.entry(agent_id).state.life == "starting")
        new.member.lease.listeners.remove(new.member.homes.beaten)
        if made_for == "the home":
            with monkeypatch.context() as dying:
                dying.setattr(run_homes, "_saved", _die)
                with pytest.raises(Environment):
                    await new.member.homes.take("run-1")
        else:
            await new.database.take_run("run-1", 1)
        if made_for == "a new agent":
            await created(new, "b", req="d:1")
        elif made_for == "an agent that moves here":
            model.drain("shop", "a")
            await lost.crash()
        await until(lambda: "run-1" in new.roster.runs and (made_for == "the home" or new.supervisor.launched))
        await new.crash()
        model.cut("shop", "b")
        new.start()
        await new.join()
        with pytest.raises(Conflict) as refused:
            new.member.homes.check("run-1", 16, None)
        assert refused.value.code == "not_home"
        model.heal("shop", "b")
        await until(lambda: new.roster.runs["run-1"].file.get("gen") == 2)
        await until(lambda: "home" not in new.roster.runs["run-1"].file)
        new.member.homes.check("run-1", 16, 2)


@on_a_loop
async def test_a_home_that_died_before_its_broadcast_had_a_number_takes_no_position_of_the_former(
    tmp_path, monkeypatch
):
    def die(step):
        if step == "fleet:broadcast-anew":
            raise Environment("io_failed", "it dies")

    async with fleet(tmp_path, "a", "b") as (model, hosts):
        home, other = hosts["a"], hosts["b"]
        await home.supervisor.team_panes.run_of_fleet("run-1", "")
        await created(home, "a")
        home.member.lease.listeners.remove(home.member.homes.beaten)
        await other.database.take_run("run-1", 1)
        home.member.homes.check("run-1", 1, None)
        with monkeypatch.context() as dying:
            dying.setattr(failpoints, "passed", die)
            with pytest.raises(Environment):
                await home.member.homes.take("run-1")
        await home.crash()
        model.cut("shop", "a")
        home.start()
        await home.join()
        with pytest.raises(Conflict) as refused:
            home.member.homes.check("run-1", 1, None)
        assert refused.value.code == "not_home"
        model.heal("shop", "a")
        await until(lambda: home.roster.runs["run-1"].file.get("gen") == 3)
        home.member.homes.check("run-1", 1, 3)


@on_a_loop
async def test_a_home_that_died_while_it_set_the_former_broadcast_aside_goes_on(tmp_path, monkeypatch):
    """Of several segments some are left then, and the checkpoint in the cache knows of more."""
    whole, renamed = REAL.rename, []

    def die(source, target):
        if ".before-" in target.name:
            renamed.append(target)
            if len(renamed) == 2:
                raise OSError(errno.EIO, "it dies")
        whole(source, target)

    async with fleet(tmp_path, "a", "b") as (_model, hosts):
        home, other = hosts["a"], hosts["b"]
        home.config = Config(segment_bytes=4096)
        await home.supervisor.team_panes.run_of_fleet("run-1", "")
        agent_id = await created(home, "a")
        await until(lambda: (agent_id, 1) in home.supervisor.launched)
        await home.stop()
        home.start()
        await home.join()
        for n in range(20):
            await delivery.enqueue(home.roster, agent_id, task_id=f"t{n}", payload=1, req=f"c:t{n}")
            await deliver(home, agent_id, f"t{n}")
            await report(home, agent_id, f"t{n}", payload="x" * 400)
        await home.roster.flush()
        assert home.roster.checkpoints.run("run-1").position.seq == home.roster.runs["run-1"].journal.last_seq
        home.member.lease.listeners.remove(home.member.homes.beaten)
        await other.database.take_run("run-1", 1)
        with monkeypatch.context() as dying:
            dying.setattr(REAL, "rename", die)
            with pytest.raises(Environment):
                await home.member.homes.take("run-1")
        await home.crash()
        home.start()
        assert not home.roster.corrupt
        await home.join()
        await until(lambda: home.roster.runs["run-1"].file.get("gen") == 3)
        records = home.roster.runs["run-1"].journal.tail(99, 1 << 20)
        assert [r["task_id"] for r in records if r["type"] == "result"] == [f"t{n}" for n in range(20)]


@on_a_loop
async def test_a_run_whose_directory_a_dying_daemon_has_left_is_made_lasting(tmp_path, monkeypatch):
    async with fleet(tmp_path, "a") as (_, hosts):
        paths, synced, whole = hosts["a"].roster.paths, [], REAL.fsync_dir

        def sync(path):
            whole(path)
            synced.append(path)

        paths.run_dir("run-1").mkdir(parents=True)
        monkeypatch.setattr(REAL, "fsync_dir", sync)
        await hosts["a"].supervisor.team_panes.run_of_fleet("run-1", "a")
        assert paths.runs in synced


@on_a_loop
async def test_a_renewal_that_was_asked_for_before_the_run_was_taken_does_not_take_it_back(tmp_path):
    async with fleet(tmp_path, "a", "b") as (_, hosts):
        old, new = hosts["a"], hosts["b"]
        await old.supervisor.team_panes.run_of_fleet("run-1", "")
        agent_id = await created(old, "b")
        await until(lambda: (agent_id, 1) in new.supervisor.launched)
        await new.member.homes.take("run-1")
        await old.member.homes.take("run-1")
        before = await new.member.lease.renew(fresh=False)
        assert [(row.home, row.gen) for row in before.runs] == [("a", 3)]
        await new.member.homes.take("run-1")
        new.member.homes.beaten(before)
        new.member.homes.check("run-1", 1, 4)
        new.member.homes.beaten(replace(before, timeline=before.timeline + 1))
        with pytest.raises(Conflict):  # the database was restored to before the taking
            new.member.homes.check("run-1", 1, 4)


@on_a_loop
async def test_an_agent_keeps_the_id_under_which_the_broadcast_tells_of_it(tmp_path):
    async with fleet(tmp_path, "a") as (_, hosts):
        roster = hosts["a"].roster
        run = await hosts["a"].supervisor.team_panes.run_of_fleet("run-1", "")
        assert local_id(roster, "worker") == "worker"
        run.refs["worker@fleet"] = 3
        assert local_id(roster, "worker") == "worker@fleet"
