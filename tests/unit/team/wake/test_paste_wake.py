"""Waking by a paste: only into an empty composer that has settled, verified, retried, and given up in the end."""

import asyncio
import itertools
from dataclasses import replace

import pytest

from orchestrator.core.prompts import wake_message
from orchestrator.core.screens import Screen, ScreenFinding, ScreenPattern
from orchestrator.engines.table import ENGINES
from orchestrator.team.roster import delivery
from orchestrator.team.wake.paste_wake import (
    PAUSES_S,
    QUIET_S,
    SETTLED_S,
    SILENT_S,
    TROUBLE_S,
    WORKING_SILENT_S,
    PasteWake,
    may_paste,
)
from tests.support.hook_channels import ROW
from tests.support.team import Team, settle

pytestmark = pytest.mark.anyio
EMPTY = Screen(title="idle", lines=("welcome", "", ">"), cursor_y=2)


class FakePanes:
    """One pane: its screen, and what was done to it."""

    def __init__(self):
        self.screen = EMPTY
        self.done = []
        self.eats = 0  # so many carriage returns are lost
        self.hides = ""  # what is shown in place of a line that was pasted
        self.when_submitted = None

    async def look_at_agent(self, entry):
        self.done.append("look")
        return self.screen

    async def paste(self, entry, line):
        self.done.append("paste")
        self.screen = EMPTY._replace(lines=("welcome", "", f"> {self.hides or line}"))
        return True

    async def submit(self, entry):
        self.done.append("submit")
        if self.eats:
            self.eats -= 1
            return True
        self.screen = EMPTY
        if self.when_submitted is not None:
            self.when_submitted()
        return True

    @property
    def acts(self):
        return [one for one in self.done if one != "look"]


class Scene:
    def __init__(self, team):
        self.team, self.panes = team, FakePanes()
        self.waker = PasteWake(team.roster, self.panes)

    async def begin(self, turn):
        self.entry = await self.team.agent()
        self.entry.state.spec["engine"] = "parker"
        self.entry.turn = turn
        self.team.roster.listeners.append(self.waker.seen)

    async def enqueue(self, task_id="t-1"):
        await delivery.enqueue(self.team.roster, "a1", task_id=task_id, payload=1, req=f"m:{task_id}")
        await settle()

    def call(self):
        wait = delivery.wait_for_command(self.team.roster, "a1", 1, timeout_s=0, age_s=0, req="w:1")
        return asyncio.ensure_future(wait)

    def blocked(self):
        return self.entry.state.blocked.reason if self.entry.state.blocked else None


async def ack(scene):
    """The agent has taken its task."""
    roster = scene.team.roster
    await delivery.emit_event(roster, "a1", 1, kind="ack", task_id=None, payload=None, done=None, req="e:ack")


@pytest.fixture
async def scene(tmp_path, monkeypatch):
    monkeypatch.setitem(ENGINES, "parker", ROW)
    team = Team(tmp_path)
    scene = Scene(team)
    yield scene
    await scene.waker.close()
    team.close()


@pytest.mark.parametrize("turn", ["ended", "unknown"])
async def test_an_agent_whose_turn_is_over_gets_one_line_and_one_return(scene, turn):
    await scene.begin(turn)
    scene.panes.when_submitted = scene.call
    await scene.enqueue()
    await scene.team.clock.advance(SILENT_S - 0.1)
    assert scene.panes.done == []
    await scene.team.clock.advance(3)
    assert scene.panes.acts == ["paste", "submit"]
    assert scene.panes.done[:2] == ["look", "look"]
    await scene.team.clock.advance(600)
    assert scene.panes.acts == ["paste", "submit"]
    assert scene.blocked() is None
    assert scene.entry.state.lease.task_id == "t-1"


@pytest.mark.parametrize("turn", ["parked"])
async def test_what_a_hook_holds_is_not_looked_at(scene, turn):
    await scene.begin(turn)
    await scene.enqueue()
    await scene.team.clock.advance(3600)
    assert scene.panes.done == []


async def test_an_agent_inside_a_wait_and_one_that_works_on_a_task_are_not_looked_at(scene):
    await scene.begin("unknown")
    wait = asyncio.ensure_future(
        delivery.wait_for_command(scene.team.roster, "a1", 1, timeout_s=50, age_s=0, req="w:0")
    )
    await settle()
    await scene.enqueue()
    assert (await wait)["command"]["task_id"] == "t-1"
    await ack(scene)
    await scene.enqueue("t-2")
    await delivery.cancel(scene.team.roster, "a1", task_id="t-1", req="m:c")
    await scene.team.clock.advance(3600)
    assert scene.panes.done == []


