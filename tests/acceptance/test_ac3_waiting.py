"""AC3: wait_for_command returns in time, again and again; no client and no daemon that dies costs a task."""

import os
import signal
import time

import pytest

from tests.support.stage import TERMINAL, until

PAYLOAD = {"any": ["json", 1, None]}


@pytest.fixture
def two(stage):
    """A stage with two agents for whom the test speaks itself."""
    stage.boss = stage.begun()
    made = stage.boss.tool("agents_create", {"agents": [{"name": "a", "role": "r"}, {"name": "b", "role": "r"}]})
    assert made["ready"] == 2
    return stage


def wait(wire, agent, timeout_ms, **more):
    return wire.start("wait_for_command", {"agent_id": agent, "timeout_ms": timeout_ms, **more})


def arrived(wire):
    """Whether the daemon has read all that was sent before: what one connection brings is read in its order."""
    return "result" in wire.ask("ping")


def test_a_wait_returns_by_its_timeout_with_a_fresh_cursor_and_the_next_one_gets_the_task(two):
    agent = two.puppet("a")
    cursors = []
    for _ in range(3):
        more = {"cursor": cursors[-1]} if cursors else {}
        answer = agent.outcome(agent.answer(wait(agent, "a", 200, **more)))
        assert answer["status"] == "timeout"
        assert answer.keys() == {"status", "cursor", "reminder"}
        assert "wait_for_command" in answer["reminder"]
        cursors.append(answer["cursor"])
    assert len(set(cursors)) == 3
    poll = agent.outcome(agent.answer(wait(agent, "a", 0)))
    assert poll["status"] == "timeout"
    key = wait(agent, "a", 60_000)
    assert arrived(agent)
    two.boss.tool("task_enqueue", {"agent_id": "a", "task": {"task_id": "t", "payload": PAYLOAD}})
    answer = agent.outcome(agent.answer(key))
    assert answer["command"] | {"artifacts": ""} == {
        "kind": "task", "task_id": "t", "payload": PAYLOAD, "attempt": 1, "artifacts": "",
    }  # fmt: skip
    assert answer["command"]["artifacts"] == str(two.root / ".agents/agents/a/artifacts")
    for kind, more in (
        ("ack", {}),
        ("progress", {"payload": {"part": 1}}),
        ("result", {"payload": 42, "done": True}),
    ):
        told = agent.tool("emit_event", {"agent_id": "a", "task_id": "t", "type": kind, **more})
        assert told["ok"] is True
        assert told["cancel_requested"] is False
    again = agent.tool("emit_event", {"agent_id": "a", "task_id": "t", "type": "error", "payload": "late"})
    assert again["duplicate"] is True
    assert agent.tool("wait_for_command", {"agent_id": "a", "timeout_ms": 0})["status"] == "timeout"
    assert [r["type"] for r in two.records("a") if r.get("task_id") == "t"] == [
        "delivered",
        "ack",
        "progress",
        "result",
    ]


def test_a_client_that_vanishes_in_its_wait_or_with_a_task_in_hand_loses_nothing(two):
    agent = two.puppet("a")
    wait(agent, "a", 60_000)
    assert arrived(agent)
    agent.vanish()
    two.boss.tool("task_enqueue", {"agent_id": "a", "task": {"task_id": "t", "payload": PAYLOAD}})
    second = two.begun(agent.env, "--agent")
    assert second.tool("wait_for_command", {"agent_id": "a", "timeout_ms": 20_000})["command"]["task_id"] == "t"
    second.vanish()
    third = two.begun(agent.env, "--agent")
    again = third.tool("wait_for_command", {"agent_id": "a", "timeout_ms": 20_000})["command"]
    assert (again["task_id"], again["attempt"], again["payload"]) == ("t", 1, PAYLOAD)
    third.tool("emit_event", {"agent_id": "a", "type": "result"})
    assert [r["type"] for r in two.records("a") if r["type"] in TERMINAL] == ["result"]


def test_a_daemon_killed_in_a_wait_does_not_start_its_clock_anew_and_the_wait_is_answered_once(two):
    agent, other = two.puppet("a"), two.puppet("b")
    first, asked_s = until(two.daemon), 6.0
    marker = two.run_dir() / "stopped"
    marker.touch()
    key = wait(agent, "a", int(asked_s * 1000))
    assert arrived(agent)
    os.kill(first, signal.SIGKILL)
    over = time.monotonic() + asked_s
    until(lambda: time.monotonic() > over or None)  # no daemon can answer: it passes its time unanswered
    assert agent.answers(key) == []
    marker.unlink()
    assert arrived(agent), "the next daemon has the wait"
    fresh = other.tool("wait_for_command", {"agent_id": "b", "timeout_ms": int(asked_s * 500)})
    assert fresh["status"] == "timeout"
    # With its clock started anew, it would be answered after a wait half as long that began later. The relay passes
    # on in order: what the daemon has said to it by now stands before the answer to a call sent now.
    assert arrived(agent)
    assert [agent.outcome(answer)["status"] for answer in agent.answers(key)] == ["timeout"]


def test_a_daemon_killed_in_a_wait_hands_the_task_to_the_same_request_once(two):
    agent = two.puppet("a")
    key = wait(agent, "a", 50_000)
    assert arrived(agent)
    first = two.kill_daemon()
    queued = two.boss.tool("task_enqueue", {"agent_id": "a", "task": {"task_id": "t", "payload": PAYLOAD}})
    assert queued["position"] == 1
    assert agent.outcome(agent.answer(key))["command"]["task_id"] == "t"
    # The end of the task, sent to a daemon that is killed before it can answer, is stored once.
    os.kill(until(two.daemon), signal.SIGSTOP)  # what is sent now waits in the socket
    ended = agent.start("emit_event", {"agent_id": "a", "task_id": "t", "type": "result", "payload": 1})
    stopped = next(pid for pid, command in two.processes().items() if " daemon run " in command)
    os.kill(stopped, signal.SIGKILL)
    assert agent.outcome(agent.answer(ended))["ok"] is True
    assert first != until(two.daemon)
    assert [r["type"] for r in two.records("a") if r.get("task_id") == "t"] == ["delivered", "result"]
    assert len(agent.answers(key)) == len(agent.answers(ended)) == 1


def test_a_second_wait_of_one_agent_ends_the_first_with_a_timeout(two):
    agent = two.puppet("a")
    first = wait(agent, "a", 50_000)
    assert arrived(agent)
    second = wait(agent, "a", 50_000)
    assert agent.outcome(agent.answer(first))["status"] == "timeout"
    two.boss.tool("task_enqueue", {"agent_id": "a", "task": {"task_id": "t", "payload": None}})
    assert agent.outcome(agent.answer(second))["command"]["task_id"] == "t"


def test_the_real_worker_goes_on_after_a_killed_daemon_and_runs_each_task_once(two):
    wire = two.boss
    for number in range(3):
        command = f"echo ran-{number} >> ran.txt"
        wire.tool(
            "task_enqueue", {"agent_id": "a", "task": {"task_id": f"t{number}", "payload": {"command": command}}}
        )
        two.kill_daemon()
    until(lambda: sum(kind in TERMINAL for kind in two.types("a")) == 3)
    assert (two.root / "ran.txt").read_text().split() == ["ran-0", "ran-1", "ran-2"]
    assert two.types("a").count("ready") == 1
    assert [r["task_id"] for r in two.records("a") if r["type"] == "result"] == ["t0", "t1", "t2"]
