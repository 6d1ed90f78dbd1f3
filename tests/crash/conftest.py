"""The stage of the crash matrix: a private project, tmux server, HOME and run directory, and named steps to die at.

Nothing is reached by luck: ``arm`` puts a file that the product's hook (`orchestrator.base.failpoints`) finds at that step.
"""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import psutil
import pytest

from orchestrator.base import failpoints
from orchestrator.core import record_types
from tests.crash.checker import Found, check
from tests.fakes.relays import Client, until

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# An agent that is asked to stop gets all the time it needs: what it does last is what the tests look at.
CONFIG = "stop_grace_s = 20.0\nkill_grace_s = 1.0\n"
BOUND_S = 60.0  # beyond the longest wait of a tool that is called here
# The parent is the CLI: agents inherit its environment. A session of its own, so that its whole group can be killed.
CLI = ["setsid", "sh", "-c", '"$@"; exit $?', "cli", sys.executable, "-P", "-m", "orchestrator", "mcp"]


def over(process):
    """Whether a process has ended, also if nobody has asked yet how."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    return True


class Master(Client):
    """A master CLI with its relay. Every answer is kept; `close` fails when a call was answered twice or never."""

    def __init__(self, stage):
        super().__init__(CLI, stage.root, stage.env)
        self.stage = stage
        self.asked = []
        self.handshake()

    @property
    def victim(self):
        """What to kill instead of the daemon: the CLI and its relay, as a group."""
        return str(-self.process.pid)

    def take(self, bound=BOUND_S):
        """As the client's, with the bound of a whole team."""
        return super().take(bound)

    def ask(self, tool, **arguments):
        """Send a call; its key."""
        self.asked.append(f"{tool}-{len(self.asked)}")
        self.send(id=self.asked[-1], method="tools/call", params={"name": tool, "arguments": arguments})
        return self.asked[-1]

    def told(self, key):
        """The structured content of the one answer to a call, and whether it is an error."""
        result = self.answer(key)["result"]
        return result["structuredContent"], bool(result.get("isError"))

    def do(self, tool, **arguments):
        """A call that must succeed; its answer."""
        told, error = self.told(self.ask(tool, **arguments))
        assert not error, told
        return told

    def close(self):
        self.stage.masters.remove(self)
        answers = [m["id"] for m in self.rest() if "method" not in m and not str(m["id"]).startswith("init")]
        assert sorted(answers) == sorted(self.asked), "one answer per call"

    def gone(self):
        """Its group was killed: reap it, whatever it was told."""
        self.stage.masters.remove(self)
        self.process.wait(BOUND_S)
        self.end()


