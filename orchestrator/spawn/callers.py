"""Who answers a node: the model API, a member of a squad, or an agent of the team. The seam between a run and them.

The run knows this protocol only; the server wires the last two, so that spawn imports nothing of squad and team.
"""

from __future__ import annotations

from typing import Protocol

from orchestrator.spawn.run_data import Fault, NodeCall, Reply


class Caller(Protocol):
    """Answers one attempt at a node.

    ``resumes``: asked again with the same attempt after the death of a daemon, it gives the answer of the first time
    and starts nothing anew. A caller that does not is asked with a new attempt, once more at most.
    """

    resumes: bool

    async def call(self, ask: NodeCall) -> Reply | Fault:
        """The answer, within ``ask.timeout_s``; every failure is a Fault. Canceled, it ends what it began."""
        ...


def kind_of(model: str) -> str:
    """Which caller a node's ``model`` names: ``engine``, ``agent``, else ``model``."""
    kind, colon, _ = model.partition(":")
    return kind if colon and kind in ("engine", "agent") else "model"


def name_of(model: str) -> str:
    """The engine's or agent's own name."""
    return model.partition(":")[2]
