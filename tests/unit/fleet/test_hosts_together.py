"""Two and three hosts on a model of the database: what is asked at one happens at another, and moves with its host."""

import asyncio
import functools
import shutil
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import pairwise

import pytest

from orchestrator.base.clock import SystemClock, rfc3339
from orchestrator.base.errors import Conflict, Environment, NotReady
from orchestrator.config.fleet_values import FleetAcceptance
from orchestrator.config.keys import Config
from orchestrator.core import supervision
from orchestrator.fleet import leases, taking
from orchestrator.fleet.database_functions import ShipAnswer
from orchestrator.fleet.settings import FleetSettings
from orchestrator.team.recovery.verification import verify
from orchestrator.team.roster import delivery, mirrored_logs
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.agent_views import meta_of
from orchestrator.team.roster.fleet_link import FleetCreation
from tests.support.fleet_hosts import FleetHost
from tests.support.fleet_model import FleetModel, ModelSession

BODY = {"name": "worker", "role": "worker", "engine": "shell", "cwd": ".", "policies": {}}


class FastClock(SystemClock):
    """The real clock, as many times faster: leases of seconds end within the test.

    While this process stands still it goes on by little more than a beat: all hosts are in it, and none could renew its
    lease.
    """

    def __init__(self, times=20.0):
        self.times = times
        self._real = self._fast = self._began = super().monotonic()
        self._began_at = super().now()

    def monotonic(self):
        real = super().monotonic()
        self._fast += min((real - self._real) * self.times, 2.5)  # a beat comes every 2 s
        self._real = real
        return self._fast

    def now(self):
        return self._began_at + timedelta(seconds=self.monotonic() - self._began)

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
        settings = FleetSettings(dsn="", project="shop", host=name, accept=FleetAcceptance(hosts=["*"]))
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
        while not (value := look()):  # noqa: ASYNC110  (facts of several hosts, without one signal)
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
    async with fleet(tmp_path, "a", "b") as (_model, hosts):
        home, owner = hosts["a"], hosts[where]
        await home.supervisor.team_panes.run_of_fleet("run-1", "")
        agent_id = await created(home, where)
        await until(lambda: (agent_id, 1) in owner.supervisor.launched)
        answer = await delivery.enqueue(home.roster, agent_id, task_id="t1", payload={"n": 1}, req="c:2")
        assert answer["position"] == 1 and answer["state"] == "queued"
        entry = owner.roster.agents[agent_id]
        command = await delivery.wait_for_command(owner.roster, agent_id, 1, timeout_s=30, age_s=0, req="w:1")
        assert command["command"]["task_id"] == "t1"
        await delivery.emit_event(
            owner.roster, agent_id, 1, kind="result", task_id="t1", payload="done", done=None, req="w:2"
        )
        assert entry.state.ref == 2
        seen = await until(lambda: home.entry(agent_id).state.ended("t1"))
        assert seen.outcome == "result"
        run = home.roster.runs["run-1"]
        await until(lambda: any(record["type"] == "result" for record in run.journal.tail(20, 100_000)))


async def deliver(owner, agent_id, task_id, epoch=1):
    """Hand the task out to its agent."""
    answer = await delivery.wait_for_command(
        owner.roster, agent_id, epoch, timeout_s=60, age_s=0, req=f"w:{task_id}:{epoch}"
    )
    assert answer["status"] == "command", answer
    assert answer["command"].get("task_id") == task_id
    return answer["command"]


async def report(owner, agent_id, task_id, kind="result", epoch=1, payload="done"):
    return await delivery.emit_event(
        owner.roster,
        agent_id,
        epoch,
        kind=kind,
        task_id=task_id,
        payload=payload,
        done=None,
        req=f"e:{task_id}:{kind}:{payload}",
    )


@on_a_loop
async def test_agents_of_any_host_are_spread_and_a_resent_creation_makes_none_twice(tmp_path):
    async with fleet(tmp_path, "a", "b", "c") as (_, hosts):
        home = hosts["a"]
        await home.supervisor.team_panes.run_of_fleet("run-1", "")
        wanted = [
            FleetCreation(f"w{n}", "any", "shell", "wait", f"c:1#{n}", {**BODY, "name": f"w{n}"}) for n in range(20)
        ]
        first = await home.link.create("run-1", wanted)
        again = await home.link.create("run-1", wanted)
        assert first == again == [f"w{n}" for n in range(20)]
        await until(lambda: sorted(len(host.supervisor.launched) for host in hosts.values()) == [6, 7, 7])
        await until(lambda: len(home.roster.members("run-1")) == 20)


