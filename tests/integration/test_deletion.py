"""The ladder that ends a CLI, on real processes: each rung bounded, and told."""

import dataclasses
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
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(300)"


class Panes:
    """What `TeamPanes` is to the ladder; ``quits``: what a submitted line ends."""

    def __init__(self, screen, quits=None):
        self.screen, self.quits, self.pasted = screen, quits, []

    async def look_at_agent(self, entry):
        return self.screen

    async def paste(self, entry, line):
        self.pasted.append(line)
        return True

    async def submit(self, entry):
        if self.quits is not None:
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
        composer=lambda screen: "empty" if screen.lines == EMPTY.lines else "draft",
        paste_gap_s=0.0,
    )
    monkeypatch.setitem(table.ENGINES, "shell", row)
    team = Team(tmp_path, stop_grace_s=0.05, quit_grace_s=0.05, kill_grace_s=60.0)
    entry = await team.agent()

    async def make(panes, *, force=False, kill_grace_s=60.0):
        team.config = team.config.model_copy(update={"kill_grace_s": kill_grace_s})
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


async def test_nothing_is_typed_over_a_draft(ladder, started):
    one = started(HEEDS)
    panes = Panes(DRAFT)
    deletion, entry = await ladder(panes)
    assert names(await deletion.gently(entry, one.pid)) == ["stop", "SIGTERM"]
    assert panes.pasted == []


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
