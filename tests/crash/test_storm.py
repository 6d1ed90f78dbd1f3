"""Twenty agents, hundreds of tasks, and kills of every kind at random: nothing is lost, doubled or left open.

``STORM_SEED`` chooses another storm, ``STORM_S`` how long the long one lasts (seconds). Both stand in one module, so
that xdist never runs them side by side.
"""

import os
import random
import time

import pytest

from tests.crash.storm import CONFIG, storm

SEED = 20261122
TASKS, KILLS = 300, 60
LONG_S = 30 * 60.0


def test_a_storm_of_kills_loses_nothing_doubles_nothing_and_leaves_nothing_open(stages, faults):
    seed = int(os.environ.get("STORM_SEED", SEED))

    def enough(one):
        return len(one.client.ended) >= TASKS and sum(one.killed.values()) >= KILLS

    done = storm(stages(config=CONFIG), faults, seed=seed, enough=enough)
    assert len(done.client.accepted) >= TASKS
    assert sum(done.killed.values()) >= KILLS


@pytest.mark.slow
def test_a_long_storm_of_kills_loses_nothing_doubles_nothing_and_leaves_nothing_open(stages, faults):
    seed = int(os.environ.get("STORM_SEED", random.SystemRandom().randrange(1 << 32)))
    end = time.monotonic() + float(os.environ.get("STORM_S", LONG_S))
    storm(stages(config=CONFIG), faults, seed=seed, enough=lambda _: time.monotonic() > end)
