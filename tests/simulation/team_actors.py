"""Who calls a daemon: masters who queue, cancel and restart, readers who follow, and CLIs that work.

Each is a process of its own. They keep to the rules of the protocol, and are as rude as it allows: calls in parallel,
sent again, sent twice, late, and never read.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import BadRequest, Conflict, Environment, NotReady
from orchestrator.core import decisions, supervision
from orchestrator.team.roster import delivery
from orchestrator.team.roster.roster import Roster
from tests.simulation.loop import Process

if TYPE_CHECKING:
    from tests.simulation.local_team import World


class Actor:
    """One process that calls the daemon."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.chance = world.chance
        self.process = Process(world.loop, name)
        self._calls = 0

    def req(self) -> str:
        self._calls += 1
        return f"{self.name}:{self._calls}"


class Master(Actor):
    """Queues, cancels, restarts, and once in a while deletes, while the world is busy."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.done = False
        self._tasks: list[tuple[str, str]] = []
        self._agents = ["a1", "a1", "a2", "a3"]
        self.process.start(self._live())

    async def _live(self) -> None:
        while self.world.busy:
            await asyncio.sleep(self.chance.expovariate(1.2))
            agent_id = self.chance.choice(self._agents)
            try:
                await self._do(agent_id)
            except (Environment, NotReady):
                await asyncio.sleep(1.0)
            except Conflict:
                pass  # deleted, or the task has ended
        self.done = True

    async def _do(self, agent_id: str) -> None:
        ask, req, what = self.world.ask, self.req(), self.chance.random()
        if what < 0.7:
            own = f"{self.name}-t{self._calls}" if self.chance.random() < 0.5 else None
            await self._enqueue(agent_id, own, req)
        elif what < 0.88 and self._tasks:
            agent_id, task_id = self.chance.choice(self._tasks[-6:])
            await ask(lambda roster, age: delivery.cancel(roster, agent_id, task_id=task_id, req=req))
            self.world.note(f"{self.name}: canceled {task_id}")
        elif what < 0.92 and len(self._agents) < 7:
            await self.world.make(name := f"{self.name}-{self._calls}")
            self._agents.append(name)
        elif what < 0.97:
            await ask(lambda roster, age: self._restart(roster, agent_id, req))
        else:
            force = self.chance.random() < 0.3
            await ask(lambda roster, age: self._stop(roster, "a3", req, force=force))

    async def _enqueue(self, agent_id: str, own: str | None, req: str) -> None:
        payload = {"work": req, "room": "x" * self.chance.choice((1, 10, 300))}

        def send(roster: Roster, age: float) -> Any:
            return delivery.enqueue(roster, agent_id, task_id=own, payload=payload, req=req)

        answer = await self.world.ask(send)
        self.world.note(f"{self.name}: {agent_id} has {answer['task_id']}")
        self.world.evidence.accepted.append((agent_id, answer["task_id"], req))
        self._tasks.append((agent_id, answer["task_id"]))
        if self.chance.random() < 0.1:  # its answer was lost on the way: the relay sends the call again
            again = await self.world.ask(send)
            assert again["task_id"] == answer["task_id"], f"a re-sent enqueue made {again['task_id']}"

    async def _restart(self, roster: Roster, agent_id: str, req: str) -> None:
        entry = roster.entry(agent_id)
        at = rfc3339(roster.clock.now())
        await roster.commit(entry, supervision.restart(entry.state, fresh=False, req=req, at=at))

    async def _stop(self, roster: Roster, agent_id: str, req: str, *, force: bool) -> None:
        entry = roster.entry(agent_id)
        await roster.commit(entry, decisions.stop(entry.state, force=force, req=req, at=rfc3339(roster.clock.now())))


class Reader(Actor):
    """Follows an agent's events, or without a name the broadcast; nothing that it was given may vanish."""

    def __init__(self, world: World, agent_id: str) -> None:
        super().__init__(world, f"reader of {agent_id or 'all'}")
        self.agent_id = agent_id
        self.seen = world.evidence.seen.setdefault(agent_id, {})
        self.process.start(self._live())

    async def _live(self) -> None:
        while True:
            wait_s = self.chance.choice((0.0, 1.0, 20.0))
            since = max(self.seen, default=0)
            most = self.chance.choice((1, 3, 100))

            def read(roster: Roster, age: float, since: int = since, most: int = most, wait_s: float = wait_s) -> Any:
                # What a power cut may take was forgotten meanwhile.
                since = min(since, max(self.seen, default=0))
                if self.agent_id:
                    return delivery.events_read(
                        roster, self.agent_id, since_seq=since, max_events=most, wait_s=max(0.0, wait_s - age)
                    )
                run = roster.runs["run-1"]
                return delivery.broadcast_read(roster, run, since_seq=since, max_events=most, wait_s=wait_s)

            try:
                page = await self.world.ask(read)
            except Environment:
                page = {"events": []}
            except BadRequest as error:
                raise AssertionError(f"{self.name}: records that were read have vanished: {error}") from error
            for event in page["events"]:
                self.seen[event["seq"]] = event
            await asyncio.sleep(self.chance.random())

    def at_end(self) -> bool:
        """Whether it has been given the last record that is visible."""
        daemon = self.world.daemon
        if daemon is None or not daemon.process.alive:
            return False
        roster = daemon.roster
        journal = roster.agents[self.agent_id].outbox if self.agent_id else roster.runs["run-1"].journal
        return max(self.seen, default=0) == journal.last_seq == journal.visible_seq


