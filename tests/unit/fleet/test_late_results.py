"""What a lost host reports after its return is shown as late: at the home, to the next attempt, and never as the outcome."""

import asyncio

import orjson
import pytest

from orchestrator.fleet.database_functions import KeptLateLine, LateLine
from orchestrator.fleet.late_results import PAGE_BYTES, end_of
from orchestrator.team.recovery import explanation
from orchestrator.team.roster import delivery, task_views
from orchestrator.team.roster.agent_views import meta_of
from tests.support.fleet_model import ModelSession
from tests.unit.fleet.test_hosts_together import created_and_launched, deliver, fleet, on_a_loop, report, until


async def lost_in_a_task(model, hosts):
    """An agent moved from b to its home a while it ran t1, which ended on b after that; the agent and its owner."""
    home, lost = hosts["a"], hosts["b"]
    agent_id = await created_and_launched(home, lost, on_host_lost="move")
    await delivery.enqueue(home.roster, agent_id, task_id="t1", payload=1, req="c:t1")
    await deliver(lost, agent_id, "t1")
    await until(lambda: home.entry(agent_id).state.lease)
    model.cut("shop", "b")
    await until(lambda: (agent_id, 2) in home.supervisor.launched, 60)
    assert (await report(lost, agent_id, "t1", payload={"built": "on b"}))["provisional"]
    return agent_id, home


def stranger(model):
    """The connection of a host that never ran the agent."""
    model.add_host("shop", "c")
    return ModelSession(model, "shop", "c")


def told(home, kind="late"):
    return [r for r in home.roster.runs["run-1"].journal.tail(100, 1 << 20) if r["type"] == kind]


def recorded(owner, agent_id):
    return [r for r in owner.entry(agent_id).outbox.tail(100, 1 << 20) if r["type"] == "late"]


@on_a_loop
async def test_an_agent_that_moved_away_and_back_while_its_host_was_away_goes_on_from_its_mirror(tmp_path):
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        agent_id, away = await lost_in_a_task(model, hosts)
        back = hosts["b"]
        await back.crash()
        await deliver(away, agent_id, "t1", epoch=2)
        await until(lambda: away.entry(agent_id).outbox.last_seq <= away.member.shipping.mirrored(agent_id))
        agent = model.tables.projects["shop"].agents[agent_id]
        agent.host, agent.fence = "b", 3
        model.heal("shop", "b")
        back.start()
        await back.join()
        await until(lambda: (agent_id, 3) in back.supervisor.launched)
        assert (back.root / ".agents" / "agents" / f"{agent_id}.fenced-1").is_dir()
        await delivery.enqueue(away.roster, agent_id, task_id="t2", payload=2, req="c:t2")
        await deliver(back, agent_id, "t2", epoch=3)
        (record,) = await until(lambda: recorded(back, agent_id))
        assert (record["task_id"], record["former_fence"]) == ("t1", 1)


@on_a_loop
async def test_the_master_and_the_next_attempt_see_a_late_result_and_the_outcome_is_that_of_the_owner(tmp_path):
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        home = hosts["a"]
        agent_id, new = await lost_in_a_task(model, hosts)
        model.heal("shop", "b")
        (record,) = await until(lambda: told(home))
        said = {"task_id": "t1", "kind": "result", "payload": {"built": "on b"}, "by": "orchestrator"}
        assert {key: record[key] for key in said} == said
        assert "not the outcome" in record["reason"]
        command = await deliver(new, agent_id, "t1", epoch=2)
        assert command["attempt"] == 2
        assert command["previous"]["late"]["kind"] == "result"
        assert command["previous"]["late"]["payload"] == {"built": "on b"}
        await report(new, agent_id, "t1", kind="error", epoch=2, payload="no")
        await until(lambda: home.entry(agent_id).state.ended("t1"))
        assert home.entry(agent_id).state.ended("t1").outcome == "error"
        assert home.entry(agent_id).state.outcomes == {"result": 0, "error": 1, "canceled": 0}
        why = explanation.of_task(home.root, "t1", None, lambda name: meta_of(home.roster, home.entry(name)))
        assert why["status"] == "error"
        assert "late result (not the outcome)" in why["reason"]
        assert "late" in [line["type"] for line in why["evidence"]]
        (late,) = task_views.task_of(home.root, agent_id, "t1")["late"]
        assert (late["kind"], late["host"], late["payload"]) == ("result", "b", {"built": "on b"})


