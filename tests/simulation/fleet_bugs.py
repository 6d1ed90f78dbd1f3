"""Bugs that are planted into a fleet, each a small patch: the simulation must find every one of them.

Some are of the database's functions, in the model; the others of the hosts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest import mock

from orchestrator.base.errors import OrchestratorError
from orchestrator.core import fleet_rules
from orchestrator.fleet import shipping
from orchestrator.fleet.fleet_agent_ids import fleet_id
from orchestrator.fleet.leases import Lease
from orchestrator.fleet.link import HostLink
from orchestrator.fleet.moves import Moves
from orchestrator.fleet.posting import Posting
from orchestrator.fleet.shipping import Shipping
from orchestrator.fleet.taking import Taking
from orchestrator.journal.log import Journal
from orchestrator.team.roster.roster import Roster
from tests.simulation.planted_bugs import Bug
from tests.support.fleet_rules import FleetRules
from tests.support.fleet_tables import FleetTables

# -- of the database ------------------------------------------------------------------------------------------------


def no_fence() -> AbstractContextManager[Any]:
    return mock.patch.object(FleetRules, "owns", lambda self, caller, agent, fence: True)


def number_by_sequence() -> AbstractContextManager[Any]:
    """A sequence counts also what was rolled back or is a repetition."""
    real = FleetTables.post
    drawn: dict[int, int] = {}

    def post(self: FleetTables, caller: Any, new: Any) -> Any:
        agent = self.project(caller).agents.get(new.agent)
        if agent is not None:
            last = max(agent.next_post, drawn.get(id(agent), 0))
            agent.next_post = last
            drawn[id(agent)] = last + 1
        return real(self, caller, new)

    return mock.patch.object(FleetTables, "post", post)


def move_before_the_lease_ends() -> AbstractContextManager[Any]:
    def expired(self: FleetRules, caller: Any, host: Any) -> bool:
        return host.lease_until is not None and (host.lease_until - caller.now).total_seconds() < 11.0

    hosts = mock.patch.object(FleetRules, "expired", expired)
    return _both(hosts, mock.patch("orchestrator.fleet.moves.LOST_AFTER_S", -11.0))


def takeover_right_after_an_outage() -> AbstractContextManager[Any]:
    return mock.patch.object(FleetRules, "unbroken", lambda self, caller, host: True)


def gap_shipped() -> AbstractContextManager[Any]:
    """The owner takes what it has sent for stored, whatever the answer, and the database looks at no gap."""
    ship, first_misfit = Shipping._ship, FleetRules.first_misfit

    async def sent(self: Shipping) -> None:
        parts = self._parts()
        try:
            await ship(self)
        except OrchestratorError:
            for part in parts:
                mirror = self._mirrors[part.agent]
                mirror.inbox += len(part.inbox)
                mirror.outbox += len(part.outbox)
            raise

    def fits(self: FleetRules, agent: Any, log: str, lines: Any) -> str:
        return "" if lines and lines[0].seq > agent.end(log) else first_misfit(self, agent, log, lines)

    return _both(
        mock.patch.object(Shipping, "_ship", sent),
        mock.patch.object(FleetRules, "first_misfit", fits),
    )


def restore_that_reuses_numbers() -> AbstractContextManager[Any]:
    return mock.patch.object(FleetRules, "numbers_after_restore", lambda self, now: None)


def another_line_is_accepted() -> AbstractContextManager[Any]:
    """A record that the mirror has in another form is taken for a repetition."""

    def fits(self: FleetRules, agent: Any, log: str, lines: Any) -> str:
        if not lines or lines[0].seq == agent.end(log) + 1:
            return ""
        return "gap"

    return _both(
        mock.patch.object(FleetRules, "first_misfit", fits),
        mock.patch.object(Shipping, "compare_new", _learn_only),
    )


async def _learn_only(self: Shipping, beat: Any) -> None:
    for row in beat.own:
        self._mirrors.setdefault(row.agent, shipping._Mirror(row.in_seq, row.out_seq))


# -- of the hosts ---------------------------------------------------------------------------------------------------


def news_are_trusted() -> AbstractContextManager[Any]:
    """No look at what a renewal shows to be due: a lost notification is never made up for."""
    real = Taking.look
    return mock.patch.object(
        Taking, "look", lambda self, names=None: real(self, names) if names is not None else None
    )


def fence_by_timer() -> AbstractContextManager[Any]:
    """A timer forbids to act once the renewal is old: a process that was stopped acts before its timers run."""
    real = Lease.renew

    async def renew(self: Lease, *, fresh: bool) -> Any:
        beat = await real(self, fresh=fresh)
        self._expired = False
        if getattr(self, "_timer", None) is not None:
            self._timer.cancel()
        self._timer = self._clock.timer(fleet_rules.SUSPEND_AFTER_S, lambda: setattr(self, "_expired", True))
        return beat

    def may_act(self: Lease, name: str, *, moves: bool) -> bool:
        return not (moves and getattr(self, "_expired", True)) and name not in self.fenced

    return _both(
        mock.patch.object(Lease, "renew", renew),
        mock.patch.object(Lease, "may_act", may_act),
    )


def lease_counted_from_the_answer() -> AbstractContextManager[Any]:
    real = Lease.renew

    async def renew(self: Lease, *, fresh: bool) -> Any:
        beat = await real(self, fresh=fresh)
        self._renewed_at = self._clock.awake()
        return beat

    return mock.patch.object(Lease, "renew", renew)


def old_owner_goes_on_after_a_stop() -> AbstractContextManager[Any]:
    """Neither the lease nor the fence is looked at before a delivery."""

    async def may_deliver(self: HostLink, entry: Any) -> bool:
        return True

    return mock.patch.object(HostLink, "may_deliver", may_deliver)


def delivered_after_a_look_that_began_before() -> AbstractContextManager[Any]:
    """The lease is asked before the look at the fence, and not again after it."""
    real = HostLink.may_deliver

    async def may_deliver(self: HostLink, entry: Any) -> bool:
        moves = entry.state.fleet.get("on_host_lost") == "move"
        if not moves or not self._lease.may_act(fleet_id(entry.agent_id), moves=moves):
            return await real(self, entry)
        deadline = self._roster.clock.monotonic() + 5.0
        if not await self._shipping.shipped(entry, entry.last_news, deadline):
            return False
        name = fleet_id(entry.agent_id)
        with contextlib.suppress(OrchestratorError):
            owner, own = (await self._database.ownership([name])).get(name), self._lease.own.get(name)
            return owner is not None and own is not None and (owner.host, owner.fence) == (self.host, own.fence)
        return False

    return mock.patch.object(HostLink, "may_deliver", may_deliver)


def look_then_insert() -> AbstractContextManager[Any]:
    """After a lost answer the caller looks whether its post is there, and if it sees none sends a new one."""
    real = Posting._post
    count = itertools.count()

    async def post(self: Posting, new: Any, **more: Any) -> Any:
        return await real(self, dataclasses.replace(new, req=f"{new.req}/{next(count)}"), **more)

    return mock.patch.object(Posting, "_post", post)


def no_assumed_delivery() -> AbstractContextManager[Any]:
    real = fleet_rules.moved

    def moved(agent: Any, **more: Any) -> Any:
        return [draft for draft in real(agent, **more) if draft.type != "delivered"]

    return mock.patch.object(fleet_rules, "moved", moved)


def visible_before_sync() -> AbstractContextManager[Any]:
    return mock.patch.object(Journal, "_shown", property(lambda self: self._written))


def posts_are_not_taken_before_a_move_is_recorded() -> AbstractContextManager[Any]:
    """What the lost owner may have handed out, and could not ship, is not in the new owner's queue."""
    real = Moves._take_over

    async def take_over(self: Moves, row: Any) -> None:
        async def take(names: list[str]) -> None:
            pass

        self._taking.take = take  # type: ignore[method-assign]
        try:
            await real(self, row)
        finally:
            del self._taking.take

    return mock.patch.object(Moves, "_take_over", take_over)