@on_a_loop
async def test_a_canceled_task_of_a_remote_agent_is_never_handed_out_and_a_deletion_ends_the_rest(tmp_path):
    async with fleet(tmp_path, "a", "b") as (_, hosts):
        home, owner = hosts["a"], hosts["b"]
        await home.supervisor.team_panes.run_of_fleet("run-1", "")
        agent_id = await created(home, "b")
        for n in (1, 2, 3):
            await delivery.enqueue(home.roster, agent_id, task_id=f"t{n}", payload=n, req=f"c:t{n}")
        await until(lambda: agent_id in owner.roster.agents)
        await delivery.cancel(home.roster, agent_id, task_id="t1", req="c:x1")
        await until(lambda: home.entry(agent_id).state.ended("t1"))
        await deliver(owner, agent_id, "t2")
        await home.link.stop(agent_id, force=False, req="c:stop")
        await until(lambda: home.entry(agent_id).state.life == "deleted")
        assert {task: home.entry(agent_id).state.ended(task).outcome for task in ("t1", "t2", "t3")} == dict.fromkeys(
            ("t1", "t2", "t3"), "canceled"
        )


@on_a_loop
async def test_an_owner_that_was_killed_takes_what_was_posted_meanwhile(tmp_path):
    async with fleet(tmp_path, "a", "b") as (_model, hosts):
        home, owner = hosts["a"], hosts["b"]
        await home.supervisor.team_panes.run_of_fleet("run-1", "")
        agent_id = await created(home, "b")
        await until(lambda: (agent_id, 1) in owner.supervisor.launched)
        await owner.crash()
        for n in (1, 2, 3):
            await delivery.enqueue(home.roster, agent_id, task_id=f"t{n}", payload=n, req=f"c:t{n}")
        owner.start()
        await owner.join()
        for n in (1, 2, 3):
            await deliver(owner, agent_id, f"t{n}")
            await report(owner, agent_id, f"t{n}")
        await until(lambda: all(home.entry(agent_id).state.ended(f"t{n}") for n in (1, 2, 3)))


@on_a_loop
async def test_posts_are_taken_in_full_rounds_and_an_empty_one_is_not_asked_for(tmp_path, monkeypatch):
    """A round that is not full has taken all: another statement for each task would find nothing."""
    monkeypatch.setattr(taking, "POSTS_A_ROUND", 2)
    async with fleet(tmp_path, "a", "b") as (_model, hosts):
        home, owner = hosts["a"], hosts["b"]
        await home.supervisor.team_panes.run_of_fleet("run-1", "")
        agent_id = await created(home, "b")
        await until(lambda: (agent_id, 1) in owner.supervisor.launched)
        await owner.crash()
        for n in range(5):
            await delivery.enqueue(home.roster, agent_id, task_id=f"t{n}", payload=n, req=f"c:t{n}")
        owner.start()
        whole, rounds = owner.database.take, []

        async def take(after, each=2):
            posts = await whole(after, each)
            rounds.append(len(posts))
            return posts

        monkeypatch.setattr(owner.database, "take", take)
        await owner.member.begin()
        await owner.member.taking.take([agent_id])
        assert rounds == [2, 2, 1]
        assert owner.entry(agent_id).state.ref == 6


@on_a_loop
async def test_renewals_that_are_asked_for_are_made_together(tmp_path, monkeypatch):
    """A busy home hears of a change of each host every second, and a renewal shows all of them."""
    async with fleet(tmp_path, "a", clock=FastClock(4)) as (_model, hosts):
        lease, clock = hosts["a"].member.lease, hosts["a"].clock
        whole, began = lease.renew, []

        async def renew(*, fresh):
            began.append(clock.monotonic())
            return await whole(fresh=fresh)

        monkeypatch.setattr(lease, "renew", renew)
        async with asyncio.timeout(20.0):
            while len(began) < 5:
                lease.renew_soon()
                await asyncio.sleep(0)
        assert min(later - earlier for earlier, later in pairwise(began)) > leases.SOON_S / 2


