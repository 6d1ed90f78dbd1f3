"""Processes that stand still for a while, and a tmux server that is killed: nothing is lost, and nobody declared dead."""

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tests.crash.raw import log, ready
from tests.support.stage import TERMINAL, Wire, alive, until

HELD_S = 3.0  # beyond the settings below, which say when silence means something
CONFIG = "stall_after_s = 1\nready_timeout_s = 600\nstop_grace_s = 1\nkill_grace_s = 1\n"


@pytest.fixture
def team(make_stage):
    """A stage with a master and two agents."""
    stage = make_stage(CONFIG)
    wire = stage.begun()
    for name in ("a", "b"):
        ready(wire, name)
    return stage, wire


class Stopped:
    """Processes that stand still until the block ends, and for as long as silence may mean anything."""

    def __init__(self, *pids):
        self.pids = pids

    def __enter__(self):
        self.began = time.monotonic()
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP)
        return self

    def __exit__(self, *_):
        until(lambda: time.monotonic() > self.began + HELD_S)
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)


def enqueue(wire, agent_id, task_id, command="true"):
    task = {"task_id": task_id, "payload": {"command": command}}
    return wire.tool("task_enqueue", {"agent_id": agent_id, "task": task})


def ends(stage, agent_id):
    """The terminal events of the agent's tasks: task id -> types."""
    found = {}
    for record in stage.records(agent_id):
        if record["type"] in TERMINAL:
            found.setdefault(record["task_id"], []).append(record["type"])
    return found


def unhurt(stage, *agent_ids):
    """Nobody was given up, restarted or handed a task twice."""
    for agent_id in agent_ids:
        assert not {"exited", "restarted", "failed", "requeued"} & set(stage.types(agent_id)), stage.types(agent_id)
        delivered = [one["task_id"] for one in stage.records(agent_id) if one["type"] == "delivered"]
        assert len(delivered) == len(set(delivered)), delivered


def worker_of(stage, agent_id):
    """The agent's CLI, as the process in its pane."""
    pane = next(pane for pane, agent in stage.tagged().items() if agent == agent_id)
    return int(stage.server.show(pane, "#{pane_pid}"))


def relay_of(wire):
    """The relay of a master: below its CLI."""
    cli = until(lambda: wire.pid_file.exists() and int(wire.pid_file.read_text()))
    return until(lambda: [child.pid for child in psutil.Process(cli).children()])[0]


def test_a_daemon_that_stands_still_answers_everybody_afterwards(team, faults):
    stage, wire = team
    with ThreadPoolExecutor(20) as pool:
        wires = [stage.wire() for _ in range(20)]
        list(pool.map(Wire.begin, wires))
    daemon = stage.daemon()
    enqueue(wire, "b", "long", f"while [ ! -e {stage.base}/go ]; do sleep 0.1; done")
    until(lambda: "ack" in stage.types("b"))
    with Stopped(daemon):
        task = {"payload": {"command": "true"}}
        keys = [
            one.start("task_enqueue", {"agent_id": "a", "task": {"task_id": f"t{n}", **task}})
            for n, one in enumerate(wires)
        ]
    positions = [one.outcome(one.answer(key))["position"] for one, key in zip(wires, keys, strict=True)]
    assert all(position >= 1 for position in positions)
    assert "stalled" not in stage.types("a"), "it was we who stood still"
    until(lambda: len(ends(stage, "a")) == 20)
    (stage.base / "go").touch()
    until(lambda: ends(stage, "b") == {"long": ["result"]})
    assert set(map(tuple, ends(stage, "a").values())) == {("result",)}
    assert stage.daemon() == daemon
    assert all(len(one.answers(key)) == 1 for one, key in zip(wires, keys, strict=True))
    unhurt(stage, "a", "b")
    faults("world", 20)


def test_a_daemon_that_stands_still_under_load_and_again_loses_nothing(team, faults):
    stage, wire = team
    daemon = stage.daemon()
    for number in range(60):
        name = "ab"[number % 2]
        if number % 10 == 5:
            os.kill(daemon, signal.SIGSTOP)
            key = wire.start(
                "task_enqueue", {"agent_id": name, "task": {"task_id": f"t{number}", "payload": {"command": "true"}}}
            )
            os.kill(daemon, signal.SIGCONT)
            assert "error" not in wire.outcome(wire.answer(key))
            faults("world")
        else:
            assert "error" not in enqueue(wire, name, f"t{number}")
    for offset, name in enumerate("ab"):
        until(lambda name=name: len(ends(stage, name)) == 30)
        order = [one["task_id"] for one in stage.records(name) if one["type"] == "result"]
        assert order == [f"t{number}" for number in range(offset, 60, 2)]
    unhurt(stage, "a", "b")


