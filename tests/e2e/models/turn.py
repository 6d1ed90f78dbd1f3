"""What every protocol is turned into and made from: one request of a CLI to its model, and the model's reply.

A protocol module (`gemini`, `anthropic`, `responses`, `chat`) has ``read(path, body) -> Turn`` and
``write(turn, reply) -> tuple[str, bytes]`` (content type and body of a reply with status 200).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["gemini", "claude", "codex", "opencode"]
KINDS: tuple[Kind, ...] = ("gemini", "claude", "codex", "opencode")


@dataclass(frozen=True)
class Tool:
    """A tool that a CLI offers its model; ``name`` with the CLI's own prefix, ``namespace`` with Codex only."""

    name: str
    schema: dict[str, Any] = field(default_factory=dict)
    description: str = ""
    namespace: str = ""


@dataclass(frozen=True)
class Call:
    """A tool call of the model."""

    name: str
    arguments: dict[str, Any]
    id: str = ""
    namespace: str = ""

    def is_of(self, suffix: str) -> bool:
        """Whether it calls the tool of that name, under whatever prefix."""
        return self.name.endswith(suffix)


@dataclass(frozen=True)
class Result:
    """What a call came back with: the text the model sees, and ``value``, the JSON object in it or None."""

    call: Call
    text: str
    value: dict[str, Any] | None = None
    failed: bool = False


@dataclass(frozen=True)
class Message:
    """One side's part of the conversation; what one side says in a row is one message.

    A user message may hold text, results of calls, or both (a note that the CLI adds to a result).
    """

    role: Literal["user", "assistant"]
    text: str = ""
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()


@dataclass(frozen=True)
class Turn:
    """One request: whole conversation, tools on offer, and ``side_call``, what it is when it is not the main loop."""

    kind: Kind
    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    side_call: str | None = None
    stream: bool = True

    def tool(self, suffix: str) -> Tool | None:
        """The tool of that name, under whatever prefix the CLI gave it."""
        return next((tool for tool in self.tools if tool.name.endswith(suffix)), None)

    def said(self) -> str:
        """All that was told to the model outside of tool results."""
        return "\n".join([self.system, *(message.text for message in self.messages if message.role == "user")])


@dataclass(frozen=True)
class Reply:
    """What the model answers: text, calls, or trouble.

    ``status`` other than 200 is an HTTP error with ``headers`` and ``body``; ``hang`` never answers; ``hold`` names a
    gate that must open before the answer goes out. ``tokens`` is the context size that the answer claims; None: a
    quarter of the request's bytes.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    hang: bool = False
    hold: str = ""
    tokens: int | None = None


def value_of(text: str) -> dict[str, Any] | None:
    """The JSON object in a tool's answer as any CLI shows it: bare, wrapped, headed, or as a string in ``result``."""
    # Whatever a CLI puts around the JSON has no brace in front of it.
    start = text.find("{")
    if start < 0:
        return None
    try:
        value, _end = json.JSONDecoder().raw_decode(text[start:])
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    wrapped = value.get("result")
    if len(value) == 1 and isinstance(wrapped, str) and wrapped.lstrip().startswith("{"):
        return value_of(wrapped)
    return value


_CODE = re.compile(r'\\*"code\\*"\s*:\s*\\*"([a-z_]+)\\*"')


def error_of(text: str) -> dict[str, Any] | None:
    """The error in a failed call's answer: whole where it stands alone, else its code, however deep it is quoted."""
    value = value_of(text)
    if value is not None and "error" in value:
        return value
    found = _CODE.search(text)
    return {"error": {"code": found[1]}} if found else None


class Talk:
    """Collects a conversation in order; what one side says in a row becomes one message."""

    def __init__(self) -> None:
        self._messages: list[dict[str, Any]] = []
        self._calls: dict[str, Call] = {}

    def _open(self, role: str) -> dict[str, Any]:
        if not self._messages or self._messages[-1]["role"] != role:
            self._messages.append({"role": role, "text": [], "calls": [], "results": []})
        return self._messages[-1]

    def text(self, role: str, text: str) -> None:
        """Somebody says something."""
        if text:
            self._open("assistant" if role in {"assistant", "model"} else "user")["text"].append(text)

    def call(self, call: Call) -> None:
        """The model calls a tool."""
        self._open("assistant")["calls"].append(call)
        self._calls[call.id] = call

    def result(self, call_id: str, text: str, *, failed: bool = False, name: str = "") -> None:
        """A call comes back."""
        call = self._calls.get(call_id) or Call(name=name, arguments={}, id=call_id)
        result = Result(call=call, text=text, value=error_of(text) if failed else value_of(text), failed=failed)
        self._open("user")["results"].append(result)

    def unanswered(self, name: str) -> str:
        """The id of the oldest call of that tool without a result; for protocols whose results carry no id."""
        answered = {result.call.id for message in self._messages for result in message["results"]}
        return next((key for key, call in self._calls.items() if call.name == name and key not in answered), "")

    def messages(self) -> tuple[Message, ...]:
        """The conversation so far."""
        return tuple(
            Message(
                role=one["role"],
                text="\n".join(one["text"]),
                calls=tuple(one["calls"]),
                results=tuple(one["results"]),
            )
            for one in self._messages
        )


def parsed(arguments: Any) -> dict[str, Any]:
    """A call's arguments, which some protocols carry as a string."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            return {}
    return arguments if isinstance(arguments, dict) else {}


def text_of(content: Any) -> str:
    """The text of a string, of a block, or of a list of blocks."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return str(content.get("text") or content.get("content") or "")
    if isinstance(content, list):
        return "\n".join(text for text in (text_of(one) for one in content) if text)
    return ""


def sse(events: list[tuple[str | None, Any]]) -> bytes:
    """Server-sent events: (name or None, JSON value or text)."""
    lines = []
    for name, data in events:
        if name:
            lines.append(f"event: {name}\n")
        lines.append(f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n")
    return "".join(lines).encode()