@on_a_loop
async def test_a_lost_host_gives_its_agent_and_its_task_to_another_and_a_returned_one_keeps_nothing(tmp_path):
    async with fleet(tmp_path, "a", "b", "c") as (model, hosts):
        home, lost = hosts["a"], hosts["b"]
        await home.supervisor.team_panes.run_of_fleet("run-1", "")
        agent_id = await created(home, "b", on_host_lost="move")
        for n in (1, 2):
            await delivery.enqueue(home.roster, agent_id, task_id=f"t{n}", payload=n, req=f"c:t{n}")
        await until(lambda: (agent_id, 1) in lost.supervisor.launched)
        await deliver(lost, agent_id, "t1")
        await until(lambda: home.entry(agent_id).state.lease)
        model.cut("shop", "b")
        new = await until(
            lambda: next((h for h in (home, hosts["c"]) if (agent_id, 2) in h.supervisor.launched), None), 30
        )
        # The lost owner lives on, cut off: it hands out nothing more, and its result is provisional.
        answer = await report(lost, agent_id, "t1")
        assert answer["provisional"]
        answer = await delivery.wait_for_command(lost.roster, agent_id, 1, timeout_s=5, age_s=0, req="w:late")
        assert answer["status"] == "timeout"
        command = await deliver(new, agent_id, "t1", epoch=2)
        assert command["attempt"] == 2
        for n in (1, 2):
            if n == 2:
                await deliver(new, agent_id, "t2", epoch=2)
            await report(new, agent_id, f"t{n}", epoch=2)
        await until(lambda: all(home.entry(agent_id).state.ended(f"t{n}") for n in (1, 2)))
        model.heal("shop", "b")
        await until(lambda: agent_id in lost.supervisor.evicted)
        await until((lost.root / ".agents" / "agents" / f"{agent_id}.fenced-1").is_dir)
        late = await hosts["a"].database.late_lines(agent_id, 0, 99, 1 << 20)
        assert any('"result"' in line.line for line in late)


@on_a_loop
async def test_a_home_whose_disk_refuses_to_set_an_agent_aside_shows_it_under_its_id_later(tmp_path, monkeypatch):
    """Under another id the broadcast would tell everything of it once more."""
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        home, new = hosts["a"], hosts["b"]
        agent_id = await created_and_launched(home, home, on_host_lost="move")
        fence_off, refused = mirrored_logs.fence_off, []

        def refuse_once(*named):
            if not refused:
                refused.append(named)
                raise Environment("disk_full", "the disk is full")
            return fence_off(*named)

        monkeypatch.setattr(mirrored_logs, "fence_off", refuse_once)
        await until(lambda: model.tables.projects["shop"].agents[agent_id].logs["outbox"])
        model.cut("shop", "a")
        await until(lambda: (agent_id, 2) in new.supervisor.launched)
        model.heal("shop", "a")
        await until(lambda: agent_id in home.roster.replicas)
        assert refused
        assert list(home.roster.replicas) == [agent_id]


@on_a_loop
async def test_what_a_host_knew_of_an_agents_logs_before_it_moved_away_is_forgotten_when_it_comes_back(tmp_path):
    """A daemon may have died between the renaming of the directory and the end of its checkpoint."""
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        other, owner = hosts["a"], hosts["b"]
        agent_id = await created_and_launched(other, owner, on_host_lost="move")
        await delivery.enqueue(other.roster, agent_id, task_id="t1", payload=1, req="c:t1")
        await deliver(owner, agent_id, "t1")
        await until(lambda: other.entry(agent_id).state.unfinished)
        model.cut("shop", "b")
        for n in range(30):
            await report(owner, agent_id, "t1", kind="progress", payload=n)
        await owner.stop()
        mirrored_logs.fence_off(owner.roster.paths, agent_id, 1)
        await until(lambda: (agent_id, 2) in other.supervisor.launched)
        model.drain("shop", "a")
        model.heal("shop", "b")
        owner.start()
        await owner.join()
        await other.crash()
        await until(lambda: (agent_id, 3) in owner.supervisor.launched, 60)
        assert not owner.roster.corrupt


@on_a_loop
async def test_a_takeover_that_goes_on_after_a_refusal_knows_what_the_lost_owner_may_have_handed_out(tmp_path):
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        new, lost = hosts["a"], hosts["b"]
        agent_id = await created_and_launched(new, lost, on_host_lost="move")
        await delivery.enqueue(new.roster, agent_id, task_id="t1", payload=1, req="c:t1")
        await deliver(lost, agent_id, "t1")
        await report(lost, agent_id, "t1")
        await until(lambda: new.entry(agent_id).state.ended("t1"))
        lost.member.shipping.held[agent_id] = None
        await delivery.enqueue(new.roster, agent_id, task_id="t2", payload=2, req="c:t2")
        await deliver(lost, agent_id, "t2")
        model.cut("shop", "b")
        take, refused = new.member.taking.take, []

        async def refuse_once(names):
            if agent_id in names and not refused:
                refused.append(names)
                raise Environment("io_failed", "the disk refuses")
            await take(names)

        new.member.taking.take = refuse_once
        await until(lambda: (agent_id, 2) in new.supervisor.launched, 60)
        assert refused
        command = await deliver(new, agent_id, "t2", epoch=2)
        assert command["attempt"] == 2


