"""Keeps, on the home of a run, replicas of its agents on other hosts: their logs as mirrored, read as own ones.

A replica is a cache of the database's mirror. What arrives is folded and published to the run's broadcast, as the
records of own agents are.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator

import structlog

from orchestrator.base.errors import OrchestratorError
from orchestrator.fleet.database_functions import NEW_LINES, Beat, FleetDatabase, HomeAgent, NewLines
from orchestrator.fleet.due_names import DueNames
from orchestrator.fleet.fleet_agent_ids import fleet_id, local_id, own_entry, replica
from orchestrator.team.roster import mirrored_logs
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.remote_facts import RemoteFacts
from orchestrator.team.roster.replica_files import AgentOwner, owner_of
from orchestrator.team.roster.roster import Roster

log = structlog.get_logger()

ANEW_S = 60.0
"""Shortest time between two fresh copies of one mirror: its owner may have shipped what fits nowhere."""


class Replicas:
    """The replicas of one home.

    ``away_since`` says of a host since when it has not renewed its lease; ``placed`` is called with a replica that is
    new here, or whose agent has another host now.
    """

    def __init__(
        self,
        database: FleetDatabase,
        roster: Roster,
        *,
        project: str,
        away_since: Callable[[str], str],
        placed: Callable[[AgentEntry], object],
    ) -> None:
        self._database = database
        self._roster = roster
        self._project = project
        self._away_since = away_since
        self._placed = placed
        self._heads: dict[str, HomeAgent] = {}
        self._due = DueNames(self._follow, "reading mirrors", roster.clock)
        self._misfit_at: dict[str, float] = {}  # when (monotonic) a replica last did not fit its mirror
        self._waits_until: dict[str, float] = {}  # of those of which a fresh copy did not fit either
        self._held: Counter[str] = Counter()  # agents of which no replica is made now

    def begin(self) -> None:
        """Follow the mirrors from now on."""
        self._due.begin()

    async def close(self) -> None:
        """Stop; the next daemon goes on where the replicas end."""
        await self._due.close()

    def open_kept(self) -> None:
        """Open the replicas that an earlier daemon left, so that they can be read while the database is away."""
        paths = self._roster.paths
        if not paths.agents.is_dir():
            return
        for directory in sorted(paths.agents.iterdir()):
            owner = (
                owner_of(paths, directory.name)
                if paths.is_replica(directory) and not paths.is_collected(directory)
                else None
            )
            if owner is not None and owner.project == self._project:
                self._opened(directory.name, owner.host, "")

    def head(self, name: str) -> HomeAgent | None:
        """What the last renewal said of this agent of a run of this home."""
        return self._heads.get(name)

    def beaten(self, beat: Beat) -> None:
        """Learn the owners and the ends of the mirrors."""
        self._heads = {row.agent: row for row in beat.homes}
        for row in beat.homes:
            entry = replica(self._roster, row.agent)
            if entry is None or entry.remote is None:
                self._due.add([row.agent])
                continue
            moved = entry.remote.host != row.host
            entry.remote.host, entry.remote.away_since = row.host, self._away_since(row.host)
            if moved:
                self._placed(entry)
            if row.in_seq > entry.inbox.last_seq or row.out_seq > entry.outbox.last_seq:
                self._due.add([row.agent])

    def look(self, names: Iterable[str]) -> None:
        """The mirrors of these agents have grown."""
        self._due.add(names)

    def open(self, name: str, host: str, run_id: str) -> AgentEntry:
        """The replica of an agent, which is made if there is none; it may have no record yet."""
        entry = replica(self._roster, name)
        if entry is not None:
            return entry
        self._roster.begin_writing()
        return self._opened(local_id(self._roster, name), host, run_id)

    def _opened(self, agent_id: str, host: str, run_id: str) -> AgentEntry:
        roster = self._roster
        # On the event loop: two calls must not open the same logs, and a replica is small or was read before.
        kept = mirrored_logs.open_replica(
            roster.paths,
            agent_id,
            AgentOwner(self._project, host, 0),
            roster.syncer,
            segment_bytes=roster.config().segment_bytes,
        )
        entry = AgentEntry(agent_id)
        entry.state, entry.logs = kept.state, kept.logs
        entry.remote = RemoteFacts(host, run_id, self._away_since(host))
        self._placed(entry)
        roster.add_replica(entry)
        return entry

    @contextlib.contextmanager
    def giving_way(self, names: Collection[str]) -> Iterator[None]:
        """Make no replicas of these agents meanwhile: this host takes them over or makes them."""
        self._held.update(names)
        try:
            yield
        finally:
            self._held -= Counter(names)

    async def drop(self, name: str) -> None:
        """Remove the replica: this host owns the agent now, or the replica does not fit its mirror."""
        entry = replica(self._roster, name)
        if entry is not None:
            del self._roster.replicas[entry.agent_id]
            for journal in entry.logs.values():
                journal.close()
            await asyncio.to_thread(mirrored_logs.drop_replica, self._roster.paths, entry.agent_id)
            entry.changed.notify()

    # -- following ----------------------------------------------------------------------------------------------

    def _is_followed(self, name: str) -> bool:
        """Whether another host owns the agent, and its files here are not in the replica's place any more."""
        waits = self._roster.clock.monotonic() < self._waits_until.get(name, 0.0)
        return name in self._heads and not (waits or self._held[name]) and own_entry(self._roster, name) is None

    async def _follow(self, names: list[str]) -> None:
        """Read until the replicas of these agents are as long as their mirrors."""
        # Looked at anew before each read: meanwhile a renewal may have shown another home or owner.
        while names := [name for name in names if self._is_followed(name)]:
            after: dict[str, tuple[int, int]] = {}
            for name in names:
                row = self._heads[name]
                entry = self.open(name, row.host, row.run_id)
                after[name] = entry.inbox.last_seq, entry.outbox.last_seq
            news = await self._database.read_new(after)
            for lines in news:
                await self._extend(lines)
            names = [lines.agent for lines in news if max(len(lines.inbox), len(lines.outbox)) >= NEW_LINES]

    async def _extend(self, lines: NewLines) -> None:
        entry = replica(self._roster, lines.agent)
        if entry is None:
            return
        try:
            self._roster.mirror(entry, "inbox", [line.line.encode() for line in lines.inbox])
            if len(lines.inbox) < NEW_LINES:  # else the outbox may speak of tasks that are not here yet
                self._roster.mirror(entry, "outbox", [line.line.encode() for line in lines.outbox])
        except OrchestratorError as error:
            if error.code not in ("corrupt_log", "unknown_version"):
                raise
            log.warning("a replica does not fit its mirror and is made anew", agent=entry.agent_id, **error.as_dict())
            await self.drop(fleet_id(entry.agent_id))
            now, before = self._roster.clock.monotonic(), self._misfit_at.get(lines.agent)
            self._misfit_at[lines.agent] = now
            if before is not None and now < before + ANEW_S:
                self._waits_until[lines.agent] = now + ANEW_S  # then a renewal shows that it is missing
                return
            self._due.add([lines.agent])
