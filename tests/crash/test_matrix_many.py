"""Thirty relays on one daemon that is killed, or ended, in the middle of each long call; the SDK's client sees nothing."""

import asyncio
import json
import os
import signal

import pytest
from mcp import Client, StdioServerParameters

from tests.crash.conftest import CLI, over
from tests.fakes.relays import until

RELAYS = 28  # and the master, the agent, and the agent that is made meanwhile: thirty and one
# The polls must last until the last death, however slow the machine is; and `quiet` never gets ready.
PATIENT = "poll_cap_ms = 600000\nready_timeout_s = 600\n"
IDLE = {"role": "r", "engine": "shell", "env": {"FAKE_AGENT_IDLE": "1"}}


def sdk(stage, env, *flags):
    return Client(
        StdioServerParameters(command=CLI[0], args=[*CLI[1:], *flags], env=env, cwd=stage.root), mode="legacy"
    )


def launched(stage, agent):
    """The environment of an agent, as its launch file has it."""
    launch = json.loads((stage.root / ".agents" / "agents" / agent / "engine" / "launch.json").read_text())
    return launch["env"]


async def told(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.structured_content
    return result.structured_content


async def fact(look, *arguments):
    return await asyncio.to_thread(look, *arguments)


async def in_the_middle_of_each_call(stage, end):
    """A wait, events and a creation, each with the daemon ended under it; every answer is the one it would have been."""
    async with sdk(stage, stage.env) as master:
        quiet = await told(master, "agent_create", name="quiet", ready_wait_ms=0, **IDLE)
        assert (quiet["ready"], quiet["status"]) == (False, "starting")
        await told(master, "agent_create", name="busy", ready_wait_ms=0, **IDLE)
        others = [await fact(stage.master) for _ in range(RELAYS)]
        asked = [other.ask("events_read", agent_id="quiet", since_seq=1, wait_ms=600000) for other in others]
        async with sdk(stage, launched(stage, "busy"), "--agent") as agent:
            waiting = asyncio.create_task(told(agent, "wait_for_command", agent_id="busy", timeout_ms=45000))
            await fact(stage.record, "busy", "ready")
            await end("")
            task = {"task_id": "t1", "payload": {"n": 1}}
            assert (await told(master, "task_enqueue", agent_id="busy", task=task))["position"] == 1
            command = (await waiting)["command"]
            assert (command["task_id"], command["attempt"], command["payload"]) == ("t1", 1, {"n": 1})
            for kind in ("ack", "progress", "result"):
                emitting = asyncio.create_task(told(agent, "emit_event", agent_id="busy", type=kind, payload=kind))
                await end(f"outbox:{kind}:after")  # armed before the task above begins to send
                answer = await emitting
                assert answer["ok"]
                assert "duplicate" not in answer
            events = (await told(master, "events_read", agent_id="busy"))["events"]
            assert [e["type"] for e in events] == ["starting", "ready", "delivered", "ack", "progress", "result"]

        creating = asyncio.create_task(told(master, "agent_create", name="late", role="r"))
        await end("outbox:starting:after")
        assert ((await creating)["agent_id"], (await creating)["ready"]) == ("late", True)
        assert len((await told(master, "agent_list", scope="all"))["agents"]) == 3
        assert len(stage.daemons()) == 1
        await told(master, "agent_delete", agent_id="quiet", force=True, confirm="quiet")
        answers = [await fact(other.told, key) for other, key in zip(others, asked, strict=True)]
        assert [(a["events"][0]["type"], error) for a, error in answers] == [("stopped", False)] * RELAYS
        for other in others:
            await fact(other.close)
        await told(master, "agent_delete", agent_id="busy", force=True, confirm="busy")  # deaf to a stop


def test_a_daemon_killed_under_thirty_relays_is_replaced_before_any_client_notices(stages):
    stage, deaths = stages(config=PATIENT), []

    async def kill(step):
        if step:
            stage.arm(step)
            await fact(stage.spent, step)
        else:
            os.kill(stage.daemon().pid, signal.SIGKILL)
        deaths.append(step)

    asyncio.run(in_the_middle_of_each_call(stage, kill))
    assert len(deaths) == 5
    stage.finish()


@pytest.mark.slow
def test_a_daemon_ended_by_sigterm_under_thirty_relays_is_replaced_before_any_client_notices(stages):
    stage, pids = stages(config=PATIENT), set()

    async def terminate(step):
        if step == "outbox:starting:after":
            await fact(stage.record, "late", "starting")
        # The last answer may have come from the daemon that was ending; the next one is started behind it. Looked for
        # without a turn for other tasks: the call of this step is not sent before the daemon is to end.
        daemon = stage.daemon()
        pids.add(daemon.pid)
        os.kill(daemon.pid, signal.SIGTERM)
        await fact(until, lambda: over(daemon))

    asyncio.run(in_the_middle_of_each_call(stage, terminate))
    assert len(pids) == 5
    stage.finish()


@pytest.mark.parametrize("tool", ["agent_create", "agents_create"])
def test_a_call_sent_again_to_the_daemon_that_is_at_work_on_it_makes_nothing_twice(stage, monkeypatch, tool):
    """A connection can break while its daemon lives: the relay then sends again what was not answered."""
    from orchestrator.edge.daemon_connection import connect, handshake_line
    from orchestrator.edge.project_location import find_project

    for name, value in stage.env.items():
        monkeypatch.setenv(name, value)
    master = stage.master()
    project = find_project(stage.root)
    one = {"name": "a", "role": "r"}
    arguments = one if tool == "agent_create" else {"agents": [one]}
    lines = [
        {"id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}}},
        {"method": "notifications/initialized"},
        {"id": 7, "method": "tools/call", "params": {"name": tool, "arguments": arguments}},
    ]
    said = b"".join(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n" for line in lines)
    answers = []
    links = [connect(project) for _ in range(3)]
    try:
        for boot, link in enumerate(links, 1):
            link.setblocking(True)
            greeting = handshake_line(
                project, kind="relay", conn="0123456789abcdef", boot=boot, toolsets=["team"], pending=[]
            )
            link.sendall(greeting + said)
        for link in links:
            with link.makefile("rb") as file:
                answer = next(m for m in map(json.loads, file) if m.get("id") == 7)["result"]["structuredContent"]
                answers.append(answer["agents"][0] if "agents" in answer else answer)
    finally:
        for link in links:
            link.close()
    assert [answer["agent_id"] for answer in answers] == ["a"] * 3, answers
    assert len(master.do("agent_list", scope="all")["agents"]) == 1
    master.close()
    stage.finish()