async def test_an_agent_that_a_hook_shows_at_its_prompt_is_woken_at_once(scene):
    await scene.begin("working")
    scene.entry.touch(scene.team.clock)
    await scene.enqueue()
    await scene.team.clock.advance(SILENT_S)
    assert scene.panes.done == []
    scene.entry.turn, scene.entry.at_prompt = "ended", True
    scene.entry.changed.notify()
    await settle()
    assert scene.panes.done == ["look"]  # the second look, a second later, must see the same
    await scene.team.clock.advance(SETTLED_S + ROW.paste_gap_s)
    assert scene.panes.acts == ["paste", "submit"]


async def test_a_working_agent_is_left_alone_for_long(scene):
    await scene.begin("working")
    await scene.enqueue()
    await scene.team.clock.advance(WORKING_SILENT_S - 1)
    assert scene.panes.done == []
    await scene.team.clock.advance(9)
    assert scene.panes.acts == []
    await scene.team.clock.advance(5)
    assert scene.panes.acts == ["paste", "submit"]


async def test_after_an_esc_the_composer_must_be_empty_and_unchanged_for_long(scene):
    await scene.begin("human")
    await scene.enqueue()
    await scene.team.clock.advance(SILENT_S + 8)
    assert scene.panes.acts == []
    scene.panes.screen = EMPTY._replace(lines=("somebody did something", ">"))
    await scene.team.clock.advance(9)
    assert scene.panes.acts == []
    await scene.team.clock.advance(4)
    assert scene.panes.acts == ["paste", "submit"]


@pytest.mark.parametrize(
    "screen",
    [
        EMPTY._replace(lines=("welcome", "> my draft")),
        EMPTY._replace(lines=("1. yes", "2. no")),
        EMPTY._replace(lines=("Allow this?", ">")),
        EMPTY._replace(title="busy"),
    ],
    ids=["draft", "dialog", "question", "busy"],
)
async def test_nothing_is_pasted_over_anything(scene, screen):
    assert may_paste(ROW, EMPTY)
    assert may_paste(ROW, EMPTY._replace(lines=("Interrupted by you", ">")))
    assert not may_paste(ROW, screen)
    await scene.begin("ended")
    scene.panes.screen = screen
    await scene.enqueue()
    await scene.team.clock.advance(3600)
    assert scene.panes.acts == []
    assert (scene.blocked() is not None) == ("draft" in "".join(screen.lines))
    scene.panes.screen = EMPTY
    await scene.team.clock.advance(10)
    assert scene.panes.acts[:2] == ["paste", "submit"]


async def test_nothing_is_pasted_while_a_hook_tells_of_a_question(scene):
    await scene.begin("ended")
    scene.entry.finding = ScreenFinding("permission", "asks")
    await scene.enqueue()
    await scene.team.clock.advance(600)
    assert scene.panes.acts == []


async def test_a_screen_that_moves_is_a_cli_at_work(scene):
    await scene.begin("unknown")
    await scene.enqueue()
    for number in range(60):
        scene.panes.screen = EMPTY._replace(lines=(f"working {number}s", ">"))
        await scene.team.clock.advance(1)
    assert scene.panes.acts == []


async def test_a_return_that_was_lost_is_sent_once_more_and_the_line_is_not(scene):
    await scene.begin("ended")
    scene.panes.eats = 1
    scene.panes.when_submitted = scene.call
    await scene.enqueue()
    await scene.team.clock.advance(60)
    assert scene.panes.acts == ["paste", "submit", "submit"]


async def test_a_line_whose_returns_were_all_lost_is_submitted_later_and_never_pasted_twice(scene):
    await scene.begin("ended")
    scene.panes.eats = 4
    scene.panes.when_submitted = scene.call
    await scene.enqueue()
    await scene.team.clock.advance(sum(PAUSES_S) + 200)
    assert scene.panes.acts == ["paste", *["submit"] * 5]
    assert scene.blocked() is None and scene.entry.state.lease.task_id == "t-1"


async def test_a_line_that_a_daemon_has_left_in_the_composer_is_submitted_by_the_next_one(scene):
    await scene.begin("unknown")
    scene.panes.screen = EMPTY._replace(lines=("welcome", "", f"> {wake_message('a1')}"))
    scene.panes.when_submitted = scene.call
    await scene.enqueue()
    await scene.team.clock.advance(60)
    assert scene.panes.acts == ["submit"]


