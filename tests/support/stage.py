"""A private world for tests of the whole product: home, run directory, tmux server, project, and masters in it.

Every process the product starts here carries the stage's run directory in its environment; so the stage can find
all of them, and end says whether one was left over. Nothing outside the stage's own directory is touched.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import jsonschema

from orchestrator.base.errors import Environment
from orchestrator.config.keys import Config
from orchestrator.core.schemas import SCHEMAS
from tests.support import tmux_server, trusted_files
from tests.support.tmux_server import PrivateServer

T = TypeVar("T")
BOUND_S = 90.0  # beyond the 45 s that agent_create takes by itself where agents are slow to get ready
MARK = "ORCHESTRATOR_RUN_BASE"
RELAY = (sys.executable, "-P", "-m", "orchestrator", "mcp")
TERMINAL = {"result", "error", "canceled"}

# What a CLI is to its MCP server: a parent with its own environment. Orphaned (init becomes its parent), because
# the product looks for the master's pane among the relay's ancestors, and whoever runs the tests may sit in tmux.
# With a terminal of its own, as a human's CLI has: an orphan without one is trusted with nothing.
ORPHAN = """
import fcntl, os, sys, termios
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        for fd in (terminal := os.openpty()):
            os.set_inheritable(fd, True)
        fcntl.ioctl(terminal[1], termios.TIOCSCTTY, 0)
        os.close(read)
        os.set_inheritable(write, True)
        with open(sys.argv[1] + ".new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(sys.argv[1] + ".new", sys.argv[1])
        os.execvp("sh", ["sh", "-c", '"$@"; exit $?', "cli", *sys.argv[2:]])
    os._exit(0)
os.close(write)
for fd in (0, 1):
    os.close(fd)
while os.read(read, 1):
    pass
"""


def until(look: Callable[[], T | None], bound_s: float = BOUND_S) -> T:
    """As tmux_server's, with the longer bound that a whole product deserves."""
    return tmux_server.until(look, bound_s)


def processes_with(text: str) -> dict[int, str]:
    """The living processes of this user whose environment holds ``text``: pid -> command line.

    A process that was forked and has not executed its own program yet is its parent's picture, and not listed.
    """
    found: dict[int, str] = {}
    parents: dict[int, int] = {}
    for place in Path("/proc").iterdir():
        if not place.name.isdigit() or int(place.name) == os.getpid():
            continue
        try:
            if text.encode() in (place / "environ").read_bytes():
                state, parent = (place / "stat").read_bytes().rpartition(b")")[2].split()[:2]
                if state != b"Z":
                    command = (place / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(place.name)] = command.decode(errors="replace")[:300]
                    parents[int(place.name)] = int(parent)
        except OSError:
            continue
    return {pid: command for pid, command in found.items() if found.get(parents[pid]) != command}


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The complete records of a log; none when there is no file."""
    if not path.exists():
        return []
    data = path.read_bytes()
    return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every entry below ``root`` that stays: name -> (mode, content, or the target of a link)."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in sorted(root.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # a file that is just being replaced
            mode = path.lstat().st_mode
            content = path.read_bytes() if path.is_file() else b""
            if path.is_symlink():
                content = os.fsencode(path.readlink())
            found[str(path.relative_to(root))] = (mode, content)
    return found


def alive(pid: int) -> bool:
    """Whether the process still runs; one that has ended and is only not reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


class Wire:
    """A raw client of one relay: bytes in, lines out; every byte of stdout is kept and checked at the end."""

    def __init__(self, argv: Iterable[str], env: dict[str, str], cwd: Path, errors: Path) -> None:
        self.errors = errors
        self.env = env
        with errors.open("ab") as stderr:
            self.process = subprocess.Popen(
                list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=env, cwd=cwd
            )
        self.raw = bytearray()
        self.messages: list[Any] = []
        self.pid_file: Path | None = None
        self._ids = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        rest = b""
        while data := os.read(self.process.stdout.fileno(), 1 << 16):
            self.raw += data
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                with contextlib.suppress(ValueError):
                    self.messages.append(json.loads(line))

    def write(self, data: bytes) -> None:
        """Put bytes on the relay's stdin."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message: dict[str, Any]) -> None:
        """Send one JSON-RPC message."""
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def request(self, method: str, params: Any = None) -> int:
        """Send a request; its id."""
        self._ids += 1
        message = {"id": self._ids, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        return self._ids

    def answers(self, key: Any) -> list[dict[str, Any]]:
        """The answers to a request so far."""
        return [one for one in list(self.messages) if one.get("id") == key and "method" not in one]

    def answer(self, key: Any) -> dict[str, Any]:
        """The answer to a request, awaited."""
        return until(lambda: self.answers(key) or None)[0]

    def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        """Send a request and return its answer."""
        return self.answer(self.request(method, params))

    def told(self, method: str) -> list[dict[str, Any]]:
        """The notifications of that method so far."""
        return [one for one in list(self.messages) if one.get("method") == method]

    def begin(self, version: str = "2025-06-18") -> dict[str, Any]:
        """The handshake; the answer's result.

        On a machine with no time for the daemon's start the relay must refuse it after 25 s: asked again, as a human
        connects again; how long a daemon may take is not what a test's set-up is about.
        """
        info = {"name": "test", "version": "1"}
        asked = {"protocolVersion": version, "capabilities": {}, "clientInfo": info}
        answer = self.ask("initialize", asked)
        for _ in range(3):
            if "daemon_down" not in json.dumps(answer.get("error")):
                break
            answer = self.ask("initialize", asked)
        self.send({"method": "notifications/initialized"})
        result: dict[str, Any] = answer["result"]
        return result

    def tool(self, name: str, arguments: Any = None, **meta: Any) -> dict[str, Any]:
        """Call a tool; its structured answer, with ``error`` for an error result or a JSON-RPC error."""
        return self.outcome(self.answer(self.start(name, arguments, **meta)))

    def start(self, name: str, arguments: Any = None, **meta: Any) -> int:
        """Send a tool call without waiting; its id."""
        params: dict[str, Any] = {"name": name, "arguments": {} if arguments is None else arguments}
        if meta:
            params["_meta"] = meta
        return self.request("tools/call", params)

    @staticmethod
    def outcome(answer: dict[str, Any]) -> dict[str, Any]:
        """The structured content of a tool's answer, or ``{"error": ...}`` of a JSON-RPC error."""
        if "error" in answer:
            data = answer["error"].get("data") or {}
            return {"error": {"code": answer["error"]["code"], **(data.get("error") or data)}}
        result: dict[str, Any] = answer["result"]
        structured: dict[str, Any] = result["structuredContent"]
        assert result.get("isError", False) == ("error" in structured), result
        return structured

    def foreign(self) -> list[bytes]:
        """What came out of stdout and is no MCP message, an unfinished line included."""
        *lines, rest = bytes(self.raw).split(b"\n")
        bad = [rest] if rest else []
        for line in lines:
            try:
                message = json.loads(line)
                sound = isinstance(message, dict) and message.get("jsonrpc") == "2.0"
                sound = sound and (
                    "method" in message or ("id" in message and ("result" in message or "error" in message))
                )
            except ValueError:
                sound = False
            if not sound:
                bad.append(line)
        return bad

    def close(self) -> None:
        """End the client as a CLI does, and check all it ever got."""
        with contextlib.suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        try:
            self.process.wait(BOUND_S)
        finally:
            self.kill()
        assert self.foreign() == []

    def vanish(self) -> None:
        """Kill the CLI and its relay in one blow."""
        assert self.pid_file is not None
        pid = until(lambda: self.pid_file.exists() and int(self.pid_file.read_text()))
        os.killpg(os.getpgid(pid), signal.SIGKILL)
        self.process.wait(BOUND_S)
        until(lambda: not alive(pid))  # the two end in any order
        self.kill()

    def kill(self) -> None:
        """Make sure that nothing of it stays open."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
            self._reader.join(BOUND_S)  # at the end of stdin a relay goes; then all it wrote has been read


class Stage:
    """One project in a world of its own; ``close`` ends everything and checks what the product wrote."""

    def __init__(self, base: Path, config: str = "", *, name: str = "project") -> None:
        self.base = base
        self.root = base / name
        self.run_base = base / "run"
        self.home = base / "home"
        for directory in (self.root, self.run_base, self.home):
            directory.mkdir(mode=0o700)
        self.server = PrivateServer()
        self.env = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "SHELL": "/bin/sh",
            MARK: str(self.run_base),
            "ORCHESTRATOR_STATE_DIR": str(self.base / "state"),
            **{name: os.environ[name] for name in ("ORCHESTRATOR_PLATFORM", "PYTHONPATH") if name in os.environ},
        }
        self.wires: list[Wire] = []
        self.stopped: list[int] = []
        self.sound = True  # False: a test damaged the files on purpose
        self._count = 0
        (self.root / ".agents").mkdir()
        (self.root / ".agents" / "config.toml").write_text(f'tmux_socket = "{self.server.socket.name}"\n{config}')

    def allow(self, *names: str) -> None:
        """Allow what the project's files say now: those of these names or patterns, or all that act by custom."""
        trusted_files.allow(self.root, names, Path(self.env["ORCHESTRATOR_STATE_DIR"]))

    # -- masters ------------------------------------------------------------------------------------------------

    def inside(self, pane: str) -> dict[str, str]:
        """The environment of a program in that pane of the private server."""
        facts = self.server.show(pane, "#{socket_path},#{pid},#{session_id}").replace("$", "")
        return {**self.env, "TMUX": facts, "TMUX_PANE": pane}

    def command(self, *args: str) -> tuple[list[str], Path]:
        """A relay as the child of a CLI without ancestors, and the file that will name the CLI's pid."""
        self._count += 1
        pid_file = self.base / f"cli-{self._count}.pid"
        return [sys.executable, "-I", "-S", "-c", ORPHAN, str(pid_file), *RELAY, *args], pid_file

    def wire(self, env: dict[str, str] | None = None, *args: str, cwd: Path | None = None) -> Wire:
        """A raw client over a relay of its own."""
        command, pid_file = self.command(*args)
        wire = Wire(command, self.env if env is None else env, cwd or self.root, self.base / "stderr")
        wire.pid_file = pid_file
        self.wires.append(wire)
        return wire

    def begun(self, env: dict[str, str] | None = None, *args: str, version: str = "2025-06-18") -> Wire:
        """A raw client that has shaken hands."""
        wire = self.wire(env, *args)
        wire.begin(version)
        return wire

    @contextlib.asynccontextmanager
    async def master(
        self, env: dict[str, str] | None = None, *, mode: Any = "auto", **options: Any
    ) -> AsyncIterator[Any]:
        """The SDK's own `Client` over the real relay."""
        from mcp import Client, StdioServerParameters
        from mcp.client.stdio import stdio_client

        (program, *args), pid_file = self.command()
        asked = StdioServerParameters(
            command=program, args=args, env=self.env if env is None else env, cwd=str(self.root)
        )
        with (self.base / "stderr").open("a") as errors:
            async with Client(stdio_client(asked, errlog=errors), mode=mode, cache=None, **options) as client:
                client.cli_pid_file = pid_file
                yield client

    def hold(self, agent_id: str) -> int:
        """Stop the relay of an agent's worker (tmux would wake the worker itself), so that none of its calls arrives."""
        pid = until(lambda: self._relay_of(agent_id))
        os.kill(pid, signal.SIGSTOP)
        self.stopped.append(pid)
        return pid

    def let_go(self) -> None:
        """Let the relay stopped last go on."""
        os.kill(self.stopped.pop(), signal.SIGCONT)

    def puppet(self, agent_id: str) -> Wire:
        """Speak for an agent: its worker is held, and this client has its identity."""
        launch = json.loads((self.root / ".agents" / "agents" / agent_id / "engine" / "launch.json").read_text())
        self.hold(agent_id)
        return self.begun(launch["env"], "--agent", "--project", str(self.root))

    def _relay_of(self, agent_id: str) -> int | None:
        """The relay that the agent's worker has started; None when it is not seen.

        An orphan is none: it is a daemon that such a relay has forked and that has not executed its program yet,
        or the shell above a client of ours that speaks for the agent.
        """
        mark, found = f"ORCHESTRATOR_AGENT_ID={agent_id}\0".encode(), self.processes()
        for pid, command in found.items():
            if " orchestrator mcp " in command and " --agent" in command:
                with contextlib.suppress(OSError):  # it has ended meanwhile
                    place = Path(f"/proc/{pid}")
                    parent = int((place / "stat").read_bytes().rpartition(b")")[2].split()[1])
                    if parent in found and mark in (place / "environ").read_bytes() + b"\0":
                        return pid
        return None

    # -- facts --------------------------------------------------------------------------------------------------

    def run_dir(self, root: Path | None = None) -> Path:
        """Where the daemon of a project is found."""
        return self.run_base / hashlib.sha256(os.fsencode(os.path.realpath(root or self.root))).hexdigest()[:16]

    def daemon(self) -> int | None:
        """The pid of the daemon that answers now; None when none does."""
        with socket.socket(socket.AF_UNIX) as sock, contextlib.suppress(OSError, ValueError, KeyError):
            sock.settimeout(BOUND_S)
            sock.connect(str(self.run_dir() / "socket"))
            said = {"proto": 1, "conn": "look", "project": os.path.realpath(self.root), "kind": "look"}
            sock.sendall(json.dumps({"hello": said}).encode() + b"\n")
            line = b""
            while not line.endswith(b"\n"):
                if not (data := sock.recv(65536)):
                    return None
                line += data
            pid: int = json.loads(line)["hello"]["pid"]
            return pid
        return None

    def kill_daemon(self) -> int:
        """End the daemon with kill -9; its pid."""
        pid = until(self.daemon)
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive(pid))
        return pid

    def processes(self) -> dict[int, str]:
        """Everything the product has running in this stage."""
        return processes_with(f"{MARK}={self.run_base}")

    def records(self, agent_id: str, log: str = "outbox") -> list[dict[str, Any]]:
        """An agent's records as they stand in its file."""
        return lines_of(self.root / ".agents" / "agents" / agent_id / f"{log}.jsonl")

    def types(self, agent_id: str) -> list[str]:
        """The types of an agent's outbox records."""
        return [record["type"] for record in self.records(agent_id)]

    def settle(self, *agent_ids: str) -> None:
        """Wait until the agents' meta.json, a cache written a moment later, tells of their last record."""
        for agent_id in agent_ids:
            cache = self.root / ".agents" / "agents" / agent_id / "meta.json"
            until(
                lambda cache=cache, agent_id=agent_id: (
                    cache.exists() and json.loads(cache.read_text())["last_event_seq"] == len(self.records(agent_id))
                )
            )

    def run_files(self) -> list[dict[str, Any]]:
        """Every run.json, oldest first."""
        found = [json.loads(path.read_text()) for path in (self.root / ".agents" / "run").glob("*/run.json")]
        return sorted(found, key=lambda run: str(run["created_at"]))

    def tagged(self) -> dict[str, str]:
        """The agents' panes on the private server: pane id -> agent id."""
        rows = self.server.run("list-panes", "-a", "-F", "#{pane_id} #{@orchestrator_agent}").split("\n")
        return {row.split(" ")[0]: row.split(" ")[1] for row in rows if len(row.split(" ")) > 1 and row.split(" ")[1]}

    def cli(self, *args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """The command line, run to its end."""
        return subprocess.run(
            [sys.executable, "-P", "-m", "orchestrator", *args],
            env=self.env if env is None else env, cwd=self.root, capture_output=True, text=True, timeout=BOUND_S,
            check=False, start_new_session=True,
        )  # fmt: skip

    def check_files(self) -> int:
        """Validate every record and file of the team against models and JSON Schemas; how many."""
        count = 0
        for name, path, value in self.written():
            SCHEMAS[name].validate_python(value)
            errors = [error.message for error in VALIDATORS[name].iter_errors(value)]
            assert not errors, (path, errors, value)
            count += 1
        return count

    def written(self) -> Iterator[tuple[str, Path, Any]]:
        """Every record and file of the team: the name of its schema, where it stands, its value."""
        agents, runs = self.root / ".agents" / "agents", self.root / ".agents" / "run"
        for name, place in (("inbox", agents), ("outbox", agents), ("broadcast", runs)):
            for path in place.glob(f"*/{name}.jsonl"):
                for record in lines_of(path):
                    yield name, path, record
        for name, pattern in (
            ("meta", "agents/*/meta.json"),
            ("run", "run/*/run.json"),
            ("identity", "identity.json"),
            ("launch", "agents/*/engine/launch.json"),
            ("squad", "squads/*/squad.json"),
        ):
            for path in (self.root / ".agents").glob(pattern):
                if path.is_file():  # a test may have put a pipe in its place
                    yield name, path, json.loads(path.read_text())

    # -- the end ------------------------------------------------------------------------------------------------

    def stop_daemon(self) -> None:
        """End the daemon the graceful way, wait until it is gone, and keep relays from starting another."""
        pid = self.daemon()
        if self.run_dir().is_dir():
            (self.run_dir() / "stopped").touch(mode=0o600)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):  # it ends by itself when its project goes
                os.kill(pid, signal.SIGTERM)
            until(lambda: not alive(pid))

    def close(self) -> None:
        """End all; fails when the product left something running, or wrote what its schemas do not allow."""
        self.end()
        shutil.rmtree(self.base)

    def end(self) -> None:
        """As ``close``, but the files stay."""
        try:
            for pid in self.stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            for wire in self.wires:
                wire.close()
            # The panes first: an agent's relay without a daemon would wait for one.
            until(self._panes_ended)
            self.stop_daemon()
        finally:
            for wire in self.wires:
                wire.kill()
            self.end_tmux()
            left = self._left()
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        assert not left, f"left running: {left}"
        if self.sound:
            self.check_files()

    def _panes_ended(self) -> bool:
        """End the tmux server again each time: of a detached run, the daemon starts the agents anew on another."""
        self.end_tmux()
        return not any(" orchestrator mcp " in command for command in self.processes().values())

    def end_tmux(self) -> None:
        """End the private tmux server, if it runs."""
        self.server.end()

    def _left(self) -> dict[int, str]:
        deadline = time.monotonic() + BOUND_S
        pause = threading.Event()
        while (left := self.processes()) and time.monotonic() < deadline:
            # A daemon makes its session anew when it is gone. A server that was just beginning had no socket to be
            # told by, or lost it with the other's.
            for pid, command in left.items():
                if command.startswith("tmux ") and f" -L {self.server.socket.name} " in command:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGTERM)
            pause.wait(0.05)
        return left


def user_panes(stage: Stage, window: str) -> list[str]:
    """The panes of a window that are not ours, in order: id, size, title, and which has the focus."""
    form = "#{@orchestrator_agent}|#{pane_id} #{pane_width}x#{pane_height} #{pane_active} #{pane_title}"
    rows = stage.server.run("list-panes", "-t", window, "-F", form).split("\n")
    return [row[1:] for row in rows if row.startswith("|")]


def gone(server: PrivateServer) -> bool:
    """Whether the tmux server has ended."""
    try:
        server.run("list-sessions")
    except Environment as error:
        return bool(error.facts.get("server_gone"))
    return False


def readable(fd: int, seconds: float) -> bool:
    """Whether there is something to read within so many seconds."""
    return bool(select.select([fd], [], [], seconds)[0])


MODELS: dict[str, dict[str, Any]] = {name: adapter.json_schema() for name, adapter in SCHEMAS.items()}
MODELS["config"] = Config.model_json_schema()
VALIDATORS = {name: jsonschema.Draft202012Validator(schema) for name, schema in MODELS.items()}
