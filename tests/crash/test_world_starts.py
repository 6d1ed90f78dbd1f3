"""A daemon that cannot start, or ends at once: twenty relays that want one do not make a storm of it, and say why."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from orchestrator.edge import daemon_connection, project_location
from tests.crash.raw import INITIALIZE
from tests.support.stage import Wire, until

MANY = 20
ROOT = Path(__file__).resolve().parents[2]
# Counts the daemons that begin, and kills those that shall not live, when the interpreter has just started.
DYING = """
import os, sys
if "daemon" in sys.orig_argv and "run" in sys.orig_argv:
    place = os.environ["COUNTED"]
    with open(os.path.join(place, "begun"), "a") as file:
        file.write(".")
    if os.path.exists(os.path.join(place, "dies")):
        os.kill(os.getpid(), 9)
"""

IMPATIENT = """
import sys
from orchestrator.__main__ import take_wire
wire = take_wire()
from orchestrator.edge import relay
relay.INIT_AFTER, relay.ERR_AFTER, relay.COMING_AFTER = 3600.0, 0.3, 0.3
sys.exit(relay.main([], *wire))
"""


@pytest.fixture
def counted(make_stage):
    """A stage whose daemons are counted when they begin: ``begun()``; they die while ``dies`` is there."""
    stage = make_stage()
    (stage.base / "site").mkdir()
    (stage.base / "site" / "sitecustomize.py").write_text(DYING)
    stage.env |= {"PYTHONPATH": f"{stage.base / 'site'}:{ROOT}", "COUNTED": str(stage.base)}
    stage.begun_daemons = lambda: len(at.read_text()) if (at := stage.base / "begun").exists() else 0
    return stage


def relays(stage, count=MANY):
    """Relays whose clients have called; the handshake waits for ever, other calls hear soon why it does."""
    argv = [sys.executable, "-P", "-c", IMPATIENT]
    wires = [Wire(argv, stage.env, stage.root, stage.base / "stderr") for _ in range(count)]
    stage.wires += wires
    return [(wire, wire.request("initialize", INITIALIZE)) for wire in wires]


def hear(asked):
    """What each caller is told while no daemon comes."""
    keys = [wire.request("ping") for wire, _ in asked]
    answers = [error_of(wire, key) for (wire, _), key in zip(asked, keys, strict=True)]
    return [
        error if error["code"] != "daemon_down" else until(lambda wire=wire: cause(wire))
        for (wire, _), error in zip(asked, answers, strict=True)
    ]


def error_of(wire, key):
    return wire.answer(key)["error"]["data"]["error"]


def cause(wire):
    """Why no daemon comes; None while the relay has met only one that is still starting."""
    error = error_of(wire, wire.request("ping"))
    return error if error["code"] != "daemon_down" else None


def test_a_daemon_that_dies_at_once_is_started_ever_more_slowly_by_all_together(counted, faults):
    (counted.base / "dies").touch()
    began = time.monotonic()
    asked = relays(counted)
    until(lambda: counted.begun_daemons() > 4)
    for error in hear(asked):
        assert (error["kind"], error["code"]) == ("Environment", "daemon_failed"), error
        assert "ended before they were ready" in error["message"]
    # 3 at once, then after 0.25, 0.5, 1, 2, 4, 8, and every 10 s: a slow machine only makes it fewer.
    assert counted.begun_daemons() <= 9 + (time.monotonic() - began) / 10
    # What a human asks for comes at once; and what ends the cause ends the pace.
    (counted.base / "dies").unlink()
    assert counted.cli("daemon", "start").returncode == 0
    assert daemon_connection.vain_starts(counted.run_dir()) <= 1  # a relay may count its own start late
    for wire, key in asked:
        assert "result" in wire.answer(key)
    faults("world", MANY)


def test_a_daemon_whose_configuration_is_bad_is_tried_seldom_and_the_reason_told(counted, faults):
    config = counted.root / ".agents" / "config.toml"
    good = config.read_text()
    config.write_text(good + "max_restart = 2\n")
    began = time.monotonic()
    asked = relays(counted)
    until(lambda: counted.begun_daemons() > 1)
    assert {error["code"] for error in hear(asked)} == {"bad_config"}
    assert counted.begun_daemons() <= 1 + (time.monotonic() - began) / 3, "one in three seconds, whoever asks"
    config.write_text(good)
    for wire, key in asked:
        assert "result" in wire.answer(key)
    faults("world", MANY)


@pytest.mark.parametrize(
    "name", [pytest.param("lock", marks=pytest.mark.slow), pytest.param("log", marks=pytest.mark.slow), "socket"]
)
def test_a_run_directory_that_cannot_be_used_starts_nothing_and_is_told(counted, name, faults):
    """A directory in the place of a file, for the tests may run as a user who may write everywhere."""
    place = counted.run_dir()
    (place / name / "full").mkdir(parents=True)
    place.chmod(0o700)
    asked = relays(counted, 3)
    for error in hear(asked):
        assert (error["kind"], error["code"]) == ("Environment", "daemon_failed"), error
        assert "Is a directory" in error["message"]
    shown = counted.cli("daemon", "start", "--json")
    assert json.loads(shown.stdout)["error"]["kind"] == "Environment", shown
    assert "Traceback" not in shown.stderr
    assert counted.begun_daemons() == 0
    (place / name / "full").rmdir()
    (place / name).rmdir()
    for wire, key in asked:
        assert "result" in wire.answer(key)
    faults("world", 3)


def test_the_pace_of_starts_grows_and_is_forgotten_when_a_daemon_is_up(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(tmp_path / "run"))
    root = tmp_path / "p"
    root.mkdir()
    place, directory, begun = project_location.find_project(root), project_location.run_dir(root), []
    now = time.time()
    monkeypatch.setattr(daemon_connection, "_spawn", lambda *_: begun.append(now))
    monkeypatch.setattr(daemon_connection.time, "time", lambda: now)

    def starts(seconds):
        """How many starts so many seconds of impatience make."""
        nonlocal now
        before = len(begun)
        for _ in range(int(seconds * 10)):
            daemon_connection.try_start(place, directory)
            if (directory / "starts").exists() and len(begun) > before:
                os.utime(directory / "starts", (begun[-1], begun[-1]))
            now += 0.1
        return len(begun) - before

    assert starts(1) == 4
    assert starts(30) <= 7
    assert starts(600) <= 61
    now -= 86400  # a clock that went back must not hold anything up, nor make a storm
    assert 1 <= starts(60) <= 8
    (directory / "starts").unlink()
    assert starts(1) == 4


def test_a_machine_that_cannot_fork_is_told_and_is_not_asked_a_hundred_times_a_second(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(tmp_path / "run"))
    root = tmp_path / "p"
    root.mkdir()
    place, directory = project_location.find_project(root), project_location.run_dir(root)

    def full():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(daemon_connection.os, "fork", full)
    with pytest.raises(OSError):
        daemon_connection.try_start(place, directory)
    monkeypatch.undo()
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(tmp_path / "run"))
    # The second fork, in the child: only its status tells.
    real, parent = os.fork, os.getpid()
    monkeypatch.setattr(daemon_connection.os, "fork", lambda: real() if os.getpid() == parent else full())
    with pytest.raises(OSError, match="its process could not be created"):
        daemon_connection.try_start(place, directory)
    lock, listener = daemon_connection.claim(directory)  # free for the next one
    os.close(lock)
    listener.close()
