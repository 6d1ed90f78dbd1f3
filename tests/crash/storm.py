"""The kill storm: a client that works a team hard and notes what it was told, and kills of every kind around it.

Everything is paced by what is seen (terminal events, answers), never by the clock. What comes out is judged by
`orchestrator verify` and by the ledger of what agents really ran.
"""

import contextlib
import json
import os
import queue
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil

from orchestrator.base.final_states import TERMINAL
from orchestrator.team.recovery.verification import verify
from tests.crash.conftest import over
from tests.crash.moves import around
from tests.fakes.relays import until

AGENTS, WORKERS = 20, 2  # the workers among them are real ones, which cost a second each to start
QUEUE = 3  # unfinished tasks per agent that the client keeps up
BOUND_S = 180.0  # without any answer or event: something hangs
# What only a storm needs: no end of lives, no pause before the next, time for a loaded machine, logs of many files.
CONFIG = """\
segment_bytes = 8192
max_restarts = 100
restart_window_s = 1.0
restart_backoff_s = 0.0
ready_timeout_s = 600.0
redeliver_after_s = 0.5
min_pane_width = 10
min_pane_height = 2
"""
STEPS = {
    "daemon at a step": [
        *around("inbox:task", "inbox:cancel", "outbox:delivered", "outbox:ack", "outbox:progress", "outbox:result"),
        *around("outbox:error", "outbox:canceled", "outbox:cancel_requested", "broadcast:append"),
        *around("outbox:exited", "outbox:requeued", "outbox:restarted", "outbox:ready"),
        "launch:written", "launch:released", "tmux:respawn-pane", "tmux:split-window", "answer:task_enqueue",
        "answer:task_cancel", "answer:wait_for_command", "answer:emit_event", "answer:broadcast_read",
    ],
    "worker at a step": [*around("worker:ack", "worker:end"), "worker:started"],
}  # fmt: skip
# A daemon is the dearest to kill: twenty relays come back to the next one.
KINDS = {
    "daemon": 2,
    "daemon at a step": 2,
    "agent": 5,
    "worker at a step": 1,
    "agent's relay": 4,
    "master": 2,
    "pane": 4,
}


class Client:
    """A master that outlives its relay, and writes down what it was really told, as `verify --answered` reads it."""

    def __init__(self, stage, answered):
        self.stage = stage
        self.file = answered.open("ab")
        self.master = stage.master()
        self.waiting = {}  # key -> (tool, arguments, what to do with the answer)
        self.seen = 0  # of the broadcast
        self.accepted, self.ended = {}, {}  # task -> agent, task -> outcome
        self.failed, self.deleted = set(), set()
        self.following = True
        self.run_id = None
        self.polls = 0  # that told nothing new, in a row

    def ask(self, tool, then, **arguments):
        self.waiting[self._send(tool, arguments)] = (tool, arguments, then)

    def _send(self, tool, arguments):
        with contextlib.suppress(BrokenPipeError):  # it was killed: asked again by `_revive`
            return self.master.ask(tool, **arguments)
        return self.master.asked[-1]

    def take(self, patience_s):
        """Take what was answered; waits for the first so long. Whether anything came."""
        try:
            line = self.master.arrived.get(timeout=patience_s)
        except queue.Empty:
            if self.master.process.poll() is not None:
                self._revive()
                return True
            return False
        message = json.loads(line)
        self.master.received.append(message)
        if "method" in message or message["id"] not in self.waiting:
            return True
        tool, arguments, then = self.waiting.pop(message["id"])
        told, error = message["result"]["structuredContent"], message["result"].get("isError")
        if error and told["error"]["kind"] in ("NotReady", "Environment"):
            self.ask(tool, then, **arguments)
        else:
            then(told, told["error"] if error else None)
        return True

    def kill(self):
        os.killpg(self.master.process.pid, signal.SIGKILL)  # our own child, not reaped yet: its group is its own

    def _revive(self):
        """Another relay takes the questions over that the last one left open."""
        for thread in self.master.threads:
            thread.join(BOUND_S)
        while not self.master.arrived.empty():  # what came before it died was answered
            self.take(0)
        left, self.waiting = self.waiting, {}
        self.master.gone()
        self.master = self.stage.master()
        for tool, arguments, then in left.values():
            self.ask(tool, then, **arguments)

    def until(self, fact, what):
        """Take answers until the fact holds; fails when nothing at all has come for a long time."""
        deadline = time.monotonic() + BOUND_S
        while not fact():
            if self.take(1.0):
                deadline = time.monotonic() + BOUND_S
            assert time.monotonic() < deadline, f"nothing was told any more before {what}; open: {self.waiting}"

    # -- what it was told ---------------------------------------------------------------------------------------

    def note(self, *facts):
        """Told is told: on the disk before the client acts on it."""
        self.file.write(b"".join(json.dumps(fact).encode() + b"\n" for fact in facts))
        self.file.flush()
        os.fsync(self.file.fileno())

    def enqueue(self, agent, task, payload):
        def told(answer, error):
            if error:
                assert error["code"] == "agent_ended", error
                self.failed.add(agent)
                return
            assert answer["task_id"] == task
            self.accepted[task] = agent
            self.note({"agent_id": agent, "task_id": task})

        self.ask("task_enqueue", told, agent_id=agent, task={"task_id": task, "payload": payload})

    def cancel(self, task):
        def told(answer, error):
            assert error is None or error["code"] in ("task_finished", "agent_ended"), error

        self.ask("task_cancel", told, agent_id=self.accepted[task], task_id=task)

    def follow(self):
        """Read the broadcast, page by page, as long as ``following``."""

        def told(answer, error):
            assert error is None, error
            facts = []
            for event in answer["events"]:
                facts.append({"log": "broadcast", "run_id": self.run_id, "seq": event["seq"]})
                facts.append({"log": "outbox", "agent_id": event["agent_id"], "seq": event["ref"]})
                if event["type"] in TERMINAL:
                    task = event["task_id"]
                    assert task not in self.ended, f"two ends of {task} were told"
                    self.ended[task] = event["type"]
                    fact = {"agent_id": event["agent_id"], "task_id": task, "outcome": event["type"]}
                    facts.append(fact)
                elif event["type"] in ("failed", "deleted"):
                    (self.failed if event["type"] == "failed" else self.deleted).add(event["agent_id"])
            assert [event["seq"] for event in answer["events"]] == [*range(self.seen + 1, answer["last_seq"] + 1)]
            self.seen = answer["last_seq"]
            self.polls = 0 if facts else self.polls + 1
            self.note(*facts)
            if self.following:
                self.follow()

        self.ask("broadcast_read", told, run_id=self.run_id, since_seq=self.seen, wait_ms=2000)

    def close(self):
        self.file.close()
        self.master.close()


