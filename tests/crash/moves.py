"""What a team does to pass a step: each move asks through a master, waits on the files, and checks every answer."""

import contextlib

import psutil
import pytest

from tests.fakes.relays import until

AGENT = {"role": "r", "engine": "shell"}


def work(stage, master, worker):
    task = stage.new("t")
    told = master.do("task_enqueue", agent_id=worker, task={"task_id": task, "payload": stage.payload()})
    assert (told["task_id"], told["position"]) == (task, 1)
    assert "duplicate" not in told
    end = stage.ended(task)
    assert (end["type"], end["attempt"]) == ("result", 1)


def unnamed(stage, master, worker):
    told = master.do("task_enqueue", agent_id=worker, task={"payload": stage.payload()})
    assert stage.ended(told["task_id"])["type"] == "result"


def error(stage, master, worker):
    task = stage.new("t")
    master.do("task_enqueue", agent_id=worker, task={"task_id": task, "payload": stage.payload(end="error")})
    assert stage.ended(task)["type"] == "error"


def cancel(stage, master, worker):
    """A running task is canceled by its agent, a queued one never reaches it."""
    running, queued = stage.new("t"), stage.new("t")
    hold = stage.payload(hold=str(stage.base / "never"))
    master.do("task_enqueue", agent_id=worker, task={"task_id": running, "payload": hold})
    told = master.do("task_enqueue", agent_id=worker, task={"task_id": queued, "payload": stage.payload()})
    assert told["position"] == 2
    stage.record(worker, "ack", running)
    for task in (queued, running):
        told = master.do("task_cancel", agent_id=worker, task_id=task)
        assert (told["ok"], told["state"]) == (True, "cancel_requested")
    ends = [stage.ended(task) for task in (queued, running)]
    assert [end["type"] for end in ends] == ["canceled", "canceled"]
    assert [end["by"] for end in ends] == ["orchestrator", "agent"]


def create(stage, master, _worker):
    agent = stage.new("a")
    told = master.do("agent_create", name=agent, env={"MARK": agent}, **AGENT)
    assert (told["agent_id"], told["ready"], told["epoch"]) == (agent, True, 1)
    whole(stage, master, [agent])


def creates(stage, master, _worker):
    agents = [stage.new("a") for _ in range(3)]
    told = master.do("agents_create", agents=[{"name": name, "env": {"MARK": name}, **AGENT} for name in agents])
    assert [one.get("agent_id") for one in told["agents"]] == agents, told
    assert told["ready"] == 3
    whole(stage, master, agents)


def whole(stage, master, agents):
    """Each agent has one pane and one life, got what its caller gave it, and works; then it goes."""
    for agent in agents:
        assert stage.panes().count(agent) == 1
        assert [agent in run["agents"] for run in stage.found().runs.values() if run["ended_at"] is None] == [True]
        [process] = [p for p in stage.agents() if _of(p, agent)]
        assert process.environ()["MARK"] == agent
        assert process.environ()["PATH"] == stage.env["PATH"]
        work(stage, master, agent)
        assert master.do("agent_delete", agent_id=agent, force=True, confirm=agent)["canceled_tasks"] == []
    for agent in agents:
        assert agent not in stage.panes()


def _of(process, agent):
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.environ().get("ORCHESTRATOR_AGENT_ID") == agent
    return False


def fail(stage, master, _worker):
    """A task whose agent dies of it twice: requeued, relaunched, then lost with its agent."""
    agent, task, never = stage.new("a"), stage.new("t"), stage.new("t")
    master.do("agent_create", name=agent, policies={"max_restarts": 1}, **AGENT)
    gate = stage.base / f"{task}.gate"  # else it may have failed before the second task comes
    for name, more in ((task, {"exit_on": [1, 2], "gate": str(gate)}), (never, {})):
        master.do("task_enqueue", agent_id=agent, task={"task_id": name, "payload": stage.payload(**more)})
    gate.touch()
    end = stage.ended(task)
    assert (end["type"], end["attempt"], end["payload"]["code"]) == ("error", 2, "agent_lost")
    stage.record(agent, "failed")
    assert stage.found().task(never)[1] is None, "what was queued waits for a human"
    assert stage.panes().count(agent) == 1
    told = master.do("agent_delete", agent_id=agent)
    assert told["canceled_tasks"] == [never]
    assert agent not in stage.panes()


