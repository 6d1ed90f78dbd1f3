"""A permission asked for in the evening is answered in the morning: the same item, and the task goes on."""

from __future__ import annotations

import json
import os
import time

import pytest

from tests.e2e.agent import Agent
from tests.e2e.test_approve_command import SHELLS, patient_world
from tests.e2e.world import START_S
from tests.support.stage import until

WAIT_S = float(os.environ.get("ORCHESTRATOR_LONG_WAIT_S", "900"))
"""Longer than any time limit of a hook that a CLI sets by itself, and than several looks at the daemon."""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", SHELLS)
def test_a_question_may_wait_for_hours(make_world, kind):
    world = patient_world(make_world, kind, "approvals.hold_s = 80000\n")
    agent = Agent(world, "ada")

    def inbox():
        return json.loads(world.orchestrator("inbox", "--json").stdout)["inbox"]

    agent.give("t1", calls=[SHELLS[kind]("touch one")], tell=True)
    asked = until(lambda: next((item for item in inbox() if "touch one" in item["asked"]), None), START_S)
    end = time.monotonic() + WAIT_S
    until(lambda: time.monotonic() > end or agent.types().count("result"), WAIT_S + 60)
    assert not (world.root / "one").exists()
    (later,) = inbox()
    assert (later["id"], later["since"]) == (asked["id"], asked["since"])
    answered = world.orchestrator("approve", asked["id"], "--json")
    assert answered.returncode == 0, answered.stdout + answered.stderr
    assert agent.end("t1")["type"] == "result" and (world.root / "one").exists()
    assert inbox() == []
