"""The last line of each screen: asked of tmux while somebody looks, once per run and round."""

import asyncio
from pathlib import Path

import pytest

from orchestrator.base.errors import Environment
from orchestrator.core.screens import Screen
from orchestrator.team.panes.pane_views import FRESH_S, PaneViews
from orchestrator.team.people.screen_lines import EVERY_S, ScreenLines
from tests.support.team import Team, settle

pytestmark = pytest.mark.anyio


class Panes:
    """Screens as a test says; every question that would be one of tmux is kept."""

    def __init__(self) -> None:
        self.screens: dict[str, list[str]] = {}
        self.asked: list[list[str]] = []
        self.error: Exception | None = None

    async def texts(self, _run, entries):
        self.asked.append([entry.agent_id for entry in entries])
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return {entry.agent_id: self.screens[entry.agent_id] for entry in entries if entry.agent_id in self.screens}


class Lines:
    def __init__(self, root: Path) -> None:
        self.team, self.panes = Team(root).load(), Panes()
        self.lines = ScreenLines(self.team.roster, self.panes)
        self.changed: list[str] = []
        self.lines.changed = lambda entry: self.changed.append(entry.agent_id)

    async def agent(self, name, *shown):
        entry = await self.team.agent(name)
        entry.pane_id = f"%{name}"
        self.panes.screens[name] = list(shown)
        return entry


@pytest.fixture
def lot(tmp_path):
    made = Lines(tmp_path)
    yield made
    made.team.close()


async def test_who_looks_once_sees_it_and_not_sooner_again_than_a_face(lot):
    entry = await lot.agent("a1", "hello")
    await lot.lines.glance()
    assert lot.lines.line_of(entry) == "hello"
    await lot.lines.glance()
    assert len(lot.panes.asked) == 1
    await lot.team.clock.advance(EVERY_S)
    assert len(lot.panes.asked) == 1
    await lot.lines.glance()
    assert len(lot.panes.asked) == 2


async def test_while_nobody_looks_nothing_is_asked(lot):
    entry = await lot.agent("a1", "hello")
    await lot.team.clock.advance(10 * EVERY_S)
    assert lot.panes.asked == [] and lot.lines.line_of(entry) == ""
    lot.lines.watched(True)
    await settle()
    assert lot.lines.line_of(entry) == "hello"
    lot.lines.watched(False)
    await lot.team.clock.advance(10 * EVERY_S)
    assert len(lot.panes.asked) == 1
    assert lot.lines.line_of(entry) == "hello"


async def test_all_agents_of_a_run_are_asked_for_at_once_and_no_sooner_than_said(lot):
    for number in range(5):
        await lot.agent(f"a{number}", "x")
    lot.lines.watched(True)
    lot.lines.watched(True)
    await lot.team.clock.advance(EVERY_S - 0.01)
    assert lot.panes.asked == [["a0", "a1", "a2", "a3", "a4"]]
    await lot.team.clock.advance(EVERY_S)
    assert len(lot.panes.asked) == 2
    assert sorted(lot.changed) == ["a0", "a1", "a2", "a3", "a4"]  # once: nothing has changed since


async def test_a_line_is_the_last_with_text_printable_and_masked(lot):
    secret = "sk-ant-0123456789abcdefghij"
    entry = await lot.agent("a1", "first", f"key {secret} \u202e\x1b]0;x\x07 done", "────────", "  ", "")
    lot.lines.watched(True)
    await settle()
    line = lot.lines.line_of(entry)
    assert line.startswith("key ") and line.isprintable() and secret not in line
    lot.panes.screens["a1"] = ["", "─"]
    await lot.team.clock.advance(EVERY_S)
    assert lot.lines.line_of(entry) == ""


async def test_a_parked_agent_is_looked_at_once(lot):
    entry = await lot.agent("a1", "parked")
    entry.turn = "parked"
    lot.lines.watched(True)
    await lot.team.clock.advance(3 * EVERY_S)
    assert len(lot.panes.asked) == 1
    entry.turn, entry.calls = "working", entry.calls + 1
    await lot.team.clock.advance(EVERY_S)
    entry.turn = "parked"
    lot.panes.screens["a1"] = ["parked again"]
    await lot.team.clock.advance(3 * EVERY_S)
    assert len(lot.panes.asked) == 3
    assert lot.lines.line_of(entry) == "parked again"


async def test_an_agent_without_a_pane_has_no_line_and_one_that_gc_removed_is_forgotten(lot):
    entry = await lot.agent("a1", "x")
    lot.lines.watched(True)
    await settle()
    entry.pane_id = None
    assert lot.lines.line_of(entry) == ""
    lot.team.roster.agents.pop("a1")
    await lot.team.clock.advance(EVERY_S)
    assert lot.lines._lines == {} and len(lot.panes.asked) == 1


async def test_a_look_that_fails_is_followed_by_the_next(lot):
    entry = await lot.agent("a1", "x")
    lot.panes.error = RuntimeError("a bug")
    lot.lines.watched(True)
    await settle()
    lot.panes.error = None
    await lot.team.clock.advance(EVERY_S)
    assert lot.lines.line_of(entry) == "x"
    await lot.lines.close()
    await lot.team.clock.advance(EVERY_S)
    assert len(lot.panes.asked) == 2


class Looks(Panes):
    """Counts what is asked of tmux about one agent; without ``screen`` its pane cannot be seen."""

    screen = True

    async def look_at_agent(self, entry):
        self.asked.append([entry.agent_id])
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return Screen("", ("hello",), "", 0, 0) if self.screen else None

    async def history(self, _run, agent_id, count):
        self.asked.append([agent_id, count])
        return ["before", "hello"]

    async def tagged(self, _run):
        self.asked.append(["tagged"])
        return {"a1": type("Pane", (), {"pane_id": "%1"})}


@pytest.fixture
async def looks(tmp_path):
    team, panes = Team(tmp_path).load(), Looks()
    (await team.agent("a1")).pane_id = "%1"
    yield team, panes, PaneViews(team.roster, panes)
    team.close()


async def test_many_faces_that_show_one_agent_ask_for_its_screen_once_a_second(looks):
    team, panes, views = looks
    answers = await asyncio.gather(*(views.peek(agent_id="a1") for _ in range(20)))
    assert answers == [{"agent_id": "a1", "tmux_pane_id": "%1", "lines": ["hello"]}] * 20
    assert panes.asked == [["a1"]], "one process of tmux"
    await team.clock.advance(FRESH_S)
    panes.error = Environment("no_tmux", "gone")
    for _ in range(2):
        with pytest.raises(Environment):
            await views.peek(agent_id="a1")
    assert len(panes.asked) == 2


async def test_the_history_of_a_pane_is_asked_for_once_a_second_too(looks):
    team, panes, views = looks
    answers = await asyncio.gather(*(views.peek(agent_id="a1", lines=50) for _ in range(20)))
    assert {tuple(answer["lines"]) for answer in answers} == {("before", "hello")}
    assert panes.asked.count(["a1", 50]) == 1
    assert (await views.peek(agent_id="a1"))["lines"] == ["hello"]
    await team.clock.advance(FRESH_S)
    await views.peek(agent_id="a1", lines=50)
    assert panes.asked.count(["a1", 50]) == 2


async def test_a_pane_that_cannot_be_seen_has_an_empty_screen(looks):
    _, panes, views = looks
    panes.screen = False
    assert await views.peek(agent_id="a1") == {"agent_id": "a1", "tmux_pane_id": "%1", "lines": []}
