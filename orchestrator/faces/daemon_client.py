"""Connect the command line to the daemon: handshake, MCP, tool calls. Standard library only.

Finds the daemon or starts one, and survives its restarts: a request without an answer is sent again with the same
connection id and request id, so the daemon carries it out only once. Touches the socket and the markers of the run
directory; the daemon makes all other changes.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

from orchestrator.base.errors import (
    CODES,
    BadRequest,
    Conflict,
    Corrupt,
    Environment,
    NotReady,
    OrchestratorError,
)
from orchestrator.base.toolsets import DEFAULT_TOOLSETS
from orchestrator.edge import daemon_connection, project_location
from orchestrator.edge.project_location import Project

PROTOCOL = "2025-06-18"
START_S = 45.0  # a daemon over a million records needs 5 s; on a busy machine ten times that
RETURN_S = 2.0  # how long a reader waits for a daemon that went away before it reads the files instead
GREETING_S = 8.0  # how long a daemon that accepts the connection may take to greet, on a busy machine
ANSWER_S = 60.0  # beyond what the request itself may wait
_RETRY_S = 0.05
METHOD_NOT_FOUND = -32601

_KINDS: dict[str, tuple[type[OrchestratorError], str]] = {
    "BadRequest": (BadRequest, "bad_argument"),
    "Conflict": (Conflict, "proto_mismatch"),
    "NotReady": (NotReady, "daemon_down"),
    "Environment": (Environment, "daemon_failed"),
    "Corrupt": (Corrupt, "corrupt_log"),
}


class _ConnectionLost(Exception):
    """The connection ended before the answer."""


def project_here() -> Project:
    """The project of this process: ``ORCHESTRATOR_PROJECT`` (what ``--project`` sets), else that of the cwd."""
    named = os.environ.get("ORCHESTRATOR_PROJECT")
    return project_location.named_project(Path(named)) if named else project_location.find_project(Path.cwd())


def error_from(fields: dict[str, Any]) -> OrchestratorError:
    """The error that ``as_dict`` turned into ``fields``; a code of a newer version keeps its kind and text."""
    facts = {k: v for k, v in fields.items() if k not in ("kind", "code", "message", "next_step")}
    code, text = str(fields.get("code")), str(fields.get("message", "the daemon reported an error"))
    step = str(fields.get("next_step", ""))
    if code in CODES:
        return CODES[code][0](code, text, step, **facts)
    cls, near = _KINDS.get(str(fields.get("kind")), (Environment, "internal"))
    return cls(near, text, step, reported_code=code, **facts)


def marker(place: Project, name: str) -> Path:
    """The path of a marker or file of the project's run directory."""
    return project_location.run_dir(place.root) / name


