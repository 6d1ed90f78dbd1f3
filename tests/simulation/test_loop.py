"""The event loop in virtual time, and processes that die."""

import asyncio
import random

import pytest

from tests.simulation.loop import Deadlock, Gone, Process, SimClock, SimLoop


@pytest.fixture
def loop():
    loop = SimLoop(random.Random(1))
    yield loop
    loop.close()


def test_time_passes_only_when_nothing_is_ready(loop):
    async def main():
        done = []
        loop.call_later(3600.0, done.append, "late")
        loop.call_later(1.0, done.append, "soon")
        before = loop.time()
        await asyncio.sleep(86_400.0)
        return done, loop.time() - before

    assert loop.run(main()) == (["soon", "late"], 86_400.0)


def test_a_job_of_a_thread_runs_in_turn_and_gives_back_its_error(loop):
    async def main():
        assert await asyncio.gather(*(asyncio.to_thread(abs, -n) for n in range(4))) == [0, 1, 2, 3]
        await asyncio.to_thread(int, "x")

    with pytest.raises(ValueError, match="invalid literal"):
        loop.run(main())


def test_what_waits_for_ever_is_named(loop):
    async def waits_for_nobody():
        await loop.create_future()

    with pytest.raises(Deadlock, match="waits_for_nobody"):
        loop.run(waits_for_nobody())


def test_an_error_that_nobody_catches_ends_the_run(loop):
    async def main():
        loop.call_later(1.0, int, "x")
        await asyncio.sleep(10.0)

    with pytest.raises(ValueError, match="invalid literal"):
        loop.run(main())


def test_a_dead_process_does_nothing_and_its_callers_learn_it(loop):
    did = []

    async def works():
        try:
            await asyncio.sleep(1.0)
            did.append("after its death")
        finally:
            loop.call_soon(did.append, "cleaned up")

    async def main():
        process = Process(loop, "p")
        loop.call_later(0.5, process.die)
        with pytest.raises(Gone):
            await process.call(works())
        await asyncio.sleep(10.0)
        assert did == []

    loop.run(main())


def test_a_stopped_process_goes_on_with_what_came_due(loop):
    did = []

    async def works():
        await asyncio.sleep(1.0)
        did.append(loop.time())

    async def main():
        process = Process(loop, "p")
        process.start(works())
        await asyncio.sleep(0.5)
        process.stop()
        await asyncio.sleep(5.0)
        assert did == []
        process.go_on()
        await asyncio.sleep(1.0)
        assert did == [5.5]

    loop.run(main())


def test_the_clocks_of_a_machine_are_apart(loop):
    clock = SimClock(loop)
    wall, awake, monotonic = clock.now(), clock.awake(), clock.monotonic()
    clock.jump -= 3600.0
    clock.slept += 60.0
    assert (clock.now() - wall).total_seconds() == -3540.0
    assert (clock.awake() - awake, clock.monotonic() - monotonic) == (60.0, 0.0)
