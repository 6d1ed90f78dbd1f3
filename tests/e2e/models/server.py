"""One HTTP server on 127.0.0.1 that speaks all four model protocols and remembers every request.

with ModelServer() as models:
    models.base("claude")        the base URL that this CLI wants (``models.env`` and `world` build on it)
    models.brain                 see `brain.Brain`
    models.requests              every `Request`, oldest first
    models.count(agent_id="a", since=t)     how many model turns
    models.down(); models.up()   connection refused, on the same port again
"""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
import time
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from tests.e2e.models import anthropic, chat, gemini, responses
from tests.e2e.models.brain import Brain
from tests.e2e.models.turn import Kind, Reply, Turn

MODEL = "scripted-model"
ERRORS = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
          429: "rate_limit_error", 503: "api_error", 529: "overloaded_error"}  # fmt: skip


@dataclass(frozen=True)
class Request:
    """One request: ``at`` (monotonic seconds when it had arrived), who asked what, and what was answered."""

    at: float
    kind: Kind
    path: str
    agent_id: str | None
    side_call: str | None
    size: int  # bytes of the body
    turn: Turn
    reply: Reply
    headers: dict[str, str]


def protocol(path: str) -> ModuleType | None:
    """The module that speaks the protocol of a POST to this path."""
    if "/models/" in path and ":" in path.rsplit("/", 1)[-1]:
        return gemini
    for end, module in (("/messages", anthropic), ("/count_tokens", anthropic), ("/responses", responses),
                        ("/chat/completions", chat)):  # fmt: skip
        if path.endswith(end):
            return module
    return None


class ModelServer:
    """The server; started by ``start`` or ``with``. ``log``: a file that gets every request as a line of JSON."""

    def __init__(self, brain: Brain | None = None, *, port: int = 0, log: Path | None = None) -> None:
        self.brain = brain or Brain()
        self.requests: list[Request] = []
        self.strays: list[str] = []  # requests that no protocol knows: method and path
        self.port = port
        self._log = log
        self._lock = threading.Lock()
        self._server: _Server | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Self:
        """Listen, on the same port as before if there was one."""
        self._server = _Server(("127.0.0.1", self.port), self)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True, name="models").start()
        return self

    def close(self) -> None:
        """Stop listening and drop every connection, hanging ones included."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.drop()
            self._server = None

    down = close

    def up(self) -> None:
        """Listen again after ``down``."""
        self.start()

    # -- facts ----------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The server's address without a path."""
        return f"http://127.0.0.1:{self.port}"

    def base(self, kind: Kind) -> str:
        """The base URL as this CLI's configuration wants it."""
        return self.url if kind in {"gemini", "claude"} else f"{self.url}/v1"

    def select(
        self,
        agent_id: str | None = None,
        *,
        since: float | None = None,
        main_only: bool = True,
        kind: Kind | None = None,
    ) -> list[Request]:
        """The requests of that agent (None: of anybody), at or after a monotonic time; side calls only if asked."""
        return [
            one
            for one in list(self.requests)
            if agent_id in {None, one.agent_id}
            and (since is None or one.at >= since)
            and not (main_only and one.side_call)
            and kind in {None, one.kind}
        ]

    def count(
        self,
        agent_id: str | None = None,
        since: float | None = None,
        main_only: bool = True,
        kind: Kind | None = None,
    ) -> int:
        """How many requests `select` finds."""
        return len(self.select(agent_id, since=since, main_only=main_only, kind=kind))

    # -- one request ----------------------------------------------------------------------------------------------

    def take(self, path: str, data: bytes, headers: dict[str, str]) -> tuple[ModuleType, Turn, Reply] | None:
        """Read, answer and remember a request; None when no protocol knows it."""
        at = time.monotonic()
        module = protocol(path)
        try:
            body = json.loads(data or b"{}")
        except ValueError:
            module = None
        if module is None:
            with self._lock:
                self.strays.append(f"POST {path}")
            return None
        turn: Turn = module.read(path, body)
        reply = self.brain.answer(turn)
        if reply.tokens is None:
            reply = Reply(**{**vars(reply), "tokens": len(data) // 4})
        who = self.brain.who(turn)
        request = Request(at, turn.kind, path, who, turn.side_call, len(data), turn, reply, headers)
        with self._lock:
            self.requests.append(request)
            if self._log is not None:
                with self._log.open("a") as file:
                    file.write(json.dumps({**asdict(request), "turn": None, "body": body}) + "\n")
        return module, turn, reply


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], models: ModelServer) -> None:
        self.models = models
        self._open: set[Any] = set()
        super().__init__(address, _Exchange)

    def server_bind(self) -> None:
        # HTTPServer would look up the host's name, which may block without a network.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of ours; anything else is shown."""
        import sys

        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def drop(self) -> None:
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(2)


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base class's name)
        """Nothing on stderr."""

    def do_GET(self) -> None:
        if self.path.split("?")[0].endswith("/models"):
            one = {"id": MODEL, "object": "model", "created": 0, "owned_by": "scripted"}
            self._send(200, "application/json", json.dumps({"object": "list", "data": [one], "models": []}).encode())
            return
        self._stray("GET")

    def do_HEAD(self) -> None:
        self._send(200, "text/plain", b"")

    def _stray(self, method: str) -> None:
        self.server.models.strays.append(f"{method} {self.path}")
        self._send(404, "application/json", _error(404, "no such path"))

    def do_POST(self) -> None:
        length = self.headers.get("content-length")
        data = self._chunks() if length is None else self.rfile.read(int(length))
        taken = self.server.models.take(self.path.split("?")[0], data, dict(self.headers.items()))
        if taken is None:
            self._send(404, "application/json", _error(404, "no such path"))
            return
        module, turn, reply = taken
        if reply.hang or reply.hold:
            pause = threading.Event()
            while not reply.hold or not self.server.models.brain.is_open(reply.hold):
                if self._gone():  # also when the server ends, which drops every connection
                    self.close_connection = True
                    return
                pause.wait(0.1)
        if reply.status != 200:
            body = reply.body.encode() or _error(reply.status, f"scripted trouble {reply.status}")
            self._send(reply.status, "application/json", body, reply.headers)
        else:
            self._send(200, *module.write(turn, reply))

    def _chunks(self) -> bytes:
        data = b""
        if "chunked" in self.headers.get("transfer-encoding", ""):
            while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        return data

    def _gone(self) -> bool:
        import select
        import socket

        readable = select.select([self.connection], [], [], 0)[0]
        try:
            return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def _send(self, status: int, kind: str, body: bytes, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _error(status: int, message: str) -> bytes:
    """An error that every one of the four CLIs can read."""
    kind = ERRORS.get(status, "api_error")
    error = {"type": kind, "code": status, "status": kind.upper(), "message": message}
    return json.dumps({"type": "error", "error": error}).encode()
