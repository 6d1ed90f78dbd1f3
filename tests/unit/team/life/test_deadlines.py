"""Silent agents and tasks out of time: real records and a clock that moves by hand, with screens instead of tmux."""

import dataclasses
import json
from datetime import timedelta

import pytest

from orchestrator.core import record_types, records, supervision
from orchestrator.core.screens import Screen
from orchestrator.engines import table
from orchestrator.team.life.deadlines import EVERY_S, Deadlines
from orchestrator.team.roster import delivery
from orchestrator.team.roster.agent_views import meta_of, status_of
from tests.support.team import FakeClock, Team, settle

pytestmark = pytest.mark.anyio

STILL = Screen(lines=("working on it",))


class Panes:
    """What `TeamPanes` is to the looks: the screens are the test's."""

    def __init__(self):
        self.screens = {}
        self.looks = 0

    async def look(self, run, entries):
        self.looks += 1
        return {entry.agent_id: self.screens[entry.agent_id] for entry in entries if entry.agent_id in self.screens}


class Scene:
    def __init__(self, team):
        self.team = team
        self.panes = Panes()
        self.tended = []
        self.begin()

    def begin(self):
        self.deadlines = Deadlines(self.team.roster, self.panes, self.tended.append)
        self.team.roster.listeners.append(self.deadlines.seen)

    async def agent(self, name="a1", **policies):
        entry = await self.team.agent(name, **policies)
        entry.pane_id, entry.process = f"%{name}", "alive"
        self.panes.screens[name] = STILL
        return entry

    async def holds(self, entry, task="t1", timeout_s=None):
        await delivery.enqueue(
            self.team.roster, entry.agent_id, task_id=task, payload=None, req=f"c:{task}", timeout_s=timeout_s
        )
        told = await delivery.wait_for_command(
            self.team.roster, entry.agent_id, entry.state.epoch, timeout_s=0, age_s=0, req=f"w:{task}"
        )
        assert told["command"]["task_id"] == task

    async def emit(self, entry, kind, **more):
        given = {"task_id": None, "payload": None, "done": None} | more
        req = f"e:{self.team.clock.seconds}"
        return await delivery.emit_event(
            self.team.roster, entry.agent_id, entry.state.epoch, kind=kind, req=req, **given
        )

    async def passes(self, seconds):
        """Let time pass in steps in which the looks come back."""
        for _ in range(int(seconds / EVERY_S)):
            await self.team.clock.advance(EVERY_S)
        await settle()

    def types(self, agent="a1"):
        found = [json.loads(line) for line in self.team.paths.outbox(agent).read_text().splitlines()]
        for record in found:
            records.OUTBOX.validate_python(record)
        return [record["type"] for record in found]


@pytest.fixture
async def scene(tmp_path):
    team = Team(tmp_path, stall_after_s=100.0, timeout_grace_s=30.0)
    made = Scene(team)
    yield made
    await made.deadlines.close()
    team.close()


# -- stalled ------------------------------------------------------------------------------------------------------


async def test_silence_and_a_still_screen_for_so_long_is_stalled_and_a_call_ends_it(scene):
    entry = await scene.agent()
    await scene.holds(entry)
    await scene.passes(99)
    assert "stalled" not in scene.types()
    await scene.passes(25)
    assert scene.types().count("stalled") == 1
    assert status_of(entry, scene.team.clock)[0] == "stalled"
    evidence = meta_of(scene.team.roster, entry)["evidence"]
    assert evidence[0]["type"] == "stalled"
    assert evidence[0]["file"] == str(scene.team.paths.outbox("a1"))
    await scene.passes(300)
    assert scene.types().count("stalled") == 1
    await scene.emit(entry, "progress")
    assert scene.types()[-1] == "recovered"
    assert status_of(entry, scene.team.clock)[0] == "busy"
    await scene.passes(150)
    assert scene.types().count("stalled") == 2


async def test_a_screen_that_moves_is_not_stalled_and_takes_the_word_back(scene):
    entry = await scene.agent()
    await scene.holds(entry)
    for n in range(40):
        scene.panes.screens["a1"] = Screen(lines=(f"line {n}",))
        await scene.passes(10)
    assert "stalled" not in scene.types()
    await scene.passes(130)
    assert scene.types()[-1] == "stalled"
    scene.panes.screens["a1"] = Screen(lines=("goes on",))
    await scene.passes(20)
    assert scene.types()[-1] == "recovered"


async def test_an_agent_without_a_task_or_inside_a_wait_is_never_looked_at(scene):
    await scene.agent()
    await scene.passes(500)
    assert scene.panes.looks == 0


async def test_what_cannot_be_seen_is_not_called_still(scene):
    entry = await scene.agent()
    scene.panes.screens.clear()
    await scene.holds(entry)
    await scene.passes(500)
    assert "stalled" not in scene.types()


async def test_the_limit_is_the_agents_own_and_an_engine_may_ask_for_more(scene, monkeypatch):
    slow = dataclasses.replace(table.ENGINES["shell"], stall_after_s=400.0)
    quick = await scene.agent("quick", stall_after_s=20.0)
    await scene.holds(quick, "q")
    await scene.passes(30)
    assert "stalled" in scene.types("quick")
    monkeypatch.setitem(table.ENGINES, "shell", slow)
    patient = await scene.agent("patient", stall_after_s=20.0)
    await scene.holds(patient, "p")
    await scene.passes(390)
    assert "stalled" not in scene.types("patient")
    await scene.passes(60)
    assert "stalled" in scene.types("patient")


