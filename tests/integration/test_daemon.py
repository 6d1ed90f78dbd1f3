"""The real daemon's life: one per project, replaced when it dies, held when stopped, honest when it cannot start."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import loaded_modules
from tests.support.stage import BOUND_S, Wire, alive, until

MANY = 5_000
"""Old run directories: more than a daemon removes while another process starts and ends."""


def daemons(stage):
    return [pid for pid, command in stage.processes().items() if " daemon run " in command]


def config(stage, text):
    half = stage.base / "config.half"  # in one piece: a daemon takes an empty file over too
    half.write_text(f'tmux_socket = "{stage.server.socket.name}"\n{text}')
    half.replace(stage.root / ".agents" / "config.toml")


def status(stage):
    return json.loads(stage.cli("daemon", "status", "--json").stdout)


def connections(stage):
    """How many connections the daemon has not closed yet: its ends of them carry the socket's name."""
    rows = [row.split() for row in Path("/proc/net/unix").read_text().splitlines()]
    return sum(row[5] == "03" and row[7:] == [str(stage.run_dir() / "socket")] for row in rows)


def greet(stage, **changed):
    """Say hello by hand; the daemon's answer, or None when it just closes."""
    hello = {
        "proto": 1, "version": "9.9", "install": "/elsewhere", "project": str(stage.root), "conn": "ab" * 8, "boot": 1,
        "kind": "relay", "cwd": str(stage.root), "toolsets": ["team"], "tmux": None, "tmux_pane": None, "tty": None,
        "pids": [], "agent": None, "env": {}, "pending": [],
    } | changed  # fmt: skip
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(BOUND_S)
        sock.connect(str(stage.run_dir() / "socket"))
        sock.sendall(json.dumps({"hello": hello}).encode() + b"\n")
        line = sock.makefile("rb").readline()
    return json.loads(line)["hello"] if line else None


def test_the_end_does_not_wait_until_all_old_run_directories_are_removed(stage):
    stage.run_base.chmod(0o700)
    for number in range(MANY):
        directory = stage.run_base / f"{number:016x}"
        directory.mkdir(mode=0o700)
        (directory / "lock").touch(mode=0o600)
        os.utime(directory / "lock", (1, 1))
    assert stage.cli("daemon", "start").returncode == 0
    stage.stop_daemon()  # about when it begins to remove them
    assert len(list(stage.run_base.glob("0000*"))) > 0


def test_thirty_relays_at_once_start_one_daemon_and_are_all_answered(stage):
    with ThreadPoolExecutor(30) as pool:
        wires = [stage.wire() for _ in range(30)]
        answers = list(pool.map(Wire.begin, wires))
    assert {answer["serverInfo"]["name"] for answer in answers} == {"orchestrator"}
    assert len(daemons(stage)) == 1
    pid = stage.kill_daemon()
    with ThreadPoolExecutor(30) as pool:
        lists = list(pool.map(lambda wire: wire.ask("tools/list", {}), wires))
    assert all(len(answer["result"]["tools"]) == 12 for answer in lists)
    assert len(daemons(stage)) == 1
    assert daemons(stage) != [pid]


def test_a_daemon_answers_before_it_imports_what_no_first_caller_needs(stage):
    wire = stage.begun({**stage.env, "PYTHONPROFILEIMPORTTIME": "1"}, "--toolsets", "team,smartspawn")
    assert wire.ask("tools/list", {})["result"]["tools"]
    log = stage.run_dir() / "log"
    until(lambda: " watchfiles\n" in log.read_text())
    imports = re.compile(r"^import time: .*\| +([\w.]+)$", re.MULTILINE)
    to_be_ready, afterwards = map(imports.findall, log.read_text().split("event=ready", 1))
    assert afterwards.index("orchestrator.spawn.tools") < afterwards.index("watchfiles")  # the call comes first
    never = {"rich.console", "starlette.types", "uvicorn", "mcp.client.session", "mcp.server.mcpserver"}
    assert not {"httpx2", "libtmux", "watchfiles", "yaml", *never} & set(to_be_ready)
    assert not never & set(afterwards[: afterwards.index("watchfiles")])
    assert len(to_be_ready) < 730


def test_a_second_daemon_is_refused(stage):
    stage.begun()
    first = daemons(stage)
    second = stage.cli("daemon", "run", "--project", str(stage.root), "--json")
    assert second.returncode == 3
    assert json.loads(second.stdout)["error"]["code"] == "daemon_running"
    assert daemons(stage) == first


def test_a_daemon_from_another_run_directory_does_not_touch_claimed_files(stage):
    wire = stage.begun()
    assert wire.tool("agent_create", {"name": "a", "role": "r"})["ready"]
    other = stage.base / "other"
    other.mkdir(mode=0o700)
    refused = stage.cli(
        "daemon",
        "run",
        "--project",
        str(stage.root),
        "--json",
        env={**stage.env, "ORCHESTRATOR_RUN_BASE": str(other)},
    )
    assert refused.returncode == 3
    assert json.loads(refused.stdout)["error"]["code"] == "daemon_running"
    assert wire.tool("agent_delete", {"agent_id": "a"})["ok"]


