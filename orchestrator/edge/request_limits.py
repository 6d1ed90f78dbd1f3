"""The limits of MCP messages: checks a client's line and either passes it on or refuses it with its id.

The relay and the daemon use the same checks, so every line that is passed on is answered. Pure; standard library
only, because every relay imports it.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Literal

from orchestrator.edge.wire_format import Cut

MAX_LINE = 32 << 20
"""Bytes of one message. The daemon accepts twice as much, so it never closes a relay's connection for this reason."""
MAX_DEPTH = 100
"""Levels of objects and arrays, the message itself included. Half of what the SDK and some clients can read, because
a call's values come back nested in records and answers."""
MAX_ID = 256
"""Characters of an id that is a string. The handshake with a new daemon lists the ids of waiting requests."""
ID_BITS = 64
"""Bits of an id that is an integer, its sign included: what a record can hold."""
MAX_DIGITS = 4300
"""Digits of an integer; Python and the SDK read no more."""

PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS = -32700, -32600, -32602

BUSY = "an earlier request with this id is not answered yet; this request was not run; use a new id"
"""Refuses a second request with the same id. The refusal has no id, because the first answer will have it."""

RequestKey = str | float
MessageKind = Literal["request", "notification", "response"]

_ID_FORM = f"id must be a string of at most {MAX_ID} characters or an integer of at most {ID_BITS} bits"
_TOO_LONG = f"a message may have at most {MAX_LINE} bytes; put larger content into a file and pass its path"
_NO_MESSAGE = "the line is not a JSON-RPC 2.0 message"

_NESTED = (dict, list)
_NEIGHBOURS = (b"},{", b"}, {")
_STRUCTURE = re.compile(rb'"[^"]*"?|[\[{]+|[\]}]+')
_SCALAR = rb'(?:"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null)'
_FIRST = re.compile(rb'\s*"([a-z]+)"\s*:\s*(?:(%s)\s*(?=[,}])|[\[{])' % _SCALAR)
_LAST = re.compile(rb'[,{]\s*"(id|jsonrpc|method)"\s*:\s*(%s)\s*\}\s*$' % _SCALAR)


class RefusedLine(Exception):
    """A line that is not passed on. Only a ``request`` is answered; a line that is no message counts as a request.

    ``key`` is the id as it was read; for a ``response``, the id of the question; None if it cannot be read.
    """

    def __init__(self, kind: MessageKind, key: RequestKey | None, code: int, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.key = key
        self.code = code
        self.reason = reason


def read_client(line: bytes) -> tuple[dict[str, Any], bytes]:
    """The client's message and the line to pass on; raises ``RefusedLine``.

    ``method`` is a string if it is there, ``id`` fits `is_id`, ``params`` is an object or null. Half a character
    (legal in JSON, but not in UTF-8) becomes a question mark.
    """
    try:
        message = json.loads(line.decode(), parse_constant=_refuse_constant)
    except RecursionError:
        seen = _outline(line)
        raise refusal(seen, PARSE_ERROR if seen is None else INVALID_REQUEST, _too_deep()) from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise refusal(_outline(line), PARSE_ERROR, "the line is not JSON") from None
    except ValueError:
        reason = f"the line contains NaN, Infinity or an integer of more than {MAX_DIGITS} digits"
        raise refusal(_outline(line), PARSE_ERROR, reason) from None
    if isinstance(message, list):
        raise refusal(message, INVALID_REQUEST, "MCP has no batches; send each message on its own line")
    if not isinstance(message, dict):
        raise refusal(message, INVALID_REQUEST, _NO_MESSAGE)
    if (wrong := _defect(message)) is not None:
        raise refusal(message, *wrong)
    if is_deep(line, message):
        raise refusal(message, INVALID_REQUEST, _too_deep())
    if b"\\ud" in line or b"\\uD" in line:
        line = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
        if len(line) > MAX_LINE:
            raise refusal(message, INVALID_REQUEST, _TOO_LONG)
        message = json.loads(line)  # the kept message is sent again and must not contain the half character
    return message, line


def read_cut(cut: Cut) -> RefusedLine:
    """The refusal of a line over the limit; its id is read if it is near the beginning or the end."""
    ends = _ends(cut)
    if "method" in ends and "id" not in ends:
        ends["id"] = None  # it may be in the part that was cut
    if not ends.keys() & {"method", "result", "error"}:
        ends.pop("id", None)  # the kind of message is not known
    return refusal(ends, INVALID_REQUEST, _TOO_LONG)


def refusal(message: Any, code: int, reason: str) -> RefusedLine:
    """The refusal of a message that has been read, in whole or only its outline."""
    if not isinstance(message, dict):
        return RefusedLine("request", None, code, reason)
    if isinstance(message.get("method"), str) and "id" not in message:
        return RefusedLine("notification", None, code, reason)
    key = message.get("id")
    if isinstance(key, bool) or not isinstance(key, str | int | float) or key in (math.inf, -math.inf):
        key = None
    kind: MessageKind = "response" if "method" not in message and message.keys() & {"result", "error"} else "request"
    return RefusedLine(kind, key, code, reason)


def is_id(key: object) -> bool:
    """Whether a request may have this id: it is stored in records and returned in UTF-8 answers."""
    if isinstance(key, str):
        return len(key) <= MAX_ID and (key.isascii() or not any("\ud800" <= char <= "\udfff" for char in key))
    return isinstance(key, int) and not isinstance(key, bool) and -(1 << ID_BITS - 1) <= key < 1 << ID_BITS - 1


def is_deep(line: bytes, value: Any) -> bool:
    """Whether ``value``, which was read from ``line``, is nested deeper than `MAX_DEPTH`."""
    # No more levels than opening brackets: that settles nearly every line, without a walk through its values.
    bound = line.count(b"{") + line.count(b"[")
    if bound <= MAX_DEPTH:
        return False
    # `},{` closes one object and opens the next: at most one of the two encloses the deepest value. Inside a string,
    # it adds one bracket to the count and takes one away.
    if bound - sum(line.count(neighbours) for neighbours in _NEIGHBOURS) <= MAX_DEPTH:
        return False
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) in _NESTED  # twice as fast as isinstance, and JSON has no subclasses
        ]
        if not level:
            return False
    return True


