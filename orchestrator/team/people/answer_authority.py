"""Who may answer what agents ask: a human, or a master whose user allows it, and never for itself.

Judged at the time of each answer, from the process that the kernel has named as the peer of the connection. Looks
at processes and reads the files of this boot; what a client says of itself counts for nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from orchestrator.base.errors import BadRequest
from orchestrator.base.platform.ancestry import AncestorLine, lines_of
from orchestrator.protocol.tool_calls import Client
from orchestrator.team.people.answer_words import Answerer
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster
from orchestrator.trust.human_origin import UNKNOWN, HumanOrigin, human_origin
from orchestrator.trust.origin import KnownProcesses
from orchestrator.trust.relay_holders import KnownHolders, RelayHolders
from orchestrator.trust.state_dir import StateDirUnsafe

log = structlog.get_logger()


class AnswerAuthority:
    """The judge of one daemon. ``launches`` are the agents and members of this user."""

    def __init__(self, roster: Roster, launches: Callable[[], KnownProcesses]) -> None:
        self._roster = roster
        self._launches = launches
        self._holders = RelayHolders()

    def came(self, client: Client) -> None:
        """A connection has come: what holds a relay now counts as a master, also once that relay has ended."""
        if client.kind != "relay" or client.rights not in ("master", "reader") or not client.peer:
            return
        try:
            self._holders.record(client.peer)
        except (OSError, StateDirUnsafe) as error:
            log.warning("the holder of a relay is not recorded for other daemons", error=str(error))

    async def answerer(self, client: Client, face: str, user: str, entry: AgentEntry | None) -> Answerer:
        """As whom this connection answers an item of the agent, None for one that is not known.

        BadRequest ``not_allowed_to_answer`` for everybody but a human and, where the user's own configuration has
        ``approvals_master``, a master.
        """
        origin = await self.origin(client)
        if origin.kind == "human":
            return Answerer(face, user)
        if origin.kind == "master":
            self._insist_on_master(origin, entry)
            return Answerer(face, user, "master")
        if origin.kind == "inside":
            raise _refusal("this process runs in an agent or a squad member")
        raise _refusal("nothing proves that this process was not started by an AI CLI")

    async def human(self, client: Client) -> None:
        """Insist on a human, also where a master may answer. BadRequest ``not_allowed_to_answer``."""
        if (await self.origin(client)).kind != "human":
            raise _refusal("only a human may do this")

    async def may_answer(self, client: Client) -> bool:
        """Whether this connection may answer anything now."""
        kind = (await self.origin(client)).kind
        return kind == "human" or (kind == "master" and self._roster.config().approvals_master)

    async def origin(self, client: Client) -> HumanOrigin:
        """Where the process of the connection comes from, as it is now."""
        if client.rights != "master" or not client.peer_start:
            return UNKNOWN
        lines, holders = await asyncio.to_thread(self._look, client.peer)
        if not lines or lines[0].processes[0].start != client.peer_start:
            return UNKNOWN  # the process that connected has ended, and something else has its connection
        return human_origin(lines, self._launches(), holders)

    def _look(self, pid: int) -> tuple[tuple[AncestorLine, ...], KnownHolders]:
        try:
            return lines_of(pid), self._holders.known()
        except OSError:  # no descriptor is left, or no process can be seen: nothing is proven
            return (), KnownHolders()

    def _insist_on_master(self, origin: HumanOrigin, entry: AgentEntry | None) -> None:
        pid = min(pid for pid, _ in origin.holders)
        if not self._roster.config().approvals_master:
            raise _refusal(f"this process runs below process {pid}, an AI CLI that uses orchestrator")
        if entry is not None and entry.pid in {pid for pid, _ in origin.holders}:
            raise _refusal(f"process {pid} may not answer for itself")


def _refusal(message: str) -> BadRequest:
    return BadRequest("not_allowed_to_answer", message)
