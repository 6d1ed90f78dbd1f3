"""A master's turn-end hook: whom it holds, for what it wakes, and that nobody else's turn is held up."""

from dataclasses import replace

import pytest

from orchestrator.core import supervision
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.core.fleet_rules import LateEnd, late_end
from orchestrator.core.screens import Screen
from orchestrator.engines.table import ENGINES
from orchestrator.team.roster import delivery
from orchestrator.team.wake.held_masters import LOOK_EVERY_S, HeldMasters
from orchestrator.team.wake.masters import MasterConnection
from orchestrator.team.wake.parking import HookEvent
from tests.support.hook_channels import ROW, Line
from tests.support.team import Team, settle

pytestmark = pytest.mark.anyio
LEADS = "parker-client"
CLI = 4000  # the pid of the master's CLI


class FakeTeamPanes:
    """Every master sits in the window of run-1, whose screen a test sets."""

    def __init__(self, team):
        self.team = team
        self.screen = Screen()
        self.looks = self.asked = 0

    async def place_of(self, origin, *, make):
        assert not make
        self.asked += 1
        return origin

    async def run_at(self, place):
        run = self.team.roster.runs["run-1"]
        return run if run.live else None

    async def led_from(self, run, place, master):
        self.led = (run.run_id, place, master)

    async def look_at_master(self, run):
        self.looks += 1
        return self.screen


class Scene:
    def __init__(self, team):
        self.team, self.team_panes = team, FakeTeamPanes(team)
        self.leaders = [MasterConnection(LEADS, ConnectionOrigin("c1", "/", pids=(CLI, 300, 200)))]
        self.held_masters = HeldMasters(team.roster, self.team_panes, lambda: self.leaders)

    async def begin(self):
        self.entry = await self.team.agent()
        self.run = self.team.roster.runs["run-1"]
        return self

    async def tell(self, event="Stop", pids=(CLI, 300), **data):
        line = Line()
        await self.held_masters.heard(
            ConnectionOrigin("h", "/", pids=pids), line.channel, HookEvent(event, "s", data)
        )
        await settle()
        return line

    async def enqueue(self, task_id="t-1"):
        await delivery.enqueue(self.team.roster, "a1", task_id=task_id, payload=1, req=f"m:{task_id}")

    async def work(self, kind="result", **more):
        """The agent takes its next task and ends it; the broadcast is flushed."""
        await self.ends(kind, **more)
        await self.team.clock.advance(0.1)

    async def ends(self, kind="result", **more):
        """The agent takes its next task and ends it; the broadcast is yet to be told."""
        await delivery.wait_for_command(self.team.roster, "a1", 1, timeout_s=0, age_s=0, req="w")
        await delivery.emit_event(
            self.team.roster,
            "a1",
            1,
            kind=kind,
            task_id=None,
            payload={"said": "x"},
            done=None,
            req=f"e:{kind}",
            **more,
        )

    async def read(self):
        """The master reads the broadcast to its end."""
        page = await delivery.broadcast_read(self.team.roster, self.run, since_seq=0, max_events=1000, wait_s=0)
        self.run.read = page["last_seq"]


@pytest.fixture
async def scene(tmp_path, monkeypatch):
    row = replace(ROW, clients=(LEADS,), human_queued="^Queued", title_idle="")
    monkeypatch.setitem(ENGINES, "parker", row)
    team = Team(tmp_path)
    scene = await Scene(team).begin()
    yield scene
    await scene.held_masters.close()
    team.close()


async def test_a_master_whose_team_works_is_held_and_told_the_first_news(scene):
    await scene.enqueue()
    await scene.enqueue("t-2")
    line = await scene.tell()
    assert line.said is None
    await scene.team.clock.advance(3600)
    assert line.said is None
    await scene.work()
    assert line.said == "wake"
    reason = line.words[0]["reason"]
    for word in ("a1", "t-1", "result", "broadcast_read", "since_seq=0", 'run_id="run-1"'):
        assert word in reason
    assert "said" not in reason
    assert len(reason) <= 500


async def test_a_late_end_wakes_for_the_master_may_cancel_what_is_done_again(scene):
    await scene.enqueue()
    line = await scene.tell()
    scene.entry.state.owners["1"] = "b"
    late = LateEnd(1, "b", "t-1", "result", "done")
    seen = scene.entry.inbox.visible_seq
    await scene.team.roster.commit(
        scene.entry, late_end(scene.entry.state, late, fence=2, visible_inbox=seen, at="2026-01-01T00:00:00Z")
    )
    await scene.team.clock.advance(0.1)
    assert line.said == "wake"
    assert "a1: a late end of task t-1." in line.words[0]["reason"]


