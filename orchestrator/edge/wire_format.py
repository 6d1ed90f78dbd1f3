"""MCP messages as lines: splits bytes into lines, keeps requests for a replay, and encodes answers and errors.

Pure except for the clock that stamps a request's arrival; standard library only, because every relay imports it.
"""

from __future__ import annotations

import json
import re
import sys
import time
from typing import Any, NamedTuple

# Nearly every line of the daemon starts like this: its id is read without parsing megabytes of answer.
ANSWER = re.compile(rb'\{"jsonrpc":"2\.0","id":(-?\d+|"(?:[^"\\]|\\.)*"),"(result|error)":')
MODERN = "io.modelcontextprotocol/protocolVersion"
KEPT = 1 << 12


class Cut(NamedTuple):
    """The kept part of a line over the limit: its first and last bytes, at most `KEPT` of each."""

    head: bytes
    tail: bytes


class WireLines:
    """Bytes in, whole lines out; a line over ``limit`` bytes comes out as a ``Cut`` and costs no memory."""

    def __init__(self, limit: int = sys.maxsize) -> None:
        self.limit = limit
        self.clear()

    def clear(self) -> None:
        """Forget an unfinished line."""
        self.parts: list[bytes] = []
        self.size = 0

    def feed(self, data: bytes) -> list[bytes | Cut]:
        """The lines that ``data`` completes, without their newline."""
        lines: list[bytes | Cut] = []
        *ended, rest = data.split(b"\n")
        for part in ended:
            self._add(part)
            lines.append(Cut(*self.parts) if self.size > self.limit else b"".join(self.parts))
            self.clear()
        self._add(rest)
        return lines

    def _add(self, part: bytes) -> None:
        self.size += len(part)
        self.parts.append(part)
        if self.size > self.limit:
            line, size = b"".join(self.parts), min(KEPT, self.limit // 2)
            self.parts = [line[:size], line[len(line) - size :]]


class Pending:
    """A request of the client that has no answer yet. ``arrived`` is monotonic; ``deaths`` counts lost daemons."""

    def __init__(self, key: str | int, method: str, params: Any, line: bytes) -> None:
        self.key = key
        self.method = method
        self.params: dict[str, Any] = params if isinstance(params, dict) else {}
        self.line = line
        self.arrived = time.monotonic()
        self.deaths = 0


class Setup:
    """The set-up of a client that is replayed to a new daemon.

    ``initialize`` is set by a good answer only: a failed one, replayed, would fix the connection's era.
    """

    def __init__(self) -> None:
        self.initialize: Pending | None = None
        self.initialized: bytes | None = None
        self._facts: list[Any] = []
        self._level: Pending | None = None
        self._subscribed: dict[str, Pending] = {}

    def take(self, request: Pending, line: bytes) -> None:
        """Learn from a request and its good answer."""
        uri = str(request.params.get("uri"))
        if request.method == "initialize":
            self.initialize, self._facts = request, _introduction(line)
        elif request.method == "logging/setLevel":
            self._level = request
        elif request.method == "resources/subscribe":
            self._subscribed[uri] = request
        elif request.method == "resources/unsubscribe":
            self._subscribed.pop(uri, None)

    def calls(self) -> list[Pending]:
        """The requests to repeat after the handshake."""
        return [*([self._level] if self._level else []), *self._subscribed.values()]

    def differs(self, line: bytes) -> bool:
        """Whether a new daemon's answer to initialize introduces another server than the one before."""
        before, self._facts = self._facts, _introduction(line)
        return self.initialized is not None and self._facts != before


def _introduction(line: bytes) -> list[Any]:
    result = json.loads(line)["result"]
    return [result.get(fact) for fact in ("protocolVersion", "capabilities", "serverInfo")]


def encode(message: dict[str, Any]) -> bytes:
    """A message as its line, newline included."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def rpc_error(key: str | float | None, code: int, message: str, data: dict[str, Any] | None = None) -> bytes:
    """A JSON-RPC error answer; ``data`` is one of our errors in wire form."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = {"error": data}
    return encode({"jsonrpc": "2.0", "id": key, "error": error})


def failed(request: Pending, error: dict[str, Any]) -> bytes:
    """The answer that fails a request: to a tool call so that the model reads it, else a JSON-RPC error."""
    text = f"{error['code']}: {error['message']}. Next: {error['next_step']}"
    if request.method != "tools/call":
        return rpc_error(request.key, -32000, f"orchestrator: {text}", error)
    result = {"content": [{"type": "text", "text": text}], "isError": True, "structuredContent": {"error": error}}
    meta = request.params.get("_meta")
    if isinstance(meta, dict) and MODERN in meta:
        result["resultType"] = "complete"
    return encode({"jsonrpc": "2.0", "id": request.key, "result": result})