def _defect(message: dict[str, Any]) -> tuple[int, str] | None:
    """Error code and reason if a message is refused, its depth aside; None for a valid message."""
    if message.get("jsonrpc") != "2.0":
        return INVALID_REQUEST, _NO_MESSAGE
    if "method" not in message:
        if "id" not in message or not message.keys() & {"result", "error"}:
            return INVALID_REQUEST, _NO_MESSAGE
        return None if is_id(message["id"]) else (INVALID_REQUEST, _ID_FORM)
    if not isinstance(message["method"], str):
        return INVALID_REQUEST, "method must be a string"
    if message.get("result") is not None or message.get("error") is not None:
        return INVALID_REQUEST, "a message must have exactly one of method, result and error"
    if "id" in message and not is_id(message["id"]):
        return INVALID_REQUEST, _ID_FORM
    if not isinstance(message.get("params"), dict | None):
        return INVALID_PARAMS, "params must be an object"
    return None


def _outline(line: bytes) -> Any:
    """A message that cannot be read as a whole, with null for each nested value; None if that fails too."""
    # Escaped quotes go first: then each string is the text between two quotes.
    shown = line.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    parts: list[bytes] = []
    depth = begin = 0
    for match in _STRUCTURE.finditer(shown):
        run = match[0]
        before = depth
        if run[:1] in b"[{":
            depth += len(run)
            if before < 2 <= depth:
                parts += [line[begin : match.start() + 1 - before], b"null"]
        elif run[:1] in b"]}":
            depth -= len(run)
            if depth < 2 <= before:
                begin = match.start() + before - 1
    if depth >= 2:
        return None
    parts.append(line[begin:])
    try:
        text = b"".join(parts).removeprefix(b"\xef\xbb\xbf").decode(errors="surrogateescape")
        message = json.loads(text, strict=False, parse_int=_int, parse_constant=lambda _name: None)
    except (ValueError, RecursionError):
        return None
    if isinstance(message, dict):
        key = message.get("id")
        if isinstance(key, str) and any("\udc80" <= char <= "\udcff" for char in key):
            message["id"] = None  # bytes that are not UTF-8 cannot be returned unchanged
    return message


def _ends(cut: Cut) -> dict[str, Any]:
    """The members of a message before its first nested value, and the scalar members at its end."""
    first: dict[str, Any] = {}
    at = cut.head.find(b"{") + 1
    while at > 0 and (member := _FIRST.match(cut.head, at)) is not None:
        first[member[1].decode()] = _scalar(member[2])
        at = member.end() + 1 if member[2] is not None else 0
    last: dict[str, Any] = {}
    tail = cut.tail
    while (member := _LAST.search(tail)) is not None:
        last.setdefault(member[1].decode(), _scalar(member[2]))
        tail = tail[: member.start()] + b"}"
    return first | last


def _scalar(text: bytes | None) -> Any:
    try:
        return None if text is None else json.loads(text, parse_int=_int)
    except ValueError:
        return None


def _int(text: str) -> int | None:
    return int(text) if len(text) <= MAX_DIGITS else None


def _too_deep() -> str:
    return f"a message may be nested at most {MAX_DEPTH} levels deep"


def _refuse_constant(name: str) -> None:
    raise ValueError(name)
