"""One agent of a real CLI as a test sees it: led by a plain MCP client, waited for with all that is known of it."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from orchestrator.engines.start_failures import WHY
from orchestrator.engines.table import ENGINES
from tests.e2e.answering import press_in
from tests.e2e.world import START_S, Terminal
from tests.support.stage import TERMINAL, alive, until

QUICK = "ready_timeout_s = 240\npark_after = 1\nwait_cap_ms = 1000\nstop_grace_s = 600\n"
"""The configuration of a test that wants an agent to park soon, and to end as soon as its last turn is over."""

PATIENT = "ready_timeout_s = 600\n"
"""The configuration of a test that says itself when the time to get ready is over."""

SCHEMAS_MAX = 2048
"""Bytes that our two tools may take in an agent's conversation, with what its CLI adds."""


class Agent:
    """The one agent of its world; made, and ready, unless the test says that it fails."""

    def __init__(self, world, agent_id, **wishes):
        self.world = world
        self.agent_id = agent_id
        (self.kind,) = world.kinds
        self.boss = world.stage.begun()
        asked = {"name": agent_id, "role": "tester", "engine": self.kind, "ready_wait_ms": 1000, **wishes}
        self.made = self.boss.tool("agent_create", asked)
        assert "error" not in self.made, self.made
        # opencode takes 20 s of processor time to start, whoever else needs the processor.
        self.comes(lambda: {"ready", "failed"} & set(self.types()))
        assert "failed" not in self.types(), self.records()[-1]

    @property
    def terminal(self):
        """Its pane."""
        panes = {agent: pane for pane, agent in self.world.stage.tagged().items()}
        return Terminal(self.world, panes[self.agent_id], self.kind)

    def records(self):
        """Its outbox."""
        return self.world.stage.records(self.agent_id)

    def types(self):
        """The types of its outbox."""
        return self.world.stage.types(self.agent_id)

    def requests(self):
        """What it has asked its model."""
        return self.world.models.select(self.agent_id)

    def status(self):
        """The meta of agent_get."""
        return self.boss.tool("agent_get", {"agent_id": self.agent_id})["meta"]

    def blocked(self):
        """What blocks it: kind and reason; empty when nothing does."""
        meta = self.status()
        return (meta["blocked"] or {}) if meta["status"] == "blocked" else {}

    def blocked_by(self, kind):
        """Wait until something of that kind blocks it; what one look tells of it."""

        def told():
            found = self.blocked()
            return found if found.get("kind") == kind else None

        return self.comes(told)

    def comes(self, look):
        """The first true value of ``look``; else fails with all that is known of the agent."""
        try:
            return until(look, START_S)
        except AssertionError as error:
            tail = [(one["type"], one.get("reason")) for one in self.records()][-12:]
            raise AssertionError(f"{error}; {self.status()}\n{tail}\n{self.terminal.text()}") from None

    def give(self, task_id, **payload):
        """Queue a task."""
        task = {"task_id": task_id, "payload": payload}
        answer = self.boss.tool("task_enqueue", {"agent_id": self.agent_id, "task": task})
        assert "error" not in answer, answer

    def cancel(self, task_id):
        """Cancel a task once it is at work on it."""
        acked = {"type": "ack", "task_id": task_id}
        self.comes(lambda: any(acked.items() <= record.items() for record in self.records()))
        self.boss.tool("task_cancel", {"agent_id": self.agent_id, "task_id": task_id})

    def end(self, task_id):
        """The terminal event of a task, awaited."""

        def ended():
            return [one for one in self.records() if one.get("task_id") == task_id and one["type"] in TERMINAL]

        return self.comes(ended)[0]

    def does(self, task_id):
        """A task from its giving to its result."""
        self.give(task_id, say=task_id)
        assert self.end(task_id)["payload"] == {"said": task_id}

    def begins(self):
        """The first things of a life: one task done, one canceled in the middle; its first request."""
        first = self.requests()[0]
        assert f"You are agent `{self.agent_id}`" in first.turn.system
        assert schema_bytes(first) <= SCHEMAS_MAX
        self.does("one")
        self.give("held", hold="never")
        self.cancel("held")
        assert self.end("held")["type"] == "canceled"
        return first

    def asks_its_human(self, call, shown):
        """A call that its user has it ask about: that is told, and answered by nobody but a human; what was told."""
        self.give("asks", calls=call)
        told = self.blocked_by("permission")
        press_in(self, shown)
        assert self.end("asks")["type"] == "result"
        return told

    def dies_and_goes_on(self):
        """Killed while it is parked: the next life goes on with the conversation; its first request."""
        self.rests()
        session, count = self.status()["session"], len(self.requests())
        ended = sum(record["type"] in TERMINAL for record in self.records())
        os.kill(self.terminal.pid(), signal.SIGKILL)
        self.comes(lambda: self.types().count("ready") == 2)
        resumed = self.requests()[count]
        answers = [result for message in resumed.turn.messages for result in message.results]
        assert sum(result.call.is_of("emit_event") for result in answers) >= ended
        assert self.status()["session"] == session
        self.does("behind-the-kill")
        return resumed

    def rests(self):
        """Wait until it is parked."""
        self.comes(lambda: self.status()["status"] == "parked")

    def delete(self):
        """End it; none of its processes outlives it, nor what they wrote for the moment; its work can still be read."""
        pids = [self.terminal.pid(), *children(self.terminal.pid())]
        (place,) = (self.world.stage.run_dir() / "tmp").iterdir()
        assert f"\0TMPDIR={place}\0".encode() in b"\0" + Path(f"/proc/{pids[0]}/environ").read_bytes()
        files = self.files()
        written = Path(files["transcript"]).read_text() if ENGINES[self.kind].transcript is not None else "emit_event"
        assert "emit_event" in written, files
        assert self.boss.tool("agent_delete", {"agent_id": self.agent_id})["status"] == "deleted"
        (stopped,) = (record for record in self.records() if record["type"] == "stopped")
        assert [rung["rung"] for rung in stopped["rungs"]][:2] == ["stop", "quit"]
        until(lambda: not any(map(alive, pids)), START_S)
        until(lambda: not list(place.parent.iterdir()), START_S)
        assert Path(self.files()["screen"]).read_text().strip(), "its screen was kept before its CLI cleared it"

    def files(self):
        """The files in which a person reads its work: its transcript, its newest kept screen."""
        return json.loads(self.world.stage.cli("status", self.agent_id, "--json").stdout)["files"]


