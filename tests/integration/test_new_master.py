"""A new master in the same window takes the team over: its pane, the grid, its hook, and all the team has done."""

import json
import os
import socket
import sys

import pytest

from orchestrator.base import failpoints
from orchestrator.base.platform import process_facts
from tests.support.stage import ORPHAN, RELAY, Wire, until

pytestmark = pytest.mark.tmux

AGENTS = {"agents": [{"name": name, "role": "r", "engine": "shell"} for name in ("a", "b")]}


# What a CLI starts beside its relay, and is its hook: it connects where it is told to, and carries lines. The daemon
# reads from the kernel whose child it is.
BESIDE = """
import ctypes, os, select, signal, socket, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[2]):
    sys.exit()
door = socket.socket(socket.AF_UNIX)
door.bind(sys.argv[1] + ".new")
door.listen()
os.rename(sys.argv[1] + ".new", sys.argv[1])
pairs = {}
while True:
    for one in select.select([door, *pairs], [], [])[0]:
        if one is door:
            client, daemon = door.accept()[0], socket.socket(socket.AF_UNIX)
            daemon.connect(client.makefile("r").readline().strip())
            client.send(b"connected\\n")
            pairs[client], pairs[daemon] = daemon, client
        elif one in pairs:
            data = one.recv(65536)
            if data:
                pairs[one].sendall(data)
            else:
                other = pairs.pop(one)
                pairs.pop(other)
                one.close(), other.close()
"""
CLI = ORPHAN.replace(
    "        os.execvp(",
    """        cli = str(os.getpid())
        if os.fork() == 0:
            os.closerange(0, 2)
            os.closerange(3, 256)
            os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", os.environ["BESIDE"], sys.argv[1] + ".hook", cli])
        os.execvp(""",
)


def led(stage, env):
    """A master that has shaken hands, with the hook of its CLI beside it."""
    assert CLI != ORPHAN
    stage._count += 1
    pid_file = stage.base / f"cli-{stage._count}.pid"
    command = [sys.executable, "-I", "-S", "-c", CLI, str(pid_file), *RELAY]
    wire = Wire(command, {**env, "BESIDE": BESIDE}, stage.root, stage.base / "stderr")
    wire.pid_file = pid_file
    stage.wires.append(wire)
    wire.begin()
    return wire


class HookLine:
    """A turn-end hook of a CLI, as the daemon sees one: its hello, one event, and the word it is answered."""

    def __init__(self, stage, master):
        place = master.pid_file.with_name(master.pid_file.name + ".hook")
        until(place.exists)
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(90)
        self.sock.connect(str(place))
        self.sock.sendall(f"{stage.run_dir() / 'socket'}\n".encode())
        assert self.sock.recv(100) == b"connected\n"
        said = {"proto": 1, "conn": "hook", "project": os.path.realpath(stage.root), "kind": "hook"}
        self.sock.sendall(json.dumps({"hello": said}).encode() + b"\n" + b'{"event": "Stop", "session": "s"}\n')
        self.lines = self.sock.makefile("rb")
        self.lines.readline()  # the daemon's hello

    def word(self):
        return json.loads(self.lines.readline())

    def close(self):
        self.lines.close()
        self.sock.close()


def facts(master):
    pid = int(master.pid_file.read_text())
    return {"pid": pid, "start": process_facts.start_time(pid), "client": "test"}


def leads(stage, master, pane):
    """Whether run.json says so."""
    (run,) = stage.run_files()
    return (run["master"], run["master_pane"]) == (facts(master), pane)


def work(master, agent_id, task_id, command="true"):
    task = {"task_id": task_id, "payload": {"command": command}}
    assert "error" not in master.tool("task_enqueue", {"agent_id": agent_id, "task": task})


def ended(stage, agent_id, task_id):
    return until(lambda: [r for r in stage.records(agent_id) if r["type"] == "result" and r["task_id"] == task_id])


def told(master):
    """The tasks whose ends the broadcast tells from its beginning."""
    page = master.tool("broadcast_read", {})
    return [one["task_id"] for one in page["events"] if one["type"] == "result"]