class Cli(Actor):
    """One launch of an agent's CLI. ``given_up``: it counts as gone, though it still calls."""

    def __init__(self, world: World, agent_id: str, epoch: int, secret: str) -> None:
        super().__init__(world, f"{agent_id}.{epoch}")
        self.agent_id = agent_id
        self.epoch = epoch
        self.secret = secret
        self.given_up = False
        self.process.start(self._live())

    async def _live(self) -> None:
        await asyncio.sleep(self.chance.random())
        try:
            while (command := await self._wait()) is not None:
                if command["kind"] == "task":
                    await self._work(command)
                elif command["kind"] == "cancel":
                    await self._emit("canceled", command["task_id"])
        except Conflict:
            pass  # another launch has taken over, or the agent has ended
        self.process.die()

    async def _wait(self) -> dict[str, Any] | None:
        """The next command; None when it is to stop."""
        while True:
            req, timeout_s = self.req(), self.chance.choice((1.0, 5.0, 20.0))

            async def wait(roster: Roster, age: float, req: str = req, timeout_s: float = timeout_s) -> Any:
                delivery.check_identity(roster, self.agent_id, claimed=self.agent_id, secret=self.secret)
                return await delivery.wait_for_command(
                    roster, self.agent_id, self.epoch, timeout_s=timeout_s, age_s=age, req=req
                )

            try:
                answer = await self.world.ask(wait)
            except Environment:
                await asyncio.sleep(1.0)
                continue
            if answer["status"] == "command":
                command: dict[str, Any] = answer["command"]
                return None if command["kind"] == "stop" else command

    async def _work(self, command: dict[str, Any]) -> None:
        task_id, chance = command["task_id"], self.chance
        self.world.note(f"{self.name}: works on {task_id}, attempt {command['attempt']}"
                        f"{' again' if command.get('redelivered') else ''}")  # fmt: skip
        self.world.evidence.handed_out(self.agent_id, self.epoch, command)
        canceled = False
        if chance.random() < 0.7:
            canceled = await self._emit("ack", task_id)
        for _ in range(chance.choice((0, 0, 1, 2))):
            await asyncio.sleep(chance.expovariate(2.0))
            canceled = canceled or await self._emit("progress", task_id)
        await asyncio.sleep(chance.expovariate(2.0))
        kind = "canceled" if canceled else chance.choice(("result", "result", "result", "error"))
        how = chance.random()
        if how < 0.1 and self.world.busy:
            return  # it forgets to report, and asks for the next command
        if how < 0.3:  # the calls of one turn are sent in parallel
            self.process.start(self._late(kind, task_id))
            return
        await self._emit(kind, task_id)
        if how < 0.45:
            self.process.start(self._late(chance.choice(("result", "error")), task_id, chance.random() * 4))

    async def _late(self, kind: str, task_id: str, after_s: float = 0.0) -> None:
        await asyncio.sleep(after_s)
        with contextlib.suppress(Conflict):
            await self._emit(kind, task_id)

    async def _emit(self, kind: str, task_id: str) -> bool:
        """Report; whether the task is to be canceled."""
        req = self.req()

        async def emit(roster: Roster, age: float) -> Any:
            delivery.check_identity(roster, self.agent_id, claimed=self.agent_id, secret=self.secret)
            return await delivery.emit_event(
                roster, self.agent_id, self.epoch, kind=kind, task_id=task_id, payload={"by": req}, done=None, req=req
            )

        while True:
            try:
                answer = await self.world.ask(emit)
            except Environment:  # a full disk: the report is kept and tried again
                await asyncio.sleep(1.0)
                continue
            self.world.evidence.reported(self.agent_id, self.epoch, kind, task_id, answer)
            return bool(answer["cancel_requested"])
