"""The world of a fleet: hosts with disks, daemons and CLIs, one database that fails, and masters at the home of a run.

One seed names everything that happens: also which troubles a run has, for few at a time meet more often.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from orchestrator.base.errors import OrchestratorError
from orchestrator.config.keys import Config
from orchestrator.fleet import database_functions as functions
from orchestrator.fleet.fleet_agent_ids import fleet_id, own_entry, replica
from orchestrator.team.roster import delivery
from orchestrator.trust import identity, state_dir
from tests.simulation.fleet_actors import RUN, FleetMaster, FleetReader
from tests.simulation.fleet_checks import FleetEvidence, check_end
from tests.simulation.fleet_host import PROJECT, SimHost
from tests.simulation.fleet_trouble import Trouble
from tests.simulation.local_team import surroundings
from tests.simulation.loop import PROCESS, Gone, SimClock, SimLoop
from tests.support.fleet_model import Fate, FleetModel
from tests.support.fleet_rows import Agent

HOSTS = ("a", "b", "c", "d")
QUIET_S = 900.0
SAFE = Fate("told", 0.001, 0.001, survives=True)
"""What happens to a call once all is well."""


class SimFaults:
    """What the network does to calls and news; how bad it is, is the seed's choice."""

    def __init__(self, world: FleetWorld) -> None:
        self._world = world
        self._chance = chance = world.chance
        self._wrong = chance.choice((0.0, 0.002, 0.02))
        self._slow = chance.choice((0.0, 0.01, 0.05))
        self._delay_s = chance.choice((0.002, 0.02, 0.1))
        self._news_lost = chance.choice((0.0, 0.2, 1.0))

    def call(self, host: str, function: str) -> Fate:
        chance = self._chance
        if not self._world.busy or host in self._world.copied:
            return SAFE
        if function == "beat" and self._world.trouble.looking.get(host):
            return Fate("told", 0.01, 1.5, survives=True)
        if function == "ownership" and self._world.trouble.looking.get(
            host
        ):  # its answer is read after the renewal's
            return Fate("told", 0.01, 2.0, survives=True)
        wrong = chance.random() < self._wrong
        outcome: Any = chance.choice(("not_done", "untold", "untold", "late")) if wrong else "told"
        before_s, after_s = (
            chance.random() * (2.4 if chance.random() < self._slow else self._delay_s) for _ in range(2)
        )
        return Fate(outcome, before_s, after_s, chance.random() < 0.5)

    def news(self, sender: str, receiver: str, kind: functions.NewsKind) -> Sequence[float]:
        chance = self._chance
        if not self._world.busy:
            return (0.001,)
        if chance.random() < self._news_lost:
            return ()
        return [chance.random() * chance.choice((0.01, 0.01, 2.0)) for _ in range(1 + (chance.random() < 0.1))]


