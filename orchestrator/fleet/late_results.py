"""Records at the owner how tasks ended on a former owner that returned: as late, and never as the outcome.

A host that returns sends what it could not ship into the database (`Moves`). The owner reads the new lines after each
renewal that shows some. They are text that any host may have sent: `fleet_rules.late_end` decides what is recorded.
"""

from __future__ import annotations

import orjson
import structlog

from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import BadRequest
from orchestrator.base.final_states import TERMINAL
from orchestrator.core import fleet_rules
from orchestrator.core.fleet_rules import LateEnd
from orchestrator.fleet.database_functions import SHIP_BYTES, Beat, FleetDatabase, KeptLateLine
from orchestrator.fleet.due_names import DueNames
from orchestrator.fleet.fleet_agent_ids import own_entry
from orchestrator.fleet.leases import Lease
from orchestrator.team.roster.roster import Roster, payload_bytes

log = structlog.get_logger()

PAGE_LINES = 100
PAGE_BYTES = 2 * SHIP_BYTES
"""Limits of one read; a line that is longer than all of it is passed over."""


class LateResults:
    """The late lines of one host's agents."""

    def __init__(self, database: FleetDatabase, roster: Roster, lease: Lease) -> None:
        self._database = database
        self._roster = roster
        self._lease = lease
        self._read: dict[str, int] = {}  # number of the last late line that was read since the daemon started
        self._due = DueNames(self._read_all, "reading late results", roster.clock)

    def begin(self) -> None:
        """Read from now on."""
        self._due.begin()

    async def close(self) -> None:
        """Stop; the next daemon reads all lines again, and records none twice."""
        await self._due.close()

    def beaten(self, _beat: Beat) -> None:
        """See which own agents have late lines that were not read."""
        self._read = {name: n for name, n in self._read.items() if name in self._lease.own}
        for name, row in self._lease.own.items():
            if row.late < self._read.get(name, 0):
                self._read[name] = 0  # the database was restored: its numbers begin again
        own = self._lease.own.items()
        self._due.add([name for name, row in own if row.late > self._read.get(name, 0)])

    async def _read_all(self, names: list[str]) -> None:
        for name in names:
            await self._read_new(name)

    async def _read_new(self, name: str) -> None:
        """Read the late lines of an agent to their end; not while it is unclear whose it is."""
        while name in self._lease.own and name not in self._lease.fenced:
            after = self._read.get(name, 0)
            lines = await self._database.late_lines(name, after, PAGE_LINES, PAGE_BYTES)
            if not lines:
                return
            for line in lines:
                await self._record(name, line)
            self._read[name] = lines[-1].n

    async def _record(self, name: str, line: KeptLateLine) -> None:
        end = end_of(line, self._roster.config().max_payload_bytes)
        entry, own = own_entry(self._roster, name), self._lease.own.get(name)
        if end is None or entry is None or own is None or name in self._lease.fenced:
            return
        drafts = fleet_rules.late_end(
            entry.state,
            end,
            fence=own.fence,
            visible_inbox=entry.inbox.visible_seq,
            at=rfc3339(self._roster.clock.now()),
        )
        if drafts:
            log.warning(
                "a task ended too late on a former host", agent=entry.agent_id, task=end.task_id, host=end.host
            )
            await self._roster.commit(entry, drafts)


def end_of(line: KeptLateLine, max_payload_bytes: int) -> LateEnd | None:
    """The end of a task that a late line reports; None for any other line, and for a damaged one."""
    if line.log != "outbox":
        return None
    try:
        record = orjson.loads(line.line)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(record, dict):
        return None
    kind, task_id, payload, left_out = record.get("type"), record.get("task_id"), record.get("payload"), ""
    if not isinstance(kind, str) or kind not in TERMINAL or not isinstance(task_id, str):
        return None
    if payload is not None:
        try:
            payload_bytes(payload, max_payload_bytes)
        except BadRequest as error:
            payload, left_out = None, f"its payload is left out: {error.message}"
    return LateEnd(line.fence, line.by_host, task_id, kind, payload, left_out)
