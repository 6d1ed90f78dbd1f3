"""What a task's end names is copied to the home of its run: whole, at its place, and never outside of it."""

import asyncio

from orchestrator.fleet import host_verbs
from orchestrator.team.roster import delivery
from tests.unit.fleet.test_hosts_together import created, deliver, fleet, on_a_loop, report, until


async def one_of_b(hosts):
    home, owner = hosts["a"], hosts["b"]
    owner.verbs["artifact"] = lambda _host, body: asyncio.to_thread(
        host_verbs._chunk, owner.roster, str(body["agent"]), body
    )
    await home.supervisor.team_panes.run_of_fleet("run-1", "")
    agent_id = await created(home, "b")
    await until(lambda: (agent_id, 1) in owner.supervisor.launched)
    return home, owner, agent_id, owner.roster.paths.artifacts(agent_id)


async def ended(home, owner, agent_id, task_id, payload):
    await delivery.enqueue(home.roster, agent_id, task_id=task_id, payload=1, req=f"c:{task_id}")
    await deliver(owner, agent_id, task_id)
    await report(owner, agent_id, task_id, payload=payload)
    await until(lambda: home.entry(agent_id).state.ended(task_id))


@on_a_loop
async def test_an_artifact_of_several_parts_comes_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(host_verbs, "CHUNK_BYTES", 1000)
    async with fleet(tmp_path, "a", "b") as (_, hosts):
        home, owner, agent_id, place = await one_of_b(hosts)
        data = bytes(range(256)) * 41
        (place / "deep").mkdir()
        (place / "deep" / "x.bin").write_bytes(data)
        named = f"see {owner.root}/.agents/agents/{agent_id}/artifacts/deep/x.bin"
        await ended(home, owner, agent_id, "t1", {"text": named})
        copy = home.roster.paths.artifacts(agent_id) / "deep" / "x.bin"
        await until(copy.is_file)
        assert copy.read_bytes() == data


@on_a_loop
async def test_a_name_that_leads_out_copies_nothing_and_a_missing_one_does_not_stop_the_others(tmp_path):
    async with fleet(tmp_path, "a", "b") as (_, hosts):
        home, owner, agent_id, place = await one_of_b(hosts)
        (place / "last.txt").write_text("last")
        names = ["../../../../stolen.txt", "/etc/hostname", "missing.txt", "last.txt"]
        await ended(home, owner, agent_id, "t1", {"artifacts": names})
        there = home.roster.paths.artifacts(agent_id)
        await until((there / "last.txt").is_file)
        assert [path.name for path in there.rglob("*") if path.is_file()] == ["last.txt"]
        assert not (home.root.parent / "stolen.txt").exists()


@on_a_loop
async def test_an_artifact_whose_host_goes_away_is_copied_when_it_is_back(tmp_path):
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        home, owner, agent_id, place = await one_of_b(hosts)
        (place / "x.txt").write_text("x")
        chunk, asked = owner.verbs["artifact"], []

        def goes_away(host, body):
            asked.append(body)
            model.cut("shop", "b")
            return chunk(host, body)

        owner.verbs["artifact"] = goes_away
        await ended(home, owner, agent_id, "t1", {"artifacts": ["x.txt"]})
        await until(lambda: asked)
        await until(lambda: home.member.hosts.away_since("b"), 40)
        await until(lambda: home.member.copies._waiting, 40)
        owner.verbs["artifact"] = chunk
        model.heal("shop", "b")
        await until((home.roster.paths.artifacts(agent_id) / "x.txt").is_file, 40)
