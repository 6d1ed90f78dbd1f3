"""The home of a run shows what an absent host has not taken yet, until it has taken it."""

from orchestrator.fleet import waiting_posts
from orchestrator.team.recovery import explanation
from orchestrator.team.roster import agent_views, delivery
from orchestrator.team.roster.remote_facts import RemoteFacts, WaitingPost
from tests.support.pure_team import Desk
from tests.unit.fleet.test_hosts_together import (
    FastClock,
    created,
    created_and_launched,
    deliver,
    fleet,
    on_a_loop,
    report,
    until,
)


def meta(home, agent_id):
    return agent_views.meta_of(home.roster, home.entry(agent_id))


def why(home, task_id):
    return explanation.of_task(home.root, task_id, None, lambda name: meta(home, name))


async def away(model, home):
    """Cut b off until its lease has expired."""
    model.cut("shop", "b")
    await until(lambda: home.member.hosts.away_since("b"), 30)


@on_a_loop
async def test_tasks_posted_to_an_absent_host_are_shown_and_those_it_takes_are_shown_once(tmp_path):
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        home, owner = hosts["a"], hosts["b"]
        agent_id = await created_and_launched(home, owner)
        await delivery.enqueue(home.roster, agent_id, task_id="t0", payload="zero", req="c:t0")
        await until(lambda: "t0" in home.entry(agent_id).state.unfinished)
        await away(model, home)
        shown = []
        home.roster.replica_listeners.append(shown.append)
        for n in range(1, 6):
            await delivery.enqueue(home.roster, agent_id, task_id=f"t{n}", payload=n, req=f"c:t{n}", title=f"No. {n}")
        await delivery.cancel(home.roster, agent_id, task_id="t5", req="c:x5")
        await until(lambda: len(home.entry(agent_id).remote.posts) == 6)
        assert home.entry(agent_id) in shown
        row = agent_views.row(home.roster, home.entry(agent_id))
        assert (row["status"], row["queue_depth"]) == ("unknown", 6)
        assert "6 accepted calls wait for it" in row["reason"]
        tasks = meta(home, agent_id)["tasks"]
        assert [task["task_id"] for task in tasks] == ["t0", "t1", "t2", "t3", "t4", "t5"]
        assert [task["position"] for task in tasks] == [1, 2, 3, 4, 5, 6]
        assert [task.get("waits_for_host") for task in tasks] == [None, *["b"] * 5]
        assert [task["cancel_requested"] for task in tasks] == [False, False, False, False, False, True]
        assert tasks[1]["title"] == "No. 1"
        assert why(home, "t3")["status"] == "queued"
        assert "host b has not taken it yet" in why(home, "t3")["reason"]
        assert "a cancel was requested" in why(home, "t5")["reason"]
        model.heal("shop", "b")
        await until(lambda: home.entry(agent_id).state.ref == 8, 30)
        tasks = meta(home, agent_id)["tasks"]
        assert [task["task_id"] for task in tasks] == ["t0", "t1", "t2", "t3", "t4"]
        assert not any("waits_for_host" in task for task in tasks)
        assert why(home, "t3")["evidence"]


@on_a_loop
async def test_what_waits_is_read_again_after_a_restart_and_for_an_agent_that_was_never_made(tmp_path):
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        home = hosts["a"]
        await home.supervisor.team_panes.run_of_fleet("run-1", "")
        model.cut("shop", "b")
        agent_id = await created(home, "b")
        await delivery.enqueue(home.roster, agent_id, task_id="t1", payload=1, req="c:2")
        await until(lambda: home.member.hosts.away_since("b"), 30)
        await until(lambda: [task["task_id"] for task in meta(home, agent_id)["tasks"]] == ["t1"])
        await home.crash()
        home.start()
        await home.join()
        await until(lambda: agent_id in home.roster.replicas)
        await until(lambda: [task["task_id"] for task in meta(home, agent_id)["tasks"]] == ["t1"], 30)


@on_a_loop
async def test_nothing_is_read_of_a_host_that_takes_its_posts(tmp_path):
    async with fleet(tmp_path, "a", "b", clock=FastClock(2)) as (model, hosts):
        home, owner = hosts["a"], hosts["b"]
        agent_id = await created_and_launched(home, owner)
        await until(lambda: home.entry(agent_id).state.ref == 1)
        await home.member.lease.renew(fresh=False)
        reads = []
        model.on_step = lambda step: reads.append(step) if step.function == "untaken" else None
        for n in range(3):
            await delivery.enqueue(home.roster, agent_id, task_id=f"t{n}", payload=n, req=f"c:t{n}")
            await deliver(owner, agent_id, f"t{n}")
            await report(owner, agent_id, f"t{n}")
            await until(lambda n=n: home.entry(agent_id).state.ended(f"t{n}"))
            await home.member.lease.renew(fresh=False)
        assert reads == []


@on_a_loop
async def test_posts_that_a_failover_lost_are_shown_no_more_and_many_are_read_in_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(waiting_posts, "PAGE_POSTS", 2)
    async with fleet(tmp_path, "a", "b") as (model, hosts):
        home = hosts["a"]
        agent_id = await created_and_launched(home, hosts["b"])
        await until(lambda: home.entry(agent_id).state.ref == 1)
        await away(model, home)
        before = model.copy()
        for n in range(5):
            await delivery.enqueue(home.roster, agent_id, task_id=f"t{n}", payload=n, req=f"c:t{n}")
        await until(lambda: len(meta(home, agent_id)["tasks"]) == 5)
        model.restore(before)
        await until(lambda: meta(home, agent_id)["tasks"] == [])


def test_a_task_that_is_known_by_its_record_is_not_shown_again():
    desk = Desk()
    desk.start()
    desk.enqueue("t1")
    desk.wait()
    facts = RemoteFacts("b", "run-1")
    facts.posts = tuple(WaitingPost(7 + n, "task", f"t{n}", "x", "") for n in range(3))
    assert [task["task_id"] for task in facts.waiting_tasks(desk.agent)] == ["t0", "t2"]
    desk.agent.ref = 8
    assert [(task["task_id"], task["title"]) for task in facts.waiting_tasks(desk.agent)] == [("t2", "t2")]