def test_a_daemon_whose_lock_and_socket_were_removed_ends_and_one_other_takes_over(stage):
    wire = stage.begun()
    (first,) = daemons(stage)
    shutil.rmtree(stage.run_dir())
    until(lambda: first not in daemons(stage))
    assert "result" in wire.ask("tools/list", {})
    assert len(daemons(stage)) == 1


def test_start_stop_status_and_restart_do_what_they_say(stage):
    assert stage.cli("daemon", "status").returncode == 4
    assert stage.cli("daemon", "start").returncode == 0
    told = status(stage)
    assert (told["project"], told["pid"]) == (str(stage.root), daemons(stage)[0])
    wire = stage.begun()
    assert [c["kind"] for c in status(stage)["connections"]].count("relay") == 1
    assert stage.cli("daemon", "restart").returncode == 0
    assert status(stage)["pid"] != told["pid"]
    assert "result" in wire.ask("tools/list", {})
    assert stage.cli("daemon", "stop").returncode == 0
    assert daemons(stage) == []
    assert wire.tool("agent_list", {})["error"]["code"] == "daemon_stopped"
    assert stage.cli("daemon", "status").returncode == 4
    assert daemons(stage) == []
    assert stage.cli("daemon", "start").returncode == 0
    assert wire.tool("agent_list", {}) == {"agents": []}
    assert not list(stage.run_dir().glob("restarting"))


def test_a_graceful_end_of_the_daemon_is_invisible_to_a_waiting_client(stage):
    wire = stage.begun()
    assert wire.tool("agent_create", {"name": "a", "role": "r"})["ready"]
    seq = wire.tool("broadcast_read")["last_seq"]
    waiting = wire.start("broadcast_read", {"since_seq": seq, "wait_ms": 30_000})
    until(lambda: status(stage)["connections"])
    (pid,) = daemons(stage)
    os.kill(pid, 15)
    until(lambda: pid not in daemons(stage))
    assert wire.tool("agent_delete", {"agent_id": "a"})["ok"]
    assert wire.outcome(wire.answer(waiting))["events"]