@pytest.mark.parametrize(
    "how",
    [
        "in the same pane",
        *(pytest.param(how, marks=pytest.mark.slow) for how in ("beside the first", "its pane is closed")),
    ],
)
def test_a_new_master_takes_the_team_over(stage, how):
    pane = stage.server.start()
    window = stage.server.show(pane, "#{window_id}")
    first = led(stage, stage.inside(pane))
    assert first.tool("agents_create", AGENTS)["ready"] == 2
    assert leads(stage, first, pane)
    work(first, "a", "t-1")
    ended(stage, "a", "t-1")
    # The first one reads what has ended: the second has not.
    until(lambda: told(first) == ["t-1"])

    place = pane if how == "in the same pane" else stage.server.split(pane, "-v")
    if how != "beside the first":
        first.vanish()
    if how == "its pane is closed":
        stage.server.run("kill-pane", "-t", pane)
    second = led(stage, stage.inside(place))
    rows = second.tool("agent_list", {})["agents"]
    assert [row["agent_id"] for row in rows] == ["a", "b"]
    until(lambda: leads(stage, second, place))

    # Its hook is held for this run, and first told of what it has not read, which is all.
    hook = HookLine(stage, second)
    word = hook.word()
    hook.close()
    assert word["answer"] == "wake"
    assert "since_seq=0" in word["reason"]
    assert told(second) == ["t-1"]
    gate = stage.base / "gate"
    work(second, "b", "t-2", f"while [ ! -e {gate} ]; do sleep 0.1; done")
    held = HookLine(stage, second)
    until(lambda: (stage.run_dir() / "log").read_text().count("held until its team has news") == 1)
    gate.touch()
    word = held.word()
    held.close()
    assert (word["answer"], "t-2" in word["reason"]) == ("wake", True)
    until(lambda: told(second) == ["t-1", "t-2"])

    # New agents join the grid of this window, whatever became of the first master's pane.
    made = second.tool("agent_create", {"name": "c", "role": "r", "engine": "shell"})
    assert made["ready"] is True, made
    assert sorted(stage.tagged().values()) == ["a", "b", "c"]
    assert {stage.server.show(one, "#{window_id}") for one in stage.tagged()} == {window}
    sizes = [stage.server.show(one, "#{pane_width} #{pane_height}").split() for one in stage.tagged()]
    assert all(int(width) >= 30 and int(height) >= 5 for width, height in sizes), sizes
    assert len(stage.run_files()) == 1
    for name in ("a", "b", "c"):
        assert second.tool("agent_delete", {"agent_id": name})["ok"]
    assert stage.run_files()[0]["ended_at"]
    assert stage.server.panes(window).count(place) == 1
    assert stage.server.run("show-options", "-w", "-t", window) == ""


def test_an_agent_gets_its_pane_though_the_masters_was_closed_before_it_could_be_made(stage):
    """A daemon dies behind an intent, and master, its pane and the unfinished one are gone before the next one looks."""
    kills = stage.base / "kills"
    kills.mkdir()
    stage.env[failpoints.VARIABLE] = f"*={kills}"
    pane = stage.server.start()
    window = stage.server.show(pane, "#{window_id}")
    users = stage.server.split(pane)
    first = stage.begun(stage.inside(pane))
    assert first.tool("agent_create", {"name": "a", "role": "r", "engine": "shell"})["ready"]
    (kills / "tmux:split-window").write_text("self")
    held = stage.run_dir() / "stopped"  # relays start no daemon before the panes are closed
    held.touch(mode=0o600)
    first.start("agent_create", {"name": "b", "role": "r", "engine": "shell"})
    until(lambda: stage.daemon() is None)
    for one in set(stage.server.panes(window)) - {users, *stage.tagged()}:
        stage.server.run("kill-pane", "-t", one)
    first.vanish()
    assert sorted(stage.server.panes(window)) == sorted([users, *stage.tagged()])
    held.unlink()
    until(lambda: stage.types("b")[-1:] == ["ready"])
    assert sorted(stage.tagged().values()) == ["a", "b"]
    assert {stage.server.show(one, "#{window_id}") for one in stage.tagged()} == {window}
