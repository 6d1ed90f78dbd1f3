"""`orchestrator doctor --live` on a private tmux: what it finds, and that it leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.stage import processes_with, until

pytestmark = pytest.mark.tmux
BOUND_S = 240.0  # some twelve programs start one after another, and what doctor started it must also end


@pytest.fixture
def place(stage, tmp_path):
    """The variables of a user with a temporary directory and a folder of programs of their own."""
    for name in ("tmp", "bin"):
        (stage.base / name).mkdir()
    path = os.pathsep.join([str(stage.base / "bin"), stage.env["PATH"]])
    return {**stage.env, "TMPDIR": str(stage.base / "tmp"), "PATH": path}


def program(stage, name, text):
    path = stage.base / "bin" / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def doctor(stage, env, *args):
    """The command, run to its end however slow the machine is: killed, it would leave all it has started."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "orchestrator", "doctor", *args],
        cwd=stage.root, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BOUND_S,
        start_new_session=True,
    )  # fmt: skip


def live_of(done, engine):
    findings = json.loads(done.stdout)["findings"]
    return next(one for one in findings if one["check"] == f"live {engine}")


def nothing_left(stage):
    assert not list((stage.base / "tmp").iterdir())
    # Of this stage alone: others on the machine may try engines too.
    assert not stage.processes()
    assert not processes_with(f"{stage.base}/tmp/orchestrator-live-")
    assert not [path for path in stage.run_base.iterdir() if path != stage.run_dir()]
    assert not (stage.root / ".agents" / "agents").exists()


def test_the_shell_engine_passes_and_nothing_is_left(stage, place):
    done = doctor(stage, place, "--live", "shell", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = live_of(done, "shell")
    assert found["level"] == "ok"
    figures = found["figures"]
    assert figures["canceled"] is True and figures["parked"] is False
    assert all(figures[name] is not None for name in ("ready_s", "round_trip_s", "wake_s"))
    assert "testing shell" in done.stderr
    nothing_left(stage)


def test_a_cli_that_ends_at_once_is_bad_with_its_last_lines_and_a_next_step(stage, place):
    program(stage, "codex", 'echo "please log in first"; exit 3')
    done = doctor(stage, place, "--live", "codex", "shell", "--json")
    assert done.returncode == 5
    found = live_of(done, "codex")
    assert found["level"] == "bad" and found["next_step"]
    assert any("please log in first" in line for line in found["figures"]["last_lines"])
    assert live_of(done, "shell")["level"] == "ok"
    assert "costs a few model turns of: codex" in done.stderr
    nothing_left(stage)


def test_ctrl_c_ends_what_was_started(stage, place):
    # It tells its version: the one that sleeps is the agent, and no look at the program.
    program(stage, "codex", '[ "$1" = --version ] && { echo 0.0.1; exit; }\nexec sleep 1000')
    running = subprocess.Popen(
        [sys.executable, "-P", "-m", "orchestrator", "doctor", "--live", "codex"],
        cwd=stage.root,
        env=place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    home = until(lambda: next(iter(Path(place["TMPDIR"]).glob("orchestrator-live-*")), None))
    until(
        lambda: [
            command for command in processes_with(f"ORCHESTRATOR_PROJECT={home}").values() if "sleep 1000" in command
        ]
    )
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=BOUND_S)
    assert running.returncode == 130
    nothing_left(stage)


def test_engines_are_named_with_live_only_and_must_be_known(stage, place):
    for args, code in (
        (["codex"], "bad_argument"),
        (["--live", "nonsense"], "unknown_engine"),
        (["--live", "command"], "bad_argument"),
    ):
        done = doctor(stage, place, *args, "--json")
        assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (2, code)
    nothing_left(stage)
