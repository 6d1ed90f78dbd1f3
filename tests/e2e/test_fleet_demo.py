"""``make demo-fleet``: three hosts on one machine, one of them is lost, and each of sixty jobs ends once."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from orchestrator.base.errors import Environment
from orchestrator.base.platform import process_facts
from orchestrator.fleet.private_cluster import programs
from tests.e2e.conftest import unable
from tests.support.stage import until

DEMO = [sys.executable, "-P", "-m", "orchestrator", "demo", "--fleet"]
LIMIT_S = 300


@pytest.fixture
def place(tmp_path):
    try:
        programs()
    except Environment as error:
        unable(f"{error.message}: tools/setup.sh postgres")
    return tmp_path


def left(place):
    """What a demo in this directory left: processes, sockets of tmux, directories of temporary files."""
    mark = os.fsencode(place)
    running = []
    for pid in process_facts.pids():
        try:
            if any(mark in word for word in (*process_facts.words_of(pid), *process_facts.environment_of(pid))):
                running.append(pid)
        except OSError:
            continue
    marks = Path(tempfile.gettempdir()).glob("orchestrator-demo-*/demo")
    return running, [file for file in marks if str(place) in file.read_text()], list(place.iterdir())


def test_every_job_ends_once_though_a_host_is_lost_and_nothing_is_left(place):
    played = subprocess.run([*DEMO, "--json"], cwd=place, capture_output=True, text=True, timeout=LIMIT_S)
    assert played.returncode == 0, played.stdout[-3000:] + played.stderr[-6000:]
    report = json.loads(played.stdout)
    assert report["ok"]
    assert Counter(task["outcome"] for task in report["tasks"]) == {"result": 60}
    placed, moved = report["hosts"]["placed"], report["hosts"]["moved"]
    assert Counter(placed.values()) == {"laptop": 3, "box-1": 3, "box-2": 3}
    assert set(moved) == {name for name, host in placed.items() if host == "box-2"}
    assert set(moved.values()) <= {"laptop", "box-1"}
    assert {task["agent"] for task in report["tasks"] if task["attempts"] > 1} <= set(moved)
    assert left(place) == ([], [], [])


def test_ctrl_c_ends_all_of_it(place):
    with subprocess.Popen(DEMO, cwd=place, stdout=subprocess.PIPE, text=True) as playing:
        for line in playing.stdout:
            if "creates nine shell agents" in line:
                playing.send_signal(signal.SIGINT)
                break
        assert "interrupted" in playing.stdout.read()
        assert playing.wait(LIMIT_S) == 130
    assert left(place) == ([], [], [])


@pytest.mark.parametrize("line", ["PostgreSQL ", "result on"])
def test_a_killed_demo_leaves_nothing_running(place, line):
    with subprocess.Popen(DEMO, cwd=place, stdout=subprocess.PIPE, text=True) as playing:
        next(said for said in playing.stdout if line in said and "starting a" not in said)
        playing.kill()
    until(lambda: left(place) == ([], [], []))
