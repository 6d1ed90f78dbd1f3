"""Lives that end in every way there is, on real processes and panes: told apart, fenced, and followed by the next."""

import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.crash.conftest import over
from tests.fakes.relays import until
from tests.support import sealed_files

AGENT = {"role": "r", "engine": "shell"}
GOES_ON = {**AGENT, "policies": {"on_pane_closed": "requeue"}}


def held(stage, master, agent, **more):
    """The agent has a task in hand that goes on until its file is touched; (task, file)."""
    task = stage.new("t")
    go = stage.base / f"{task}.go"
    master.do("task_enqueue", agent_id=agent, task={"task_id": task, "payload": stage.payload(hold=str(go), **more)})
    stage.record(agent, "progress", task)
    return task, go


def process(stage, agent, epoch=None):
    """The agent's CLI, as soon as it is there."""

    def look():
        for one in stage.agents():
            try:
                env = one.environ()
            except psutil.Error:
                continue
            if env.get("ORCHESTRATOR_AGENT_ID") == agent and epoch in (None, int(env["ORCHESTRATOR_AGENT_EPOCH"])):
                return one
        return None

    return until(look)


def exits(stage, agent):
    return [r for r in stage.found().outbox[agent] if r["type"] == "exited"]


def status(master, agent):
    meta = master.do("agent_get", agent_id=agent)["meta"]
    return meta["status"], meta["reason"]


def test_an_exit_a_signal_and_a_closed_pane_are_told_apart_and_cited(stage, faults):
    master = stage.master()
    agent = master.do("agent_create", name="a", **GOES_ON)["agent_id"]
    task = stage.new("t")
    master.do("task_enqueue", agent_id=agent, task={"task_id": task, "payload": stage.payload(exit_on=[1])})
    assert stage.ended(task)["attempt"] == 2
    assert [(e["how"], e["code"], e["signal"]) for e in exits(stage, agent)] == [("exit", 7, None)]

    task, go = held(stage, master, agent)
    process(stage, agent).send_signal(signal.SIGKILL)
    go.touch()
    assert stage.ended(task)["attempt"] == 2
    assert [(e["how"], e["code"], e["signal"]) for e in exits(stage, agent)][1:] == [("signal", None, 9)]

    task, go = held(stage, master, agent)
    pane = master.do("agent_get", agent_id=agent)["meta"]["tmux_pane_id"]
    stage.tmux("kill-pane", "-t", pane)
    stage.record(agent, "requeued", task)
    go.touch()
    assert stage.ended(task)["attempt"] == 2
    assert [e["how"] for e in exits(stage, agent)] == ["exit", "signal", "pane_closed"]
    meta = master.do("agent_get", agent_id=agent, wait_ms=20000)["meta"]
    cited = meta["evidence"][0]
    line = Path(cited["file"]).read_text().splitlines()[cited["seq"] - 1]
    assert (json.loads(line)["type"], json.loads(line)["seq"]) == (cited["type"], cited["seq"])
    faults("agent exits, told apart", 3)
    master.close()
    stage.finish()


def test_a_pane_that_is_closed_while_the_daemon_is_dead_counts_as_closed_by_hand(stage, faults):
    master = stage.master()
    agent = master.do("agent_create", name="a", **AGENT)["agent_id"]
    task, _ = held(stage, master, agent)
    after = stage.new("t")
    master.do("task_enqueue", agent_id=agent, task={"task_id": after, "payload": stage.payload()})
    pane = master.do("agent_get", agent_id=agent)["meta"]["tmux_pane_id"]
    [daemon] = stage.daemons()
    daemon.send_signal(signal.SIGSTOP)  # so that it does not see the pane go
    cli = process(stage, agent)
    stage.tmux("kill-pane", "-t", pane)
    until(lambda: over(cli))
    daemon.send_signal(signal.SIGKILL)
    end = stage.ended(task)
    assert (end["type"], end["payload"]["canceled_by"]) == ("canceled", "human")
    assert (stage.ended(after)["type"], stage.ended(after)["epoch"]) == ("result", 2)
    faults("pane closed while no daemon ran")
    master.close()
    stage.finish()


