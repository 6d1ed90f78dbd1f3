"""The daemon of a host, and the whole host, killed with -9 at every step of a task of the fleet and of a takeover.

Steps of one life are armed together: each kills the daemon once, and the next one gets further. ``make soak`` gives
each step a life of its own, and has the steps at which the whole host goes.
"""

import pytest

from tests.fakes.relays import until

TASK = [
    "fleet:taken", "inbox:task:before", "inbox:task:after", "outbox:delivered:before", "outbox:delivered:after",
    "outbox:ack:before", "outbox:ack:after", "fleet:ship:before", "fleet:ship:after",
    "outbox:result:before", "outbox:result:after",
]  # fmt: skip
HOME = ["fleet:posted", "broadcast:append:before", "broadcast:append:after"]
CREATE_HOME = ["fleet:created"]
CREATE = ["fleet:taken", "outbox:starting:before", "outbox:starting:after", "launch:written", "launch:released"]
TAKEOVER = [
    "fleet:moved", "takeover:written", "takeover:accepted", "takeover:replica-dropped", "takeover:done",
    "fleet:taken-over", "outbox:exited:before", "outbox:exited:after", "outbox:requeued:before",
    "outbox:restarted:before", "fleet:restarted",
]  # fmt: skip
RETURN = ["fleet:evicted", "fleet:set-aside"]
LOST_AT = ["fleet:taken", "inbox:task:after", "outbox:delivered:before", "outbox:delivered:after", "outbox:ack:after",
           "fleet:ship:before", "fleet:ship:after", "outbox:result:before", "outbox:result:after"]  # fmt: skip


def spend(host, steps):
    """Each step has killed a daemon of the host, and one runs again."""
    try:
        for step in steps:
            until(lambda step=step: host.fired(step) or (not host.daemons() and host.start()))
            host.spent(step)
    except AssertionError as error:
        error.add_note(f"{host.host} has not passed {[path.name for path in host.kills.iterdir()]}")
        raise
    host.start()


def killed_in_a_task(fleet, steps, home=()):
    """Tasks for a moving and a waiting agent at b, while b's daemon and that of the home die at these steps."""
    for host, armed in (("b", steps), ("a", home)):
        for step in armed:
            fleet[host].arm(step)
    for _ in range(2):
        for agent in fleet.agents():
            fleet.enqueue(agent)
    spend(fleet["b"], steps)
    spend(fleet["a"], home)


def test_a_host_whose_daemon_dies_at_any_step_of_a_task_does_each_task_once(fleets, fleet_server):
    fleet = fleets(fleet_server).begin()
    for step in CREATE:
        fleet["b"].arm(step)
    key = fleet.master.ask(
        "agent_create", name="w", role="r", engine="shell", host="b", policies={"on_host_lost": "move"}
    )
    spend(fleet["b"], CREATE)
    assert fleet.master.told(key)[0]["agent_id"] == "w"
    fleet["a"].arm(*CREATE_HOME)
    fleet.create("b", "x", lost="wait")
    fleet["a"].spent(*CREATE_HOME)
    assert sorted(fleet.agents()) == ["w", "x"], "each was made once"
    killed_in_a_task(fleet, TASK, HOME)
    fleet.over()


def test_hosts_whose_daemons_die_at_any_step_of_a_takeover_move_the_agent_once(fleets, fleet_server):
    fleet = fleets(fleet_server, "ab").begin()
    agent = fleet.create("b")
    fleet.enqueue(agent)
    fleet.all_ended()
    fleet.enqueue(agent, hold=str(fleet.base / "hold"))
    until(lambda: fleet.ledger.read_text().count("\n") == 2)
    for step in TAKEOVER:
        fleet["a"].arm(step)
    fleet.lose("b")
    spend(fleet["a"], TAKEOVER)
    (fleet.base / "hold").touch()
    fleet.all_ended()
    assert fleet.owner(agent) == ("a", 2)
    for step in RETURN:
        fleet["b"].arm(step)
    spend_at_start(fleet["b"], RETURN)
    until(lambda: not fleet["b"].agent_dir(agent).exists())
    fleet.enqueue(agent)
    fleet.over()
    fleet.verified()


def spend_at_start(host, steps):
    host.cli("daemon", "start")
    spend(host, steps)


@pytest.mark.parametrize("step", ["outbox:delivered:after", "outbox:result:after"])
def test_an_agent_moves_from_a_host_that_dies_at_a_step_and_no_task_is_lost(fleets, fleet_server, step):
    dies_at(fleets, fleet_server, step)


def dies_at(fleets, server, step):
    fleet = fleets(server, "ab").begin()
    agent, other = fleet.create("b"), fleet.create("b", "x", lost="wait")
    fleet["b"].hold()
    fleet["b"].arm(step)
    for name in (agent, other, agent):
        fleet.enqueue(name)
    fleet["b"].spent(step)
    fleet.lose("b")
    until(lambda: fleet.owner(agent) == ("a", 2))
    until(lambda: all(fleet.ended(task) for task, owner in fleet.accepted.items() if owner == agent), 120)
    assert fleet.owner(other) == ("b", 1)
    fleet["b"].start()
    fleet.over()
    assert not fleet["b"].agent_dir(agent).exists()
    assert list(fleet["b"].agent_dir(agent).parent.glob(f"{agent}.fenced-1"))


@pytest.mark.slow
@pytest.mark.parametrize("step", [*LOST_AT])
def test_an_agent_moves_from_a_host_that_dies_at_any_step(fleets, fleet_server, step):
    dies_at(fleets, fleet_server, step)


@pytest.mark.slow
@pytest.mark.parametrize("step", [*TASK, *HOME])
def test_a_daemon_that_dies_once_loses_nothing(fleets, fleet_server, step):
    fleet = fleets(fleet_server, "ab").begin()
    for lost in ("move", "wait"):
        fleet.create("b", lost, lost=lost)
    killed_in_a_task(fleet, [] if step in HOME else [step], [step] if step in HOME else [])
    fleet.over()