def test_a_bad_configuration_is_told_to_the_caller_and_cured_by_mending_the_file(stage):
    config(stage, "max_restart = 2\n")
    wire = stage.wire()
    key = wire.request(
        "initialize",
        {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    )
    until((stage.run_dir() / "failed").exists)
    failed = json.loads((stage.run_dir() / "failed").read_text())
    assert failed["code"] == "bad_config"
    assert "max_restarts" in failed["next_step"]
    assert not wire.answers(key), "the relay holds the handshake, or the CLI would go on without the tools"
    config(stage, "max_restarts = 2\n")
    assert wire.answer(key)["result"]["serverInfo"]["name"] == "orchestrator"


def test_a_changed_configuration_is_taken_over_and_a_broken_one_leaves_the_last_good_one(stage):
    wire = stage.begun()
    assert wire.tool("agent_create", {"name": "a", "role": "r"})["ready"]
    stage.hold("a")
    config(stage, "max_unfinished_tasks = 1\n")
    log = stage.run_dir() / "log"
    until(lambda: "configuration reloaded" in log.read_text())
    wire.tool("task_enqueue", {"agent_id": "a", "task": {"task_id": "t1"}})
    assert wire.tool("task_enqueue", {"agent_id": "a", "task": {"task_id": "t2"}})["error"]["code"] == "queue_full"
    config(stage, "max_unfinished_tasks = 'many'\n")
    until(lambda: status(stage)["config_error"])
    assert status(stage)["config_error"]["code"] == "bad_config"
    assert wire.tool("task_enqueue", {"agent_id": "a", "task": {"task_id": "t2"}})["error"]["code"] == "queue_full"
    stage.let_go()


def test_another_version_with_the_same_protocol_is_served(stage):
    stage.begun()
    assert greet(stage)["proto"] == 1


def test_another_protocol_is_refused_while_the_daemon_is_busy_naming_both_installations(stage):
    stage.begun()
    for proto in (0, 2):
        error = greet(stage, proto=proto)["error"]
        assert error["code"] == "proto_mismatch"
        assert "/elsewhere" in error["message"]
        assert str(Path(__file__).resolve().parents[2] / "orchestrator") in error["message"]


def test_a_newer_protocol_takes_over_an_idle_daemon(stage):
    assert stage.cli("daemon", "start").returncode == 0
    (pid,) = daemons(stage)
    until(lambda: connections(stage) == 0)  # it is busy until it has seen that the command line has gone
    assert greet(stage, proto=2) is None
    until(lambda: pid not in daemons(stage))


def test_nonsense_instead_of_a_hello_costs_the_daemon_nothing(stage):
    wire = stage.begun()
    for data in (
        b"\n",
        b"hello\n",
        b'{"hello":1}\n',
        b'{"hello":{}}\n',
        b"\xff" * 100 + b"\n",
        b"[" * 100_000 + b"\n",
    ):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(BOUND_S)
            sock.connect(str(stage.run_dir() / "socket"))
            sock.sendall(data)
            answer = sock.makefile("rb").readline()
        assert not answer or "error" in json.loads(answer)["hello"]
    assert "result" in wire.ask("tools/list", {})
    assert "Traceback" not in (stage.run_dir() / "log").read_text()


def test_an_idle_daemon_ends_by_itself_and_the_next_call_starts_another(stage):
    config(stage, "idle_exit_s = 0.5\n")
    started = stage.cli("daemon", "start", "--json")
    assert started.returncode == 0
    pid = json.loads(started.stdout)["pid"]  # it may have ended by the time that we could look for it
    until(lambda: pid not in daemons(stage))
    assert stage.begun().tool("agent_list") == {"agents": []}


def test_a_daemon_that_lost_its_door_says_nothing_for_the_next_one(stage):
    assert stage.cli("daemon", "start").returncode == 0
    pid = stage.daemon()
    (stage.run_dir() / "lock").unlink()
    until(lambda: not alive(pid))
    assert not (stage.run_dir() / "clean").exists(), "the next daemon's start would be taken for one after a good end"
    assert "Traceback" not in (stage.run_dir() / "log").read_text()
    assert stage.begun().tool("agent_list") == {"agents": []}


@pytest.mark.tmux
def test_a_pane_that_could_not_be_struck_from_the_list_in_time_is_struck_by_the_next_daemon(stage):
    """run.json could not be written when an agent was deleted, and the daemon died before it could be."""
    pane = stage.server.start()
    master = stage.begun(stage.inside(pane))
    agents = [{"name": name, "role": "r", "engine": "shell"} for name in ("a", "b")]
    assert master.tool("agents_create", {"agents": agents})["ready"] == 2
    (file,) = (stage.root / ".agents" / "run").glob("*/run.json")
    before = file.read_bytes()
    assert master.tool("agent_delete", {"agent_id": "a"})["ok"]
    held = stage.run_dir() / "stopped"  # relays start no daemon before the file is as it was
    held.touch(mode=0o600)
    stage.kill_daemon()
    file.write_bytes(before)
    held.unlink()
    assert [row["agent_id"] for row in master.tool("agent_list", {})["agents"]] == ["b"]
    assert list(stage.run_files()[0]["agents"]) == ["b"]
    assert master.tool("agent_delete", {"agent_id": "b"})["ok"]
    (run,) = stage.run_files()
    assert run["agents"] == {}
    assert run["ended_at"]


def test_what_shows_the_team_loads_no_slow_library_whether_a_daemon_runs_or_not(stage):
    """A start takes about as long as its imports, so a few more modules are allowed and no library."""
    assert stage.cli("agent", "create", "w1", "--role", "r", "--engine", "shell").returncode == 0
    most = {("status",): 280, ("daemon", "status"): 275, ("agent", "list"): 285, ("inbox",): 290}
    for line, count in most.items():
        _, modules = loaded_modules.loaded(line, stage.env, stage.root)
        assert modules & loaded_modules.HEAVY == set(), line
        assert len(modules) <= count, line
    assert stage.cli("agent", "delete", "w1", "--force", "--yes").returncode == 0
    assert stage.cli("daemon", "stop").returncode == 0
    for line in (("status",), ("agent", "list"), ("events", "w1"), ("inbox",)):
        _, modules = loaded_modules.loaded(line, stage.env, stage.root)
        assert modules & loaded_modules.HEAVY == set(), line
        assert len(modules) <= 310, line


def test_a_daemon_without_a_fleet_loads_nothing_of_it(stage):
    seen = stage.base / "modules"
    code = "import atexit, pathlib, sys\n"
    code += f"atexit.register(lambda: pathlib.Path({str(seen)!r}).write_text(' '.join(sys.modules)))\n"
    code += "from orchestrator.__main__ import main\nmain()"
    argv = [sys.executable, "-P", "-c", code, "daemon", "run", "--project", str(stage.root)]
    with subprocess.Popen(argv, env=stage.env, cwd=stage.root, stdin=subprocess.DEVNULL) as daemon:
        until(lambda: stage.cli("daemon", "status").returncode == 0)
        assert stage.cli("agent", "create", "w1", "--role", "r", "--engine", "shell").returncode == 0
        assert stage.cli("agent", "delete", "w1", "--force", "--yes").returncode == 0
        assert stage.cli("daemon", "stop").returncode == 0
        assert daemon.wait(BOUND_S) == 0
    modules = set(seen.read_text().split())
    assert "orchestrator.team.life.fleet_creation" in modules, "what the team itself needs of it"
    assert {"psycopg", "orchestrator.fleet"} & modules == set()
