"""A storm of kill -9 against the daemon: every call is answered once, and its effect happens once."""

import contextlib
import os
import random
import signal
import threading
import time

import pytest

from tests.fakes.relays import Bench, until

STORM_S = 8.0
MORE_S = 60.0
SEED = 20261121
PATIENT = {
    "ERR_AFTER": 3600,
    "COMING_AFTER": 3600,
    "INIT_AFTER": 3600,
}  # how long a call may wait for a daemon is no matter of the storm


@pytest.fixture
def bench(tmp_path, monkeypatch):
    one = Bench(tmp_path, monkeypatch)
    yield one
    one.close()


def work(one, ending, count):
    """Calls with an effect, several in flight, until told to end; every one must be answered well and once."""
    key = 0
    while not ending.is_set():
        keys = range(key, key + 3)
        for key in keys:
            one.call(key, "effect", n=key)
        answers = {}
        while len(answers) < len(keys):
            answer = one.take(MORE_S)
            assert answer["id"] not in answers
            answers[answer["id"]] = answer
        assert {k: a["result"]["n"] for k, a in answers.items()} == {k: k for k in keys}
        key += 1
        count[0] = key


def storm(bench, clients, seconds, shortest, longest, enough):
    """Kill for so long; where daemons take longer to start go on, with ever longer pauses, until it was ``enough``."""
    ending = threading.Event()
    counts = [[0] for _ in clients]
    broken = []

    def run(one, count):
        try:
            work(one, ending, count)
        except BaseException as error:  # noqa: BLE001 - told to the test below
            broken.append(error)

    threads = [threading.Thread(target=run, args=pair) for pair in zip(clients, counts, strict=True)]
    for thread in threads:
        thread.start()
    chance = random.Random(SEED)
    deadline = time.monotonic() + seconds
    kills = 0
    while (now := time.monotonic()) < deadline or (
        now < deadline + MORE_S and not broken and not enough(kills, counts)
    ):
        threading.Event().wait(chance.uniform(shortest, longest))
        for pid in bench.alive():
            with contextlib.suppress(ProcessLookupError):  # killed the last time, and only now gone
                os.kill(pid, signal.SIGKILL)
                kills += 1
        if now >= deadline:
            longest *= 1.5
    ending.set()
    for thread in threads:
        thread.join(2 * MORE_S)
        assert not thread.is_alive(), "a call hangs"
    if broken:
        raise broken[0]
    return kills, counts


def test_a_storm_of_kills_costs_no_call_its_one_answer_and_doubles_no_effect(bench):
    clients = [bench.client(**PATIENT) for _ in range(3)]
    waiting = bench.client(**PATIENT)
    waiting.handshake()
    waiting.call("wait", "hold")

    def carried():
        return [h["hello"]["pending"][0][1] for h in bench.effects("hello") if h["hello"]["pending"][:1] and
                h["hello"]["pending"][0][0] == "wait"]  # fmt: skip

    def enough(kills, counts):
        return kills >= 5 and all(count[0] > 10 for count in counts) and len(carried()) >= 5

    kills, counts = storm(bench, clients, STORM_S, 0.05, 0.8, enough)
    assert kills >= 5
    assert all(count[0] > 10 for count in counts), "the calls of every client went on"
    done = [tuple(fact["key"]) for fact in bench.effects("effect")]
    assert len(done) == len(set(done)) == sum(count[0] for count in counts)
    # The long poll was carried from daemon to daemon, and its age grew.
    ages = carried()
    assert len(ages) >= 5
    assert ages == sorted(ages)
    for one in clients:
        assert len(one.rest()) == len({m["id"] for m in one.received})
    assert until(lambda: len(bench.alive()) <= 1)


def test_a_daemon_killed_while_it_loads_is_started_again_until_it_is_up(bench):
    bench.behave(load_s=0.15)
    clients = [bench.client(**PATIENT) for _ in range(3)]
    kills, counts = storm(bench, clients, 4.0, 0.02, 0.3, lambda kills, _: kills >= 5)
    assert kills >= 5
    done = [tuple(fact["key"]) for fact in bench.effects("effect")]
    assert len(done) == len(set(done)) == sum(count[0] for count in counts)
