"""A fleet of real hosts on one machine: daemons, relays, tmux servers, agents, and a real PostgreSQL.

Each host is a stage of the crash matrix with a project, HOME, state and run directory and tmux server of its own. All
that they share is the database.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import psycopg

from orchestrator.base.final_states import TERMINAL
from orchestrator.core import record_types
from orchestrator.edge import project_location
from orchestrator.team.recovery.verification import verify
from tests.crash.checker import read_log
from tests.crash.conftest import BOUND_S, Stage, over
from tests.fakes.relays import until

QUIET_S = 120.0
"""Until all is told after a fault: a lost host, and the pauses after errors, take some of it."""


class FleetHost(Stage):
    """One host; it owns nothing outside its directory."""

    def __init__(self, base, host, project, dsn, *, fake=True, env=None, config=""):
        super().__init__(base, fake=fake, detached=True, config=config)
        self.host, self.project = host, project
        self.env |= {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
            "ORCHESTRATOR_FLEET_DSN": dsn,
            "ORCHESTRATOR_FLEET_PROJECT": project,
            "ORCHESTRATOR_FLEET_HOST": host,
            "ORCHESTRATOR_FLEET_ACCEPT": json.dumps({"hosts": ["*"]}),
            "ORCHESTRATOR_TMUX_SOCKET": self.name,
            "ORCHESTRATOR_ENGINE": "shell",
            **(env or {}),
        }

    def cli(self, *args):
        """A command of the user at this host, by `orchestrator`; it has ended."""
        return subprocess.run(
            [sys.executable, "-P", "-m", "orchestrator", *args],
            cwd=self.root, env=self.env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=BOUND_S,
            check=False,
        )  # fmt: skip

    def start(self):
        """Start the daemon, if none runs."""
        done = self.cli("daemon", "start")
        assert done.returncode == 0, done.stdout + done.stderr

    def fleet(self):
        """What the daemon says of the fleet."""
        done = self.cli("daemon", "status", "--json")
        return json.loads(done.stdout).get("fleet") if done.returncode == 0 else None

    def tmux_server(self):
        """The pid of the tmux server, if it runs."""
        out = self.tmux("list-sessions", "-F", "#{pid}").split()
        with contextlib.suppress(psutil.NoSuchProcess):
            return [psutil.Process(int(out[0]))] if out else []
        return []

    def everything(self):
        """All processes of the host but masters and their relays."""
        return [*self.tmux_server(), *(p for p in self.processes() if p.pid not in self._masters())]

    def freeze(self):
        """Stop all of the host, as a laptop's sleep or a hypervisor does; the frozen processes, for `thaw`."""
        frozen = {}
        while new := [p for p in (self.processes() if frozen else self.everything()) if p.pid not in frozen]:
            for process in new:
                frozen[process.pid] = process
                with contextlib.suppress(psutil.Error):
                    process.suspend()
        return list(frozen.values())

    def thaw(self, frozen):
        """Let the host go on."""
        for process in frozen:
            with contextlib.suppress(psutil.Error):
                process.resume()

    def kill(self):
        """End all of the host at once, as a power cut does: daemon, tmux server, panes, masters."""
        for one in list(self.masters):
            self.masters.remove(one)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.process.pid, signal.SIGKILL)
            one.process.wait(BOUND_S)
            one.end()
        dead = self.freeze()  # else a relay whose daemon went first starts another
        for process in dead:
            with contextlib.suppress(psutil.Error):
                process.kill()
        until(lambda: all(map(over, dead)))

    def kill_daemon(self):
        """End the daemon alone; a waiting agent's relay starts another."""
        one = self.daemon()
        one.kill()
        until(lambda: over(one))

    def hold(self):
        """Let no relay start another daemon until `start`."""
        [place] = until(lambda: list((self.base / "run").glob("*/")))
        (place / project_location.STOPPED).touch()

    def agent_dir(self, agent_id):
        return self.root / ".agents" / "agents" / agent_id