class Storm:
    """One storm on a stage; ``seed`` makes its choices, not its timing, the same again."""

    def __init__(self, stage, seed):
        self.stage = stage
        self.chance = random.Random(seed)
        self.answered = stage.base / "answered"
        self.client = Client(stage, self.answered)
        self.agents = []
        self.killed = Counter()
        self.armed = {}  # step -> kind
        self.asked = 0
        self.due = 0  # how many tasks must have ended before the next kill

    # -- the team -----------------------------------------------------------------------------------------------

    def begin(self):
        """Make the team, all of it ready; follow its broadcast from here on."""
        asked = [
            {"name": f"a{n}", "role": "r", "engine": "shell", "env": {"REAL_WORKER": "1"} if n <= WORKERS else {}}
            for n in range(1, AGENTS + 1)
        ]
        told = self.client.master.do("agents_create", agents=asked, ready_wait_ms=0)
        self.agents = [one["agent_id"] for one in told["agents"]]
        outboxes = [self.stage.root / ".agents" / "agents" / agent / "outbox.jsonl" for agent in self.agents]
        until(lambda: all(b'"type":"ready"' in path.read_bytes() for path in outboxes), BOUND_S)
        [self.client.run_id] = self.stage.found().runs
        self.client.follow()

    def work(self):
        """Keep every agent busy, and cancel a few of its tasks."""
        client = self.client
        open_of = Counter(agent for task, agent in client.accepted.items() if task not in client.ended)
        asking = Counter(args["agent_id"] for tool, args, _ in client.waiting.values() if tool == "task_enqueue")
        for agent in self.agents:
            for _ in range(QUEUE - open_of[agent] - asking[agent] if agent not in client.failed else 0):
                self.asked += 1
                task = f"t{self.asked}"
                client.enqueue(agent, task, self._payload(self.agents.index(agent) < WORKERS))
        left = [task for task in client.accepted if task not in client.ended]
        if left and self.chance.random() < 0.05:
            client.cancel(self.chance.choice(left))

    def _payload(self, real):
        if real:
            return {"command": self.chance.choice(["true", "false", "echo done"])}
        end = "error" if self.chance.random() < 0.1 else "result"
        exits = {"exit_on": [1]} if self.chance.random() < 0.01 else {}
        return self.stage.payload(end=end, text="x" * self.chance.choice([0, 10, 5000]), **exits)

    # -- the kills ----------------------------------------------------------------------------------------------

    def kill(self):
        """A kill of a random kind for every few tasks that have ended; and one where nothing happens any more."""
        self._fired()
        client = self.client
        if client.polls >= 2:
            self.due, client.polls = len(client.ended), 0
        while self.due <= len(client.ended):
            self.due += self.chance.randint(1, 10)
            self._kill()

    def _kill(self):
        [kind] = self.chance.choices([*KINDS], [*KINDS.values()])
        if kind in STEPS:
            self._arm(kind)
        elif kind == "master":
            self.client.kill()
            self.killed[kind] += 1
        elif kind == "daemon":
            self._end(kind, self.stage.daemons())
        else:
            self._of_agents(kind)

    def _arm(self, kind):
        """The next process of that kind to pass some step dies there; at most three wait for theirs at a time."""
        step = self.chance.choice(STEPS[kind])
        if step not in self.armed and sum(known == kind for known in self.armed.values()) < 3:
            self.armed[step] = kind
            self.stage.arm(step)

    def _fired(self):
        for step in [step for step in self.armed if self.stage.fired(step)]:
            self.stage.spent(step)
            self.killed[self.armed.pop(step)] += 1

    def _of_agents(self, kind):
        rows = self.stage.tmux("list-panes", "-a", "-F", "#{pane_dead} #{pane_id} #{pane_pid} #{@orchestrator_agent}")
        panes = [row.split() for row in rows.split("\n") if len(row.split()) == 4 and row.startswith("0")]
        if not panes:
            return
        _, pane, pid, _ = self.chance.choice(panes)
        if kind == "pane":
            self.stage.tmux("kill-pane", "-t", pane)
            self.killed[kind] += 1
            return
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(int(pid))
            found = [process] if kind == "agent" else [one for one in process.children() if "mcp" in one.cmdline()]
            self._end(kind, found)

    def _end(self, kind, processes):
        for process in processes[:1]:
            with contextlib.suppress(psutil.Error):
                process.kill()  # of this very process: psutil compares its start
                self.killed[kind] += 1

    # -- the whole ----------------------------------------------------------------------------------------------

    def rage(self, enough):
        """Work and kill until it was enough; now and then the files are looked at while all is under way."""
        looked, deadline, before = 0, time.monotonic() + BOUND_S, None
        while not enough(self):
            self.work()
            self.kill()
            self.client.take(0.2)
            while self.client.take(0):
                pass
            if sum(self.killed.values()) >= looked + 20:
                looked = sum(self.killed.values())
                report = verify(self.stage.root, live=True, settled=False, answered=self.answered)
                assert report.ok, report.violations
            now = len(self.client.ended), sum(self.killed.values())
            if now != before:
                before, deadline = now, time.monotonic() + BOUND_S
            assert time.monotonic() < deadline, "nothing ends any more"

    def heal(self):
        """No more kills: every task comes to its end, or its agent, which has failed, is deleted. Then all go."""
        client = self.client
        for step in self.armed:
            self.stage.disarm(step)
        client.until(lambda: {tool for tool, *_ in client.waiting.values()} <= {"broadcast_read"}, "all was answered")
        self._fired()
        asked = set()

        def open_tasks():
            for agent in client.failed - asked:
                asked.add(agent)
                self._delete(agent)
            return client.accepted.keys() - client.ended.keys()

        client.until(lambda: not open_tasks(), "every task ended")
        for agent in self.agents:
            if agent not in asked:
                self._delete(agent)
        client.until(lambda: client.deleted == set(self.agents), "every agent was deleted")
        client.following = False
        client.until(lambda: not client.waiting, "the last poll")
        client.close()
        self.stage.stop()

    def _delete(self, agent):
        def told(answer, error):
            assert error is None, error
            assert answer["ok"]

        self.client.ask("agent_delete", told, agent_id=agent)

    def judge(self):
        """`orchestrator verify` on what is left, as a user runs it; its answer."""
        command = [sys.executable, "-P", "-m", "orchestrator", "verify", "--json", "--answered", str(self.answered)]
        done = subprocess.run(command, cwd=self.stage.root, env=self.stage.env, capture_output=True, text=True)
        told = json.loads(done.stdout)
        assert (done.returncode, told["violations"]) == (0, []), (done, told["violations"][:20])
        assert not told["live"]
        return told

    def attempts(self):
        """How many attempts of tasks were really run."""
        ledger = Path(self.stage.ledger)
        return len(ledger.read_text().splitlines()) if ledger.exists() else 0


