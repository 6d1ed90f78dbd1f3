"""The database server killed with -9, stopped, restarted and replaced by an older copy while a fleet works."""

import shutil

import psycopg
import pytest

from orchestrator.fleet.private_cluster import running
from tests.fakes.relays import until
from tests.support.postgres import made_database


@pytest.fixture(scope="module")
def durable_cluster():
    with running() as cluster:
        yield cluster


@pytest.fixture
def server(durable_cluster):
    """A database on a server that the test may kill; it runs again afterwards."""
    with made_database(durable_cluster) as server:
        yield server
    if durable_cluster.pid is None:
        durable_cluster.start()


def stop_at_once(cluster):
    cluster._run("pg_ctl", "stop", "-s", "-m", "immediate", "-D", cluster.data)


ENDS = {
    "killed": lambda cluster: cluster.kill(),
    "stopped": lambda cluster: cluster.stop(),
    "stopped at once": stop_at_once,
}


def at_work(fleets, server):
    """A fleet with a task under way and one in the queue, of an agent of either kind."""
    fleet = fleets(server, "ab").begin()
    for lost in ("move", "wait"):
        agent = fleet.create("b", lost, lost=lost)
        fleet.enqueue(agent, hold=str(fleet.base / "hold"))
        fleet.enqueue(agent)
    until(lambda: fleet.ledger.exists() and fleet.ledger.read_text().count("\n") == 2)
    return fleet


def refused_while_away(fleet):
    def look():
        told, error = fleet.master.told(fleet.master.ask("task_cancel", agent_id="wait", task_id="none"))
        assert error
        return told["error"]["code"] == "fleet_away"

    until(look)


def works_again(fleet):
    """A call is accepted again."""

    def once():
        told, error = fleet.master.told(fleet.master.ask("task_cancel", agent_id="wait", task_id="none"))
        assert error
        return told["error"]["code"] == "unknown_task"

    until(once)


def test_a_server_that_ends_in_any_way_keeps_what_was_accepted(fleets, server):
    fleet, cluster = at_work(fleets, server), server.cluster
    for end in ENDS.values():
        for agent in fleet.agents():
            fleet.enqueue(agent)
        end(cluster)
        refused_while_away(fleet)
        (fleet.base / "hold").touch()
        cluster.start()
        works_again(fleet)
    for agent in fleet.agents():
        fleet.enqueue(agent)
    fleet.over()
    assert [fleet.owner(agent) for agent in ("move", "wait")] == [("b", 1), ("b", 1)]


def test_a_server_that_fails_over_to_an_older_copy_gets_what_the_owners_have(fleets, server):
    fleet, cluster = at_work(fleets, server), server.cluster
    copy = cluster.data.with_name("copy")
    cluster.stop()
    shutil.copytree(cluster.data, copy)
    for file in [copy, *copy.rglob("*")]:
        facts = cluster.data.stat()
        shutil.chown(file, facts.st_uid, facts.st_gid)
    cluster.start()
    works_again(fleet)
    for agent in fleet.agents():
        fleet.enqueue(agent)
    (fleet.base / "hold").touch()
    fleet.all_ended()
    fleet.quiet()
    cluster.kill()
    cluster.data.rename(cluster.data.with_name("old"))
    copy.rename(cluster.data)
    (cluster.data / "standby.signal").touch()
    cluster.start()
    with psycopg.connect(cluster.dsn(server.database), autocommit=True) as owner:
        assert owner.execute("select pg_promote()").fetchone() == (True,)
    fleet.forgotten_posts = True
    works_again(fleet)
    until(lambda: all(host.cli("verify", "--fleet").returncode == 0 for host in fleet.hosts.values()))
    for agent in fleet.agents():
        fleet.enqueue(agent)
    fleet.over()
    fleet.verified()
    numbers = [
        seq for (seq,) in fleet.sql("select seq from orchestrator_fleet.post where project = %s", fleet.project)
    ]
    assert max(numbers) > 1_000_000, "no number is used again"
