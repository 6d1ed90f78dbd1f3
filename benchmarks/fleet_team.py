"""A fleet on one machine: real daemons of many hosts, a private PostgreSQL, agents, and who speaks for them all.

Each host is a project of its own (home, state and run directory, tmux server). The hosts share only the database, with
`synchronous_commit` as shipped. The first host is the home: there a master gives tasks to the agents of all hosts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import psycopg

from benchmarks import sockets
from benchmarks.project import Project, cpu_s
from benchmarks.trees import end_left_processes
from benchmarks.wire import Wire
from orchestrator.base.final_states import TERMINAL
from orchestrator.fleet import administration, migrations
from orchestrator.fleet.private_cluster import PrivateCluster, running

HOSTS, DIRECT, RELAYED = 10, 40, 10
"""Hosts, and agents of each: of some a client speaks straight to the daemon's socket, of the others through a relay."""
VICTIM = "victim"
"""One host more, with one shell agent. It is the one that is lost."""
NAME = "bench"
PLACES = 100
AT_ONCE = 4
WAIT_MS = 50_000
READ_MS, READ_S = 500, 0.02
"""The wait of a read of the broadcast, and the pause after each: a master does not read after each single event."""
ACCEPT = {"hosts": ["*"], "commands": {"idle": "sleep 86400"}}
PAYLOAD = {"command": "true", "note": "x" * 160}
COUNT_SYNCS = """\
import sys
if "daemon" in sys.orig_argv:
    import mmap, os, threading
    lock, counts = threading.Lock(), {}
    def counted(call):
        real = getattr(os, call)
        def sync(fd):
            real(fd)
            name = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
            kind = "logs" if name.startswith(("inbox", "outbox")) else "others"
            with lock:
                key = f"{PLACE}/{os.getpid()}.{kind}"
                if key not in counts:
                    file = os.open(key, os.O_RDWR | os.O_CREAT)
                    os.truncate(file, 8)
                    counts[key] = mmap.mmap(file, 8)
                number = int.from_bytes(counts[key], "little") + 1
                counts[key][:] = number.to_bytes(8, "little")
        setattr(os, call, sync)
    counted("fdatasync"), counted("fsync")
"""
"""Run first by each Python program of a host: a daemon keeps its numbers of syncs in files named by its pid.

Apart from the logs of agents it syncs the broadcast of a run, and the meta.json of an agent, which is replaced.
"""


class Host(Project):
    """One host; `ended` ends all of it at once."""

    def __init__(self, name: str, dsn: str) -> None:
        super().__init__()
        self.name = name
        self.env |= {
            "ORCHESTRATOR_FLEET_DSN": dsn,
            "ORCHESTRATOR_FLEET_PROJECT": NAME,
            "ORCHESTRATOR_FLEET_HOST": name,
            "ORCHESTRATOR_FLEET_PLACES": str(PLACES),
            "ORCHESTRATOR_FLEET_ACCEPT": json.dumps(ACCEPT),
        }
        self._counts = self.directory / "syncs"
        self._counts.mkdir()
        self.site(f"PLACE = {str(self._counts)!r}\n{COUNT_SYNCS}")
        self.pid = 0

    def start(self) -> None:
        """Start the daemon."""
        done = self.command("daemon", "start")
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        self.pid = self.daemon_pid()

    def syncs(self, kind: str) -> int:
        """How often the daemon has synced files of this kind: `logs` of agents, or `others`."""
        file = self._counts / f"{self.pid}.{kind}"
        return int.from_bytes(file.read_bytes(), "little") if file.exists() else 0

    def ended(self) -> None:
        """End all of the host with kill -9, as the end of its machine does."""
        while end_left_processes(self.directory):
            pass