def recover(stage, master, _worker):
    """A task whose agent dies of it once runs again in the next life."""
    agent, task = stage.new("a"), stage.new("t")
    master.do("agent_create", name=agent, **AGENT)
    master.do("task_enqueue", agent_id=agent, task={"task_id": task, "payload": stage.payload(exit_on=[1])})
    end = stage.ended(task)
    assert (end["type"], end["attempt"], end["epoch"]) == ("result", 2, 2)
    assert stage.panes().count(agent) == 1
    master.do("agent_delete", agent_id=agent)


def restart(stage, master, _worker):
    """A busy agent is launched anew by hand: its task goes to the next life, once."""
    agent, task = stage.new("a"), stage.new("t")
    go = stage.base / f"{task}.go"
    master.do("agent_create", name=agent, **AGENT)
    hold = stage.payload(hold=str(go))
    master.do("task_enqueue", agent_id=agent, task={"task_id": task, "payload": hold})
    stage.record(agent, "progress", task)
    told = master.do("agent_restart", agent_id=agent)
    assert (told["agent_id"], told["epoch"], told["ready"]) == (agent, 2, True)
    go.touch()
    end = stage.ended(task)
    assert (end["type"], end["attempt"], end["epoch"]) == ("result", 2, 2)
    [again] = [r for r in stage.found().outbox[agent] if r["type"] == "restarted"]
    [asked] = [r for r in stage.found().inbox[agent] if r["type"] == "restart"]
    assert again["asked"] == asked["seq"]
    assert stage.panes().count(agent) == 1
    master.do("agent_delete", agent_id=agent)


def revive(stage, master, _worker):
    """A failed agent is launched anew by hand, and does what was queued for it."""
    agent, task, queued = stage.new("a"), stage.new("t"), stage.new("t")
    master.do("agent_create", name=agent, policies={"restart": "never"}, **AGENT)
    gate = stage.base / f"{task}.gate"  # as in `fail`
    for name, more in ((task, {"exit_on": [1], "gate": str(gate)}), (queued, {})):
        master.do("task_enqueue", agent_id=agent, task={"task_id": name, "payload": stage.payload(**more)})
    gate.touch()
    stage.record(agent, "failed")
    told = master.do("agent_restart", agent_id=agent)
    assert (told["epoch"], told["ready"]) == (2, True)
    assert [(stage.ended(one)["type"], stage.ended(one)["epoch"]) for one in (task, queued)] == [("result", 2)] * 2
    assert stage.panes().count(agent) == 1
    master.do("agent_delete", agent_id=agent)


def pane(stage, master, _worker):
    """An agent whose pane is closed by hand goes on with its task in a new one, if its policy is to queue it again."""
    agent, task = stage.new("a"), stage.new("t")
    go = stage.base / f"{task}.go"
    made = master.do("agent_create", name=agent, policies={"on_pane_closed": "requeue"}, **AGENT)
    hold = stage.payload(hold=str(go))
    master.do("task_enqueue", agent_id=agent, task={"task_id": task, "payload": hold})
    stage.record(agent, "progress", task)
    stage.tmux("kill-pane", "-t", made["tmux_pane_id"])
    stage.record(agent, "restarted")
    go.touch()
    end = stage.ended(task)
    assert (end["type"], end["attempt"], end["epoch"]) == ("result", 2, 2)
    [exited] = [r for r in stage.found().outbox[agent] if r["type"] == "exited"]
    assert exited["how"] == "pane_closed"
    assert stage.panes().count(agent) == 1
    master.do("agent_delete", agent_id=agent)


