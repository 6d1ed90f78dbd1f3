"""The features of one daemon, joined: their begin and end, and what each connection gets of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from orchestrator.base.errors import Environment
from orchestrator.base.toolsets import GSD
from orchestrator.config.file_watch import ConfigState
from orchestrator.gsd.wiring import GsdWiring
from orchestrator.project_trust.trust_requests import TrustRequests
from orchestrator.protocol.offers import AdminMethods, Offer
from orchestrator.protocol.tool_calls import Client
from orchestrator.spawn.wiring import SpawnWiring
from orchestrator.squad.wiring import SquadWiring
from orchestrator.team import agent_toolsets
from orchestrator.team.roster.roster import Roster
from orchestrator.team.wake.masters import MasterConnection
from orchestrator.team.wiring import TeamWiring
from orchestrator.trust.origin import KnownProcesses

if TYPE_CHECKING:
    from orchestrator.fleet.wiring import FleetWiring

log = structlog.get_logger()


class Features:
    """Team, squads, spawn runs, project intelligence and trust. ``clients`` are the connections now.

    ``launches`` are the agents and members of this user.
    """

    def __init__(
        self,
        roster: Roster,
        state: ConfigState,
        clients: Callable[[], Collection[Client]],
        log_file: str,
        *,
        boot: str,
        launches: Callable[[], KnownProcesses],
    ) -> None:
        self._clients = clients
        self._temporary = roster.temporary
        self.team = TeamWiring(roster, self._masters, boot, launches)
        self.squads = SquadWiring(roster, self.team.panes)
        self.spawn = SpawnWiring(roster, self.squads.squads, self.squads.library)
        self.team.feed.runs = lambda: [*self.spawn.people_rows(), *self.squads.squads.people_rows()]
        self.team.inbox.dismiss_run = self.spawn.dismiss_budget
        self.gsd = GsdWiring(log_file)
        self.trust = TrustRequests(roster, state, clients, (self.team.adoption, self.spawn), self.team.authority)
        self._roster, self._state = roster, state
        self._run_dir = Path(log_file).parent
        self.fleet: FleetWiring | None = None
        self.fleet_trouble: Environment | None = None
        self.queries: agent_toolsets.Offered = {GSD: self.gsd.tools}  # read-only toolsets that a role may give

    @property
    def at_work(self) -> bool:
        """Whether something needs this daemon also without a connection."""
        return self.team.live_agents > 0 or self.squads.active > 0 or self.spawn.active > 0

    async def begin(self, *, clean: bool) -> None:
        """Take over what an earlier daemon left; ``clean`` says that it ended properly."""
        await self._join_fleet()
        await self.team.begin(clean=clean)
        if self.fleet is not None:
            self.fleet.go_on()
        await self.squads.begin()
        self.spawn.begin()
        self._temporary.remove_leftovers()  # now that agents and members have named theirs

    async def _join_fleet(self) -> None:
        """Become a host of the fleet, if `[fleet]` is set; nothing of it is loaded otherwise."""
        if self._state.current.config.in_fleet:
            try:
                from orchestrator.fleet.wiring import FleetWiring  # noqa: PLC0415  (loads psycopg)
            except ImportError as error:
                self.fleet_trouble = Environment("fleet_driver", f"[fleet] is set, and a package is missing: {error}")
                log.error("this daemon is in no fleet", **self.fleet_trouble.as_dict())  # noqa: TRY400  (no bug)
                return
            self.fleet = FleetWiring(self._roster, self.team, lambda: self._state.current.config, self._run_dir)
            await self.fleet.begin()

    def fleet_state(self) -> dict[str, Any] | None:
        """What this host is in its fleet; None without one."""
        if self.fleet_trouble is not None:
            return {"trouble": self.fleet_trouble.as_dict()}
        return self.fleet.state() if self.fleet is not None else None

    async def follow_up(self, *, clean: bool) -> None:
        """What the begin leaves undone because no caller waits for it."""
        self.squads.follow_roles()
        await self.team.follow_up(clean=clean)

    def look_around(self) -> None:
        """Now and then: give back what nobody needs any longer."""
        self.squads.look_around()
        self.gsd.look_around()

    async def close(self) -> None:
        """End them, for the daemon ends; agents live on, and spawn runs wait for the next daemon."""
        self._temporary.close()
        await self.gsd.close()
        await self.spawn.close()
        await self.squads.close()
        if self.fleet is not None:
            await self.fleet.close()
        await self.team.close()

    def offers(self, client: Client) -> list[Offer]:
        """What a connection with these rights gets."""
        if client.rights == "agent":
            return [self.team.agent_offer(client, self.queries)]
        if client.rights == "refused":
            return [Offer(prompts=self.team.agent_prompts(client))]
        if set(client.toolsets) == {GSD}:  # it is a server of its own to such a connection
            return [self.gsd.offer(client)]
        offers = [self.team.offer(client), self.squads.offer(client), self.spawn.offer(client)]
        return [*offers, self.gsd.offer(client)] if GSD in client.toolsets else offers

    def admin(self, client: Client) -> AdminMethods:
        """Requests that only the command line makes."""
        return {
            **self.team.admin(client),
            **self.squads.admin(),
            **self.spawn.admin(client),
            **self.trust.admin(client),
            **(self.fleet.admin() if self.fleet is not None else {}),
        }

    def came(self, client: Client) -> None:
        """A connection has come."""
        self.team.came(client)
        self.trust.came(client)

    def part(self, client: Client) -> None:
        """A connection has ended."""
        self.team.part(client)
        self.spawn.part(client)
        self.gsd.part(client)

    def _masters(self) -> list[MasterConnection]:
        return [MasterConnection(client.name, client.origin) for client in self._clients() if client.origin.leads]