class Fleet:
    """The hosts, and the connection of the database's owner."""

    def __init__(self, cluster: PrivateCluster, owner: psycopg.Connection[Any]) -> None:
        self.cluster, self.owner = cluster, owner
        self.hosts: list[Host] = []
        self.run_id = ""

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls) -> AsyncIterator[Fleet]:
        """A fleet whose hosts all have a lease; nothing of it is left afterwards."""
        with running() as cluster:
            with psycopg.connect(cluster.dsn(), autocommit=True) as server:
                server.execute("alter system set shared_preload_libraries = 'pg_stat_statements'")
            cluster.restart()
            with psycopg.connect(cluster.dsn(), autocommit=True) as server:
                server.execute("create database fleet template template0")
            with psycopg.connect(cluster.dsn("fleet"), autocommit=True) as owner:
                owner.execute("create extension pg_stat_statements")
                migrations.migrate(owner)
                fleet = cls(cluster, owner)
                try:
                    for name in (*(f"h{number}" for number in range(HOSTS)), VICTIM):
                        role = administration.add_host(owner, NAME, name).role
                        fleet.hosts.append(Host(name, cluster.dsn("fleet", role)))
                    await together(asyncio.to_thread(host.start) for host in fleet.hosts)
                    while not all(row.lease_left_s for row in administration.hosts(owner, NAME)):
                        await asyncio.sleep(0.1)
                    yield fleet
                finally:
                    for host in fleet.hosts:
                        host.ended()
                    await together(host.close() for host in fleet.hosts)

    @property
    def home(self) -> Host:
        return self.hosts[0]

    @property
    def members(self) -> list[Host]:
        """The hosts that are not lost."""
        return self.hosts[:HOSTS]

    @property
    def victim(self) -> Host:
        return self.hosts[-1]

    async def agents(self, master: Wire) -> tuple[list[tuple[str, Wire]], list[tuple[str, Wire]]]:
        """Make the agents of all hosts; those that speak straight to their daemon, and those with a relay."""
        direct: list[list[tuple[str, Wire]]] = []
        relayed: list[list[tuple[str, Wire]]] = []
        for host in self.members:
            made = await master.call(
                "agents_create",
                agents=[
                    {"name": f"{host.name}-{n}", "role": "bench", "engine": "command", "command": ["idle"],
                     "host": host.name}
                    for n in range(DIRECT + RELAYED)
                ],
                ready_wait_ms=0,
            )  # fmt: skip
            ids = [row["agent_id"] for row in made["agents"]]
            self.run_id = made["agents"][0]["run_id"]
            while not await _recorded(master, ids):
                await asyncio.sleep(0.1)
            direct.append(await together(_direct(host, agent_id) for agent_id in ids[:DIRECT]))
            relayed.append(await together(_relayed(host, agent_id) for agent_id in ids[DIRECT:]))
        return _in_turn(direct), _in_turn(relayed)

    def statements(self) -> int:
        """The statements of all hosts so far, as the server counts them; each is a transaction of its own."""
        (row,) = self.owner.execute(
            "select coalesce(sum(calls), 0) from pg_stat_statements join pg_roles on userid = pg_roles.oid"
            " where rolname <> current_user"
        ).fetchall()
        return int(row[0])

    def used(self) -> dict[str, float]:
        """What the fleet has used so far: statements, syncs of logs and others, ms of CPU of the daemons."""
        return {
            "statements": self.statements(),
            "logs": self._syncs("logs"),
            "others": self._syncs("others"),
            "cpu": cpu_s(*(host.pid for host in self.members)) * 1000,
        }

    def _syncs(self, kind: str) -> int:
        """The syncs of all daemons so far, of `logs` or of `others`."""
        return sum(host.syncs(kind) for host in self.members)

    def outboxes(self) -> Iterator[dict[str, Any]]:
        """The records of the outboxes of all agents, each read from the files of its owner."""
        hosts = {host.name: host for host in self.members}
        for agent_id, name in self.owner.execute(
            "select agent, host from orchestrator_fleet.agent where life <> 'deleted'"
        ).fetchall():
            yield from outbox(hosts[name], agent_id)

    def ends(self, tasks: Iterable[str]) -> Counter[str]:
        """How often the mirrors have an end of these tasks."""
        rows = self.owner.execute(
            "select task_id, count(*) from orchestrator_fleet.log where project = %s and log = 'o'"
            " and type = any(%s) and task_id = any(%s) group by task_id",
            [NAME, sorted(TERMINAL), list(tasks)],
        )
        return Counter(dict(rows.fetchall()))


def _in_turn(agents: list[list[tuple[str, Wire]]]) -> list[tuple[str, Wire]]:
    """The first agent of each host, then the second of each, and so on."""
    return [agent for row in zip(*agents, strict=True) for agent in row]


async def together(works: Iterable[Any]) -> list[Any]:
    """The results of all, in order; a few run at a time."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(work: Any) -> Any:
        async with limit:
            return await work

    return await asyncio.gather(*map(one, works))


def outbox(host: Host, agent_id: str) -> Iterator[dict[str, Any]]:
    """The records of an agent's outbox, read from the files of a host."""
    for file in sorted(host.root.glob(f".agents/agents/{agent_id}/outbox*.jsonl")):
        with file.open("rb") as lines:
            yield from map(json.loads, lines)


async def _recorded(master: Wire, ids: list[str]) -> bool:
    """Whether the home knows the first record of all these agents."""
    rows = (await master.call("agent_list"))["agents"]
    return {row["agent_id"] for row in rows if row["last_event_seq"]}.issuperset(ids)


async def _direct(host: Host, agent_id: str) -> tuple[str, Wire]:
    return agent_id, await sockets.agent(host, agent_id)


async def _relayed(host: Host, agent_id: str) -> tuple[str, Wire]:
    wire = await host.agent_relay(agent_id)
    await wire.call("wait_for_command", agent_id=agent_id, timeout_ms=0)
    return agent_id, wire


