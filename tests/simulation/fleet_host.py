"""One machine of a simulated fleet: its disk and clock, its daemon that dies and comes again, and its CLIs.

Real: core, roster, delivery, journals and `orchestrator/fleet`. The database is the model of `tests/support`; a request
is on its way outside of the process that sent it, so it is done also while that process is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import random
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from orchestrator.base.errors import BadRequest, Corrupt, OrchestratorError
from orchestrator.config.fleet_values import FleetAcceptance
from orchestrator.fleet.database_functions import HostFacts, News, NewsKind
from orchestrator.fleet.known_ends import KnownEnds
from orchestrator.fleet.member import FleetMember
from orchestrator.fleet.published_view import PublishedView
from orchestrator.fleet.settings import FleetSettings
from orchestrator.journal.project_files import Paths
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.broadcast import TeamRun
from orchestrator.team.roster.roster import Roster
from tests.simulation.disk import CHANGES, SimDisk, SimSyncer
from tests.simulation.keeper import Keeper
from tests.simulation.loop import Gone, Process, ProcessDied, SimClock
from tests.simulation.team_actors import Cli
from tests.support.fleet_hosts import FakePanes
from tests.support.fleet_model import FleetModel, ModelSession

if TYPE_CHECKING:
    from tests.simulation.fleet_world import FleetWorld

PROJECT = "shop"
GONE_CODES = ("unknown_agent", "not_an_agent")


class SimSession(ModelSession):
    """The connections of one process to the database."""

    def __init__(self, model: FleetModel, host: str, process: Process) -> None:
        self._heard: Callable[[News], None] = lambda _news: None
        self._process = process
        self.requests: dict[asyncio.Task[Any], str] = {}  # under way, with their functions
        self.on_request: Callable[[str], None] = lambda _function: None
        super().__init__(model, PROJECT, host)

    @property
    def on_news(self) -> Callable[[News], None]:  # type: ignore[override]
        return self._bring

    @on_news.setter
    def on_news(self, heard: Callable[[News], None]) -> None:
        self._heard = heard

    def _bring(self, news: News) -> None:
        self._process.loop.call_soon(self._heard, news, context=self._process.context.copy())

    def tell(self, host: str, kind: NewsKind, agents: Any = ()) -> None:
        contextvars.Context().run(super().tell, host, kind, agents)

    async def _call(self, function: str, *arguments: Any) -> Any:
        loop = self._process.loop
        self._process.step(f"failpoint database:{function}:before")
        answer: asyncio.Future[asyncio.Task[Any]] = loop.create_future()
        request = loop.create_task(super()._call(function, *arguments), context=contextvars.Context())
        self.requests[request] = function
        loop.call_soon(self.on_request, function, context=contextvars.Context())  # once the request has begun

        def told(done: asyncio.Task[Any]) -> None:
            if not answer.done():
                answer.set_result(done)

        def gone(done: asyncio.Task[Any]) -> None:
            self.requests.pop(done, None)
            if not done.cancelled():
                done.exception()  # nobody may listen any more

        request.add_done_callback(gone, context=contextvars.Context())
        request.add_done_callback(told, context=self._process.context.copy())
        try:
            done = await answer
        except asyncio.CancelledError:
            request.cancel()
            raise
        self._process.step(f"failpoint database:{function}:after")
        return done.result()

    def perish(self) -> None:
        """The process has died: nothing reaches it, and what it has sent may arrive or not."""
        self.close()
        for request in list(self.requests):
            request.cancel()


class FleetCli(Cli):
    """A CLI whose agent may be gone from this host when it calls."""

    async def _live(self) -> None:
        try:
            await super()._live()
        except (BadRequest, Corrupt) as error:
            if error.code not in (*GONE_CODES, "forked"):
                raise
        self.process.die()

    async def _late(self, kind: str, task_id: str, after_s: float = 0.0) -> None:
        try:
            await super()._late(kind, task_id, after_s)
        except (BadRequest, Corrupt) as error:
            if error.code not in (*GONE_CODES, "not_your_task", "forked"):
                raise


class SimSupervisor:
    """What the fleet asks of the supervisor; the keeper does the rest."""

    def __init__(self, host: SimHost, roster: Roster) -> None:
        self.roster = roster
        self.team_panes = FakePanes(roster)
        self._host = host

    async def launch(self, run: TeamRun, entries: list[AgentEntry]) -> dict[str, Any]:
        return {}

    def tend(self, entry: AgentEntry) -> None:
        """The keeper looks soon."""

    async def evict(self, entry: AgentEntry) -> None:
        cli = self._host.clis.get(entry.agent_id)
        if cli is not None:
            cli.process.die()

    def take_over(self, entry: AgentEntry) -> None:
        """As launch.json says it."""
        cli = self._host.clis.get(entry.agent_id)
        entry.secret = cli.secret if cli is not None and cli.epoch == entry.state.epoch else None


class FleetDaemon:
    """One life of a host's daemon; ``up`` once it answers calls."""

    def __init__(self, host: SimHost, number: int, *, clean: bool) -> None:
        world, self.host = host.world, host
        self.process = Process(world.loop, f"daemon {number} of {host.label}", host.disk)
        self.process.at_step = host.fate
        self.process.on_death = self._died
        self.up = False
        self._clean = clean
        syncer = SimSyncer(self._sync_failed, world.loop, host.disk, host.clock)
        self.roster = Roster(host.root, Paths(host.root), host.clock, syncer, lambda: world.config)
        self.session = SimSession(world.model, host.name, self.process)
        self.session.on_request = lambda function: world.trouble.requested(host, self, function)
        view = PublishedView(self.roster, lambda: {"agents": [], "inbox": []})
        self._supervisor: Any = SimSupervisor(host, self.roster)
        ends = KnownEnds(host.place / "fleet.json", f"{host.label} {host.boots}")
        self.member = FleetMember(
            self.session, self._supervisor, lambda: host.settings, self._facts, verbs={}, view=view, ends=ends
        )
        self.keeper: asyncio.Task[Any] | None = None

    def _sync_failed(self, error: Exception) -> None:
        self.host.note(f"its daemon ends: {error}")
        self.process.die()

    def _died(self) -> None:
        self.up = False
        self.session.perish()

    def _facts(self) -> HostFacts:
        identity = self.roster.paths.provenance.identity
        caps = {"engines": ["shell"], "places": self.host.settings.places}
        return HostFacts(identity.id if identity else "", f"{self.host.label} {self.host.boots}", "0.1.0", 1, caps)

    def open(self) -> None:
        """Load the team, then join the fleet; raises what loading raises, ProcessDied among it."""
        self.process.run(self._load)
        self.process.start(self._begin())

    def _load(self) -> None:
        self.roster.load(clean=self._clean)
        for name, error in self.roster.corrupt.items():
            if error.code == "io_failed":  # the failed sync: a human looks at the disk, and starts it again
                raise error
            raise AssertionError(f"{self.host.label}: {name} cannot be trusted after a crash: {error}")

    async def _begin(self) -> None:
        try:
            await self.member.begin()
        except OrchestratorError as error:  # the disk is full: it ends, and is started again
            self.host.note(f"its daemon cannot start: {error.code}")
            self.process.die()
            return
        for entry in self.roster.agents.values():
            self._supervisor.take_over(entry)
        self.keeper = asyncio.get_running_loop().create_task(Keeper(self.host, self.roster).keep())
        self.keeper.add_done_callback(self.process.loop.surface, context=contextvars.Context())
        self.member.go_on()
        self.up = True
        self.host.note("its daemon is up")

    async def end(self) -> None:
        """End cleanly; its keeper has ended."""
        await self.process.call(self.member.close())
        await self.process.call(self.roster.flush())
        self.process.run(self.roster.close)

    def sweep(self) -> None:
        """Give back what the kernel takes from a dead process: its locks and descriptors."""
        claim, cache = self.roster._lock, self.roster.checkpoints._cache
        if claim is not None:
            claim.release()
        if cache is not None:
            with contextlib.suppress(Exception):
                cache.close()
        self.host.disk.release()


