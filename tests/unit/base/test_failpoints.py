"""The table of faults: counted once per test, survived only when the whole test passed, and whole under xdist."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TESTS = """
import pytest

@pytest.mark.parametrize("n", range(4))
def test_good(faults, n):
    faults("kill -9")
    faults("torn tail", 2)
    faults.figure("storm", run=n)

def test_bad(faults):
    faults("torn tail", 5)
    faults("kill -9", 0)
    assert False

@pytest.fixture
def breaks():
    yield
    assert False

def test_bad_teardown(breaks, faults):
    faults("kill -9", 7)

def test_without(): pass
"""


def run(directory, *arguments):
    (directory / "test_it.py").write_text(TESTS)
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.support.faults", *arguments, str(directory)],
        cwd=directory, env={**env, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120,
    ).stdout  # fmt: skip


@pytest.mark.parametrize("arguments", [["-n0"], ["-n2"]])
def test_the_table_counts_faults_of_passed_tests_as_survived(tmp_path, arguments):
    out = run(tmp_path, *arguments).splitlines()
    assert "kill -9           4 / 11" in out
    assert "torn tail         8 / 13" in out
    assert "all              12 / 24" in out
    assert [line for line in out if line.startswith("storm: ")] == [f"storm: run {n}" for n in range(4)]


def test_a_run_without_faults_prints_no_table(tmp_path):
    assert "faults survived" not in run(tmp_path, "-n0", "-k", "without")
