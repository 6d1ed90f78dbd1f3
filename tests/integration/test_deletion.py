"""The ladder that ends a CLI, on real processes: each rung bounded, and told."""

import asyncio
import dataclasses
import itertools
import subprocess
import sys

import pytest

from orchestrator.base.clock import SystemClock
from orchestrator.base.platform import processes
from orchestrator.core import decisions
from orchestrator.core.screens import Screen
from orchestrator.engines import table
from orchestrator.team.life.deletion import DeletionLadder
from tests.support.team import Team

pytestmark = pytest.mark.anyio

EMPTY, DRAFT = Screen(lines=(">",)), Screen(lines=("> a draft",))
HEEDS = "import time; time.sleep(300)"
LEAVES = "import time; time.sleep(1.5)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(300)"


class Panes:
    """What `TeamPanes` is to the ladder; ``quits``: what a submitted line ends.

    ``moves``: each look sees another screen. ``typed``: what a human types while a line is pasted. ``eats``: this many
    carriage returns are lost.
    """

    def __init__(self, screen, quits=None, *, moves=False, typed="", eats=0):
        self.screen, self.quits, self.moves, self.typed, self.pasted = screen, quits, moves, typed, []
        self.eats = eats
        self.looks = itertools.count()

    async def look_at_agent(self, entry):
        return self.screen._replace(title=f"look {next(self.looks)}") if self.moves else self.screen

    async def paste(self, entry, line):
        self.pasted.append(line)
        self.screen = self.screen._replace(lines=(f"> {self.typed}{line}",))
        return True

    async def submit(self, entry):
        self.eats -= 1
        if self.quits is not None and self.eats < 0:
            self.quits.kill()
            self.quits.wait()
        return True


@pytest.fixture
def started():
    made = []

    def start(program):
        one = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        if program == DEAF:
            assert one.stdout.readline()
        made.append(one)
        return one

    yield start
    for one in made:
        one.kill()
        one.wait()
        one.stdout.close()


@pytest.fixture
async def ladder(tmp_path, monkeypatch):
    """(the ladder over some panes, an agent that was asked to stop); short graces, real time."""
    row = dataclasses.replace(
        table.ENGINES["shell"],
        quit="/quit",
        composer=lambda screen: "empty" if screen.lines[-1:] == EMPTY.lines else "draft",
        paste_gap_s=0.0,
        busy="at work",
    )
    monkeypatch.setitem(table.ENGINES, "shell", row)
    team = Team(tmp_path, stop_grace_s=0.05, quit_grace_s=0.05, kill_grace_s=60.0)
    entry = await team.agent()

    async def make(panes, *, force=False, kill_grace_s=60.0, **graces):
        team.config = team.config.model_copy(update={"kill_grace_s": kill_grace_s, **graces})
        at = "2026-01-01T00:00:00.000Z"
        await team.roster.commit(entry, decisions.stop(entry.state, force=force, req="c:s", at=at))
        team.roster.clock = SystemClock()
        return DeletionLadder(team.roster, panes), entry

    yield make
    team.close()


def names(rungs):
    return [rung.rung for rung in rungs]


async def test_a_cli_that_heeds_nothing_gets_every_rung_in_order(ladder, started):
    one = started(DEAF)
    panes = Panes(EMPTY)
    deletion, entry = await ladder(panes, kill_grace_s=0.05)
    assert names(await deletion.gently(entry, one.pid)) == ["stop", "quit", "SIGTERM", "SIGKILL"]
    assert panes.pasted == ["/quit"]
    assert one.wait() == -9


async def test_a_cli_that_quits_by_its_own_command_is_not_killed(ladder, started):
    one = started(DEAF)
    deletion, entry = await ladder(Panes(EMPTY, quits=one))
    assert names(await deletion.gently(entry, one.pid)) == ["stop", "quit"]


async def test_a_quit_command_with_a_humans_words_before_it_is_not_submitted(ladder, started):
    one = started(HEEDS)
    panes = Panes(EMPTY, quits=one, typed="wait, ")
    deletion, entry = await ladder(panes)
    assert names(await deletion.gently(entry, one.pid)) == ["stop", "SIGTERM"]
    assert panes.pasted == ["/quit"]


