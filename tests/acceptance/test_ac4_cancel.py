"""AC4: a cancel is seen at once by everybody, reaches the agent at its next call, and ends in one `canceled`."""

import pytest

from tests.support.stage import TERMINAL, alive, until


@pytest.fixture
def led(make_stage):
    """A stage with one agent of the shell engine, which gets all the time it needs to end by itself."""
    stage = make_stage("stop_grace_s = 30.0\n")
    stage.boss = stage.begun()
    assert stage.boss.tool("agent_create", {"name": "a", "role": "r"})["ready"]
    return stage


def give(stage, task_id, command="sleep 300"):
    task = {"task_id": task_id, "payload": {"command": command}}
    return stage.boss.tool("task_enqueue", {"agent_id": "a", "task": task})


def of_task(stage, task_id):
    return [record for record in stage.records("a") if record.get("task_id") == task_id]


def test_a_running_task_is_canceled_at_the_workers_next_call_and_a_queued_one_never_reaches_it(led):
    wire = led.boss
    for task_id in ("running", "queued", "last"):
        give(led, task_id, "true" if task_id == "last" else "echo begun > begun; sleep 300")
    until((led.root / "begun").exists)
    for task_id, state in (("queued", "canceled"), ("running", "running")):
        answer = wire.tool("task_cancel", {"agent_id": "a", "task_id": task_id})
        assert answer == {"ok": True, "state": "cancel_requested", "task_state": state}
        read = wire.tool("events_read", {"agent_id": "a"})["events"]
        assert [e["task_id"] for e in read if e["type"] == "cancel_requested"][-1] == task_id, "seen at once"
    until(lambda: [r["type"] for r in of_task(led, "last")][-1:] == ["result"])
    assert [r["type"] for r in of_task(led, "queued")] == ["cancel_requested", "canceled"]
    ended = [r for r in of_task(led, "running") if r["type"] in TERMINAL]
    assert [(r["type"], r["by"]) for r in ended] == [("canceled", "agent")]
    until(lambda: not any("sleep 300" in command for command in led.processes().values()))
    late = wire.tool("task_cancel", {"agent_id": "a", "task_id": "running"})["error"]
    assert (late["code"], late["outcome"]) == ("task_finished", "canceled")
    assert wire.tool("task_cancel", {"agent_id": "a", "task_id": "none"})["error"]["code"] == "unknown_task"


def test_a_cancel_is_in_every_view_while_the_agent_has_not_answered_and_nothing_is_killed(led):
    give(led, "t")
    until(lambda: "ack" in led.types("a"))
    sleeper = until(lambda: next((p for p, c in led.processes().items() if c.startswith("sleep 300")), None))
    led.hold("a")
    assert led.boss.tool("task_cancel", {"agent_id": "a", "task_id": "t"})["task_state"] == "running"
    meta = led.boss.tool("agent_get", {"agent_id": "a"})["meta"]
    assert meta["cancel_requested"] is True
    assert meta["running_task_id"] == "t"
    assert meta["tasks"][0]["cancel_requested"] is True
    assert led.boss.tool("agent_list")["agents"][0]["cancel_requested"] is True
    assert [r["type"] for r in led.records("a", "inbox")] == ["task", "cancel"]
    assert alive(sleeper), "a cancel kills nothing by itself"
    again = led.boss.tool("task_cancel", {"agent_id": "a", "task_id": "t"})
    assert again["ok"] is True
    assert [r["type"] for r in led.records("a", "inbox")] == ["task", "cancel"], "asked once"
    led.let_go()
    until(lambda: [r["type"] for r in of_task(led, "t")][-1] == "canceled")
    assert led.types("a").count("cancel_requested") == led.types("a").count("canceled") == 1
    assert led.boss.tool("agent_get", {"agent_id": "a"})["meta"]["cancel_requested"] is False


def test_an_agent_learns_of_a_cancel_from_every_answer_and_may_end_it_as_canceled_error(led):
    agent = led.puppet("a")
    led.boss.tool("task_enqueue", {"agent_id": "a", "task": {"task_id": "t", "payload": 1}})
    assert agent.tool("wait_for_command", {"agent_id": "a", "timeout_ms": 20_000})["command"]["kind"] == "task"
    assert agent.tool("emit_event", {"agent_id": "a", "type": "ack"})["cancel_requested"] is False
    led.boss.tool("task_cancel", {"agent_id": "a", "task_id": "t"})
    told = agent.tool("emit_event", {"agent_id": "a", "type": "progress", "payload": 1})
    assert told["cancel_requested"] is True
    assert "canceled" in told["reminder"]
    command = agent.tool("wait_for_command", {"agent_id": "a", "timeout_ms": 20_000})["command"]
    assert command == {"kind": "cancel", "task_id": "t"}
    ended = agent.tool("emit_event", {"agent_id": "a", "type": "error", "payload": {"canceled": True}, "done": True})
    assert (ended["ok"], ended["cancel_requested"]) == (True, False)
    assert [r["payload"] for r in of_task(led, "t") if r["type"] == "error"] == [{"canceled": True}]


def test_deleting_asks_first_and_force_needs_to_be_confirmed(led):
    give(led, "t")
    give(led, "u")
    until(lambda: "ack" in led.types("a"))
    worker = until(lambda: led.boss.tool("agent_get", {"agent_id": "a"})["meta"]["pid"])
    for confirm in ({}, {"confirm": "b"}):
        refused = led.boss.tool("agent_delete", {"agent_id": "a", "force": True, **confirm})
        assert refused["error"]["code"] == "confirm_needed"
    assert led.boss.tool("agent_list")["agents"][0]["status"] == "busy"
    ended = led.boss.tool("agent_delete", {"agent_id": "a"})
    assert ended == {"ok": True, "agent_id": "a", "status": "deleted", "canceled_tasks": ["t", "u"]}
    assert [r["how"] for r in led.records("a") if r["type"] == "stopped"] == ["stopped by itself"]
    until(lambda: not alive(worker))
    assert led.boss.tool("agent_delete", {"agent_id": "a"})["ok"], "asked again, it is the same answer"
    assert led.boss.tool("agent_create", {"name": "a", "role": "r"})["agent_id"] == "a-2"
    forced = led.boss.tool("agent_delete", {"agent_id": "a-2", "force": True, "confirm": "a-2"})
    assert forced["status"] == "deleted"
    assert [r["force"] for r in led.records("a-2", "inbox") if r["type"] == "stop"] == [True]
    assert (led.root / ".agents/agents/a/outbox.jsonl").exists(), "its files stay"
