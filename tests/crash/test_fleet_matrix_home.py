"""The home of a run: killed with -9 while it takes the run, or lost as a whole while the run's agents work elsewhere."""

import json
import subprocess
import sys

from tests.crash.test_fleet_matrix import spend
from tests.fakes.relays import until

TAKE_RUN = ["fleet:run-taken", "fleet:broadcast-anew"]


def begun(fleets, server, agents):
    """A fleet whose master at a has these agents, {name: (host, on_host_lost)}; each has done a task, which was read."""
    fleet = fleets(server).begin()
    for name, (host, lost) in agents.items():
        fleet.create(host, name, lost)
        fleet.enqueue(name)
    fleet.all_ended()
    fleet.quiet()
    fleet.read(fleet.master)
    return fleet


def held(fleet, hold):
    """Each agent is in the middle of a task, until the file `hold` is there, and has another one in its queue."""
    begun = len(fleet.ledger.read_text().splitlines())
    for agent in fleet.agents():
        fleet.enqueue(agent, hold=str(fleet.base / hold))
        fleet.enqueue(agent)
    until(lambda: len(fleet.ledger.read_text().splitlines()) == begun + len(fleet.agents()))


def takes_the_run(fleet, host, gen):
    """The user's command, which is answered however often the daemon dies."""
    done = fleet[host].cli("fleet", "take-run", fleet.run_id(), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout) == {"run_id": fleet.run_id(), "home": host, "gen": gen}


def takes_the_run_without_its_user(fleet, host):
    """As `takes_the_run`, but nobody sends the command again: the host's renewal finds that it is the home."""
    words = [sys.executable, "-P", "-m", "orchestrator", "fleet", "take-run", fleet.run_id()]
    place = fleet[host]
    with subprocess.Popen(words, cwd=place.root, env=place.env, stdout=subprocess.DEVNULL) as command:
        until(lambda: place.fired(TAKE_RUN[0]))
        command.kill()


def refused(fleet, master, code, **arguments):
    """Wait until a read of the broadcast is refused: a former home learns with its next renewal that it is none."""

    def look():
        told, error = master.told(master.ask("broadcast_read", run_id=fleet.run_id(), **arguments))
        return told["error"] if error else None

    error = until(look)
    assert error["code"] == code, error
    return error


def led_at(fleet, host, gen):
    """A new master at the host, the run's home, reads the broadcast from the beginning once it is written there."""
    master = fleet[host].master()

    def look():
        told, error = master.told(master.ask("broadcast_read", run_id=fleet.run_id(), gen=gen))
        assert not error or told["error"]["code"] in ("not_home", "unknown_run"), told
        return not error and told["gen"] == gen

    until(look)
    fleet.led_by(master, gen)


def all_read(fleet, agents):
    """Wait until all tasks of these agents have ended; the master has read each end once, those of others as well."""
    until(lambda: all(fleet.ended(task) for task, owner in fleet.accepted.items() if owner in agents), 120)
    ended = [task for task in fleet.accepted if fleet.ended(task)]
    until(lambda: len(fleet.read(fleet.master)) >= len(ended))
    assert fleet.read(fleet.master) == dict.fromkeys(ended, 1)


def test_a_host_that_dies_while_it_takes_a_run_has_the_whole_broadcast_in_the_end(fleets, fleet_server):
    """First a host with an agent of the run takes it, then one that knows nothing of it, then the first home again."""
    fleet = begun(fleets, fleet_server, {"w": ("b", "move"), "x": ("a", "wait")})
    former = fleet.master
    for gen, new in enumerate("bca", 2):
        held(fleet, f"hold-{gen}")
        for step in TAKE_RUN:
            fleet[new].arm(step)
        if new == "c":
            takes_the_run_without_its_user(fleet, new)
        else:
            takes_the_run(fleet, new, gen)
        spend(fleet[new], TAKE_RUN)
        seq = fleet.cursor
        led_at(fleet, new, gen)
        assert refused(fleet, former, "not_home", since_seq=seq, gen=gen - 1)["host"] == new
        assert refused(fleet, fleet.master, "cursor_old", since_seq=seq, gen=gen - 1)["gen"] == gen
        (fleet.base / f"hold-{gen}").touch()
        fleet.over()
        former = fleet.master
    fleet.verified()


def test_a_run_whose_whole_home_is_lost_is_led_on_another_host_and_a_returned_home_harms_nothing(
    fleets, fleet_server
):
    agents = {"w": ("b", "move"), "x": ("b", "wait")}
    fleet = begun(fleets, fleet_server, agents)
    held(fleet, "hold")
    fleet["a"].kill()
    (fleet.base / "hold").touch()
    takes_the_run(fleet, "c", 2)
    returned(fleet, agents)


def test_agents_of_a_lost_home_move_or_wait_and_the_new_home_reports_both(fleets, fleet_server):
    fleet = begun(fleets, fleet_server, {"w": ("b", "wait"), "y": ("a", "move"), "z": ("a", "wait")})
    held(fleet, "hold")
    fleet.lose("a")
    takes_the_run(fleet, "c", 2)
    until(lambda: fleet.owner("y")[1] == 2)
    (fleet.base / "hold").touch()
    returned(fleet, ("w", "y"))
    assert fleet.owner("z") == ("a", 1)
    assert not fleet["a"].agent_dir("y").exists(), "the former owner gave it up"
    assert [event["agent_id"] for event in fleet.heard if event["type"] == "requeued"].count("y") == 1


def returned(fleet, agents):
    """While a is lost, c leads these agents of other hosts; then a is back, with its disk, and c leads all agents."""
    led_at(fleet, "c", 2)
    all_read(fleet, agents)
    for host in "bc":
        done = fleet[host].cli("verify", "--fleet", "--json")
        assert done.returncode == 0, (host, done.stdout, done.stderr)
    told = list(fleet.heard)
    fleet["a"].start()
    refused(fleet, fleet["a"].master(), "not_home")
    for agent in fleet.agents():
        fleet.enqueue(agent)
    fleet.over()
    assert fleet.heard[: len(told)] == told
    assert {home for _, home, *_ in fleet.agents().values()} == {"c"}
    fleet.verified()
