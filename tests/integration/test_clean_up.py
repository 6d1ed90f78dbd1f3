"""`orchestrator gc` and `orchestrator doctor --fix` as a user runs them: real daemon, real panes, kill -9 in between."""

import fcntl
import json
import os
import socket

import pytest

from orchestrator.base.platform import process_facts
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.edge import project_location
from orchestrator.journal.project_lock import claim
from orchestrator.tmux import splits
from tests.support.damaged_team import Life
from tests.support.stage import alive, until

pytestmark = [pytest.mark.tmux, pytest.mark.anyio]
STEP = "ORCHESTRATOR_KILL_AT"


def run(stage, env, *args):
    done = stage.cli(*args, env=env)
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        raise AssertionError((done.returncode, done.stdout, done.stderr)) from None


@pytest.fixture
def place(stage):
    """The environment of a user in a pane of the private server, with a directory of steps to die at."""
    kills = stage.base / "kills"
    kills.mkdir()
    pane = stage.server.start()
    return {**stage.inside(pane), STEP: f"*={kills}"}


def arm(stage, step):
    half = stage.base / "kills" / "half"
    half.write_text("self")
    half.rename(stage.base / "kills" / step)


def fired(stage, step):
    return list((stage.base / "kills").glob(f"{step}.*"))


def worked(stage, place):
    assert run(stage, place, "agent", "create", "a1", "--role", "r", "--engine", "shell", "--json")[0] == 0
    for number in (1, 2):
        told = run(stage, place, "task", "add", "a1", "--id", f"t{number}", "--command", "true", "--json")
        assert told[0] == 0, told
    until(lambda: stage.types("a1").count("result") == 2)


def test_a_log_damaged_while_no_daemon_ran_is_mended_also_when_the_daemon_is_killed_meanwhile(stage, place):
    worked(stage, place)
    [worker] = [pid for pid, command in stage.processes().items() if command.endswith(" worker ")]
    stage.kill_daemon()
    until(stage.daemon)  # the worker's relay has started another
    run(stage, place, "daemon", "stop", "--json")
    path = stage.root / ".agents" / "agents" / "a1" / "outbox.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"ready"', b'"reedy"'))
    damaged = path.read_bytes()
    code, told = run(stage, place, "doctor", "--json")
    assert code == 6
    [bad] = [one for one in told["findings"] if one["level"] == "bad"]
    assert "--fix" in bad["next_step"] and "records kept" in bad["next_step"]
    assert path.read_bytes() == damaged, "without --fix nothing is changed"
    run(stage, place, "daemon", "start", "--json")
    arm(stage, "fix:rewritten")
    code, told = run(stage, place, "doctor", "--fix", "--json")
    assert fired(stage, "fix:rewritten"), "it was killed, and another went on"
    assert (code, told["not_fixed"], told["ok"]) == (0, [], True)
    until(lambda: not alive(worker))
    [kept] = path.parent.glob("outbox.jsonl.quarantine-*")
    assert kept.read_bytes() == damaged
    code, told = run(stage, place, "doctor", "--fix", "--json")
    assert (code, told["fixed"], told["not_fixed"]) == (0, [], [])
    run(stage, place, "daemon", "restart", "--json")
    code, told = run(stage, place, "doctor", "--json")
    assert code == 0 and told["ok"]
    meta = run(stage, place, "agent", "show", "a1", "--json")[1]["meta"]
    assert (meta["status"], meta["finished"]["result"]) == ("failed", 2)
    assert run(stage, place, "agent", "delete", "a1", "--json")[0] == 0
    assert "deleted" in stage.types("a1")


def test_a_daemon_removes_run_directories_that_nobody_has_needed_for_a_day(stage):
    old, young, stopped = (stage.run_base / (letter * 16) for letter in "abc")
    for directory in (old, young, stopped):
        (directory / "tmp" / "a01234567").mkdir(parents=True)
        directory.chmod(0o700)
        for name in ("lock", "log", "starts"):
            (directory / name).touch(mode=0o600)
            if directory != young:
                os.utime(directory / name, (1, 1))
    project_location.write_stopped(stopped)
    os.utime(stopped / "stopped", (1, 1))
    assert stage.cli("daemon", "start").returncode == 0
    until(lambda: not old.exists())
    assert (young / "tmp").is_dir() and (stopped / "stopped").exists()


