"""Clocks that jump and machines that sleep: the wall clock is only ever written down, and nothing waits by it."""

import asyncio
import itertools
import json
import random
from datetime import timedelta

import pytest

from orchestrator.engines.table import ENGINES
from orchestrator.team.roster import delivery
from orchestrator.team.wake.parking import Parking
from tests.crash.test_world_wake import Lives
from tests.support.hook_channels import ROW, Line
from tests.support.team import FakeClock, Team, settle

DAY = 86400.0
KEYS = itertools.count()


@pytest.fixture
def anyio_backend():
    return "asyncio"


pytestmark = pytest.mark.anyio


class Jumpy(FakeClock):
    """A wall clock that is set by hand, beside a monotonic one that goes as time does."""

    wall = 0.0

    def now(self):
        return super().now() + timedelta(seconds=self.wall)


@pytest.fixture
def team(tmp_path):
    one = Team(tmp_path, Jumpy())
    yield one
    one.close()


def wait(team, timeout_s=45.0, agent="a1", epoch=1, req="w:1"):
    return asyncio.ensure_future(
        delivery.wait_for_command(team.roster, agent, epoch, timeout_s=timeout_s, age_s=0, req=req)
    )


async def enqueue(team, task_id, agent="a1"):
    return await delivery.enqueue(team.roster, agent, task_id=task_id, payload=1, req=f"m:{task_id}")


async def emit(team, kind, task_id=None, agent="a1"):
    return await delivery.emit_event(
        team.roster, agent, 1, kind=kind, task_id=task_id, payload=None, done=None, req=f"e:{next(KEYS)}"
    )


def records(team, agent="a1"):
    return [json.loads(line) for line in team.paths.outbox(agent).read_text().splitlines()]


def told(team):
    return [json.loads(line) for line in team.paths.broadcast("run-1").read_text().splitlines()]


JUMPS = [DAY, -DAY, 400 * DAY, -400 * DAY]


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_wait_ends_when_its_time_is_over_and_not_when_the_wall_clock_says_so(team, jump, faults):
    await team.agent()
    call = wait(team)
    await team.clock.advance(10)
    team.clock.wall += jump
    await team.clock.advance(34.9)
    assert not call.done()
    await team.clock.advance(0.2)
    assert (await call)["status"] == "timeout"
    call = wait(team)
    await settle()
    team.clock.wall -= jump / 2
    await enqueue(team, "t1")
    assert (await call)["command"]["task_id"] == "t1"
    faults("world")


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_lease_outlasts_every_jump_and_is_not_handed_out_again(team, jump, faults):
    await team.agent()
    await enqueue(team, "t1")
    await enqueue(team, "t2")
    assert (await wait(team))["command"]["task_id"] == "t1"
    await emit(team, "ack", "t1")
    team.clock.wall += jump
    await team.clock.advance(1)
    await emit(team, "progress", "t1")
    team.clock.wall -= 2 * jump
    assert (await emit(team, "result", "t1"))["ok"]
    assert (await emit(team, "result", "t1"))["duplicate"]
    assert (await wait(team))["command"]["task_id"] == "t2"
    kinds = [(one["type"], one.get("task_id")) for one in records(team)]
    assert kinds.count(("delivered", "t1")) == kinds.count(("result", "t1")) == kinds.count(("ack", "t1")) == 1
    assert [one["seq"] for one in records(team)] == list(range(1, len(kinds) + 1)), "seq never goes back"
    assert any(a["at"] > b["at"] for a, b in itertools.pairwise(records(team))), "at may"
    faults("world")


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_parked_agent_stays_parked_and_is_woken_once(tmp_path, monkeypatch, jump, faults):
    monkeypatch.setitem(ENGINES, "parker", ROW)
    lives = await Lives(tmp_path).first("ended")
    lives.team.clock.__class__ = Jumpy
    parking = Parking(lives.team.roster, lives.waker.seen)
    line = Line()
    parking.heard(lives.entry, line.channel, heard("Stop"))
    await settle()
    assert lives.entry.turn == "parked"
    lives.team.clock.wall += jump
    await lives.team.clock.advance(3600)
    assert (line.said, lives.pasted) == (None, 0)
    await lives.enqueue()
    assert line.said == "wake"
    lives.team.clock.wall -= 2 * jump
    await lives.team.clock.advance(1)
    assert len(line.words) == 1
    kinds = [one["type"] for one in records(lives.team)]
    assert kinds.count("parked") == kinds.count("woken") == 1
    await parking.close()
    await lives.close()
    faults("world")