async def test_a_return_that_was_lost_is_sent_once_more(ladder, started):
    one = started(DEAF)
    panes = Panes(EMPTY, quits=one, eats=1)
    deletion, entry = await ladder(panes, quit_grace_s=3.0)
    assert names(await deletion.gently(entry, one.pid)) == ["stop", "quit"]
    assert panes.pasted == ["/quit"]


async def test_nothing_is_typed_over_a_draft(ladder, started):
    one = started(HEEDS)
    panes = Panes(DRAFT)
    deletion, entry = await ladder(panes)
    assert names(await deletion.gently(entry, one.pid)) == ["stop", "SIGTERM"]
    assert panes.pasted == []


async def told(ladder, panes, turn, *, hooks=True):
    """An agent that was told to stop, with long graces; how its CLI was ended."""
    deletion, entry = await ladder(panes, stop_grace_s=3600.0, quit_grace_s=60.0)
    entry.told_stop, entry.turn, entry.hook_epoch = True, turn, entry.state.epoch if hooks else 0
    return deletion, entry


async def test_a_cli_that_waits_for_a_human_after_its_stop_is_not_waited_for(ladder, started):
    one = started(DEAF)
    panes = Panes(EMPTY, quits=one)
    deletion, entry = await told(ladder, panes, "ended")
    assert names(await asyncio.wait_for(deletion.gently(entry, one.pid), 60)) == ["stop", "quit"]


async def test_one_without_hooks_is_known_by_a_still_screen_with_an_empty_input_line(ladder, started):
    one = started(DEAF)
    deletion, entry = await told(ladder, Panes(EMPTY, quits=one), "unknown", hooks=False)
    assert names(await asyncio.wait_for(deletion.gently(entry, one.pid), 60)) == ["stop", "quit"]


@pytest.mark.parametrize(
    ("panes", "turn", "hooks"),
    [
        (Panes(EMPTY), "working", True),
        (Panes(EMPTY), "human", True),
        (Panes(DRAFT), "ended", True),
        (Panes(EMPTY._replace(lines=("at work", *EMPTY.lines))), "ended", True),
        (Panes(EMPTY, moves=True), "ended", True),
        (Panes(EMPTY, moves=True), "unknown", False),
        (Panes(None), "ended", True),
    ],
)
async def test_a_cli_that_may_still_work_keeps_its_grace(ladder, started, panes, turn, hooks):
    one = started(LEAVES)
    deletion, entry = await told(ladder, panes, turn, hooks=hooks)
    ending = asyncio.ensure_future(deletion.gently(entry, one.pid))
    assert names(await asyncio.wait_for(ending, 60)) == ["stop"]
    assert (panes.pasted, one.wait()) == ([], 0)


async def test_one_that_was_not_told_yet_keeps_its_grace(ladder, started):
    one = started(LEAVES)
    deletion, entry = await told(ladder, Panes(EMPTY), "ended")
    entry.told_stop = False
    assert names(await asyncio.wait_for(deletion.gently(entry, one.pid), 60)) == ["stop"]


async def test_force_skips_the_asking(ladder, started):
    one = started(HEEDS)
    panes = Panes(EMPTY)
    deletion, entry = await ladder(panes, force=True)
    assert names(await deletion.gently(entry, one.pid)) == ["SIGTERM"]
    assert panes.pasted == []


async def test_a_process_that_is_gone_needs_no_rung(ladder, started):
    one = started(HEEDS)
    one.kill()
    one.wait()
    deletion, entry = await ladder(Panes(EMPTY))
    assert await deletion.gently(entry, one.pid) == []


async def test_how_a_process_ended_is_known_where_the_kernel_tells(started):
    one = started("import sys; sys.exit(7)")
    waiting = processes.ended(one.pid)
    one.wait()
    status = await waiting
    assert status is None or status >> 8 == 7