class Stage:
    """One project with its tmux window; ``detached``: the master runs outside tmux."""

    def __init__(self, base, *, fake=True, detached=False, config=""):
        self.base, self.root = base, base / "p"
        (self.root / ".agents").mkdir(parents=True)
        self.name = f"orchestrator-crash-{uuid.uuid4().hex[:12]}"
        (self.root / ".agents" / "config.toml").write_text(f'tmux_socket = "{self.name}"\n{CONFIG}{config}')
        self.kills = base / "kills"
        self.kills.mkdir()
        self.ledger = base / "ledger"
        self.masters = []
        self.count = itertools.count(1)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TMUX", "ORCHESTRATOR"))}
        self.env = {
            **kept,
            "HOME": str(base),
            "ORCHESTRATOR_RUN_BASE": str(base / "run"),
            "ORCHESTRATOR_STATE_DIR": str(base / "state"),
            failpoints.VARIABLE: f"*={self.kills}",
            "PYTHONPATH": os.pathsep.join([*([str(HERE / "fake_agent")] if fake else []), str(ROOT)]),
            "FAKE_AGENT_PYTHON": sys.executable,
        }
        self.detached = detached
        if not detached:
            self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "220", "-y", "60", "--", "env", "cat")
            where = self.tmux("display-message", "-p", "#{socket_path},#{pid},0 #{pane_id}").split()
            self.env["TMUX"], self.env["TMUX_PANE"] = where

    # -- tmux, processes ----------------------------------------------------------------------------------------

    def tmux(self, *words):
        env = {**os.environ, "HOME": str(self.base)}
        done = subprocess.run(["tmux", "-L", self.name, *words], capture_output=True, text=True, env=env)
        return done.stdout.strip() if done.returncode == 0 else ""

    def panes(self):
        """Agent id (or "") of every pane of the server."""
        out = self.tmux("list-panes", "-a", "-F", "x#{@orchestrator_agent}")
        return sorted(line[1:] for line in out.split("\n") if line)

    def processes(self):
        """Every living process that belongs to this stage, but tmux and the user's own pane."""
        found = []
        mark, place = os.fsencode(self.env["ORCHESTRATOR_RUN_BASE"]), os.fsencode(self.base)
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError, psutil.Error):
                words = (entry / "cmdline").read_bytes().split(b"\0")[:-1]
                if not words or b"tmux" in words[0] or words in ([b"cat"], [b"env", b"cat"]):
                    continue  # a process without words is a zombie or the kernel's
                ours = b"ORCHESTRATOR_RUN_BASE=" + mark in (entry / "environ").read_bytes().split(b"\0")
                if ours or any(place in word for word in words):
                    found.append(psutil.Process(int(entry.name)))
        return found

    def daemons(self):
        found = {p.pid: p for p in self.processes() if "daemon" in _words(p) and "mcp" not in _words(p)}
        # What a daemon has forked, and has not executed its own program yet, is its picture.
        return [p for p in found.values() if _parent(p) not in (None, *found)]

    def daemon(self):
        """The daemon, as soon as there is just one; another may be about to be started."""
        [one] = until(lambda: found if len(found := self.daemons()) == 1 else None)
        return one

    def agents(self):
        """The fake agents that run."""
        return [p for p in self.processes() if any(word.endswith("agent.py") for word in _words(p)[-1:])]

    # -- the hook -----------------------------------------------------------------------------------------------

    def arm(self, step, victim="self"):
        """The next process to pass the step kills the victim."""
        half = self.kills / "half"
        half.write_text(victim)
        half.rename(self.kills / step)

    def fired(self, step):
        return bool(list(self.kills.glob(f"{step}.*")))

    def spent(self, step):
        """The step was reached and its victim was killed; forget it, so that it can be armed again."""
        until(lambda: self.fired(step))
        for taken in self.kills.glob(f"{step}.*"):
            taken.unlink()

    def disarm(self, step):
        (self.kills / step).unlink(missing_ok=True)

    # -- the team -----------------------------------------------------------------------------------------------

    def master(self):
        one = Master(self)
        self.masters.append(one)
        return one

    def payload(self, **more):
        return {"ledger": str(self.ledger), **more}

    def found(self):
        return Found(self.root)

    def new(self, kind):
        return f"{kind}{next(self.count)}"

    def ended(self, task_id):
        """Wait for the task's terminal event in the files; it."""
        logs = self.root / ".agents" / "agents"
        return until(lambda: _last(logs.glob("*/outbox.jsonl"), ("result", "error", "canceled"), task_id), BOUND_S)

    def record(self, agent_id, kind, task_id=None):
        """Wait for a record in the agent's outbox; it."""
        log = self.root / ".agents" / "agents" / agent_id / "outbox.jsonl"
        return until(lambda: _last([log], (kind,), task_id), BOUND_S)

    def told(self):
        """Wait until the digest has told all that the agents' files hold: then nothing is under way any more."""
        logs = self.root / ".agents"

        def look():
            told = {(r["agent_id"], r["ref"]) for path in logs.glob("run/*/broadcast.jsonl") for r in _records(path)}
            due = {
                (path.parent.name, r["seq"])
                for path in logs.glob("agents/*/outbox.jsonl")
                for r in _records(path)
                if r["type"] in record_types.BROADCAST_TYPES
            }
            return due <= told

        until(look)

    def check(self, **more):
        return check(self.root, self.ledger, **more)

    def deleted(self, agent_id):
        """Wait until a delete that nobody waits for any more has done all: its record, and the end of the run."""
        self.record(agent_id, "deleted")
        until(lambda: all(run["ended_at"] for run in self.found().runs.values()))

    def finish(self):
        """Delete every agent, stop the daemon: nothing may be left over, in files, panes or processes."""
        master = self.master()
        for row in master.do("agent_list", scope="all")["agents"]:
            if row["status"] != "deleted":
                assert master.do("agent_delete", agent_id=row["agent_id"])["ok"]
        live = [run_id for run_id, run in self.found().runs.items() if run["ended_at"] is None]
        assert live == [], "the window is put back before the last delete is answered"
        master.close()
        self.stop()
        self.check(ended=True)
        until(lambda: self.panes() == ([] if self.detached else [""]))
        if not self.detached:
            assert self.tmux("show-options", "-w") == "", "the window is as the user had it"
        # What watches over a worker and its command ends a moment after them.
        until(lambda: not [p for p in self.processes() if p.pid not in self._masters()])

    def _masters(self):
        pids = set()
        for one in self.masters:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(one.process.pid)
                pids |= {process.pid, *(child.pid for child in process.children(recursive=True))}
        return pids

    def stop(self):
        """End the daemon in good order; without masters and agents nobody starts another.

        A relay that has lost its agent starts one all the same while a call of the agent has no answer.
        """
        until(lambda: not [p for p in self.processes() if "mcp" in _words(p) and p.pid not in self._masters()])
        for daemon in self.daemons():
            with contextlib.suppress(psutil.NoSuchProcess):
                daemon.terminate()
        until(lambda: not self.daemons())

    def log(self):
        return "\n".join(path.read_text() for path in (self.base / "run").glob("*/log"))

    def close(self):
        for one in list(self.masters):
            one.end()
        self.tmux("kill-server")
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)
        with contextlib.suppress(FileNotFoundError):
            (Path(os.environ.get("TMUX_TMPDIR", "/tmp")) / f"tmux-{os.getuid()}" / self.name).unlink()


def _last(logs, kinds, task_id):
    """The last record of one of the kinds in any of the logs, whose last line may still be on its way."""
    found = None
    for path in logs:
        for record in _records(path):
            if record["type"] in kinds and record.get("task_id") == task_id:
                found = record
    return found


def _records(path):
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] if path.exists() else []


def _words(process):
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def _parent(process):
    with contextlib.suppress(psutil.Error):
        return process.ppid()
    return None  # it has ended


@pytest.fixture
def stages(tmp_path):
    """Makes stages, and ends what they left when a test fails."""
    made = []

    def make(**options):
        made.append(Stage(tmp_path / f"s{len(made)}", **options))
        return made[-1]

    yield make
    for one in made:
        print(one.log()[-6000:])
        one.close()


@pytest.fixture
def stage(stages):
    return stages()


@pytest.fixture
def fleets():
    """Makes fleets of real hosts on a server, and ends what they left when a test fails."""
    from tests.support.fleet_stage import FleetStage  # made of stages of this file

    made = []

    def make(server, hosts="abc", **options):
        made.append(FleetStage(server, hosts, **options))
        return made[-1]

    yield make
    for one in made:
        print(one.log())
        one.close()
