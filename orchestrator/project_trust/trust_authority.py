"""Who may give trust: a human at a terminal, and nothing that an AI CLI has started. Changes nothing.

The same look is taken by the command line, for its own process, and by the daemon, for the process that the system
names as its peer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from orchestrator.base.errors import BadRequest
from orchestrator.base.platform import process_facts
from orchestrator.base.platform.process_facts import ProcessKey
from orchestrator.base.platform.processes import environ_of
from orchestrator.edge.project_location import AGENT_ENV, MEMBER_ENV
from orchestrator.trust import relay_holders

DEPTH = 256
"""No process has more ancestors; a chain that is cut short there is refused."""


def chain_of(pid: int) -> list[int]:
    """The process and its ancestors, nearest first, without init."""
    chain: list[int] = []
    at: int | None = pid
    while at is not None and at > 1 and len(chain) < DEPTH:
        chain.append(at)
        at = process_facts.parent_of(at)
    return chain


def refuse(chain: Sequence[int], *, inside: Collection[int] = (), held: Collection[ProcessKey] = ()) -> None:
    """BadRequest ``trust_refused`` unless a chain of processes (`chain_of`) comes from a human's hands.

    It must not pass through an agent (``inside`` are their processes), a squad member, or a process that holds a
    relay, now or earlier (``held``): the shell tool of an AI CLI.
    """
    if not chain or len(chain) >= DEPTH:
        raise BadRequest("trust_refused", "the ancestors of this process cannot be determined")
    for pid in chain:
        variables = environ_of(pid)
        if pid in inside or AGENT_ENV[0] in variables:
            raise BadRequest("trust_refused", f"process {pid} is an agent's, or was started by one")
        # A member may have executed another program, which has lost its mark: what a daemon starts are members.
        if MEMBER_ENV in variables or relay_holders.runs(pid, b"daemon"):
            raise BadRequest("trust_refused", f"process {pid} is a squad member's, or has started one")
    holding = holders() | {pid for pid, start in held if process_facts.start_time(pid) == start}
    for pid in chain:
        if pid in holding:
            raise BadRequest(
                "trust_refused", f"process {pid} is an AI CLI that uses orchestrator, or has started one"
            )


def holders() -> set[int]:
    """The processes that hold a relay (`orchestrator mcp`), of whatever project."""
    return {holder for relay in relay_holders.relays() for holder in relay_holders.held_by(relay)}
