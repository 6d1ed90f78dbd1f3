"""Tokens and cost of agents and of their tasks from the files alone, also of ended agents. Reads only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.core.model_usage import Prices, UsageSums
from orchestrator.engines.table import ENGINES
from orchestrator.journal.project_files import Paths, check_id
from orchestrator.team.people.usage_account import task_usage
from orchestrator.team.people.usage_accounts import recorded_usage, usage_view
from orchestrator.team.roster.replica_files import owner_of

Recorded = tuple[dict[str, Any] | None, dict[str | None, dict[str, Any]]]
"""What an agent used (None: its engine is not known), and for each task; under None what belongs to no task."""

ELSEWHERE = "counted on its host only"
"""What is unknown of the usage of an agent on another host."""


def recorded_figures(root: Path, prices: Prices) -> Callable[[str, str], Recorded]:
    """A function of an agent's id and engine that returns its figures; those of another host's agent are unknown."""
    paths = Paths(root)

    def of_agent(agent_id: str, engine: str) -> Recorded:
        check_id(agent_id, "agent_id")
        if owner_of(paths, agent_id) is not None:
            row = ENGINES.get(engine)
            return (usage_view(row, UsageSums(), prices, ELSEWHERE) if row is not None else None), {}
        return recorded_usage(paths, agent_id, engine, prices), task_usage(paths, agent_id, prices)

    return of_agent
