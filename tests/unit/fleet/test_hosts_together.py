"""Two and three hosts on a model of the database: what is asked at one happens at another, and moves with its host."""

import asyncio
import functools
from contextlib import asynccontextmanager

import pytest

from orchestrator.base.clock import SystemClock
from orchestrator.fleet.settings import FleetSettings
from orchestrator.team.roster import delivery
from orchestrator.team.roster.fleet_link import FleetCreation
from tests.support.fleet_hosts import FleetHost
from tests.support.fleet_model import FleetModel, ModelSession

BODY = {"name": "worker", "role": "worker", "engine": "shell", "cwd": ".", "policies": {}}


class FastClock(SystemClock):
    """The real clock, as many times faster: leases of seconds end within the test."""

    def __init__(self, times=20.0):
        self.times = times
        self._began = super().monotonic()

    def monotonic(self):
        return self._began + (super().monotonic() - self._began) * self.times

    def awake(self):
        return self.monotonic()

    def timer(self, delay, callback):
        return super().timer(delay / self.times, callback)


@asynccontextmanager
async def fleet(tmp_path, *names, clock=None):
    clock = clock or FastClock()
    model = FleetModel(clock)
    hosts = {}
    for name in names:
        model.add_host("shop", name)
        settings = FleetSettings(dsn="", project="shop", host=name)
        host = FleetHost(tmp_path / name, name, clock, ModelSession(model, "shop", name), settings)
        host.start()
        await host.join()
        hosts[name] = host
    try:
        yield model, hosts
    finally:
        for host in hosts.values():
            await host.stop()


async def until(look, seconds=20.0):
    """Wait for a fact, bounded."""
    async with asyncio.timeout(seconds):
        while not (value := look()):
            await asyncio.sleep(0.01)
    return value


async def created(home, host, on_host_lost="wait", base="worker", req="c:1"):
    (agent_id,) = await home.link.create(
        "run-1", [FleetCreation(base, host, "shell", on_host_lost, req, {**BODY, "name": base})]
    )
    assert isinstance(agent_id, str), agent_id
    return agent_id


def on_a_loop(test):
    """The coroutine test as a plain one."""

    @functools.wraps(test)
    def run(*arguments, **named):
        asyncio.run(test(*arguments, **named))

    return run


@pytest.mark.parametrize("where", ["a", "b"])
@on_a_loop
async def test_a_task_posted_at_its_home_is_done_at_its_owner_and_told_at_home(tmp_path, where):
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        home, owner = hosts["a"], hosts[where]
        await home.supervisor.team_panes.run_of_fleet("run-1", "")
        agent_id = await created(home, where)
        await until(lambda: (agent_id, 1) in owner.supervisor.launched)
        answer = await delivery.enqueue(home.roster, agent_id, task_id="t1", payload={"n": 1}, req="c:2")
        assert answer["position"] == 1 and answer["state"] == "queued"
        entry = owner.roster.agents[agent_id]
        command = await delivery.wait_for_command(
            owner.roster, agent_id, 1, timeout_s=30, age_s=0, req="w:1"
        )
        assert command["command"]["task_id"] == "t1"
        await delivery.emit_event(
            owner.roster, agent_id, 1, kind="result", task_id="t1", payload="done", done=None, req="w:2"
        )
        assert entry.state.ref == 2
        seen = await until(lambda: home.entry(agent_id).state.ended("t1"))
        assert seen.outcome == "result"
        run = home.roster.runs["run-1"]
        await until(lambda: any(record["type"] == "result" for record in run.journal.tail(20, 100_000)))
