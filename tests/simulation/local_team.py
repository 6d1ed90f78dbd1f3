"""The world of a local team: one machine with a disk, a daemon that dies and comes again, masters, readers and CLIs.

Real: `core`, the roster, delivery, checkpoints, broadcasts and journals. Simulated: time, threads, the disk's losses,
the CLIs and the masters. The supervisor stays out, for it drives tmux: `keep` makes its decisions by the same functions
of `core.supervision`. One seed names everything that happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import structlog

from orchestrator.base import entropy, failpoints
from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import OrchestratorError
from orchestrator.config.keys import Config
from orchestrator.core import supervision
from orchestrator.journal.project_files import Paths, ensure_agents_dir
from orchestrator.team.roster import checkpoints
from orchestrator.team.roster.broadcast import new_run
from orchestrator.team.roster.roster import Roster
from tests.simulation.disk import CHANGES, SimDisk, SimSyncer, installed
from tests.simulation.keeper import Keeper
from tests.simulation.loop import PROCESS, Gone, Process, ProcessDied, SimClock, SimLoop
from tests.simulation.team_actors import Cli, Master, Reader
from tests.simulation.team_checks import Evidence, check

AGENTS = ("a1", "a2", "a3")
RUN = "run-1"
BUSY_S = 40.0
"""How long things go wrong; afterwards all must come to its end."""
QUIET_S = 900.0
RUN_FILE = {
    "v": 1, "run_id": RUN, "created_at": "2026-01-01T00:00:00.000Z", "tmux_socket": "/none", "tmux_name": None,
    "server_pid": 1, "server_start": 1, "window_id": "@1", "master_pane": "%0", "session": "s", "detached": False,
    "changed": None, "agents": {}, "ended_at": None,
}  # fmt: skip


class Daemon:
    """One life of the daemon: opens what the disk has, and takes the steps that the supervisor would take."""

    def __init__(self, world: World, number: int, *, clean: bool) -> None:
        self.world = world
        self.process = Process(world.loop, f"daemon {number}", world.disk)
        self.process.at_step = world.fate
        self.syncer = SimSyncer(self._sync_failed, world.loop, world.disk, world.clock)
        self.roster = Roster(world.root, Paths(world.root), world.clock, self.syncer, lambda: world.config)
        self._clean = clean
        self._keeper = Keeper(world, self.roster)

    def _sync_failed(self, error: Exception) -> None:
        self.world.note(f"the daemon ends: {error}")
        self.process.die()

    def open(self) -> None:
        """Load the team; raises what loading raises, ProcessDied among it."""
        self.process.run(self._open)

    def _open(self) -> None:
        world, roster = self.world, self.roster
        roster.load(clean=self._clean)
        for name, error in roster.corrupt.items():
            if error.code == "io_failed":  # the failed sync: a human looks at the disk, and starts it again
                raise error
            raise AssertionError(f"{name} cannot be trusted after a crash: {error}")
        if RUN not in roster.runs:
            roster.begin_writing()
            roster.runs[RUN] = new_run(
                roster.paths, RUN, dict(RUN_FILE), self.syncer, "fsync", segment_bytes=world.config.segment_bytes
            )
        for entry in roster.agents.values():
            cli = world.clis.get(entry.agent_id)
            entry.secret = cli.secret if cli is not None and cli.epoch == entry.state.epoch else None
        self.keeper = self.process.start(self._keeper.keep())

    async def make(self, agent_id: str) -> None:
        """Create an agent, as agent_create does; harmless when it is there."""
        if agent_id in self.roster.agents:
            return
        policies = {"restart": "on-failure", "max_restarts": 3, "on_lost": "requeue", "max_attempts": 3}
        spec = {"name": agent_id, "role": "r", "engine": "shell", "run_id": RUN, "cwd": "/p", "policies": policies,
                "env_names": []}  # fmt: skip
        at = rfc3339(self.world.clock.now())
        await self.roster.create(agent_id, supervision.starting(agent_id, at=at, req=f"c:{agent_id}", spec=spec))

    def sweep(self) -> None:
        """Give back what the kernel takes from a dead process: its locks and descriptors."""
        claim, cache = self.roster._lock, self.roster.checkpoints._cache
        if claim is not None:
            claim.release()
        if cache is not None:
            with contextlib.suppress(Exception):
                cache.close()
        self.world.disk.release()


class World:
    """One run of one seed; ``trace`` is what happened, line by line."""

    def __init__(self, root: Path, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.loop = SimLoop(self.chance)
        self.clock = SimClock(self.loop)
        self.root = root
        self.disk = SimDisk(root, self.chance)
        self.config = Config(segment_bytes=4096, max_unfinished_tasks=20, restart_backoff_s=1.0)
        self.trace: list[str] = []
        self.evidence = Evidence()
        self.clis: dict[str, Cli] = {}
        self.daemon: Daemon | None = None
        self.busy = True
        self._lives = 0
        self._doom: tuple[str, int, bool] | None = (
            None  # which steps count, how many are left, and whether power goes
        )
        self._cut = False

    # -- what actors use ----------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        self.trace.append(f"{self.loop.time():9.4f}  {text}")

    async def ask(self, make: Callable[[Roster, float], Coroutine[Any, Any, Any]]) -> Any:
        """What the daemon answers to a call, which is sent again with its age until there is an answer."""
        began = self.loop.time()
        while True:
            daemon = self.daemon
            if daemon is None or not daemon.process.alive:
                await asyncio.sleep(0.05 + self.chance.random() * 0.2)
                continue
            delay_s = self.chance.random() * 0.02 if self.chance.random() < 0.5 else 0.0
            with contextlib.suppress(Gone):
                return await daemon.process.call(make(daemon.roster, self.loop.time() - began), delay_s)

    async def make(self, agent_id: str) -> None:
        """Have the daemon create an agent."""
        await self.ask(lambda roster, age: self._daemon().make(agent_id))
        self.note(f"{agent_id} is made")
        self.evidence.made.append(agent_id)

    def launch(self, agent_id: str, epoch: int, secret: str) -> None:
        """Start a CLI for a launch of the agent."""
        self.note(f"{agent_id}: launch {epoch}")
        before = self.clis.get(agent_id)
        if before is not None and not before.given_up:
            before.process.die()
        self.clis[agent_id] = Cli(self, agent_id, epoch, secret)

    # -- what goes wrong ----------------------------------------------------------------------------------------

    def fate(self, step: str) -> None:
        """Called before each system call of the daemon and at its failpoints."""
        if self._doom is None:
            return
        counted, left, cut = self._doom
        if step not in CHANGES if counted == "call" else not step.startswith("failpoint "):
            return
        self._doom = (counted, left - 1, cut)
        if left <= 1:
            self.crash(cut=cut, where=f"at {step}")

    def crash(self, *, cut: bool, where: str = "") -> None:
        daemon = self.daemon
        self._doom = None
        if daemon is None or not daemon.process.alive:
            return
        self.note(f"{'power cut' if cut else 'kill -9 of the daemon'} {where}".rstrip())
        daemon.process.die()
        self._cut = cut
        if cut:
            self.evidence.power_was_cut()
            for cli in self.clis.values():
                cli.process.die()

    async def _trouble(self) -> None:
        chance, disk = self.chance, self.disk
        while self.loop.time() < BUSY_S:
            await asyncio.sleep(chance.expovariate(0.5))
            what = chance.choice(
                (
                    "kill",
                    "call",
                    "call",
                    "failpoint",
                    "failpoint",
                    "full",
                    "slow",
                    "sync fails",
                    "clock",
                    "cli",
                    "cli gone",
                )
            )
            cut = chance.random() < 0.5
            if what == "kill":
                self.crash(cut=cut)
            elif what in ("call", "failpoint"):
                self._doom = (what, chance.randint(1, 30), cut)
            elif what == "full":
                self.note("the disk is full")
                disk.full = True
                await asyncio.sleep(chance.random() * 6)
                disk.full = False
                self.note("the disk has room")
            elif what == "slow":
                disk.sync_s = chance.choice((0.001, 0.05, 1.0))
            elif what == "sync fails":
                self.note("the next sync fails")
                disk.failing = True
                await asyncio.sleep(chance.random() * 2)
                if chance.random() < 0.7:
                    self.crash(cut=True, where="after a failed sync")
            elif what == "clock":
                self.clock.jump += chance.choice((-3600.0, -2.0, 1.0, 600.0))
            elif self.clis:
                cli = self.clis[chance.choice(sorted(self.clis))]
                if what == "cli":
                    self.note(f"{cli.agent_id}: its CLI is killed")
                    cli.process.die()
                else:
                    self.note(f"{cli.agent_id}: its CLI counts as gone and lives on")
                    cli.given_up = True

    async def _supply_daemons(self) -> None:
        clean = True
        while True:
            if self.daemon is None or not self.daemon.process.alive:
                if self.daemon is not None:
                    self.daemon.sweep()
                if self._cut:
                    self._cut = False
                    self.disk.cut_power()
                    if self.chance.random() < 0.5:
                        self._forget_cache()
                await asyncio.sleep(self.chance.random())
                self._lives += 1
                daemon = self.daemon = Daemon(self, self._lives, clean=clean)
                clean = False
                try:
                    daemon.open()
                    self.note(f"{daemon.process.name} is up")
                except ProcessDied:
                    continue
                except OrchestratorError as error:  # the disk is full: it ends, and is started again
                    self.note(f"{daemon.process.name} cannot start: {error.code}")
                    daemon.process.die()
            await asyncio.sleep(0.05)

    def _forget_cache(self) -> None:
        for path in self.root.glob(".agents/cache.sqlite*"):
            path.unlink()

    # -- the run ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Everything of the seed; raises what is wrong."""
        supply = self.loop.create_task(self._supply_daemons())
        supply.add_done_callback(self.loop.surface)
        for agent_id in AGENTS:
            await self.make(agent_id)
        masters = [Master(self, f"m{n}") for n in (1, 2)]
        readers = [Reader(self, agent_id) for agent_id in (*AGENTS, "")]
        trouble = self.loop.create_task(self._trouble())
        await trouble
        self.busy, self._doom = False, None
        self.disk.full = self.disk.failing = False
        self.disk.sync_s = 0.002
        self.note("quiet")
        await self._until(lambda: all(master.done for master in masters), "a master's call is never answered")
        await self._until(self._settled, "tasks do not end")
        await asyncio.sleep(5.0)
        await self._until(self._settled, "tasks do not end")
        for reader in readers:
            await self._until(lambda reader=reader: reader.at_end(), "a reader is not given the last records")
            reader.process.die()
        for cli in self.clis.values():
            cli.process.die()
        supply.cancel()
        daemon = self._daemon()
        daemon.keeper.cancel()
        await asyncio.sleep(0)
        states = {name: entry.state for name, entry in daemon.roster.agents.items()}
        await daemon.process.call(daemon.roster.flush())
        daemon.process.run(daemon.roster.close)
        check(self.root, self.evidence, states)

    def _daemon(self) -> Daemon:
        assert self.daemon is not None
        return self.daemon

    def _settled(self) -> bool:
        daemon = self.daemon
        if daemon is None or not daemon.process.alive:
            return False
        return all(not entry.state.unfinished for entry in daemon.roster.agents.values())

    async def _until(self, true: Callable[[], bool], otherwise: str) -> None:
        end = self.loop.time() + QUIET_S
        while not true():
            if self.loop.time() > end:
                daemon = self._daemon()
                raise AssertionError(
                    f"{otherwise}: "
                    + "; ".join(
                        f"{e.agent_id} is {e.state.life} in launch {e.state.epoch} with {list(e.state.unfinished)}"
                        for e in daemon.roster.agents.values()
                    )
                )
            await self._restart_failed()
            await asyncio.sleep(0.5)

    async def _restart_failed(self) -> None:
        """As a master does with an agent that has used up its restarts."""
        daemon = self.daemon
        if daemon is None or not daemon.process.alive:
            return
        for entry in list(daemon.roster.agents.values()):
            if entry.state.life == "failed" and entry.state.unfinished and not entry.state.restart_due:
                req = f"again:{entry.agent_id}:{entry.state.epoch}"
                drafts = supervision.restart(entry.state, fresh=False, req=req, at=rfc3339(self.clock.now()))
                with contextlib.suppress(Gone, OrchestratorError):
                    await daemon.process.call(daemon.roster.commit(entry, drafts))