@on_a_loop
async def test_a_master_elsewhere_takes_a_run_and_an_older_position_is_refused(tmp_path):
    async with fleet(tmp_path, "a", "b") as (_, hosts):
        old, new = hosts["a"], hosts["b"]
        await old.supervisor.team_panes.run_of_fleet("run-1", "")
        near, far = await created(old, "a", base="near"), await created(old, "b", base="far", req="c:9")
        for owner, agent_id in ((old, near), (new, far)):
            await until(lambda owner=owner, agent_id=agent_id: (agent_id, 1) in owner.supervisor.launched)
            await delivery.enqueue(old.roster, agent_id, task_id="t1", payload=1, req=f"c:{agent_id}")
            await deliver(owner, agent_id, "t1")
            await report(owner, agent_id, "t1")
        await until(lambda: old.entry(far).state.ended("t1"))
        before = await delivery.broadcast_read(
            old.roster, old.roster.runs["run-1"], since_seq=0, max_events=100, wait_s=0
        )
        taken = await new.member.homes.take("run-1")
        assert taken["gen"] == 2
        await until(lambda: near in new.roster.replicas and new.entry(near).state.ended("t1"))
        run = new.roster.runs["run-1"]
        await until(lambda: sum(r["type"] == "result" for r in run.journal.tail(100, 1 << 20)) == 2)
        await until(lambda: old.roster.runs["run-1"].file.get("home") == "b")
        with pytest.raises(Conflict) as refused:
            await delivery.broadcast_read(old.roster, old.roster.runs["run-1"], since_seq=0, max_events=9, wait_s=0)
        assert refused.value.code == "not_home"
        with pytest.raises(Conflict) as refused:
            await delivery.broadcast_read(
                new.roster, run, since_seq=before["last_seq"], max_events=9, wait_s=0, gen=1
            )
        assert refused.value.code == "cursor_old"
        page = await delivery.broadcast_read(new.roster, run, since_seq=0, max_events=100, wait_s=0)
        assert page["gen"] == 2


@on_a_loop
async def test_what_a_call_leaves_open_is_accepted_only_as_the_owner_decides_it(tmp_path):
    async with fleet(tmp_path, "a", "b") as (_, hosts):
        home, owner = hosts["a"], hosts["b"]
        await home.supervisor.team_panes.run_of_fleet("run-1", "")
        everything = Config(approval="all")
        owner.roster.config = home.roster.config = lambda: everything
        agent_id = await created(home, "b")
        own_id = await created(home, "a", base="own", req="c:2")
        await until(lambda: agent_id in owner.roster.agents and own_id in home.roster.agents)
        await until(lambda: owner.roster.agents[agent_id].state.life == "failed")
        await until(lambda: home.roster.agents[own_id].state.spec.get("approval") == "all")
        assert agent_id not in {name for name, _ in owner.supervisor.launched}


async def created_and_launched(home, owner, **more):
    await home.supervisor.team_panes.run_of_fleet("run-1", "")
    agent_id = await created(home, owner.host, **more)
    await until(lambda: (agent_id, 1) in owner.supervisor.launched)
    return agent_id


@on_a_loop
async def test_an_agent_is_held_no_longer_than_the_database_is_away(tmp_path, monkeypatch):
    """The question whose it is had no answer once: nothing else would ask again, and it would take no post."""
    async with fleet(tmp_path, "a") as (_model, hosts):
        home = hosts["a"]
        agent_id = await created_and_launched(home, home)
        whole, asked = home.database.ownership, []

        async def ownership(agents):
            asked.append(agents)
            if len(asked) == 1:
                raise NotReady("fleet_away", "the database is away")
            return await whole(agents)

        monkeypatch.setattr(home.database, "ownership", ownership)
        home.member.moves.refused_mirror(agent_id, ShipAnswer(agent_id, "fenced", 0, 0, 1, "a"))
        await until(lambda: asked)
        await until(lambda: not home.member.moves.held(agent_id))
        await delivery.enqueue(home.roster, agent_id, task_id="t1", payload=1, req="c:t1")
        await deliver(home, agent_id, "t1")