class SimHost:
    """One machine; ``label`` tells a copy of it from the machine itself."""

    def __init__(self, world: FleetWorld, name: str, *, label: str = "") -> None:
        self.world = world
        self.name = name
        self.label = label or name
        self.chance: random.Random = world.chance
        self.loop = world.loop
        self.place = world.place / self.label
        self.root = self.place / "p"
        self.root.mkdir(parents=True, exist_ok=True)
        self.disk = SimDisk(self.root, world.chance)
        self.clock = SimClock(world.loop)
        self.settings = FleetSettings(
            dsn="", project=PROJECT, host=name, places=8, accept=FleetAcceptance(hosts=["*"])
        )
        self.evidence = world.evidence
        self.clis: dict[str, FleetCli] = {}
        self.daemon: FleetDaemon | None = None
        self.boots = 1
        self.down_until = 0.0
        self.retired = False
        self._lives = 0
        self._cut = False
        self._doom: tuple[str, int, bool] | None = None  # which steps count, how many are left, whether power goes

    @property
    def busy(self) -> bool:
        return self.world.busy

    @property
    def serving(self) -> FleetDaemon | None:
        """The daemon, if it answers calls."""
        daemon = self.daemon
        return daemon if daemon is not None and daemon.process.alive and daemon.up else None

    def note(self, text: str) -> None:
        self.world.note(f"{self.label}: {text}")

    async def ask(self, make: Callable[[Roster, float], Coroutine[Any, Any, Any]]) -> Any:
        """What the daemon answers to a call, which is sent again with its age until there is an answer."""
        began = self.loop.time()
        while True:
            daemon = self.serving
            if daemon is None:
                await asyncio.sleep(0.05 + self.chance.random() * 0.2)
                continue
            delay_s = self.chance.random() * 0.02 if self.chance.random() < 0.5 else 0.0
            with contextlib.suppress(Gone):
                return await daemon.process.call(make(daemon.roster, self.loop.time() - began), delay_s)

    def launch(self, agent_id: str, epoch: int, secret: str) -> None:
        """Start a CLI for a launch of the agent."""
        self.note(f"{agent_id}, launch {epoch}")
        entry = self.daemon.roster.agents[agent_id] if self.daemon is not None else None
        assert entry is None or entry.state.host == self.name, (
            f"{self.name} launches {agent_id} for {entry.state.host}, in whose place it works"
        )
        before = self.clis.get(agent_id)
        if before is not None and not before.given_up:
            before.process.die()
        self.clis[agent_id] = FleetCli(self, agent_id, epoch, secret)  # type: ignore[arg-type]

    # -- what goes wrong ----------------------------------------------------------------------------------------

    def doom(self, counted: str, left: int, *, cut: bool) -> None:
        """End the daemon at one of its next steps."""
        self._doom = (counted, left, cut)

    def fate(self, step: str) -> None:
        if self._doom is None:
            return
        counted, left, cut = self._doom
        if step not in CHANGES if counted == "call" else not step.startswith("failpoint "):
            return
        self._doom = (counted, left - 1, cut)
        if left <= 1:
            self.crash(cut=cut, where=f"at {step}")

    def crash(self, *, cut: bool, where: str = "", down_s: float = 0.0) -> None:
        """Kill the daemon, or (``cut``) the whole machine; it starts again ``down_s`` later."""
        self._doom = None
        self.down_until = max(self.down_until, self.loop.time() + down_s)
        if cut:
            self._cut = True
            self.world.evidence.power_was_cut(self.name)
            for cli in self.clis.values():
                cli.process.die()
        if self.daemon is not None and self.daemon.process.alive:
            self.note(f"{'power cut' if cut else 'kill -9 of its daemon'} {where}".rstrip())
            self.daemon.process.die()

    def calm_down(self) -> None:
        """Nothing goes wrong here any more."""
        self._doom = None
        self.disk.full = self.disk.failing = False
        self.disk.sync_s = 0.002
        self.down_until = 0.0
        if self.daemon is not None and self.daemon.process.stopped:
            self.daemon.process.go_on()

    async def supply(self) -> None:
        """Start daemons, as systemd does."""
        clean = True
        while not self.retired:
            if self.daemon is None or not self.daemon.process.alive:
                if self.daemon is not None:
                    self.daemon.sweep()
                if self._cut:
                    self._cut = False
                    self.boots += 1
                    self.disk.cut_power()
                    if self.chance.random() < 0.5:
                        self._forget_cache()
                await asyncio.sleep(self.chance.random())
                if self.loop.time() < self.down_until or self._cut:
                    continue
                self._lives += 1
                daemon = self.daemon = FleetDaemon(self, self._lives, clean=clean)
                clean = False
                try:
                    daemon.open()
                except ProcessDied:
                    continue
                except OrchestratorError as error:  # the disk is full: it ends, and is started again
                    self.note(f"its daemon cannot start: {error.code}")
                    daemon.process.die()
            await asyncio.sleep(0.05)

    def _forget_cache(self) -> None:
        for path in self.root.glob(".agents/cache.sqlite*"):
            path.unlink()
