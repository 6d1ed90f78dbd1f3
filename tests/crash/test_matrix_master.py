"""The master (its CLI and relay) killed with -9 at the steps of the daemon: the team works on, a new master finds it.

The daemon must finish what it was asked, or never have begun: there is nobody who would ask again. Here
stands a third of the steps, ``make soak`` has all.
"""

import psutil
import pytest

from tests.crash.conftest import over
from tests.crash.moves import AGENT, batches, third
from tests.fakes.relays import until


def enqueue(stage, master, worker):
    """The task is stored whole, or not at all."""
    task = stage.new("t")
    master.ask("task_enqueue", agent_id=worker, task={"task_id": task, "payload": stage.payload()})
    return lambda: stage.ended(task)["type"] == "result"


def cancel(stage, master, worker):
    task = stage.new("t")
    hold = stage.payload(hold=str(stage.base / "never"))
    master.do("task_enqueue", agent_id=worker, task={"task_id": task, "payload": hold})
    stage.record(worker, "ack", task)
    master.ask("task_cancel", agent_id=worker, task_id=task)
    return lambda: stage.ended(task)["type"] == "canceled"


def create(stage, master, _worker):
    agents = [stage.new("a"), stage.new("a")]
    master.ask("agents_create", agents=[{"name": name, **AGENT} for name in agents])

    def settled():
        for agent in agents:
            stage.record(agent, "ready")
            assert stage.panes().count(agent) == 1
        with_new_master(stage, lambda one: [one.do("agent_delete", agent_id=agent) for agent in agents])
        return True

    return settled


def delete(stage, master, _worker):
    agent, running, queued = stage.new("a"), stage.new("t"), stage.new("t")
    master.do("agent_create", name=agent, **AGENT)
    hold = stage.payload(hold=str(stage.base / "never"))
    for task in (running, queued):
        master.do("task_enqueue", agent_id=agent, task={"task_id": task, "payload": hold})
    stage.record(agent, "ack", running)
    master.ask("agent_delete", agent_id=agent)

    def settled():
        stage.record(agent, "deleted")
        assert [stage.ended(task)["type"] for task in (running, queued)] == ["canceled", "canceled"]
        return until(lambda: agent not in stage.panes())

    return settled


def lost(stage, master, _worker):
    """The agent's own death, with nobody watching."""
    agent, task = stage.new("a"), stage.new("t")
    master.do("agent_create", name=agent, **AGENT)
    master.ask("task_enqueue", agent_id=agent, task={"task_id": task, "payload": stage.payload(exit_on=[1])})

    def settled():
        assert (stage.ended(task)["type"], stage.ended(task)["attempt"]) == ("result", 2)
        with_new_master(stage, lambda one: one.do("agent_delete", agent_id=agent))
        return True

    return settled


def with_new_master(stage, do):
    one = stage.master()
    do(one)
    one.close()


ROWS = [
    *[(step, enqueue) for step in ("inbox:task:before", "inbox:task:after", "outbox:delivered:after", "outbox:ack:after")],
    *[(step, enqueue) for step in ("outbox:progress:after", "outbox:result:after", "broadcast:append:after")],
    *[(step, enqueue) for step in ("answer:task_enqueue", "answer:emit_event", "answer:wait_for_command")],
    *[(step, cancel) for step in ("inbox:cancel:before", "outbox:cancel_requested:after", "outbox:canceled:after")],
    *[(step, cancel) for step in ("inbox:cancel:after", "answer:task_cancel")],
    *[(step, create) for step in ("outbox:starting:before", "outbox:starting:after", "launch:written", "outbox:ready:after")],
    *[(step, create) for step in ("tmux:split-window", "tmux:set-option", "launch:released", "answer:agents_create")],
    *[(step, delete) for step in ("inbox:stop:before", "inbox:stop:after", "delete:process-ended", "outbox:stopped:after")],
    *[(step, delete) for step in ("tmux:kill-pane", "outbox:deleted:after", "answer:agent_delete")],
    *[(step, lost) for step in ("outbox:exited:after", "outbox:requeued:after", "outbox:restarted:after")],
    ("tmux:respawn-pane", lost),
]  # fmt: skip


def play(stage, rows):
    first = stage.master()
    worker = first.do("agent_create", name="w", role="r")["agent_id"]
    [daemon] = stage.daemons()
    first.close()
    for step, move in rows:
        stage.told()  # else the end of the move before may pass the step, and kill a master that has not asked yet
        master = stage.master()
        relay = psutil.Process(master.process.pid).children()
        stage.arm(step, master.victim)
        try:
            settled = move(stage, master, worker)
            stage.spent(step)
            master.gone()
            assert settled()
            stage.check(broadcast=False)
        except BaseException as error:
            error.add_note(f"killed at {step} of {move.__name__}")
            raise
        until(lambda relay=relay: all(over(one) for one in relay))
    assert [p.pid for p in stage.daemons()] == [daemon.pid], "the daemon never noticed"
    stage.finish()


@pytest.mark.parametrize("rows", batches(third(ROWS), 12))
def test_a_master_killed_at_any_step_leaves_a_team_that_works_on(stage, rows):
    play(stage, rows)


@pytest.mark.slow
@pytest.mark.parametrize("rows", batches(ROWS, 12))
def test_a_master_killed_at_every_step_leaves_a_team_that_works_on(stage, rows):
    play(stage, rows)


def test_a_delete_whose_master_died_also_ends_an_agent_that_would_not_stop_by_itself(stage):
    master = stage.master()
    env = {"FAKE_AGENT_IDLE": "1"}
    master.do("agent_create", name="deaf", role="r", engine="shell", env=env, ready_wait_ms=0)
    stage.arm("inbox:stop:after", master.victim)
    master.ask("agent_delete", agent_id="deaf")
    stage.spent("inbox:stop:after")
    master.gone()
    stage.deleted("deaf")
    stage.finish()


def test_a_command_line_that_dies_alone_takes_its_relay_with_it(stage):
    master = stage.master()
    agent = master.do("agent_create", name="w", role="r")["agent_id"]
    [relay] = psutil.Process(master.process.pid).children()
    master.ask("events_read", agent_id=agent, since_seq=2, wait_ms=40000)
    master.process.stdin.close()
    master.process.kill()
    until(lambda: over(relay))
    master.gone()
    stage.finish()
