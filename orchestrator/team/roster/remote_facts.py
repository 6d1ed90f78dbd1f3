"""What is known here of an agent that another host owns, besides its mirrored records; and its status from both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.base.final_states import FINAL_LIVES
from orchestrator.core import agent_status, state

SHOWN_BY_PRESENCE = ("idle", "parked", "unknown")
"""Statuses that no record shows."""
UNTIL_A_CALL = ("starting", "busy", "blocked", "stalled")
"""Statuses that end with a call of the agent's CLI."""


@dataclass
class RemoteFacts:
    """What is known here of an agent that another host owns, besides its records.

    ``row`` is the row of its owner's snapshot, ``items`` those of its inbox, as last published.
    """

    host: str
    run_id: str
    away_since: str = ""  # RFC 3339; "" while its host renews its lease
    row: Mapping[str, Any] = field(default_factory=dict)
    items: Sequence[Mapping[str, Any]] = ()

    def status(self, agent: state.Agent) -> tuple[str, str]:
        """The status and its reason; `unknown` while its host is away, for nobody can see the agent."""
        if agent.life in FINAL_LIVES:
            return agent_status.status(agent, agent_status.Presence())
        if self.away_since:
            return "unknown", f"host {self.host} is away since {self.away_since}"
        by_records = agent_status.status(agent, agent_status.Presence())
        if by_records[0] != "unknown" or not self.row or self.row.get("epoch") != agent.epoch:
            return by_records
        # Where the records do not show what it does, its owner does; unless they are newer than what that published.
        shown = str(self.row["status"])
        if shown in UNTIL_A_CALL:  # a live host publishes every change within seconds, so the call was just now
            return "idle", "between two calls"
        if shown not in SHOWN_BY_PRESENCE:
            return "unknown", f"host {self.host} has not reported what it does now"
        return shown, str(self.row.get("reason", ""))
