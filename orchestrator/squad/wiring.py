"""Wire the squads into the daemon: the service, the roles, the panes that show members, and each connection's tools.

Only this file connects squads with the team: the squads get the team's `MemberPanes` as a callable.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.toolsets import SQUAD
from orchestrator.edge import project_location
from orchestrator.protocol.offers import AdminMethods, Offer
from orchestrator.protocol.tool_calls import Client
from orchestrator.roles.catalogue import BrokenRole
from orchestrator.roles.library import RoleLibrary
from orchestrator.squad import tools as squad_tools
from orchestrator.squad.member_watch import Show, WatchedProcess
from orchestrator.squad.squads import Squads
from orchestrator.team.panes.member_panes import MemberPanes
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.team.roster.roster import Roster

log = structlog.get_logger()
SWEEP_S = 60.0


class SquadWiring:
    """Squads of one daemon, from its start to its end."""

    def __init__(self, roster: Roster, team_panes: TeamPanes) -> None:
        self.squads = Squads(roster.paths, roster.clock, roster.config, roster.begin_writing, roster.temporary)
        self.library = RoleLibrary(roster.root)
        self._member_panes = MemberPanes(roster, team_panes)
        offer = squad_tools.SquadToolDeps(self.squads, self.library, roster.config, self._show, roster.withheld)
        self._tools = {mode: squad_tools.build(offer, mode) for mode in squad_tools.MODES}
        self._swept = time.monotonic()
        self._tasks = BackgroundTasks()

    @property
    def active(self) -> int:
        """How many squads are running."""
        return self.squads.active

    def offer(self, client: Client) -> Offer:
        """The toolset in the mode of this connection, if the connection has it."""
        if SQUAD not in client.toolsets:
            return Offer()
        return Offer(self._tools[squad_tools.mode_of(client)], squad_tools.INSTRUCTIONS)

    def admin(self) -> AdminMethods:
        """Requests that only the command line makes."""
        return {"squads": self._list, "squad_cancel": self._cancel}

    async def begin(self) -> None:
        """Take over what an earlier daemon left."""
        await self.squads.recover()
        await self._member_panes.sweep(())

    def follow_roles(self) -> None:
        """Follow the files of roles, which serves only the log."""
        self._tasks.start(self.library.watch(_say_broken))

    def look_around(self) -> None:
        """Now and then: forget what has been kept long enough."""
        if time.monotonic() - self._swept > SWEEP_S:
            self._swept = time.monotonic()
            self._tasks.start(self.squads.sweep())

    async def close(self) -> None:
        """End every member, for the daemon ends."""
        self._tasks.cancel()
        await self.squads.close()

    def _show(self, client: Client) -> Show:
        """What shows members of this client's squads in panes of its window."""

        async def show(seen: WatchedProcess) -> Callable[[], Awaitable[None]]:
            words = project_location.own_command("show", "--pid", str(seen.pid), "--start", str(seen.start))
            argv = [*words, *map(str, seen.outputs)]
            pane = await self._member_panes.show(client.origin, seen.title, seen.member_id, argv)

            async def hide() -> None:
                if pane is not None:
                    await self._member_panes.hide(pane, seen.member_id)

            return hide

        return show

    async def _list(self) -> dict[str, Any]:
        return {"squads": self.squads.listed()}

    async def _cancel(self, *, squad_id: str) -> dict[str, Any]:
        self.squads.cancel(str(squad_id))
        return {"ok": True}


def _say_broken(broken: BrokenRole) -> None:
    log.warning("a role's file cannot be used", file=broken.file, reason=broken.reason)