def heard(event):
    from orchestrator.team.wake.parking import HookEvent

    return HookEvent(event, "s-1")


@pytest.mark.parametrize("jump", JUMPS)
async def test_what_a_crash_kept_from_the_digest_is_told_once_and_in_each_agents_order(tmp_path, jump, faults):
    team = Team(tmp_path, Jumpy())
    for name in ("a1", "a2"):
        await team.agent(name)
    await team.clock.advance(1)
    before = len(told(team))
    for number in range(3):
        for name in ("a1", "a2"):
            await enqueue(team, f"{name}-{number}", name)
            assert (await wait(team, agent=name))["status"] == "command"
            await emit(team, "result", f"{name}-{number}", name)
            team.clock.wall += jump / (1 + number)
            jump = -jump
    assert len(told(team)) == before, "the digest is a moment late, and the crash comes now"
    lives = [team]
    for _ in range(3):
        lives[-1].close()
        lives.append(Team(tmp_path, Jumpy()).load())
        await settle()
        refs = {name: [one["ref"] for one in told(team) if one["agent_id"] == name] for name in ("a1", "a2")}
        for name, found in refs.items():
            due = [one["seq"] for one in records(team, name) if one["type"] in ("starting", "ready", "result")]
            assert found == due, name
        assert [one["seq"] for one in told(team)] == list(range(1, len(told(team)) + 1))
    lives[-1].close()
    faults("world")


@pytest.mark.parametrize("seed", range(20))
async def test_any_history_under_a_mad_clock_is_the_same_as_under_a_sane_one(tmp_path, seed, faults):
    """The same calls, once with a clock that goes and once with one that jumps at every step and sleeps between."""
    histories = []
    for mad in (False, True):
        choose, jumps = random.Random(seed), random.Random(seed + 1)
        team = Team(tmp_path / str(mad), Jumpy())
        await team.agent()
        names = itertools.count()
        answers = []
        for _ in range(40):
            if mad:
                team.clock.wall += jumps.uniform(-2 * DAY, 2 * DAY)
            step = choose.choice(("enqueue", "wait", "ack", "result", "cancel", "pass"))
            lease = team.roster.agents["a1"].state.lease
            if step == "enqueue":
                answers.append(await enqueue(team, f"t{next(names)}"))
            elif step == "wait":
                call = wait(team, timeout_s=0)
                await team.clock.advance(3)
                answers.append({k: v for k, v in (await call).items() if k != "cursor"})
            elif step == "pass":
                await team.clock.advance(choose.uniform(0, 400))
            elif step == "cancel" and lease is not None:
                answers.append(
                    await delivery.cancel(team.roster, "a1", task_id=lease.task_id, req=f"c:{lease.task_id}")
                )
            elif lease is not None:
                answers.append(await emit(team, "result" if step == "cancel" else step, lease.task_id))
        answers = json.loads(json.dumps(answers).replace(str(tmp_path / str(mad)), ""))
        histories.append(([(one["type"], one.get("task_id")) for one in records(team)], answers))
        team.close()
    assert histories[0] == histories[1]
    faults("world", 40)


async def test_a_machine_that_sleeps_for_a_night_finds_everything_as_it_was(team, faults):
    """Suspended: the wall clock jumps ahead, the monotonic one has stood still."""
    await team.agent()
    await enqueue(team, "t1")
    assert (await wait(team))["command"]["task_id"] == "t1"
    await emit(team, "ack", "t1")
    before = records(team)
    team.clock.wall += 8 * 3600
    await settle()
    call = wait(team, timeout_s=1)
    await team.clock.advance(0.5)
    assert not call.done()
    assert records(team) == before
    await emit(team, "result", "t1")
    assert (await emit(team, "result", "t1"))["duplicate"]
    call.cancel()
    faults("world")