async def test_what_ended_before_the_turn_did_wakes_at_once_and_only_once(scene):
    await scene.enqueue()
    await scene.work()
    assert (await scene.tell()).said == "wake"
    assert (await scene.tell()).said == "none"  # nothing is unfinished, and it was told
    await scene.enqueue("t-2")
    assert (await scene.tell()).said is None


async def test_what_ends_as_the_turn_does_is_told_though_the_broadcast_is_not_written_yet(scene):
    await scene.enqueue()
    await scene.ends()
    assert scene.run.journal.last_seq == 0
    line = await scene.tell()
    assert line.said is None
    await scene.team.clock.advance(0.1)
    assert line.said == "wake"
    assert "result of task t-1" in line.words[0]["reason"]


async def test_nobody_waits_for_what_is_on_its_way_and_known_already(scene):
    await scene.enqueue()
    await scene.ends()
    scene.run.read_of["a1"] = scene.entry.outbox.last_seq
    line = await scene.tell()
    await scene.team.clock.advance(0.1)
    assert line.said == "release"


async def test_what_the_master_has_read_is_no_news(scene):
    await scene.enqueue()
    await scene.work()
    await scene.read()
    assert (await scene.tell()).said == "none"
    await scene.enqueue("t-2")
    await scene.work("error")
    scene.run.read_of["a1"] = scene.entry.outbox.last_seq
    assert (await scene.tell()).said == "none"


async def test_lifecycle_without_trouble_is_no_news_and_trouble_is(scene):
    await scene.enqueue()
    line = await scene.tell()
    await scene.team.agent("a2")
    await scene.team.clock.advance(1)
    assert line.said is None
    drafts = supervision.exited(scene.entry.state, at="2026-01-01T00:00:00.000Z", how="exit", reason="r", code=1)
    await scene.team.roster.commit(scene.entry, drafts)
    await scene.team.clock.advance(1)
    assert line.said == "wake"
    assert "exited" in line.words[0]["reason"]


@pytest.mark.parametrize(
    "pids", [(), (5000, 300), (5000, 5001, CLI)], ids=["none", "of the same shell", "started by it"]
)
async def test_only_the_cli_that_leads_is_held(scene, pids):
    await scene.enqueue()
    line = await scene.tell(pids=pids)
    assert line.said == "none"
    assert scene.team_panes.asked == 0


async def test_a_shell_between_the_cli_and_the_hook_changes_nothing(scene):
    await scene.enqueue()
    assert (await scene.tell(pids=(7000, CLI, 300))).said is None


async def test_without_a_live_run_or_for_another_event_nobody_is_looked_for(scene):
    await scene.enqueue()
    assert (await scene.tell("SessionStart")).said == "none"
    assert (await scene.tell("Whatever")).said == "none"
    scene.run.file["ended_at"] = "2026-01-01T00:00:00.000Z"
    assert (await scene.tell()).said == "none"
    assert scene.team_panes.asked == 0


async def test_a_prompt_of_the_human_releases_the_master(scene):
    await scene.enqueue()
    line = await scene.tell()
    prompt = await scene.tell("UserPromptSubmit")
    assert (line.said, prompt.said) == ("release", "none")


async def test_a_queued_message_on_the_masters_screen_releases_it(scene):
    await scene.enqueue()
    line = await scene.tell()
    await scene.team.clock.advance(LOOK_EVERY_S * 3)
    assert line.said is None
    assert scene.team_panes.looks == 3
    scene.team_panes.screen = Screen(lines=("Queued (press up to edit)",))
    await scene.team.clock.advance(LOOK_EVERY_S)
    assert line.said == "release"
    before = scene.team_panes.looks
    await scene.team.clock.advance(600)
    assert scene.team_panes.looks == before


async def test_the_newest_hook_of_a_run_wins_and_one_that_ends_is_forgotten(scene):
    await scene.enqueue()
    first = await scene.tell()
    second = await scene.tell()
    assert (first.said, second.said) == ("release", None)
    scene.held_masters.gone(first.channel)
    assert second.said is None
    scene.held_masters.gone(second.channel)
    await scene.work()
    assert second.said is None


async def test_after_close_nobody_is_answered(scene):
    await scene.enqueue()
    line = await scene.tell()
    await scene.held_masters.close()
    scene.held_masters.gone(line.channel)
    assert line.words == []
    assert (await scene.tell()).words == []
