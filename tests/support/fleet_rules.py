"""The rules that the functions of the model's database obey, each a method of its own: a test plants a bug in one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from orchestrator.base.errors import BadRequest
from orchestrator.fleet import database_functions as functions
from tests.support.fleet_rows import Agent, Host, Project

SCHEMA = 1
NUMBERS_SKIPPED = 1_000_000
"""By how much every queue's number is raised once the database was restored or failed over."""
GAP_S = 5.0
"""Longest time between two renewals that counts as unbroken."""
ENDED_LIVES = ("failed", "stopped", "deleted")


class Caller(NamedTuple):
    """Who calls, and when by the clock of the database."""

    project: str
    host: str
    now: datetime


def microseconds(when: datetime) -> int:
    """Since the epoch."""
    return (when - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)


def as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class FleetRules:
    """All projects of one database."""

    def __init__(self) -> None:
        self.projects: dict[str, Project] = {}
        self.schema = SCHEMA
        self.incarnation = "00000000-0000-4000-8000-000000000001"
        self.timeline = 1
        self.numbered = (self.incarnation, self.timeline)
        self.next_ask = 1

    # -- rules ---------------------------------------------------------------------------------------------------

    def next_number(self, agent: Agent) -> int:
        """The number of the next post: one after the last."""
        return agent.next_post + 1

    def owns(self, caller: Caller, agent: Agent, fence: int) -> bool:
        """Whether what this host ships under this fence may be stored."""
        return agent.host == caller.host and agent.fence == fence

    def expired(self, caller: Caller, host: Host) -> bool:
        """Whether a host may be declared lost."""
        until = host.lease_until
        return until is not None and until + timedelta(seconds=functions.LOST_AFTER_S) < caller.now

    def gap(self, caller: Caller, host: Host) -> bool:
        """Whether a renewal that comes now is not an unbroken one: the last was more than `GAP_S` ago."""
        until = host.lease_until
        return until is None or until < caller.now + timedelta(seconds=functions.LEASE_S - GAP_S)

    def unbroken(self, caller: Caller, host: Host) -> bool:
        """Whether a host may declare another one lost."""
        since = host.unbroken_since
        long = since is not None and caller.now - since >= timedelta(seconds=functions.UNBROKEN_S)
        return long and self.lives(caller, host)

    def first_misfit(self, agent: Agent, log: str, lines: Sequence[functions.ShippedLine]) -> str:
        """Why new lines of one log cannot be stored: `gap` or `forked`; "" if they can."""
        if not lines or lines[0].seq == agent.end(log) + 1:
            return ""
        known = {row.seq: row.line for row in agent.logs[log]}
        if any(known.get(row.seq, row.line) != row.line for row in lines):
            return "forked"
        return "gap"

    def numbers_after_restore(self, now: datetime) -> None:
        """Raise every queue's number, so that no number of any lost part is used again."""
        for project in self.projects.values():
            for agent in project.agents.values():
                agent.next_post = max(agent.next_post + NUMBERS_SKIPPED, microseconds(now))

    # -- lookups -------------------------------------------------------------------------------------------------

    def project(self, caller: Caller) -> Project:
        """The project of the caller; BadRequest ``host_unknown`` if the database has no such host."""
        project = self.projects.get(caller.project)
        if project is None or caller.host not in project.hosts:
            raise BadRequest("host_unknown", f"no host {caller.host} in {caller.project}")
        if self.numbered != (self.incarnation, self.timeline):
            self.numbered = (self.incarnation, self.timeline)
            self.numbers_after_restore(caller.now)
        return project

    def lives(self, caller: Caller, host: Host) -> bool:
        return host.lease_until is not None and host.lease_until > caller.now

    def live_agents(self, project: Project, name: str) -> int:
        return sum(agent.host == name and agent.life not in ENDED_LIVES for agent in project.agents.values())

    def most_free(self, caller: Caller, fits: Callable[[Host], bool]) -> str | None:
        """The live host with most free places, at least one; of several the first by name."""
        project = self.projects[caller.project]
        free = [
            (self.live_agents(project, name) - int(host.caps.get("places", 0)), name)
            for name, host in project.hosts.items()
            if self.lives(caller, host) and not host.draining and not host.lost and fits(host)
        ]
        used, name = min(free, default=(0, ""))
        return name if used < 0 else None
