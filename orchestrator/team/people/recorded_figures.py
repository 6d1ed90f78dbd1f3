"""Tokens and cost of agents and of their tasks from the files alone, also of ended agents. Reads only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.core.model_usage import Prices
from orchestrator.journal.project_files import Paths, check_id
from orchestrator.team.people.usage_account import task_usage
from orchestrator.team.people.usage_accounts import recorded_usage

Recorded = tuple[dict[str, Any] | None, dict[str | None, dict[str, Any]]]
"""What an agent used (None: its engine is not known), and for each task; under None what belongs to no task."""


def recorded_figures(root: Path, prices: Prices) -> Callable[[str, str], Recorded]:
    """A function of an agent's id and engine that returns its figures."""
    paths = Paths(root)

    def of_agent(agent_id: str, engine: str) -> Recorded:
        check_id(agent_id, "agent_id")
        return recorded_usage(paths, agent_id, engine, prices), task_usage(paths, agent_id, prices)

    return of_agent
