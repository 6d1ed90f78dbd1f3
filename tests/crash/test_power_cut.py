"""The power fails under a working team: what anybody was answered is there afterwards, and every task can be finished.

The project lies on a disk image of its own, which is shut down without a flush of its journal while masters enqueue,
agents report and agents are made; all processes end with it. Then the file system recovers, and a new daemon. What
was answered is noted on another disk. ``durability = "os"`` must lose some of it: that shows that the test can fail.
"""

import contextlib
import json
import os
import queue
import random
import threading

import psutil
import pytest

from orchestrator.core.record_types import BROADCAST_TYPES
from tests.crash.checker import check
from tests.crash.conftest import BOUND_S, Stage
from tests.crash.moves import AGENT
from tests.fakes.relays import until
from tests.support import mounts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(mounts.why_no_disks()), reason=mounts.why_no_disks() or "it can"),
]
CUTS = int(os.environ.get("ORCHESTRATOR_POWER_CUTS", "50"))
PER_STAGE = 5
TERMINAL = ("result", "error", "canceled")
CONFIG = """
max_restarts = 100
restart_backoff_s = 0.1
max_attempts = 100
segment_bytes = 4096
durability = "{durability}"
"""


class Load:
    """Clients of one team, each in a thread of its own, until `stop`; ``said`` is what they were answered."""

    def __init__(self, stage, workers, chance):
        self.stage, self.workers = stage, workers
        self.said = []
        self.over = threading.Event()
        self.masters = [stage.master() for _ in range(3)]
        jobs = [self.enqueue, self.enqueue, self.create]
        seeds = [chance.random() for _ in jobs]
        self.threads = [
            threading.Thread(target=job, args=(master, random.Random(seed)), daemon=True)
            for job, master, seed in zip(jobs, self.masters, seeds, strict=True)
        ]
        for thread in self.threads:
            thread.start()

    def told(self, master, key):
        """The structured answer of a call; None once the load is over, or when the call failed."""
        while True:
            try:
                message = master.take(0.1)
            except queue.Empty:
                if self.over.is_set():
                    return None
                continue
            except ValueError:
                return None  # a relay was killed in the middle of a line
            if message.get("id") == key and "result" in message:
                return None if message["result"].get("isError") else message["result"]["structuredContent"]

    def ask(self, master, tool, **arguments):
        try:
            key = master.ask(tool, **arguments)
        except OSError:
            return None
        return self.told(master, key)

    def enqueue(self, master, chance):
        while not self.over.is_set():
            agent, task = chance.choice(self.workers), self.stage.new("t")
            pad = "x" * chance.randrange(800)
            payload = self.stage.payload(answers=str(self.stage.base / "answers"), pad=pad)
            if self.ask(master, "task_enqueue", agent_id=agent, task={"task_id": task, "payload": payload}):
                self.said.append(("task", agent, task))
            if chance.random() < 0.2 and self.ask(master, "task_cancel", agent_id=agent, task_id=task):
                self.said.append(("cancel", agent, task))

    def create(self, master, chance):
        while not self.over.is_set():
            name = self.stage.new("x")
            if (told := self.ask(master, "agent_create", name=name, **AGENT)) is None:
                continue
            self.said.append(("agent", told["agent_id"], ""))
            if self.ask(master, "agent_delete", agent_id=told["agent_id"], force=True, confirm=told["agent_id"]):
                self.said.append(("deleted", told["agent_id"], ""))

    def stop(self):
        """After all processes have ended: what they had still written counts."""
        self.over.set()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive()
        for master in self.masters:
            master.gone()
        answers = self.stage.base / "answers"
        said = answers.read_text().split("\n")[:-1] if answers.exists() else []
        answers.unlink(missing_ok=True)
        return [*self.said, *((line.split()[1], "", line.split()[0]) for line in said)]


def at_rest(master):
    """Whether no agent is on its way anywhere; also a task whose caller was never answered may be there, and runs."""
    rows = [row for row in master.do("agent_list", scope="all")["agents"] if row["status"] != "deleted"]
    return all(row["status"] == "idle" and not row["queue_depth"] and not row["running_task_id"] for row in rows)


def ended(root):
    """The tasks that have a terminal event."""
    places = [d for d in (root / ".agents" / "agents").glob("*") if d.is_dir()]
    return {r["task_id"] for place in places for r in lines(place, "outbox") if r["type"] in TERMINAL}


def told(root):
    """Whether the digest tells of all that it shall."""
    seen = {
        (r["agent_id"], r["ref"]) for run in (root / ".agents" / "run").glob("*") for r in lines(run, "broadcast")
    }
    places = [d for d in (root / ".agents" / "agents").glob("*") if d.is_dir()]
    return seen >= {
        (place.name, r["seq"]) for place in places for r in lines(place, "outbox") if r["type"] in BROADCAST_TYPES
    }


def lines(place, name):
    """The complete records of a log, its sealed segments among them."""
    found = []
    for file in sorted(place.glob(f"{name}*.jsonl"), key=lambda file: (file.name == f"{name}.jsonl", file.name)):
        found += [json.loads(line) for line in file.read_bytes().split(b"\n")[:-1] if b"\0" not in line]
    return found