def failed_start(place: Project) -> OrchestratorError | None:
    """What kept the daemon from starting last time, if that would happen again."""
    try:
        record = json.loads(marker(place, project_location.FAILED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return error_from(record) if isinstance(record, dict) else None


class DaemonClient:
    """One connection to the project's daemon; a context manager.

    ``start`` also starts a daemon where none runs. ``toolsets`` are those whose tools are called: a daemon loads one
    when a connection first names it. ``daemon`` is the daemon's hello (pid, version, install, proto, boot).
    ``return_s`` bounds the waiting for a daemon that is to come (back); one that accepts the connection has at least
    `GREETING_S` to greet. Every method raises OrchestratorError: what the daemon answered, or NotReady
    ``daemon_down``.
    """

    def __init__(
        self,
        place: Project,
        *,
        start: bool,
        survive: bool = True,
        return_s: float | None = None,
        toolsets: Sequence[str] = DEFAULT_TOOLSETS,
    ) -> None:
        self.place = place
        self._toolsets = toolsets
        self.daemon: dict[str, Any] = {}
        self._start = start
        self._survive = survive
        self._return_s = return_s if return_s is not None else START_S if start else RETURN_S
        self._conn = secrets.token_hex(8)
        self._boot = 0
        self._last_id = 1
        self._sock: socket.socket | None = None
        self._rest = b""
        self._open((), time.monotonic() + self._return_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; harmless twice."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def hang_up(self) -> None:
        """End the connection from another thread than the one that waits for an answer: closing would not wake it."""
        if (sock := self._sock) is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def tool(self, name: str, arguments: dict[str, Any], *, wait_s: float = 0.0) -> dict[str, Any]:
        """Call a tool that may take ``wait_s`` by its own terms; its structured answer."""
        return _structured(self.ask("tools/call", {"name": name, "arguments": arguments}, wait_s=wait_s))

    def tools(
        self, name: str, calls: Sequence[dict[str, Any]], *, wait_s: float = 0.0
    ) -> Iterator[tuple[int, dict[str, Any] | OrchestratorError]]:
        """Call a tool several times at once; (place in ``calls``, structured answer or error) as each is answered."""
        requests = [("tools/call", {"name": name, "arguments": arguments}) for arguments in calls]
        for at, answer in self._ask_all(requests, wait_s):
            try:
                yield at, _structured(answer())
            except OrchestratorError as error:
                yield at, error

    def ask(self, method: str, params: dict[str, Any], *, wait_s: float = 0.0) -> dict[str, Any]:
        """Send one request and return its result, across restarts of the daemon unless ``survive`` is off."""
        [(_, answer)] = self._ask_all([(method, params)], wait_s)
        return answer()

    def _ask_all(
        self, requests: Sequence[tuple[str, dict[str, Any]]], wait_s: float
    ) -> Iterator[tuple[int, Callable[[], dict[str, Any]]]]:
        """Send requests together; for each its place and what gives its result, or raises its error, as it comes."""
        begun = time.monotonic()
        deadline = begun + wait_s + ANSWER_S
        open_: dict[int, tuple[int, dict[str, Any]]] = {}
        for at, (method, params) in enumerate(requests):
            self._last_id += 1
            open_[self._last_id] = at, {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        sent = False
        while open_:
            try:
                if self._sock is None:
                    age_ms = int((time.monotonic() - begun) * 1000)
                    self._open([(key, age_ms) for key in open_], time.monotonic() + self._return_s)
                    sent = False
                if not sent:
                    self._send(*(request for _, request in open_.values()))
                    sent = True
                message = self._answer(open_, deadline)
            except _ConnectionLost:
                self.close()
                if not self._survive:
                    raise NotReady("daemon_down", "the daemon ended before it answered") from None
                if time.monotonic() >= deadline:
                    raise NotReady("daemon_down", "the daemon ended several times without an answer") from None
            else:
                at, _ = open_.pop(message["id"])
                yield at, partial(_result, message)

    # -- one connection -----------------------------------------------------------------------------------------

    def _open(self, pending: Sequence[tuple[int, int]], deadline: float) -> None:
        """Connect, send the handshake, initialize; starts the daemon if requested."""
        while True:
            try:
                self._connect(deadline)
                self._boot += 1
                initialize = {
                    "protocolVersion": PROTOCOL,
                    "capabilities": {},
                    "clientInfo": {"name": "orchestrator-cli", "version": project_location.VERSION},
                }
                self._send(
                    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize},
                    {"jsonrpc": "2.0", "method": "notifications/initialized"},
                    first=self._hello(pending),
                )
                greeted_by = max(deadline, time.monotonic() + GREETING_S)
                self.daemon = self._welcomed(greeted_by)
                _result(self._answer((1,), greeted_by))
            except _ConnectionLost:
                # A daemon that is just ending or starting: its socket exists for a moment longer or earlier.
                self.close()
                if time.monotonic() >= deadline:
                    raise self._down() from None
                time.sleep(_RETRY_S)
            except BaseException:
                self.close()
                raise
            else:
                return

    def _hello(self, pending: Sequence[tuple[int, int]]) -> bytes:
        return daemon_connection.handshake_line(
            self.place, kind="cli", conn=self._conn, boot=self._boot, toolsets=self._toolsets, pending=pending
        )

    def _welcomed(self, deadline: float) -> dict[str, Any]:
        hello = self._line(deadline).get("hello")
        if not isinstance(hello, dict):
            return {}
        if isinstance(hello.get("error"), dict):
            raise error_from(hello["error"])
        return hello

    def _connect(self, deadline: float) -> None:
        self._rest = b""
        while True:
            self._sock = daemon_connection.connect(self.place)
            if self._sock is not None:
                return
            if daemon_connection.stopped_by_hand(project_location.run_dir(self.place.root)):
                raise NotReady("daemon_stopped", f"the daemon of {self.place.root} was stopped by the user")
            if self._start:
                if self.place.kind == "none":
                    raise BadRequest(
                        "no_project", f"{self.place.root} is not a project: it is / or the home directory"
                    )
                if daemon_connection.try_start(self.place, project_location.run_dir(self.place.root)):
                    continue
                if failed_start(self.place) is not None:
                    raise self._down()
            elif self._boot == 0:
                raise self._down()
            if time.monotonic() >= deadline:
                raise self._down()
            time.sleep(_RETRY_S)

    def _down(self) -> OrchestratorError:
        failed = failed_start(self.place)
        if failed is not None:
            return failed
        if not self._start:
            return NotReady("daemon_down", f"no daemon runs for {self.place.root}", "run: orchestrator daemon start")
        log = marker(self.place, project_location.LOG)
        return Environment("daemon_failed", f"the daemon of {self.place.root} does not start", f"see {log}")

    def _send(self, *messages: dict[str, Any], first: bytes = b"") -> None:
        assert self._sock is not None
        data = first + b"".join(
            json.dumps(m, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n" for m in messages
        )
        try:
            self._sock.settimeout(ANSWER_S)
            self._sock.sendall(data)
        except OSError as error:
            raise _ConnectionLost from error

    def _answer(self, wanted: Collection[int], deadline: float) -> dict[str, Any]:
        while True:
            message = self._line(deadline)
            if message.get("id") in wanted and "method" not in message:
                return message  # the rest is progress, notifications, and the answers of an earlier connection
            if "id" in message and message["id"] is None and isinstance(message.get("error"), dict):
                raise _of_protocol(message["error"])  # what we sent could not be read, and will never be answered

    def _line(self, deadline: float) -> dict[str, Any]:
        assert self._sock is not None
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                raise NotReady("daemon_down", "the daemon did not answer in time")
            try:
                self._sock.settimeout(remaining_s)
                block = self._sock.recv(1 << 16)
            except TimeoutError:
                continue
            except OSError as error:
                raise _ConnectionLost from error
            if not block:
                raise _ConnectionLost
            parts.append(block)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        try:
            message = json.loads(line)
        except ValueError:
            message = {}
        return message if isinstance(message, dict) else {}


def _result(message: dict[str, Any]) -> dict[str, Any]:
    """The result in a message; raises the error of a JSON-RPC error."""
    if isinstance(message.get("error"), dict):
        raise _of_protocol(message["error"])
    result = message.get("result")
    return result if isinstance(result, dict) else {}


def _structured(answer: dict[str, Any]) -> dict[str, Any]:
    """The structured content of a tool's result; raises the error it reports."""
    content = answer.get("structuredContent")
    if not isinstance(content, dict):
        texts = [str(block.get("text", "")) for block in answer.get("content", []) if isinstance(block, dict)]
        content = {"error": {"message": " ".join(texts)}} if answer.get("isError") else {}
    if answer.get("isError"):
        error = content.get("error")
        raise error_from(error if isinstance(error, dict) else content)
    return content


def _of_protocol(error: dict[str, Any]) -> OrchestratorError:
    """The error of a JSON-RPC error: ours if it contains one, otherwise a difference between versions."""
    data = error.get("data")
    if isinstance(data, dict):
        inner = data.get("error", data)
        if isinstance(inner, dict) and "code" in inner:
            return error_from(inner)
    if error.get("code") == METHOD_NOT_FOUND:
        message = "the running daemon belongs to an older installation and does not know this request"
        return Conflict("proto_mismatch", message, "run: orchestrator daemon restart")
    return Environment("internal", f"the daemon refused a request: {error.get('message', 'no reason given')}")