def test_an_agents_cli_and_its_relay_that_stand_still_go_on_where_they_were(team, faults):
    stage, wire = team
    with Stopped(stage.hold("a")):
        stage.stopped.clear()
        assert enqueue(wire, "a", "t1")["state"] == "queued"
    until(lambda: ends(stage, "a") == {"t1": ["result"]})
    enqueue(wire, "b", "t2", "sleep 1")
    with Stopped(worker_of(stage, "b")):
        pass
    until(lambda: ends(stage, "b") == {"t2": ["result"]})
    unhurt(stage, "a", "b")
    faults("world", 2)


def test_the_relay_of_the_master_that_stands_still_loses_no_answer(team, faults):
    stage, wire = team
    stopped = relay_of(wire)
    other = stage.begun()
    with Stopped(stopped):
        keys = [wire.start("agent_list", {}) for _ in range(5)]
        assert "error" not in enqueue(other, "a", "t1")
        stage.kill_daemon()
        assert other.tool("agent_list", {"scope": "all"})["agents"]
    assert all(len(wire.outcome(wire.answer(key))["agents"]) == 2 for key in keys)
    assert all(len(wire.answers(key)) == 1 for key in keys)
    until(lambda: ends(stage, "a") == {"t1": ["result"]})
    faults("world")


STUBBORN = "trap '' HUP TERM; echo $$ > {}; while :; do sleep 1; done"


def test_when_the_tmux_server_is_killed_every_agent_ends_and_nothing_is_left(team, faults):
    stage, wire = team
    daemon = stage.daemon()
    held = stage.base / "held"
    enqueue(wire, "a", "t1", STUBBORN.format(held))
    enqueue(wire, "a", "t2")
    enqueue(wire, "b", "t1")
    until(lambda: held.exists() and held.read_text().strip())
    until(lambda: ends(stage, "b") == {"t1": ["result"]})
    ours = {pid for pid, command in stage.processes().items() if " worker" in command or "--agent" in command}
    os.kill(int(stage.server.show(next(iter(stage.tagged())), "#{pid}")), signal.SIGKILL)
    for name in ("a", "b"):
        until(lambda name=name: "exited" in stage.types(name))
    assert stage.daemon() == daemon
    rows = {row["agent_id"]: row for row in wire.tool("agent_list", {"scope": "all"})["agents"]}
    assert {row["status"] for row in rows.values()} <= {
        "failed",
        "exited",
        "starting",
        "idle",
        "busy",
        "stalled",
        "unknown",
    }, rows
    for name in ("a", "b"):
        gone = wire.tool("agent_delete", {"agent_id": name})
        assert gone.get("ok"), gone
    assert all(len(kinds) == 1 for name in ("a", "b") for kinds in ends(stage, name).values())
    assert set(ends(stage, "a")) == {"t1", "t2"}
    until(lambda: not [pid for pid in {*ours, int(held.read_text())} if alive(pid)])
    ready(wire, "again")
    assert "error" not in enqueue(wire, "again", "t1")
    until(lambda: ends(stage, "again") == {"t1": ["result"]})
    assert "Traceback" not in log(stage)
    faults("world")


def test_a_cli_that_outlives_its_tmux_server_ends_with_its_agent(make_stage, faults):
    """SIGHUP is all that a vanished terminal says, and some CLIs do not hear it."""
    stage = make_stage(CONFIG)
    wire = stage.begun()
    worker = [sys.executable, "-P", "-m", "orchestrator", "worker"]
    ready(wire, "a", engine="command", command=["nohup", *worker])
    pid = worker_of(stage, "a")
    os.kill(int(stage.server.show(next(iter(stage.tagged())), "#{pid}")), signal.SIGKILL)
    until(lambda: "exited" in stage.types("a") or not alive(pid))
    gone = wire.tool("agent_delete", {"agent_id": "a"})
    assert gone.get("ok"), gone
    until(lambda: not alive(pid))
    faults("world")
