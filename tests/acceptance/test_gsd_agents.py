"""An agent whose role says `toolsets: [gsd]` asks the project beside its loop; nobody else can in its place."""

import json

import pytest

from orchestrator.base.toolsets import GSD_TOOLS
from tests.support.gsd_trees import write
from tests.support.stage import until

OWN = ["wait_for_command", "emit_event"]
ROLE = "---\nname: asker\ntoolsets: [gsd, team]\n---\nYou ask before you act.\n"


def planning(stage):
    """A project of GSD, and the role."""
    write(
        stage.root,
        {
            ".planning/PROJECT.md": "# P\n\n## Core Value\n\nIt asks.\n",
            ".planning/REQUIREMENTS.md": "## v1 Requirements\n\n### Asking\n\n- [x] **ASK-01**: It asks\n",
            ".agents/roles/asker.md": ROLE,
        },
    )


@pytest.fixture(scope="module")
def scene(shared_stage):
    """`asker` has the tools by a role of the project, `plain` has none; the test speaks for both."""
    stage = shared_stage
    planning(stage)
    stage.boss = stage.begun()
    wanted = [{"name": "asker", "role": "asker"}, {"name": "plain", "role": "reviewer"}]
    assert stage.boss.tool("agents_create", {"agents": wanted})["ready"] == 2
    stage.asker, stage.plain = stage.puppet("asker"), stage.puppet("plain")
    return stage


def launch_of(stage, agent_id):
    return json.loads((stage.root / ".agents/agents" / agent_id / "engine/launch.json").read_text())


def names(wire):
    return [tool["name"] for tool in wire.ask("tools/list")["result"]["tools"]]


def test_its_start_says_so_and_its_meta_shows_it(scene):
    assert scene.records("asker")[0]["toolsets"] == ["gsd"], "what changes things is given to no agent"
    assert "toolsets" not in scene.records("plain")[0]
    for agent_id, toolsets in (("asker", ["gsd"]), ("plain", [])):
        assert scene.boss.tool("agent_get", {"agent_id": agent_id})["meta"]["toolsets"] == toolsets


def test_it_is_offered_its_two_tools_and_the_twelve_and_no_more(scene):
    assert sorted(names(scene.asker)) == sorted([*OWN, *GSD_TOOLS])
    assert names(scene.asker)[:2] == OWN
    listed = scene.asker.ask("tools/list")["result"]["tools"]
    assert all(tool["annotations"]["readOnlyHint"] for tool in listed if tool["name"] in GSD_TOOLS)
    assert [one["name"] for one in scene.asker.ask("prompts/list")["result"]["prompts"]] == ["agent"]
    assert scene.asker.ask("resources/read", {"uri": "gsd://project/vision"})["error"]["code"] == -32601


def test_it_is_told_which_further_tools_it_has_and_others_are_not(scene):
    told = {
        agent_id: wire.ask("prompts/get", {"name": "agent"})["result"]["messages"][0]["content"]["text"]
        for agent_id, wire in (("asker", scene.asker), ("plain", scene.plain))
    }
    assert all(f"`{name}`" in told["asker"] for name in GSD_TOOLS)
    assert "gsd_" not in told["plain"]


def test_a_call_is_answered_and_leaves_no_record(scene):
    before = scene.records("asker")
    answer = scene.asker.tool("gsd_requirement_status", {"requirement_id": "ASK-01"})
    assert "error" not in answer
    assert "ASK-01" in json.dumps(answer)
    assert scene.records("asker") == before


def test_an_agent_without_them_finds_no_such_tool(scene):
    assert names(scene.plain) == OWN
    assert scene.plain.tool("gsd_phase_status", {})["error"]["code"] == "unknown_tool"


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"ORCHESTRATOR_AGENT_SECRET": "0" * 32}, "replaced"),
        ({"ORCHESTRATOR_AGENT_SECRET": ""}, "replaced"),
        ({"ORCHESTRATOR_AGENT_EPOCH": "7"}, "replaced"),
        ({"ORCHESTRATOR_AGENT_EPOCH": "0"}, "replaced"),
        ({"ORCHESTRATOR_AGENT_ID": "plain"}, "unknown_tool"),
        ({"ORCHESTRATOR_AGENT_ID": "nobody"}, "unknown_tool"),
    ],
)
def test_who_does_not_prove_to_be_it_is_refused(scene, changed, code):
    wire = scene.begun(launch_of(scene, "asker")["env"] | changed, "--agent")
    assert wire.tool("gsd_phase_status", {})["error"]["code"] == code


def test_a_master_of_the_team_toolset_alone_has_none_of_them(scene):
    assert scene.boss.tool("gsd_phase_status", {})["error"]["code"] == "unknown_tool"


def test_a_life_that_was_replaced_is_refused_and_the_next_one_has_the_tools_whatever_its_role_says_by_then(stage):
    planning(stage)
    boss = stage.begun()
    assert boss.tool("agent_create", {"name": "asker", "role": "asker"})["ready"] is True
    life = launch_of(stage, "asker")["env"]
    old = stage.begun(life, "--agent")
    assert "error" not in old.tool("gsd_requirement_status", {"requirement_id": "ASK-01"})
    (stage.root / ".agents" / "roles" / "asker.md").write_text("You ask no more.\n")
    assert "error" not in boss.tool("agent_restart", {"agent_id": "asker"})
    until(lambda: stage.types("asker").count("ready") == 2)
    for wire in (old, stage.begun(life, "--agent")):
        assert wire.tool("gsd_requirement_status", {"requirement_id": "ASK-01"})["error"]["code"] == "replaced"
    new = stage.begun(launch_of(stage, "asker")["env"], "--agent")
    assert sorted(names(new)) == sorted([*OWN, *GSD_TOOLS])
    assert "error" not in new.tool("gsd_requirement_status", {"requirement_id": "ASK-01"})


def test_a_daemon_that_was_killed_comes_back_with_the_agents_tools(stage):
    planning(stage)
    boss = stage.begun()
    assert boss.tool("agent_create", {"name": "asker", "role": "asker"})["ready"] is True
    wire = stage.begun(launch_of(stage, "asker")["env"], "--agent")
    stage.kill_daemon()
    assert sorted(names(wire)) == sorted([*OWN, *GSD_TOOLS])
    assert "error" not in wire.tool("gsd_requirement_status", {"requirement_id": "ASK-01"})
