"""A debate through the MCP surface: the second round reads the first, one judge, a daemon's database as before."""

import pytest

from tests.support import spawn_stage
from tests.support.spawn_stage import create, ended, run, status, tool
from tests.support.stage import until


@pytest.fixture
def scene(shared_stage, tmp_path, fake):
    return spawn_stage.Scene(shared_stage, tmp_path, fake)


def test_debaters_are_given_the_answers_of_the_first_round_and_a_judge_those_of_the_last(scene, fake):
    wire = scene.connect()
    found = run(wire, "Tea or coffee?", "debate", collectiveCount=2)
    assert found["status"] == "completed"
    calls = fake.calls()
    first, second, judge = calls[:2], calls[2:4], calls[4:]
    assert [call.merges for call in calls] == [False, False, False, False, True]
    assert {call.model for call in first} == {call.model for call in second}
    assert len({call.model for call in first}) == 2
    for call in second:
        assert all(one.digest in call.prompt for one in first)
    assert all(one.digest in judge[0].prompt for one in second)
    assert not any(one.digest in judge[0].prompt.split("# Answers")[0] for one in first)
    nodes = status(wire, found["run_id"])["nodes"]
    assert [node["wave"] for node in nodes] == [0, 0, 1, 1, 2]
    assert tool(wire, "artifact_get", run_id=found["run_id"], node_id="merged")["content"]


def test_a_debate_goes_on_without_a_debater_that_fails(scene, fake):
    wire = scene.connect()
    fake.rule(on="task", status=403, times=1, per="all")
    found = ended(wire, create(wire, "Tea or coffee?", "debate", collectiveCount=2))
    assert found["status"] == "completed"
    assert sorted(node["status"] for node in found["nodes"]) == ["completed"] * 4 + ["failed"]


def test_the_smart_spawn_api_chooses_the_debaters(scene, fake):
    wire = scene.connect(**scene.planned())

    def planned():  # the API has 5 s, which a busy machine may not give it
        before = len(fake.calls("/api/recommend"))
        found = ended(wire, create(wire, "Tea or coffee?", "debate", collectiveCount=2))
        assert len(fake.calls("/api/recommend")) == before + 1
        return found if found["planner"] == "smart-spawn-api" else None

    found = until(planned)
    assert found["status"] == "completed"
