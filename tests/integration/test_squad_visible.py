"""Members shown live in the master's own window: over MCP, in a real tmux, beside an agent and the user's panes."""

import pytest

from tests.support import squads
from tests.support.squads import collect, do, role, start
from tests.support.stage import until, user_panes


@pytest.fixture
def scene(stage):
    role(stage)
    return stage


def screen(stage, pane):
    return stage.server.run("capture-pane", "-p", "-J", "-t", pane)


def shown(stage, window):
    """The panes of members in the window: pane -> member."""
    form = "#{pane_id} #{@orchestrator_member}"
    rows = (line.split(" ", 1) for line in stage.server.run("list-panes", "-t", window, "-F", form).split("\n"))
    return {pane: member for pane, member in rows if member}


@pytest.mark.tmux
def test_a_visible_member_is_read_in_a_pane_which_goes_with_it(scene):
    master = scene.server.start()
    window = scene.server.show(master, "#{window_id}")
    before, options = user_panes(scene, window), scene.server.run("show-options", "-w", "-t", window)
    wire = scene.begun(squads.variables(scene, **scene.inside(master)))
    gate = scene.base / "gate"
    tasks = [do(say="I am at work.", err="hm", hold=str(gate)), do(say="Nobody sees me.", hold=str(gate))]
    members = [{"roleId": "coder", "task": tasks[0], "visible": True}, {"roleId": "coder", "task": tasks[1]}]
    answer = wire.tool(squads.TOOL, {"members": members, "wait_ms": 0})
    until(lambda: shown(scene, window))
    [(pane, member)] = shown(scene, window).items()
    assert member == answer["members"][0]["memberId"]
    until(lambda: "I am at work." in screen(scene, pane) and "hm" in screen(scene, pane))
    assert scene.server.show(master, "#{pane_active}") == "1", "the focus is where it was"
    assert not scene.tagged(), "a member is no agent"
    assert not (scene.root / ".agents/run").exists() or not list((scene.root / ".agents/run").iterdir())
    gate.touch()
    assert [row["status"] for row in collect(wire, answer["squadId"])["members"]] == ["completed"] * 2
    until(lambda: not shown(scene, window))
    until(lambda: user_panes(scene, window) == before)
    until(lambda: scene.server.run("show-options", "-w", "-t", window) == options)


@pytest.mark.tmux
def test_members_are_shown_beside_an_agent_and_a_killed_daemon_leaves_no_pane(scene):
    master = scene.server.start()
    window = scene.server.show(master, "#{window_id}")
    wire = scene.begun(squads.variables(scene, **scene.inside(master)))
    assert wire.tool("agent_create", {"name": "a", "role": "r", "engine": "shell"})["ready"] is True
    answer = start(wire, do(hold="/never"), do(hold="/never"), visible=True, wait_ms=0)
    until(lambda: len(shown(scene, window)) == 2)
    assert len(scene.server.panes(window)) == 4
    scene.kill_daemon()
    rows = collect(wire, answer["squadId"])["members"]
    assert [row["reason"].split(":")[0] for row in rows] == ["interrupted"] * 2
    until(lambda: not shown(scene, window))
    assert list(scene.tagged().values()) == ["a"]
    assert wire.tool("agent_delete", {"agent_id": "a"})["status"] == "deleted"


def test_outside_tmux_a_visible_member_runs_all_the_same(scene):
    wire = scene.begun(squads.variables(scene))
    (row,) = start(wire, do(say="here"), visible=True)["members"]
    assert row["rawStdout"] == "here"
