"""The shell worker killed with -9 at every step of a task: its command dies with it, the task runs again or has ended."""

import os
import signal

import psutil

from tests.crash.conftest import over
from tests.fakes.relays import until

MANY_LIVES = "max_restarts = 20\n"


def enqueue(stage, master, agent, task, more=""):
    command = f'echo {task} >> "{stage.base}/runs"; {more}'
    master.do("task_enqueue", agent_id=agent, task={"task_id": task, "payload": {"command": command}})


def runs(stage, task):
    path = stage.base / "runs"
    return path.read_text().split().count(task) if path.exists() else 0


def pids(stage, task, count):
    """The pids a task's command wrote down, once there are that many and all live."""
    path = stage.base / f"{task}.pids"

    def look():
        found = path.read_text().split("\n")[:-1] if path.exists() else []
        return [psutil.Process(int(pid)) for pid in found] if len(found) == count else None

    return until(look)


def pane_pid(stage, agent):
    for line in stage.tmux("list-panes", "-a", "-F", "#{@orchestrator_agent} #{pane_pid}").split("\n"):
        name, _, pid = line.rpartition(" ")
        if name == agent:
            return int(pid)
    return None


def test_a_worker_killed_at_any_step_of_a_task_ends_it_once_and_never_reruns_what_was_reported(stages):
    stage = stages(fake=False, config=MANY_LIVES)
    master = stage.master()
    agent = master.do("agent_create", name="w", role="r")["agent_id"]
    wanted = [  # step, the attempt that ends the task, how often its command may have run
        ("worker:ack:before", 2, (1,)),
        ("worker:ack:after", 2, (1,)),
        ("worker:started", 2, (1, 2)),
        ("worker:end:before", 2, (2,)),
        ("worker:end:after", 1, (1,)),
    ]
    for step, attempt, times in wanted:
        task = stage.new("t")
        stage.arm(step)
        enqueue(stage, master, agent, task)
        stage.spent(step)
        end = stage.ended(task)
        assert (step, end["type"], end["attempt"]) == (step, "result", attempt)
        assert runs(stage, task) in times, step
        stage.check(broadcast=False)
    task = stage.new("t")
    stage.arm("worker:interrupted")  # a human's Ctrl-C that is not reported yet is lost with the worker
    enqueue(stage, master, agent, task, more="[ -e again ] && exit; touch again; sleep 300")
    until(lambda: runs(stage, task) == 1 and (stage.root / "again").exists())
    stage.tmux("send-keys", "-t", master.do("agent_get", agent_id=agent)["meta"]["tmux_pane_id"], "C-c")
    stage.spent("worker:interrupted")
    end = stage.ended(task)
    assert (end["type"], end["attempt"], runs(stage, task)) == ("result", 2, 2)
    stage.check(broadcast=False)
    stage.arm("worker:stop")
    until(lambda: [r["epoch"] for r in stage.found().outbox[agent] if r["type"] == "ready"] == [1, 2, 3, 4, 5, 6, 7])
    assert master.do("agent_delete", agent_id=agent)["canceled_tasks"] == []
    stage.spent("worker:stop")
    master.close()
    stage.finish()


def test_a_command_dies_with_its_killed_worker_and_all_it_has_started(stages):
    stage = stages(fake=False, config="max_restarts = 3\n")
    master = stage.master()
    agent = master.do("agent_create", name="w", role="r")["agent_id"]
    forever = "sh -c 'echo $$ >> {0}; trap \"\" TERM INT HUP; sleep 1000; sleep 1000' & echo $$ >> {0}; wait"

    # Once: both are running, then the worker is killed; the second attempt ends by itself.
    task = stage.new("t")
    once = f'[ "$(grep -c {task} {stage.base}/runs)" -ge 2 ] || {{ {forever.format(stage.base / f"{task}.pids")}; }}'
    enqueue(stage, master, agent, task, once)
    tree = pids(stage, task, 2)
    os.kill(pane_pid(stage, agent), signal.SIGKILL)
    until(lambda: all(over(process) for process in tree))
    end = stage.ended(task)
    assert (end["type"], end["attempt"], runs(stage, task)) == ("result", 2, 2)

    # Canceled, and the worker killed before it could say so: it does not run again.
    task = stage.new("t")
    enqueue(stage, master, agent, task, forever.format(stage.base / f"{task}.pids"))
    tree = pids(stage, task, 2)
    stage.arm("outbox:cancel_requested:after", str(pane_pid(stage, agent)))
    master.do("task_cancel", agent_id=agent, task_id=task)
    stage.spent("outbox:cancel_requested:after")
    until(lambda: all(over(process) for process in tree))
    end = stage.ended(task)
    assert (end["type"], end["by"], runs(stage, task)) == ("canceled", "orchestrator", 1)

    # Worker and daemon at once: the next daemon finds the dead pane.
    task = stage.new("t")
    once = f'[ "$(grep -c {task} {stage.base}/runs)" -ge 2 ] || {{ {forever.format(stage.base / f"{task}.pids")}; }}'
    enqueue(stage, master, agent, task, once)
    tree = pids(stage, task, 2)
    os.kill(stage.daemon().pid, signal.SIGKILL)
    os.kill(pane_pid(stage, agent), signal.SIGKILL)
    until(lambda: all(over(process) for process in tree))
    end = stage.ended(task)
    assert (end["type"], end["attempt"], runs(stage, task)) == ("result", 2, 2)

    # A daemon killed while a command runs: the command never notices.
    task = stage.new("t")
    enqueue(stage, master, agent, task, f"while [ ! -e {stage.base}/go ]; do sleep 0.05; done")
    stage.record(agent, "ack", task)
    until(lambda: runs(stage, task))
    os.kill(stage.daemon().pid, signal.SIGKILL)
    (stage.base / "go").touch()
    end = stage.ended(task)
    assert (end["type"], end["attempt"], runs(stage, task)) == ("result", 1, 1)

    # The last life: no other worker comes that could clear up.
    task = stage.new("t")
    enqueue(stage, master, agent, task, forever.format(stage.base / f"{task}.pids"))
    tree = pids(stage, task, 2)
    os.kill(pane_pid(stage, agent), signal.SIGKILL)
    until(lambda: all(over(process) for process in tree))
    stage.record(agent, "failed")
    master.close()
    stage.finish()