class FleetWorld:
    """One run of one seed; ``trace`` is what happened, line by line."""

    def __init__(self, place: Path, seed: int, trace: list[str]) -> None:
        self.place = place
        self.seed = seed
        self.trace = trace
        self.chance = random.Random(f"fleet {seed}")
        self.loop = SimLoop(self.chance)
        self.clock = SimClock(self.loop)
        self.config = Config(segment_bytes=4096, max_unfinished_tasks=20, restart_backoff_s=1.0)
        self.busy = True
        self.pace = self.chance.choice((0.15, 0.3, 0.8))
        self.copied: dict[str, None] = {}
        self.made: list[str] = []
        self.forgetful: tuple[str, ...] = ()
        """Codes of refusals that a database explains which has forgotten what it had accepted."""
        self.model = FleetModel(self.clock, SimFaults(self))
        self.evidence = FleetEvidence(self)
        self.model.on_step = self.evidence.step
        names = HOSTS[: self.chance.choice((2, 3, 3, 4))]
        for name in names:
            self.model.add_host(PROJECT, name)
        self.hosts = {name: SimHost(self, name) for name in names}
        self.copies: list[SimHost] = []
        self.trouble = Trouble(self)

    @property
    def agents(self) -> dict[str, Agent]:
        """The database's agents."""
        return self.model.tables.projects[PROJECT].agents

    @property
    def home(self) -> SimHost:
        """The home of the run, as the database knows it."""
        run = self.model.tables.projects[PROJECT].runs.get(RUN)
        return self.hosts[run.home if run is not None else "a"]

    @property
    def live_hosts(self) -> dict[str, Any]:
        """The daemons of the hosts that are not lost for good."""
        return {name: host.daemon for name, host in self.hosts.items() if not host.retired}

    def row(self, agent_id: str) -> Agent:
        """The database's row of an agent; an empty one if it has forgotten it."""
        return self.agents.get(fleet_id(agent_id)) or Agent("", RUN, "shell", "wait", 1)

    def note(self, text: str) -> None:
        self.trace.append(f"{self.loop.time():9.4f}  {text}")

    # -- the run ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Everything of the seed; raises what is wrong."""
        supplies = [self.start(host.supply()) for host in self.hosts.values()]

        async def begin(roster: Any) -> None:
            await roster.fleet._homes._supervisor.team_panes.run_of_fleet(RUN, "")

        while RUN not in (self.home.daemon.roster.runs if self.home.serving else {}):
            with contextlib.suppress(OrchestratorError):
                await self.home.ask(lambda roster, age: begin(roster))
        masters = [FleetMaster(self, f"m{n}") for n in (1, 2)]
        self.reader = FleetReader(self)
        await self.trouble.live()
        self.busy = False
        self.trouble.heal()
        self.note("quiet")
        await self._until(lambda: all(master.done for master in masters), "a master's call is never answered")
        await self._until(self._settled, "not all is done and mirrored")
        await asyncio.sleep(5.0)
        await self._until(self._settled, "not all is done and mirrored")
        self.reader.process.die()
        daemons = self.live_hosts.values()
        for beside in (*supplies, *(daemon.keeper for daemon in daemons)):
            beside.cancel()
        for host in self.hosts.values():
            for cli in host.clis.values():
                cli.process.die()
        await asyncio.sleep(0)
        for daemon in daemons:
            await daemon.end()
        check_end(self)

    def start(self, work: Any) -> asyncio.Task[Any]:
        """Run it beside; an error of it ends the run."""
        task = self.loop.create_task(work)
        task.add_done_callback(self.loop.surface)
        return task

    def _settled(self) -> bool:
        return not self._unsettled()

    def _unsettled(self) -> str:
        """What is not done yet, in words."""
        for name, host in self.hosts.items():
            if not host.retired and host.serving is None:
                return f"{name} has no daemon"
        home = self.home.serving
        assert home is not None
        run = home.roster.runs.get(RUN)
        if run is None:
            return f"{self.home.name} has not carried out yet that it is the home"
        for name, agent in self.agents.items():
            if agent.life == "deleted" and self.hosts[agent.host].retired:
                continue
            owner = self.hosts[agent.host].serving
            entry = own_entry(owner.roster, name) if owner is not None else None
            if entry is None:
                return f"{agent.host} does not have {name}"
            if entry.state.ref < agent.last_post and agent.posts[-1].seq > entry.state.ref:
                return f"{agent.host} has not taken {name}'s post {agent.posts[-1].seq}, but {entry.state.ref}"
            if entry.state.unfinished or (agent.closing and entry.state.life != "deleted"):
                state = entry.state
                return f"{name} is {state.life} in launch {state.epoch} with {list(state.unfinished)} at {agent.host}"
            if (entry.inbox.last_seq, entry.outbox.last_seq) != (agent.end("inbox"), agent.end("outbox")):
                return f"{agent.host} has not shipped all of {name}"
            shown = own_entry(home.roster, name) or replica(home.roster, name)
            if shown is None or shown.outbox.last_seq != agent.end("outbox"):
                return f"the home does not show all of {name}"
        if home.roster.has_unwritten(run) or max(self.reader.seen, default=0) != run.journal.last_seq:
            return "the reader has not read all"
        return ""

    async def _until(self, true: Callable[[], bool], otherwise: str) -> None:
        end = self.loop.time() + QUIET_S
        while not true():
            assert self.loop.time() < end, f"{otherwise}: {self._unsettled()}"
            await self._restart_failed()
            await asyncio.sleep(0.5)

    async def _restart_failed(self) -> None:
        """As a master does with an agent that has used up its restarts, or is held because it ends no task."""
        for name, agent in list(self.agents.items()):
            owner = self.hosts[agent.host].serving
            entry = own_entry(owner.roster, name) if owner is not None else None
            state = entry.state if entry is not None else None
            ended = state is not None and (state.life == "failed" or state.blocked is not None)
            if state is None or not ended or state.restart_due or not state.unfinished:
                continue
            req = f"again:{name}:{state.epoch}"
            with contextlib.suppress(OrchestratorError, Gone):
                await self.home.ask(
                    lambda roster, age, name=name, req=req: roster.fleet.restart(name, fresh=False, req=req)
                )


@contextlib.contextmanager
def _patched(world: FleetWorld) -> Iterator[None]:
    """What differs between machines, and what is watched of them."""
    real_dir, real_out = state_dir.state_dir, delivery._handed_out

    def own_dir() -> Path:
        process = PROCESS.get()
        return real_dir() if process is None or process.disk is None else process.disk.root.parent / "state"

    def birth(directory: Path) -> identity.Birth:
        return identity.Birth(1, 1)  # a copied disk has the inodes of the first

    async def handed_out(roster: Any, entry: Any, command: dict[str, Any]) -> dict[str, Any]:
        host = next(h for h in (*world.hosts.values(), *world.copies) if h.root == roster.root)
        world.evidence.delivered(host.name, host.label, entry, command)
        return await real_out(roster, entry, command)

    with (
        mock.patch.object(state_dir, "state_dir", own_dir),
        mock.patch.object(identity, "birth_of", birth),
        mock.patch.object(delivery, "_handed_out", handed_out),
    ):
        yield


def play(seed: int, trace: list[str] | None = None) -> None:
    """Play the run of that seed; raises what is wrong. ``trace`` gets what happened."""
    base = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(prefix="sim-", dir=base if base.is_dir() else None))
    environment = {
        "ORCHESTRATOR_STATE_DIR": str(place / "state"),
        "ORCHESTRATOR_RUN_BASE": str(place / "run"),
        "PATH": "/usr/bin:/bin",
        "HOME": str(place),
    }
    try:
        with mock.patch.dict("os.environ", environment, clear=True), surroundings(seed) as bugs:
            world = FleetWorld(place, seed, trace if trace is not None else [])
            with _patched(world):
                try:
                    world.loop.run(world.run())
                finally:
                    for host in (*world.hosts.values(), *world.copies):
                        if host.daemon is not None:
                            host.daemon.sweep()
            unexplained = [bug for bug in bugs if not world.trouble.explains(bug)]
            if unexplained:
                raise AssertionError(f"reported as a bug: {unexplained[0]}")
    finally:
        shutil.rmtree(place, ignore_errors=True)