def test_a_stopped_process_is_said_to_be_stopped_until_it_goes_on(stage, faults):
    master = stage.master()
    agent = master.do("agent_create", name="a", **AGENT)["agent_id"]
    task, go = held(stage, master, agent)
    [one] = process(stage, agent).children()  # tmux lets the pane's own process go on at once
    one.send_signal(signal.SIGSTOP)
    try:
        blocked = stage.record(agent, "blocked")
        assert (blocked["kind"], str(one.pid) in blocked["reason"]) == ("suspended", True)
        assert status(master, agent)[0] == "blocked"
    finally:
        one.send_signal(signal.SIGCONT)
    stage.record(agent, "unblocked")
    go.touch()
    assert stage.ended(task)["attempt"] == 1
    faults("SIGSTOP of an agent")
    master.close()
    stage.finish()


def test_a_cli_that_outlives_its_pane_is_ended_before_the_next_life_begins(stage, faults):
    master = stage.master()
    agent = master.do("agent_create", name="a", **GOES_ON)["agent_id"]
    task, go = held(stage, master, agent, ignores=["SIGHUP", "SIGTERM"])
    old, pane = process(stage, agent), master.do("agent_get", agent_id=agent)["meta"]["tmux_pane_id"]
    stage.tmux("kill-pane", "-t", pane)
    new = process(stage, agent, epoch=2)
    assert over(old), "two lives at once"
    assert new.pid != old.pid
    [end] = exits(stage, agent)
    assert (end["how"], "still ran" in end["reason"]) == ("pane_closed", True)
    go.touch()
    assert stage.ended(task)["attempt"] == 2
    faults("agent outlives its pane")
    master.close()
    stage.finish()


def test_a_pane_that_a_human_takes_for_another_program_stays_theirs(stage, faults):
    master = stage.master()
    agent = master.do("agent_create", name="a", **GOES_ON)["agent_id"]
    task, go = held(stage, master, agent)
    pane = master.do("agent_get", agent_id=agent)["meta"]["tmux_pane_id"]
    stage.tmux("respawn-pane", "-k", "-t", pane, "env", "cat")
    stage.record(agent, "requeued", task)
    go.touch()
    assert stage.ended(task)["attempt"] == 2
    assert master.do("agent_get", agent_id=agent)["meta"]["tmux_pane_id"] != pane
    shown = stage.tmux("display-message", "-p", "-t", pane, "x#{@orchestrator_agent} #{pane_current_command}")
    assert shown == "x cat"
    stage.tmux("kill-pane", "-t", pane)
    faults("pane given to another program")
    master.close()
    stage.finish()


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "kill-server"])
def test_a_tmux_server_that_ends_outside_tmux_is_replaced_and_the_work_goes_on(stages, faults, how):
    """However it ends, the panes were not closed by hand: `on_lost` decides, not `on_pane_closed`."""
    stage = stages(detached=True)
    master = stage.master()
    agent = master.do("agent_create", name="a", **AGENT)["agent_id"]
    task, go = held(stage, master, agent)
    if how == "kill-server":
        stage.tmux("kill-server")
    else:
        os.kill(int(stage.tmux("display-message", "-p", "#{pid}")), getattr(signal, how))
    stage.record(agent, "requeued", task)
    go.touch()
    assert stage.ended(task)["attempt"] == 2
    [end] = exits(stage, agent)
    assert end["how"] == "tmux_gone"
    assert stage.panes().count(agent) == 1
    faults("tmux server killed")
    master.close()
    stage.finish()


