"""What a person reads of living agents: kept screens, peek, attach, logs, runs, the card; on the real daemon."""

import json
import os
import signal
import stat
from pathlib import Path

import pytest

from orchestrator.base.errors import Conflict
from orchestrator.faces.pane_jump import attach_command
from orchestrator.team.panes.pane_views import PaneViews
from orchestrator.team.panes.team_panes import TeamPanes
from tests.security.human import Human
from tests.support.stage import until
from tests.support.team import Team

SAYS = "printf 'line %s\\n' $(seq 1 100) $(printf %0300d 7); exit 3"


def asked(stage, *words, status=0, env=None):
    done = stage.cli(*words, "--json", env=env)
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads(done.stdout)


def create(stage, name="builder", env=None):
    return asked(stage, "agent", "create", name, "--role", "r", "--engine", "shell", env=env)


def run(stage, command, task_id, status=0, agent_id="builder"):
    """Have the agent run a command to its end."""
    return asked(stage, "task", "add", agent_id, "--id", task_id, "--command", command, "--wait", status=status)


def screens(stage, agent_id="builder"):
    folder = stage.root / ".agents" / "agents" / agent_id / "artifacts" / "screens"
    return {path.name: path for path in folder.glob("*.txt")}


def test_what_the_pane_showed_is_kept_when_a_task_fails_and_when_the_agent_ends(stage):
    create(stage)
    run(stage, "echo fine", "good")
    assert screens(stage) == {}
    run(stage, SAYS, "bad", status=1)
    kept = until(lambda: screens(stage).get("bad-1.txt"))
    assert "line 100\n" in kept.read_text()
    assert f"line {7:0300}\n" in kept.read_text(), "as it was printed, not as the pane's width has wrapped it"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    task = asked(stage, "task", "show", "bad")
    assert task["screens"] == [str(kept)]
    assert [Path(artifact["path"]).name for artifact in task["artifacts"]] == ["bad-a1.log"]
    assert str(kept.relative_to(stage.root)) in stage.cli("why", "builder").stdout
    done = stage.cli("agent", "delete", "builder")
    assert done.returncode == 0, done.stderr
    kept = until(lambda: screens(stage).get("end-1.txt"))  # a slow disk delays no deletion
    assert "line 100\n" in kept.read_text(), "with the history, before the pane was closed"


def test_a_crashed_launch_leaves_its_screen_and_the_attempt_names_it(stage):
    create(stage)
    asked(stage, "task", "add", "builder", "--id", "t", "--command", "echo begun; sleep 1000")
    until(lambda: "progress" in stage.types("builder"))
    os.kill(json.loads(stage.cli("agent", "show", "builder", "--json").stdout)["meta"]["pid"], signal.SIGKILL)
    until(lambda: stage.types("builder").count("ready") == 2)
    assert "begun\n" in until(lambda: screens(stage).get("end-1.txt")).read_text()
    assert asked(stage, "task", "show", "t")["screens"] == [str(screens(stage)["end-1.txt"])]


@pytest.mark.parametrize("where", ["artifacts", "screens"])
def test_a_link_that_an_agent_makes_leads_no_screen_out_and_delays_no_deletion(stage, where):
    create(stage)
    elsewhere = stage.base / "elsewhere"
    elsewhere.mkdir()
    folder = stage.root / ".agents" / "agents" / "builder" / "artifacts"
    if where == "artifacts":
        folder.rmdir()
        folder.symlink_to(elsewhere)
    else:
        (folder / "screens").symlink_to(elsewhere)
    done = stage.cli("agent", "delete", "builder")
    assert done.returncode == 0, done.stderr
    assert list(elsewhere.rglob("*")) == []


def test_only_the_newest_screens_are_kept_and_gc_removes_them_with_the_agent(stage):
    create(stage)
    folder = stage.root / ".agents" / "agents" / "builder" / "artifacts" / "screens"
    folder.mkdir()
    for n in range(25):
        old = folder / f"old-{n}.txt"
        old.write_text("old\n")
        os.utime(old, (n, n))
    done = stage.cli("agent", "delete", "builder")
    assert done.returncode == 0, done.stderr
    until(lambda: "end-1.txt" in screens(stage) and len(screens(stage)) == 20)
    assert "old-5.txt" not in screens(stage)
    asked(stage, "gc", "--apply", "--older-than", "0s")
    assert not folder.parent.exists()


