"""What a CLI leaves in its temporary directory goes with its agent or squad member, whatever dies in between."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support import squads
from tests.support.stage import alive, lines_of, until

# A CLI that extracts two libraries at each start, as opencode does, and becomes our worker.
CLI = """
import os, sys
place = os.environ["TMPDIR"]
for name, size in (("a", 13_745_312), ("b", 5_576_816)):
    with open(f"{place}/.{os.getpid()}-{name}.so", "wb") as file:
        file.truncate(size)
os.symlink("/", f"{place}/root-{os.getpid()}")
open(sys.argv[1], "a").write(place + "\\n")
os.execv(sys.executable, [sys.executable, "-P", "-m", "orchestrator", "worker"])
"""
# Outlives its agent unseen: in a session of its own, without its environment; with the directory open it writes on.
# The task ends only when all that has happened: before, the agent still finds it among what the task left behind.
WRITER = """
import contextlib, itertools, os, sys, time
if sys.argv[1:]:
    for number in itertools.count():
        with contextlib.suppress(OSError):
            os.close(os.open(str(number % 100), os.O_CREAT | os.O_WRONLY, dir_fd=int(sys.argv[1])))
        time.sleep(0.001)
sealed, open_until_exec = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        at = os.open(os.environ["TMPDIR"], os.O_DIRECTORY)
        os.set_inheritable(at, True)
        open("writer.pid", "w").write(str(os.getpid()))
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        os.dup2(1, 2)
        os.execve(sys.executable, [sys.executable, __file__, str(at)], {})
else:
    os.close(open_until_exec)
    os.read(sealed, 1)
"""
STEPS = ("delete:process-ended", "delete:pane-removed", "temporary:aside")


def temporary(stage):
    """What is in the project's temporary directories."""
    place = stage.run_dir() / "tmp"
    return sorted(place.iterdir()) if place.is_dir() else []


def created(stage, boss, name="a", **more):
    program = stage.base / "cli.py"
    program.write_text(CLI)
    command = [sys.executable, str(program), str(stage.base / "places")]
    made = boss.tool("agent_create", {"name": name, "role": "r", "engine": "command", "command": command, **more})
    assert made.get("ready") is True, made


def places_of(stage):
    return (stage.base / "places").read_text().split()


def worker_of(stage):
    [pid] = [pid for pid, command in stage.processes().items() if command.endswith(" worker ")]
    return pid


def doctor(stage):
    findings = json.loads(stage.cli("doctor", "--json").stdout)["findings"]
    return [finding["message"] for finding in findings if finding["check"] == "temporary files"]


def test_what_a_cli_leaves_in_tmpdir_is_kept_over_relaunches_told_and_gone_with_its_agent(stage):
    boss = stage.begun()
    created(stage, boss)
    [place] = temporary(stage)
    assert doctor(stage) == ["18.4 MiB: a 18.4 MiB"]
    os.kill(worker_of(stage), signal.SIGKILL)
    until(lambda: stage.types("a").count("ready") == 2)
    assert places_of(stage) == [str(place)] * 2
    assert len(list(place.iterdir())) == 6
    gc = json.loads(stage.cli("gc", "--older-than", "0", "--apply", "--json").stdout)
    assert gc["items"] == [] and place.exists(), "nothing of a living agent is a leftover"
    # Neither after the next daemon's start.
    stage.kill_daemon()
    until(stage.daemon)
    # Unknown until its own relay has found the new daemon.
    until(lambda: boss.tool("agent_get", {"agent_id": "a"})["meta"]["status"] == "idle")
    assert temporary(stage) == [place]
    assert boss.tool("agent_delete", {"agent_id": "a"})["status"] == "deleted"
    assert not place.exists()
    until(lambda: temporary(stage) == [])
    assert doctor(stage) == ["none"]


