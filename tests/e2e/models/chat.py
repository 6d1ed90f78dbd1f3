"""The OpenAI chat completions API as opencode uses it."""

from __future__ import annotations

import json
import uuid
from typing import Any

from tests.e2e.models.turn import Call, Reply, Talk, Tool, Turn, parsed, sse, text_of


def read(path: str, body: dict[str, Any]) -> Turn:
    """A request to ``/v1/chat/completions``."""
    talk = Talk()
    system = []
    for message in body.get("messages") or []:
        role = message["role"]
        text = text_of(message.get("content"))
        if role in {"system", "developer"}:
            system.append(text)
        elif role == "tool":
            talk.result(message["tool_call_id"], text, failed=_failed(text))
        else:
            talk.text(role, text)
        for one in message.get("tool_calls") or []:
            arguments = parsed(one["function"].get("arguments"))
            talk.call(Call(name=one["function"]["name"], arguments=arguments, id=one["id"]))
    tools = tuple(
        Tool(
            name=one["function"]["name"],
            schema=one["function"].get("parameters") or {},
            description=one["function"].get("description", ""),
        )
        for one in body.get("tools") or []
        if "function" in one
    )
    side = None
    if not tools:
        side = "title" if "title" in "\n".join(system)[:400].lower() else "compression"
    return Turn(
        "opencode", body.get("model", ""), "\n".join(system), talk.messages(), tools,
        side_call=side, stream=bool(body.get("stream")),
    )  # fmt: skip


def _failed(text: str) -> bool:
    return text.startswith(("Error", "MCP error")) or "Model tried to call unavailable tool" in text


def write(turn: Turn, reply: Reply) -> tuple[str, bytes]:
    """A whole completion, as chunks if asked so."""
    calls = [
        {
            "index": index,
            "id": f"call_{uuid.uuid4().hex[:24]}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for index, call in enumerate(reply.calls)
    ]
    finish = "tool_calls" if calls else "stop"
    tokens = reply.tokens or 0
    usage = {"prompt_tokens": tokens, "completion_tokens": 10, "total_tokens": tokens + 10}
    head = {"id": f"chatcmpl-{uuid.uuid4().hex[:24]}", "created": 0, "model": turn.model}
    said: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if calls:
        said["tool_calls"] = calls
    if not turn.stream:
        choice = {"index": 0, "message": said, "finish_reason": finish}
        whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        return "application/json", json.dumps(whole).encode()
    chunk = {**head, "object": "chat.completion.chunk"}
    return "text/event-stream", sse(
        [
            (None, {**chunk, "choices": [{"index": 0, "delta": said, "finish_reason": None}]}),
            (None, {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage}),
            (None, "[DONE]"),
        ]
    )
