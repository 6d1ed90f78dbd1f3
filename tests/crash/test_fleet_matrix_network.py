"""Partitions, frozen hosts and lost answers: what a proxy between one host and the database can do, and SIGSTOP."""

from pathlib import Path

import pytest

from tests.crash.checker import read_log
from tests.fakes.relays import until
from tests.support.pg_proxy import TO_CLIENT, TO_SERVER, PgProxy

STATEMENTS = ["create_agents(", "post(", "take(", "ship(", "ownership(", "beat(", "read_new("]
PARTITIONS = {"both ways": (TO_SERVER, TO_CLIENT), "to the server": (TO_SERVER,), "to the host": (TO_CLIENT,)}


@pytest.fixture
def proxies(fleet_server):
    """A proxy for each host of a fleet, made as its DSN is."""
    made = {}

    def dsn(host, direct):
        cluster = fleet_server.cluster
        made[host] = PgProxy(Path(cluster.directory) / f".s.PGSQL.{cluster.port}")
        return made[host].dsn(direct)

    yield made, dsn
    for proxy in made.values():
        proxy.close()


def proxied(fleets, server, proxies, hosts="ab"):
    """A fleet whose master has an agent of either kind at b; its proxies."""
    made, dsn = proxies
    fleet = fleets(server, hosts, dsn=dsn).begin()
    for lost in ("move", "wait"):
        fleet.create("b", lost, lost=lost)
    return fleet, made


def lost_answers(fleets, server, proxies, when, statements=STATEMENTS):
    """At each statement of a caller, an owner and a home: not done, or done and not told."""
    fleet, made = proxied(fleets, server, proxies)
    for statement in statements:
        host = "a" if statement in ("create_agents(", "post(", "read_new(") else "b"
        made[host].cut_at(f"orchestrator_fleet.{statement}", when)
        if statement == "create_agents(":
            created(fleet, f"again-{when}")
        for agent in fleet.agents():
            accepted(fleet, agent)
        assert made[host].fired.wait(60), statement
    fleet.over()


def created(fleet, name):
    """An agent that is accepted in the end, as a task is by `accepted`."""
    asked = {"name": name, "role": "r", "engine": "shell", "host": "b", "policies": {"on_host_lost": "move"}}
    until(lambda: fleet.takes("agent_create", **asked))


def accepted(fleet, agent):
    """A task that is accepted in the end: where the database was away for a moment, it is sent again."""
    fleet.tasks += 1
    task = {"task_id": f"t{fleet.tasks}", "payload": {"ledger": str(fleet.ledger)}}
    until(lambda: fleet.takes("task_enqueue", agent_id=agent, task=task))
    fleet.accepted[task["task_id"]] = agent


def test_an_answer_that_is_lost_behind_its_commit_makes_nothing_twice(fleets, fleet_server, proxies):
    lost_answers(fleets, fleet_server, proxies, "after")


def test_a_call_that_is_lost_on_its_way_is_made_in_the_end(fleets, fleet_server, proxies):
    lost_answers(fleets, fleet_server, proxies, "before")


def frozen(fleets, server, proxies, seconds_of_sleep):
    """b is frozen over the end of its lease, with a task of either agent under way."""
    fleet, _ = proxied(fleets, server, proxies)
    for agent in fleet.agents():
        fleet.enqueue(agent, hold=str(fleet.base / "hold"))
        fleet.enqueue(agent)
    until(lambda: fleet.ledger.exists() and fleet.ledger.read_text().count("\n") == 2)
    stopped = fleet["b"].freeze()
    try:
        if not seconds_of_sleep:
            fleet.expire("b")
        until(lambda: fleet.owner("move") == ("a", 2), 90)
        (fleet.base / "hold").touch()
        until(lambda: all(fleet.ended(task) for task, owner in fleet.accepted.items() if owner == "move"))
        assert not any(fleet.ended(task) for task, owner in fleet.accepted.items() if owner == "wait")
    finally:
        fleet["b"].thaw(stopped)
    fleet.over()
    assert fleet.owner("wait") == ("b", 1)
    assert not fleet["b"].agent_dir("move").exists(), "the old owner gave it up"
    assert [event["type"] for event in fleet.heard if event["agent_id"] == "wait"].count("exited") == 0


def test_a_host_that_wakes_after_its_agent_has_moved_hands_out_nothing(fleets, fleet_server, proxies):
    frozen(fleets, fleet_server, proxies, seconds_of_sleep=False)


@pytest.mark.slow
def test_a_host_that_sleeps_over_its_lease_hands_out_nothing(fleets, fleet_server, proxies):
    frozen(fleets, fleet_server, proxies, seconds_of_sleep=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTITIONS)
def test_a_partition_that_ends_loses_nothing(fleets, fleet_server, proxies, name):
    """With real leases: a agent that moves goes, one that waits works on, and what it did comes in order."""
    fleet, made = proxied(fleets, fleet_server, proxies)
    for agent in fleet.agents():
        for _ in range(3):
            fleet.enqueue(agent)
    made["b"].stall(*PARTITIONS[name])
    for agent in fleet.agents():
        fleet.enqueue(agent)
    until(lambda: fleet.owner("move") == ("a", 2), 120)
    made["b"].back()
    fleet.over()


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTITIONS)
def test_the_home_cut_off_from_the_database_tells_all_later(fleets, fleet_server, proxies, name):
    fleet, made = proxied(fleets, fleet_server, proxies)
    for agent in fleet.agents():
        fleet.enqueue(agent, hold=str(fleet.base / "hold"))
    made["a"].stall(*PARTITIONS[name])
    key = fleet.master.ask(
        "task_enqueue", agent_id="wait", task={"task_id": "late", "payload": {"ledger": str(fleet.ledger)}}
    )
    told, error = fleet.master.told(key)
    assert error
    assert told["error"]["code"] == "fleet_away"
    (fleet.base / "hold").touch()
    until(lambda: fleet.owner("move")[0] == "b" and all(fleet.ended(task) for task in fleet.accepted))
    made["a"].back()
    fleet.accepted["late"] = "wait"
    until(
        lambda: (
            not fleet.master.told(
                fleet.master.ask(
                    "task_enqueue",
                    agent_id="wait",
                    task={"task_id": "late", "payload": {"ledger": str(fleet.ledger)}},
                )
            )[1]
        )
    )
    fleet.over()


def test_a_slow_network_and_one_that_breaks_again_and_again_only_cost_time(fleets, fleet_server, proxies):
    fleet, made = proxied(fleets, fleet_server, proxies)
    for proxy in made.values():
        proxy.delay(0.05)
    for round_ in range(4):
        for agent in fleet.agents():
            accepted(fleet, agent)
        made["ab"[round_ % 2]].cut()
    for proxy in made.values():
        proxy.back()
    fleet.over()


def test_a_database_that_is_away_stops_no_agent_that_has_work(fleets, fleet_server, proxies):
    fleet, made = proxied(fleets, fleet_server, proxies)
    for _ in range(2):
        fleet.enqueue("wait", hold=str(fleet.base / "hold"))
    until(fleet.ledger.exists)
    until(lambda: len(read_log(fleet["b"].agent_dir("wait"), "inbox")) == 2)
    for proxy in made.values():
        proxy.away()
    told, error = fleet.master.told(fleet.master.ask("task_enqueue", agent_id="wait", task={"payload": {}}))
    assert error
    assert told["error"]["code"] == "fleet_away"
    (fleet.base / "hold").touch()
    until(lambda: fleet.ledger.read_text().count("\n") == 2)
    for proxy in made.values():
        proxy.back()
    fleet.over()
