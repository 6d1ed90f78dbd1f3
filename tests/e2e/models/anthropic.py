"""The Anthropic messages API as Claude Code uses it."""

from __future__ import annotations

import json
import uuid
from typing import Any

from tests.e2e.models.turn import Call, Reply, Talk, Tool, Turn, parsed, sse, text_of


def read(path: str, body: dict[str, Any]) -> Turn:
    """A request to ``/v1/messages``."""
    talk = Talk()
    for message in body.get("messages") or []:
        content = message.get("content")
        if isinstance(content, str):
            talk.text(message["role"], content)
            continue
        for block in content or []:
            kind = block.get("type")
            if kind == "tool_use":
                talk.call(Call(name=block["name"], arguments=parsed(block.get("input")), id=block["id"]))
            elif kind == "tool_result":
                text = text_of(block.get("content"))
                talk.result(block["tool_use_id"], text, failed=bool(block.get("is_error")))
            elif kind == "text":
                talk.text(message["role"], block["text"])
    tools = tuple(
        Tool(name=one["name"], schema=one.get("input_schema") or {}, description=one.get("description", ""))
        for one in body.get("tools") or []
        if "name" in one
    )
    side = None if tools else "title"
    if "count_tokens" in path:
        side = "count_tokens"
    system = text_of(body.get("system"))
    if "create a detailed summary of the conversation" in text_of((body.get("messages") or [{}])[-1].get("content")):
        side = "compression"
    return Turn(
        "claude", body.get("model", ""), system, talk.messages(), tools,
        side_call=side, stream=bool(body.get("stream")),
    )  # fmt: skip


def write(turn: Turn, reply: Reply) -> tuple[str, bytes]:
    """A whole message, streamed if asked so."""
    tokens = reply.tokens or 0
    if turn.side_call == "count_tokens":
        return "application/json", json.dumps({"input_tokens": tokens}).encode()
    blocks: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
    for call in reply.calls:
        key = f"toolu_{uuid.uuid4().hex[:24]}"
        blocks.append({"type": "tool_use", "id": key, "name": call.name, "input": call.arguments})
    message = {
        "id": f"msg_{uuid.uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": turn.model,
        "content": blocks,
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": tokens, "output_tokens": 10},
    }
    if not turn.stream:
        return "application/json", json.dumps(message).encode()
    start = {**message, "content": [], "stop_reason": None}
    events: list[tuple[str, Any]] = [("message_start", {"message": start})]
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            empty = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events.append(("content_block_start", {"index": index, "content_block": empty}))
        events.append(("content_block_delta", {"index": index, "delta": delta}))
        events.append(("content_block_stop", {"index": index}))
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events.append(("message_delta", {"delta": end, "usage": {"output_tokens": 10}}))
    events.append(("message_stop", {}))
    return "text/event-stream", sse([(name, {"type": name, **data}) for name, data in events])
