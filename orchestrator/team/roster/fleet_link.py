"""What the team asks of the fleet that its project belongs to; without a fleet the roster has no link.

The team imports nothing of the fleet: the daemon joins the two. Ids are those of this host (`Roster.agents`,
`Roster.replicas`); an id that neither has may be one of the fleet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from orchestrator.base.errors import OrchestratorError

if TYPE_CHECKING:
    from orchestrator.team.roster.agent_entry import AgentEntry


class FleetCreation(NamedTuple):
    """One agent to create on a host: ``host`` is a name or `any`; ``body`` is what its owner needs to launch it."""

    base: str
    host: str
    engine: str
    on_host_lost: str
    req: str
    body: Mapping[str, Any]


class FleetLink(Protocol):
    """The fleet as the team sees it. Calls raise the errors of the local calls, and NotReady ``fleet_away``."""

    host: str
    """Name of this host."""

    def serves(self, agent_id: str) -> bool:
        """Whether calls for this agent are posted: it is one of the fleet, or unknown here."""

    async def create(self, run_id: str, agents: Sequence[FleetCreation]) -> list[str | OrchestratorError]:
        """Create agents of an own run in one transaction; the id of each here, or its error."""

    async def created(self, agent_id: str, deadline: float) -> AgentEntry | None:
        """The entry of an agent that `create` named; None if it is not here at ``deadline`` (monotonic)."""

    def creating(self, run_id: str) -> bool:
        """Whether agents of that run were accepted that have no entry here yet."""

    async def enqueue(
        self, agent_id: str, *, task_id: str, payload: Any, req: str, timeout_s: float | None, title: str
    ) -> dict[str, Any]:
        """As `delivery.enqueue`."""

    async def cancel(self, agent_id: str, *, task_id: str, req: str) -> dict[str, Any]:
        """As `delivery.cancel`."""

    async def stop(self, agent_id: str, *, force: bool, req: str, reason: str = "") -> None:
        """Ask for the agent's end; no more tasks are accepted from now on."""

    async def restart(self, agent_id: str, *, fresh: bool, req: str) -> None:
        """Ask for a new launch of the agent."""

    async def reading(self, agent_id: str) -> AgentEntry:
        """An agent of the fleet that is neither own nor of a run of this home; BadRequest ``unknown_agent``."""

    async def ask(self, agent_id: str, verb: str, body: Any, wait_s: float) -> Any:
        """Ask the agent's owner something that only it can answer; NotReady ``host_away`` if it does not."""

    def holds(self, entry: AgentEntry) -> bool:
        """Whether nothing may be done with the own agent now, because it is not clear whose it is."""

    async def may_deliver(self, entry: AgentEntry) -> bool:
        """Whether this host still owns the agent, by a look that begins now; False: hand out nothing."""

    async def kept(self, entry: AgentEntry, seq: int) -> bool:
        """Whether the outbox record is safe from the loss of this host; waits a few seconds for that."""

    def mirrored(self, entry: AgentEntry) -> int:
        """Number of the last outbox record of an own agent that is known to be in its mirror; 0 if none is."""

    async def all_taken(self, entry: AgentEntry) -> bool:
        """Whether every accepted post of the agent was taken, so that it may be recorded as deleted."""

    def gen(self, run_id: str) -> int | None:
        """Which broadcast of the run this is: it begins anew with each new home; None for a run not in the fleet."""

    def check_cursor(self, run_id: str, since_seq: int, gen: int | None) -> None:
        """Raise Conflict ``not_home`` away from the run's home, ``cursor_old`` for a seq of another broadcast."""

    async def forget(self, agent_id: str) -> None:
        """Remove a deleted agent of a run of this home from the database; nothing at another host than its home."""

    def host_of(self, agent_id: str) -> str:
        """The host that owns the agent, or was asked to make it."""

    def run_of(self, agent_id: str) -> str:
        """The run of an agent that is known here."""

    def host_state(self, agent_id: str) -> str:
        """Why the agent's host does not act now (`away since …`); empty if it does."""
