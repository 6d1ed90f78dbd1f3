"""Moves agents from a lost host to a live one: declares the loss, takes over what came here, sets aside what went.

Who owns an agent is decided by the database alone (`FleetDatabase.move`, one transaction). The new owner continues
the mirrored logs; a former owner that returns ends the CLI, keeps its unshipped records as late ones and sets the
directory aside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import structlog

from orchestrator.base import failpoints
from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import Conflict, Corrupt, NotReady, OrchestratorError
from orchestrator.core import decisions, fleet_rules, supervision
from orchestrator.core.record_types import Draft
from orchestrator.fleet.database_functions import (
    LOST_AFTER_S,
    SHIP_BYTES,
    Beat,
    FleetDatabase,
    HostRow,
    LateLine,
    LogName,
    OwnAgent,
    Ownership,
    ShipAnswer,
)
from orchestrator.fleet.due_names import DueNames
from orchestrator.fleet.fleet_agent_ids import fleet_id, local_id, own_entry
from orchestrator.fleet.held_fences import held_fence, note_takeover
from orchestrator.fleet.leases import Lease
from orchestrator.fleet.replicas import Replicas
from orchestrator.fleet.shipping import Shipping
from orchestrator.fleet.taking import Taking
from orchestrator.team.life import fleet_creation
from orchestrator.team.life.supervisor import Supervisor
from orchestrator.team.roster import mirrored_logs
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster

log = structlog.get_logger()

EMPTY_AGAIN_S = 30.0
"""Seconds until a lost host that had nothing to move is looked at again."""
PAGE_LINES = 1000
LOGS: tuple[LogName, LogName] = ("inbox", "outbox")


class Moves:
    """What one host does about moves. ``refused`` says why it does not take an agent of that creator, or ""."""

    def __init__(
        self,
        database: FleetDatabase,
        supervisor: Supervisor,
        lease: Lease,
        parts: tuple[Shipping, Taking, Replicas],
        *,
        host: str,
        refused: Callable[[AgentEntry, str], str],
        command_of: Callable[[str], tuple[str, ...]],
    ) -> None:
        self._database = database
        self._supervisor = supervisor
        self._roster: Roster = supervisor.roster
        self._lease = lease
        self._shipping, self._taking, self._replicas = parts
        self._host = host
        self._refused = refused
        self._command_of = command_of
        self._due = DueNames(self._act, "moving agents", supervisor.roster.clock)
        self._lost: dict[str, HostRow] = {}
        self._look_again: dict[str, float] = {}
        self._removed: dict[str, None] = {}  # deleted agents that their home has removed from the database
        self._forgotten: dict[str, str] = {}  # agents that the database did not know: their ids here

    def begin(self) -> None:
        """Act from now on."""
        self._due.begin()

    async def close(self) -> None:
        """Stop; what is half done is done again by the next daemon."""
        await self._due.close()

    def beaten(self, beat: Beat) -> None:
        """Compare who owns what with what is here; and see which hosts are lost."""
        for name, row in self._lease.own.items():
            entry = own_entry(self._roster, name)
            if entry is None and name in self._forgotten:
                self._hold(name)
                continue
            if entry is None and name in self._roster.corrupt:
                continue  # its logs here are damaged: doctor shows and repairs them, as for a local agent
            here = 0 if entry is None else entry.state.fence
            if entry is not None and here < row.fence:
                here = held_fence(self._roster, entry)
            unfinished = entry is not None and not self._rests(entry, row)
            if (entry is None and row.out_seq > 0) or (entry is not None and here < row.fence) or unfinished:
                self._hold(name)
        for entry in self._own_entries():
            name = fleet_id(entry.agent_id)
            # Also a deleted one: if its deletion was not shipped, it goes on elsewhere.
            if name not in self._lease.own and (entry.live or name not in self._removed):
                self._hold(name)
        self._due.add(self._taking.blocked)  # the database may have been away when it was asked whose these are
        now = self._roster.clock.monotonic()
        self._lost = {
            row.host: row
            for row in beat.hosts
            if row.host != self._host
            and (row.lost or (row.lease_left_s is not None and row.lease_left_s < -LOST_AFTER_S))
            and self._look_again.get(row.host, 0.0) <= now
        }
        if self._lost:
            self._due.wake()

    def refused_mirror(self, name: str, answer: ShipAnswer) -> None:
        """The mirror of an own agent accepts nothing more from this host: its owner has to be looked up."""
        entry = own_entry(self._roster, name)
        if answer.status == "forked" and entry is not None:
            file = str(entry.outbox.path)
            message = (
                f"{file}: the log differs from its mirror in the fleet's database, which has another record there"
            )
            self._lease.fenced.add(name)
            self._roster.set_aside(entry.agent_id, Corrupt("forked", message, file=file))
            return
        self._hold(name)

    def look_up(self, names: Iterable[str]) -> None:
        """Look up whose these agents are; until then nothing is done with them."""
        for name in names:
            if own_entry(self._roster, name) is not None:
                self._hold(name)

    def held(self, name: str) -> bool:
        """Whether it is not clear yet whose the agent is."""
        return name in self._lease.fenced

    def _rests(self, entry: AgentEntry, row: OwnAgent) -> bool:
        """Whether nothing is left to record of the agent's move to this host."""
        to_end = row.ends and not entry.state.stop_asked and entry.state.life != "deleted"
        return not (to_end or self._moved(entry, row, "", {}))

    def _hold(self, name: str) -> None:
        """Hand out and ship nothing of the agent until it is clear whose it is."""
        self._block(name)
        self._due.add([name])

    def _block(self, name: str) -> None:
        self._lease.fenced.add(name)
        self._shipping.held[name] = None
        self._taking.blocked[name] = None

    def _release(self, name: str) -> None:
        self._lease.fenced.discard(name)
        self._shipping.held.pop(name, None)
        self._taking.blocked.pop(name, None)

    def _own_entries(self) -> list[AgentEntry]:
        return [entry for entry in self._roster.agents.values() if entry.state.fleet]

    # -- the work -----------------------------------------------------------------------------------------------

    async def _act(self, names: list[str]) -> None:
        lost, self._lost = self._lost, {}
        await self._declare(lost)
        if names:
            await self._settle(names)

    async def _declare(self, lost: Mapping[str, HostRow]) -> None:
        """Give the agents of lost hosts to live ones."""
        for host in lost:
            try:
                moved = await self._database.move(host)
            except NotReady as error:
                if error.code != "too_early":
                    raise
                continue
            except Conflict as error:  # it has renewed its lease meanwhile
                log.info("a host is not lost", host=host, **error.as_dict())
                continue
            if not moved:
                self._look_again[host] = self._roster.clock.monotonic() + EMPTY_AGAIN_S
                continue
            log.warning("a host was lost; its agents move", host=host, agents=[row.agent for row in moved])
            failpoints.passed("fleet:moved")
            for target in dict.fromkeys(row.host for row in moved):
                names = [row.agent for row in moved if row.host == target]
                if target != self._host:
                    self._database.tell(target, "moved", names)
            await self._lease.renew(fresh=False)

    async def _settle(self, names: list[str]) -> None:
        """Set aside what another host owns, and take over what this one owns."""
        for name in names:
            self._block(name)  # again: what was found out before may have released it since
        owners = await self._database.ownership(names)
        for name in names:
            owner, entry = owners.get(name), own_entry(self._roster, name)
            if owner is None:
                if entry is not None and entry.live:
                    self._unknown(entry)
                elif entry is not None:
                    self._removed[name] = None
                    self._release(name)
                continue
            if owner.host != self._host:
                self._lease.own.pop(name, None)  # of the last renewal: its run may end here with it
            if entry is not None and (owner.host != self._host or held_fence(self._roster, entry) < owner.fence):
                await self._set_aside(name, entry, owner)
                entry = None
            if owner.host != self._host:
                self._release(name)
                self._shipping.forget(name)
                self._replicas.look([name])
                continue
            row = self._lease.own.get(name)
            if row is None or row.fence != owner.fence:
                await self._lease.renew(fresh=False)
                row = self._lease.own.get(name)
            if entry is None and name in self._forgotten:
                entry = await self._known_again(name)
            if row is not None and entry is None and row.out_seq > 0:
                with self._replicas.giving_way([name]):
                    await self._take_over(row)
            elif row is not None and entry is not None and not self._rests(entry, row):
                await self._continue(entry, row)  # a crash came between the takeover and the first launch here
            self._release(name)
            self._taking.look([name])
            if (entry := own_entry(self._roster, name)) is not None:
                self._supervisor.tend(entry)

    def _unknown(self, entry: AgentEntry) -> None:
        """The database was restored to before this agent was created: no call reaches it, and nobody else has it."""
        file = str(entry.outbox.path)
        message = (
            f"{file}: the fleet's database does not know this agent; it was restored to before the agent was made"
        )
        step = "keep a copy of the agent's directory if you need it, and create the agent again"
        log.error("the database does not know this agent", agent=entry.agent_id)
        self._roster.set_aside(entry.agent_id, Corrupt("forked", message, step, file=file))
        self._forgotten[fleet_id(entry.agent_id)] = entry.agent_id
        self._shipping.forget(fleet_id(entry.agent_id))  # if it comes back, it is compared with its mirror anew

    async def _known_again(self, name: str) -> AgentEntry | None:
        """The agent that was set aside, if a later copy of the database has it; None if it is another of that name.

        Made anew from its posts it would do its tasks once more.
        """
        posts = await self._database.take({name: 0}, 1)
        agent_id = self._forgotten.pop(name)
        error = self._roster.corrupt.get(agent_id)
        entry = self._roster.take_up(agent_id) if error is not None else None  # gc may have removed it meanwhile
        if error is None or entry is None:
            return None
        if not posts or entry.state.spec.get("req") != posts[0].req:
            self._roster.set_aside(agent_id, error)
            return None
        log.info("the database knows this agent again", agent=agent_id)
        self._supervisor.take_over(entry)
        for listener in self._roster.listeners:
            listener(entry)
        return entry

    # -- an agent that has gone ---------------------------------------------------------------------------------

    async def _set_aside(self, name: str, entry: AgentEntry, owner: Ownership) -> None:
        """End the CLI of an agent that another owner holds, keep what the mirror does not have, rename its files."""
        fence = held_fence(self._roster, entry)
        log.warning("an agent has moved to another host", agent=name, host=owner.host, fence=owner.fence)
        await self._supervisor.evict(entry)
        failpoints.passed("fleet:evicted")
        for journal in entry.logs.values():
            await journal.synced(journal.last_seq)
        await self._keep_late(name, entry, fence)
        self._database.tell(owner.host, "moved", [name])  # it reads them after its next renewal
        run = self._roster.runs.get(entry.run_id)
        # On the event loop, and first: a replica would find the name taken meanwhile, or after a refusal of the disk,
        # and get another one.
        mirrored_logs.fence_off(self._roster.paths, entry.agent_id, fence)
        self._roster.forget_collected(entry.agent_id)
        failpoints.passed("fleet:set-aside")
        if run is not None:
            await self._supervisor.team_panes.end_if_empty(run)

    async def _keep_late(self, name: str, entry: AgentEntry, fence: int) -> None:
        for log_name in LOGS:
            journal, after = entry.logs[log_name], await self._mirrored(name, log_name, fence)
            while after < journal.visible_seq:
                batch = journal.raw_since(after, PAGE_LINES, SHIP_BYTES)
                lines = [LateLine(log_name, record["seq"], line.decode()) for record, line in batch]
                await self._database.late(name, fence, lines)
                after = batch[-1][0]["seq"]

    async def _mirrored(self, name: str, log_name: LogName, fence: int) -> int:
        """The last record that was shipped under this fence or an earlier one: fences never fall in a mirror."""
        low, high = 0, 1
        while (lines := await self._database.read(name, log_name, high - 1, 1, 1)) and lines[0].fence <= fence:
            low, high = high, high * 2
        while low + 1 < high:
            middle = (low + high) // 2
            lines = await self._database.read(name, log_name, middle - 1, 1, 1)
            if lines and lines[0].fence <= fence:
                low = middle
            else:
                high = middle
        return low

    # -- an agent that has come ---------------------------------------------------------------------------------

    async def _take_over(self, row: OwnAgent) -> None:
        """Continue the mirrored logs of an agent as its owner."""
        roster, name = self._roster, row.agent
        agent_id = local_id(roster, name)
        inbox = await self._all_lines(name, "inbox", row.in_seq)
        outbox = await self._all_lines(name, "outbox", row.out_seq)
        owner = (await self._database.ownership([name])).get(name)
        if owner is None or (owner.host, owner.fence) != (self._host, row.fence):
            return  # this process was stopped for long: the agent has moved on, and its mirror with it
        await self._replicas.drop(name)
        roster.checkpoints.forget(agent_id)  # a crash may have left that of an earlier time here
        # First: an agent that is here already is not taken over again, and without its run nothing is done with it.
        await self._supervisor.team_panes.run_of_fleet(row.run_id, row.home)
        config = roster.config()
        await asyncio.to_thread(
            mirrored_logs.take_over, roster.paths, agent_id, inbox, outbox, segment_bytes=config.segment_bytes
        )
        failpoints.passed("fleet:taken-over")
        await asyncio.to_thread(note_takeover, roster, agent_id, row.fence)
        entry = roster.take_up(agent_id)
        if entry is None:
            raise roster.corrupt[agent_id]
        self._shipping.learn(name, row.in_seq, row.out_seq)
        await self._continue(entry, row)

    async def _creator(self, name: str) -> str:
        """The host that created the agent, by the database: the mirrored record was written by a former owner."""
        posts = await self._database.take({name: 0}, 1)
        return posts[0].by_host if posts and posts[0].seq == 1 else ""

    async def _all_lines(self, name: str, log_name: LogName, end: int) -> list[bytes]:
        lines: list[bytes] = []
        while len(lines) < end:
            page = await self._database.read(name, log_name, len(lines), PAGE_LINES, SHIP_BYTES)
            if not page:
                break
            lines += [line.line.encode() for line in page]
        return lines[:end]

    async def _continue(self, entry: AgentEntry, row: OwnAgent) -> None:
        """Record the loss of the old host and the first launch here, or the end of an agent that does not move."""
        # First: the lost owner may have handed out a task whose record it could not ship.
        await self._taking.take([row.agent])
        roster, lost_host = self._roster, entry.state.host
        at = rfc3339(roster.clock.now())
        refused = "" if row.ends else self._refused(entry, await self._creator(row.agent))
        while drafts := self._moved(entry, row, lost_host, {}):
            if drafts[-1].type == "restarted":
                break
            await roster.commit(entry, drafts)
        if row.ends and not entry.state.stop_asked:
            reason = f"host {lost_host} was given up"
            await roster.commit(entry, decisions.stop(entry.state, force=True, req=None, at=at, reason=reason))
        elif drafts and not refused:
            await self._launch(entry, row, lost_host)
        elif drafts:
            code = supervision.REFUSED_BY_HOST
            await roster.commit(entry, supervision.failed(entry.state, at=at, reason=refused, code=code))

    async def _launch(self, entry: AgentEntry, row: OwnAgent, lost_host: str) -> None:
        roster = self._roster
        try:
            placed = await fleet_creation.placed_anew(roster, entry, row.fence, self._command_of)
        except OrchestratorError as error:
            at, reason = rfc3339(roster.clock.now()), f"{error.message}: {error.next_step}"
            await roster.commit(entry, supervision.failed(entry.state, at=at, reason=reason, code=error.code))
            return
        await roster.commit(entry, self._moved(entry, row, lost_host, placed))
        failpoints.passed("fleet:restarted")

    def _moved(self, entry: AgentEntry, row: OwnAgent, lost_host: str, placed: Mapping[str, Any]) -> list[Draft]:
        return fleet_rules.moved(
            entry.state,
            at=rfc3339(self._roster.clock.now()),
            fence=row.fence,
            host=self._host,
            lost_host=lost_host,
            placed=placed,
        )