async def test_a_blocked_agent_is_explained_already(scene):
    entry = await scene.agent()
    await scene.holds(entry)
    blocked = {
        "at": "2026-01-01T00:00:00.000Z", "type": "blocked", "epoch": 1, "kind": "permission", "reason": "asks",
        "by": "orchestrator",
    }  # fmt: skip
    await scene.team.roster.commit(entry, [record_types.Draft("outbox", "blocked", blocked)])
    await scene.passes(500)
    assert "stalled" not in scene.types()


class Slept(FakeClock):
    """A machine that sleeps: the wall clock goes on, the monotonic one does not."""

    slept = 0.0

    def now(self):
        return super().now() + timedelta(seconds=self.slept)


@pytest.mark.parametrize("slept", [8 * 3600, -8 * 3600], ids=["slept or set forward", "set back"])
async def test_a_machine_that_slept_and_a_clock_that_is_set_make_nobody_stalled_or_late(tmp_path, slept):
    team = Team(tmp_path, clock=Slept(), stall_after_s=100.0)
    scene = Scene(team)
    entry = await scene.agent()
    await scene.holds(entry, timeout_s=1000.0)
    await scene.passes(50)
    team.clock.slept = slept
    await scene.passes(40)
    assert scene.types()[-1] == "delivered"
    await scene.passes(30)
    assert scene.types()[-1] == "stalled"
    await scene.deadlines.close()
    team.close()


async def test_a_daemon_that_stood_still_finds_nobody_silent_and_reads_before_it_judges(scene):
    """Stopped and continued, or starved: its timers come late, and what agents said meanwhile is unread."""
    silent, in_grace = await scene.agent(), await scene.agent("a2")
    await scene.holds(silent)
    await scene.holds(in_grace, "t2", timeout_s=60.0)
    await scene.passes(65)
    assert scene.types("a2")[-1] == "cancel_requested"
    scene.team.clock.seconds += 3600
    await scene.team.clock.advance(0)
    assert {"stalled", "error"}.isdisjoint(scene.types() + scene.types("a2"))
    await scene.emit(in_grace, "canceled")  # it lay in the socket
    await scene.passes(30)
    assert {"stalled", "error"}.isdisjoint(scene.types() + scene.types("a2"))
    assert scene.tended == []
    await scene.passes(30)
    assert scene.types()[-1] == "stalled", "what was seen before counts"


# -- out of time --------------------------------------------------------------------------------------------------


async def test_a_task_out_of_time_is_canceled_softly_then_its_agent_must_end(scene):
    entry = await scene.agent()
    await scene.holds(entry, timeout_s=60.0)
    await scene.passes(58)
    assert "cancel_requested" not in scene.types()
    await scene.passes(4)
    assert scene.types()[-1] == "cancel_requested"
    assert (await scene.emit(entry, "progress"))["cancel_requested"]
    await scene.passes(20)
    assert "error" not in scene.types()
    assert scene.tended == []
    await scene.passes(15)
    assert scene.types()[-1] == "error"
    assert scene.tended == [entry]
    assert supervision.must_end(entry.state) == "timed_out"
    assert (await scene.emit(entry, "result", task_id="t1"))["duplicate"]
    assert scene.types().count("result") == 0


async def test_an_agent_that_stops_within_the_grace_lives_on(scene):
    entry = await scene.agent()
    await scene.holds(entry, timeout_s=60.0)
    await scene.passes(65)
    await scene.emit(entry, "canceled")
    await scene.passes(200)
    assert scene.tended == []
    assert entry.state.outcomes == {"result": 0, "error": 0, "canceled": 1}


async def test_the_time_goes_on_while_no_daemon_runs_but_the_grace_begins_anew(scene, tmp_path):
    entry = await scene.agent()
    await scene.holds(entry, timeout_s=60.0)
    await scene.passes(10)
    await scene.deadlines.close()
    scene.team.close()
    later = Team(tmp_path, clock=scene.team.clock, timeout_grace_s=30.0)
    later.clock.seconds += 500
    later.load()
    again = Scene(later)
    entry = later.roster.agents["a1"]
    entry.pane_id, entry.process = "%a1", "alive"
    again.deadlines.seen(entry)
    await again.passes(2)
    assert again.types()[-1] == "cancel_requested"
    await again.passes(20)
    assert "error" not in again.types()
    await again.passes(15)
    assert again.types()[-1] == "error"
    await again.deadlines.close()
    later.close()


async def test_each_attempt_has_its_own_time_and_the_next_is_told_of_the_last(scene):
    entry = await scene.agent(max_attempts=2)
    await scene.holds(entry, timeout_s=60.0)
    artifacts = scene.team.paths.artifacts("a1")
    artifacts.mkdir(exist_ok=True)
    (artifacts / "half.txt").write_text("half of it")
    await scene.passes(50)
    at = "2026-01-01T01:00:00.000Z"
    await scene.team.roster.commit(
        entry, supervision.exited(entry.state, at=at, how="signal", reason="ended by SIGKILL", signal=9)
    )
    budget = supervision.RestartBudget("2026-01-01T00:00:00.000Z", 1.0)
    await scene.team.roster.commit(entry, supervision.after_exit(entry.state, at=at, budget=budget))
    told = await delivery.wait_for_command(scene.team.roster, "a1", 2, timeout_s=0, age_s=0, req="w:2")
    command = told["command"]
    assert command["attempt"] == 2
    assert command["previous"] == {
        "attempt": 1, "lost": "ended by SIGKILL", "artifacts": str(artifacts), "files": ["half.txt"],
    }  # fmt: skip
    assert "attempt 2" in command["note"]
    await scene.passes(58)
    assert "cancel_requested" not in scene.types()
    await scene.passes(4)
    assert scene.types()[-1] == "cancel_requested"
