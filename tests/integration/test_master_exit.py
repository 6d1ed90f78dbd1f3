"""What becomes of a team whose master's CLI has ended: with the clock in hand, and on the real daemon."""

import os
import signal
import subprocess
import sys

import pytest
from structlog.testing import capture_logs

from orchestrator.base.errors import Environment
from orchestrator.base.platform import process_facts
from orchestrator.core import decisions
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.core.file_models import RunFile
from orchestrator.journal import project_files
from orchestrator.team.panes.detached_session import MasterWindow
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.team.wake.masters import GONE, LOOK_EVERY_S, MasterConnection, Masters, judge, master_of
from orchestrator.tmux.panes import PaneInfo
from tests.crash.checker import check
from tests.support.stage import alive, until
from tests.support.team import Team

GRACE_S = 30.0


@pytest.mark.parametrize(
    ("policy", "other", "gone_s", "verdict"),
    [
        ("keep", False, 0, "keep"), ("keep", False, 1e9, "keep"), ("keep", True, 1e9, "follow"),
        ("stop", False, 0, "wait"), ("stop", False, 29.9, "wait"), ("stop", False, 30, "stop"),
        ("stop", True, 1e9, "follow"),
    ],
)  # fmt: skip
def test_the_verdict(policy, other, gone_s, verdict):
    assert judge(policy, other=other, gone_s=gone_s, grace_s=GRACE_S) == verdict


# -- with the clock in hand -----------------------------------------------------------------------------------------


