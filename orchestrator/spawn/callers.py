"""The protocol by which a run gets a node answered: by the model API, a squad member or an agent of the team.

A run knows this protocol only; the wiring adds squad and team, so that spawn imports neither.
"""

from __future__ import annotations

from typing import Protocol

from orchestrator.spawn.run_data import Fault, NodeCall, Reply


class Caller(Protocol):
    """Answers one attempt at a node.

    ``resumes``: if the same attempt is made again after a daemon ended, the caller returns the answer of the first
    call and starts nothing new. A caller that cannot do so is called at most once more, with a new attempt.
    """

    resumes: bool

    async def call(self, ask: NodeCall) -> Reply | Fault:
        """The answer, within ``ask.timeout_s``; every failure is a Fault. A canceled call ends what it started."""
        ...


def caller_kind(model: str) -> str:
    """Which caller a node's ``model`` names: ``engine``, ``agent``, else ``model``."""
    kind, colon, _ = model.partition(":")
    return kind if colon and kind in ("engine", "agent") else "model"


def caller_name(model: str) -> str:
    """The engine's or agent's own name."""
    return model.partition(":")[2]
