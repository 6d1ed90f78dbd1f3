"""The bench for relay tests: a private project and run directory, raw clients, and the fake daemon's effects."""

import array
import contextlib
import fcntl
import json
import os
import queue
import signal
import subprocess
import sys
import termios
import threading
from pathlib import Path

from orchestrator.edge import project_location
from tests.support import tmux_server

HERE = Path(__file__).resolve().parent
BOUND_S = 60.0


def until(look, bound=BOUND_S):
    """As tmux_server's, with a bound of its own."""
    return tmux_server.until(look, bound)


class Bench:
    """One project with its run directory; `close` ends every client and every fake daemon that was started."""

    def __init__(self, base, monkeypatch):
        self.base = base
        self.root = base / "project"
        (self.root / ".git").mkdir(parents=True)
        monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(base / "run"))
        monkeypatch.setenv("HOME", str(base))
        self.run = project_location.run_dir(self.root)
        self.clients = []

    def behave(self, **behaviour):
        half = self.run / "behaviour.half"
        half.write_text(json.dumps(behaviour))
        half.replace(self.run / "behaviour.json")

    def client(self, *arguments, env=None, cwd=None, argv=None, **limits):
        command = argv or [sys.executable, str(HERE / "patched_relay.py"), json.dumps(limits), *arguments]
        one = Client(command, cwd or self.root, {**os.environ, "PYTHONPATH": str(HERE.parents[1]), **(env or {})})
        self.clients.append(one)
        return one

    def effects(self, what=None):
        found = []
        with contextlib.suppress(FileNotFoundError):
            for line in (self.run / "effects.jsonl").read_bytes().split(b"\n")[:-1]:
                with contextlib.suppress(ValueError):  # cut off by a kill -9: it never became a fact
                    found.append(json.loads(line))
        return [fact for fact in found if what in (None, fact["what"])]

    def lines(self, method):
        return [fact["message"] for fact in self.effects("line") if fact["message"].get("method") == method]

    def starts(self):
        return len(self.effects("start"))

    def alive(self):
        """The pids of fake daemons that run."""
        return [pid for pid in {fact["pid"] for fact in self.effects("start")} if is_fake(pid, self.run)]

    def kill(self):
        """Kill -9 of the one daemon, after it is up."""
        [pid] = until(self.alive)
        os.kill(pid, signal.SIGKILL)
        until(lambda: not is_fake(pid, self.run))

    def kill_seen_by(self, one):
        """Kill -9 of the one daemon, and wait until the client's relay has closed its connection.

        What the relay gets before that may have reached the daemon.
        """
        connected = one.sockets()
        self.kill()
        until(lambda: one.sockets() < connected)

    def close(self):
        for one in self.clients:
            one.end()
        until(self._over)

    def _over(self):
        """End the daemons known by now; true when nobody holds the lock, for one may be about to start."""
        for pid in self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            with (self.run / "lock").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return True
        except BlockingIOError:
            return False
        return not self.alive()


def is_fake(pid, run):
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return os.fsencode(run) in command and state != "Z"


class Client:
    """A raw MCP client: everything the relay writes is kept, and must be an MCP message."""

    def __init__(self, command, cwd, env):
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self.reading = threading.Event()
        self.reading.set()
        self.arrived = queue.Queue()
        self.received = []
        self.err = b""
        self.threads = [threading.Thread(target=job, daemon=True) for job in (self._read, self._read_err)]
        for thread in self.threads:
            thread.start()

    def _read(self):
        with self.process.stdout as out:
            with open(out.fileno(), "rb", closefd=False) as lines:
                while self.reading.wait() and (line := lines.readline()):
                    self.arrived.put(line)

    def _read_err(self):
        with self.process.stderr as err:
            while data := err.read(4096):
                self.err += data

    def raw(self, data):
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) :]

    def sockets(self):
        """How many sockets the relay has open."""
        count = 0
        for fd in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                count += str(fd.readlink()).startswith("socket:")
        return count

    def unread(self):
        """How many bytes the relay has not taken from its stdin yet."""
        count = array.array("i", [0])
        fcntl.ioctl(self.process.stdin, termios.FIONREAD, count)
        return count[0]

    def send(self, **message):
        self.raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def call(self, key, name, **arguments):
        self.send(id=key, method="tools/call", params={"name": name, "arguments": arguments})

    def take(self, bound=BOUND_S):
        """The next message; anything else on stdout fails here."""
        line = self.arrived.get(timeout=bound)
        message = json.loads(line.decode())
        assert message["jsonrpc"] == "2.0", line
        assert "id" in message or "method" in message, line
        assert line.endswith(b"\n"), line
        self.received.append(message)
        return message

    def answer(self, key):
        """The answer with exactly this id; earlier messages are kept in `received`."""
        while True:
            message = self.take()
            if "method" not in message and message["id"] == key and type(message["id"]) is type(key):
                return message

    def handshake(self, version="2025-06-18"):
        """Asked again where the machine had no time for the daemon's start, for which the relay waits 25 s."""
        for key in ("init", "init again", "init once more"):
            info = {"name": "test", "version": "1"}
            params = {"protocolVersion": version, "capabilities": {}, "clientInfo": info}
            self.send(id=key, method="initialize", params=params)
            answer = self.answer(key)
            if "daemon_down" not in json.dumps(answer.get("error")):
                break
        assert "error" not in answer, answer
        self.send(method="notifications/initialized")
        return answer

    def rest(self):
        """Everything that was still written, after the relay has ended by itself."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.reading.set()
        assert self.process.wait(BOUND_S) == 0, self.err
        for thread in self.threads:
            thread.join(BOUND_S)
        while not self.arrived.empty():
            self.take()
        return self.received

    def end(self):
        self.reading.set()
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(BOUND_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for thread in self.threads:
            thread.join(BOUND_S)
