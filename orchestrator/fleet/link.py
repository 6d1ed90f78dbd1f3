"""The fleet as the team of this host sees it: joins posting, leases, shipping, replicas and calls of one host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from orchestrator.base import failpoints
from orchestrator.base.errors import BadRequest, Environment, NotReady, OrchestratorError
from orchestrator.base.waiting import Signal, wait_until
from orchestrator.core import fleet_rules
from orchestrator.fleet.calls import HostCalls
from orchestrator.fleet.database_functions import FleetDatabase, NewFleetAgent
from orchestrator.fleet.fleet_agent_ids import fleet_id, local_id, own_entry, replica
from orchestrator.fleet.held_fences import held_fence
from orchestrator.fleet.hosts import KnownHosts
from orchestrator.fleet.leases import Lease
from orchestrator.fleet.posting import Posting, unknown
from orchestrator.fleet.replicas import Replicas
from orchestrator.fleet.run_homes import RunHomes
from orchestrator.fleet.shipping import Shipping
from orchestrator.team.roster import delivery
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.fleet_link import FleetCreation
from orchestrator.team.roster.roster import Roster

ANY = "any"
KEPT_WITHIN_S = 5.0
"""Longest time that a terminal event waits for its ship; then it is answered as provisional."""
PLACES = {
    "host_unknown": "the fleet has no host of this name",
    "host_away": "the host does not renew its lease",
    "host_draining": "the host takes no new agents: it is drained",
    "engine_missing": "it cannot start this engine, for the engine's program or tmux is missing there",
    "no_host": "no live host has the engine and a free place",
}


class HostLink:
    """The `FleetLink` of one host."""

    def __init__(  # noqa: PLR0917  (called once, with the parts of a host)
        self,
        host: str,
        database: FleetDatabase,
        roster: Roster,
        lease: Lease,
        shipping: Shipping,
        replicas: Replicas,
        calls: HostCalls,
        hosts: KnownHosts,
        homes: RunHomes,
        look: Callable[[list[str]], None],
        posted: Callable[[str], None],
    ) -> None:
        self.host = host
        self._database = database
        self._roster = roster
        self._lease = lease
        self._shipping = shipping
        self._replicas = replicas
        self._calls = calls
        self._hosts = hosts
        self._homes = homes
        self._posting = Posting(database, host, look)
        self._posted = posted  # something was posted to an agent of a run of this home
        self._creating: dict[str, tuple[str, str]] = {}  # fleet id -> its run and host
        self._came = Signal()

    # -- which agents -------------------------------------------------------------------------------------------

    def serves(self, agent_id: str) -> bool:
        entry = self._roster.agents.get(agent_id)
        if entry is not None:  # one without a record is being made, perhaps for the fleet
            return bool(entry.state.fleet) or entry.state.life == "new"
        return agent_id not in self._roster.corrupt

    async def reading(self, agent_id: str) -> AgentEntry:
        name = fleet_id(agent_id)
        if name in self._creating:
            entry = await self.created(local_id(self._roster, name), self._roster.clock.monotonic() + 1.0)
            if entry is not None:
                return entry
            raise NotReady("host_away", f"agent {agent_id} was accepted, and its host has not made it yet")
        owner = (await self._database.ownership([name])).get(name)
        if owner is None:
            raise unknown(name)
        raise BadRequest(
            "not_home",
            f"agent {agent_id} belongs to a run of another home",
            "read it there, or make this host the home: orchestrator fleet take-run",
        )

    # -- creation -----------------------------------------------------------------------------------------------

    async def create(self, run_id: str, agents: Sequence[FleetCreation]) -> list[str | OrchestratorError]:
        wanted = [
            NewFleetAgent(
                agent.base,
                self._taken(agent.base),
                None if agent.host == ANY else agent.host,
                agent.engine,
                "move" if agent.on_host_lost == "move" else "wait",
                agent.req,
                agent.body,
            )
            for agent in agents
        ]
        answers: list[str | OrchestratorError] = []
        made = await self._database.create(run_id, wanted)
        failpoints.passed("fleet:created")
        for agent, placed in zip(agents, made, strict=True):
            if placed.why:
                answers.append(_refused(placed.why, agent.host))
                continue
            if own_entry(self._roster, placed.agent) is None:
                self._creating[placed.agent] = run_id, placed.host
                if placed.host != self.host:
                    self._replicas.open(placed.agent, placed.host, run_id)
                    self._creating.pop(placed.agent)
            self._posting.tell(placed.host, [placed.agent])
            answers.append(local_id(self._roster, placed.agent))
        return answers

    def _taken(self, base: str) -> tuple[str, ...]:
        """Ids that begin with this one and are used here; also the fleet's, for a restored database may lack some."""
        names = {*self._roster.agents, *self._roster.corrupt, *self._roster.replicas}
        if self._roster.paths.agents.is_dir():
            names |= {path.name for path in self._roster.paths.agents.iterdir()}
        ids = {fleet_id(name) for name in names}
        return tuple(sorted(name for name in ids if name == base or name.startswith(f"{base}-")))

    async def created(self, agent_id: str, deadline: float) -> AgentEntry | None:
        def look() -> AgentEntry | None:
            entry = self._roster.agents.get(agent_id) or self._roster.replicas.get(agent_id)
            return entry if entry is not None and entry.state.life != "new" else None

        return await wait_until(look, self._came, deadline, self._roster.clock)

    def creating(self, run_id: str) -> bool:
        if any(run == run_id for run, _ in self._creating.values()):
            return True
        # One that has moved here is neither a replica any more nor an own agent yet, also after a crash in between.
        return any(
            row.run_id == run_id
            and local_id(self._roster, row.agent) not in self._roster.corrupt
            and own_entry(self._roster, row.agent) is None
            and replica(self._roster, row.agent) is None
            for row in self._lease.own.values()
        )

    def seen(self, entry: AgentEntry) -> None:
        """Records of an agent have come: calls that wait for its first ones look again."""
        self._creating.pop(fleet_id(entry.agent_id) if entry.state.fleet else "", ("", ""))
        self._came.notify()

    # -- calls --------------------------------------------------------------------------------------------------

    async def enqueue(
        self, agent_id: str, *, task_id: str, payload: Any, req: str, timeout_s: float | None, title: str
    ) -> dict[str, Any]:
        answer = await self._posting.enqueue(
            fleet_id(agent_id),
            task_id=task_id,
            payload=payload,
            req=req,
            timeout_s=timeout_s,
            title=title,
            limits=delivery.limits(self._roster),
        )
        self._posted(fleet_id(agent_id))
        entry = self._roster.agents.get(agent_id) or self._roster.replicas.get(agent_id)
        task = entry.state.unfinished.get(task_id) if entry is not None else None
        return {**answer, **({"state": task.state} if task is not None else {}), **self._away(agent_id)}

    async def cancel(self, agent_id: str, *, task_id: str, req: str) -> dict[str, Any]:
        answer = await self._posting.cancel(fleet_id(agent_id), task_id=task_id, req=req)
        self._posted(fleet_id(agent_id))
        entry = self._roster.agents.get(agent_id) or self._roster.replicas.get(agent_id)
        task = entry.state.unfinished.get(task_id) if entry is not None else None
        ended = entry.state.ended(task_id) if entry is not None else None
        state = task.state if task else ended.outcome if ended else "queued"
        return {**answer, "task_state": state, **self._away(agent_id)}

    async def stop(self, agent_id: str, *, force: bool, req: str, reason: str = "") -> None:
        await self._posting.stop(fleet_id(agent_id), force=force, req=req, reason=reason)
        self._posted(fleet_id(agent_id))

    async def restart(self, agent_id: str, *, fresh: bool, req: str) -> None:
        await self._posting.restart(fleet_id(agent_id), fresh=fresh, req=req)
        self._posted(fleet_id(agent_id))

    async def ask(self, agent_id: str, verb: str, body: Any, wait_s: float) -> Any:
        if away := self.host_state(agent_id):
            raise NotReady("host_away", f"host {self.host_of(agent_id)} is {away}")
        return await self._calls.ask(self.host_of(agent_id), verb, {"agent": fleet_id(agent_id), **body}, wait_s)

    # -- what an owner asks -------------------------------------------------------------------------------------

    def holds(self, entry: AgentEntry) -> bool:
        if self._lease.refused is not None or fleet_id(entry.agent_id) in self._lease.fenced:
            return True
        if fleet_rules.launched_elsewhere(entry.state, self.host):
            return True
        failed = entry.state.life == "failed"  # else no file is read
        return failed and fleet_rules.waits_for_move(entry.state, held_fence(self._roster, entry))

    async def may_deliver(self, entry: AgentEntry) -> bool:
        name, moves = fleet_id(entry.agent_id), entry.may_move
        if not self._lease.may_act(name, moves=moves):
            return False
        if not moves:
            return True
        while True:
            # The mirror must show the launch and the last end: else a new owner could not know that this may go out.
            shown, deadline = entry.last_news, self._roster.clock.monotonic() + KEPT_WITHIN_S
            if not await self._shipping.shipped(entry, shown, deadline):
                return False
            try:
                owner = (await self._database.ownership([name])).get(name)
            except OrchestratorError:
                return False
            own = self._lease.own.get(name)
            held = owner is not None and own is not None and (owner.host, owner.fence) == (self.host, own.fence)
            # Asked again after the answer: this process may have been stopped while it waited.
            if not (held and self._lease.may_act(name, moves=moves)):
                return False
            if entry.last_news == shown:  # else a task has ended meanwhile, and the next one would go out now
                return True

    async def kept(self, entry: AgentEntry, seq: int) -> bool:
        if not entry.may_move:
            return True
        return await self._shipping.shipped(entry, seq, self._roster.clock.monotonic() + KEPT_WITHIN_S)

    def mirrored(self, entry: AgentEntry) -> int:
        return self._shipping.mirrored(fleet_id(entry.agent_id))

    async def all_taken(self, entry: AgentEntry) -> bool:
        own = self._lease.own.get(fleet_id(entry.agent_id))
        return own is not None and entry.state.ref >= own.last_post

    # -- runs ---------------------------------------------------------------------------------------------------

    def gen(self, run_id: str) -> int | None:
        return self._homes.gen(run_id)

    def check_cursor(self, run_id: str, since_seq: int, gen: int | None) -> None:
        self._homes.check(run_id, since_seq, gen)

    async def forget(self, agent_id: str) -> None:
        await self._database.forget([fleet_id(agent_id)])

    # -- hosts --------------------------------------------------------------------------------------------------

    def host_of(self, agent_id: str) -> str:
        name = fleet_id(agent_id)
        entry = replica(self._roster, name)
        if entry is not None and entry.remote is not None:
            return entry.remote.host
        return self._creating[name][1] if name in self._creating else self.host

    def run_of(self, agent_id: str) -> str:
        name = fleet_id(agent_id)
        entry = own_entry(self._roster, name) or replica(self._roster, name)
        return entry.run_id if entry is not None else self._creating.get(name, ("", ""))[0]

    def host_state(self, agent_id: str) -> str:
        host = self.host_of(agent_id)
        since = self._hosts.away_since(host) if host != self.host else ""
        return f"away since {since}" if since else ""

    def _away(self, agent_id: str) -> dict[str, str]:
        state = self.host_state(agent_id)
        return {"host_state": state} if state else {}


def _refused(why: str, host: str) -> OrchestratorError:
    if why in ("host_unknown", "host_draining"):
        return BadRequest(why, f"host {host!r}: {PLACES[why]}")
    if why == "engine_missing":
        step = "install it there, then: orchestrator doctor, orchestrator daemon restart; or choose another host"
        return Environment(why, f"host {host!r}: {PLACES[why]}", step)
    return NotReady(why, PLACES[why] if host == ANY else f"host {host!r}: {PLACES[why]}")
