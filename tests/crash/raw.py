"""A raw client of the real daemon's socket: what any program of the same user could send, and what it gets."""

import contextlib
import json
import os
import select
import socket
from pathlib import Path

import psutil

from tests.support.stage import BOUND_S, until

INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}


class Raw:
    """One connection. ``hello`` is sent at once unless ``greets`` is off."""

    def __init__(self, stage, *, greets=True, place=None, **changed):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(BOUND_S)
        self.sock.connect(str(place or stage.run_dir() / "socket"))
        self.rest = b""
        self.keys = 0
        if greets:
            self.send_line(hello(stage, **changed))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send_line(self, message):
        self.sock.sendall(json.dumps(message).encode() + b"\n")

    def ask(self, method, params=None):
        """Send a request; its id."""
        self.keys += 1
        self.send_line({"jsonrpc": "2.0", "id": self.keys, "method": method, "params": params or {}})
        return self.keys

    def begin(self):
        """The handshake, its answers taken."""
        assert self.line()["hello"]["proto"] == 1
        self.answer(self.ask("initialize", INITIALIZE))
        self.send_line({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def line(self):
        """The next line as JSON; None once the daemon has closed."""
        while b"\n" not in self.rest:
            try:
                data = self.sock.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def answer(self, key):
        while (message := self.line()) is not None:
            if message.get("id") == key and "method" not in message:
                return message
        return None

    def pour(self, data):
        """Send as much as the daemon takes; whether it took all before it closed."""
        try:
            self.sock.sendall(data)
        except OSError:
            return False
        return True

    def fill(self, data, quiet_s=1.0):
        """Send ``data`` again and again until the daemon takes no more for a while; how many bytes it took."""
        self.sock.setblocking(False)
        took = 0
        while select.select([], [self.sock], [], quiet_s)[1]:
            try:
                took += self.sock.send(data)
            except BlockingIOError:
                continue
            except OSError:
                break
        self.sock.settimeout(BOUND_S)
        return took


def hello(stage, **changed):
    return {
        "hello": {
            "proto": 1, "version": "9.9", "install": "/elsewhere", "project": str(stage.root), "conn": os.urandom(8).hex(),
            "boot": 1, "kind": "relay", "cwd": str(stage.root), "toolsets": ["team"], "tmux": None, "tmux_pane": None,
            "tty": None, "pids": [], "agent": None, "env": {}, "pending": [],
        }
        | changed
    }  # fmt: skip


def started(stage):
    """Start the stage's daemon by hand; its process, once it has all the descriptors that it needs by itself."""
    assert stage.cli("daemon", "start").returncode == 0
    return settled(psutil.Process(until(stage.daemon)))


def settled(daemon):
    """Wait until the daemon follows its files, which it begins a second after its start; the daemon."""
    until(lambda: links(daemon.pid).count("anon_inode:inotify") >= 2)
    return daemon


def links(pid):
    """What the process's descriptors lead to."""
    found = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(str(fd.readlink()))
    return found


def log(stage):
    return (stage.run_dir() / "log").read_text()


def connections(stage):
    """How many connections the daemon has not closed yet, those of agents too: its ends carry the socket's name."""
    rows = [row.split() for row in Path("/proc/net/unix").read_text().splitlines()]
    return sum(row[5] == "03" and Path(*row[7:8]).parent == stage.run_dir() for row in rows)


def quiet(stage, daemon):
    """Wait until nobody is connected; the daemon's descriptors then."""
    until(lambda: connections(stage) == 0)
    return daemon.num_fds()


def ready(wire, name, **more):
    """Create an agent and wait until it is ready, however slow the machine is."""
    made = wire.tool("agent_create", {"name": name, "role": "r", **more})
    assert "error" not in made, made
    asked = {"agent_id": made["agent_id"], "wait_ms": 1000}
    until(lambda: made["ready"] or wire.tool("agent_get", asked)["meta"]["status"] in ("idle", "parked"))
