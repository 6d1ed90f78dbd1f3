"""The hosts of the fleet as the last renewal showed them: which are away, and what each publishes of its agents."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from orchestrator.base.clock import Clock, rfc3339
from orchestrator.fleet.database_functions import LEASE_S, Beat, HostRow


class KnownHosts:
    """The hosts of a fleet, learnt with each renewal."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.rows: dict[str, HostRow] = {}
        self.views: dict[str, Any] = {}
        self.view_numbers: dict[str, int] = {}
        self._away: dict[str, str] = {}

    def beaten(self, beat: Beat) -> None:
        """Learn the hosts' leases and what they have published since."""
        self.rows = {row.host: row for row in beat.hosts}
        for row in beat.hosts:
            if row.lease_left_s is not None and row.lease_left_s > 0:
                self._away.pop(row.host, None)
            elif row.host not in self._away:
                silent_s = LEASE_S - (row.lease_left_s if row.lease_left_s is not None else LEASE_S)
                self._away[row.host] = rfc3339(self._clock.now() - timedelta(seconds=silent_s))
        for view in beat.views:
            self.views[view.host], self.view_numbers[view.host] = view.view, view.n

    def away_since(self, host: str) -> str:
        """When the host's last renewal was (RFC 3339), if its lease has expired; "" if it lives."""
        return self._away.get(host, "")

    def view_of(self, host: str) -> Mapping[str, Any]:
        """What the host last published."""
        view = self.views.get(host)
        return view if isinstance(view, dict) else {}