@on_a_loop
async def test_only_durable_records_are_shipped(tmp_path):
    async with fleet(tmp_path, "a") as (model, hosts):
        home = hosts["a"]
        agent_id = await created_and_launched(home, home)
        mirror = model.tables.projects["shop"].agents[agent_id].logs["outbox"]
        await until(lambda: mirror)
        early = []

        def look(step):
            for part in step.arguments[0] if step.function == "ship" else ():
                early.extend(line for line in part.outbox if line.seq > home.entry(agent_id).outbox.synced_seq)

        model.on_step = look
        await delivery.enqueue(home.roster, agent_id, task_id="t1", payload=1, req="c:2")
        await deliver(home, agent_id, "t1")
        await until(lambda: any(row.type == "delivered" for row in mirror))
        assert not early


@on_a_loop
async def test_a_host_that_is_refused_does_nothing_with_its_agents_until_it_is_accepted(tmp_path):
    async with fleet(tmp_path, "a") as (_model, hosts):
        home = hosts["a"]
        agent_id = await created_and_launched(home, home)
        entry, tended = home.entry(agent_id), []
        home.supervisor.tend = tended.append
        home.member.lease.refuse(Conflict("host_taken", "another machine is this host"))
        assert home.link.holds(entry)
        await until(lambda: entry in tended)
        assert not home.link.holds(entry)


@on_a_loop
async def test_an_agent_that_its_given_up_host_never_made_is_only_ended(tmp_path):
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        home = hosts["a"]
        await home.supervisor.team_panes.run_of_fleet("run-1", "")
        model.cut("shop", "b")
        agent_id = await created(home, "b")
        await delivery.enqueue(home.roster, agent_id, task_id="t1", payload=1, req="c:2")
        model.give_up("shop", "b")
        await until(lambda: agent_id in home.roster.agents, 30)
        entry = home.entry(agent_id)
        await until(lambda: entry.state.life == "deleted")
        assert entry.state.ended("t1").outcome == "canceled"
        assert not home.supervisor.launched


@on_a_loop
async def test_an_older_disk_is_filled_up_before_anything_is_done_also_if_the_database_answers_late(tmp_path):
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        home, owner = hosts["a"], hosts["b"]
        agent_id = await created_and_launched(home, owner)
        await owner.crash()
        logs = {path: path.read_bytes() for path in (owner.root / ".agents").rglob("*.jsonl")}
        owner.start()
        await owner.join()
        await delivery.enqueue(home.roster, agent_id, task_id="t1", payload=1, req="c:2")
        await deliver(owner, agent_id, "t1")
        await report(owner, agent_id, "t1")
        await until(lambda: home.entry(agent_id).state.ended("t1"))
        await owner.crash()
        for path, content in logs.items():
            path.write_bytes(content)
        for path in (owner.root / ".agents").glob("cache.sqlite*"):
            path.unlink()
        model.cut("shop", "b")
        owner.start()
        await owner.join()
        await delivery.enqueue(home.roster, agent_id, task_id="t2", payload=2, req="c:3")
        model.heal("shop", "b")
        await until(lambda: owner.entry(agent_id).state.ended("t1"))
        await deliver(owner, agent_id, "t2")


@on_a_loop
@pytest.mark.parametrize("boot", ["boot", "next boot"])
@pytest.mark.parametrize("copied", [True, False])
async def test_a_start_without_the_database_does_nothing_on_a_disk_that_may_be_older(tmp_path, boot, copied):
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        home, owner = hosts["a"], hosts["b"]
        agent_id = await created_and_launched(home, owner)
        await delivery.enqueue(home.roster, agent_id, task_id="t1", payload=1, req="c:2")
        await deliver(owner, agent_id, "t1")
        await until(lambda: home.entry(agent_id).state.lease is not None)
        await owner.crash()
        older = {path: path.read_bytes() for path in (owner.root / ".agents").rglob("*.jsonl")}
        owner.start()
        await owner.join()
        await report(owner, agent_id, "t1")
        await until(lambda: home.entry(agent_id).state.ended("t1"))
        await owner.member.lease.renew(fresh=False)  # as every two seconds
        await owner.crash()
        if copied:
            for path, content in older.items():
                path.write_bytes(content)
            for path in (owner.root / ".agents").glob("cache.sqlite*"):
                path.unlink()
        model.cut("shop", "b")
        owner.boot = boot
        owner.start()
        await owner.join()
        entry = owner.entry(agent_id)
        doubted = copied or boot != "boot"
        assert owner.link.holds(entry) == doubted
        await delivery.enqueue(home.roster, agent_id, task_id="t2", payload=2, req="c:3")
        model.heal("shop", "b")
        await until(lambda: entry.state.ended("t1") and not owner.link.holds(entry))
        assert entry.state.ended("t1").outcome == "result"
        await deliver(owner, agent_id, "t2")