def are_stopped(world, causes):
    """Each of these agents does not begin, and says so in words that hold its cause; then it is cleared away.

    Their time to get ready ends once all of them have told it, however long their CLIs took to show it.
    """

    def told(name):
        return any(
            one["type"] == "failed" or causes[name] in f"{WHY.get(one.get('kind'))} {one['reason']}"
            for one in world.stage.records(name)
            if one["type"] in ("blocked", "failed")
        )

    until(lambda: all(map(told, causes)), START_S)
    world.configure("ready_timeout_s = 1\n")
    for name, cause in causes.items():
        until(lambda name=name: "failed" in world.stage.types(name), START_S)
        (failed,) = (one for one in world.stage.records(name) if one["type"] == "failed")
        assert cause in failed["reason"], (name, failed)
    until(lambda: not world.stage.tagged(), START_S)


def children(pid):
    """The processes below a process; one that has just ended (a hook of its turn) has none."""
    try:
        below = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [*below, *(other for one in below for other in children(one))]


def offered(request):
    """The tools of our server that a request offers its model."""
    return sorted(tool.name for tool in request.turn.tools if "orchestrator" in f"{tool.namespace}{tool.name}")


def schema_bytes(request):
    """How much of the conversation our two tools take, with all that the CLI adds to them."""
    tools = [request.turn.tool(name) for name in ("wait_for_command", "emit_event")]
    told = [{"name": one.name, "parameters": one.schema, "description": one.description} for one in tools]
    return sum(len(json.dumps(one).encode()) for one in told)


def header(request, name):
    """A header of a request, whatever its case."""
    return {known.lower(): value for known, value in request.headers.items()}[name]


def live_by_the_command_line(world, agent_id):
    """An agent's life by our command line, as a child of the user's shell; its first request to the model.

    The agent gets that shell's environment, parks, which its hook or plugin proves, and leaves no file changed.
    """
    (kind,) = world.kinds
    before = world.snapshot(kind)

    def shell(*args):
        words = (sys.executable, "-P", "-m", "orchestrator", *args)
        done = world.run("sh", "-c", '"$@"; exit $?', "sh", *words)
        assert done.returncode == 0, done.stdout + done.stderr

    shell("agent", "create", agent_id, "--role", "tester", "--engine", kind)
    shell("task", "add", agent_id, "--payload", '{"say": "hi"}', "--wait")
    until(lambda: "parked" in world.stage.types(agent_id), START_S)
    shell("agent", "delete", agent_id, "--yes")
    assert world.snapshot(kind) == before
    return world.models.select(agent_id)[0]
