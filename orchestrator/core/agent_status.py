"""The status of an agent, derived from its records and from what the daemon sees of it. Pure.

It is never stored. It is computed on request, with its reason and the records that prove it.
"""

from __future__ import annotations

from typing import NamedTuple

from orchestrator.base.final_states import FINAL_LIVES
from orchestrator.core import supervision
from orchestrator.core.state import Agent, Proof


class Presence(NamedTuple):
    """What the daemon sees of the agent right now; never stored.

    A ``turn`` is ``rested`` after a park that reached its time limit, until the next event of its CLI: the CLI is at
    its prompt, and a pasted line wakes it.
    """

    waiting: bool = False  # inside wait_for_command
    quiet_s: float | None = None  # since its last call in this daemon's life; None = none yet
    process: str = "unknown"  # alive | gone | unknown
    turn: str = "unknown"  # of its CLI, as hooks tell it: working | parked | rested | ended | human | unknown
    relaunch_s: float | None = None  # until its next life is launched


def status(agent: Agent, seen: Presence) -> tuple[str, str]:
    """The derived (status, reason); `unknown` is never shown as idle."""
    life = agent.life
    if life in FINAL_LIVES:
        return life, str((agent.failure or {}).get("reason", ""))
    if life == "stopped" or agent.stop_asked:
        return "stopping", "asked to stop"
    if life == "exited":
        soon = seen.relaunch_s is not None and seen.relaunch_s > 0
        again = f"; restarts in {seen.relaunch_s:.0f} s" if soon else ""
        if supervision.rests(agent):
            return "exited", "its pane was closed; its next task gets a new one"
        return "exited", str((agent.exited or {}).get("reason", "")) + again
    if seen.process == "gone":
        return "exited", "its process is gone"
    if agent.blocked is not None:
        return "blocked", agent.blocked.reason
    if agent.stalled is not None:
        return "stalled", agent.stalled
    if life in ("new", "starting"):
        return "starting", "waiting for its first wait_for_command"
    if agent.lease is not None:
        return "busy", f"holds {agent.lease.task_id}"
    if seen.waiting:
        return "idle", "inside wait_for_command"
    if seen.turn == "parked":
        return "parked", "ended its turn; it is woken when there is work"
    if seen.turn == "rested" and seen.process == "alive":
        return "idle", "at its prompt; a task wakes it by a pasted line"
    if seen.quiet_s is not None and seen.quiet_s < BETWEEN_CALLS_S:
        return "idle", "between two calls"
    return "unknown", _SILENT.get(seen.turn, "holds no task and is not waiting for one")


def since(agent: Agent, shown: str) -> str | None:
    """When the ``shown`` status began, by its records (RFC 3339); None before the first record.

    An agent without a task has been so since its last task ended, or since it became ready or was parked.
    """
    if shown in ("idle", "parked", "unknown"):
        times = [agent.ready_at, agent.last_end.at if agent.last_end else None]
        if shown == "parked" and "parked" in agent.proofs:
            times.append(agent.proofs["parked"].at)
        known = [at for at in times if at]
        if known:
            return max(known)
    proofs = proof_of(agent, shown)
    return proofs[0].at if proofs else agent.created_at


def proof_of(agent: Agent, shown: str) -> list[Proof]:
    """The records that prove the ``shown`` status, the most important first; empty if only presence shows it."""
    keys = {
        "stopping": ("stop", "life"),
        "busy": ("lease", "life"),
        "stalled": ("stalled", "lease", "life"),
        "parked": ("parked", "life"),
    }.get(shown, ("life",))
    proofs = [agent.proofs[key] for key in keys if key in agent.proofs]
    if shown == "blocked" and agent.blocked is not None:
        block = agent.blocked
        proofs = [Proof("outbox", block.seq, "blocked", block.since), *proofs]
        if "lease" in agent.proofs:
            proofs.insert(1, agent.proofs["lease"])
    return proofs


_SILENT = {
    "human": "a person talks to it or has interrupted it",
    "ended": "its CLI has ended its turn and waits for a person",
    "working": "its CLI works, but not on a task of this team",
}

BETWEEN_CALLS_S = 10.0
"""A CLI needs a moment between two calls; a longer silence without a lease proves nothing."""