@on_a_loop
async def test_an_agent_that_a_restored_database_does_not_know_is_set_aside_and_its_id_is_not_used_again(tmp_path):
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        home, owner = hosts["a"], hosts["b"]
        await created_and_launched(home, owner)
        earlier = model.copy()
        assert await created(home, "b", req="c:2") == "worker-2"
        await until(lambda: "worker-2" in owner.roster.agents and home.entry("worker-2").state.life == "starting")
        model.restore(earlier)
        await until(lambda: "worker-2" in owner.roster.corrupt)
        assert owner.roster.corrupt["worker-2"].code == "forked"
        assert await created(home, "b", req="c:3") == "worker-3"
        await until(lambda: "worker-3" in owner.roster.agents)


@pytest.mark.parametrize("mirrored", [False, True])
@on_a_loop
async def test_an_agent_that_a_later_copy_of_the_database_knows_goes_on_with_its_own_logs(tmp_path, mirrored):
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        home, owner = hosts["a"], hosts["b"]
        before = model.copy()
        agent_id = await created(home, "b")
        later = model.copy()
        await until(lambda: (agent_id, 1) in owner.supervisor.launched)
        if mirrored:
            await until(lambda: model.tables.projects["shop"].agents[agent_id].logs["outbox"])
            later = model.copy()
        assert bool(later.projects["shop"].agents[agent_id].logs["outbox"]) == mirrored
        await delivery.enqueue(home.roster, agent_id, task_id="t1", payload=1, req="c:2")
        await deliver(owner, agent_id, "t1")
        model.restore(before)
        await until(lambda: agent_id in owner.roster.corrupt)
        model.restore(later)
        await until(lambda: agent_id in owner.roster.agents and not owner.link.holds(owner.entry(agent_id)))
        assert list(owner.roster.agents) == [agent_id] and not owner.roster.corrupt
        assert owner.supervisor.taken_over == [agent_id]
        assert owner.entry(agent_id).state.unfinished, "its CLI works on t1"
        await until(lambda: home.entry(agent_id).outbox.last_seq == owner.entry(agent_id).outbox.last_seq)


@on_a_loop
async def test_another_agent_of_a_forgotten_name_does_not_go_on_with_the_logs_of_the_first(tmp_path):
    async with fleet(tmp_path, "a", "b", "c") as (model, hosts):
        home, owner, other = hosts["a"], hosts["b"], hosts["c"]
        before = model.copy()
        await created_and_launched(home, owner)
        model.restore(before)
        await until(lambda: "worker" in owner.roster.corrupt)
        await other.supervisor.team_panes.run_of_fleet("run-1", "")
        assert await created(other, "b", req="d:1") == "worker"
        await until(lambda: ("worker@fleet", 1) in owner.supervisor.launched)
        assert owner.roster.corrupt["worker"].code == "forked"


@on_a_loop
async def test_an_agent_whose_files_and_run_are_gone_is_taken_from_its_mirror_with_its_run(tmp_path):
    async with fleet(tmp_path, "a", "b") as (_, hosts):
        home, owner = hosts["a"], hosts["b"]
        agent_id = await created_and_launched(home, owner)
        await until(lambda: home.entry(agent_id).state.life == "starting")
        await owner.crash()
        shutil.rmtree(owner.root / ".agents" / "agents" / agent_id)
        shutil.rmtree(owner.root / ".agents" / "run" / "run-1")
        owner.start()
        await owner.join()
        await until(lambda: agent_id in owner.roster.agents)
        assert "run-1" in owner.roster.runs