def lost(root, said):
    """What was answered and does not stand in the files."""
    logs = {
        name: {d.name: lines(d, name) for d in (root / ".agents" / "agents").glob("*") if d.is_dir()}
        for name in ("inbox", "outbox")
    }
    asked = {(agent, r["type"], r.get("task_id", "")) for agent, log in logs["inbox"].items() for r in log}
    happened = {(agent, r["type"], r.get("task_id", "")) for agent, log in logs["outbox"].items() for r in log}
    ends = {(kind, task) for _, kind, task in happened}
    missing = []
    for kind, agent, name in said:
        there = {
            "task": (agent, "task", name) in asked,
            "cancel": (agent, "cancel", name) in asked,
            "agent": (agent, "starting", "") in happened,
            "deleted": (agent, "deleted", "") in happened,
        }.get(kind, (kind, name) in ends)
        if not there:
            missing.append((kind, agent, name))
    return missing


def cut(stage, disk, workers, chance):
    """Work, cut the power at a random moment, and let file system come back; what had been answered."""
    load = Load(stage, workers, chance)
    before = len(list((stage.root / ".agents" / "agents").glob("x*")))
    if chance.random() < 0.5:
        wanted = chance.randrange(5, 60)
        until(lambda: len(load.said) >= wanted)
    else:
        wanted = before + chance.randrange(1, 4)
        until(lambda: len(list((stage.root / ".agents" / "agents").glob("x*"))) >= wanted)
    disk.cut()
    until(lambda: all_killed(stage))
    said = load.stop()
    until(lambda: unmounted(disk))
    disk.mount()
    return said


def all_killed(stage):
    """Kill what there is; whether there was nothing any more, for one may be starting another."""
    there = stage.processes()
    for process in there:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    return not there


def unmounted(disk):
    try:
        disk.unmount()
    except OSError:
        return False
    return True


def recover(stage, said):
    """A new daemon takes the team up: nothing is corrupt, nothing answered is missing, every accepted task ends."""
    master = stage.master()
    agents = master.do("agent_list", scope="all")["agents"]
    assert not [row for row in agents if row["status"] == "failed"], agents
    for row in agents:
        if row["agent_id"].startswith("x") and row["status"] != "deleted":
            master.do("agent_delete", agent_id=row["agent_id"], force=True, confirm=row["agent_id"])
    accepted = {task for kind, _, task in said if kind == "task"}
    until(lambda: accepted <= ended(stage.root), BOUND_S)
    until(lambda: at_rest(master), BOUND_S)  # also an agent without work comes back, and says so
    until(lambda: told(stage.root), BOUND_S)
    torn = list(stage.root.glob(".agents/**/*.torn"))
    for file in torn:
        file.unlink()  # a torn tail is what a power cut leaves; the checker knows kill -9 only
    check(stage.root)
    return master, len(torn)


def play(base, cuts, chance, durability, verify):
    """Cuts on one stage; (answered, lost, torn logs)."""

    def body():
        base.mkdir()
        disk = mounts.Disk(base / "image", base / "p")
        stage = Stage(base, config=CONFIG.format(durability=durability))
        try:
            master = stage.master()
            workers = [master.do("agent_create", name=stage.new("w"), **AGENT)["agent_id"] for _ in range(2)]
            master.close()
            said, missing, torn = [], [], 0
            for _ in range(cuts):
                said += cut(stage, disk, workers, chance)
                missing = lost(stage.root, said)
                if verify:
                    assert not missing, "gone with the power"
                    master, more = recover(stage, said)
                    assert not lost(stage.root, said), "gone with the recovery"
                    master.close()
                    torn += more
            return len(said), missing, torn
        finally:
            print(stage.log()[-6000:])
            stage.close()
            until(lambda: unmounted(disk))

    return mounts.apart(body)


def test_a_power_cut_loses_nothing_that_was_answered(tmp_path, faults):
    chance = random.Random(os.environ.get("ORCHESTRATOR_POWER_SEED", "1"))
    answered = torn = done = 0
    while done < CUTS:
        cuts = min(PER_STAGE, CUTS - done)
        more, _, more_torn = play(tmp_path / f"s{done}", cuts, chance, "fsync", verify=True)
        answered, torn, done = answered + more, torn + more_torn, done + cuts
        faults("power cut", cuts)
    faults.figure("power cut", cuts=CUTS, answered=answered, lost=0, torn_logs=torn)


def test_without_syncs_a_power_cut_does_lose_what_was_answered(tmp_path, faults):
    """The negative control: the same test, the same load, and a daemon that answers before the disk has it."""
    chance = random.Random(2)
    for number in range(5):
        answered, missing, _ = play(tmp_path / f"s{number}", 1, chance, "os", verify=False)
        if missing:
            break
    faults.figure("power cut, durability os", cuts=number + 1, answered=answered, lost=len(missing))
    assert missing, "nothing was lost without a sync: the test above proves nothing"