@pytest.mark.tmux
def test_peek_logs_and_attach_show_the_agents_pane(stage):
    window = stage.server.start()
    env = stage.inside(window)
    create(stage, env=env)
    run(stage, "printf 'first\\n\\033[31msecond\\033[0m\\n50%%\\r100%%\\n'", "t-1")
    peeked = asked(stage, "peek", "builder")
    assert peeked["tmux_pane_id"] in stage.tagged()
    assert any("second" in line for line in peeked["lines"])
    assert len(asked(stage, "peek", "builder", "-n", "3")["lines"]) == 3
    assert stage.cli("logs", "builder").stdout == "first\nsecond\n100%\n"
    assert asked(stage, "logs", "builder", "-n", "1")["lines"] == ["100%"]
    assert asked(stage, "logs", "builder", "--task", "other")["file"] is None
    command = asked(stage, "attach", "builder", env=env)["command"]
    assert command[:2] == ["tmux", "-S"]
    assert "attach-session" in asked(stage, "attach", "builder")["command"]
    (row,) = asked(stage, "runs")["runs"]
    assert (row["agents"], row["finished"]["result"], row["ended_at"]) == (["builder"], 1, None)
    asked(stage, "down", "--yes")
    assert asked(stage, "peek", "builder", status=3)["error"]["code"] == "agent_ended"
    assert asked(stage, "attach", "builder", status=3)["error"]["code"] == "agent_ended"
    (row,) = asked(stage, "runs")["runs"]
    assert row["ended_at"]
    assert "1 ✓" in stage.cli("runs").stdout


@pytest.mark.anyio
async def test_an_agent_whose_pane_is_gone_cannot_be_shown(tmp_path):
    team = Team(tmp_path)
    await team.agent()
    views = PaneViews(team.roster, TeamPanes(team.roster))
    for look in (views.peek(agent_id="a1"), views.peek(agent_id="a1", lines=5), views.pane(agent_id="a1")):
        with pytest.raises(Conflict) as gone:
            await look
        assert gone.value.code == "no_pane"
    team.close()


def test_attach_takes_a_terminal_to_the_zoomed_pane(stage):
    create(stage)
    with Human(stage, "attach", "builder", columns=120) as human:
        human.see("builder")
        pane = next(iter(stage.tagged()))
        until(lambda: stage.server.run("display-message", "-p", "-t", pane, "#{session_attached}") == "1")
        shown = stage.server.run("display-message", "-p", "-t", pane, "#{window_zoomed_flag}#{pane_active}")
        assert shown == "11"
    done = stage.cli("attach", "builder")
    assert done.returncode == 2
    assert "peek" in done.stderr


def test_the_command_of_attach_fits_where_it_is_typed(tmp_path):
    here = attach_command(f"{tmp_path}/s", "%3", inside=f"{tmp_path}/s,12,0")
    assert here[-3:] == ["switch-client", "-t", "%3"]
    outside = attach_command(f"{tmp_path}/s", "%3", inside="")
    assert outside[:3] == ["tmux", "-S", f"{tmp_path}/s"]
    assert outside[-3:] == ["attach-session", "-t", "%3"]
    nested = attach_command(f"{tmp_path}/s", "%3", inside=f"{tmp_path}/other,12,0")
    assert nested[:3] == ["env", "-u", "TMUX"]


def test_logs_can_be_followed_over_tasks(stage):
    create(stage)
    run(stage, "echo one", "a")
    with Human(stage, "logs", "builder", "-f") as human:
        human.see("one")
        run(stage, "echo two; printf unfinished", "b")
        human.see("b-a1.log")
        human.see("two")
        run(stage, "echo three", "c")
        human.see("unfinished")
        human.see("three")


def test_a_watched_status_outlives_its_daemon(stage):
    create(stage)
    with Human(stage, "status", "--watch", "-n", "0.2", columns=80) as human:
        human.see("the daemon runs")
        stage.kill_daemon()
        asked(stage, "task", "add", "builder", "--id", "t", "--command", "sleep 1000 # after the kill")
        human.see("after the kill")
        assert stage.cli("daemon", "stop").returncode == 0
        assert "what the files say" not in human.see("no daemon answers"), "said once, in the first line"
        assert stage.cli("daemon", "start").returncode == 0
        until(lambda: "the daemon runs" in human._look().rpartition("\x1b[H")[2])
        human.type("\x03")
        human.see("\x1b[?1049l")


def test_a_watched_card_shows_what_the_agent_does(stage):
    create(stage)
    asked(stage, "task", "add", "builder", "--command", "sleep 1000 # the long work")
    until(lambda: "ack" in stage.types("builder"))
    answer = asked(stage, "status", "builder")
    assert answer["meta"]["status"] == "busy"
    assert "logs builder -f" in answer["next"]
    assert "the long work" in stage.cli("status", "builder").stdout
    (row,) = asked(stage, "status")["agents"]
    assert row["status"] == "busy"
    stage.cli("agent", "delete", "builder", "--force", "--yes")
