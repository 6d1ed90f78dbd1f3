"""The relay: the small stdio process that a CLI starts as its MCP server; it carries lines between CLI and daemon.

No CLI reconnects a dead MCP server, so the relay survives its daemon: it starts a new daemon, replays the client's
set-up, re-sends unanswered requests, and never exits before its client. Standard library only, one thread, one
select loop. It touches the two wire descriptors, the daemon's socket, and the run directory.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.base.toolsets import DEFAULT_TOOLSETS, TOOLSETS
from orchestrator.edge.daemon_connection import connect, failure, handshake_line, held_by, stopped_by_hand, try_start
from orchestrator.edge.project_location import (
    LOG,
    RUN_DIR_STEP,
    Project,
    RunDirUnsafe,
    find_project,
    named_project,
    run_dir,
)
from orchestrator.edge.request_limits import BUSY, INVALID_REQUEST, MAX_LINE, RefusedLine, read_client, read_cut
from orchestrator.edge.wire_format import ANSWER, Cut, Pending, Setup, WireLines, encode, failed, rpc_error

USAGE = """\
Usage: orchestrator mcp [--toolsets team,squad] [--agent] [--project DIR] [--call-limit SECONDS]

Serve MCP on stdin and stdout for the CLI that starts this process. Starts the project's daemon if none runs.
--call-limit: seconds after which the CLI ends a call; waiting calls are answered before.

