"""The OpenAI responses API as Codex uses it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from typing import Any

from tests.e2e.models.turn import Call, Reply, Talk, Tool, Turn, parsed, sse, text_of


def read(path: str, body: dict[str, Any]) -> Turn:
    """A request to ``/v1/responses``."""
    talk = Talk()
    system = [text_of(body.get("instructions"))]
    items = body.get("input") or []
    if isinstance(items, str):
        items = [{"type": "message", "role": "user", "content": items}]
    for item in items:
        kind = item.get("type", "message")
        if kind in {"function_call", "custom_tool_call"}:
            arguments = parsed(item.get("arguments") or item.get("input"))
            space = item.get("namespace") or ""
            talk.call(Call(name=item["name"], arguments=arguments, id=item["call_id"], namespace=space))
        elif kind in {"function_call_output", "custom_tool_call_output"}:
            output = item.get("output")
            if isinstance(output, dict):
                output = output.get("content") or output.get("body") or json.dumps(output)
            text = text_of(output)
            talk.result(item["call_id"], text, failed=_failed(text))
        elif kind == "message" and item.get("role") in {"developer", "system"}:
            system.append(text_of(item.get("content")))
        elif kind == "message":
            talk.text(item["role"], text_of(item.get("content")))
    tools = tuple(_tools(body.get("tools") or []))
    side = None if tools else "title"
    if "CONTEXT CHECKPOINT COMPACTION" in json.dumps(items[-1:]):
        side = "compression"
    return Turn(
        "codex", body.get("model", ""), "\n".join(system), talk.messages(), tools,
        side_call=side, stream=bool(body.get("stream")),
    )  # fmt: skip


def _failed(text: str) -> bool:
    return text.startswith(("tool call error", "unsupported call", "failed to parse function arguments"))


def _tools(listed: list[dict[str, Any]]) -> Iterable[Tool]:
    for one in listed:
        if one.get("type") == "namespace":
            for inner in one.get("tools") or []:
                yield Tool(
                    name=inner["name"],
                    schema=inner.get("parameters") or {},
                    description=inner.get("description", ""),
                    namespace=one["name"],
                )
        elif "name" in one:
            yield Tool(name=one["name"], schema=one.get("parameters") or {}, description=one.get("description", ""))


def write(turn: Turn, reply: Reply) -> tuple[str, bytes]:
    """Created, each item added and done, completed."""
    items: list[dict[str, Any]] = []
    if reply.text or not reply.calls:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        items.append({"type": "message", "role": "assistant", "status": "completed", "content": content})
    for call in reply.calls:
        one = {"type": "function_call", "name": call.name, "arguments": json.dumps(call.arguments)}
        one |= {"call_id": f"call_{uuid.uuid4().hex[:24]}", "status": "completed"}
        items.append(one | ({"namespace": call.namespace} if call.namespace else {}))
    for item in items:
        item["id"] = f"item_{uuid.uuid4().hex[:24]}"
    tokens = reply.tokens or 0
    answer = {
        "id": f"resp_{uuid.uuid4().hex[:24]}",
        "object": "response",
        "created_at": 0,
        "model": turn.model,
        "status": "in_progress",
        "output": [],
    }
    usage = {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens + 10,
    }
    whole = {**answer, "status": "completed", "output": items, "usage": usage}
    if not turn.stream:
        return "application/json", json.dumps(whole).encode()
    events: list[tuple[str, Any]] = [("response.created", {"response": answer})]
    for index, item in enumerate(items):
        events.append(("response.output_item.added", {"output_index": index, "item": item}))
        if item["type"] == "message":
            place = {"item_id": item["id"], "output_index": index, "content_index": 0}
            events.append(("response.output_text.delta", {**place, "delta": reply.text}))
        events.append(("response.output_item.done", {"output_index": index, "item": item}))
    events.append(("response.completed", {"response": whole}))
    return "text/event-stream", sse([(name, {"type": name, **data}) for name, data in events])
