"""Requests of the command line about the fleet: its hosts, how long one takes to answer, the home of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchestrator.base.clock import Clock
from orchestrator.base.errors import BadRequest
from orchestrator.base.waiting import wait_until
from orchestrator.fleet.database_functions import HostRow
from orchestrator.fleet.member import FleetMember
from orchestrator.protocol.offers import AdminMethods

RENEWED_S = 2.0
PING_S = 15.0
"""Longest time that another host may take for an answer."""


class HostRequests:
    """What the command line asks one host of the fleet."""

    def __init__(self, member: FleetMember, clock: Clock, engines: Callable[[], list[str]]) -> None:
        self._member = member
        self._clock = clock
        self._engines = engines

    def admin(self) -> AdminMethods:
        """The requests by name."""
        return {"fleet_hosts": self._hosts, "fleet_ping": self._ping, "fleet_take_run": self._take_run}

    async def _hosts(self) -> dict[str, Any]:
        """The hosts as a renewal of now shows them; while the database is away, as the last one did."""
        member, begin = self._member, self._clock.awake()
        member.lease.renew_soon()
        await wait_until(
            lambda: True if member.lease.age_s < self._clock.awake() - begin else None,
            member.lease.renewed,
            self._clock.monotonic() + RENEWED_S,
            self._clock,
        )
        rows = [
            {
                "host": row.host,
                "state": state_word(row, member.hosts.away_since(row.host)),
                "away_since": member.hosts.away_since(row.host) or None,
                "lease_left_s": row.lease_left_s,
                "places": row.places,
                "agents": row.agents,
                "version": row.version,
                "engines": self._engines()
                if row.host == member.host
                else member.hosts.view_of(row.host).get("engines"),
                "draining": row.draining,
                "lost": row.lost,
            }
            for row in member.hosts.rows.values()
        ]
        return {"project": member.project, "host": member.host, "hosts": rows}

    async def _ping(self, *, host: str) -> dict[str, Any]:
        """The way to a host and back, through the database: ``{host, round_trip_ms}``."""
        clock = self._clock
        if host not in self._member.hosts.rows:
            raise BadRequest("host_unknown", f"the fleet has no host {host!r}")
        begin = clock.monotonic()
        answer = await self._member.calls.ask(host, "ping", {}, PING_S)
        return {"round_trip_ms": round((clock.monotonic() - begin) * 1000, 1), "host": host, **answer}

    async def _take_run(self, *, run_id: str) -> dict[str, Any]:
        """Make this host the home of a run."""
        return await self._member.homes.take(run_id)


def state_word(row: HostRow, away_since: str) -> str:
    """The state of a host in one or two words."""
    if row.lost:
        return "lost"
    if row.lease_left_s is None:
        return "never joined"
    if row.lease_left_s <= 0:
        return f"away since {away_since}" if away_since else "away"
    return "draining" if row.draining else "live"