class FleetStage:
    """Hosts of one new project in a database; `check` compares all that they have with all that was accepted."""

    def __init__(self, server, hosts="abc", *, dsn=None, **options):
        # Short: sockets are in it, and pytest's own directories come near the limit of their paths.
        self.base, self.server = Path(tempfile.mkdtemp(prefix="of-")), server
        self.project = server.project()
        self.ledger = self.base / "ledger"
        self.hosts: dict[str, FleetHost] = {}
        for name in hosts:
            direct = server.add_host(self.project, name)
            reached = dsn(name, direct) if dsn else direct
            self.hosts[name] = FleetHost(self.base / name, name, self.project, reached, **options)
        self.accepted: dict[str, str] = {}  # task -> agent
        self.tasks = 0
        self.heard: list[dict[str, Any]] = []  # the broadcast as the master read it
        self.cursor = 0
        self.reading: dict[str, Any] = {}  # arguments by which the master names the broadcast it reads
        self.forgotten_posts = False  # the database is an older copy: owners may have taken posts that it lost

    def __getitem__(self, name):
        return self.hosts[name]

    def start(self):
        """Start all daemons; each has joined."""
        for host in self.hosts.values():
            host.start()
        until(lambda: all((host.fleet() or {}).get("renewed_s") is not None for host in self.hosts.values()))

    def begin(self):
        """Start all, with a master at the first host; this stage."""
        self.start()
        self.master = next(iter(self.hosts.values())).master()
        return self

    def over(self):
        """Wait until all is told; it is true, and the master has read it."""
        self.check()
        until(lambda: len(self.read(self.master)) >= len(self.accepted))  # what is written is read once it is durable
        assert self.read(self.master) == dict.fromkeys(self.accepted, 1)

    def verified(self):
        """`orchestrator verify --fleet` on every host; the stage is over."""
        for host in self.hosts.values():
            done = host.cli("verify", "--fleet", "--json")
            assert done.returncode == 0, (host.host, done.stdout, done.stderr)

    def lose(self, host):
        """A host is gone, and its lease has ended."""
        self[host].kill()
        self.expire(host)

    def sql(self, query, *values):
        """Rows, as the owner of the schema sees them; a new connection, for the server may have been killed."""
        with psycopg.connect(self.server.cluster.dsn(self.server.database), autocommit=True) as owner:
            cursor = owner.execute(query, values)
            return cursor.fetchall() if cursor.description is not None else []

    def expire(self, name):
        """As if that host's lease had ended and the others had renewed theirs for long: 40 s need not pass."""
        self.sql(
            "update orchestrator_fleet.host set lease_until = orchestrator_fleet.db_now() - interval '6 s'"
            " where project = %s and host = %s",
            self.project, name,
        )  # fmt: skip
        self.sql(
            "update orchestrator_fleet.host set unbroken_since = orchestrator_fleet.db_now() - interval '1 min'"
            " where project = %s and host <> %s",
            self.project, name,
        )  # fmt: skip

    # -- what a master does -------------------------------------------------------------------------------------

    def create(self, host, name="w", lost="move"):
        """A new agent at a host; it is ready."""
        made = self.master.do(
            "agent_create", name=name, role="r", engine="shell", host=host, policies={"on_host_lost": lost}
        )
        return made["agent_id"]

    def takes(self, tool, **arguments):
        """Whether a call of the master is carried out; `fleet_away` says to repeat it."""
        answer, error = self.master.told(self.master.ask(tool, **arguments))
        assert not error or answer["error"]["code"] == "fleet_away", answer
        return not error

    def enqueue(self, agent, **payload):
        """Accept one task for an agent; its id."""
        self.tasks += 1
        task_id = f"t{self.tasks}"
        task = {"task_id": task_id, "payload": {"ledger": str(self.ledger), **payload}}
        until(lambda: self.takes("task_enqueue", agent_id=agent, task=task))
        self.accepted[task_id] = agent
        return task_id

    def owner(self, agent):
        """(host, fence) by the database."""
        [row] = self.sql(
            "select host, fence from orchestrator_fleet.agent where project = %s and agent = %s", self.project, agent
        )
        return row

    def mirror(self, agent, log):
        """The mirrored lines of one log, in order."""
        rows = self.sql(
            "select line from orchestrator_fleet.log where project = %s and agent = %s and log = %s order by seq",
            self.project, agent, log[0],
        )  # fmt: skip
        return [line for (line,) in rows]

    def ended(self, task_id):
        """Whether the mirror has the task's end."""
        rows = self.sql(
            "select 1 from orchestrator_fleet.log where project = %s and agent = %s and task_id = %s"
            " and log = 'o' and type = any(%s)",
            self.project, self.accepted[task_id], task_id, sorted(TERMINAL),
        )  # fmt: skip
        return bool(rows)

    def all_ended(self, bound=QUIET_S):
        """Wait until every accepted task has its end in the mirror."""
        until(lambda: all(self.ended(task) for task in self.accepted), bound)

    def run_id(self):
        """The run of the fleet's agents."""
        [(run_id,)] = self.sql("select run_id from orchestrator_fleet.run where project = %s", self.project)
        return run_id

    def led_by(self, master, gen):
        """Another master leads now, and reads this broadcast of the run from the beginning."""
        self.master, self.cursor, self.heard = master, 0, []
        self.reading = {"run_id": self.run_id(), "gen": gen}

    def read(self, master):
        """Read the broadcast on, without a wait: dense, and each task's end once."""
        while (page := master.do("broadcast_read", since_seq=self.cursor, max_events=1000, **self.reading))["events"]:
            for event in page["events"]:
                self.cursor += 1
                assert event["seq"] == self.cursor, "the broadcast has a gap"
                self.heard.append(event)
        return Counter(event["task_id"] for event in self.heard if event["type"] in TERMINAL)

    # -- what must be true --------------------------------------------------------------------------------------

    def agents(self):
        """{fleet id: (host, home, fence, in_seq, out_seq)} of the project."""
        rows = self.sql(
            "select agent, host, home, fence, in_seq, out_seq from orchestrator_fleet.agent where project = %s",
            self.project,
        )
        return {agent: rest for agent, *rest in rows}

    def quiet(self, bound=QUIET_S):
        """Wait until each owner's logs are in the mirror, and the home's broadcast tells all of them.

        No former owner that lives has the agent then, and what such a one has reported late is among its records.
        """

        def look():
            for agent, (host, home, _, in_seq, out_seq) in self.agents().items():
                place = self[host].agent_dir(agent)
                for log, end in (("inbox", in_seq), ("outbox", out_seq)):
                    if not place.is_dir() or len(read_log(place, log)) != end:
                        return False
                told = {r["ref"] for r in self.broadcast(home) if r["agent_id"] == agent}
                due = {r["seq"] for r in read_log(place, "outbox") if r["type"] in record_types.BROADCAST_TYPES}
                if told != due or self._has_former_owner(agent, host) or not self._late_ends_recorded(agent, place):
                    return False
            return True

        until(look, bound)

    def _has_former_owner(self, agent, owner):
        """Whether another host whose daemon runs has not set its directory aside yet."""
        places = {name: host.agent_dir(agent) for name, host in self.hosts.items() if name != owner}
        return any(
            place.is_dir() and not (place / "mirror.json").exists() and self[name].fleet() is not None
            for name, place in places.items()
        )

    def _late_ends_recorded(self, agent, place):
        """Whether the owner has recorded each task that ended too late on a former owner."""
        lines = self.sql(
            "select line from orchestrator_fleet.late where project = %s and agent = %s and log = 'outbox'",
            self.project, agent,
        )  # fmt: skip
        reported = {r["task_id"] for (line,) in lines if (r := json.loads(line))["type"] in TERMINAL}
        recorded = {record["task_id"] for record in read_log(place, "outbox") if record["type"] == "late"}
        return reported & set(self.accepted) <= recorded

    def broadcast(self, home):
        """The records of the home's broadcasts."""
        places = sorted((self[home].root / ".agents" / "run").glob("*/broadcast.jsonl"))
        return [record for place in places for record in read_log(place.parent, "broadcast")]

    def check(self):
        """Fail unless nothing was lost, done twice unnoticed, or told wrongly. Everything must be over."""
        self.all_ended()
        self.quiet()
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        runs = Counter(tuple(line.split()) for line in lines)
        for host in self.hosts.values():
            report = verify(host.root, live=False, settled=True)
            assert report.ok, (host.host, report.violations)
        attempts: dict[str, int] = {}
        for agent, (host, home, fence, _, _) in self.agents().items():
            assert not list(self[host].root.glob(".agents/**/*.torn")), "kill -9 tears no line"
            logs = {log: self._same(agent, host, log) for log in ("inbox", "outbox")}
            self._posts(agent, logs)
            epochs = [record["epoch"] for record in logs["outbox"]]
            assert epochs == sorted(epochs), agent
            ends = Counter(record["task_id"] for record in logs["outbox"] if record["type"] in TERMINAL)
            due = {task for task, owner in self.accepted.items() if owner == agent}
            assert ends == dict.fromkeys(due, 1), (agent, ends)
            for record in logs["outbox"]:
                if record["type"] == "delivered":
                    task = record["task_id"]
                    attempts[task] = max(record["attempt"], attempts.get(task, 0))
            fences = self.sql(
                "select fence from orchestrator_fleet.log where project = %s and agent = %s and log = 'o'"
                " order by seq",
                self.project, agent,
            )  # fmt: skip
            assert fences == sorted(fences), agent
            assert fences[-1][0] <= fence, agent
            told = [record["ref"] for record in self.broadcast(home) if record["agent_id"] == agent]
            assert told == sorted(set(told)), f"{agent}: the broadcast is not in order"
        for (task, attempt), count in runs.items():
            assert count == 1, f"attempt {attempt} of {task} ran {count} times"
            assert int(attempt) <= attempts.get(task, 0), f"{task} ran in an attempt that was never handed out"

    def _same(self, agent, host, log):
        """The records of an owner's log, which is byte for byte what the mirror has."""
        place = self[host].agent_dir(agent)
        files = [*sorted(place.glob(f"{log}.*.jsonl")), place / f"{log}.jsonl"]
        own = b"".join(file.read_bytes() for file in files if file.exists()).decode().splitlines()
        assert own == self.mirror(agent, log), f"{agent}: {log} differs from its mirror"
        return [json.loads(line) for line in own]

    def _posts(self, agent, logs):
        """Each post was taken once, in the order of its number."""
        posts = self.sql(
            "select seq, kind from orchestrator_fleet.post where project = %s and agent = %s order by seq",
            self.project, agent,
        )  # fmt: skip
        refs = [record["ref"] for record in logs["inbox"] if "ref" in record]
        assert refs == sorted(set(refs)), f"{agent}: posts taken out of order or twice"
        assert self.forgotten_posts or set(refs) <= {seq for seq, _ in posts}
        assert {seq for seq, kind in posts if kind == "task"} <= set(refs), f"{agent}: a post was not taken"

    # -- the end ------------------------------------------------------------------------------------------------

    def log(self):
        """What the daemons have written last."""
        return "\n".join(f"-- {name}\n{host.log()[-4000:]}" for name, host in self.hosts.items())

    def close(self):
        """End all that runs, however the test ended."""
        for host in self.hosts.values():
            with contextlib.suppress(AssertionError):
                host.kill()
            host.close()
        for host in self.hosts.values():
            until(lambda host=host: not host.processes())
        shutil.rmtree(self.base, ignore_errors=True)