def shipped_before_it_is_durable() -> AbstractContextManager[Any]:
    return _both(
        mock.patch.object(Journal, "synced_seq", property(lambda self: self.visible_seq)),
        mock.patch.object(Shipping, "compare_new", _learn_only),
    )


def final_before_it_is_in_the_mirror() -> AbstractContextManager[Any]:
    async def kept(self: HostLink, entry: Any, seq: int) -> bool:
        return True

    return mock.patch.object(HostLink, "kept", kept)


def told_before_it_is_in_the_mirror() -> AbstractContextManager[Any]:
    return mock.patch.object(Roster, "_is_uncertain", staticmethod(lambda entry: False))


def made_anew_from_its_post() -> AbstractContextManager[Any]:
    real = Taking._create

    async def create(self: Taking, posts: Any) -> None:
        own = self._lease.own
        self._lease.own = {name: row._replace(out_seq=0) for name, row in own.items()}
        try:
            await real(self, posts)
        finally:
            self._lease.own = own

    return mock.patch.object(Taking, "_create", create)


def fence_is_not_raised() -> AbstractContextManager[Any]:
    """A move gives the agent to another host under the same fence."""
    real = FleetTables.move

    def move(self: FleetTables, caller: Any, dead: str) -> Any:
        moved = real(self, caller, dead)
        for row in moved:
            self.project(caller).agents[row.agent].fence -= 1
        return [row._replace(fence=row.fence - 1) for row in moved]

    return mock.patch.object(FleetTables, "move", move)


def _both(*patches: AbstractContextManager[Any]) -> AbstractContextManager[Any]:
    stack = ExitStack()
    for patch in patches:
        stack.enter_context(patch)
    return stack


FLEET_BUGS: dict[str, Bug] = {
    bug.__name__: bug
    for bug in (
        no_fence, number_by_sequence, move_before_the_lease_ends, takeover_right_after_an_outage, gap_shipped,
        restore_that_reuses_numbers, another_line_is_accepted, news_are_trusted, fence_by_timer,
        lease_counted_from_the_answer, old_owner_goes_on_after_a_stop, delivered_after_a_look_that_began_before,
        look_then_insert, no_assumed_delivery, visible_before_sync,
        posts_are_not_taken_before_a_move_is_recorded, shipped_before_it_is_durable, final_before_it_is_in_the_mirror,
        told_before_it_is_in_the_mirror, made_anew_from_its_post, fence_is_not_raised,
    )
}  # fmt: skip

RARELY_FOUND = frozenset(
    {
        "another_line_is_accepted", "made_anew_from_its_post", "restore_that_reuses_numbers",
        "shipped_before_it_is_durable",
    }
)  # fmt: skip
"""Found by one seed in many; each of the others by one of the first twenty."""
