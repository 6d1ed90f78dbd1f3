"""AC2: ten tasks end in ten terminal events, in the order they were queued, one at a time."""

import asyncio
from collections import Counter

import pytest

from tests.support.stage import TERMINAL, lines_of


def overlaps(records):
    """Pairs of tasks of which one was handed out while the other had not ended."""
    held, found = None, []
    for record in records:
        if record["type"] == "delivered":
            if held not in (None, record["task_id"]):
                found.append((held, record["task_id"]))
            held = record["task_id"]
        elif record["type"] in TERMINAL and record["task_id"] == held:
            held = None
    return found


def test_the_overlap_check_sees_an_overlap():
    one, two = ({"type": "delivered", "task_id": name} for name in "ab")
    assert overlaps([one, two]) == [("a", "b")]
    assert overlaps([one, {"type": "result", "task_id": "a"}, two]) == []


@pytest.mark.anyio
async def test_ten_tasks_of_two_clients_with_duplicates_end_in_ten_events_in_order_and_never_overlap(stage):
    async with stage.master() as one, stage.master(mode="legacy") as two:
        team = [{"name": name, "role": "builder"} for name in ("x", "y")]
        made = (await one.call_tool("agents_create", {"agents": team})).structured_content
        assert made["ready"] == 2

        async def give(client, agent, task_id):
            command = f'echo "start {task_id} $(date +%s%N)" >> ../{agent}.log; echo "end {task_id} $(date +%s%N)" >> ../{agent}.log'
            task = {"task_id": task_id, "payload": {"command": command}}
            first = (await client.call_tool("task_enqueue", {"agent_id": agent, "task": task})).structured_content
            again = (await client.call_tool("task_enqueue", {"agent_id": agent, "task": task})).structured_content
            assert again["duplicate"] is True
            assert (again["position"], again["task_id"]) == (first["position"], task_id)
            other = {"task_id": task_id, "payload": {"command": "false"}}
            taken = await client.call_tool("task_enqueue", {"agent_id": agent, "task": other})
            assert taken.structured_content["error"]["code"] == "task_exists"
            return task_id, first["position"]

        async def series(client, agent, prefix):
            return [await give(client, agent, f"{prefix}{n}") for n in range(5)]

        given = await asyncio.gather(
            *(series(client, agent, prefix) for agent in ("x", "y") for client, prefix in ((one, "a"), (two, "b")))
        )
        seen, seq, pages = [], 0, []
        while sum(event["type"] in TERMINAL for event in seen) < 20:
            asked = {"since_seq": seq, "wait_ms": 20_000, "max_events": 7}
            page = (await one.call_tool("broadcast_read", asked)).structured_content
            assert page["events"], "news came within the bound"
            assert all(event["seq"] > seq for event in page["events"]), "only the delta"
            seq = page["last_seq"]
            seen += page["events"]
            pages.append(len(page["events"]))
        assert max(pages) <= 7
        read, since, more = [], 0, True
        while more:
            page = (
                await one.call_tool("events_read", {"agent_id": "x", "since_seq": since, "max_events": 9})
            ).structured_content
            read += page["events"]
            since, more = page["last_seq"], page["more"]
    for agent, positions in (("x", given[0] + given[1]), ("y", given[2] + given[3])):
        inbox = [record for record in stage.records(agent, "inbox") if record["type"] == "task"]
        queued = [record["task_id"] for record in inbox]
        assert len(queued) == 10
        assert {record["task_id"]: record["position"] for record in inbox} == dict(positions)
        outbox = stage.records(agent)
        assert [record["seq"] for record in outbox] == list(range(1, len(outbox) + 1))
        assert [r["task_id"] for r in outbox if r["type"] == "delivered"] == queued
        assert [r["task_id"] for r in outbox if r["type"] in TERMINAL] == queued
        assert Counter(r["type"] for r in outbox)["result"] == 10
        assert overlaps(outbox) == []
        # What the commands themselves wrote, in their own time.
        said = [line.split() for line in (stage.root.parent / f"{agent}.log").read_text().splitlines()]
        assert [line[:2] for line in said] == [[what, task] for task in queued for what in ("start", "end")]
        assert [int(line[2]) for line in said] == sorted(int(line[2]) for line in said)
    # What the tools answer is what stands in the files.
    assert [event["seq"] for event in read] == [record["seq"] for record in stage.records("x")]
    (run,) = stage.run_files()
    told = lines_of(stage.root / ".agents" / "run" / run["run_id"] / "broadcast.jsonl")
    assert [record["seq"] for record in told] == list(range(1, len(told) + 1))
    ends = Counter((record["agent_id"], record["task_id"]) for record in told if record["type"] in TERMINAL)
    assert len(ends) == 20
    assert set(ends.values()) == {1}


def test_a_position_counts_the_unfinished_tasks_and_tasks_may_be_queued_before_the_agent_is_ready(stage):
    wire = stage.begun()
    made = wire.tool("agent_create", {"name": "a", "role": "r", "ready_wait_ms": 0})
    if not made["ready"]:  # a disk that syncs slowly lets the agent be first
        assert made["status"] == "starting"
        assert "agent_get" in made["note"]
    # None ends before all are queued, however slow this test is beside the agent.
    task = {"payload": {"command": "while [ ! -e go ]; do sleep 0.05; done"}}
    places = [wire.tool("task_enqueue", {"agent_id": "a", "task": task}) for _ in range(3)]
    assert [answer["position"] for answer in places] == [1, 2, 3]
    (stage.root / "go").touch()
    assert len({answer["task_id"] for answer in places}) == 3, "an id is made up when none is given"
    meta = wire.tool("agent_get", {"agent_id": "a", "wait_ms": 40_000})["meta"]
    assert meta["status"] != "starting"
    seq, ends = 0, []
    while len(ends) < 3:
        page = wire.tool("events_read", {"agent_id": "a", "since_seq": seq, "wait_ms": 20_000})
        assert page["events"]
        ends += [event for event in page["events"] if event["type"] in TERMINAL]
        seq = page["last_seq"]
    types = stage.types("a")
    assert types.index("ready") < types.index("delivered")
    assert [event["task_id"] for event in ends] == [answer["task_id"] for answer in places]
