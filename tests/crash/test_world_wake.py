"""A parked agent is nudged once for one command, whatever dies between the nudge and the call that must follow."""

import asyncio

import pytest

from orchestrator.engines.table import ENGINES
from orchestrator.team.roster import delivery
from orchestrator.team.wake.paste_wake import PAUSES_S, SILENT_S, PasteWake
from tests.support.hook_channels import ROW
from tests.support.hooks import Cli, fake_cli, last_of, stop
from tests.support.stage import until
from tests.support.team import Team, settle
from tests.unit.team.wake.test_paste_wake import FakePanes


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Lives:
    """One agent and its pane, and one daemon after the other that is to wake it."""

    def __init__(self, root):
        self.root, self.panes, self.team = root, FakePanes(), None

    async def first(self, turn="ended"):
        self.team = Team(self.root)
        self.entry = await self.team.agent()
        self.entry.state.spec["engine"] = "parker"
        self.entry.turn = turn
        self._begin()
        return self

    async def next(self):
        """Kill -9: what the daemon had in memory is gone."""
        await self.waker.close()
        clock = self.team.clock
        self.team.close()
        self.team = Team(self.root, clock).load()
        self.entry = self.team.roster.agents["a1"]
        self.entry.state.spec["engine"] = "parker"
        self._begin()

    def _begin(self):
        self.waker = PasteWake(self.team.roster, self.panes)
        self.team.roster.listeners.append(self.waker.seen)
        self.waker.seen(self.entry)

    async def enqueue(self, task_id="t-1"):
        await delivery.enqueue(self.team.roster, "a1", task_id=task_id, payload=1, req=f"m:{task_id}")
        await settle()

    def call(self):
        wait = delivery.wait_for_command(self.team.roster, "a1", 1, timeout_s=0, age_s=0, req="w:1")
        return asyncio.ensure_future(wait)

    async def ended(self, task_id):
        """The agent reports."""
        roster = self.team.roster
        await delivery.emit_event(roster, "a1", 1, kind="result", task_id=task_id, payload=1, done=None, req=task_id)

    @property
    def pasted(self):
        return self.panes.acts.count("paste")

    async def close(self):
        await self.waker.close()
        self.team.close()


@pytest.fixture
async def lives(tmp_path, monkeypatch):
    monkeypatch.setitem(ENGINES, "parker", ROW)
    one = Lives(tmp_path)
    yield one
    await one.close()


@pytest.mark.anyio
async def test_an_agent_told_of_a_hundred_times_is_nudged_once(lives, faults):
    await lives.first()
    await lives.enqueue()
    for _ in range(100):
        lives.waker.seen(lives.entry)
        lives.entry.changed.notify()
        await lives.team.clock.advance(0.13)
    assert lives.pasted == 1
    for number in range(100):  # what else happens is no new command while one is there
        await lives.enqueue(f"t-{number + 2}")
    await lives.team.clock.advance(SILENT_S + 5)
    assert lives.pasted == 1
    assert (await lives.call())["command"]["task_id"] == "t-1"
    faults("world", 100)


@pytest.mark.anyio
async def test_a_daemon_killed_between_the_nudge_and_the_call_does_not_nudge_again(lives, faults):
    await lives.first()
    await lives.enqueue()
    await lives.team.clock.advance(SILENT_S + 3)
    assert lives.pasted == 1
    await lives.next()
    await lives.team.clock.advance(PAUSES_S[1] - 1)
    assert lives.pasted == 1, "the model may be about to call"
    assert (await lives.call())["command"]["task_id"] == "t-1"
    await lives.ended("t-1")
    await lives.team.clock.advance(3600)
    assert lives.pasted == 1
    faults("world")


@pytest.mark.anyio
async def test_many_daemons_killed_one_after_the_other_go_up_one_ladder(lives, faults):
    await lives.first()
    await lives.enqueue()
    for _ in range(30):
        await lives.team.clock.advance(SILENT_S + PAUSES_S[-1] + 10)
        await lives.next()
        faults("world")
    assert lives.pasted == len(PAUSES_S), "then a human is asked"
    await lives.team.clock.advance(SILENT_S + 10)
    assert lives.entry.state.blocked.reason == "needs a human (does not react to a wake)"
    # It reacts after all, and the next command is a new one.
    assert (await lives.call())["command"]["task_id"] == "t-1"
    await lives.ended("t-1")
    await lives.enqueue("t-2")
    await lives.team.clock.advance(SILENT_S + 5)
    assert lives.pasted == len(PAUSES_S) + 1


@pytest.fixture
def scene(stage_of_all):
    fake_cli(stage_of_all, "codex")
    stage_of_all.boss = stage_of_all.begun()
    made = stage_of_all.boss.tool("agent_create", {"name": "a", "role": "r", "engine": "codex", "ready_wait_ms": 0})
    assert "error" not in made, made
    stage_of_all.cli_of_a = Cli(stage_of_all, "a")
    yield stage_of_all
    stage_of_all.cli_of_a.close()


@pytest.fixture
def stage_of_all(make_stage):
    return make_stage()


def test_a_hook_is_woken_once_however_often_the_daemon_dies_before_the_call(scene, faults):
    cli = scene.cli_of_a
    cli.call("wait_for_command", timeout_ms=0)
    hook = cli.hook(stop())
    until(lambda: last_of(scene, "a", "parked", "woken") == "parked")
    scene.boss.tool("task_enqueue", {"agent_id": "a", "task": {"task_id": "t-1", "payload": {"do": 1}}})
    assert hook.said()["decision"] == "block"
    until(lambda: last_of(scene, "a", "parked", "woken") == "woken")
    for _ in range(3):
        scene.kill_daemon()
        assert "error" not in scene.boss.tool("agent_list", {})
        faults("world")
    assert hook.process.returncode == 0, "its one answer ended it; nobody is there to be woken again"
    assert scene.types("a").count("woken") == 1
    assert cli.call("wait_for_command", timeout_ms=1000)["command"]["task_id"] == "t-1"
    assert scene.types("a").count("woken") == 1
    assert scene.types("a").count("delivered") == 1
