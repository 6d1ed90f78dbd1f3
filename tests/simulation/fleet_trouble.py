"""What goes wrong in a simulated fleet: to daemons, machines, disks, clocks, the network and the database."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import shutil
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from orchestrator.base.errors import OrchestratorError
from tests.simulation.fleet_actors import RUN
from tests.simulation.fleet_host import PROJECT, FleetDaemon, SimHost

if TYPE_CHECKING:
    from tests.simulation.fleet_world import FleetWorld

BUSY_S = 100.0
"""How long things go wrong; afterwards all must come to its end."""
AT_ONCE = 4
"""So many kinds of trouble one run has."""


class Trouble:
    """The troubles of one world."""

    def __init__(self, world: FleetWorld) -> None:
        self.world = world
        self.chance = world.chance
        every: dict[str, Callable[[SimHost], Awaitable[None]]] = {
            "kill": self._kill, "doom": self._doom, "down": self._down, "stop": self._stop, "cut": self._cut,
            "outage": self._outage, "failover": self._failover, "clock": self._clock, "cli": self._cli,
            "disk": self._disk, "run": self._take_run, "lost": self._lost, "older disk": self._older_disk,
            "forget": self._forget, "copy": self._copy, "drain": self._drain,
            "ambush": self._ambush, "look": self._look,
        }  # fmt: skip
        usual = [
            "kill", "doom", "doom", "down", "stop", "cut", "cut", "outage", "failover", "ambush", "ambush", "look", "look",
            "look",
        ]  # fmt: skip
        rare = ["clock", "cli", "disk", "run", "lost", "older disk", "forget", "copy", "drain"]
        kinds = [self.chance.choice(usual) for _ in range(AT_ONCE - 1)] + [self.chance.choice([*usual, *rare])]
        self.kinds = {kind: every[kind] for kind in kinds}
        self._ambushed: dict[str, None] = {}  # hosts that are lost with their next delivery
        self.looking: dict[
            str, bool
        ] = {}  # hosts to stop at their next look at a fence: whether in a renewal as well
        self.rate = self.chance.choice((0.05, 0.1, 0.2))

    async def live(self) -> None:
        """Let things go wrong until the world has been busy long enough."""
        world, chance = self.world, self.chance
        world.note(f"{len(world.hosts)} hosts; trouble: {', '.join(self.kinds)}")
        under_way: list[asyncio.Task[Any]] = []
        while world.loop.time() < BUSY_S:
            await asyncio.sleep(chance.expovariate(self.rate))
            host = world.hosts[chance.choice(list(world.hosts))]
            if world.copied or host.retired or world.loop.time() >= BUSY_S:
                continue
            under_way.append(world.start(self.kinds[chance.choice(list(self.kinds))](host)))
        for task in under_way:
            if not task.done():
                task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    def heal(self) -> None:
        """All is well again."""
        world = self.world
        world.evidence.database_starts()
        world.model.start()
        for name, host in world.hosts.items():
            world.model.heal(PROJECT, name)
            world.model.drain(PROJECT, name, draining=False)
            host.calm_down()
        for copy in world.copies:
            self._end_copy(copy)

    def explains(self, bug: str) -> bool:
        """Whether a message of level error is what this trouble has to cause."""
        return "may not act in the fleet" in bug or (
            bool(self.world.evidence.losses) and any(words in bug for words in ("does not know this agent",))
        )

    # -- daemons and machines -----------------------------------------------------------------------------------

    async def _kill(self, host: SimHost) -> None:
        host.crash(cut=self.chance.random() < 0.5)

    async def _doom(self, host: SimHost) -> None:
        host.doom(
            self.chance.choice(("call", "failpoint")), self.chance.randint(1, 40), cut=self.chance.random() < 0.5
        )

    async def _down(self, host: SimHost) -> None:
        host.crash(cut=self.chance.random() < 0.7, where="for long", down_s=self.chance.choice((5.0, 30.0, 60.0)))

    async def _ambush(self, host: SimHost) -> None:
        self._ambushed[host.name] = None

    def delivered(self, name: str) -> None:
        """A host is handing out a task that may move: before it can ship that, it may be lost for long."""
        if name not in self._ambushed or not self.world.busy:
            return
        del self._ambushed[name]
        host, world, delay_s = self.world.hosts[name], self.world, self.chance.random() * 0.15
        if self.chance.random() < 0.5:
            world.loop.call_later(delay_s, lambda: host.crash(cut=True, where="after a delivery", down_s=60.0))
        else:
            host.note("is cut off after a delivery")
            world.loop.call_later(delay_s, world.model.cut, PROJECT, name)
            world.loop.call_later(60.0, world.model.heal, PROJECT, name)

    async def _stop(self, host: SimHost) -> None:
        daemon = host.daemon
        if daemon is None or not daemon.process.alive or daemon.process.stopped:
            return
        host.note("its daemon is stopped")
        daemon.process.stop()
        try:
            await asyncio.sleep(self.chance.choice((0.5, 8.0, 16.0, 30.0, 50.0)) * (0.5 + self.chance.random()))
        finally:
            if daemon.process.alive:
                host.note("its daemon goes on")
                daemon.process.go_on()

    async def _look(self, host: SimHost) -> None:
        self.looking[host.name] = self.chance.random() < 0.7

    def requested(self, host: SimHost, daemon: FleetDaemon, function: str) -> None:
        """A host has sent a request: it may be stopped until long after the answer."""
        renewing = "beat" in daemon.session.requests.values()
        if function != "ownership" or not self.world.busy or self.looking.get(host.name) not in (False, renewing):
            return
        del self.looking[host.name]
        host.note("its daemon is stopped while it looks whose an agent is")
        daemon.process.stop()
        self.world.loop.call_later(30.0 + 20.0 * self.chance.random(), self._go_on, host, daemon,
                                   context=contextvars.Context())  # fmt: skip

    def _go_on(self, host: SimHost, daemon: FleetDaemon) -> None:
        if daemon.process.alive and daemon.process.stopped:
            host.note("its daemon goes on")
            daemon.process.go_on()

    async def _cli(self, host: SimHost) -> None:
        if host.clis:
            cli = host.clis[self.chance.choice(sorted(host.clis))]
            if self.chance.random() < 0.5:
                host.note(f"the CLI of {cli.agent_id} is killed")
                cli.process.die()
            else:
                host.note(f"the CLI of {cli.agent_id} counts as gone and lives on")
                cli.given_up = True

    async def _clock(self, host: SimHost) -> None:
        host.clock.jump += self.chance.choice((-3600.0, -2.0, 1.0, 600.0))
        host.note("its wall clock jumps")

    async def _disk(self, host: SimHost) -> None:
        what = self.chance.choice(("full", "slow", "failing"))
        host.note(f"its disk is {what}")
        if what == "slow":
            host.disk.sync_s = self.chance.choice((0.001, 0.05, 1.0))
        elif what == "failing":
            host.disk.failing = True
            await asyncio.sleep(self.chance.random() * 2)
            host.crash(cut=True, where="after a failed sync")
        else:
            host.disk.full = True
            await asyncio.sleep(self.chance.random() * 6)
            host.disk.full = False

    # -- network and database -----------------------------------------------------------------------------------

    async def _cut(self, host: SimHost) -> None:
        what: Any = self.chance.choice(("all", "answers"))
        host.note(f"is cut off: {what}")
        self.world.model.cut(PROJECT, host.name, what)
        await asyncio.sleep(self.chance.choice((1.0, 12.0, 30.0, 60.0)) * (0.5 + self.chance.random()))
        self.world.model.heal(PROJECT, host.name)
        host.note("is connected again")

    async def _outage(self, host: SimHost) -> None:
        self.world.note("the database is away")
        self.world.evidence.database_stops()
        self.world.model.stop()
        await asyncio.sleep(self.chance.choice((1.0, 8.0, 22.0, 40.0)) * (0.5 + self.chance.random()))
        self.world.evidence.database_starts()
        self.world.model.start()
        self.world.note("the database is back")

    async def _failover(self, host: SimHost) -> None:
        self.world.note("the database fails over, and loses nothing")
        self.world.model.restore(self.world.model.tables)

    async def _forget(self, host: SimHost) -> None:
        world, earlier = self.world, self.world.model.copy()
        await asyncio.sleep(self.chance.choice((0.05, 1.0, 5.0)))
        world.note("the database fails over to an earlier copy")
        world.forgetful = ("unknown_agent", "unknown_task", "not_home", "forked")
        world.evidence.database_went_back(*(tables.projects[PROJECT] for tables in (earlier, world.model.tables)))
        world.model.restore(earlier)

    async def _drain(self, host: SimHost) -> None:
        self.world.model.drain(PROJECT, host.name)
        await asyncio.sleep(20.0)
        self.world.model.drain(PROJECT, host.name, draining=False)

    # -- who is who ---------------------------------------------------------------------------------------------

    async def _take_run(self, host: SimHost) -> None:
        daemon, world = host.serving, self.world
        if daemon is None or host is world.home:
            return
        with contextlib.suppress(OrchestratorError, Exception):
            taken = await daemon.process.call(daemon.member.homes.take(RUN))
            world.note(f"{host.name} is the home of the run: {taken}")

    async def _lost(self, host: SimHost) -> None:
        """A machine burns down, and somebody says so to the fleet."""
        world = self.world
        if host is world.home or any(one.retired for one in world.hosts.values()) or len(world.hosts) < 3:
            return
        host.retired = True
        world.evidence.disk_went_back(host.name)
        host.crash(cut=True, where="for ever", down_s=1e9)
        try:
            await asyncio.sleep(self.chance.random() * 30)
        finally:  # also when the trouble ends meanwhile
            world.note(f"{host.name} is given up")
            world.model.give_up(PROJECT, host.name)

    async def _older_disk(self, host: SimHost) -> None:
        """A machine comes back with an older copy of its disk."""
        world, kept = self.world, self.world.place / f"copy of {host.name}"
        if kept.exists() or host.daemon is None:
            return
        host.crash(cut=False, where="to copy its disk", down_s=2.0)
        host.daemon.sweep()
        host.disk.settle()
        shutil.copytree(host.place, kept)
        await asyncio.sleep(self.chance.choice((5.0, 20.0)))
        host.crash(cut=False, where="to restore its disk", down_s=self.chance.choice((1.0, 20.0)))
        host.daemon.sweep()
        for cli in host.clis.values():
            cli.process.die()
        world.evidence.disk_went_back(host.name)
        shutil.rmtree(host.place / "state")
        shutil.copytree(kept / "state", host.place / "state")
        host.disk.copied_from(kept / "p")
        host.boots += 1
        world.note(f"{host.name} has an older disk")
        if host is world.home:
            world.reader.begin_anew()
        world.copied[host.name] = None  # an older disk is filled up only if the database can be asked at once
        world.model.heal(PROJECT, host.name)
        await asyncio.sleep(40.0)
        del world.copied[host.name]

    async def _copy(self, host: SimHost) -> None:
        """A copy of a machine starts while the machine is at work: it may do nothing."""
        world = self.world
        daemon = host.serving
        if daemon is None or daemon.process.stopped or daemon.member.lease.age_s > 3.0 or world.copies:
            return
        world.copied[host.name] = None
        copy = SimHost(world, host.name, label=f"{host.name}-copy")
        world.copies.append(copy)
        world.note(f"a copy of {host.name} starts")
        shutil.rmtree(copy.place)
        shutil.copytree(host.place, copy.place)
        supply = world.start(copy.supply())
        try:
            await asyncio.sleep(6.0)
        finally:
            supply.cancel()
            self._end_copy(copy)

    def _end_copy(self, copy: SimHost) -> None:
        self.world.copied.pop(copy.name, None)
        copy.retired = True
        for cli in copy.clis.values():
            cli.process.die()
        if copy.daemon is not None and copy.daemon.process.alive:
            copy.daemon.process.die()