@pytest.mark.parametrize("name", [".mirror.json.1-1.tmp", "outbox.mirrored"])
@on_a_loop
async def test_what_is_left_of_a_replica_that_was_not_made_does_not_take_its_name(tmp_path, name):
    leftover = tmp_path / "a" / ".agents" / "agents" / "worker" / name
    async with fleet(tmp_path, "a", "b") as (_, hosts):
        home = hosts["a"]
        await home.stop()
        leftover.parent.mkdir()
        leftover.touch()
        home.start()
        await home.join()
        await home.supervisor.team_panes.run_of_fleet("run-1", "")
        assert await created(home, "b") == "worker"


@on_a_loop
async def test_news_of_a_post_do_not_make_a_moved_agent_anew(tmp_path):
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        home, lost = hosts["a"], hosts["b"]
        agent_id = await created_and_launched(home, lost, on_host_lost="move")
        await until(lambda: home.entry(agent_id).state.life == "starting")
        takes = []

        def look(step):
            if step.function == "move":
                takes.append(asyncio.get_running_loop().create_task(home.member.taking.take([agent_id])))

        model.on_step = look
        model.cut("shop", "b")
        await until(lambda: (agent_id, 2) in home.supervisor.launched, 30)
        assert takes
        assert list(home.roster.agents) == [agent_id]


@on_a_loop
async def test_a_new_replica_shows_what_its_host_has_published_before(tmp_path):
    async with fleet(tmp_path, "a", "b") as (_model, hosts):
        home, owner = hosts["a"], hosts["b"]
        home.member.hosts.views["b"] = {
            "agents": {"worker": {"status": "parked", "epoch": 1, "reason": "as it said"}}
        }
        await home.supervisor.team_panes.run_of_fleet("run-1", "")
        agent_id = await created(home, "b")
        await until(lambda: (agent_id, 1) in owner.supervisor.launched)
        facts = (await until(lambda: home.roster.replicas.get(agent_id))).remote
        assert facts.published and facts.row["reason"] == "as it said"
        # Of an agent that moves, what its former host published does not count any more.
        home.member.hosts.views["b"] = {}
        facts.host = "c"
        await until(lambda: facts.host == "b" and not facts.row)


@on_a_loop
async def test_a_call_for_an_agent_that_is_being_made_is_posted(tmp_path):
    async with fleet(tmp_path, "a") as (_, hosts):
        home = hosts["a"]
        home.roster.agents["worker"] = AgentEntry("worker")
        assert home.link.serves("worker")
        del home.roster.agents["worker"]


@on_a_loop
async def test_a_new_home_counts_once_its_broadcast_is_written(tmp_path):
    async with fleet(tmp_path, "a", "b") as (_, hosts):
        old, new = hosts["a"], hosts["b"]
        agent_id = await created_and_launched(old, new)
        await until(lambda: old.entry(agent_id).state.life == "starting")
        before = new.roster.runs["run-1"]
        async with new.supervisor.team_panes.placing:  # it cannot begin its broadcast meanwhile
            taking = asyncio.create_task(new.member.homes.take("run-1"))
            await until(lambda: new.member.homes._rows.get("run-1") and new.member.homes._rows["run-1"].home == "b")
            with pytest.raises(Conflict) as refused:
                await delivery.broadcast_read(new.roster, before, since_seq=0, max_events=9, wait_s=0)
            assert refused.value.code == "not_home"
        await taking
        with pytest.raises(Conflict) as refused:
            await delivery.broadcast_read(new.roster, before, since_seq=1, max_events=9, wait_s=0, gen=1)
        assert refused.value.code == "cursor_old"


@on_a_loop
async def test_the_end_of_a_task_is_told_only_once_the_loss_of_this_host_cannot_undo_it(tmp_path):
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        home, other = hosts["a"], hosts["b"]
        run = await home.supervisor.team_panes.run_of_fleet("run-1", "")
        moving = await created(home, "a", on_host_lost="move")
        waiting = await created(home, "a", base="waiting", req="c:9")
        for agent_id in (moving, waiting):
            await until(lambda agent_id=agent_id: (agent_id, 1) in home.supervisor.launched)
            await delivery.enqueue(home.roster, agent_id, task_id="t1", payload=1, req=f"c:{agent_id}")
            await deliver(home, agent_id, "t1")

        def told(kind):
            records = run.journal.tail(100, 1 << 20)
            return [(record["agent_id"], record["epoch"]) for record in records if record["type"] == kind]

        model.cut("shop", "a")
        assert (await report(home, moving, "t1"))["provisional"]
        await report(home, waiting, "t1")
        await until(lambda: told("result"))
        for agent_id, undone in ((moving, True), (waiting, None)):
            page = await delivery.events_read(home.roster, agent_id, since_seq=0, max_events=99, wait_s=0)
            assert page["events"][-1]["type"] == "result"
            assert page.get("provisional") is undone
            assert meta_of(home.roster, home.entry(agent_id)).get("provisional") is undone
        assert told("result") == [(waiting, 1)]
        # Its host counts as lost: the task is queued again elsewhere, and ends there.
        await until(lambda: (moving, 2) in other.supervisor.launched, 30)
        await deliver(other, moving, "t1", epoch=2)
        await report(other, moving, "t1", epoch=2)
        model.heal("shop", "a")
        await until(lambda: len(told("result")) == 2)
        assert told("result") == [(waiting, 1), (moving, 2)]
    report_of = verify(home.root, live=False, settled=True)
    assert report_of.ok, report_of.violations


