"""The configuration breaks while the daemon runs: the last good one stays, the error is shown, and mending it is enough."""

import json
import os
import shutil

import pytest

from tests.crash.raw import Raw, log, ready, started
from tests.support.stage import until


def put(stage, text):
    half = stage.base / "half"
    half.write_text(text)
    half.replace(stage.root / ".agents" / "config.toml")


def a_directory(file):
    file.unlink()
    file.mkdir()


def a_pipe(file):
    file.unlink()
    os.mkfifo(file)


def a_device(file):
    file.unlink()
    file.symlink_to("/dev/zero")


def a_loop(file):
    file.unlink()
    file.symlink_to(file)


def large(file):
    half = file.with_name("half.toml")
    with half.open("wb") as data:
        data.write(b"max_restarts = 7\n#")
        data.truncate(100 << 20)
    half.replace(file)


def written(text):
    def write(file):
        half = file.with_name("half.toml")
        half.write_bytes(text)
        half.replace(file)

    return write


BROKEN = {
    "a directory": a_directory,
    "a pipe": a_pipe,
    "a device": a_device,
    "a loop of links": a_loop,
    "100 MB": large,
    "NULs": written(b"\0" * 1000),
    "not UTF-8": written(b"max_restarts = '\xff'\n"),
    "half a line": written(b"max_restarts = "),
    "deep nesting": written(b"a = " + b"[" * 100_000),
    "a number without end": written(b"max_restarts = " + b"9" * 100_000),
    "an unknown key": written(b"max_restart = 2\n"),
    "a wrong value": written(b"max_restarts = 'many'\n"),
}


def test_whatever_becomes_of_the_file_the_last_good_configuration_stays(make_stage, faults):
    stage = make_stage()
    stage.env["ORCHESTRATOR_TMUX_SOCKET"] = stage.server.socket.name
    daemon = started(stage)
    file = stage.root / ".agents" / "config.toml"
    put(stage, "max_unfinished_tasks = 1\n")
    until(lambda: "configuration reloaded" in log(stage))
    wire = stage.begun()
    ready(wire, "a")
    stage.hold("a")
    asking = Raw(stage, kind="cli").begin()

    def error_shown():
        return asking.answer(asking.ask("orchestrator/status"))["result"]["config_error"]

    first = {"task_id": "t1", "payload": {"command": "true"}}
    assert "error" not in wire.tool("task_enqueue", {"agent_id": "a", "task": first})
    for number, (name, break_it) in enumerate(BROKEN.items()):
        told, taken = log(stage).count("not taken over"), log(stage).count("configuration reloaded")
        daemon.suspend()  # it must not see the moment without a file, which is a configuration too
        break_it(file)
        daemon.resume()
        until(lambda told=told: log(stage).count("not taken over") > told)
        error = error_shown()
        assert (error["kind"], error["code"]) == ("BadRequest", "bad_config"), name
        assert str(file) in error["message"]
        assert len(error["message"]) < 1000, name
        second = wire.tool("task_enqueue", {"agent_id": "a", "task": {"task_id": "t2", "payload": {}}})
        assert second["error"]["code"] == "queue_full", (name, "the last good one holds")
        if number == 0:
            doctor = stage.cli("doctor").stdout
            assert "older settings" in doctor and str(file) in doctor
            assert "not applied" in stage.cli("daemon", "status").stdout
        assert log(stage).count("not taken over") == told + 1, (name, "said once")
        daemon.suspend()
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        put(stage, f"max_unfinished_tasks = 1\nmax_restarts = {number}\n")
        daemon.resume()
        until(lambda taken=taken: log(stage).count("configuration reloaded") > taken)
        assert error_shown() is None
        faults("world")
    asking.sock.close()
    stage.let_go()
    assert stage.daemon() == daemon.pid
    assert "Traceback" not in log(stage)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("a directory", marks=pytest.mark.slow),
        "a pipe",
        pytest.param("deep nesting", marks=pytest.mark.slow),
    ],
)
def test_a_daemon_that_finds_such_a_file_at_its_start_says_so_and_does_not_hang(make_stage, name, faults):
    stage = make_stage()
    BROKEN[name](stage.root / ".agents" / "config.toml")
    shown = stage.cli("daemon", "start", "--json")
    assert json.loads(shown.stdout)["error"]["code"] == "bad_config"
    assert "Traceback" not in shown.stderr
    assert "Traceback" not in log(stage)
    file = stage.root / ".agents" / "config.toml"
    shutil.rmtree(file) if file.is_dir() else file.unlink()
    put(stage, f'tmux_socket = "{stage.server.socket.name}"\n')
    started(stage)
    faults("world")