@on_a_loop
async def test_a_late_result_is_recorded_once_also_if_the_owner_starts_again(tmp_path):
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        home = hosts["a"]
        agent_id, _ = await lost_in_a_task(model, hosts)
        model.heal("shop", "b")
        await until(lambda: told(home))
        await home.crash()
        home.start()
        await home.join()
        line = LateLine("outbox", 99, orjson.dumps({"type": "error", "task_id": "t1"}).decode())
        await hosts["b"].database.late(agent_id, 1, [line])  # the same task under the same fence
        await until(
            lambda: home.member.late_results._read.get(agent_id, 0) == home.member.lease.own[agent_id].late > 1
        )
        assert [record["kind"] for record in recorded(home, agent_id)] == ["result"]
        assert len(told(home)) == 1


@on_a_loop
async def test_late_lines_of_a_host_that_lies_are_passed_over_and_what_follows_is_recorded(tmp_path):
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        agent_id, new = await lost_in_a_task(model, hosts)
        lies = [
            '{"type":"result","task_id":"t1"', "", "[]", "7", '"result"', "{}", '{"type":"result"}',
            '{"type":"result","task_id":7}', '{"type":["result"],"task_id":"t1"}', '{"type":"result","task_id":"t9"}',
            '{"type":"deleted","task_id":"t1"}', '{"type":"result","task_id":"t1","payload":' + "[" * 300 + "]" * 300,
            '{"type":"result","task_id":"../../x"}', "x" * (PAGE_BYTES + 1), '{"type":"result","task_id":"t1"}',
        ]  # fmt: skip
        liar = stranger(model)
        lines = [LateLine("outbox", n, text) for n, text in enumerate(lies, 1)]  # the numbers of b's own records
        lines.append(LateLine("inbox", 1, '{"type":"result","task_id":"t1"}'))
        await liar.late(agent_id, 1, lines)
        await liar.late(agent_id, 7, [LateLine("outbox", 1, '{"type":"result","task_id":"t1"}')])
        await liar.late("nobody", 1, lines[:1])
        await until(lambda: new.member.late_results._read.get(agent_id, 0) == len(lines) + 1)
        assert recorded(new, agent_id) == []
        model.heal("shop", "b")
        (record,) = await until(lambda: recorded(new, agent_id))
        assert (record["host"], record["payload"]) == ("b", {"built": "on b"})
        assert new.entry(agent_id).state.unfinished["t1"].attempt == 2


def test_a_payload_that_is_too_large_or_too_deep_is_left_out_and_said():
    def line(text):
        return KeptLateLine(1, 1, "b", "outbox", 1, text)

    large = end_of(line('{"type":"result","task_id":"t1","payload":"' + "x" * 100 + '"}'), 50)
    assert large.payload is None and "102 bytes" in large.left_out
    deep = end_of(line('{"type":"result","task_id":"t1","payload":' + "[" * 300 + "]" * 300 + "}"), 1000)
    assert deep.payload is None and deep.left_out
    assert end_of(line('{"type":"result","task_id":"t1","payload":"x"}'), 50).payload == "x"


@pytest.mark.parametrize("restored", [False, True])
@on_a_loop
async def test_late_lines_are_read_while_they_are_new_and_again_after_the_database_was_restored(tmp_path, restored):
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        agent_id, new = await lost_in_a_task(model, hosts)
        other = stranger(model)
        before = model.copy()
        line = LateLine("outbox", 5, '{"type":"canceled","task_id":"t1"}')
        for fence in (3, 4):  # of no former owner
            await other.late(agent_id, fence, [line])
        await until(lambda: new.member.late_results._read.get(agent_id, 0) == 2)
        reads = []
        model.on_step = lambda step: reads.append(step.function) if step.function == "late_lines" else None
        for _ in range(3):
            await new.member.lease.renew(fresh=False)
            await asyncio.sleep(0)
        assert reads == []
        if restored:
            model.restore(before)
            await new.member.lease.renew(fresh=False)
        model.heal("shop", "b")
        assert (await until(lambda: recorded(new, agent_id)))[0]["kind"] == "result"