@on_a_loop
async def test_what_was_not_told_before_an_end_is_told_after_the_next_start(tmp_path):
    async with fleet(tmp_path, "a") as (model, hosts):
        home = hosts["a"]
        run = await home.supervisor.team_panes.run_of_fleet("run-1", "")
        agent_id = await created(home, "a", on_host_lost="move")
        await until(lambda: (agent_id, 1) in home.supervisor.launched)
        await delivery.enqueue(home.roster, agent_id, task_id="t1", payload=1, req="c:2")
        await deliver(home, agent_id, "t1")
        model.cut("shop", "a")
        await report(home, agent_id, "t1")
        assert home.roster.has_unwritten(run), "a master that asks is told that something is to come"
        await home.stop()
        left = verify(home.root, live=False, settled=True)
        assert left.ok, left.violations
        assert any("may move to another host" in note for note in left.notes)
        model.heal("shop", "a")
        home.start()
        await home.join()
        run = home.roster.runs["run-1"]
        await until(lambda: [r["type"] for r in run.journal.tail(100, 1 << 20)].count("result") == 1)


@on_a_loop
async def test_a_restart_of_an_agent_that_had_failed_when_it_moved_is_a_launch_on_its_new_host(tmp_path):
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        new, lost = hosts["a"], hosts["b"]
        agent_id = await created_and_launched(new, lost, on_host_lost="move")
        entry, at = lost.entry(agent_id), rfc3339(lost.roster.clock.now())
        await lost.roster.commit(entry, supervision.failed(entry.state, at=at, reason="broken", code="launch_failed"))
        await until(lambda: new.entry(agent_id).state.life == "failed")
        model.cut("shop", "b")
        await until(lambda: agent_id in new.roster.agents, 60)
        assert (new.entry(agent_id).state.host, new.supervisor.launched) == ("b", [])
        await new.link.restart(agent_id, fresh=False, req="c:again")
        await until(lambda: (agent_id, 2) in new.supervisor.launched)
        state = new.entry(agent_id).state
        assert (state.host, state.fence, state.restart_due) == ("a", 2, False)
        assert state.spec["cwd"] == str(new.root)
    report_of = verify(new.root, live=False, settled=True)
    assert report_of.ok, report_of.violations


@on_a_loop
async def test_a_task_that_ends_while_the_owner_is_looked_up_is_mirrored_before_the_next_goes_out(tmp_path):
    async with fleet(tmp_path, "a", "b") as (_, hosts):
        home, owner = hosts["a"], hosts["b"]
        agent_id = await created_and_launched(home, owner, on_host_lost="move")
        for task in ("t1", "t2"):
            await delivery.enqueue(home.roster, agent_id, task_id=task, payload=1, req=f"c:{task}")
        await deliver(owner, agent_id, "t1")
        await until(lambda: "t2" in owner.entry(agent_id).state.unfinished)
        looked_up, ships, ended = owner.database.ownership, owner.database.ship, []

        async def not_now(parts):
            await asyncio.sleep(0.2)
            return await ships(parts)

        async def ends_meanwhile(names):
            if not ended:
                owner.database.ship = not_now
                ended.append(asyncio.get_running_loop().create_task(report(owner, agent_id, "t1")))
                await until(lambda: owner.entry(agent_id).state.ended("t1"))
            return await looked_up(names)

        owner.database.ownership = ends_meanwhile
        await deliver(owner, agent_id, "t2")  # asked for while t1 was held
        records = owner.entry(agent_id).outbox.tail(9, 1 << 20)
        (result,) = [record["seq"] for record in records if record["type"] == "result"]
        assert owner.member.shipping.mirrored(agent_id) >= result
        await ended[0]