def storm(stage, faults, *, seed, enough):
    """A whole storm with its end; fails when anything was lost, doubled or left open."""
    print(f"storm: seed {seed}")
    began = time.monotonic()
    one = Storm(stage, seed)
    one.begin()
    one.rage(enough)
    raged = time.monotonic()
    one.heal()
    told = one.judge()
    client = one.client
    assert set(client.ended) == set(client.accepted)
    assert told["checked"]["tasks"] == told["checked"]["ended"] >= len(client.accepted)
    assert told["notes"] == []
    found = stage.check(ended=True)
    until(lambda: not [p for p in stage.processes() if not over(p)], BOUND_S)
    for kind, count in one.killed.items():
        faults(f"kill -9: {kind}" if kind != "pane" else "kill-pane of an agent", count)
    lives = sum(r["type"] == "restarted" for log in found.outbox.values() for r in log)
    faults.figure(
        f"kill storm, seed {seed}",
        agents=len(one.agents),
        kills=sum(one.killed.values()),
        tasks=len(client.accepted),
        attempts=one.attempts(),
        relaunches=lives,
        failed=sum(r["type"] == "failed" for log in found.outbox.values() for r in log),
        outcomes=dict(sorted(Counter(client.ended.values()).items())),
        storm_s=round(raged - began, 1),
        seconds=round(time.monotonic() - began, 1),
    )
    return one