def test_a_team_whose_tmux_server_is_gone_fails_and_goes_on_where_somebody_restarts_it(stage, faults):
    master = stage.master()
    agents = [master.do("agent_create", name=name, **AGENT)["agent_id"] for name in ("a", "b")]
    task, go = held(stage, master, "a")
    queued = stage.new("t")
    master.do("task_enqueue", agent_id="b", task={"task_id": queued, "payload": stage.payload(hold=str(go))})
    stage.record("b", "progress", queued)
    os.kill(int(stage.env["TMUX"].split(",")[1]), signal.SIGKILL)
    for agent in agents:
        failed = stage.record(agent, "failed")
        assert "the tmux server is gone" in failed["reason"]
        assert exits(stage, agent)[-1]["how"] == "tmux_gone"
    until(lambda: not stage.agents())
    master.end()
    stage.masters.remove(master)

    stage.tmux("-f", "/dev/null", "new-session", "-d", "-x", "220", "-y", "60", "--", "env", "cat")
    where = stage.tmux("display-message", "-p", "#{socket_path},#{pid},0 #{pane_id}").split()
    stage.env["TMUX"], stage.env["TMUX_PANE"] = where
    again = stage.master()
    for agent in agents:
        told = again.do("agent_restart", agent_id=agent)
        assert (told["ready"], told["epoch"]) == (True, 2)
    go.touch()
    assert [stage.ended(one)["attempt"] for one in (task, queued)] == [2, 2]
    assert sorted(stage.panes()) == ["", "a", "b"]
    [run] = stage.found().runs.values()
    assert run["server_pid"] == int(where[0].split(",")[1])
    faults("tmux server killed")
    again.close()
    stage.finish()


def test_a_pid_that_belongs_to_another_program_by_now_is_left_alone(stage, faults):
    master = stage.master()
    agent = master.do("agent_create", name="a", **AGENT)["agent_id"]
    place = stage.root / ".agents" / "agents" / agent / "engine" / "process.json"
    known = until(lambda: json.loads(place.read_text()) if place.exists() else None)
    pane = master.do("agent_get", agent_id=agent)["meta"]["tmux_pane_id"]
    [daemon] = stage.daemons()
    daemon.send_signal(signal.SIGSTOP)  # while it sleeps, the pane goes and the pid is used again
    stranger = psutil.Popen(["sleep", "300"])
    try:
        stage.tmux("kill-pane", "-t", pane)
        until(lambda: not psutil.pid_exists(known["pid"]))
        sealed_files.put(stage.env, stage.root, place, {**known, "pid": stranger.pid}, "agent", agent, "process")
        daemon.send_signal(signal.SIGKILL)
        ready = until(lambda: [r for r in stage.found().outbox[agent] if r["type"] == "restarted"])
        assert ready[0]["epoch"] == 2
        assert exits(stage, agent)[0]["how"] == "pid_reused"
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
    process(stage, agent, epoch=2)
    faults("pid reused")
    master.close()
    stage.finish()


def test_an_agent_that_dies_of_its_every_task_is_restarted_no_more_often_than_its_budget(stages, faults):
    stage = stages(config="max_restarts = 2\nrestart_backoff_s = 0.1\n")
    master = stage.master()
    agent = master.do("agent_create", name="a", **AGENT)["agent_id"]
    tasks = [stage.new("t") for _ in range(6)]
    gate = stage.base / "gate"  # else it may have failed before the last task comes
    for task in tasks:
        payload = stage.payload(exit_on=[1, 2], gate=str(gate))
        master.do("task_enqueue", agent_id=agent, task={"task_id": task, "payload": payload})
    gate.touch()
    failed = stage.record(agent, "failed")
    assert "relaunched 2 of 2 times" in failed["reason"]
    lives = [r for r in stage.found().outbox[agent] if r["type"] == "restarted"]
    assert len(lives) == 2
    [run] = stage.found().runs
    told = until(lambda: [r for r in stage.found().broadcast[run] if r["type"] == "failed"])
    assert told[0]["agent_id"] == agent
    assert master.do("agent_delete", agent_id=agent)["canceled_tasks"]
    faults("restart storm")
    master.close()
    stage.finish()
