"""Ships the records of own agents to their mirrors, in order and byte for byte.

A record is shipped once it is durable here, so that after a power cut no mirror is ahead of its log: at once if the
broadcast tells it, else within `SHIP_WITHIN_S`, after a sync if no later record has caused one. Records that arrive
while a ship is under way share the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from orchestrator.base import failpoints
from orchestrator.base.clock import Clock
from orchestrator.base.errors import OrchestratorError
from orchestrator.base.waiting import Signal, call_off, elapse, wait_until
from orchestrator.fleet.database_functions import (
    SHIP_BYTES,
    SHIP_RECORDS,
    Beat,
    FleetDatabase,
    LogName,
    LogPart,
    ShipAnswer,
    ShippedLine,
)
from orchestrator.fleet.fleet_agent_ids import fleet_id, own_entry
from orchestrator.fleet.held_fences import held_fence
from orchestrator.fleet.leases import Lease
from orchestrator.journal.log import Journal
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster

log = structlog.get_logger()

SHIP_WITHIN_S = 0.2
AGAIN_S = 1.0
PAGE_LINES = 1000
INBOX: LogName = "inbox"
OUTBOX: LogName = "outbox"


@dataclass
class _Mirror:
    """How far the mirror of one own agent goes, as far as this host knows."""

    inbox: int
    outbox: int
    since: float = 0.0  # when (monotonic) it fell behind


class Shipping:
    """The mirrors of one host's agents. ``on_refused`` is called when a mirror is fenced or forked."""

    def __init__(
        self, database: FleetDatabase, roster: Roster, lease: Lease, on_refused: Callable[[str, ShipAnswer], None]
    ) -> None:
        self._database = database
        self._roster = roster
        self._lease = lease
        self._on_refused = on_refused
        self._mirrors: dict[str, _Mirror] = {}
        self._behind: dict[str, None] = {}
        self._unchecked: dict[str, None] = {}  # not compared with their logs yet
        self._stirred = Signal()
        self._shipped = Signal()
        self._task: asyncio.Task[None] | None = None
        self._urgent = False
        self._comparing = asyncio.Lock()
        self._source = ("", 0)  # incarnation and timeline of the database
        self.held: dict[str, None] = {}  # not shipped: set aside, or not compared with the mirror yet

    def begin(self) -> None:
        """Ship from now on."""
        self._roster.listeners.append(self.seen)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop; what is not shipped is shipped by the next daemon."""
        if self._task is not None:
            await call_off([self._task])

    async def compare_new(self, beat: Beat) -> None:
        """Compare the logs of own agents with their mirrors before anybody here acts on the renewal.

        Else a log of an older disk would go on where its mirror has other records. Once in a daemon's life for each.
        """
        restored = self._source not in (("", 0), (beat.incarnation, beat.timeline))
        self._source = beat.incarnation, beat.timeline
        for row in beat.own:
            mirror, entry = self._mirrors.get(row.agent), own_entry(self._roster, row.agent)
            if mirror is None and entry is not None:
                if held_fence(self._roster, entry) < row.fence:
                    continue  # it moved away and back: these are the logs of before, which `Moves` sets aside
                self._mirrors[row.agent] = _Mirror(row.in_seq, row.out_seq)
                self._unchecked[row.agent] = None
            elif mirror is not None and restored:  # it may have lost lines, also of agents that will write no more
                mirror.inbox, mirror.outbox = min(mirror.inbox, row.in_seq), min(mirror.outbox, row.out_seq)
        if self._unchecked:
            async with self._comparing:
                await self._compare()

    def beaten(self, beat: Beat) -> None:
        """Each own agent that is ahead of its mirror is shipped."""
        for row in beat.own:
            entry = own_entry(self._roster, row.agent)
            if entry is not None:
                self._roster.tell(entry)
                self.seen(entry)

    def learn(self, name: str, inbox: int, outbox: int) -> None:
        """The mirror of an agent that was just taken over ends where its logs here end."""
        self._mirrors[name] = _Mirror(inbox, outbox)
        self._unchecked.pop(name, None)
        self.held.pop(name, None)
        if (entry := own_entry(self._roster, name)) is not None:
            self._roster.tell(entry)

    def mirrored(self, name: str) -> int:
        """Number of the last outbox record that is known to be in the mirror; 0 if it is not clear whose that is."""
        mirror = self._mirrors.get(name)
        return 0 if mirror is None or name in self._unchecked or name in self.held else mirror.outbox

    async def _compare(self) -> None:
        """A log that ends before its mirror is of an older disk: it is filled up. One that differs is forked."""
        for name in list(self._unchecked):
            entry, mirror = own_entry(self._roster, name), self._mirrors.get(name)
            if entry is None or mirror is None or name in self.held:
                continue
            entry.filling_up = True
            try:
                answer = await self._compared(entry, name, mirror)
            finally:
                entry.filling_up = False
            self._unchecked.pop(name, None)
            if answer is None:
                self.seen(entry)
            else:
                self.held[name] = None
                self._on_refused(name, answer)

    async def _compared(self, entry: AgentEntry, name: str, mirror: _Mirror) -> ShipAnswer | None:
        """Fill up the agent's logs; why that cannot be, if it cannot."""
        forked = ShipAnswer(name, "forked", mirror.inbox, mirror.outbox, 0, "")
        for log_name, end in ((INBOX, mirror.inbox), (OUTBOX, mirror.outbox)):
            journal = entry.logs[log_name]
            both = min(journal.last_seq, end)
            await journal.synced(journal.last_seq)
            if both:
                ((_, here),) = journal.raw_since(both - 1, 1, 1)
                there = await self._database.read(name, log_name, both - 1, 1, 1)
                if not there or there[0].line.encode() != here:
                    return forked
            while journal.last_seq < end:
                page = await self._database.read(name, log_name, journal.last_seq, PAGE_LINES, SHIP_BYTES)
                if not page:
                    return forked
                try:
                    self._roster.fill_up(entry, log_name, [line.line.encode() for line in page])
                except OrchestratorError as error:
                    log.error(  # noqa: TRY400  (the traceback says no more)
                        "a log cannot be filled up from its mirror", agent=name, **error.as_dict()
                    )
                    return forked
        return None

    def forget(self, name: str) -> None:
        """The agent is no longer an own one."""
        self._mirrors.pop(name, None)
        self._behind.pop(name, None)
        self._unchecked.pop(name, None)

    def seen(self, entry: AgentEntry) -> None:
        """Records of an own agent have become visible."""
        if not entry.state.fleet:
            return
        name = fleet_id(entry.agent_id)
        mirror = self._mirrors.get(name)
        if mirror is None or not self._ahead(entry, mirror):
            return
        if name not in self._behind:
            mirror.since = self._roster.clock.monotonic()
            self._behind[name] = None
        self._urgent = self._urgent or entry.news_seq > mirror.outbox
        self._stirred.notify()

    @staticmethod
    def _ahead(entry: AgentEntry, mirror: _Mirror) -> bool:
        return entry.inbox.visible_seq > mirror.inbox or entry.outbox.visible_seq > mirror.outbox

    @property
    def unshipped(self) -> tuple[int, int]:
        """How many records are not in the mirrors yet, and about how many bytes they have."""
        records, size = 0, 0
        for name in self._behind:
            entry, mirror = own_entry(self._roster, name), self._mirrors.get(name)
            if entry is None or mirror is None:
                continue
            for journal, mirrored in ((entry.inbox, mirror.inbox), (entry.outbox, mirror.outbox)):
                end = journal.end()
                behind = journal.visible_seq - mirrored
                records += behind
                size += behind * end.offset // max(1, end.seq - end.segment + 1)
        return records, size

    async def shipped(self, entry: AgentEntry, seq: int, deadline: float) -> bool:
        """Whether the outbox record is in the mirror by ``deadline`` (monotonic); at once False without database."""
        name = fleet_id(entry.agent_id)

        def look() -> bool | None:
            mirror = self._mirrors.get(name)
            if mirror is not None and mirror.outbox >= seq:
                return True
            return False if self._lease.away or name in self._lease.fenced else None

        return bool(await wait_until(look, self._shipped, deadline, self._roster.clock))

    # -- the loop -----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        clock: Clock = self._roster.clock
        while True:
            await wait_until(lambda: True if self._behind else None, self._stirred, clock.monotonic() + 3600.0, clock)
            oldest = min(self._mirrors[name].since for name in self._behind)
            await wait_until(lambda: True if self._urgent else None, self._stirred, oldest + SHIP_WITHIN_S, clock)
            self._urgent = False
            try:
                await self._sync_due()
                await self._ship()
            except OrchestratorError as error:
                if not self._lease.away:
                    log.warning("records not shipped", **error.as_dict())
                await elapse(AGAIN_S, clock)
            except Exception:
                log.exception("bug while shipping")
                await elapse(AGAIN_S, clock)

    async def _sync_due(self) -> None:
        """Make durable what has waited long enough: deliveries and progress, of which no record syncs the log."""
        due_since = self._roster.clock.monotonic() - SHIP_WITHIN_S
        entries = [own_entry(self._roster, name) for name in self._behind if self._mirrors[name].since <= due_since]
        outboxes = [entry.outbox for entry in entries if entry is not None]
        await asyncio.gather(*(outbox.synced(outbox.visible_seq) for outbox in outboxes))

    async def _ship(self) -> None:
        parts = self._parts()
        if not parts:
            await elapse(SHIP_WITHIN_S, self._roster.clock)
            return
        failpoints.passed("fleet:ship:before")
        answers = await self._database.ship(parts)
        failpoints.passed("fleet:ship:after")
        homes: dict[str, list[str]] = {}
        for part, answer in zip(parts, answers, strict=True):
            self._answered(part, answer)
            own = self._lease.own.get(part.agent)
            if own is not None and answer.status == "stored" and own.home:
                homes.setdefault(own.home, []).append(part.agent)
        for home, names in homes.items():
            self._database.tell(home, "log", names)
        self._shipped.notify()

    def _answered(self, part: LogPart, answer: ShipAnswer) -> None:
        mirror, entry = self._mirrors.get(part.agent), own_entry(self._roster, part.agent)
        if mirror is None or entry is None:
            return
        if answer.status in ("fenced", "forked"):
            self._behind.pop(part.agent, None)
            self.held[part.agent] = None
            self._on_refused(part.agent, answer)
            return
        mirror.inbox, mirror.outbox = answer.in_seq, answer.out_seq
        self._roster.tell(entry)
        if not self._ahead(entry, mirror):
            self._behind.pop(part.agent, None)
            return
        self._urgent = self._urgent or entry.news_seq > mirror.outbox
        if entry.outbox.synced_seq <= mirror.outbox:  # the rest waits for a sync of its own
            mirror.since = self._roster.clock.monotonic()

    def _parts(self) -> list[LogPart]:
        """What one ship may carry, of the agents that have waited longest first."""
        parts: list[LogPart] = []
        records, size = SHIP_RECORDS, SHIP_BYTES
        for name in sorted(self._behind, key=lambda name: self._mirrors[name].since):
            entry, own = own_entry(self._roster, name), self._lease.own.get(name)
            if entry is None or own is None or name in self.held or name in self._unchecked:
                self._behind.pop(name, None)
                continue
            if records <= 0 or size <= 0:
                break
            mirror = self._mirrors[name]
            outbox, inbox = entry.outbox, entry.inbox
            # The inbox first, and all of it: the outbox speaks of its tasks.
            asked = _lines(inbox, mirror.inbox, records, size)
            size -= sum(len(line.line) for line in asked)
            records -= len(asked)
            complete = mirror.inbox + len(asked) >= inbox.visible_seq
            happened = _lines(outbox, mirror.outbox, records, size) if complete and records > 0 and size > 0 else ()
            size -= sum(len(line.line) for line in happened)
            records -= len(happened)
            if asked or happened:
                parts.append(LogPart(name, own.fence, entry.state.life, asked, happened))
        return parts


def _lines(journal: Journal, after: int, records: int, size: int) -> tuple[ShippedLine, ...]:
    """The next lines that are durable."""
    return tuple(
        ShippedLine(record["seq"], record["type"], record.get("task_id"), line.decode())
        for record, line in journal.raw_since(after, min(records, journal.synced_seq - after), size)
    )