async def test_our_line_with_a_humans_words_behind_it_is_a_draft(scene):
    await scene.begin("ended")
    scene.panes.screen = EMPTY._replace(lines=("welcome", "", f"> {wake_message('a1')} But first"))
    await scene.enqueue()
    await scene.team.clock.advance(3600)
    assert scene.panes.acts == []
    assert scene.blocked() == "a wake waits until its input line is empty"


async def test_a_return_that_was_lost_is_seen_where_the_composer_hides_what_was_pasted(scene, monkeypatch):
    monkeypatch.setitem(ENGINES, "parker", replace(ROW, pasted="[Pasted ~1 lines]"))
    await scene.begin("ended")
    scene.panes.hides, scene.panes.eats = "[Pasted ~1 lines]", 1
    scene.panes.when_submitted = scene.call
    await scene.enqueue()
    await scene.team.clock.advance(60)
    assert scene.panes.acts == ["paste", "submit", "submit"]


async def test_an_agent_that_does_not_react_is_tried_with_growing_pauses_and_then_blocked(scene):
    await scene.begin("ended")
    await scene.enqueue()
    times = []
    for _ in range(int(sum(PAUSES_S)) + 100):
        before = scene.panes.acts.count("paste")
        await scene.team.clock.advance(1)
        if scene.panes.acts.count("paste") > before:
            times.append(scene.team.clock.seconds)
    assert len(times) == len(PAUSES_S)
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert all(gap >= pause for gap, pause in zip(gaps, PAUSES_S[1:], strict=True))
    assert scene.blocked() == "needs a human (does not react to a wake)"
    await scene.enqueue("t-2")
    await scene.team.clock.advance(3600)
    assert len(scene.panes.acts) == 2 * len(PAUSES_S)
    await scene.call()
    assert scene.blocked() is None


async def test_a_screen_that_cannot_be_seen_is_not_pasted_into(scene):
    await scene.begin("ended")
    scene.panes.screen = None
    await scene.enqueue()
    await scene.team.clock.advance(600)
    assert scene.panes.acts == []


async def lease(scene, turn, *, acked=True):
    """The agent holds a task that it does not work on any more."""
    await scene.begin("unknown")
    await scene.enqueue()
    assert (await scene.call())["command"]["task_id"] == "t-1"
    if acked:
        await ack(scene)
    scene.entry.turn = turn
    scene.entry.changed.notify()


async def test_a_task_whose_turn_an_api_error_has_ended_is_taken_up_again(scene):
    await lease(scene, "working")
    await scene.team.clock.advance(3600)
    assert scene.panes.acts == []  # it may well be at work
    scene.entry.seen = ScreenFinding("api_error", "overloaded")
    scene.waker.seen(scene.entry)
    await scene.team.clock.advance(WORKING_SILENT_S + QUIET_S + 5)
    assert scene.panes.acts[:2] == ["paste", "submit"]


async def test_an_outage_is_outlasted_with_long_pauses_and_said_meanwhile(scene):
    await lease(scene, "ended")
    scene.entry.seen = ScreenFinding("rate_limit", "quota")
    scene.waker.seen(scene.entry)
    await scene.team.clock.advance(sum(PAUSES_S) + 200)
    assert scene.panes.acts.count("paste") == len(PAUSES_S) and "human" in scene.blocked()
    await scene.team.clock.advance(3 * (TROUBLE_S + 60))
    assert scene.panes.acts.count("paste") == len(PAUSES_S) + 3
    scene.entry.seen = None
    await scene.team.clock.advance(3600)
    assert scene.panes.acts.count("paste") <= len(PAUSES_S) + 4


@pytest.mark.parametrize(("kind", "pasted"), [("api_error", True), ("rate_limit", True), ("login", False)])
def test_a_resting_cli_that_tells_of_trouble_may_be_woken_and_one_that_works_may_not(kind, pasted):
    row = replace(ROW, patterns=(ScreenPattern(kind, "^trouble", "trouble"),), busy="esc to stop")
    troubled = EMPTY._replace(lines=("trouble", ">"))
    assert may_paste(row, troubled) is pasted
    assert not may_paste(row, troubled._replace(lines=("trouble", "esc to stop", ">")))


async def test_a_task_that_an_esc_has_thrown_away_unheard_is_handed_out_again(scene):
    await lease(scene, "working", acked=False)
    await scene.team.clock.advance(WORKING_SILENT_S - 1)
    assert scene.panes.acts == []
    await scene.team.clock.advance(QUIET_S + 5)
    assert scene.panes.acts[:2] == ["paste", "submit"]