Example: claude mcp add orchestrator -- orchestrator mcp --toolsets team,squad
"""
CALL_LIMITS = range(1, 86_401)
ERR_AFTER = 20.0  # after an earlier error a model would call again at once, a loop that costs tokens
COMING_AFTER = 45.0  # for a daemon that has not answered the handshake yet; the shortest client limit is 60 s
FREE_REFUSALS = 5  # calls refused at once, while the user has stopped the daemon; the next ones wait ERR_AFTER
REFUSALS_S = 60.0  # after this long without a refusal they are counted anew
INIT_AFTER = 25.0  # a failed handshake costs the client its tools for the session; the shortest client limit is 30 s
HELLO_S = 15.0
CALL_MARGIN_S = 15.0  # time for an error to reach a client with a limit on a busy machine
DRAIN_S = 2.0  # the SDK's client kills its server 2 s after closing stdin
LINGER_S = 1.0  # when stdin ends, wait only for requests younger than this
BACKOFF = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)
STEADY_S = 5.0  # a daemon that ran shorter counts as flapping
MAX_DEATHS = 50  # a request that was pending at this many deaths of a daemon may be their cause
HIGH = 8 << 20  # with more bytes than this waiting for one side, the other side is not read
MAX_AGES = 256  # of waiting requests, reported to a new daemon: it reads no more at once
CHUNK = 1 << 18

SILENT = "no hello"
# Refusals that hold as long as that daemon runs: answered at once, and retried for each new request. Not
# `bad_argument`: it is also the answer to a late handshake.
FINAL = frozenset({"proto_mismatch"})
_HANDSHAKE = ("initialize", "server/discover")
_ASKED = ("tools/call", "resources/read", "prompts/get")  # what a model or a person waits for
_CHECK = "; then check if this call took effect before you repeat it"


class Relay:
    """Connects one client to one daemon after another."""

    def __init__(
        self, project: Project, toolsets: Sequence[str], wire_in: int, wire_out: int, call_limit_s: int | None = None
    ) -> None:
        self.project = project
        self.toolsets = toolsets
        self.call_limit_s = call_limit_s
        self.wire_in = wire_in
        self.wire_out = wire_out
        self.conn = os.urandom(8).hex()
        self.boot = 0
        self.sock: socket.socket | None = None
        self.up = False
        self.write_dead = False
        now = time.monotonic()
        self.since = now  # when the connection began to be what it is
        self.down_since = now
        self.retry_at = now
        self.fails = 0  # connections in a row that ended before the daemon's handshake
        self.flaps = 0  # daemons in a row that did not last
        self.coming = False  # a daemon accepts connections but does not answer yet: it loads, or the machine is busy
        self.reason: dict[str, Any] | None = None
        self.final = False  # the running daemon has refused us for good
        self.stopped = False  # the user has stopped the daemon
        self.refusals = 0  # calls refused since a daemon ran, with less than REFUSALS_S in between
        self.refused_at = now
        self.to_client = bytearray()
        self.to_daemon = bytearray()
        self.client_lines = WireLines(MAX_LINE)
        self.daemon_lines = WireLines()
        self.pending: dict[str, Pending] = {}  # by the repr of the id: 7 and "7" are two
        self.questions: dict[str, Any] = {}  # open requests of the daemon to the client
        self.setup = Setup()
        self.replays: dict[str, str] = {}
        self.eof_at: float | None = None
        self.half_closed = False

    def run(self) -> int:
        """Carry lines until the client is gone; returns 0."""
        while True:
            now = time.monotonic()
            if self.sock is None and now >= self.retry_at and not self.half_closed:
                self._reach(now)
            elif self.sock is not None and not self.up and now >= self.since + HELLO_S:
                self._lost(SILENT)
            self._give_up(now)
            if not self._flush_client() or self._done(now):
                return 0
            self._flush_daemon()
            sources: list[Any] = []
            if self.eof_at is None and self._room_for_client():
                sources.append(self.wire_in)
            if self.sock is not None and len(self.to_client) < HIGH:
                sources.append(self.sock)
            sinks: list[Any] = [self.wire_out] if self.to_client else []
            if self.sock is not None and self.to_daemon and not self.write_dead:
                sinks.append(self.sock)
            readable, _, _ = select.select(sources, sinks, [], self._timeout(time.monotonic()))
            if self.sock is not None and self.sock in readable:
                self._read_daemon()
            if self.wire_in in readable:
                self._read_client()

    # -- time ---------------------------------------------------------------------------------------------------

    def _timeout(self, now: float) -> float | None:
        """Maximum time for select, in seconds; None: no limit."""
        if self.eof_at is not None:
            return 0.02
        if self.up:
            return None
        due = [self.retry_at if self.sock is None else self.since + HELLO_S]
        due += [self._due(request) for request in self.pending.values()]
        return max(0.0, min(due) - now)

    def _due(self, request: Pending) -> float:
        """When a request has waited long enough for a daemon."""
        limit = ERR_AFTER
        if self._refused_at_once(request):
            return request.arrived
        if request.method in _HANDSHAKE:
            limit = INIT_AFTER
        elif self.coming and self.reason is None:
            limit = COMING_AFTER
            if self.call_limit_s is not None:
                limit = max(ERR_AFTER, min(limit, self.call_limit_s - CALL_MARGIN_S))
        return max(request.arrived, self.down_since) + limit

    def _refused_at_once(self, request: Pending) -> bool:
        """Whether waiting is useless: the user has stopped the daemon, and no daemon can have seen the call.

        Not for an agent, whose loop would call again at once: each of its turns is a model request. A master that
        calls again and again is slowed down in the same way.
        """
        free = self.refusals < FREE_REFUSALS and "agent" not in self.toolsets
        return self.stopped and free and request.deaths == 0 and request.method in _ASKED

    def _give_up(self, now: float) -> None:
        """Fail the requests that have waited too long for a daemon; keep trying to reach one."""
        if self.up:
            return
        for request in [request for request in self.pending.values() if now >= self._due(request)]:
            self.refusals = 1 if now >= self.refused_at + REFUSALS_S else self.refusals + 1
            self.refused_at = now
            self._fail(request, self._down_error(request))

    def _down_error(self, request: Pending) -> dict[str, Any]:
        if self.reason is not None:
            step = self.reason["next_step"]
            return {**self.reason, "next_step": step + _CHECK} if request.deaths else self.reason
        try:
            place = f"; its log is {run_dir(self.project.root) / LOG}"
        except RunDirUnsafe:
            place = ""
        step = "run: orchestrator daemon status; before repeating a call that changes state, check if it took effect"
        return failure("NotReady", "daemon_down", f"the daemon does not answer; relays keep trying{place}", step)

    def _fail(self, request: Pending, error: dict[str, Any]) -> None:
        del self.pending[repr(request.key)]
        self.to_client += failed(request, error)

    def _done(self, now: float) -> bool:
        """Whether the client is gone and no answer can still reach it."""
        if self.eof_at is None:
            return False
        if now >= self.eof_at + DRAIN_S:
            return True
        if self.up and not self.half_closed and (not self.to_daemon or self.write_dead):
            # Half-closing makes the daemon drop what it works on: let a client that writes and closes at once
            # (echo ... | orchestrator mcp) have its answers, but keep no long poll of a client that went away.
            young = any(max(p.arrived, self.since) + LINGER_S > now for p in self.pending.values())
            if not young and self.sock is not None:
                with suppress(OSError):
                    self.sock.shutdown(socket.SHUT_WR)
                self.half_closed = True
        waiting = self.sock is not None if self.half_closed else bool(self.pending) or self.up
        return not waiting and not self.to_client

    # -- the daemon's side --------------------------------------------------------------------------------------

    def _reach(self, now: float) -> None:
        """Connect, or start a daemon and connect."""
        self.retry_at = now + (0.01 if now < self.down_since + 2 else 0.25)
        self.stopped = False
        if self.final:  # the daemon that refused us may have ended since
            self.final, self.reason = False, None
        try:
            sock = connect(self.project)
            # The unanswered requests of a gone client were sent to a daemon already: start no other for them.
            if sock is None and (self.eof_at is None or self.boot == 0):
                directory = run_dir(self.project.root)
                if try_start(self.project, directory):
                    sock = connect(self.project)
                else:
                    self.reason = held_by(directory) or self.reason
                    self.stopped = stopped_by_hand(directory)
        except RunDirUnsafe as error:
            self.reason = failure("Environment", "run_dir_unsafe", str(error), RUN_DIR_STEP)
            self.retry_at = now + 1
            return
        except OSError as error:
            self.reason = failure(
                "Environment", "daemon_failed", f"the daemon was not started: {error}", "run: orchestrator doctor"
            )
            self.retry_at = now + 1
            return
        if sock is not None:
            self._greet(sock, now)
        self.coming = sock is not None

    def _greet(self, sock: socket.socket, now: float) -> None:
        """Send handshake, replay and unanswered requests at once; the daemon handles them in order."""
        self.sock, self.since, self.boot = sock, now, self.boot + 1
        self.write_dead = False
        self.replays.clear()
        ages = [(p.key, int((now - p.arrived) * 1000)) for p in list(self.pending.values())[:MAX_AGES]]
        self.to_daemon += handshake_line(
            self.project,
            kind="relay",
            conn=self.conn,
            boot=self.boot,
            toolsets=self.toolsets,
            pending=ages,
            call_limit_s=self.call_limit_s,
        )
        if self.setup.initialize is not None:
            self._replay(self.setup.initialize)
        if self.setup.initialized is not None:
            self.to_daemon += self.setup.initialized + b"\n"
        for request in self.setup.calls():
            self._replay(request)
        for request in self.pending.values():
            self.to_daemon += request.line + b"\n"

    def _replay(self, request: Pending) -> None:
        own = f"relay#{self.boot}.{len(self.replays) + 1}.{self.conn}"  # an id that no client would choose
        self.replays[own] = request.method
        self.to_daemon += encode({"jsonrpc": "2.0", "id": own, "method": request.method, "params": request.params})

    def _lost(self, why: str) -> None:
        """Close the connection and keep unanswered requests for the next daemon."""
        now = time.monotonic()
        if self.sock is not None:
            self.sock.close()
        self.sock, self.coming = None, why == SILENT
        self.to_daemon.clear()
        self.daemon_lines.clear()
        for key in self.questions.values():
            params = {"requestId": key, "reason": "the server restarted"}
            self.to_client += encode({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        self.questions.clear()
        if self.up:
            self.up, self.down_since, self.fails = False, now, 0
            self.flaps = 0 if now >= self.since + STEADY_S else self.flaps + 1
            # At once after one crash; slower if daemons die in a row, because starting them would take a whole core.
            self.retry_at = now + min(5.0, self.flaps // 8 * 0.5)
            for request in list(self.pending.values()):
                request.deaths += 1
                if request.deaths >= MAX_DEATHS:
                    message = f"the daemon died {request.deaths} times while this request was pending"
                    self._fail(request, failure("Environment", "daemon_failed", message, "see the daemon's log"))
            return
        with suppress(RunDirUnsafe):
            self.reason = held_by(run_dir(self.project.root)) or self.reason
        self.retry_at = now + BACKOFF[min(self.fails, len(BACKOFF) - 1)]
        self.fails += 1
        if self.fails > 2:
            _say(f"no daemon yet ({why}), attempt {self.fails}")

    def _flush_daemon(self) -> None:
        while self.sock is not None and self.to_daemon and not self.write_dead:
            try:
                sent = self.sock.send(self.to_daemon[:CHUNK])
            except BlockingIOError:
                return
            except OSError:
                self.write_dead = True  # answers may still be queued: read on to the end
                return
            del self.to_daemon[:sent]

    def _read_daemon(self) -> None:
        assert self.sock is not None
        try:
            data = self.sock.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost("connection closed")
            return
        for line in self.daemon_lines.feed(data):
            assert isinstance(line, bytes)
            if self.up:
                self._from_daemon(line)
            elif not self._welcomed(line):
                return

    def _welcomed(self, line: bytes) -> bool:
        """Read the daemon's handshake; returns False and closes the connection if the daemon refuses."""
        error = None
        try:
            handshake = json.loads(line)["hello"]
            error = handshake.get("error")
            good = isinstance(handshake["proto"], int) if error is None else False
        except (ValueError, LookupError, TypeError, AttributeError):
            good = False
        if good:
            self.up, self.since, self.reason, self.fails = True, time.monotonic(), None, 0
            self.refusals = 0
            return True
        if isinstance(error, dict) and {"code", "message", "next_step"} <= error.keys():
            self.reason = error
            self.fails = max(self.fails, BACKOFF.index(1.0))  # a refusal will not change within milliseconds
            self.final = error["code"] in FINAL
            if self.final:
                for request in list(self.pending.values()):
                    self._fail(request, error)
        self._lost("refused" if error else "not a hello")
        return False

    def _from_daemon(self, line: bytes) -> None:
        """Pass a line on if it is an MCP message that the client expects; nothing else reaches stdout."""
        match = ANSWER.match(line)
        if match is not None:
            key, good = json.loads(match[1]), match[2] == b"result"
        else:
            try:
                message = json.loads(line)
                foreign = message["jsonrpc"] != "2.0"
                if "method" in message and not foreign:
                    if "id" in message:
                        self.questions[repr(message["id"])] = message["id"]
                    self.to_client += line + b"\n"
                    return
                key, good = None if foreign else message["id"], "result" in message
            except (ValueError, LookupError, TypeError, RecursionError):
                if line.strip():
                    _say("dropped a line from the daemon that is not an MCP message")
                return
        if isinstance(key, str) and key in self.replays:
            self._replayed(self.replays.pop(key), line, good)
            return
        request = self.pending.pop(repr(key), None)
        if request is None:  # late or twice: the client gets exactly one answer
            return
        self.to_client += line + b"\n"
        if good:
            self.setup.take(request, line)

    def _replayed(self, method: str, line: bytes, good: bool) -> None:
        """Drop the answer to a replay; report a changed tool list if the daemon introduces itself differently."""
        if not good:
            _say(f"the daemon refused the replayed {method}: {line[:300].decode(errors='replace')}")
        elif method == "initialize" and self.setup.differs(line):
            self.to_client += encode({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

    # -- the client's side --------------------------------------------------------------------------------------

    def _room_for_client(self) -> bool:
        held = 0 if self.up else sum(len(request.line) for request in self.pending.values())
        return max(held, len(self.to_daemon), len(self.to_client)) < HIGH

    def _flush_client(self) -> bool:
        """Write what fits; False when the client no longer reads."""
        while self.to_client:
            try:
                sent = os.write(self.wire_out, self.to_client[:CHUNK])
            except BlockingIOError:
                return True
            except OSError:
                return False
            del self.to_client[:sent]
        return True

    def _read_client(self) -> None:
        try:
            data = os.read(self.wire_in, CHUNK)
        except OSError:
            data = b""
        if not data:
            self.eof_at = time.monotonic()
            data = b"\n"  # a last line need not be terminated
        for line in self.client_lines.feed(data):
            if isinstance(line, Cut):
                self._refuse(read_cut(line))
            elif line.strip():
                self._from_client(line)

    def _from_client(self, raw: bytes) -> None:
        """Track a message and pass it on."""
        try:
            message, line = read_client(raw)
        except RefusedLine as refused:
            self._refuse(refused)
            return
        key, method = message.get("id"), message.get("method")
        if method is None:
            if self.questions.pop(repr(key), None) is not None:
                self._forward(line)
        elif key is None:
            self._notified(method, message.get("params"), line)
        elif repr(key) in self.pending:
            self.to_client += rpc_error(None, INVALID_REQUEST, BUSY)
        else:
            self.pending[repr(key)] = Pending(key, method, message.get("params"), line)
            self._forward(line)
            if (self.final or self.stopped) and self.sock is None:
                self.retry_at = time.monotonic()

    def _refuse(self, refused: RefusedLine) -> None:
        """Answer a malformed request, and nothing else; a malformed answer fails the daemon's question."""
        if refused.kind == "request":
            key = refused.key if repr(refused.key) not in self.pending else None
            self.to_client += rpc_error(key, refused.code, refused.reason)
        elif refused.kind == "response" and self.questions.pop(repr(refused.key), None) is not None:
            self._forward(rpc_error(refused.key, refused.code, refused.reason).rstrip())
        else:
            _say(f"dropped a malformed {refused.kind}: {refused.reason}")

    def _notified(self, method: str, params: Any, line: bytes) -> None:
        if method == "notifications/initialized":
            self.setup.initialized = line
        elif method == "notifications/cancelled" and isinstance(params, dict):
            # Never answered then, so it must not be re-sent either.
            self._cancel(params.get("requestId"))
        self._forward(line)

    def _cancel(self, request_id: Any) -> None:
        """Forget the request that the daemon ends: its SDK takes 7 and "7" for one id, and the later one is meant."""
        meant = next((key for key in reversed(self.pending) if _same(self.pending[key].key, request_id)), None)
        if meant is not None:
            del self.pending[meant]

    def _forward(self, line: bytes) -> None:
        """Send a line to the connected daemon; without one, requests stay pending, other lines are dropped."""
        if self.sock is not None:
            self.to_daemon += line + b"\n"


def _same(key: str | int, other: Any) -> bool:
    return isinstance(other, str | int) and not isinstance(other, bool) and _number(key) == _number(other)


def _number(key: str | int) -> str | int:
    try:
        return int(key)
    except ValueError:
        return key


def _say(text: str) -> None:
    """A line on stderr, unless that would block: some clients never read it."""
    with suppress(OSError, ValueError):
        if select.select([], [2], [], 0)[1]:
            os.write(2, f"orchestrator mcp: {text}"[:500].encode(errors="replace") + b"\n")


def main(arguments: Sequence[str], wire_in: int, wire_out: int) -> int:
    """Serve the client on the two wire descriptors; returns 0 when it is gone, 2 on a bad flag.

    Descriptor 1 must no longer be the wire, so that nothing prints into it.
    """
    toolsets, project, call_limit_s = list(DEFAULT_TOOLSETS), None, None
    rest = list(arguments)
    while rest:
        flag, _, value = rest.pop(0).partition("=")
        if flag in ("-h", "--help"):
            os.write(wire_out, USAGE.encode())
            return 0
        if flag == "--agent":
            toolsets = ["agent"]
            continue
        value = value or (rest.pop(0) if rest else "")
        names = [name.strip() for name in value.split(",")]
        if flag == "--toolsets" and set(names) <= set(TOOLSETS):
            toolsets = names
        elif flag == "--project" and Path(value).is_dir():
            project = named_project(Path(value))
        elif flag == "--call-limit" and value.isdecimal() and len(value) < 9 and int(value) in CALL_LIMITS:
            call_limit_s = int(value)
        else:
            _say(f"{flag} {value}: unknown option or wrong value\n{USAGE}")
            return 2
    if project is None:
        try:
            project = find_project(Path.cwd())
        except FileNotFoundError:  # the working directory was deleted
            project = Project(Path("/"), "none")
    if not os.isatty(wire_in):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the client, which closes our stdin if it ends
    if not os.isatty(wire_out):
        os.set_blocking(wire_out, False)  # a terminal is shared with others, who would see it
    return Relay(project, toolsets, wire_in, wire_out, call_limit_s).run()
