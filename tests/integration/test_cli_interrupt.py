"""Ctrl-C of a command that waits: it says what goes on without it, and its advice works."""

import os
import shlex
import signal
import subprocess
import sys

from orchestrator.cli.app import INTERRUPTED
from tests.support.stage import until

SILENT = [
    "agent", "create", "mute", "--role", "r", "--engine", "command", "--command", "sh -c 'trap \"\" TERM; exec sleep 300'"
]  # fmt: skip
"""A CLI that never calls: its creation waits. It is deaf to SIGTERM: its deletion waits too."""


def interrupted(stage, *words, once=None):
    """The command, interrupted as soon as ``once`` is true, or else once it says something; its stderr."""
    argv = [sys.executable, "-P", "-m", "orchestrator", *words]
    process = subprocess.Popen(
        argv,
        env=stage.env,
        cwd=stage.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    if once is None:
        assert process.stdout.readline()
    else:
        until(once)
    os.kill(process.pid, signal.SIGINT)
    _, told = process.communicate()
    assert process.returncode == INTERRUPTED, told
    assert "Traceback" not in told
    return told


def advice(told, *words):
    """The command that the advice beginning with these words names, as the shell would take it."""
    (line,) = [line for line in told.splitlines() if f"orchestrator {' '.join(words)}" in line]
    return shlex.split(line.partition("orchestrator ")[2])


def test_a_task_that_is_waited_for_goes_on_and_can_be_canceled_as_told(stage):
    assert stage.cli("agent", "create", "w1", "--role", "r", "--engine", "shell").returncode == 0
    told = interrupted(stage, "task", "add", "w1", "--command", "sleep 300", "--id", "t", "--wait")
    assert stage.types("w1")[-1] != "canceled"
    assert stage.cli(*advice(told, "task", "cancel")).returncode == 0
    until(lambda: "canceled" in stage.types("w1"))


def test_an_agent_that_starts_goes_on_starting_and_can_be_ended_as_told(make_stage):
    stage = make_stage("kill_grace_s = 60\n")
    told = interrupted(stage, *SILENT, once=lambda: "starting" in stage.types("mute"))
    assert stage.types("mute") == ["starting"]
    (deaf,) = until(lambda: [pid for pid, words in stage.processes().items() if words.startswith("sleep 300")])
    end = advice(told, "agent", "delete")
    told = interrupted(stage, *end, once=lambda: any(r["type"] == "stop" for r in stage.records("mute", "inbox")))
    assert "goes on ending" in told
    os.kill(deaf, signal.SIGKILL)
    until(lambda: stage.types("mute")[-1] == "deleted")


def test_a_team_that_is_brought_up_goes_on_starting_and_can_be_ended_as_told(stage):
    file = stage.base / "team.toml"  # outside the project: the user named it
    file.write_text('[agents.mute]\nrole = "r"\nengine = "command"\ncommand = ["sleep", "300"]\n')
    told = interrupted(stage, "up", "--file", str(file), once=lambda: "starting" in stage.types("mute"))
    assert stage.cli(*advice(told, "down"), "--yes").returncode == 0
    assert stage.types("mute")[-1] == "deleted"
