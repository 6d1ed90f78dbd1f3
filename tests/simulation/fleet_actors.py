"""Who calls the home of a run: masters who create, queue, cancel, restart and delete, and a reader of its broadcast.

A master's calls pass through a relay: after `fleet_away`, or when its daemon has died, the same call is sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from orchestrator.base.errors import BadRequest, Conflict, Corrupt, Environment, NotReady, OrchestratorError
from orchestrator.team.roster import delivery
from orchestrator.team.roster.fleet_link import FleetCreation
from orchestrator.team.roster.roster import Roster
from tests.simulation.loop import Process

if TYPE_CHECKING:
    from tests.simulation.fleet_world import FleetWorld

RUN = "run-1"
POLICIES = {"restart": "on-failure", "max_restarts": 3, "on_lost": "requeue", "max_attempts": 3}
MAX_AGENTS = 6


class FleetActor:
    """One process that calls the home of the run, wherever that is."""

    def __init__(self, world: FleetWorld, name: str) -> None:
        self.world = world
        self.name = name
        self.chance = world.chance
        self.process = Process(world.loop, name)
        self._calls = 0

    def req(self) -> str:
        self._calls += 1
        return f"{self.name}:{self._calls}"

    async def ask(self, make: Callable[[Roster, float], Coroutine[Any, Any, Any]]) -> Any:
        """The answer to a call that is sent until the fleet and the disk take it."""
        while True:
            try:
                return await self.world.home.ask(make)
            except NotReady as error:
                if error.code not in ("fleet_away", "host_away"):
                    raise
            except Environment:
                pass
            await asyncio.sleep(0.2 + self.chance.random())


class FleetMaster(FleetActor):
    """Works while the world is busy; ``done`` when its last call is answered."""

    def __init__(self, world: FleetWorld, name: str) -> None:
        super().__init__(world, name)
        self.done = False
        self._tasks: list[tuple[str, str]] = []
        self.process.start(self._live())

    async def _live(self) -> None:
        while self.world.busy:
            await asyncio.sleep(self.chance.expovariate(self.world.pace))
            try:
                await self._do()
            except Conflict:
                pass  # deleted, the task has ended, or the run is led elsewhere
            except NotReady as error:
                self.world.note(f"{self.name}: {error.code}")
            except (BadRequest, Corrupt) as error:
                if error.code not in self.world.forgetful:
                    raise
        self.done = True

    async def _do(self) -> None:
        agents, req, what = self.world.made, self.req(), self.chance.random()
        if not agents or (what < 0.06 and len(agents) < MAX_AGENTS):
            await self._create(req)
            return
        agent_id = self.chance.choice(agents)
        if what < 0.78:
            own = f"{self.name}-t{self._calls}" if self.chance.random() < 0.5 else None
            await self._enqueue(agent_id, own, req)
        elif what < 0.9 and self._tasks:
            agent_id, task_id = self.chance.choice(self._tasks[-6:])
            await self.ask(lambda roster, age: delivery.cancel(roster, agent_id, task_id=task_id, req=req))
            self.world.note(f"{self.name}: canceled {task_id} of {agent_id}")
        elif what < 0.97:
            await self.ask(lambda roster, age: roster.fleet.restart(agent_id, fresh=False, req=req))
            self.world.note(f"{self.name}: restarts {agent_id}")
        elif len(agents) > 2:
            force = self.chance.random() < 0.3
            await self.ask(lambda roster, age: roster.fleet.stop(agent_id, force=force, req=req))
            self.world.note(f"{self.name}: deletes {agent_id}")
            if agent_id in agents:  # another master may have deleted it meanwhile
                agents.remove(agent_id)

    async def _create(self, req: str) -> None:
        host = self.chance.choice(("any", "any", *self.world.hosts))
        on_host_lost = self.chance.choice(("move", "move", "wait"))
        body = {"name": "w", "role": "worker", "engine": "shell", "cwd": ".", "policies": POLICIES}
        wanted = [FleetCreation("w", host, "shell", on_host_lost, req, body)]
        self.world.note(f"{self.name}: creates an agent on {host} that is to {on_host_lost}")
        (made,) = await self.ask(lambda roster, age: roster.fleet.create(RUN, wanted))
        if isinstance(made, OrchestratorError):
            self.world.note(f"{self.name}: {made.code}")
            return
        self.world.note(f"{self.name}: made {made}")
        if made not in self.world.made:
            self.world.made.append(made)
            self.world.evidence.made.append(made)

    async def _enqueue(self, agent_id: str, own: str | None, req: str) -> None:
        payload = {"work": req, "room": "x" * self.chance.choice((1, 10, 300))}

        def send(roster: Roster, age: float) -> Any:
            return delivery.enqueue(roster, agent_id, task_id=own, payload=payload, req=req)

        answer = await self.ask(send)
        self.world.note(f"{self.name}: {agent_id} has {answer['task_id']}")
        self.world.evidence.accepted.append((agent_id, answer["task_id"], req))
        self._tasks.append((agent_id, answer["task_id"]))
        if self.chance.random() < 0.1:  # its answer was lost on the way: the relay sends the call again
            again = await self.ask(send)
            assert again["task_id"] == answer["task_id"], f"a re-sent enqueue made {again['task_id']}"


class FleetReader(FleetActor):
    """Follows the broadcast of the run, from its beginning after each change of its home."""

    def __init__(self, world: FleetWorld) -> None:
        super().__init__(world, "reader")
        self.gen: int | None = None
        self.seen: dict[int, dict[str, Any]] = {}
        self.process.start(self._live())

    async def _live(self) -> None:
        while True:
            wait_s, most = self.chance.choice((0.0, 1.0, 20.0)), self.chance.choice((1, 5, 100))
            since = 0

            async def read(roster: Roster, age: float, wait_s: float = wait_s, most: int = most) -> Any:
                nonlocal since
                run, since, gen = roster.runs.get(RUN), max(self.seen, default=0), self.gen
                if run is None:  # it is the home since a moment ago, and has not made the run yet
                    raise Conflict("not_home", "this host has no such run")
                page = await delivery.broadcast_read(
                    roster, run, since_seq=since, max_events=most, wait_s=max(0.0, wait_s - age), gen=gen
                )
                self.world.evidence.read(run, page["events"])
                return page

            page: dict[str, Any] = {"events": []}
            try:
                page = await self.ask(read)
            except Conflict as error:
                if error.code == "cursor_old":
                    self.begin_anew()
            except BadRequest as error:
                raise AssertionError(f"records of the broadcast that were read have vanished: {error}") from error
            if page.get("gen") != self.gen and "gen" in page:
                if since:
                    assert self.gen is None, f"a position of broadcast {self.gen} was taken for one of {page['gen']}"
                self.gen = page["gen"]
            for event in page["events"]:
                self.seen[event["seq"]] = event
            await asyncio.sleep(self.chance.random())

    def begin_anew(self) -> None:
        """Forget what was read: the broadcast is another one."""
        self.world.note("reader: begins anew")
        self.seen.clear()
        self.gen = None