class Side:
    """A master and agents that always wait for a task and end it at once; all through relays, or all without.

    After each run `check` counts, in the owners' logs, the mirrors and the broadcast, what became of its tasks.
    """

    def __init__(self, fleet: Fleet, name: str, master: Wire, agents: list[tuple[str, Wire]]) -> None:
        self._fleet, self._name, self._master, self._agents = fleet, name, master, agents
        self._enqueued: dict[str, float] = {}
        self._received: dict[str, float] = {}
        self._told: Counter[str] = Counter()
        self._cursor = 0
        self._count = 0
        self.checked = 0
        self._serving = [asyncio.create_task(self._serve(*agent)) for agent in agents]

    async def close(self) -> None:
        """Let the agents wait no more."""
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def paced(self, count: int, per_s: float) -> list[float]:
        """ms of each task from its enqueue until its agent has it; one task is begun every ``1 / per_s`` seconds."""
        began = time.perf_counter()
        async with self._reading(), asyncio.TaskGroup() as asking:
            for number in range(count):
                await asyncio.sleep(began + number / per_s - time.perf_counter())
                asking.create_task(self._enqueue())
        taken = [(self._received[task] - at) * 1000 for task, at in self._enqueued.items()]
        await self.check()
        return taken

    async def saturated(self, seconds: float, unsettled: int) -> float:
        """Cycles per second, from the first enqueue until the home's broadcast has told the last end.

        Tasks are begun for so long, so many are under way at a time.
        """
        self._free = asyncio.Semaphore(unsettled)
        began = time.perf_counter()
        async with self._reading(), asyncio.TaskGroup() as asking:
            while time.perf_counter() - began < seconds:
                await self._free.acquire()
                asking.create_task(self._enqueue())
        cycles, took = len(self._enqueued), self._told_at - began
        await self.check()
        return cycles / took

    async def check(self) -> None:
        """Raise unless each task of the run was handed out once and has one end, everywhere."""
        tasks, self._enqueued = self._enqueued, {}
        self._received = {}
        while set(self._fleet.ends(tasks)) != set(tasks):
            await asyncio.sleep(0.1)
        delivered, ended = await asyncio.to_thread(self._recorded)
        for where, found in (
            ("handed out, in the owners' logs", delivered), ("ended, in the owners' logs", ended),
            ("ended, in the mirrors", self._fleet.ends(tasks)), ("ended, in the broadcast", self._told),
        ):  # fmt: skip
            lost = [task for task in tasks if not found[task]]
            twice = [task for task in tasks if found[task] > 1]
            if lost or twice:
                raise RuntimeError(f"of {len(tasks)} tasks {len(lost)} lost and {len(twice)} twice: {where}")
        self.checked += len(tasks)

    def _recorded(self) -> tuple[Counter[str], Counter[str]]:
        delivered: Counter[str] = Counter()
        ended: Counter[str] = Counter()
        for record in self._fleet.outboxes():
            if record["type"] == "delivered":
                delivered[record["task_id"]] += 1
            elif record["type"] in TERMINAL:
                ended[record["task_id"]] += 1
        return delivered, ended

    async def _enqueue(self) -> None:
        self._count += 1
        task_id = f"{self._name}-{self._count}"
        agent_id, _ = self._agents[self._count % len(self._agents)]
        self._enqueued[task_id] = time.perf_counter()
        await self._master.call("task_enqueue", agent_id=agent_id, task={"task_id": task_id, "payload": PAYLOAD})

    async def _serve(self, agent_id: str, wire: Wire) -> None:
        while True:
            got = await wire.call("wait_for_command", agent_id=agent_id, timeout_ms=WAIT_MS)
            if got["status"] == "command":
                self._received[got["command"]["task_id"]] = time.perf_counter()
                await wire.call("emit_event", agent_id=agent_id, type="result", payload={"exit_code": 0})

    @contextlib.asynccontextmanager
    async def _reading(self) -> AsyncIterator[None]:
        """Read the broadcast, until after the block it has told the ends of all tasks."""
        self._asking = True
        reading = asyncio.create_task(self._read())
        yield
        self._asking = False
        await reading

    async def _read(self) -> None:
        while self._asking or not self._told.keys() >= self._enqueued.keys():
            page = await self._master.call(
                "broadcast_read", run_id=self._fleet.run_id, since_seq=self._cursor, max_events=1000, wait_ms=READ_MS
            )
            for event in page["events"]:
                self._cursor = event["seq"]
                task_id = event.get("task_id", "")
                if event["type"] in TERMINAL and task_id.startswith(f"{self._name}-"):
                    self._told[task_id] += 1
                    self._told_at = time.perf_counter()
                    self._free.release()
            await asyncio.sleep(READ_S)

    _asking = False
    _told_at = 0.0
    _free = asyncio.Semaphore(0)
