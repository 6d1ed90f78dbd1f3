"""The limits of requests, and the judgement of a client's line: passed on, or refused with the id it was asked under.

The relay and the daemon judge alike, so that no line is passed on that nobody answers. Pure; standard library only,
because every relay imports it.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Literal

from orchestrator.edge.wire_format import Cut

MAX_LINE = 32 << 20
"""Bytes of one message. The daemon itself takes twice as much, so that it never ends a relay's connection for it."""
MAX_DEPTH = 100
"""Levels of objects and arrays, the message itself included. Half of what the SDK and some clients can read: what a
call brings comes back inside records and answers."""
MAX_ID = 256
"""Characters of an id that is a string. The ids of waiting requests stand in the hello to a new daemon."""
ID_BITS = 64
"""Bits of an id that is an integer, its sign included: what a record can hold."""
MAX_DIGITS = 4300
"""Digits of an integer: more of them neither Python nor the SDK reads."""

PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS = -32700, -32600, -32602

BUSY = "a request with this id has no answer yet, and an id has only one; this request was not run"
"""Why a second request of an id is refused. The refusal bears no id: the answer to the first one will."""

Key = str | float
Kind = Literal["request", "notification", "response"]

_ID_FORM = f"an id is a string of at most {MAX_ID} characters or an integer of {ID_BITS} bits"
_TOO_LONG = f"a message may have {MAX_LINE} bytes; put more into files"
_NO_MESSAGE = "the line is no JSON-RPC 2.0 message"

_NESTED = (dict, list)
_NEIGHBOURS = (b"},{", b"}, {")
_STRUCTURE = re.compile(rb'"[^"]*"?|[\[{]+|[\]}]+')
_SCALAR = rb'(?:"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null)'
_FIRST = re.compile(rb'\s*"([a-z]+)"\s*:\s*(?:(%s)\s*(?=[,}])|[\[{])' % _SCALAR)
_LAST = re.compile(rb'[,{]\s*"(id|jsonrpc|method)"\s*:\s*(%s)\s*\}\s*$' % _SCALAR)


class RefusedLine(Exception):
    """A line that is not passed on. Only a ``request`` is answered; what is no message at all counts as one.

    ``key`` is the id as it was read; for a ``response``, the id of the question; None if it cannot be read.
    """

    def __init__(self, kind: Kind, key: Key | None, code: int, reason: str) -> None:
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
        raise refusal(seen, PARSE_ERROR if seen is None else INVALID_REQUEST, _deep()) from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise refusal(_outline(line), PARSE_ERROR, "the line is not JSON") from None
    except ValueError:
        reason = f"the line has NaN, Infinity or an integer of more than {MAX_DIGITS} digits"
        raise refusal(_outline(line), PARSE_ERROR, reason) from None
    if isinstance(message, list):
        raise refusal(message, INVALID_REQUEST, "batches are not part of MCP")
    if not isinstance(message, dict):
        raise refusal(message, INVALID_REQUEST, _NO_MESSAGE)
    if (wrong := _wrong(message)) is not None:
        raise refusal(message, *wrong)
    if is_deep(line, message):
        raise refusal(message, INVALID_REQUEST, _deep())
    if b"\\ud" in line or b"\\uD" in line:
        line = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
        if len(line) > MAX_LINE:
            raise refusal(message, INVALID_REQUEST, _TOO_LONG)
        message = json.loads(line)  # what is kept of it is sent again, and must not bring the half back
    return message, line


def read_cut(cut: Cut) -> RefusedLine:
    """The refusal of a line over the limit; its id is read if it stands near the beginning or the end."""
    ends = _ends(cut)
    if "method" in ends and "id" not in ends:
        ends["id"] = None  # it may stand in between
    if not ends.keys() & {"method", "result", "error"}:
        ends.pop("id", None)  # nobody knows what it is the id of
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
    kind: Kind = "response" if "method" not in message and message.keys() & {"result", "error"} else "request"
    return RefusedLine(kind, key, code, reason)


def is_id(key: object) -> bool:
    """Whether a request may have this id: it becomes a part of records, and comes back in an answer in UTF-8."""
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


def _wrong(message: dict[str, Any]) -> tuple[int, str] | None:
    """The code and reason for which a message is refused whatever its depth; None for a good one."""
    if message.get("jsonrpc") != "2.0":
        return INVALID_REQUEST, _NO_MESSAGE
    if "method" not in message:
        if "id" not in message or not message.keys() & {"result", "error"}:
            return INVALID_REQUEST, _NO_MESSAGE
        return None if is_id(message["id"]) else (INVALID_REQUEST, _ID_FORM)
    if not isinstance(message["method"], str):
        return INVALID_REQUEST, "a method is a string"
    if message.get("result") is not None or message.get("error") is not None:
        return INVALID_REQUEST, "a message has a method, a result or an error, and only one of them"
    if "id" in message and not is_id(message["id"]):
        return INVALID_REQUEST, _ID_FORM
    if not isinstance(message.get("params"), dict | None):
        return INVALID_PARAMS, "params is an object"
    return None


def _outline(line: bytes) -> Any:
    """A message that cannot be read as a whole, with null for all that is nested in it; None if that fails too."""
    # Escaped quotes go first: then a string is what stands between two quotes, however long it is.
    shown = line.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    kept: list[bytes] = []
    depth = begin = 0
    for found in _STRUCTURE.finditer(shown):
        run = found[0]
        before = depth
        if run[:1] in b"[{":
            depth += len(run)
            if before < 2 <= depth:
                kept += [line[begin : found.start() + 1 - before], b"null"]
        elif run[:1] in b"]}":
            depth -= len(run)
            if depth < 2 <= before:
                begin = found.start() + before - 1
    if depth >= 2:
        return None
    kept.append(line[begin:])
    try:
        text = b"".join(kept).removeprefix(b"\xef\xbb\xbf").decode(errors="surrogateescape")
        message = json.loads(text, strict=False, parse_int=_int, parse_constant=lambda _name: None)
    except (ValueError, RecursionError):
        return None
    if isinstance(message, dict):
        key = message.get("id")
        if isinstance(key, str) and any("\udc80" <= char <= "\udcff" for char in key):
            message["id"] = None  # bytes that are no UTF-8 cannot be given back as they came
    return message


def _ends(cut: Cut) -> dict[str, Any]:
    """The members of a message that stand before its first nested value, and the plain ones at its very end."""
    found: dict[str, Any] = {}
    at = cut.head.find(b"{") + 1
    while at > 0 and (member := _FIRST.match(cut.head, at)) is not None:
        found[member[1].decode()] = _scalar(member[2])
        at = member.end() + 1 if member[2] is not None else 0
    last: dict[str, Any] = {}
    tail = cut.tail
    while (member := _LAST.search(tail)) is not None:
        last.setdefault(member[1].decode(), _scalar(member[2]))
        tail = tail[: member.start()] + b"}"
    return found | last


def _scalar(text: bytes | None) -> Any:
    try:
        return None if text is None else json.loads(text, parse_int=_int)
    except ValueError:
        return None


def _int(text: str) -> int | None:
    return int(text) if len(text) <= MAX_DIGITS else None


def _deep() -> str:
    return f"a message may be nested {MAX_DEPTH} levels deep"


def _refuse_constant(name: str) -> None:
    raise ValueError(name)
