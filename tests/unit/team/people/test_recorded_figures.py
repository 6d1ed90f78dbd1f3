"""Tokens and cost from the files alone: what another host has counted is unknown here, and not nothing."""

import pytest

from orchestrator.core.model_usage import NO_MODEL, usage_total
from orchestrator.journal.project_files import Paths
from orchestrator.journal.syncer import Syncer
from orchestrator.team.people.recorded_figures import ELSEWHERE, recorded_figures
from orchestrator.team.roster.mirrored_logs import open_replica
from orchestrator.team.roster.replica_files import AgentOwner


def test_the_cost_of_an_agent_on_another_host_is_unknown_and_not_0(tmp_path):
    open_replica(Paths(tmp_path), "a", AgentOwner("shop", "box", 0), Syncer(pytest.fail, threads=0)).close()
    figures = recorded_figures(tmp_path, {})
    elsewhere, of_tasks = figures("a", "claude")
    assert elsewhere is not None and elsewhere["unknown"] == ELSEWHERE and of_tasks == {}
    total = usage_total([elsewhere])
    assert (total["cost_usd"], total["cost_unknown"]) == (None, 1)
    here, _ = figures("b", "claude")
    assert here is not None and here["unknown"] == ""
    without_model, _ = figures("a", "shell")
    assert without_model is not None and without_model["unknown"] == NO_MODEL
    assert figures("a", "") == (None, {})
