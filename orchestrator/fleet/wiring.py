"""Wires the fleet into the daemon: the connection to its database and this host as a member. Imports psycopg.

The daemon imports this file only if `[fleet]` is set.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.base.platform import basic_facts
from orchestrator.config.keys import Config
from orchestrator.core.record_types import LOG_VERSION
from orchestrator.edge import project_location
from orchestrator.engines.table import ENGINES
from orchestrator.fleet.database_functions import HostFacts
from orchestrator.fleet.fleet_connection import FleetConnection
from orchestrator.fleet.host_requests import HostRequests
from orchestrator.fleet.host_verbs import verbs_of
from orchestrator.fleet.known_ends import KnownEnds
from orchestrator.fleet.member import FleetMember
from orchestrator.fleet.published_view import PublishedView
from orchestrator.fleet.settings import FleetSettings, settings_of
from orchestrator.protocol.offers import AdminMethods
from orchestrator.team.roster.roster import Roster
from orchestrator.team.wiring import TeamWiring
from orchestrator.team.worktrees import git


class FleetWiring:
    """The fleet of one daemon; ``config`` gives the configuration now."""

    def __init__(self, roster: Roster, team: TeamWiring, config: Callable[[], Config], run_dir: Path) -> None:
        self._roster = roster
        self._config = config
        self._read_from = config()
        here = settings_of(self._read_from)
        assert here is not None
        self._first = self._now = here
        self._connection = FleetConnection(here.dsn, here.project, here.host, roster.clock)
        self._repository: str | None = None
        self.member = FleetMember(
            self._connection,
            team.supervisor,
            self._settings,
            self._facts,
            verbs=verbs_of(roster, team, self._settings),
            view=PublishedView(roster, team.feed.whole, _engines),
            ends=KnownEnds(run_dir / project_location.FLEET_ENDS, basic_facts.boot_id()),
        )

    def _settings(self) -> FleetSettings:
        """The settings now; those of the start while `[fleet]` is not set any more."""
        config = self._config()
        if config is not self._read_from:
            self._now, self._read_from = settings_of(config) or self._first, config
        return self._now

    def _facts(self) -> HostFacts:
        roster, settings = self._roster, self._settings()
        identity = roster.paths.provenance.identity
        if self._repository is None:
            self._repository = _root_commit(roster)
        return HostFacts(
            instance=identity.id if identity is not None else "",
            boot=basic_facts.boot_id(),
            version=project_location.VERSION,
            log_v=LOG_VERSION,
            caps={"engines": _engines(), "places": settings.places},
            repository=self._repository,
        )

    def admin(self) -> AdminMethods:
        """Requests that only the command line makes."""
        return HostRequests(self.member, self._roster.clock, _engines).admin()

    async def begin(self) -> None:
        """Join the fleet, as far as its database answers."""
        await self.member.begin()

    def go_on(self) -> None:
        """Act from now on."""
        self.member.go_on()

    async def close(self) -> None:
        """Leave; the agents work on, and the next daemon goes on."""
        await self.member.close()
        await self._connection.close()

    def state(self) -> dict[str, Any]:
        """What `orchestrator status` and `fleet status` say of this host without asking the database."""
        lease, records = self.member.lease, self.member.shipping.unshipped
        trouble = lease.refused or lease.trouble
        return {
            "project": self.member.project,
            "host": self.member.host,
            "renewed_s": round(lease.age_s, 1) if lease.known else None,
            "away": lease.away,
            "unshipped": {"records": records[0], "bytes": records[1]},
            "trouble": trouble.as_dict() if trouble is not None else None,
        }


def _engines() -> list[str]:
    """The engines that can start here: tmux and their program are on this daemon's PATH.

    `command` is always there: each host's own table names its commands.
    """
    from shutil import which  # noqa: PLC0415

    if not which("tmux"):
        return []
    return sorted(name for name, engine in ENGINES.items() if not engine.program or which(engine.program))


def _root_commit(roster: Roster) -> str:
    """The first root commit of the project's repository; "" without one."""
    answer = git.run(roster.root, "rev-list", "--max-parents=0", "HEAD")
    return answer.out.decode("ascii", "replace").split()[-1] if not answer.code and answer.out.strip() else ""