def _step(name: str) -> None:
    process = PROCESS.get()
    if process is not None:
        process.step(f"failpoint {name}")


@contextlib.contextmanager
def surroundings(seed: int) -> Iterator[list[str]]:
    """What is one for the whole interpreter: random bytes, failpoints, system calls, the log. Yields reported bugs."""
    bugs: list[str] = []

    def heard(_logger: Any, method: str, event: dict[str, Any]) -> Any:
        if method in ("error", "critical", "exception"):
            bugs.append(str(event))
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[heard], cache_logger_on_first_use=False)
    try:
        with (
            installed(),
            entropy.replaced(random.Random(f"entropy {seed}").randbytes),
            mock.patch.object(failpoints, "passed", _step),
            mock.patch.object(checkpoints, "PAUSE_S", 0.0),
        ):
            yield bugs
    finally:
        structlog.configure(**before)


def play(seed: int, trace: list[str] | None = None) -> None:
    """Play the run of that seed; raises what is wrong. ``trace`` gets what happened."""
    base = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(prefix="sim-", dir=base if base.is_dir() else None))
    try:
        root = place / "p"
        root.mkdir()
        places = {"ORCHESTRATOR_STATE_DIR": str(place / "state"), "ORCHESTRATOR_RUN_BASE": str(place / "run")}
        with mock.patch.dict("os.environ", places), surroundings(seed) as bugs:
            world = World(root, seed)
            if trace is not None:
                world.trace = trace
            ensure_agents_dir(Paths(root))
            try:
                world.loop.run(world.run())
            finally:
                if world.daemon is not None:
                    world.daemon.sweep()
            if bugs:
                raise AssertionError(f"reported as a bug: {bugs[0]}")
    finally:
        shutil.rmtree(place, ignore_errors=True)
