"""Simulated runs of a fleet: none fails, each planted bug is found, and a seed names its run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.fleet_bugs import FLEET_BUGS, RARELY_FOUND
from tests.simulation.fleet_world import play

ROOT = Path(__file__).resolve().parents[2]
PIECE = 10
SEEDS = 200
LONG_PIECE = 250
LONG = 20_000


def play_all(first, count):
    for seed in range(first, first + count):
        try:
            play(seed)
        except Exception as error:
            error.add_note(f"again: .venv/bin/python -m tests.simulation --world fleet --seeds 1 --from {seed}")
            raise


@pytest.mark.parametrize("first", range(0, SEEDS, PIECE))
def test_no_run_breaks_a_promise(first):
    play_all(first, PIECE)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, LONG, LONG_PIECE))
def test_no_run_of_many_breaks_a_promise(first):
    play_all(first, LONG_PIECE)


RARE = [pytest.param(name, marks=pytest.mark.slow) for name in sorted(RARELY_FOUND)]


@pytest.mark.parametrize("name", [*sorted(FLEET_BUGS.keys() - RARELY_FOUND), *RARE])
def test_a_planted_bug_is_found_within_200_seeds(name):
    for seed in range(200):
        try:
            with FLEET_BUGS[name]():
                play(seed)
        except Exception:  # noqa: BLE001 - a bug may show itself as any error
            return
    pytest.fail(f"{name} was not found")


def test_a_seed_names_the_whole_run_also_in_another_process():
    command = [sys.executable, "-m", "tests.simulation", "--world", "fleet", "--seeds", "3", "--from", "7", "--trace"]
    runs = [
        subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": salt}, capture_output=True, text=True, check=True
        ).stdout
        for salt in ("1", "2")
    ]
    assert "is up" in runs[0]
    assert runs[0] == runs[1]