def test_gc_takes_what_is_over_and_ours_also_when_the_daemon_is_killed_meanwhile(stage, place):
    worked(stage, place)
    run_id = stage.run_files()[0]["run_id"]
    assert run(stage, place, "agent", "delete", "a1", "--json")[0] == 0
    # The worker's guard ends after it, and has the agent's environment.
    until(lambda: not any(" -c group=" in command for command in stage.processes().values()))
    panes = {}
    for name, run_tag in (("orphan", run_id), ("strange", "run-of-another-project")):
        panes[name] = stage.server.split(place["TMUX_PANE"])
        tags = {"agent": "a1", "run": run_tag, "epoch": "1"}
        for tag, value in tags.items():
            stage.server.run("set-option", "-p", "-t", panes[name], f"@orchestrator_{tag}", value)
    dead, held, touched = (stage.run_base / (letter * 16) for letter in "abc")
    for directory in (dead, held, touched):
        directory.mkdir(mode=0o700)
        (directory / "lock").touch(mode=0o600)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(directory / "socket"))
    # All are young: what is a day old a daemon may sweep by itself at any moment.
    (touched / "notes-of-somebody").write_text("x")
    lock = os.open(held / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    code, told = run(stage, place, "gc", "--older-than", "0", "--json")
    kinds = [one["kind"] for one in told["items"]]
    assert (code, kinds) == (0, ["pane", "agent", "run", "run directory"])
    assert stage.tagged()[panes["orphan"]] == "a1" and dead.exists() and stage.records("a1")
    code, told = run(stage, place, "gc", "--json")
    assert [one["kind"] for one in told["items"]] == ["pane"], "the rest is not old enough"
    for step in ("gc:agent-file", "gc:run-file"):
        arm(stage, step)
    code, told = run(stage, place, "gc", "--older-than", "0", "--apply", "--json")
    assert code == 0 and all(one["done"] for one in told["items"]), told
    assert fired(stage, "gc:agent-file") and fired(stage, "gc:run-file")
    assert stage.tagged() == {panes["strange"]: "a1"}
    assert not dead.exists() and (held / "lock").exists() and (touched / "notes-of-somebody").exists()
    home = stage.root / ".agents"
    left = [str(path.relative_to(home)) for path in home.glob("*/*/**/*") if path.is_file()]
    assert sorted(path for path in left if "artifacts" not in path) == ["agents/a1/collected.json"]
    assert run(stage, place, "gc", "--older-than", "0", "--apply", "--json")[1]["items"] == []
    assert (
        run(stage, place, "agent", "create", "a1", "--role", "r", "--engine", "shell", "--json")[1]["agent_id"]
        == "a1-2"
    )
    assert run(stage, place, "agent", "delete", "a1-2", "--json")[0] == 0
    os.close(lock)


async def test_only_an_older_session_of_nobody_is_ended_after_a_start(stage, tmp_path, monkeypatch):
    monkeypatch.setattr(project_location, "own_command", lambda *_: ["env", "cat"])
    life = Life(tmp_path / "p", tmux_socket=stage.server.socket.name)
    windows = life.supervisor.team_panes

    def stands():
        return splits.find_detached(stage.server.socket, windows.detached.name()) is not None

    place = await windows.place_of(ConnectionOrigin("m", "/"), make=True)
    await windows.end_abandoned_session()
    assert stands(), "it was made after we began: by another daemon of the project, whose run comes next"
    monkeypatch.setattr(process_facts, "start_time", lambda _: 1)
    (tmp_path / "p" / ".agents").mkdir()
    other = claim(life.paths)
    await windows.end_abandoned_session()
    assert stands(), "another daemon writes the project's files"
    other.release()
    await windows.end_abandoned_session()
    assert place.made
    assert not stands()
    life.team.close()
