"""A host of the fleet that sends what no host of ours sends harms nobody but its own agents."""

import pytest

from orchestrator.core import fleet_rules
from orchestrator.fleet.database_functions import MirroredLine
from orchestrator.team.roster import delivery
from tests.unit.fleet.test_hosts_together import created, created_and_launched, deliver, fleet, on_a_loop, until


def changed(database, function, change):
    """Let a function of this host's database answer what ``change`` makes of its answer."""
    real = getattr(database, function)

    async def call(*arguments):
        return change(await real(*arguments), *arguments)

    setattr(database, function, call)


@on_a_loop
async def test_a_post_that_cannot_be_read_ends_its_task_and_holds_up_no_other(tmp_path):
    async with fleet(tmp_path, "a", "b") as (_, hosts):
        home, owner = hosts["a"], hosts["b"]
        agent_id = await created_and_launched(home, owner)
        changed(
            owner.member.taking._database, "take",
            lambda posts, *_: [post._replace(body=None) if post.task_id == "bad" else post for post in posts],
        )  # fmt: skip
        for task in ("bad", "good"):
            await delivery.enqueue(home.roster, agent_id, task_id=task, payload=1, req=f"c:{task}")
        await deliver(owner, agent_id, "good")
        await until(lambda: home.entry(agent_id).state.ended("bad"))
        assert home.entry(agent_id).state.ended("bad").outcome == "error"


@on_a_loop
async def test_a_creation_that_cannot_be_read_makes_an_agent_that_failed_and_holds_up_no_other(tmp_path):
    async with fleet(tmp_path, "a", "b") as (_, hosts):
        home, owner = hosts["a"], hosts["b"]
        await home.supervisor.team_panes.run_of_fleet("run-1", "")
        changed(
            owner.member.taking._database, "take",
            lambda posts, *_: [post._replace(body=None) if post.agent == "bad" else post for post in posts],
        )  # fmt: skip
        bad = await created(home, "b", base="bad", req="c:1")
        good = await created(home, "b", base="good", req="c:2")
        await until(lambda: (good, 1) in owner.supervisor.launched)
        await until(lambda: home.entry(bad).state.life == "failed")


@pytest.mark.parametrize("wrong", ["no record", "x\ny"])
@on_a_loop
async def test_a_mirror_of_lines_that_are_no_records_is_not_read_without_end(tmp_path, wrong):
    async with fleet(tmp_path, "a", "b") as (_, hosts):
        home, owner = hosts["a"], hosts["b"]
        bad = await created_and_launched(home, owner)
        good = await created(home, "b", base="good", req="c:2")
        await until(lambda: (good, 1) in owner.supervisor.launched)
        reads = []

        def spoilt(news, after):
            reads.extend(name for name in after if name == bad)
            lines = (MirroredLine(1, 1, wrong),)
            return [each._replace(outbox=lines) if each.agent == bad else each for each in news]

        changed(home.member.replicas._database, "read_new", spoilt)
        await delivery.enqueue(home.roster, bad, task_id="t1", payload=1, req="c:t1")
        await delivery.enqueue(home.roster, good, task_id="t1", payload=1, req="c:g1")
        await deliver(owner, bad, "t1")
        await deliver(owner, good, "t1")
        began = home.roster.clock.monotonic()
        await until(lambda: home.roster.clock.monotonic() > began + 50, 60)
        assert 0 < len(reads) <= 4
        assert home.entry(good).state.unfinished["t1"].state == "delivered"


@pytest.mark.parametrize(
    ("body", "wishes"),
    [
        ({"timeout_s": 5, "title": "a title"}, {"timeout_s": 5, "title": "a title"}),
        ({"timeout_s": "5", "title": 7}, {}),
        ({"timeout_s": -1, "title": ["x"]}, {}),
        ({"timeout_s": True, "title": "\x1b\n"}, {}),
        ({"timeout_s": None, "title": "\x1b]0;x\x07 " + "y" * 200}, {"title": "]0;x " + "y" * 74 + "…"}),
    ],
)
def test_of_a_task_only_wishes_are_recorded_that_an_honest_host_has(body, wishes):
    assert fleet_rules._wishes(body) == wishes