def closed(stage, master, _worker):
    """Closing the pane cancels the running task; the next one, queued or not yet, is done in a new pane."""
    agent, task, queued, after = stage.new("a"), stage.new("t"), stage.new("t"), stage.new("t")
    made = master.do("agent_create", name=agent, policies={"max_restarts": 0}, **AGENT)
    hold = stage.payload(hold=str(stage.base / "never"))
    master.do("task_enqueue", agent_id=agent, task={"task_id": task, "payload": hold})
    master.do("task_enqueue", agent_id=agent, task={"task_id": queued, "payload": stage.payload()})
    stage.record(agent, "progress", task)
    stage.tmux("kill-pane", "-t", made["tmux_pane_id"])
    end = stage.ended(task)
    assert (end["type"], end["attempt"], end["payload"]["canceled_by"]) == ("canceled", 1, "human")
    assert (stage.ended(queued)["type"], stage.ended(queued)["epoch"]) == ("result", 2)
    pane = master.do("agent_get", agent_id=agent)["meta"]["tmux_pane_id"]
    stage.tmux("kill-pane", "-t", pane)
    until(lambda: [r["how"] for r in stage.found().outbox[agent] if r["type"] == "exited"] == ["pane_closed"] * 2)
    assert stage.panes().count(agent) == 0
    assert master.do("agent_get", agent_id=agent)["meta"]["status"] == "exited"
    master.do("task_enqueue", agent_id=agent, task={"task_id": after, "payload": stage.payload()})
    assert (stage.ended(after)["type"], stage.ended(after)["epoch"]) == ("result", 3)
    assert stage.panes().count(agent) == 1
    master.do("agent_delete", agent_id=agent)


def late(stage, master, _worker):
    """A task out of time whose agent will not stop ends in error, and the agent is launched anew."""
    agent, task, after = stage.new("a"), stage.new("t"), stage.new("t")
    master.do("agent_create", name=agent, **AGENT)
    stubborn = stage.payload(hold=str(stage.base / "never"), stubborn=True)
    master.do("task_enqueue", agent_id=agent, task={"task_id": task, "payload": stubborn, "timeout_s": 0.5})
    master.do("task_enqueue", agent_id=agent, task={"task_id": after, "payload": stage.payload()})
    end = stage.ended(task)
    assert (end["type"], end["timed_out"], end["payload"]["code"]) == ("error", True, "timed_out")
    assert (stage.ended(after)["type"], stage.ended(after)["epoch"]) == ("result", 2)
    [exited] = [r for r in stage.found().outbox[agent] if r["type"] == "exited"]
    assert exited["how"] == "timed_out"
    master.do("agent_delete", agent_id=agent)


def delete(stage, master, _worker):
    """A busy agent with a queue is deleted: it ends its task itself, the rest never reaches it."""
    agent, running, queued = stage.new("a"), stage.new("t"), stage.new("t")
    master.do("agent_create", name=agent, **AGENT)
    hold = stage.payload(hold=str(stage.base / "never"))
    master.do("task_enqueue", agent_id=agent, task={"task_id": running, "payload": hold})
    master.do("task_enqueue", agent_id=agent, task={"task_id": queued, "payload": stage.payload()})
    stage.record(agent, "progress", running)
    told = master.do("agent_delete", agent_id=agent)
    assert (told["ok"], told["status"]) == (True, "deleted")
    assert sorted(told["canceled_tasks"]) == sorted([running, queued])
    assert agent not in stage.panes()
    assert stage.found().task(running)[1]["by"] == "agent", "its agent was told, and had the time to end it"
    [stopped] = [r for r in stage.found().outbox[agent] if r["type"] == "stopped"]
    assert stopped["how"] in ("stopped by itself", "gone already")


