"""What the real CLIs record of their model requests, counted as an agent works, goes on after a crash, and is asked for."""

from __future__ import annotations

import json

import pytest

from orchestrator.journal.project_files import Paths
from orchestrator.team.people.usage_account import task_usage
from tests.e2e.agent import QUICK, Agent
from tests.e2e.models.turn import KINDS

OUTPUT = 10
"""Tokens that each scripted answer says it has."""


def usage_of(world, agent_id):
    """The agent's figures as `orchestrator status --json` has them."""
    answer = json.loads(world.stage.cli("status", "--json").stdout)
    (row,) = (row for row in answer["agents"] if row["agent_id"] == agent_id)
    return row["usage"] or {"requests": 0}


@pytest.mark.parametrize("kind", KINDS)
def test_every_request_of_an_agent_is_counted_once_and_belongs_to_its_task(make_world, kind):
    world = make_world(kind, config=QUICK)
    agent = Agent(world, "ursula")
    agent.does("one")
    agent.does("two")
    agent.rests()

    def counted():
        return usage_of(world, "ursula")["requests"] == len(agent.requests())

    agent.comes(counted)
    agent.dies_and_goes_on()
    agent.rests()
    agent.comes(counted)
    usage = agent.comes(lambda: found if (found := usage_of(world, "ursula"))["requests"] else None)
    assert usage["output"] == OUTPUT * len(agent.requests())
    assert usage["cost_usd"] is None and usage["models"][0] in usage["unknown"]
    used = task_usage(Paths(world.root), "ursula", {})
    assert {"one", "two", "behind-the-kill"} <= used.keys()
    assert used["one"]["requests"] == used["two"]["requests"] == 2  # the ack and the result


SUBAGENT = {"description": "sub", "prompt": 'SCRIPT: {"say": "hello"}'}
STARTS = {
    "claude": {"name": "Agent", "arguments": {**SUBAGENT, "subagent_type": "general-purpose"}},
    "codex": {"name": "spawn_agent", "arguments": {"message": SUBAGENT["prompt"], "agent_type": "default"}},
    "opencode": {"name": "task", "arguments": {**SUBAGENT, "subagent_type": "general"}},
}


@pytest.mark.parametrize("kind", STARTS)
def test_the_requests_of_subagents_count_as_their_agents(make_world, kind):
    world = make_world(kind, config=QUICK)
    agent = Agent(world, "ursula")
    agent.give("one", calls=[STARTS[kind]])
    agent.end("one")
    agent.rests()

    def counted():
        asked = [request for request in world.models.requests if request.side_call is None]
        if not any(request.agent_id is None for request in asked):
            return False  # a subagent starts in the background
        return usage_of(world, "ursula")["requests"] == len(asked)

    agent.comes(counted)