@pytest.mark.parametrize("step", STEPS)
def test_a_daemon_killed_while_it_deletes_an_agent_leaves_nothing(stage, step):
    kill = stage.base / "kill"
    boss = stage.begun({**stage.env, "ORCHESTRATOR_KILL_AT": f"{step}={kill}"})
    created(stage, boss)
    assert len(temporary(stage)) == 1
    kill.write_text("self")
    assert boss.tool("agent_delete", {"agent_id": "a"})["status"] == "deleted"
    assert not kill.exists(), "the step was passed"
    until(lambda: temporary(stage) == [])


def test_a_process_that_was_left_behind_delays_nobody_and_gc_takes_the_rest(stage):
    boss = stage.begun()
    made = boss.tool("agent_create", {"name": "a", "role": "r", "engine": "shell"})
    assert made["ready"] is True
    script = stage.base / "writer.py"
    script.write_text(WRITER)
    boss.tool("task_enqueue", {"agent_id": "a", "task": {"payload": {"command": f"{sys.executable} {script}"}}})
    until(lambda: "result" in stage.types("a"))
    [place] = temporary(stage)
    until(lambda: len(list(place.iterdir())) > 10)
    writer = int((stage.root / "writer.pid").read_text())
    try:
        assert boss.tool("agent_delete", {"agent_id": "a"})["status"] == "deleted"
        assert alive(writer) and not place.exists()
        gc = json.loads(stage.cli("gc", "--apply", "--json").stdout)
        assert {row["kind"] for row in gc["items"]} <= {"temporary directory"}, "it may have won or lost the race"
    finally:
        os.kill(writer, signal.SIGKILL)
        until(lambda: not alive(writer))
    assert stage.cli("gc", "--apply", "--json").returncode == 0
    assert temporary(stage) == []


def test_commands_of_a_shell_agent_use_its_directory_unless_the_user_names_one(stage):
    boss = stage.begun({**stage.env, "TMPDIR": "/tmp"})
    for name, env in (("a", {}), ("b", {"TMPDIR": str(stage.base)})):
        assert boss.tool("agent_create", {"name": name, "role": "r", "engine": "shell", "env": env})["ready"] is True
        task = {"task_id": "t", "payload": {"command": "mktemp"}}
        boss.tool("task_enqueue", {"agent_id": name, "task": task})
        until(lambda name=name: "result" in stage.types(name))
    [place] = temporary(stage)
    tails = [next(one for one in stage.records(name) if one["type"] == "result")["payload"] for name in ("a", "b")]
    assert [Path(tail["last_lines"][-1]).parent for tail in tails] == [place, stage.base]


def test_a_squad_member_has_a_directory_of_its_own_until_it_ends(stage):
    squads.role(stage)
    program = stage.base / "member.py"
    program.write_text(
        "import os, sys\n"
        "open(os.environ['TMPDIR'] + '/left', 'w').close()\n"
        f"open({str(stage.base / 'places')!r}, 'a').write(os.environ['TMPDIR'] + '\\n')\n"
    )
    wire = squads.connect(stage, ENGINE_COMMAND=f"{sys.executable} {program}", STATE_MODE="stateless")
    answer = squads.start(wire, "one", "two")
    assert [row["status"] for row in answer["members"]] == ["completed"] * 2
    assert len(set(places_of(stage))) == 2
    assert {Path(path).parent for path in places_of(stage)} == {stage.run_dir() / "tmp"}
    until(lambda: temporary(stage) == [])


@pytest.mark.parametrize("step", ["squad:spawned", "squad:told"])
def test_a_daemon_killed_during_a_squad_leaves_nothing_of_its_members(stage, step):
    squads.role(stage)
    kill = stage.base / "kill"
    kill.write_text("self")
    wire = squads.connect(stage, ORCHESTRATOR_KILL_AT=f"{step}={kill}")
    answer = squads.start(wire, squads.do(say="a"))
    assert not kill.exists() and len(answer["members"]) == 1
    assert lines_of(squads.log_of(stage)) is not None
    squads.gone(stage)
    until(lambda: temporary(stage) == [])