MOVES = {
    "work": work, "unnamed": unnamed, "error": error, "cancel": cancel, "create": create, "creates": creates,
    "fail": fail, "recover": recover, "delete": delete, "restart": restart, "revive": revive, "pane": pane,
    "closed": closed, "late": late,
}  # fmt: skip


def around(*kinds):
    return [f"{kind}:{side}" for kind in kinds for side in ("before", "after")]


TASK = [
    *[(step, "work") for step in around("inbox:task", "outbox:delivered", "outbox:ack", "outbox:progress")],
    *[(step, "work") for step in around("outbox:result", "broadcast:append")],
    *[(f"answer:{tool}", "work") for tool in ("task_enqueue", "wait_for_command", "emit_event")],
    *[(step, "unnamed") for step in ("inbox:task:after", "answer:task_enqueue")],
    *[(step, "error") for step in around("outbox:error")],
    *[(step, "cancel") for step in around("inbox:cancel", "outbox:cancel_requested", "outbox:canceled")],
    ("answer:task_cancel", "cancel"),
]
CREATE = [
    *[(step, "create") for step in around("outbox:starting", "outbox:ready", "broadcast:append")],
    *[(step, "create") for step in ("launch:written", "tmux:split-window", "tmux:set-option", "launch:released")],
    ("answer:agent_create", "create"),
    *[(step, "creates") for step in (*around("outbox:starting"), "tmux:split-window", "tmux:set-option")],
    *[(step, "creates") for step in ("tmux:if-shell", "answer:agents_create")],
]
MORE = [
    (step, "creates") for step in ("launch:written", "launch:released", *around("outbox:ready", "broadcast:append"))
]
FAIL = [
    *[(step, "recover") for step in around("outbox:exited", "outbox:requeued", "outbox:restarted")],
    ("tmux:respawn-pane", "recover"),
    *[(step, "fail") for step in around("outbox:error", "outbox:failed")],
]
AGAIN = [
    *[(step, "restart") for step in around("inbox:restart", "outbox:exited", "outbox:restarted")],
    *[(step, "restart") for step in ("restart:ended", "launch:written", "tmux:respawn-pane", "answer:agent_restart")],
    *[(step, "revive") for step in (*around("outbox:restarted"), "launch:written", "launch:released")],
    *[(step, "pane") for step in around("outbox:exited", "outbox:requeued", "outbox:restarted")],
    *[(step, "pane") for step in ("launch:written", "tmux:split-window", "tmux:set-option", "launch:released")],
    *[(step, "closed") for step in around("outbox:exited", "outbox:canceled", "outbox:restarted")],
    *[(step, "closed") for step in ("inbox:task:after", "launch:written", "launch:released")],
    *[(step, "late") for step in around("inbox:cancel", "outbox:error", "outbox:exited", "outbox:restarted")],
    ("restart:ended", "late"),
]
DELETE = [
    *[(step, "delete") for step in around("inbox:stop", "inbox:cancel", "outbox:stopped", "outbox:canceled")],
    *[(step, "delete") for step in ("delete:process-ended", "tmux:kill-pane", "delete:pane-removed")],
    *[(step, "delete") for step in (*around("outbox:deleted"), "answer:agent_delete")],
    ("outbox:stopped:after", "fail"),
]


def third(rows):
    """A third of the rows: before one step, after the next but one, and so on."""
    return [row for at, row in enumerate(rows) if at % 6 in (0, 5)]


def sixth(rows):
    """A sixth of the rows, for an agent takes longer than a task: before one step, after another, and so on."""
    return [row for at, row in enumerate(rows) if at % 12 in (0, 7)]


def batches(rows, size):
    """The rows in batches of at most ``size``, dealt out so that neighbours do not meet in one life."""
    count = -(-len(rows) // size)
    dealt = [rows[number::count] for number in range(count)]
    return [pytest.param(batch, id=f"{number}-{batch[0][0]}") for number, batch in enumerate(dealt)]