class Cli:
    """A process that stands for a CLI, and the origin of its connections: ``window`` is what its pane lies in."""

    def __init__(self, name, window="run-1"):
        self.process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.window = window
        self.leader = MasterConnection(name, ConnectionOrigin(name, "/", pids=(self.process.pid,), leads=True))
        self.facts = master_of(self.leader.origin, name)

    def die(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Scene:
    """One team led by a CLI; its windows are the real ones but for where a connection's pane is."""

    def __init__(self, team, monkeypatch):
        self.team, self.clis, self.connected, self.looked = team, [], [], 0
        self.windows = TeamPanes(team.roster)
        monkeypatch.setattr(self.windows, "place_of", self._place_of)
        monkeypatch.setattr(self.windows, "run_at", self._run_at)
        self.masters = self.daemon()

    def daemon(self):
        """The masters as another daemon looks after them."""
        return Masters(self.team.roster, self.windows, lambda: [cli.leader for cli in self.connected], self._stop)

    async def _place_of(self, origin, *, make):
        assert not make
        self.looked += 1
        cli = next(cli for cli in self.clis if cli.leader.origin is origin)
        if cli.window == "nowhere":
            raise Environment("pane_unknown", "it is shared")
        return MasterWindow(
            None, PaneInfo(f"%{cli.leader.name}", cli.window, "$0", "s", 1, "", 80, 24, False, ""), False
        )

    async def _run_at(self, place):
        run = self.team.roster.runs.get(place.pane.window_id)
        return run if run is not None and run.live else None

    async def _stop(self, entry):
        at = "2026-01-01T00:00:00.000Z"
        await self.team.roster.commit(entry, decisions.stop(entry.state, force=False, req=None, at=at, reason=GONE))

    def cli(self, name, window="run-1"):
        self.clis.append(Cli(name, window))
        self.connected.append(self.clis[-1])
        return self.clis[-1]

    def gone(self, cli):
        """The CLI dies, and its connection with it."""
        cli.die()
        self.connected.remove(cli)

    @property
    def run(self):
        return self.team.roster.runs["run-1"]

    @property
    def stops(self):
        inboxes = [entry.inbox.since(0, 10, 1 << 16)[0] for entry in self.team.roster.agents.values()]
        return [record for records in inboxes for record in records if record["type"] == "stop"]


async def at_once(act, *args):
    """No threads: the clock in hand does not wait for them."""
    return act(*args)


@pytest.fixture
async def scene(tmp_path, monkeypatch):
    monkeypatch.setattr("asyncio.to_thread", at_once)
    team = Team(tmp_path, on_master_exit="stop", master_grace_s=GRACE_S)
    scene = Scene(team, monkeypatch)
    await team.agent("a1")
    await team.agent("a2")
    scene.first = scene.cli("first")
    await scene.masters.used(scene.first.leader, scene.run)
    scene.masters.begin()
    yield scene
    await scene.masters.close()
    for cli in scene.clis:
        cli.die()
    RunFile.model_validate(project_files.read_json(team.paths.run_json("run-1")))
    team.close()


@pytest.mark.anyio
async def test_the_team_is_ended_once_its_master_has_been_gone_for_the_grace(scene):
    await scene.team.clock.advance(1000)
    assert scene.stops == []
    scene.gone(scene.first)
    await scene.team.clock.advance(GRACE_S)
    assert scene.stops == []
    await scene.team.clock.advance(LOOK_EVERY_S)
    assert [stop["reason"] for stop in scene.stops] == [GONE, GONE]
    assert not any(stop.get("force") for stop in scene.stops)
    await scene.team.clock.advance(1000)
    assert len(scene.stops) == 2


@pytest.mark.anyio
async def test_kept_it_works_on_and_the_log_says_so_once(scene):
    scene.team.config = scene.team.config.model_copy(update={"on_master_exit": "keep"})
    scene.gone(scene.first)
    with capture_logs() as logs:
        await scene.team.clock.advance(10_000)
    assert scene.stops == []
    assert [entry["event"] for entry in logs] == ["a run's master has gone"]
    scene.team.config = scene.team.config.model_copy(update={"on_master_exit": "stop"})
    await scene.team.clock.advance(LOOK_EVERY_S)
    assert len(scene.stops) == 2, "the setting counts that holds now"


@pytest.mark.anyio
async def test_a_new_master_in_time_leads_and_its_end_counts(scene):
    scene.gone(scene.first)
    await scene.team.clock.advance(GRACE_S - LOOK_EVERY_S)
    second = scene.cli("second")
    await scene.team.clock.advance(1000)
    assert scene.stops == []
    assert scene.run.file["master"] == second.facts
    assert scene.run.file["master_pane"] == "%second"
    assert project_files.read_json(scene.team.paths.run_json("run-1"))["master"] == second.facts
    scene.gone(second)
    await scene.team.clock.advance(GRACE_S + 2 * LOOK_EVERY_S)
    assert len(scene.stops) == 2


@pytest.mark.anyio
@pytest.mark.parametrize("window", ["run-2", "nowhere"])
async def test_a_master_of_another_window_is_none_of_this_one(scene, window):
    other = scene.cli("other", window)
    await scene.masters.used(other.leader, scene.run)
    assert scene.run.file["master"] == scene.first.facts
    scene.gone(scene.first)
    await scene.team.clock.advance(GRACE_S + 2 * LOOK_EVERY_S)
    assert len(scene.stops) == 2


@pytest.mark.anyio
async def test_only_the_team_of_the_run_is_ended_and_a_run_without_a_master_never(scene):
    scene.team.run("run-2")
    other = await scene.team.agent("b1")
    other.state.spec["run_id"] = "run-2"
    scene.gone(scene.first)
    await scene.team.clock.advance(1000)
    assert len(scene.stops) == 2
    assert not other.state.stop_asked


@pytest.mark.anyio
async def test_a_pid_that_is_used_again_is_not_the_master(scene):
    scene.run.file["master"] = {**scene.first.facts, "start": scene.first.facts["start"] - 1}
    scene.connected.clear()
    await scene.team.clock.advance(GRACE_S + 2 * LOOK_EVERY_S)
    assert len(scene.stops) == 2


@pytest.mark.anyio
async def test_the_next_daemon_finds_it_and_gives_the_whole_grace(scene):
    scene.gone(scene.first)
    await scene.team.clock.advance(GRACE_S - LOOK_EVERY_S)
    await scene.masters.close()
    await scene.team.clock.advance(1000)
    scene.masters = scene.daemon()
    scene.masters.begin()
    await scene.team.clock.advance(GRACE_S)
    assert scene.stops == []
    await scene.team.clock.advance(2 * LOOK_EVERY_S)
    assert len(scene.stops) == 2


@pytest.mark.anyio
async def test_a_stop_that_was_cut_off_is_gone_on_with(scene, monkeypatch):
    real, refused = scene._stop, []

    async def full_once(entry):
        if entry.agent_id == "a2" and not refused:
            refused.append(entry)
            raise Environment("disk_full", "no room")
        await real(entry)

    scene.masters._stop = full_once
    scene.gone(scene.first)
    await scene.team.clock.advance(GRACE_S + 4 * LOOK_EVERY_S)
    assert refused
    assert len(scene.stops) == 2


@pytest.mark.anyio
async def test_who_uses_the_run_is_asked_for_once_and_another_one_has_been_told_nothing(scene):
    scene.run.read, scene.run.woken, scene.run.read_of["a1"] = 5, 6, 7
    before = scene.looked
    await scene.masters.used(scene.first.leader, scene.run)
    assert scene.looked == before
    second = scene.cli("second")
    await scene.masters.used(second.leader, scene.run)
    assert (scene.run.file["master"], scene.run.file["master_pane"]) == (second.facts, "%second")
    assert (scene.run.read, scene.run.woken, scene.run.read_of) == (0, 0, {})
    scene.run.read = 9
    await scene.masters.used(second.leader, scene.run)
    assert scene.run.read == 9
    # The newer one goes: the older is there, and leads again.
    scene.gone(second)
    await scene.team.clock.advance(1000)
    assert scene.run.file["master"] == scene.first.facts
    assert scene.stops == []


@pytest.mark.anyio
async def test_the_command_line_is_no_master(scene):
    shell = scene.cli("shell")
    shell.leader = MasterConnection("orchestrator-cli", ConnectionOrigin("shell", "/", pids=shell.leader.origin.pids))
    await scene.masters.used(shell.leader, scene.run)
    assert scene.run.file["master"] == scene.first.facts
    assert master_of(shell.leader.origin, "x") is None


@pytest.mark.anyio
async def test_what_the_disk_refuses_is_not_so_and_is_tried_again(scene, monkeypatch):
    second = scene.cli("second")
    with monkeypatch.context() as patch:
        patch.setattr(scene.run, "save", refuse)
        await scene.masters.used(second.leader, scene.run)
    assert scene.run.file["master"] == scene.first.facts
    await scene.masters.used(second.leader, scene.run)
    assert scene.run.file["master"] == second.facts


def refuse():
    raise Environment("disk_full", "no room")


def test_a_shell_that_carries_one_command_for_a_cli_is_not_the_cli(monkeypatch):
    us = os.getpid()
    code = "cat; exit"
    shell = subprocess.Popen(["sh", "-c", code], stdin=subprocess.PIPE)
    loose = subprocess.Popen(["sh", "-c", code], stdin=subprocess.PIPE, start_new_session=True)
    typed = subprocess.Popen(["sh"], stdin=subprocess.PIPE)
    try:
        found = {
            one.pid: master_of(ConnectionOrigin("c", "/", pids=(one.pid, us), leads=True), "x")["pid"]
            for one in (shell, loose, typed)
        }
        assert found == {shell.pid: us, loose.pid: loose.pid, typed.pid: typed.pid}
        alone = master_of(ConnectionOrigin("c", "/", pids=(shell.pid,), leads=True), "x")
        assert alone == {"pid": shell.pid, "start": process_facts.start_time(shell.pid), "client": "x"}
    finally:
        for one in (shell, loose, typed):
            one.communicate()
    assert master_of(ConnectionOrigin("c", "/", pids=(shell.pid,), leads=True), "x") is None
    assert master_of(ConnectionOrigin("c", "/", leads=True), "x") is None


# -- on the real daemon ---------------------------------------------------------------------------------------------

TEAM = {"agents": [{"name": name, "role": "r", "engine": "shell"} for name in ("a", "b")]}
STOP = 'on_master_exit = "stop"\nmaster_grace_s = 0\n'


def asked_to_stop(stage):
    return [[r.get("reason") for r in stage.records(name, "inbox") if r["type"] == "stop"] for name in ("a", "b")]


@pytest.mark.tmux
def test_a_master_that_is_killed_takes_its_team_with_it_if_that_is_wanted(make_stage):
    stage = make_stage(STOP)
    master = stage.begun(stage.inside(stage.server.start()))
    assert master.tool("agents_create", TEAM)["ready"] == 2
    task = {"task_id": "t-1", "payload": {"command": "sleep 1000"}}
    assert "error" not in master.tool("task_enqueue", {"agent_id": "a", "task": task})
    until(lambda: "delivered" in stage.types("a"))
    # Daemon and master in one blow: the agents' relays start the next daemon, which finds the master gone.
    os.kill(stage.daemon(), signal.SIGKILL)
    master.vanish()
    until(lambda: stage.types("a")[-1:] == stage.types("b")[-1:] == ["deleted"])
    until(lambda: stage.run_files()[0]["ended_at"])
    assert asked_to_stop(stage) == [[GONE], [GONE]]
    assert [r["task_id"] for r in stage.records("a") if r["type"] == "canceled"] == ["t-1"]
    stage.stop_daemon()
    check(stage.root, ended=True)


@pytest.mark.tmux
def test_a_team_made_from_the_command_line_has_no_master_that_could_go(make_stage):
    stage = make_stage(STOP)
    inside = stage.inside(stage.server.start())
    for name in ("a", "b"):
        assert stage.cli("agent", "create", name, "--role", "r", "--engine", "shell", env=inside).returncode == 0
    assert stage.run_files()[0]["master"] is None
    # Nobody of the window leads; a master of another window changes nothing by looking.
    elsewhere = stage.server.run("new-window", "-d", "-t", "user", "-P", "-F", "#{pane_id}", "--", "env", "cat")
    other = stage.begun(stage.inside(elsewhere))
    assert "error" not in other.tool("agent_get", {"agent_id": "a"})
    assert stage.run_files()[0]["master"] is None
    assert asked_to_stop(stage) == [[], []]


@pytest.mark.tmux
def test_a_master_that_goes_leaves_its_team_working_by_default(stage):
    master = stage.begun(stage.inside(stage.server.start()))
    assert master.tool("agents_create", TEAM)["ready"] == 2
    cli = int(master.pid_file.read_text())
    assert stage.run_files()[0]["master"] == {"pid": cli, "start": process_facts.start_time(cli), "client": "test"}
    task = {"task_id": "t-1", "payload": {"command": f"while [ -e /proc/{cli} ]; do sleep 0.1; done; echo done"}}
    master.tool("task_enqueue", {"agent_id": "a", "task": task})
    master.vanish()
    assert not alive(cli)
    until(lambda: [r for r in stage.records("a") if r["type"] == "result"])
    log = stage.run_dir() / "log"
    until(lambda: log.read_text().count("a run's master has gone") == 1)
    assert asked_to_stop(stage) == [[], []]
